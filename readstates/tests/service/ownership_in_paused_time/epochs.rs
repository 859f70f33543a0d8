//! Epochs do not grow old: what another program writes into the table without our timestamps hides later writes for a
//! day at most.

use std::{sync::Arc, time::Duration};

use readstates::block::Outcome;
use readstates_ring::{RingTable, SLOTS};
use tokio::time::sleep;

use super::{
    balance,
    world::{PausedWorld, Said},
};

#[tokio::test(start_paused = true)]
async fn every_slot_gets_a_new_epoch_in_time_and_is_served_and_cached_all_the_while() {
    let mut world = PausedWorld::new();
    world.timing.epoch_lasts = Duration::from_secs(60);
    let (first, second) = (world.member().await, world.member().await);
    balance(&[&first, &second]).await;
    for user in 1..=100 {
        for member in [&first, &second] {
            // One of the two owns it.
            let _ = member.ack(user, 5).await;
        }
    }
    let table = || Arc::clone(first.ownership.routes().table());
    let before = table();
    let mut refused = 0;
    for _ in 0..1200 {
        sleep(Duration::from_millis(100)).await;
        for member in [&first, &second] {
            match member.ack(1, 5).await {
                Said::Done(outcome, _) => assert_eq!(outcome, Outcome::Ignored, "not cached"),
                Said::AskAnother(_) => {}
                Said::Later(_) | Said::Unknown => refused += 1,
            }
        }
    }
    assert!(refused <= 2, "{refused} were not answered");
    let now = table();
    let epochs = |table: &RingTable| -> Vec<_> {
        table
            .configs()
            .map(|(_, config)| (config.epoch(), config.owner()))
            .collect()
    };
    let (before, after) = (epochs(&before), epochs(&now));
    assert_eq!(after.len(), usize::from(SLOTS));
    for ((old, owner), (new, later)) in before.iter().zip(&after) {
        assert_eq!(owner, later);
        // A minute is three epochs and a half.
        assert!(
            (3..=8).contains(&(new.number() - old.number())),
            "{old} {new}"
        );
    }
}
