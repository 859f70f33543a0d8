//! Obstacles are waited for or reported, and named.

use k8s_openapi::api::{
    apps::v1::StatefulSet,
    batch::v1::Job,
    core::v1::{Secret, Service},
    networking::v1::NetworkPolicy,
};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use readstates_operator_api::ReadStateCluster;
use serde_json::json;

use crate::{
    chat::{cluster, names, resize, running, time_passes, until_done},
    faults::{Fault, Faults},
    gate::Gate,
    world::{condition, waiting, with_world},
};

#[test]
fn somebody_elses_object_is_not_touched_and_named() {
    with_world(async |world| {
        let mut theirs = Service::default();
        theirs.metadata.name = Some("chat".to_owned());
        theirs.spec = Some(serde_json::from_value(json!({ "ports": [{ "port": 80 }] })).unwrap());
        world
            .api::<Service>()
            .create(&PostParams::default(), &theirs)
            .await
            .unwrap();
        let before = world.get::<Service>("chat").await;

        world.create(&cluster(2)).await.unwrap();
        let chat = world.reconcile("chat").await;
        assert!(
            condition(&chat, "Degraded")
                .starts_with("True NameConflict: Service chat exists already"),
            "{}",
            condition(&chat, "Degraded")
        );
        assert_eq!(world.get::<Service>("chat").await, before);

        // Out of the way: it goes on.
        world
            .api::<Service>()
            .delete("chat", &DeleteParams::default())
            .await
            .unwrap();
        let chat = world.reconcile("chat").await;
        assert!(condition(&chat, "Degraded").starts_with("False AsExpected"));
    });
}

#[test]
fn what_the_schema_lets_through_is_reported_with_its_field() {
    with_world(async |world| {
        let mut odd = cluster(2);
        odd["spec"]["cache"] = json!({ "resources": { "limits": { "memory": "lots" } } });
        world.create(&odd).await.unwrap();
        let chat = world.reconcile("chat").await;
        assert_eq!(
            condition(&chat, "Degraded"),
            "True InvalidSpec: spec.cache.resources.limits.memory: \"lots\" is not a quantity, such \
             as 500m or 2Gi"
        );
        assert!(names::<StatefulSet>(&world).await.is_empty());
    });
}

#[test]
fn what_the_api_server_refuses_is_reported_with_its_words() {
    with_world(async |world| {
        let mut odd = cluster(2);
        let limits = json!({ "limits": { "memory": "1Gi" }, "requests": { "memory": "2Gi" } });
        odd["spec"]["database"]["resources"] = limits;
        world.create(&odd).await.unwrap();
        let chat = world.reconcile("chat").await;
        let words = condition(&chat, "Degraded");
        assert!(
            words.starts_with("True ApplyRejected: the API server refused StatefulSet chat-db-a:"),
            "{words}"
        );
        assert!(
            words.contains("must be less than or equal to memory limit"),
            "{words}"
        );
    });
}

#[test]
fn a_failed_schema_job_degrades_and_a_new_spec_cures_it() {
    with_world(async |world| {
        world.create(&cluster(2)).await.unwrap();
        for _ in 0..3 {
            world.reconcile("chat").await;
            world.settle().await;
        }
        world.fail_jobs("no host of chat-db answers").await;
        let chat = world.reconcile("chat").await;
        let words = condition(&chat, "Degraded");
        assert!(
            words.starts_with("True SchemaFailed: Job chat-schema-"),
            "{words}"
        );
        assert!(words.ends_with("no host of chat-db answers"), "{words}");

        let mut cured = cluster(2);
        cured["spec"]["image"] = json!("readstates:2");
        world.replace(cured).await.unwrap();
        let old = names::<Job>(&world).await;
        world.reconcile("chat").await;
        world.reconcile("chat").await;
        let new = names::<Job>(&world).await;
        assert_eq!(new.len(), 1);
        assert_ne!(new, old);
    });
}

#[test]
fn an_external_database_waits_for_its_login() {
    with_world(async |world| {
        let mut cluster = cluster(1);
        cluster["spec"]["database"] = json!({ "external": {
            "contactPoints": ["db.example"], "localDatacenter": "east", "replicationFactor": 3,
            "secretRef": { "name": "login" },
        } });
        world.create(&cluster).await.unwrap();
        let chat = world.reconcile("chat").await;
        assert_eq!(waiting(&chat).unwrap(), "SecretMissing");
        assert!(names::<Job>(&world).await.is_empty());

        let mut login = Secret::default();
        login.metadata.name = Some("login".to_owned());
        login.string_data = Some(
            [("username", "u"), ("password", "p")]
                .map(|(k, v)| (k.into(), v.into()))
                .into(),
        );
        world
            .api::<Secret>()
            .create(&PostParams::default(), &login)
            .await
            .unwrap();
        let chat = world.reconcile("chat").await;
        assert_eq!(waiting(&chat).unwrap(), "SchemaPending");
        assert_eq!(chat.status.unwrap().database, "external");
    });
}

#[test]
fn a_cluster_made_again_waits_for_what_the_first_one_left() {
    with_world(async |world| {
        // There is no garbage collection here, so the children stay.
        running(&world, 1).await;
        let clusters = world.api::<ReadStateCluster>();
        clusters
            .delete("chat", &DeleteParams::default())
            .await
            .unwrap();
        while clusters.get_opt("chat").await.unwrap().is_some() {
            world.reconcile_the_last("chat").await;
            time_passes(&world).await;
        }
        world.create(&cluster(1)).await.unwrap();
        let chat = world.reconcile("chat").await;
        assert_eq!(waiting(&chat).unwrap(), "LeftoverObject");
        assert!(condition(&chat, "Degraded").starts_with("False"));
    });
}

#[test]
fn what_is_refused_of_the_database_keeps_no_cache_from_scaling_and_all_of_it_is_told() {
    with_world(async |world| {
        running(&world, 1).await;
        // An object of the database is not ours all at once.
        let orphaned = json!({ "metadata": { "ownerReferences": null } });
        let (params, orphaned) = (PatchParams::default(), Patch::Merge(orphaned));
        let policies = world.api::<NetworkPolicy>();
        policies.patch("chat-db", &params, &orphaned).await.unwrap();
        resize(&world, 3).await;
        for _ in 0..12 {
            world.reconcile("chat").await;
            time_passes(&world).await;
        }
        let chat = world.reconcile("chat").await;
        assert_eq!(world.cache_pods("chat").await.len(), 3);
        assert!(condition(&chat, "CacheReady").starts_with("True"));
        let words = condition(&chat, "Degraded");
        let taken = "True NameConflict: NetworkPolicy chat-db exists already";
        assert!(words.starts_with(taken), "{words}");

        // And one of the cache: both are told, and no cache pod comes or goes.
        let services = world.api::<Service>();
        services.patch("chat", &params, &orphaned).await.unwrap();
        resize(&world, 4).await;
        let chat = world.reconcile("chat").await;
        let words = condition(&chat, "Degraded");
        assert!(
            words.contains("NetworkPolicy chat-db exists already"),
            "{words}"
        );
        assert!(words.contains("; Service chat exists already"), "{words}");
        assert_eq!(crate::chat::replicas(&world).await, 3);
    });
}

#[test]
fn a_kind_that_an_admission_webhook_fails_for_keeps_no_condition_from_moving() {
    with_world(async |world| {
        let failing = || Faults::each("/networkpolicies/chat", Fault::Failure);
        let gate = Gate::with(failing());
        let operator = world.operator_behind(&gate);
        world.create(&cluster(1)).await.unwrap();
        let names_it = async || {
            let failed = world.reconcile_by(&operator).await.unwrap_err();
            assert_eq!(failed.to_string(), "failed to write NetworkPolicy chat");
            let chat = world.get::<ReadStateCluster>("chat").await;
            let told = condition(&chat, "Progressing");
            let words =
                "True RequestFailed: failed to write NetworkPolicy chat: it went wrong because";
            assert!(told.starts_with(words), "{told}");
            chat
        };
        // The database comes up meanwhile, since its objects are written before.
        for _ in 0..8 {
            names_it().await;
            time_passes(&world).await;
        }
        let chat = names_it().await;
        assert_eq!(waiting(&chat).unwrap(), "RequestFailed");
        assert_eq!(chat.status.as_ref().unwrap().database, "2/2");
        assert!(condition(&chat, "CacheReady").starts_with("False"));

        *gate.faults() = Faults::default();
        until_done(&world).await;
        let policies = world.api::<NetworkPolicy>();
        let gone = DeleteParams::default();
        policies.delete("chat", &gone).await.unwrap();
        *gate.faults() = failing();
        let chat = names_it().await;
        assert!(condition(&chat, "CacheReady").starts_with("True"));
        *gate.faults() = Faults::default();
        until_done(&world).await;
        world.get::<NetworkPolicy>("chat").await;
    });
}

#[test]
fn a_secret_that_is_refused_is_named() {
    with_world(async |world| {
        let gate = Gate::with(Faults::each("/secrets", Fault::Forbidden));
        let operator = world.operator_behind(&gate);
        world.create(&cluster(1)).await.unwrap();
        world.reconcile_by(&operator).await.unwrap();
        let chat = world.get::<ReadStateCluster>("chat").await;
        let words = condition(&chat, "Degraded");
        let refused = "True ApplyRejected: the API server refused Secret chat-identity-ca: ";
        assert!(words.starts_with(refused), "{words}");
        assert_eq!(waiting(&chat).unwrap(), "IdentityPending");
        assert!(names::<StatefulSet>(&world).await.is_empty());
        *gate.faults() = Faults::default();
        until_done(&world).await;
    });
}
