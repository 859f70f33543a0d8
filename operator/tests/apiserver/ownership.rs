//! Pods that come, go and are replaced, with processes that own slots: a pod goes only when it holds nothing, whatever
//! is killed meanwhile.

use k8s_openapi::api::{
    apps::v1::StatefulSet, core::v1::Pod, events::v1::Event, policy::v1::PodDisruptionBudget,
};
use kube::{
    ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use readstates_operator_api::{ReadStateCluster, ReadStateRing};
use serde_json::json;

use crate::{
    chat::{cluster, owners, replicas, resize, running, time_passes, until_done},
    world::{World, condition, waiting, with_world},
};

fn even(members: usize) -> Vec<usize> {
    let (share, more) = (1024 / members, 1024 % members);
    (0..members)
        .map(|i| share + usize::from(i < more))
        .collect()
}

/// Each of `members` members owns its share.
async fn spread_over(world: &World, members: usize) {
    let owners = owners(world).await;
    let mut shares: Vec<_> = owners.values().copied().collect();
    shares.sort_by(|a, b| b.cmp(a));
    assert_eq!(shares, even(members), "{owners:?}");
}

/// Another image, which schema Job and cache pods get.
fn with_image(replicas: i32, image: &str) -> serde_json::Value {
    let mut cluster = cluster(replicas);
    cluster["spec"]["image"] = json!(image);
    cluster
}

#[test]
fn a_new_cluster_has_an_empty_ring_that_its_members_fill() {
    with_world(async |world| {
        let chat = running(&world, 3).await;
        assert_eq!(waiting(&chat), None);
        spread_over(&world, 3).await;
        let ring = world.get::<ReadStateRing>("chat").await;
        assert_eq!(ring.owner_references()[0].name, "chat");
        let status = chat.status.unwrap();
        assert_eq!(status.slots, "1024/1024");
        assert_eq!(status.ring_number, Some(ring.spec.number));
    });
}

#[test]
fn more_pods_get_their_share_by_moves() {
    with_world(async |world| {
        running(&world, 2).await;
        resize(&world, 3).await;
        let chat = world.reconcile("chat").await;
        assert_eq!(
            (replicas(&world).await, waiting(&chat).unwrap()),
            (3, "CacheNotReady".into())
        );
        assert!(world.fleet.asked().is_empty());

        world.settle().await;
        let chat = world.reconcile("chat").await;
        assert_eq!(waiting(&chat).unwrap(), "SlotsMoving");
        assert!(condition(&chat, "RingStable").starts_with("False SlotsMoving"));
        assert_eq!(world.fleet.asked().len(), 1);
        // One batch at a time, also when it takes long.
        let chat = world.reconcile("chat").await;
        assert!(world.fleet.asked().is_empty());
        let words = condition(&chat, "RingStable");
        assert!(
            words.starts_with("False SlotsMoving: moving 64 of 512 slots from chat-"),
            "{words}"
        );
        assert_eq!(chat.status.unwrap().slots_moving, 64);

        until_done(&world).await;
        spread_over(&world, 3).await;
        assert!(world.fleet.asked().iter().all(|a| a.ends_with("to chat-2")));
    });
}

#[test]
fn fewer_pods_go_one_by_one_and_hold_nothing_when_they_do() {
    with_world(async |world| {
        running(&world, 4).await;
        resize(&world, 2).await;
        let chat = world.reconcile("chat").await;
        assert_eq!(world.fleet.asked(), ["drain chat-3"]);
        assert_eq!(waiting(&chat).unwrap(), "CacheDraining");
        // It holds something: nothing is taken away, however often the operator looks, and no other pod drains.
        for _ in 0..2 {
            world.reconcile("chat").await;
            world.settle().await;
        }
        assert_eq!((replicas(&world).await, world.fleet.asked()), (4, vec![]));

        world.fleet.act().await;
        world.reconcile("chat").await;
        assert_eq!(
            (replicas(&world).await, world.fleet.holds("chat-3")),
            (3, (0, 0))
        );
        let chat = until_done(&world).await;
        assert_eq!(world.cache_pods("chat").await, ["chat-0", "chat-1"]);
        assert_eq!(world.fleet.asked(), ["drain chat-2"]);
        spread_over(&world, 2).await;
        assert_eq!(chat.status.unwrap().slots_taken_over, Some(0));
    });
}

#[test]
fn another_template_reaches_one_drained_pod_after_another() {
    with_world(async |world| {
        running(&world, 3).await;
        let uids = async || {
            let pods = world.api::<Pod>();
            let mut uids = Vec::new();
            for name in ["chat-0", "chat-1", "chat-2"] {
                uids.push(pods.get(name).await.unwrap().uid().unwrap());
            }
            uids
        };
        let before = uids().await;
        world.replace(with_image(3, "readstates:2")).await.unwrap();
        let chat = until_done(&world).await;
        let after = uids().await;
        assert!(before.iter().zip(&after).all(|(old, new)| old != new));
        let asked = world.fleet.asked();
        let drains: Vec<_> = asked.iter().filter(|a| a.starts_with("drain")).collect();
        assert_eq!(drains, ["drain chat-2", "drain chat-1", "drain chat-0"]);
        spread_over(&world, 3).await;
        assert_eq!(chat.status.unwrap().slots_taken_over, Some(0));
    });
}

#[test]
fn the_only_pod_is_flushed_and_replaced() {
    with_world(async |world| {
        running(&world, 1).await;
        world.replace(with_image(1, "readstates:2")).await.unwrap();
        until_done(&world).await;
        assert_eq!(world.fleet.asked(), ["flush chat-0"]);
        spread_over(&world, 1).await;

        world.fleet.unhealthy("chat-0");
        world.replace(with_image(1, "readstates:3")).await.unwrap();
        for _ in 0..4 {
            time_passes(&world).await;
            world.reconcile("chat").await;
        }
        let chat = world.reconcile("chat").await;
        assert_eq!(waiting(&chat).unwrap(), "UnsafeToStop");
        assert_eq!(world.fleet.asked(), Vec::<String>::new());
    });
}

#[test]
fn a_newer_wish_is_taken_up_in_the_middle_of_an_older_one() {
    with_world(async |world| {
        running(&world, 3).await;
        // Fewer, and when the drain has begun, more.
        resize(&world, 2).await;
        world.reconcile("chat").await;
        assert_eq!(world.fleet.asked(), ["drain chat-2"]);
        resize(&world, 4).await;
        until_done(&world).await;
        assert_eq!(world.cache_pods("chat").await.len(), 4);
        spread_over(&world, 4).await;

        // Another template, and in the midst of it yet another, and fewer pods.
        world.replace(with_image(4, "readstates:2")).await.unwrap();
        for _ in 0..6 {
            world.reconcile("chat").await;
            time_passes(&world).await;
        }
        world.replace(with_image(2, "readstates:3")).await.unwrap();
        let chat = until_done(&world).await;
        for name in world.cache_pods("chat").await {
            let pod = world.get::<Pod>(&name).await.spec.unwrap();
            assert_eq!(pod.containers[0].image.as_deref(), Some("readstates:3"));
        }
        spread_over(&world, 2).await;
        assert_eq!(chat.status.unwrap().slots_taken_over, Some(0));
    });
}

#[test]
fn a_pod_that_somebody_deletes_hands_on_by_itself_and_gets_its_share_back() {
    with_world(async |world| {
        running(&world, 3).await;
        let pods = world.api::<Pod>();
        pods.delete("chat-1", &DeleteParams::default())
            .await
            .unwrap();
        world.fleet.terminate("chat-1");
        let chat = world.reconcile("chat").await;
        assert_eq!(waiting(&chat).unwrap(), "CacheDraining");
        let chat = until_done(&world).await;
        spread_over(&world, 3).await;
        assert_eq!(chat.status.unwrap().slots_taken_over, Some(0));
    });
}

#[test]
fn slots_taken_over_from_a_process_that_died_are_told() {
    with_world(async |world| {
        running(&world, 3).await;
        let pods = world.api::<Pod>();
        world.fleet.stop("chat-1");
        let chat = world.reconcile("chat").await;
        // It does not answer, and has not been found out yet.
        assert!(condition(&chat, "RingStable").starts_with("Unknown NotObserved"));
        pods.delete("chat-1", &DeleteParams::default())
            .await
            .unwrap();
        let chat = until_done(&world).await;
        let words = condition(&chat, "TakenOver");
        assert!(words.starts_with("True SlotsTakenOver: 34"), "{words}");
        spread_over(&world, 3).await;

        let events = world.api::<Event>();
        let events = events.list(&ListParams::default()).await.unwrap();
        let told = events
            .iter()
            .filter(|e| e.reason.as_deref() == Some("SlotsTakenOver"));
        assert_eq!(told.count(), 1);
    });
}

/// The process in this pod dies, and the others have taken its slots.
async fn dies(world: &World, pod: &str) -> String {
    world.fleet.stop(pod);
    let pods = world.api::<Pod>();
    pods.delete(pod, &DeleteParams::default()).await.unwrap();
    condition(&until_done(world).await, "TakenOver")
}

#[test]
fn a_takeover_that_somebody_has_looked_at_is_no_alarm_until_the_next_one() {
    with_world(async |world| {
        running(&world, 3).await;
        let words = dies(&world, "chat-1").await;
        let (_, name) = words
            .split_once("readstates.dev/acknowledge-takeover=")
            .unwrap();
        let clusters = world.api::<ReadStateCluster>();
        let seen = json!({ "metadata": { "annotations": { "readstates.dev/acknowledge-takeover": name } } });
        let params = PatchParams::default();
        clusters
            .patch("chat", &params, &Patch::Merge(seen))
            .await
            .unwrap();
        for _ in 0..2 {
            let words = condition(&world.reconcile("chat").await, "TakenOver");
            assert!(
                words.starts_with("False AsExpected: a person has acknowledged all 34"),
                "{words}"
            );
        }
        let words = dies(&world, "chat-2").await;
        assert!(words.starts_with("True SlotsTakenOver: 34"), "{words}");
    });
}

#[test]
fn a_ring_that_somebody_deletes_is_made_again_and_no_pod_stops() {
    with_world(async |world| {
        running(&world, 2).await;
        let number = world.get::<ReadStateRing>("chat").await.spec.number;
        let rings = world.api::<ReadStateRing>();
        rings
            .delete("chat", &DeleteParams::default())
            .await
            .unwrap();
        let chat = world.reconcile("chat").await;
        assert_eq!(
            (replicas(&world).await, waiting(&chat).unwrap()),
            (2, "RingLost".into())
        );
        let made = world.get::<ReadStateRing>("chat").await.spec;
        assert!(made.number > number && made.members.is_empty());
        until_done(&world).await;
        spread_over(&world, 2).await;
        assert!(world.get::<ReadStateRing>("chat").await.spec.number > number);
    });
}

#[test]
fn a_budget_allows_one_pod_at_a_time() {
    with_world(async |world| {
        running(&world, 2).await;
        let may_go = async || {
            let budget = world.get::<PodDisruptionBudget>("chat").await.spec.unwrap();
            serde_json::to_value(budget.max_unavailable).unwrap()
        };
        assert_eq!(may_go().await, json!(1));
        // Nor does an operator that is killed now leave one behind that stops the drain of a machine.
        resize(&world, 1).await;
        world.reconcile("chat").await;
        assert_eq!(world.fleet.asked(), ["drain chat-1"]);
        assert_eq!(may_go().await, json!(1));
        let set = world.get::<StatefulSet>("chat").await.spec.unwrap();
        assert_eq!(
            set.update_strategy.unwrap().type_.as_deref(),
            Some("OnDelete")
        );
    });
}
