//! Engines and ownership alone, on one thread, over a network that is a map and a clock that only moves
//! when all tasks wait: the production timing, and minutes in milliseconds.

mod backed;
mod clocks;
mod ending;
mod epochs;
mod late_swaps;
mod outages;
mod replicated;
mod restores;
mod sealed;
mod world;

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use readstates::block::Outcome;
use readstates_ring::moves::{Live, next_batch};
use tokio::time::{Instant, sleep};
use world::{Member, PausedWorld, Said};

use crate::common::severable::{Reach, Severable};

/// Moves slots until the members have about as many each.
async fn balance(members: &[&Member]) {
    let live: Vec<Live> = members.iter().map(|member| member.live()).collect();
    loop {
        let table = Arc::clone(members[0].ownership.routes().table());
        let Some(next) = next_batch(&table, &live, 64) else {
            return;
        };
        let find = |incarnation| {
            let is = |it: &&&Member| it.ownership.me().incarnation() == incarnation;
            members.iter().find(is).unwrap()
        };
        let to = find(next.to).ownership.me().incarnation();
        let begun = find(next.from).ownership.begin_move(to, &next.slots).await;
        begun.unwrap();
        sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn slots_move_between_members_that_share_nothing_but_a_simulated_network() {
    let mut world = PausedWorld::new();
    let first = world.member().await;
    for user in 1..=100 {
        assert!(matches!(
            first.ack(user, 5).await,
            Said::Done(Outcome::Applied, _)
        ));
    }
    let second = world.member().await;
    balance(&[&first, &second]).await;
    assert_eq!((first.owned(), second.owned()), (512, 512));
    let mut moved = 0;
    for user in 1..=100 {
        let said = match first.ack(user, 5).await {
            Said::AskAnother(_) => {
                moved += 1;
                second.ack(user, 5).await
            }
            said => said,
        };
        assert!(
            matches!(said, Said::Done(Outcome::Ignored, _)),
            "{user}: {said:?}"
        );
    }
    assert!((30..70).contains(&moved), "{moved} of 100 users");
    assert_eq!(
        first.engine.totals().users + second.engine.totals().users,
        100
    );
}

#[tokio::test(start_paused = true)]
async fn a_dead_members_slots_are_taken_after_thirteen_seconds_and_before_twenty() {
    let mut world = PausedWorld::new();
    let (first, second) = (world.member().await, world.member().await);
    let Said::Done(_, version) = first.ack(1, 5).await else {
        panic!("the first member owns everything")
    };
    world.kill(&first);
    let died = Instant::now();
    assert_eq!(first.ack(1, 6).await, Said::Unknown, "without a lease");
    while second.owned() == 0 {
        sleep(Duration::from_millis(100)).await;
    }
    let after = died.elapsed();
    assert!(after > Duration::from_secs(10), "{after:?}");
    assert!(after < Duration::from_secs(20), "{after:?}");
    assert_eq!(second.ownership.status().taken_from_the_dead, 1024);
    let Said::Done(Outcome::Applied, later) = second.ack(1, 5).await else {
        panic!("what was not written is lost")
    };
    assert!(later > version);
}

#[tokio::test(start_paused = true)]
async fn when_nobody_confirms_the_last_part_the_slots_go_on_here_under_a_new_epoch() {
    let mut world = PausedWorld::new();
    let (first, second) = (world.member().await, world.member().await);
    for user in 1..=200 {
        assert!(matches!(
            first.ack(user, 5).await,
            Said::Done(Outcome::Applied, _)
        ));
    }
    let lost = &world.network.loses_confirmations;
    lost.store(true, Ordering::SeqCst);
    let before = Arc::clone(first.ownership.routes().table());
    let mine = before.owned_by(first.ownership.me().incarnation());
    let slots: Vec<_> = mine.take(64).collect();
    let to = second.ownership.me().incarnation();
    assert_eq!(first.ownership.begin_move(to, &slots).await, Ok(64));
    let mut waited = false;
    while !first.ownership.status().streaming.is_empty() || !waited {
        waited = true;
        sleep(Duration::from_millis(20)).await;
    }
    assert_eq!((first.owned(), second.owned()), (1024, 0));
    let after = Arc::clone(first.ownership.routes().table());
    for &(slot, epoch) in &slots {
        assert!(after.config(slot).unwrap().epoch() > epoch, "slot {slot}");
    }
    for user in 1..=200 {
        let said = first.ack(user, 5).await;
        assert!(
            matches!(said, Said::Done(Outcome::Ignored, _)),
            "{user}: {said:?}"
        );
    }
    lost.store(false, Ordering::SeqCst);
    balance(&[&first, &second]).await;
    for user in 1..=200 {
        let said = match first.ack(user, 5).await {
            Said::AskAnother(_) => second.ack(user, 5).await,
            said => said,
        };
        assert!(
            matches!(said, Said::Done(Outcome::Ignored, _)),
            "{user}: {said:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_has_lost_its_lease_before_the_last_part_comes_is_handed_nothing() {
    let mut world = PausedWorld::new();
    let first = world.member().await;
    let severed = Severable::new(&world.ring);
    world.ring = Arc::clone(&severed) as _;
    let second = world.member().await;
    for user in 1..=200 {
        assert!(matches!(
            first.ack(user, 5).await,
            Said::Done(Outcome::Applied, _)
        ));
    }
    severed.set(Reach::Away);
    // Longer than a lease lasts.
    world.network.last_parts_take.store(11, Ordering::SeqCst);
    let table = Arc::clone(first.ownership.routes().table());
    let slots: Vec<_> = table.owned_by(first.ownership.me().incarnation()).collect();
    let to = second.ownership.me().incarnation();
    assert_eq!(first.ownership.begin_move(to, &slots).await, Ok(1024));
    // The second member is dead to the first one then, and nothing is written yet.
    sleep(Duration::from_secs(20)).await;
    assert!(world.store.load(1).await.unwrap().is_none());
    world.network.last_parts_take.store(0, Ordering::SeqCst);
    while !first.ownership.status().streaming.is_empty() || first.ownership.status().sealed > 0 {
        sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(first.owned(), 1024);
    for user in 1..=200 {
        let said = first.ack(user, 5).await;
        assert!(
            matches!(said, Said::Done(Outcome::Ignored, _)),
            "{user}: {said:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn slots_whose_lease_ran_out_while_they_were_streamed_are_served_and_loaded_under_the_next_epoch()
 {
    let mut world = PausedWorld::new();
    let severed = Severable::new(&world.ring);
    world.ring = Arc::clone(&severed) as _;
    let (first, second) = (world.member().await, world.member().await);
    let before = Arc::clone(first.ownership.routes().table());
    let mine = before.owned_by(first.ownership.me().incarnation());
    let slots: Vec<_> = mine.collect();
    // The second member has taken the offer, and the first one hears of it when all is over.
    let late = &world.network.offers_answered_after;
    late.store(25, Ordering::SeqCst);
    let to = second.ownership.me().incarnation();
    assert_eq!(first.ownership.begin_move(to, &slots).await, Ok(1024));
    sleep(Duration::from_secs(1)).await;
    severed.set(Reach::Away);
    // Longer than a lease lasts, for both.
    sleep(Duration::from_secs(12)).await;
    severed.set(Reach::There);
    sleep(Duration::from_secs(8)).await;
    let after = Arc::clone(first.ownership.routes().table());
    for &(slot, epoch) in &slots {
        assert!(after.config(slot).unwrap().epoch() > epoch, "slot {slot}");
    }
    assert_eq!(first.ownership.status().sealed, 0);
    assert!(!first.ownership.status().streaming.is_empty());
    // No user is in memory, so that no part is refused before the first member would seal.
    while !first.ownership.status().streaming.is_empty() {
        sleep(Duration::from_millis(10)).await;
    }
    assert_eq!((first.owned(), second.owned()), (1024, 0));
    for user in 1..=200 {
        let said = first.ack(user, 5).await;
        assert!(
            matches!(said, Said::Done(Outcome::Applied, _)),
            "{user}: {said:?}"
        );
    }
    late.store(0, Ordering::SeqCst);
    balance(&[&first, &second]).await;
    assert_eq!((first.owned(), second.owned()), (512, 512));
}

#[tokio::test(start_paused = true)]
async fn a_member_that_leaves_goes_on_offering_while_the_only_other_is_dead_and_not_known_to_be() {
    let mut world = PausedWorld::new();
    let (first, second) = (world.member().await, world.member().await);
    for user in 1..=100 {
        let said = first.ack(user, 5).await;
        assert!(matches!(said, Said::Done(Outcome::Applied, _)), "{said:?}");
    }
    world.kill(&second);
    let began = Instant::now();
    let deadline = began + Duration::from_secs(60);
    let (drained, third) = tokio::join!(first.ownership.drain(deadline), async {
        sleep(Duration::from_secs(5)).await;
        world.member().await
    });
    assert!(drained);
    assert_eq!((first.owned(), third.owned()), (0, 1024));
    let took = began.elapsed();
    assert!(took < Duration::from_secs(20), "{took:?}");
    for user in 1..=100 {
        let said = third.ack(user, 5).await;
        assert!(matches!(said, Said::Done(Outcome::Ignored, _)), "{said:?}");
    }
    // Nobody is left to offer to once the dead one is known to be dead.
    let deadline = Instant::now() + Duration::from_secs(60);
    assert!(!third.ownership.drain(deadline).await);
    assert!(Instant::now() < deadline);
}
