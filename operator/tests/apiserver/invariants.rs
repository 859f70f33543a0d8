//! Invariants that hold at every look, however the operator was disturbed.

use std::collections::BTreeMap;

use k8s_openapi::api::{
    apps::v1::StatefulSet,
    core::v1::{PersistentVolumeClaim, Pod},
};
use kube::{ResourceExt, api::ListParams};
use readstates_operator_api::{DatabaseNodeState, ReadStateCluster};

use crate::world::World;

/// Pods that are told to go, or that the StatefulSet does not want, hold nothing.
pub(crate) async fn nothing_lost(world: &World) {
    // In this order, since an operator may be at work: what a member holds becomes less between two looks.
    let replicas = crate::chat::replicas(world).await;
    let pods = world.api::<Pod>();
    for pod in pods.list(&ListParams::default()).await.unwrap() {
        let name = pod.name_any();
        if !world.fleet.runs(&name) {
            continue;
        }
        let going = pod.metadata.deletion_timestamp.is_some();
        if going || ordinal(&name).1 >= replicas {
            assert_eq!(world.fleet.holds(&name), (0, 0), "{name}");
        }
    }
}

/// No two database nodes are on their way at once, and nothing is taken from under one.
pub(crate) async fn nothing_broken(world: &World) {
    let chat = world.get::<ReadStateCluster>("chat").await;
    let nodes = &chat.status.as_ref().unwrap().database_nodes;
    let on_their_way = nodes.iter().filter(|n| match n.state {
        DatabaseNodeState::Joining | DatabaseNodeState::Replacing | DatabaseNodeState::Leaving => {
            true
        }
        DatabaseNodeState::Member | DatabaseNodeState::Repairing | DatabaseNodeState::Left => false,
    });
    assert!(on_their_way.count() <= 1, "{nodes:?}");
    let claims = world.api::<PersistentVolumeClaim>();
    let claims: BTreeMap<_, _> = claims
        .list(&ListParams::default())
        .await
        .unwrap()
        .into_iter()
        .map(|claim| (claim.name_any(), claim.metadata.deletion_timestamp))
        .collect();
    let sets = world.api::<StatefulSet>();
    let replicas: BTreeMap<_, _> = sets
        .list(&ListParams::default())
        .await
        .unwrap()
        .into_iter()
        .map(|set| (set.name_any(), set.spec.unwrap().replicas.unwrap()))
        .collect();
    // Last: a node that is one now was one when the others were looked at, unless the order of things was broken.
    for pod in world.agents.ring().nodes.keys() {
        let (set, ordinal) = ordinal(pod);
        assert!(ordinal < replicas[set], "{pod} is dropped and is a node");
        assert_eq!(
            claims.get(&format!("data-{pod}")),
            Some(&None),
            "the data of {pod} goes"
        );
    }
}

fn ordinal(pod: &str) -> (&str, i32) {
    let (set, ordinal) = pod.rsplit_once('-').unwrap();
    (set, ordinal.parse().unwrap())
}
