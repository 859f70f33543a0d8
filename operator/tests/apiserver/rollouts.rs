//! Many clusters that are to be restarted at once, of which only so many may be (`--max-clusters-in-rollout`).

use std::collections::BTreeMap;

use futures::StreamExt as _;
use kube::runtime::{WatchStreamExt as _, reflector, watcher};
use readstates_operator::rollouts::Rollouts;
use readstates_operator_api::{ReadStateCluster, labels};
use serde_json::json;

use crate::{
    chat::{change_spec, running, time_passes, until_done},
    restart::{annotate, none_is_left, uids},
    world::{World, condition, with_world},
};

/// Looks after which two clusters must have restarted all pods.
const PATIENCE: usize = 120;

/// From here on a process of the operator is at work on all of these that has just started.
async fn another_operator(worlds: &mut [World], limit: u16) {
    let rollouts = Rollouts::new(limit, worlds.len());
    for world in worlds {
        let (reader, writer) = reflector::store();
        let clusters = world.api::<ReadStateCluster>();
        let watch = watcher(clusters, watcher::Config::default()).reflect(writer);
        // It ends with the test.
        tokio::spawn(watch.for_each(async |_| {}));
        reader.wait_until_ready().await.unwrap();
        rollouts.add(reader);
        world.counting(&rollouts);
    }
}

/// Two clusters that are up, each in a namespace of its own, and are to be restarted.
async fn asked(first: World) -> [World; 2] {
    let second = first.another().await;
    let mut worlds = [first, second];
    another_operator(&mut worlds, 1).await;
    for world in &worlds {
        running(world, 2).await;
        annotate(world, labels::RESTART_CACHE, "one").await;
        annotate(world, labels::RESTART_DATABASE, "one").await;
    }
    worlds
}

async fn pods(world: &World) -> BTreeMap<String, String> {
    let mut all = uids(world, "cache").await;
    all.extend(uids(world, "database").await);
    all
}

fn rolls_out(chat: &ReadStateCluster) -> bool {
    condition(chat, "RollingOut").starts_with("True RestartingPods")
}

#[test]
fn clusters_are_restarted_one_after_another_also_when_the_operator_is_replaced_meanwhile() {
    with_world(async |first| {
        let mut worlds = Box::pin(asked(first)).await;
        let before = [pods(&worlds[0]).await, pods(&worlds[1]).await];
        let mut waited = 0;
        for _ in 0..PATIENCE {
            let (mut rolling, mut done) = (0, 0);
            for (world, before) in worlds.iter().zip(&before) {
                let had = pods(world).await;
                let chat = world.reconcile("chat").await;
                let rolls = rolls_out(&chat);
                rolling += usize::from(rolls);
                time_passes(world).await;
                let has = pods(world).await;
                assert!(
                    rolls || has == had,
                    "pods were restarted: {:?}",
                    chat.status
                );
                let waits =
                    condition(&chat, "RollingOut").starts_with("False WaitsForOtherClusters");
                waited += usize::from(waits);
                let same = |(name, uid): (&String, &String)| has.get(name) == Some(uid);
                done += usize::from(!rolls && !before.iter().any(same));
            }
            assert!(rolling <= 1, "{rolling} clusters restart pods at once");
            if done == worlds.len() {
                break;
            }
            another_operator(&mut worlds, 1).await;
        }
        assert!(waited > 0, "neither has waited for the other");
        for (world, before) in worlds.iter().zip(&before) {
            none_is_left(before, &pods(world).await);
        }
    });
}

#[test]
fn a_cluster_that_cannot_go_on_is_named_to_those_that_wait_and_gives_its_place_away_when_it_is_paused()
 {
    with_world(async |first| {
        let [ill, well] = Box::pin(asked(first)).await;
        let before = pods(&well).await;
        let mut looks = 0..PATIENCE;
        while !rolls_out(&ill.reconcile("chat").await) {
            assert!(looks.next().is_some(), "it never gets a place");
            time_passes(&ill).await;
        }
        // Its first pod is told to go, and nothing happens there any more.
        ill.reconcile("chat").await;
        let mut words = String::new();
        for _ in 0..6 {
            let chat = well.reconcile("chat").await;
            time_passes(&well).await;
            words = condition(&chat, "RollingOut");
            assert_eq!(pods(&well).await, before);
        }
        let reason = "False WaitsForOtherClusters: ";
        let named = format!(
            "fewer than 1 other clusters restart pods: {}/chat (since ",
            ill.namespace
        );
        assert!(
            words.starts_with(reason) && words.contains(&named),
            "{words}"
        );
        assert!(rolls_out(&ill.reconcile("chat").await));

        change_spec(&ill, json!({ "paused": true })).await;
        assert!(!rolls_out(&ill.get("chat").await));
        until_done(&well).await;
        none_is_left(&before, &pods(&well).await);
    });
}
