//! `kubectl delete readstatecluster`: the cache writes what it holds before the database goes.

use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        apps::v1::StatefulSet,
        batch::v1::Job,
        coordination::v1::Lease,
        core::v1::{Namespace, Pod, Secret},
    },
};
use kube::{
    Api, Resource, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use readstates_operator_api::{ReadStateCluster, ReadStateRing, labels};
use serde::de::DeserializeOwned;
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
fn a_cluster_that_never_came_up_is_deleted_at_once() {
    with_world(async |world| {
        world.create(&cluster(1)).await.unwrap();
        let chat = world.reconcile("chat").await;
        assert_eq!(chat.finalizers(), [labels::STOP_IN_ORDER]);
        delete(&world).await;
        world.reconcile_the_last("chat").await;
        assert!(!is_there(&world).await);
    });
}

#[test]
fn a_cluster_that_was_paused_from_the_start_is_not_held() {
    with_world(async |world| {
        let mut paused = cluster(1);
        paused["spec"]["paused"] = json!(true);
        world.create(&paused).await.unwrap();
        let chat = world.reconcile("chat").await;
        assert!(chat.finalizers().is_empty());
        delete(&world).await;
        assert!(!is_there(&world).await);
    });
}

#[test]
fn a_paused_cluster_and_one_whose_spec_is_invalid_stop_in_order_as_well() {
    let memory = json!({ "cache": { "resources": { "requests": { "memory": "banana" } } } });
    for spec in [json!({ "paused": true }), memory] {
        with_world(async |world| {
            running(&world, 2).await;
            let change = Patch::Merge(json!({ "spec": spec }));
            let clusters = world.api::<ReadStateCluster>();
            let params = PatchParams::default();
            clusters.patch("chat", &params, &change).await.unwrap();
            world.reconcile("chat").await;
            delete(&world).await;
            let chat = world.reconcile("chat").await;
            assert_eq!(waiting(&chat).as_deref(), Some("CacheStopping"));
            assert!(condition(&chat, "Progressing").starts_with("True CacheStopping"));
            assert_eq!(replicas(&world).await, 0);
            world.settle().await;
            world.let_go().await;
            world.reconcile_the_last("chat").await;
            assert!(!is_there(&world).await);
        });
    }
}

/// Deletes everything of this kind, as the controller of a namespace that is deleted does.
async fn sweep<K>(world: &World)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned,
{
    let (all, now) = (ListParams::default(), DeleteParams::background());
    let api = world.api::<K>();
    api.delete_collection(&now, &all).await.unwrap();
}

/// Deletes a namespace kind by kind, in one of the orders that Kubernetes may take.
async fn sweep_all(world: &World, clusters_first: bool) {
    let namespaces: Api<Namespace> = Api::all(world.client.clone());
    let now = DeleteParams::default();
    namespaces.delete(&world.namespace, &now).await.unwrap();
    if clusters_first {
        sweep::<ReadStateCluster>(world).await;
        world.try_reconcile("chat").await.unwrap();
    }
    sweep::<Secret>(world).await;
    sweep::<Lease>(world).await;
    sweep::<ReadStateRing>(world).await;
    // What is missing cannot be made again here: whatever comes of that, the operator goes on.
    let _ = world.try_reconcile("chat").await;
    sweep::<StatefulSet>(world).await;
    let _ = world.try_reconcile("chat").await;
    sweep::<Pod>(world).await;
    sweep::<Job>(world).await;
    let _ = world.try_reconcile("chat").await;
    sweep::<ReadStateCluster>(world).await;
}

#[test]
fn a_namespace_that_is_deleted_ends_while_the_operator_runs() {
    for clusters_first in [true, false] {
        with_world(async |world| {
            let world = with_the_charts_rights(world).await;
            running(&world, 2).await;
            sweep_all(&world, clusters_first).await;
            let refused = world.create(&cluster(1)).await.unwrap_err();
            assert!(refused.contains("being"), "{refused}");

            // Every pod was told to go, and those of the cache still write.
            let chat = world.reconcile("chat").await;
            assert_eq!(waiting(&chat).as_deref(), Some("CacheStopping"));
            world.let_go().await;
            world.reconcile_the_last("chat").await;
            assert!(!is_there(&world).await);
        });
    }
}
