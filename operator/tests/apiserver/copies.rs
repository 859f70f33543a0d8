//! The number of copies of each read state is changed: what a user sees of it, and what the keyspace is told in turn.

use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kube::{
    ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use readstates_operator_api::{DatabaseReplicationStage, ReadStateCluster};
use serde_json::{Value, json};

use crate::{
    database::{at_rest, goes_on, up, with_members},
    world::{World, condition, waiting, with_world},
};

/// Three nodes, with so many copies of everything.
fn with_copies(copies: i32) -> Value {
    let mut members = with_members(1, 2);
    members["spec"]["database"]["replicationFactor"] = json!(copies);
    members
}

/// What schema Jobs that are there now make of the keyspace.
async fn asked_for(world: &World) -> Vec<String> {
    let jobs = world
        .api::<Job>()
        .list(&ListParams::default())
        .await
        .unwrap();
    let asks = |job: Job| {
        let pod = job.spec?.template.spec?;
        let args = pod.containers.into_iter().next()?.args?;
        let at = args.iter().position(|arg| arg == "--replication")?;
        args.get(at + 1).cloned()
    };
    jobs.items.into_iter().filter_map(asks).collect()
}

async fn pods(world: &World) -> Vec<String> {
    let pods = world
        .api::<Pod>()
        .list(&ListParams::default())
        .await
        .unwrap();
    let lives = |pod: &Pod| !pod.name_any().contains("schema");
    let mut pods: Vec<_> = pods
        .items
        .iter()
        .filter(|p| lives(p))
        .filter_map(ResourceExt::uid)
        .collect();
    pods.sort();
    pods
}

#[test]
fn each_copy_more_or_less_is_a_step_after_which_every_node_is_repaired() {
    with_world(async |world| {
        let chat = up(&world, &with_copies(1)).await;
        let recorded = chat.status.unwrap().database_replication.unwrap();
        assert_eq!((recorded.keyspace, recorded.complete), (1, 1));
        let before = pods(&world).await;

        world.replace(with_copies(3)).await.unwrap();
        let (mut steps, mut words, mut last) = (Vec::new(), Vec::new(), None);
        for _ in 0..60 {
            let chat = world.reconcile("chat").await;
            for asked in asked_for(&world).await {
                if steps.last() != Some(&asked) {
                    steps.push(asked);
                }
            }
            words.extend(waiting(&chat).filter(|w| words.last() != Some(w)));
            let status = chat.status.as_ref().unwrap();
            let copies = status.database_replication.clone().unwrap();
            assert!(copies.keyspace - copies.complete <= 1, "{copies:?}");
            let rests = copies.stage == DatabaseReplicationStage::Stable && copies.keyspace == 3;
            last = Some(chat);
            if rests {
                break;
            }
            Box::pin(goes_on(&world)).await;
        }
        let chat = last.unwrap();
        let copies = chat
            .status
            .as_ref()
            .unwrap()
            .database_replication
            .clone()
            .unwrap();
        assert_eq!(
            (copies.keyspace, copies.complete),
            (3, 3),
            "{steps:?} {words:?}"
        );
        assert_eq!(steps, ["dc1=1", "dc1=2", "dc1=3"]);
        assert!(
            words.iter().any(|w| w == "ReplicationChanging"),
            "{words:?}"
        );
        let orders = world.agents.ring().orders.clone();
        let each = ["chat-db-a-0", "chat-db-b-0", "chat-db-b-1"]
            .map(|pod| format!("repair Primary of {pod}"));
        let repairs: Vec<_> = orders
            .into_iter()
            .filter(|o| o.starts_with("repair"))
            .collect();
        assert_eq!(repairs, [each.clone(), each].concat());
        let chat = at_rest(&world).await;
        assert!(condition(&chat, "Degraded").starts_with("False"));
        assert_eq!(pods(&world).await, before, "no pod was restarted");

        // Back: what nodes need not hold any more they drop.
        world.agents.ring().orders.clear();
        world.replace(with_copies(2)).await.unwrap();
        let chat = at_rest(&world).await;
        let copies = chat.status.unwrap().database_replication.unwrap();
        assert_eq!((copies.keyspace, copies.complete), (2, 2));
        let orders = world.agents.ring().orders.clone();
        let cleanups = orders.iter().filter(|o| o.starts_with("clean"));
        assert_eq!(cleanups.count(), 3, "{orders:?}");
        assert_eq!(pods(&world).await, before, "no pod was restarted");
    });
}

#[test]
fn the_number_cannot_change_before_this_release_has_recorded_it() {
    with_world(async |world| {
        up(&world, &with_copies(1)).await;
        // As the release before left it.
        let unrecorded = json!({ "status": { "databaseReplication": null } });
        let clusters = world.api::<ReadStateCluster>();
        let params = PatchParams::default();
        let patch = Patch::Merge(unrecorded);
        clusters
            .patch_status("chat", &params, &patch)
            .await
            .unwrap();
        let refused = world.replace(with_copies(2)).await.unwrap_err().to_string();
        assert!(refused.contains("status.databaseReplication"), "{refused}");
        let chat = world.reconcile("chat").await;
        assert!(chat.status.unwrap().database_replication.is_some());
        world.replace(with_copies(2)).await.unwrap();
    });
}
