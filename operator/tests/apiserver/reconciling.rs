//! From nothing to a running cluster and through its changes, reconcile by reconcile.

use k8s_openapi::api::{
    apps::v1::StatefulSet,
    batch::v1::Job,
    core::v1::{ConfigMap, Service},
    policy::v1::PodDisruptionBudget,
};
use kube::{
    ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
};
use readstates_operator_api::{ReadStateCluster, ReadStateRing};
use serde_json::json;

use crate::{
    chat::{cluster, names, replicas, running},
    world::{condition, waiting, with_world},
};

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

        // Racks that are complete have a partition above all their pods; their controller sees it.
        world.settle().await;
        world.finish_jobs().await;
        let chat = world.reconcile("chat").await;
        assert_eq!(
            names::<StatefulSet>(&world).await,
            ["chat", "chat-db-a", "chat-db-b"]
        );
        let ring = world.get::<ReadStateRing>("chat").await.spec;
        let owned = ring.owners.iter().filter(|owner| **owner >= 0).count();
        assert_eq!((ring.number, ring.members.len(), owned), (1, 0, 0));
        assert_eq!(waiting(&chat).unwrap(), "CacheNotReady");

        world.settle().await;
        let chat = world.reconcile("chat").await;
        assert_eq!(waiting(&chat).unwrap(), "SlotsUnowned");
        world.fleet.act().await;
        let chat = world.reconcile("chat").await;
        assert_eq!(waiting(&chat), None);
        for (type_, expected) in [
            (
                "Available",
                "True Serving: 1024 of 1024 slots of users are served",
            ),
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
                "True Stable: ring 3: 2 members own all 1024 slots, none is moving",
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
        assert_eq!(replicas(&world).await, 2);
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
