//! From nothing to a running cluster and through its changes, reconcile by reconcile.

use k8s_openapi::api::{
    apps::v1::StatefulSet,
    batch::v1::Job,
    core::v1::{ConfigMap, Secret, Service},
    policy::v1::PodDisruptionBudget,
};
use kube::{
    ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use readstates_operator_api::{ReadStateCluster, ReadStateRing};
use serde_json::{Value, json};

use crate::world::{World, condition, waiting, with_world};

fn cluster(replicas: i32) -> Value {
    json!({
        "apiVersion": "readstates.dev/v1alpha1", "kind": "ReadStateCluster",
        "metadata": { "name": "chat" },
        "spec": { "replicas": replicas, "database": {
            "engine": "Cassandra", "replicationFactor": 1,
            "racks": [{ "name": "a" }, { "name": "b" }],
            "storage": { "size": "10Gi" },
            "resources": { "limits": { "cpu": "0.5", "memory": "2048Mi" } },
        } },
    })
}

/// A cluster that has come up.
async fn running(world: &World, replicas: i32) -> ReadStateCluster {
    world.create(&cluster(replicas)).await.unwrap();
    // Rack a, rack b, the schema Job, the cache, and a look at it.
    for _ in 0..5 {
        world.reconcile("chat").await;
        world.settle().await;
        world.finish_jobs().await;
    }
    world.reconcile("chat").await
}

async fn resize(world: &World, replicas: i32) {
    let scale = Patch::Merge(json!({ "spec": { "replicas": replicas } }));
    let api = world.api::<ReadStateCluster>();
    api.patch_scale("chat", &PatchParams::default(), &scale)
        .await
        .unwrap();
}

async fn ring(world: &World) -> (i64, usize) {
    let spec = world.get::<ReadStateRing>("chat").await.spec;
    (spec.number, spec.members.len())
}

async fn names<K>(world: &World) -> Vec<String>
where
    K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned,
{
    let found = world.api::<K>().list(&ListParams::default()).await.unwrap();
    found.items.iter().map(ResourceExt::name_any).collect()
}

#[test]
fn racks_then_schema_then_cache() {
    with_world(async |world| {
        world.create(&cluster(2)).await.unwrap();

        let chat = world.reconcile("chat").await;
        assert_eq!(names::<StatefulSet>(&world).await, ["chat-db-a"]);
        assert_eq!(waiting(&chat).unwrap(), "DatabaseNotReady");

        world.settle().await;
        world.reconcile("chat").await;
        assert_eq!(
            names::<StatefulSet>(&world).await,
            ["chat-db-a", "chat-db-b"]
        );
        assert!(names::<Job>(&world).await.is_empty());

        world.settle().await;
        let chat = world.reconcile("chat").await;
        assert_eq!(names::<Job>(&world).await.len(), 1);
        assert_eq!(waiting(&chat).unwrap(), "SchemaPending");
        assert!(world.cache_pods("chat").await.is_empty());

        world.finish_jobs().await;
        let chat = world.reconcile("chat").await;
        assert_eq!(
            names::<StatefulSet>(&world).await,
            ["chat", "chat-db-a", "chat-db-b"]
        );
        assert_eq!(ring(&world).await, (1, 2));
        assert_eq!(waiting(&chat).unwrap(), "CacheNotReady");

        world.settle().await;
        let chat = world.reconcile("chat").await;
        assert_eq!(waiting(&chat), None);
        for (type_, expected) in [
            ("Available", "True Serving: all 2 members serve their users"),
            (
                "Progressing",
                "False Reconciled: everything is as the spec says",
            ),
            ("Degraded", "False AsExpected: nothing is wrong"),
            (
                "CacheReady",
                "True AllReady: 2 cache pods are ready, 2 are wanted",
            ),
            ("DatabaseReady", "True AllReady: all members are ready"),
            (
                "RingStable",
                "True Stable: table 1 is in force at every member",
            ),
        ] {
            assert_eq!(condition(&chat, type_), expected);
        }
        let status = chat.status.unwrap();
        assert_eq!(
            (status.cache.as_str(), status.database.as_str()),
            ("2/2", "2/2")
        );
        assert_eq!(status.observed_generation, chat.metadata.generation);
    });
}

#[test]
fn at_rest_nothing_is_written() {
    with_world(async |world| {
        running(&world, 2).await;
        let versions = async || {
            let mut seen = Vec::new();
            for set in ["chat", "chat-db-a", "chat-db-b"] {
                seen.push(world.get::<StatefulSet>(set).await.resource_version());
            }
            for service in ["chat", "chat-members", "chat-db"] {
                seen.push(world.get::<Service>(service).await.resource_version());
            }
            seen.push(world.get::<ReadStateRing>("chat").await.resource_version());
            seen.push(
                world
                    .get::<ReadStateCluster>("chat")
                    .await
                    .resource_version(),
            );
            // A server-side apply of the same content would still move this one's time.
            seen.push(Some(format!(
                "{:?}",
                world.get::<Service>("chat").await.managed_fields()
            )));
            seen
        };
        let before = versions().await;
        world.reconcile("chat").await;
        assert_eq!(versions().await, before);
    });
}

#[test]
fn what_others_change_or_delete_is_put_back() {
    with_world(async |world| {
        running(&world, 2).await;
        let by_hand = PatchParams::default();
        let services = world.api::<Service>();
        let narrowed = Patch::Merge(json!({ "spec": { "selector": { "app": "web" } } }));
        services.patch("chat", &by_hand, &narrowed).await.unwrap();
        let owners =
            Patch::Merge(json!({ "metadata": { "labels": { "readstates.dev/cluster": null } } }));
        services.patch("chat-db", &by_hand, &owners).await.unwrap();
        let image = json!({ "spec": { "template": { "spec": {
            "containers": [{ "name": "database", "image": "evil" }],
        } } } });
        let sets = world.api::<StatefulSet>();
        sets.patch("chat-db-b", &by_hand, &Patch::Strategic(image))
            .await
            .unwrap();
        let budgets = world.api::<PodDisruptionBudget>();
        budgets
            .delete("chat", &DeleteParams::default())
            .await
            .unwrap();

        world.reconcile("chat").await;
        let selector = world
            .get::<Service>("chat")
            .await
            .spec
            .unwrap()
            .selector
            .unwrap();
        assert_eq!(
            selector.keys().collect::<Vec<_>>(),
            ["app.kubernetes.io/component", "readstates.dev/cluster"]
        );
        let labels = world.get::<Service>("chat-db").await.labels().clone();
        assert_eq!(labels["readstates.dev/cluster"], "chat");
        let set = world.get::<StatefulSet>("chat-db-b").await.spec.unwrap();
        let image = &set.template.spec.unwrap().containers[0].image;
        assert_eq!(image.as_deref(), Some("cassandra:5"));
        world.get::<PodDisruptionBudget>("chat").await;
    });
}

#[test]
fn what_the_spec_no_longer_says_is_taken_away() {
    with_world(async |world| {
        running(&world, 2).await;
        let mut picky = cluster(2);
        picky["spec"]["cache"] = json!({ "nodeSelector": { "disk": "fast" } });
        let selector = async || {
            let set = world.get::<StatefulSet>("chat").await.spec.unwrap();
            set.template.spec.unwrap().node_selector
        };
        // The schema Job runs where cache pods do, and so runs again first.
        for (spec, expected) in [(picky, true), (cluster(2), false)] {
            world.replace(spec).await.unwrap();
            for _ in 0..3 {
                world.reconcile("chat").await;
                world.finish_jobs().await;
            }
            assert_eq!(selector().await.is_some(), expected);
        }
    });
}

#[test]
fn members_change_only_when_every_pod_is_gone() {
    with_world(async |world| {
        running(&world, 3).await;
        resize(&world, 2).await;

        // Told to stop, under the old table.
        let chat = world.reconcile("chat").await;
        assert_eq!(
            world
                .get::<StatefulSet>("chat")
                .await
                .spec
                .unwrap()
                .replicas,
            Some(0)
        );
        assert_eq!(ring(&world).await, (1, 3));
        assert_eq!(waiting(&chat).unwrap(), "CacheStopping");
        assert!(condition(&chat, "RingStable").starts_with("False Changing"));

        // Still writing: nothing moves, however often we look.
        world.settle().await;
        for _ in 0..2 {
            world.reconcile("chat").await;
            assert_eq!(ring(&world).await, (1, 3));
            assert_eq!(world.cache_pods("chat").await.len(), 3);
        }

        // Gone: the new table is there before anything starts.
        world.let_go().await;
        assert!(world.cache_pods("chat").await.is_empty());
        world.reconcile("chat").await;
        assert_eq!(ring(&world).await, (2, 2));
        world.settle().await;
        let chat = world.reconcile("chat").await;
        assert_eq!(world.cache_pods("chat").await, ["chat-0", "chat-1"]);
        assert_eq!(waiting(&chat), None);
        assert!(condition(&chat, "RingStable").starts_with("True Stable"));
    });
}

#[test]
fn a_change_taken_back_half_way_ends_as_it_began() {
    with_world(async |world| {
        running(&world, 3).await;
        resize(&world, 1).await;
        world.reconcile("chat").await;
        world.settle().await;
        resize(&world, 3).await;
        world.reconcile("chat").await;
        world.let_go().await;
        let chat = world.reconcile("chat").await;
        assert_eq!(ring(&world).await, (1, 3));
        assert_eq!(world.cache_pods("chat").await.len(), 3);
        assert_eq!(waiting(&chat), None);
    });
}

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
fn a_paused_cluster_is_left_alone_and_still_looked_at() {
    with_world(async |world| {
        running(&world, 2).await;
        let mut paused = cluster(5);
        paused["spec"]["paused"] = json!(true);
        world.replace(paused).await.unwrap();
        world
            .api::<Service>()
            .delete("chat", &DeleteParams::default())
            .await
            .unwrap();

        let chat = world.reconcile("chat").await;
        assert_eq!(ring(&world).await, (1, 2));
        assert!(
            world
                .api::<Service>()
                .get_opt("chat")
                .await
                .unwrap()
                .is_none()
        );
        assert!(condition(&chat, "Progressing").starts_with("False Paused: spec.paused is true"));
        assert!(condition(&chat, "Available").starts_with("True Serving"));

        world.replace(cluster(2)).await.unwrap();
        world.reconcile("chat").await;
        world.get::<Service>("chat").await;
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
fn scylla_members_get_their_rack_from_a_file() {
    with_world(async |world| {
        let mut scylla = cluster(1);
        scylla["spec"]["database"]["engine"] = json!("Scylla");
        world.create(&scylla).await.unwrap();
        world.reconcile("chat").await;
        let file = world.get::<ConfigMap>("chat-db-a").await.data.unwrap();
        assert!(file["cassandra-rackdc.properties"].contains("rack=a"));
        world.get::<StatefulSet>("chat-db-a").await;
    });
}

#[test]
fn a_cluster_made_again_waits_for_what_the_first_one_left() {
    with_world(async |world| {
        // Nobody collects garbage here, so the children stay.
        running(&world, 1).await;
        let clusters = world.api::<ReadStateCluster>();
        clusters
            .delete("chat", &DeleteParams::default())
            .await
            .unwrap();
        world.create(&cluster(1)).await.unwrap();
        let chat = world.reconcile("chat").await;
        assert_eq!(waiting(&chat).unwrap(), "LeftoverObject");
        assert!(condition(&chat, "Degraded").starts_with("False"));
    });
}
