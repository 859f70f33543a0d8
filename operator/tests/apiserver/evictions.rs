//! `kubectl drain` of machines with database pods, as far as the API server decides about it: by the budgets that the
//! operator makes and by what the disruption controller says of them.

use k8s_openapi::api::{core::v1::Pod, policy::v1::PodDisruptionBudget};
use kube::{
    Api,
    api::{EvictParams, Patch, PatchParams},
};
use serde_json::json;

use crate::{
    database::{up, with_members},
    world::{World, with_world},
};

/// The agent of this database pod has stopped answering probes, as one on a busy machine does.
async fn unready(world: &World, pod: &str) {
    let status = json!({ "status": { "conditions": [{ "type": "Ready", "status": "False" }] } });
    let (pods, params) = (world.api::<Pod>(), PatchParams::default());
    pods.patch_status(pod, &params, &Patch::Merge(status))
        .await
        .unwrap();
}

/// The disruption controller has counted the pods of the database.
async fn counted(world: &World, ready: u32, of: u32) {
    let budget: PodDisruptionBudget = world.get("chat-db").await;
    let desired = of - 1;
    let status = json!({ "status": {
        "observedGeneration": budget.metadata.generation, "expectedPods": of, "currentHealthy": ready,
        "desiredHealthy": desired, "disruptionsAllowed": ready.saturating_sub(desired),
    } });
    let (budgets, params) = (world.api::<PodDisruptionBudget>(), PatchParams::default());
    budgets
        .patch_status("chat-db", &params, &Patch::Merge(status))
        .await
        .unwrap();
}

async fn evict(world: &World, pod: &str) -> Result<(), u16> {
    let pods: Api<Pod> = Api::namespaced(world.asking_once(), &world.namespace);
    match pods.evict(pod, &EvictParams::default()).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) => Err(status.code),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn nodes_that_look_unready_together_are_not_evicted_together() {
    with_world(async |world| {
        up(&world, &with_members(1, 2)).await;
        for pod in ["chat-db-a-0", "chat-db-b-0"] {
            unready(&world, pod).await;
        }
        counted(&world, 1, 3).await;
        for pod in ["chat-db-a-0", "chat-db-b-0", "chat-db-b-1"] {
            assert_eq!(evict(&world, pod).await, Err(429), "{pod}");
        }
    });
}

#[test]
fn one_node_that_is_not_ready_may_go_while_the_others_are() {
    with_world(async |world| {
        up(&world, &with_members(1, 2)).await;
        unready(&world, "chat-db-b-0").await;
        counted(&world, 2, 3).await;
        assert_eq!(evict(&world, "chat-db-a-0").await, Err(429));
        assert_eq!(evict(&world, "chat-db-b-0").await, Ok(()));
    });
}
