//! `kubectl delete readstatecluster`: the cache writes what it holds before the database goes.

use k8s_openapi::api::{apps::v1::StatefulSet, core::v1::Pod};
use kube::{
    ResourceExt,
    api::{DeleteParams, ListParams},
};
use readstates_operator_api::{ReadStateCluster, labels};
use serde_json::json;

use crate::{
    chat::{cluster, replicas, running},
    policy::with_the_charts_rights,
    world::{World, condition, waiting, with_world},
};

async fn delete(world: &World) {
    let clusters = world.api::<ReadStateCluster>();
    clusters
        .delete("chat", &DeleteParams::default())
        .await
        .unwrap();
}

async fn is_there(world: &World) -> bool {
    let found = world.api::<ReadStateCluster>().get_opt("chat").await;
    found.unwrap().is_some()
}

async fn pods(world: &World, component: &str) -> usize {
    let ours = ListParams::default().labels(&format!("{}={component}", labels::COMPONENT));
    world.api::<Pod>().list(&ours).await.unwrap().items.len()
}

#[test]
fn a_deleted_cluster_keeps_its_database_until_its_cache_has_written_everything() {
    with_world(async |world| {
        let world = with_the_charts_rights(world).await;
        let chat = running(&world, 2).await;
        assert_eq!(chat.finalizers(), [labels::STOP_IN_ORDER]);
        let nodes = pods(&world, "database").await;
        delete(&world).await;

        let chat = world.reconcile("chat").await;
        assert_eq!(waiting(&chat).as_deref(), Some("CacheStopping"));
        assert!(
            condition(&chat, "Progressing")
                .starts_with("True CacheStopping: the cluster is deleted")
        );
        assert_eq!(replicas(&world).await, 0);

        // Told to go, and still writing: the database is all there.
        world.settle().await;
        world.reconcile("chat").await;
        assert_eq!(pods(&world, "cache").await, 2);
        assert_eq!(pods(&world, "database").await, nodes);

        world.let_go().await;
        world.reconcile_the_last("chat").await;
        assert!(!is_there(&world).await);
        // What is left goes by its owner.
        let rack = world.get::<StatefulSet>("chat-db-a").await;
        assert_eq!(rack.owner_references()[0].name, "chat");
        assert_eq!(pods(&world, "database").await, nodes);
    });
}

#[test]
fn a_cluster_on_somebody_elses_database_goes_at_once() {
    with_world(async |world| {
        let mut external = cluster(1);
        external["spec"]["database"] = json!({ "external": {
            "contactPoints": ["db.example"], "localDatacenter": "east", "replicationFactor": 3,
        } });
        world.create(&external).await.unwrap();
        let chat = world.reconcile("chat").await;
        assert!(chat.finalizers().is_empty());
        delete(&world).await;
        assert!(!is_there(&world).await);
    });
}

#[test]
fn a_cluster_that_never_came_up_and_a_paused_one_are_deleted_as_well() {
    with_world(async |world| {
        world.create(&cluster(1)).await.unwrap();
        world.reconcile("chat").await;
        let mut paused = cluster(1);
        paused["metadata"]["finalizers"] = json!([labels::STOP_IN_ORDER]);
        paused["spec"]["paused"] = json!(true);
        world.replace(paused).await.unwrap();
        delete(&world).await;
        world.reconcile_the_last("chat").await;
        assert!(!is_there(&world).await);
    });
}
