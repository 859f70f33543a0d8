//! `spec.cache.capacityStates` is changed while pods run.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use readstates_operator_api::ReadStateCluster;
use serde_json::json;

use crate::{
    chat::{running, until_done},
    faults::Faults,
    gate::Gate,
    policy::with_the_charts_rights,
    world::{World, with_world},
};

async fn keep(world: &World, states: i64) {
    let change = json!({ "spec": { "cache": { "capacityStates": states } } });
    let clusters = world.api::<ReadStateCluster>();
    let params = PatchParams::default();
    clusters
        .patch("chat", &params, &Patch::Merge(change))
        .await
        .unwrap();
    // The StatefulSet first, and its controller.
    world.reconcile("chat").await;
    world.settle().await;
}

async fn pods(world: &World) -> [Pod; 2] {
    [world.get("chat-0").await, world.get("chat-1").await]
}

async fn uids(world: &World) -> [String; 2] {
    pods(world).await.map(|pod| pod.metadata.uid.unwrap())
}

/// What the containers of the members ask for.
async fn memory(world: &World) -> [String; 2] {
    pods(world).await.map(|pod| {
        let container = pod.spec.unwrap().containers.remove(0);
        let requests = container.resources.unwrap().requests.unwrap();
        requests["memory"].0.clone()
    })
}

/// Raises the capacity beyond the memory of two pods that run; what the members were asked, and whether the pods are others.
async fn raise(world: &World) -> (Vec<String>, bool) {
    running(world, 2).await;
    let before = uids(world).await;
    world.fleet.asked();
    keep(world, 80_000_000).await;
    until_done(world).await;
    assert_eq!(memory(world).await, ["3790Mi"; 2]);
    let after = uids(world).await;
    let others = after.iter().all(|uid| !before.contains(uid));
    assert!(others || after == before, "{before:?} {after:?}");
    (world.fleet.asked(), others)
}

#[test]
fn another_capacity_replaces_no_pod_whose_node_gives_it_the_memory_for_it() {
    with_world(async |world| {
        let world = with_the_charts_rights(world).await;
        running(&world, 2).await;
        let before = uids(&world).await;
        world.fleet.asked();
        keep(&world, 2_000_000).await;
        until_done(&world).await;
        assert_eq!(uids(&world).await, before);
        assert_eq!(
            world.fleet.asked(),
            ["chat-0 keeps 2000000", "chat-1 keeps 2000000"]
        );

        // Back to what they have the memory for.
        keep(&world, 8_000_000).await;
        until_done(&world).await;
        assert_eq!(uids(&world).await, before);
        assert_eq!(world.fleet.asked().len(), 2);

        // More than they have: first the memory, then the states.
        keep(&world, 80_000_000).await;
        until_done(&world).await;
        assert_eq!(uids(&world).await, before);
        assert_eq!(memory(&world).await, ["3790Mi"; 2]);
        assert_eq!(
            world.fleet.asked(),
            ["chat-0 keeps 80000000", "chat-1 keeps 80000000"]
        );
    });
}

#[test]
fn a_pod_is_replaced_for_memory_that_its_node_does_not_have() {
    with_world(async |mut world| {
        world.nodes_are_full = true;
        let (asked, others) = raise(&world).await;
        assert!(others);
        assert!(asked.contains(&"drain chat-0".to_owned()), "{asked:?}");
    });
}

#[test]
fn a_pod_is_replaced_for_memory_where_kubernetes_cannot_give_it_to_one_that_runs() {
    with_world(async |world| {
        let gate = Gate::with(Faults::without("/resize"));
        let world = world.behind(&gate);
        let (asked, others) = raise(&world).await;
        assert!(others);
        assert!(asked.contains(&"drain chat-0".to_owned()), "{asked:?}");
        let refused = gate.faults().log().len();
        assert!(refused > 0);
    });
}

#[test]
fn a_pod_gets_memory_while_it_runs_whatever_happens_to_the_write_of_it() {
    with_world(async |world| {
        let gate = Gate::open_wide();
        let operator = world.operator_behind(&gate);
        running(&world, 2).await;
        let before = uids(&world).await;
        keep(&world, 80_000_000).await;
        // Each write in turn is the last one of its process.
        for writes in (0..4).cycle().take(40) {
            gate.allow(writes);
            let _killed = world.reconcile_by(&operator).await;
            world.settle().await;
        }
        gate.allow(usize::MAX);
        until_done(&world).await;
        assert_eq!(uids(&world).await, before);
        assert_eq!(memory(&world).await, ["3790Mi"; 2]);
    });
}
