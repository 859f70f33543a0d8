//! Repairs through the API server: what a user sees of them in the status, and what a status of the release before comes
//! to.

use kube::api::{Patch, PatchParams};
use readstates_operator_api::ReadStateCluster;
use serde_json::{Value, json};

use crate::{
    database::{at_rest, goes_on, records, up, with_members},
    world::{World, condition, waiting, with_world},
};

/// Two copies on three nodes.
fn two_copies() -> Value {
    let mut members = with_members(1, 2);
    members["spec"]["database"]["replicationFactor"] = json!(2);
    members
}

fn repairs(world: &World) -> Vec<String> {
    let orders = world.agents.ring().orders.clone();
    let repairs = orders.into_iter().filter(|o| o.starts_with("repair"));
    repairs.collect()
}

/// Reconciles until this is so.
async fn until(world: &World, so: impl Fn(&ReadStateCluster) -> bool) -> ReadStateCluster {
    for _ in 0..40 {
        let chat = world.reconcile("chat").await;
        if so(&chat) {
            return chat;
        }
        Box::pin(goes_on(world)).await;
    }
    panic!("{:?}", world.reconcile("chat").await.status);
}

#[test]
fn a_node_rebuilt_on_an_empty_disk_is_repairing_until_its_data_was_repaired() {
    with_world(async |world| {
        let chat = up(&world, &two_copies()).await;
        assert!(condition(&chat, "Repaired").starts_with("True Repaired"));
        world.agents.ring().repairs_fail = Some("Endpoint not alive".to_owned());
        world.agents.ring().lose_disk("chat-db-b-0");
        let failed = |chat: &ReadStateCluster| {
            let node = &chat.status.as_ref().unwrap().database_nodes[1];
            node.repair.as_ref().is_some_and(|r| r.error.is_some())
        };
        let chat = until(&world, failed).await;
        assert_eq!(records(&chat)[1], "chat-db-b-0 Repairing");
        let words = condition(&chat, "Repaired");
        assert!(words.starts_with("False NodeRepairing"), "{words}");
        assert!(words.contains("Endpoint not alive"), "{words}");
        assert_eq!(waiting(&chat).unwrap(), "NodeRepairing");
        assert_eq!(repairs(&world), ["repair All of chat-db-b-0"]);
        // Another node of this rack is asked for, and waits.
        let mut more = two_copies();
        more["spec"]["database"]["racks"][1]["members"] = json!(3);
        world.replace(more).await.unwrap();
        let chat = until(&world, |c| {
            waiting(c).as_deref() == Some("DatabaseUnhealthy")
        })
        .await;
        let words = condition(&chat, "Progressing");
        assert!(words.contains("has not been repaired yet"), "{words}");

        // The next attempt is due once the pause is over, which the status tells.
        world.agents.ring().repairs_fail = None;
        told_long_ago(&world).await;
        let chat = at_rest(&world).await;
        let nodes = &chat.status.as_ref().unwrap().database_nodes;
        assert_eq!(records(&chat)[1], "chat-db-b-0 Member");
        assert!(nodes[1].last_repaired.is_some() && nodes[1].repair.is_none());
        assert_eq!(nodes.len(), 4);
        assert!(condition(&chat, "Repaired").starts_with("True Repaired"));
    });
}

/// As if every repair had been told long ago.
async fn told_long_ago(world: &World) {
    rewritten(world, |node| {
        if let Some(told) = node.pointer_mut("/repair/told") {
            *told = json!("2026-01-01T00:00:00Z");
        }
    })
    .await;
}

async fn rewritten(world: &World, change: impl Fn(&mut Value)) {
    let chat = world.get::<ReadStateCluster>("chat").await;
    let mut nodes = serde_json::to_value(&chat.status.unwrap().database_nodes).unwrap();
    nodes.as_array_mut().unwrap().iter_mut().for_each(change);
    let patch = json!({ "status": { "databaseNodes": nodes } });
    let clusters = world.api::<ReadStateCluster>();
    clusters
        .patch_status("chat", &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
}

#[test]
fn nodes_on_record_of_the_release_before_are_repaired_by_schedule_and_have_not_failed() {
    with_world(async |world| {
        let chat = up(&world, &two_copies()).await;
        assert!(chat.status.unwrap().last_repaired.is_none());
        assert!(repairs(&world).is_empty());
        // Members for long, with nothing on record about repairs.
        rewritten(&world, |node| node["since"] = json!("2026-01-01T00:00:00Z")).await;
        let chat = world.reconcile("chat").await;
        assert!(condition(&chat, "Repaired").starts_with("True Repaired"));
        assert!(condition(&chat, "Degraded").starts_with("False"));
        let all = |chat: &ReadStateCluster| chat.status.as_ref().unwrap().last_repaired.is_some();
        let chat = until(&world, all).await;
        assert_eq!(
            repairs(&world),
            [
                "repair Primary of chat-db-a-0",
                "repair Primary of chat-db-b-0",
                "repair Primary of chat-db-b-1",
            ]
        );
        let status = chat.status.as_ref().unwrap();
        let each = status.database_nodes.iter();
        let oldest = each.map(|n| n.last_repaired.as_ref().unwrap().0).min();
        assert_eq!(status.last_repaired.as_ref().map(|at| at.0), oldest);
        // At rest, nothing more.
        at_rest(&world).await;
        assert_eq!(repairs(&world).len(), 3);
    });
}

#[test]
fn a_schedule_that_is_none_is_refused_at_the_door() {
    with_world(async |world| {
        let with = |repair: Value| {
            let mut members = two_copies();
            members["spec"]["database"]["repair"] = repair;
            members
        };
        for interval in ["10d", "0d", "30m", "217h", "weekly"] {
            let refused = world.create(&with(json!({ "interval": interval }))).await;
            let words = refused.unwrap_err().to_string();
            assert!(words.contains("repair.interval"), "{interval}: {words}");
        }
        let mut embedded = with(json!({}));
        embedded["spec"]["database"] = json!({ "embedded": {}, "repair": {} });
        let words = world.create(&embedded).await.unwrap_err().to_string();
        assert!(words.contains("repair"), "{words}");
        for interval in ["9d", "1h", "24h30m"] {
            let cluster = with(json!({ "interval": interval }));
            world.another().await.create(&cluster).await.unwrap();
        }
    });
}
