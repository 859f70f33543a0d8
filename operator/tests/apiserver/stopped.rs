//! `spec.stopped`: everything is written, everything stops, and it comes back as it was.

use k8s_openapi::api::{
    apps::v1::StatefulSet,
    core::v1::{PersistentVolumeClaim, Pod},
};
use kube::{
    ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use readstates_operator_api::{ReadStateCluster, labels};
use serde_json::json;

use crate::{
    chat::{names, owners, replicas, time_passes, until_done},
    database::{at_rest, records, up, with_members},
    policy::with_the_charts_rights,
    world::{World, condition, waiting, with_world},
};

async fn set_stopped(world: &World, stopped: bool) {
    let change = Patch::Merge(json!({ "spec": { "stopped": stopped } }));
    let clusters = world.api::<ReadStateCluster>();
    let params = PatchParams::default();
    clusters.patch("chat", &params, &change).await.unwrap();
}

async fn pods(world: &World, component: &str) -> Vec<String> {
    let ours = ListParams::default().labels(&format!("{}={component}", labels::COMPONENT));
    let pods = world.api::<Pod>().list(&ours).await.unwrap();
    pods.items.iter().map(ResourceExt::name_any).collect()
}

async fn members(world: &World, rack: &str) -> i32 {
    let set = world.get::<StatefulSet>(rack).await;
    set.spec.unwrap().replicas.unwrap()
}

#[test]
fn a_cluster_that_is_stopped_writes_everything_first_keeps_its_volumes_and_comes_back() {
    with_world(async |world| {
        let world = with_the_charts_rights(world).await;
        let chat = up(&world, &with_members(1, 2)).await;
        let nodes = records(&chat);
        let volumes = names::<PersistentVolumeClaim>(&world).await;
        set_stopped(&world, true).await;

        let chat = world.reconcile("chat").await;
        assert_eq!(waiting(&chat).as_deref(), Some("CacheStopping"));
        assert!(condition(&chat, "Stopped").starts_with("False CacheStopping"));
        assert_eq!(replicas(&world).await, 0);
        // Told to stop, and still writing: the database is all there.
        world.settle().await;
        world.reconcile("chat").await;
        assert_eq!(pods(&world, "cache").await, ["chat-0"]);
        assert_eq!(
            (
                members(&world, "chat-db-a").await,
                members(&world, "chat-db-b").await
            ),
            (1, 2)
        );

        world.let_go().await;
        let chat = world.reconcile("chat").await;
        assert_eq!(waiting(&chat).as_deref(), Some("DatabaseStopping"));
        // Told to go, and gone.
        world.settle().await;
        let chat = world.reconcile("chat").await;
        assert_eq!(waiting(&chat).as_deref(), Some("DatabaseStopping"));
        time_passes(&world).await;
        let chat = world.reconcile("chat").await;
        assert_eq!(waiting(&chat), None);
        assert!(condition(&chat, "Stopped").starts_with("True StoppedInOrder"));
        assert!(condition(&chat, "Progressing").starts_with("False Stopped"));
        assert!(condition(&chat, "Degraded").starts_with("False"));
        assert!(pods(&world, "cache").await.is_empty());
        assert!(pods(&world, "database").await.is_empty());
        assert_eq!(names::<PersistentVolumeClaim>(&world).await, volumes);
        assert_eq!(records(&chat), nodes);
        let status = chat.status.unwrap();
        assert_eq!(
            (status.cache.as_str(), status.database.as_str()),
            ("stopped", "stopped")
        );

        world.agents.ring().orders.clear();
        set_stopped(&world, false).await;
        world.reconcile("chat").await;
        // The database first.
        assert_eq!(replicas(&world).await, 0);
        assert_eq!(
            (
                members(&world, "chat-db-a").await,
                members(&world, "chat-db-b").await
            ),
            (1, 2)
        );
        let chat = at_rest(&world).await;
        assert_eq!(records(&chat), nodes);
        assert_eq!(pods(&world, "cache").await, ["chat-0"]);
        assert_eq!(owners(&world).await["chat-0"], 1024);
        // Each came back on its own data: none had to be told to start or to take a place.
        let orders = world.agents.ring().orders.clone();
        assert!(
            !orders.iter().any(|order| order.contains("replac")),
            "{orders:?}"
        );
    });
}

#[test]
fn a_cache_that_cannot_write_is_not_stopped_and_says_so() {
    with_world(async |world| {
        let chat = crate::chat::running(&world, 2).await;
        assert_eq!(waiting(&chat), None);
        world.fleet.unhealthy("chat-1");
        set_stopped(&world, true).await;
        let chat = world.reconcile("chat").await;
        assert_eq!(waiting(&chat).as_deref(), Some("UnsafeToStop"));
        assert!(condition(&chat, "Stopped").contains("cannot write them"));
        assert_eq!(replicas(&world).await, 2);
        // Taken back: nothing has happened.
        set_stopped(&world, false).await;
        until_done(&world).await;
        assert_eq!(world.cache_pods("chat").await.len(), 2);
    });
}

#[test]
fn a_stopped_cluster_is_deleted_at_once() {
    with_world(async |world| {
        crate::chat::running(&world, 1).await;
        set_stopped(&world, true).await;
        for _ in 0..4 {
            world.reconcile("chat").await;
            time_passes(&world).await;
        }
        let chat = world.reconcile("chat").await;
        assert!(condition(&chat, "Stopped").starts_with("True"));
        let clusters = world.api::<ReadStateCluster>();
        clusters
            .delete("chat", &kube::api::DeleteParams::default())
            .await
            .unwrap();
        world.reconcile_the_last("chat").await;
        assert!(clusters.get_opt("chat").await.unwrap().is_none());
    });
}
