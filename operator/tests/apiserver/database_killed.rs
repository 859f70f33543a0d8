//! The database's nodes come, go, are replaced and changed by operators that are killed before their first, second,
//! … write of every reconcile, by two operators at once, and by one that writes what it decided long ago: no
//! node is dropped that is one, no two leave at once, no claim goes with data, no place is taken too early.

use k8s_openapi::api::{
    apps::v1::StatefulSet,
    core::v1::{PersistentVolumeClaim, Pod},
};
use kube::{ResourceExt, api::ListParams};
use readstates_operator_api::ReadStateCluster;
use serde_json::{Value, json};

use crate::{
    chat::names,
    database::{at_rest, goes_on, records, up, with_members},
    gate::Gate,
    invariants::nothing_broken,
    killed::{FAULTS, Mortal},
    world::{World, waiting, with_world},
};

fn with_image(mut members: Value) -> Value {
    members["spec"]["database"]["image"] = json!("cassandra:next");
    members
}

/// Until nothing is waited for, by operators that are killed at every write.
async fn until_done(world: &World, operator: &Mortal) -> ReadStateCluster {
    for _ in 0..60 {
        operator.reconcile(world).await;
        nothing_broken(world).await;
        let chat = world.get::<ReadStateCluster>("chat").await;
        if waiting(&chat).is_none() {
            return chat;
        }
        Box::pin(goes_on(world)).await;
    }
    let status = world.reconcile("chat").await.status;
    let sets = world.api::<StatefulSet>();
    let sets = sets.list(&ListParams::default()).await.unwrap();
    let sets = sets.items.into_iter();
    let sets: Vec<_> = sets
        .map(|set| (set.metadata, set.spec.unwrap().replicas, set.status))
        .collect();
    let pods = names::<Pod>(world).await;
    panic!("still waiting: {status:?}\npods: {pods:?}\nsets: {sets:#?}");
}

const THREE: [&str; 3] = [
    "chat-db-a-0 Member",
    "chat-db-b-0 Member",
    "chat-db-b-1 Member",
];

#[test]
fn a_database_grows_and_shrinks_under_operators_that_are_killed_at_every_write() {
    with_world(async |world| {
        up(&world, &with_members(1, 2)).await;
        let operator = Mortal::new(&world);
        world.replace(with_members(1, 1)).await.unwrap();
        let chat = until_done(&world, &operator).await;
        assert_eq!(records(&chat), THREE[..2]);
        assert!(
            !names::<PersistentVolumeClaim>(&world)
                .await
                .contains(&"data-chat-db-b-1".to_owned())
        );
        world.replace(with_members(1, 2)).await.unwrap();
        let chat = until_done(&world, &operator).await;
        assert_eq!(records(&chat), THREE);
    });
}

#[test]
fn a_database_shrinks_and_grows_though_writes_conflict_fail_or_go_unanswered() {
    with_world(async |world| {
        up(&world, &with_members(1, 2)).await;
        for (fault, nodes) in FAULTS.into_iter().zip([1, 2, 1]) {
            let operator = Mortal::who_suffers(&world, fault);
            world.replace(with_members(1, nodes)).await.unwrap();
            let chat = until_done(&world, &operator).await;
            let nodes = usize::try_from(nodes).unwrap();
            assert_eq!(records(&chat), THREE[..=nodes], "{fault:?}");
        }
    });
}

#[test]
fn a_scale_down_taken_back_ends_well_under_operators_that_are_killed_at_every_write() {
    with_world(async |world| {
        up(&world, &with_members(1, 2)).await;
        let operator = Mortal::new(&world);
        for rounds in [1, 3] {
            world.replace(with_members(1, 1)).await.unwrap();
            for _ in 0..rounds {
                operator.reconcile(&world).await;
                nothing_broken(&world).await;
            }
            world.replace(with_members(1, 2)).await.unwrap();
            let chat = until_done(&world, &operator).await;
            assert_eq!(records(&chat), THREE, "after {rounds} rounds");
        }
    });
}

#[test]
fn pods_change_one_by_one_under_operators_that_are_killed_at_every_write() {
    with_world(async |world| {
        up(&world, &with_members(1, 2)).await;
        let operator = Mortal::new(&world);
        world.replace(with_image(with_members(1, 2))).await.unwrap();
        let chat = until_done(&world, &operator).await;
        assert_eq!(records(&chat), THREE);
        let pods = world
            .api::<Pod>()
            .list(&ListParams::default())
            .await
            .unwrap();
        for pod in pods.items.iter().filter(|p| p.name_any().contains("-db-")) {
            let containers = &pod.spec.as_ref().unwrap().containers;
            assert_eq!(containers[0].image.as_deref(), Some("cassandra:next"));
        }
    });
}

#[test]
fn a_lost_disk_is_replaced_under_operators_that_are_killed_at_every_write() {
    with_world(async |world| {
        let mut members = with_members(1, 2);
        members["spec"]["database"]["replicationFactor"] = json!(2);
        up(&world, &members).await;
        let operator = Mortal::new(&world);
        world.agents.ring().lose_disk("chat-db-b-0");
        operator.reconcile(&world).await;
        let chat = until_done(&world, &operator).await;
        assert_eq!(records(&chat), THREE);
        assert_eq!(world.agents.ring().nodes.len(), 3);
        let starts = world
            .agents
            .ring()
            .orders
            .iter()
            .filter(|o| o.starts_with("start chat-db-b-0"))
            .count();
        assert_eq!(starts, 2, "once at the beginning, once in its place");
    });
}

#[test]
fn two_operators_at_once_shrink_and_change_a_database_as_one_does() {
    with_world(async |world| {
        up(&world, &with_members(1, 2)).await;
        world.replace(with_image(with_members(1, 1))).await.unwrap();
        let operator = || world.operator_behind(&Gate::open_wide());
        let (one, other) = (operator(), operator());
        for _ in 0..30 {
            // Either may lose a race, and looks again.
            let _ = tokio::join!(world.reconcile_by(&one), world.reconcile_by(&other));
            nothing_broken(&world).await;
            goes_on(&world).await;
        }
        let chat = at_rest(&world).await;
        assert_eq!(records(&chat), THREE[..2]);
        let leaves = world
            .agents
            .ring()
            .orders
            .iter()
            .filter(|o| o.starts_with("leave"))
            .count();
        assert!(
            (1..=2).contains(&leaves),
            "{:?}",
            world.agents.ring().orders
        );
    });
}

#[test]
fn a_node_that_joined_meanwhile_is_not_dropped_by_what_was_decided_before() {
    with_world(async |world| {
        up(&world, &with_members(1, 2)).await;
        world.replace(with_members(1, 1)).await.unwrap();
        // On record, told, gone: the next one lowers the StatefulSet, and is held up before it does.
        while records(&world.reconcile("chat").await)[2] != "chat-db-b-1 Left" {}
        let gate = Gate::closed();
        let operator = world.operator_behind(&gate);
        let late = world.reconcile_by(&operator);
        let meanwhile = async {
            gate.is_reached().await;
            at_rest(&world).await;
            world.replace(with_members(1, 2)).await.unwrap();
            let chat = at_rest(&world).await;
            assert_eq!(records(&chat), THREE);
            gate.open();
        };
        let (late, ()) = tokio::join!(late, meanwhile);
        assert!(late.is_err(), "it overwrote what it had not seen");
        nothing_broken(&world).await;
        assert_eq!(records(&at_rest(&world).await), THREE);
    });
}
