//! The Secrets of a database that the operator runs: made once, followed when they change, and kept.

use std::collections::BTreeMap;

use k8s_openapi::{
    ByteString,
    api::{apps::v1::StatefulSet, batch::v1::Job, core::v1::Secret, networking::v1::NetworkPolicy},
};
use kube::{
    ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use readstates_operator_api::ReadStateCluster;
use serde_json::json;

use crate::{
    chat::{cluster, names, running, until_done},
    database::{up, with_members},
    world::{World, condition, waiting, with_world},
};

async fn content(world: &World, name: &str) -> BTreeMap<String, ByteString> {
    world.get::<Secret>(name).await.data.unwrap()
}

async fn set_password(world: &World, name: &str, password: &str) {
    let patch = Patch::Merge(json!({ "stringData": { "password": password } }));
    let params = PatchParams::default();
    world
        .api::<Secret>()
        .patch(name, &params, &patch)
        .await
        .unwrap();
}

/// The mark of the login that pods are made with.
async fn mark(world: &World) -> String {
    let set = world.get::<StatefulSet>("chat").await;
    let template = set.spec.unwrap().template.metadata.unwrap();
    template.annotations.unwrap()["readstates.dev/login"].clone()
}

#[test]
fn secrets_are_made_once_and_shown_to_nobody() {
    with_world(async |world| {
        let chat = running(&world, 2).await;
        let made = [
            content(&world, "chat-db-login").await,
            content(&world, "chat-db-superuser").await,
        ];
        assert_eq!(made[0]["username"].0, b"readstates");
        assert_eq!(made[1]["username"].0, b"cassandra");
        assert_eq!(made[0]["password"].0.len(), 64);
        assert_ne!(made[0]["password"], made[1]["password"]);
        until_done(&world).await;
        assert_eq!(content(&world, "chat-db-login").await, made[0]);
        assert_eq!(content(&world, "chat-db-superuser").await, made[1]);

        // As the volumes do, they stay when the cluster goes.
        for name in ["chat-db-login", "chat-db-superuser"] {
            let secret = world.get::<Secret>(name).await;
            assert!(secret.owner_references().is_empty());
        }
        let password = String::from_utf8(made[0]["password"].0.clone()).unwrap();
        let objects = [
            serde_json::to_string(&chat).unwrap(),
            serde_json::to_string(&world.get::<StatefulSet>("chat").await).unwrap(),
        ];
        assert!(objects.iter().all(|o| !o.contains(&password)));
    });
}

#[test]
fn another_password_is_set_in_the_database_and_then_handed_to_cache_pods() {
    with_world(async |world| {
        running(&world, 2).await;
        let (jobs, before) = (names::<Job>(&world).await, mark(&world).await);
        // A label is no password.
        let labelled = Patch::Merge(json!({ "metadata": { "labels": { "a": "b" } } }));
        let secrets = world.api::<Secret>();
        let params = PatchParams::default();
        secrets
            .patch("chat-db-login", &params, &labelled)
            .await
            .unwrap();
        let chat = world.reconcile("chat").await;
        assert_eq!(waiting(&chat), None);
        assert_eq!(names::<Job>(&world).await, jobs);

        set_password(&world, "chat-db-login", "another").await;
        world.reconcile("chat").await;
        let chat = world.reconcile("chat").await;
        assert_eq!(waiting(&chat).unwrap(), "SchemaPending");
        assert_ne!(names::<Job>(&world).await, jobs);
        // No pod is given a password that the database does not know.
        assert_eq!(mark(&world).await, before);

        let pods = async || {
            let pods = world.api::<k8s_openapi::api::core::v1::Pod>();
            let pod = pods.get("chat-0").await.unwrap();
            pod.metadata.uid
        };
        let old = pods().await;
        world.finish_jobs().await;
        until_done(&world).await;
        assert_ne!(mark(&world).await, before);
        assert_ne!(pods().await, old);
    });
}

#[test]
fn a_login_that_is_given_is_waited_for_and_used() {
    with_world(async |world| {
        let mut given = cluster(1);
        given["spec"]["database"]["secretRef"] = json!({ "name": "mine" });
        world.create(&given).await.unwrap();
        for _ in 0..3 {
            world.reconcile("chat").await;
            world.settle().await;
        }
        let chat = world.reconcile("chat").await;
        assert_eq!(waiting(&chat).unwrap(), "SecretMissing");
        assert!(names::<Job>(&world).await.is_empty());
        assert!(
            !names::<Secret>(&world)
                .await
                .contains(&"chat-db-login".to_owned())
        );

        let mut mine = Secret::default();
        mine.metadata.name = Some("mine".to_owned());
        let data = [("username", "talk"), ("password", "p")];
        mine.string_data = Some(data.map(|(k, v)| (k.into(), v.into())).into());
        world
            .api::<Secret>()
            .create(&PostParams::default(), &mine)
            .await
            .unwrap();
        let chat = world.reconcile("chat").await;
        assert_eq!(waiting(&chat).unwrap(), "SchemaPending");
        let job = names::<Job>(&world).await.remove(0);
        let job = serde_json::to_string(&world.get::<Job>(&job).await).unwrap();
        assert!(job.contains("\"secretName\":\"mine\""), "{job}");
    });
}

#[test]
fn a_database_from_before_goes_on_without_a_login_until_its_update_is_consented_to() {
    with_world(async |world| {
        running(&world, 1).await;
        // As an operator made it that knew no logins.
        for rack in ["chat-db-a", "chat-db-b"] {
            let sets = world.api::<StatefulSet>();
            let none = json!({
                "metadata": { "annotations": { "readstates.dev/template-hash": "before" } },
                "spec": { "template": { "metadata": {
                    "annotations": { "readstates.dev/authentication": null },
                } } },
            });
            let params = PatchParams::default();
            sets.patch(rack, &params, &Patch::Merge(none))
                .await
                .unwrap();
        }
        world.settle().await;
        let chat = until_done(&world).await;
        let update = condition(&chat, "RequiresUpdate");
        assert!(update.starts_with("True UpdateAvailable"), "{update}");
        let superuser = async || {
            let job = names::<Job>(&world).await.remove(0);
            let job = serde_json::to_string(&world.get::<Job>(&job).await).unwrap();
            job.contains("chat-db-superuser")
        };
        assert!(!superuser().await);
        assert!(condition(&chat, "Available").starts_with("True"));

        let name = update.split('=').nth(1).unwrap().split(' ').next().unwrap();
        let consent =
            json!({ "metadata": { "annotations": { "readstates.dev/update-database": name } } });
        let clusters = world.api::<ReadStateCluster>();
        let params = PatchParams::default();
        clusters
            .patch("chat", &params, &Patch::Merge(consent))
            .await
            .unwrap();
        let chat = until_done(&world).await;
        assert!(condition(&chat, "RequiresUpdate").starts_with("False"));
        assert!(superuser().await);
    });
}

#[test]
fn every_tier_has_its_network_policy_and_one_that_is_deleted_comes_back() {
    with_world(async |world| {
        running(&world, 1).await;
        let policies = async || names::<NetworkPolicy>(&world).await;
        let all = ["chat", "chat-db", "chat-schema"];
        assert_eq!(policies().await, all);
        let before = world
            .get::<NetworkPolicy>("chat-db")
            .await
            .resource_version();
        world.reconcile("chat").await;
        let after = world
            .get::<NetworkPolicy>("chat-db")
            .await
            .resource_version();
        assert_eq!(before, after);
        let api = world.api::<NetworkPolicy>();
        api.delete("chat", &DeleteParams::default()).await.unwrap();
        world.reconcile("chat").await;
        assert_eq!(policies().await, all);
    });
}

const SUPERUSER: &str = "chat-db-superuser";

#[test]
fn a_scylla_database_is_created_with_the_superuser_that_the_schema_job_logs_in_as() {
    with_world(async |world| {
        let mut scylla = with_members(1, 1);
        scylla["spec"]["database"]["engine"] = json!("Scylla");
        up(&world, &scylla).await;
        // Releases from 2026.2 on make none by themselves.
        let set = world.get::<StatefulSet>("chat-db-a").await;
        let pod = set.spec.unwrap().template.spec.unwrap();
        let args = pod.containers[0].args.clone().unwrap();
        let has = |option: &str, value: &str| {
            let mut pairs = args.windows(2);
            pairs.any(|pair| pair[0] == option && pair[1].starts_with(value))
        };
        assert!(has("--auth-superuser-name", "cassandra"), "{args:?}");
        assert!(has("--auth-superuser-salted-password", "$6$"), "{args:?}");
        // The Job gives it another password, which nobody else knows.
        let jobs = world.api::<Job>().list(&ListParams::default()).await;
        let job = jobs.unwrap().items.remove(0).spec.unwrap();
        let volumes = job.template.spec.unwrap().volumes.unwrap();
        let mut secrets = volumes.into_iter().filter_map(|v| v.secret?.secret_name);
        assert!(secrets.any(|name| name == SUPERUSER));
        let password = content(&world, SUPERUSER).await.remove("password").unwrap();
        assert!(password.0 != b"cassandra" && password.0.len() >= 16);
    });
}
