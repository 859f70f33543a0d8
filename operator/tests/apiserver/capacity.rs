//! `spec.cache.capacityStates` is changed while pods run.

use kube::api::{Patch, PatchParams};
use readstates_operator_api::ReadStateCluster;
use serde_json::json;

use crate::{
    chat::{running, until_done},
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

#[test]
fn a_smaller_capacity_replaces_no_pod_and_a_larger_one_only_for_its_memory() {
    with_world(async |world| {
        let world = with_the_charts_rights(world).await;
        running(&world, 2).await;
        let uids = async |world: &World| {
            let mut uids = Vec::new();
            for name in ["chat-0", "chat-1"] {
                let pod: k8s_openapi::api::core::v1::Pod = world.get(name).await;
                uids.push(pod.metadata.uid.unwrap());
            }
            uids
        };
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

        keep(&world, 80_000_000).await;
        until_done(&world).await;
        let after = uids(&world).await;
        assert!(after.iter().all(|uid| !before.contains(uid)), "{after:?}");
        let asked = world.fleet.asked();
        assert!(asked.contains(&"drain chat-0".to_owned()), "{asked:?}");
    });
}
