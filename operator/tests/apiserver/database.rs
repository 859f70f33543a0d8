//! The database's nodes through the API server: what is on record before what is done, what goes and what stays.

use k8s_openapi::api::{
    apps::v1::StatefulSet,
    core::v1::{PersistentVolumeClaim, Pod, Secret},
};
use kube::{
    ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use readstates_operator_api::ReadStateCluster;
use serde_json::{Value, json};

use crate::{
    chat::{cluster, names},
    policy::with_the_charts_rights,
    world::{World, condition, waiting, with_world},
};

pub(crate) fn with_members(a: i32, b: i32) -> Value {
    let mut cluster = cluster(1);
    cluster["spec"]["database"]["racks"] =
        json!([{ "name": "a", "members": a }, { "name": "b", "members": b }]);
    cluster["spec"]["database"]["reclaim"] = json!("Delete");
    cluster
}

/// Reconciles, and lets controllers and kubelets do what they would, until nothing is waited for.
pub(crate) async fn at_rest(world: &World) -> ReadStateCluster {
    for _ in 0..40 {
        let chat = world.reconcile("chat").await;
        if waiting(&chat).is_none() {
            return chat;
        }
        Box::pin(goes_on(world)).await;
    }
    panic!(
        "it never came to rest: {:?}",
        world.reconcile("chat").await.status
    );
}

/// Controllers, kubelets and members do what they would.
pub(crate) async fn goes_on(world: &World) {
    world.settle().await;
    world.let_go().await;
    world.finish_jobs().await;
    world.fleet.act().await;
}

pub(crate) async fn up(world: &World, members: &Value) -> ReadStateCluster {
    world.agents.ring().ordered = true;
    world.create(members).await.unwrap();
    at_rest(world).await
}

pub(crate) fn records(chat: &ReadStateCluster) -> Vec<String> {
    let nodes = &chat.status.as_ref().unwrap().database_nodes;
    nodes
        .iter()
        .map(|n| format!("{} {:?}", n.name, n.state))
        .collect()
}

#[test]
fn a_database_comes_up_node_by_node_and_is_on_record() {
    with_world(async |world| {
        world.agents.ring().ordered = true;
        world.create(&with_members(1, 2)).await.unwrap();
        world.reconcile("chat").await;
        world.settle().await;
        // On record first, told after it.
        let chat = world.reconcile("chat").await;
        assert_eq!(records(&chat), ["chat-db-a-0 Joining"]);
        assert!(world.agents.ring().orders.is_empty());
        assert_eq!(waiting(&chat).unwrap(), "NodeJoining");

        let chat = at_rest(&world).await;
        assert_eq!(
            world.agents.ring().orders,
            [
                "start chat-db-a-0 by 10.0.0.1",
                "start chat-db-b-0 by 10.0.0.1",
                "start chat-db-b-1 by 10.0.0.1,10.0.0.2",
            ]
        );
        let members = [
            "chat-db-a-0 Member",
            "chat-db-b-0 Member",
            "chat-db-b-1 Member",
        ];
        assert_eq!(records(&chat), members);
        assert_eq!(chat.status.unwrap().database, "3/3");
        // What agents prove themselves by is made once.
        let before = world.get::<Secret>("chat-agent-tls").await;
        at_rest(&world).await;
        assert_eq!(
            world.get::<Secret>("chat-agent-tls").await.data,
            before.data
        );
    });
}

#[test]
fn nodes_drop_what_a_new_one_has_taken_over_once_it_has_joined() {
    with_world(async |world| {
        up(&world, &with_members(1, 1)).await;
        world.agents.ring().orders.clear();
        world.replace(with_members(1, 2)).await.unwrap();
        at_rest(&world).await;
        let orders = world.agents.ring().orders.clone();
        assert_eq!(orders[0], "start chat-db-b-1 by 10.0.0.1,10.0.0.2");
        assert_eq!(
            orders[1..],
            ["clean up chat-db-a-0", "clean up chat-db-b-0"]
        );
    });
}

#[test]
fn a_node_whose_volume_is_too_small_for_its_share_joins_when_it_has_another_one() {
    with_world(async |world| {
        up(&world, &with_members(1, 1)).await;
        world.agents.ring().orders.clear();
        world.agents.ring().room = Some(1 << 18);
        world.replace(with_members(1, 2)).await.unwrap();
        for _ in 0..4 {
            world.reconcile("chat").await;
            goes_on(&world).await;
        }
        let chat = world.reconcile("chat").await;
        let words = condition(&chat, "Progressing");
        assert!(
            words.contains("for its share of 2 MiB: rack b, one of 2, would have 2 nodes"),
            "{words}"
        );
        assert_eq!(world.agents.ring().orders, [""; 0]);

        world.agents.ring().room = None;
        let chat = at_rest(&world).await;
        assert_eq!(records(&chat)[2], "chat-db-b-1 Member");
    });
}

#[test]
fn a_node_leaves_before_its_pod_and_its_claim_goes_last() {
    with_world(async |world| {
        up(&world, &with_members(1, 2)).await;
        world.replace(with_members(1, 1)).await.unwrap();
        let chat = world.reconcile("chat").await;
        assert_eq!(waiting(&chat).unwrap(), "NodeLeaving");
        assert_eq!(records(&chat)[2], "chat-db-b-1 Leaving");
        let replicas = async || {
            world
                .get::<StatefulSet>("chat-db-b")
                .await
                .spec
                .unwrap()
                .replicas
        };
        assert_eq!(replicas().await, Some(2));

        // Told, gone from the ring, and only then from the StatefulSet.
        world.reconcile("chat").await;
        assert_eq!(
            world.agents.ring().orders.last().unwrap(),
            "leave chat-db-b-1"
        );
        assert_eq!(replicas().await, Some(2));
        let chat = world.reconcile("chat").await;
        assert_eq!(records(&chat)[2], "chat-db-b-1 Left");
        world.reconcile("chat").await;
        assert_eq!(replicas().await, Some(1));
        let claims = async || names::<PersistentVolumeClaim>(&world).await;
        assert!(claims().await.contains(&"data-chat-db-b-1".to_owned()));

        let chat = at_rest(&world).await;
        assert_eq!(records(&chat).len(), 2);
        let left = claims().await;
        assert!(!left.contains(&"data-chat-db-b-1".to_owned()), "{left:?}");
        assert!(left.contains(&"data-chat-db-b-0".to_owned()));
    });
}

#[test]
fn a_claim_that_the_operator_may_not_delete_stops_nothing_and_is_told() {
    with_world(async |world| {
        let world = with_the_charts_rights(world).await;
        up(&world, &with_members(1, 2)).await;
        world.replace(with_members(1, 1)).await.unwrap();
        for _ in 0..8 {
            world.reconcile("chat").await;
            goes_on(&world).await;
        }
        let chat = world.reconcile("chat").await;
        let words = condition(&chat, "Degraded");
        assert!(words.starts_with("True ReclaimForbidden"), "{words}");
        assert!(words.contains("rbac.deleteVolumeClaims"), "{words}");
        assert_eq!(records(&chat)[2], "chat-db-b-1 Left");
        // The rest goes on: the other rack grows, and so does the cache.
        let mut more = with_members(2, 1);
        more["spec"]["replicas"] = json!(2);
        world.replace(more).await.unwrap();
        for _ in 0..12 {
            world.reconcile("chat").await;
            goes_on(&world).await;
        }
        let chat = world.reconcile("chat").await;
        assert_eq!(records(&chat)[1], "chat-db-a-1 Member");
        assert_eq!(chat.status.as_ref().unwrap().cache, "2/2");
        // Deleted by hand.
        let claims = world.api::<PersistentVolumeClaim>();
        claims
            .delete("data-chat-db-b-1", &DeleteParams::default())
            .await
            .unwrap();
        let chat = at_rest(&world).await;
        assert_eq!(records(&chat).len(), 3);
        assert!(condition(&chat, "Degraded").starts_with("False"));
    });
}

#[test]
fn a_node_that_cannot_leave_is_told_in_the_databases_words() {
    with_world(async |world| {
        up(&world, &with_members(1, 2)).await;
        world.agents.ring().refuses = Some("Unable to find new replica for tablet".to_owned());
        world.replace(with_members(1, 1)).await.unwrap();
        for _ in 0..4 {
            world.reconcile("chat").await;
        }
        let chat = world.reconcile("chat").await;
        let words = condition(&chat, "Progressing");
        assert!(
            words.contains("attempt 1 failed (Unable to find new replica for tablet)"),
            "{words}"
        );
        let record = &chat.status.as_ref().unwrap().database_nodes[2];
        assert_eq!(record.attempts, 1);
        assert_eq!(
            record.error.as_deref(),
            Some("Unable to find new replica for tablet")
        );
        // Taken back.
        world.replace(with_members(1, 2)).await.unwrap();
        let chat = at_rest(&world).await;
        assert_eq!(records(&chat)[2], "chat-db-b-1 Member");
    });
}

#[test]
fn another_operator_restarts_no_database_pod_until_the_annotation_says_so() {
    with_world(async |mut world| {
        up(&world, &with_members(1, 2)).await;
        let uids = async |world: &World| {
            let pods = world
                .api::<Pod>()
                .list(&ListParams::default())
                .await
                .unwrap();
            let of_database = pods.items.iter().filter(|p| p.name_any().contains("-db-"));
            of_database.map(|p| p.uid().unwrap()).collect::<Vec<_>>()
        };
        let before = uids(&world).await;
        world.upgrade();
        let chat = at_rest(&world).await;
        assert_eq!(uids(&world).await, before);
        let words = condition(&chat, "RequiresUpdate");
        assert!(words.starts_with("True UpdateAvailable"), "{words}");
        let (_, rest) = words.split_once("readstates.dev/update-database=").unwrap();
        let name = rest.split_whitespace().next().unwrap();

        let consent =
            json!({ "metadata": { "annotations": { "readstates.dev/update-database": name } } });
        let clusters = world.api::<ReadStateCluster>();
        clusters
            .patch("chat", &PatchParams::default(), &Patch::Merge(consent))
            .await
            .unwrap();
        let chat = at_rest(&world).await;
        let after = uids(&world).await;
        assert!(after.iter().all(|uid| !before.contains(uid)), "{after:?}");
        assert!(condition(&chat, "RequiresUpdate").starts_with("False UpToDate"));
    });
}
