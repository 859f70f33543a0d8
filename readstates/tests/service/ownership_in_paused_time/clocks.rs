//! Clocks that are wrong, and rings that go back in time.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use readstates::{block::Outcome, ownership::store::Swapped};
use readstates_ring::{RingTable, Slot, Succession};
use tokio::time::{Instant, sleep};

use super::{
    balance,
    world::{Member, PausedWorld, Said},
};
use crate::common::severable::{Reach, Severable};

const HOUR: i64 = 3_600_000_000;

async fn until(what: &str, so: impl Fn() -> bool) {
    let began = Instant::now();
    while !so() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
        sleep(Duration::from_millis(100)).await;
    }
}

fn all_served(members: &[&Member]) -> bool {
    let statuses: Vec<_> = members.iter().map(|it| it.ownership.status()).collect();
    let owned: u16 = statuses.iter().map(|status| status.owned).sum();
    owned == 1024 && statuses.iter().all(|status| status.sealed == 0)
}

#[tokio::test(start_paused = true)]
async fn members_die_one_after_another_and_one_whose_clock_is_wrong_takes_nothing() {
    let mut world = PausedWorld::new();
    let right = [
        world.member().await,
        world.member().await,
        world.member().await,
    ];
    world.clocks_ahead = 2 * HOUR;
    let wrong = world.member().await;
    // Its clock has to be compared first.
    sleep(Duration::from_secs(10)).await;
    balance(&[&right[0], &right[1], &right[2]]).await;
    world.kill(&right[2]);
    until("the others take everything", || {
        all_served(&[&right[0], &right[1]])
    })
    .await;
    assert_eq!(wrong.owned(), 0, "it minted nothing");
    world.kill(&wrong);
    sleep(Duration::from_secs(30)).await;
    world.kill(&right[1]);
    until("the last one takes everything", || all_served(&[&right[0]])).await;
    for user in 1..=50 {
        let said = right[0].ack(user, 5).await;
        assert!(matches!(said, Said::Done(Outcome::Applied, _)), "{said:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_has_a_wrong_clock_keeps_what_it_owns_by_the_time_of_the_others() {
    let mut world = PausedWorld::new();
    world.clocks_ahead = 48 * HOUR;
    let severable = Severable::new(&world.ring);
    // The store tells the time from the beginning on.
    severable.clock_ahead.store(-48 * HOUR, Ordering::SeqCst);
    let shared = std::mem::replace(&mut world.ring, Arc::clone(&severable) as _);
    let wrong = world.member().await;
    assert_eq!(wrong.owned(), 0, "alone, and contradicted by the store");
    let of_right = Severable::new(&shared);
    of_right.clock_ahead.store(0, Ordering::SeqCst);
    (world.ring, world.clocks_ahead) = (of_right, 0);
    let right = world.member().await;
    assert_eq!(right.owned(), 1024);
    // Set right, it takes its share and keeps it when it is wrong again and loses its lease.
    severable.clock_ahead.store(0, Ordering::SeqCst);
    sleep(Duration::from_secs(5)).await;
    balance(&[&right, &wrong]).await;
    let table = Arc::clone(right.ownership.routes().table());
    let highest = table.configs().map(|(_, config)| config.epoch()).max();
    severable.clock_ahead.store(-48 * HOUR, Ordering::SeqCst);
    sleep(Duration::from_secs(5)).await;
    severable.set(Reach::Away);
    sleep(Duration::from_secs(12)).await;
    severable.set(Reach::There);
    until("it serves again", || all_served(&[&right, &wrong])).await;
    let table = Arc::clone(right.ownership.routes().table());
    let now = table.configs().map(|(_, config)| config.epoch()).max();
    let grown = now.unwrap().number() - highest.unwrap().number();
    assert!((1..10).contains(&grown), "by {grown} epochs of 17 s");
}

#[tokio::test(start_paused = true)]
async fn members_that_are_all_wrong_by_days_alike_mint_by_a_store_that_tells_the_time() {
    let mut world = PausedWorld::new();
    let shared = Arc::clone(&world.ring);
    world.clocks_ahead = 72 * HOUR;
    let mut members = Vec::new();
    for _ in 0..3 {
        let severable = Severable::new(&shared);
        severable.clock_ahead.store(-72 * HOUR, Ordering::SeqCst);
        world.ring = severable;
        members.push(world.member().await);
    }
    let all: Vec<&Member> = members.iter().collect();
    sleep(Duration::from_secs(10)).await;
    balance(&all).await;
    world.kill(&members[0]);
    let living = [&members[1], &members[2]];
    until("the others take what it had", || all_served(&living)).await;
    let table = Arc::clone(members[1].ownership.routes().table());
    let highest = table.configs().map(|(_, config)| config.epoch()).max();
    let ahead = highest.unwrap().number() - (world.unix_micros() >> 24);
    assert!(ahead < 10, "{ahead} epochs of 17 s ahead of what is right");
}

/// A ring in which some slots of a member were minted by a clock that was so far ahead.
async fn minted_ahead(world: &PausedWorld, member: &Member, slots: usize, ahead: i64) {
    let read = world.ring.get().await.unwrap().unwrap();
    let me = member.ownership.me();
    let mine = read.table.owned_by(me.incarnation()).take(slots);
    let asked: Vec<_> = mine.map(|(slot, epoch)| (slot, Some(epoch))).collect();
    let now = world.unix_micros() + ahead;
    let next = read
        .table
        .swap(&asked, me, Succession::Handed, now)
        .unwrap();
    let swapped = world.ring.compare_and_swap(Some(read.version), next).await;
    assert!(matches!(swapped.unwrap(), Swapped::Taken(_)));
    sleep(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_move_with_slots_that_a_wrong_clock_minted_moves_the_others_and_seals_nothing() {
    let mut world = PausedWorld::new();
    let (first, second) = (world.member().await, world.member().await);
    minted_ahead(&world, &first, 32, 2 * HOUR).await;
    let table = Arc::clone(first.ownership.routes().table());
    let slots: Vec<_> = table
        .owned_by(first.ownership.me().incarnation())
        .take(64)
        .collect();
    let to = second.ownership.me().incarnation();
    assert_eq!(first.ownership.begin_move(to, &slots).await, Ok(32));
    until("half of them move", || second.owned() == 32).await;
    assert!(all_served(&[&first, &second]));
    assert_eq!(first.ownership.status().receiving, 0);
    assert_eq!(second.ownership.status().receiving, 0);
    assert_eq!(first.ownership.begin_move(to, &slots[..32]).await, Ok(0));
    // Another move is not held up.
    let others: Vec<_> = Slot::all().skip(700).take(8).collect();
    let table = Arc::clone(first.ownership.routes().table());
    let others: Vec<_> = others
        .into_iter()
        .map(|slot| (slot, table.config(slot).unwrap().epoch()))
        .collect();
    assert_eq!(first.ownership.begin_move(to, &others).await, Ok(8));
    until("the others move", || second.owned() == 40).await;
    world.kill(&first);
    until("what a wrong clock minted is taken all the same", || {
        all_served(&[&second])
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn slots_that_cannot_be_swapped_do_not_keep_others_from_being_taken() {
    let mut world = PausedWorld::new();
    let (first, second) = (world.member().await, world.member().await);
    // More than can be written with.
    minted_ahead(&world, &first, 32, 60 * HOUR).await;
    world.kill(&first);
    until("all but those are taken", || second.owned() == 1024 - 32).await;
    assert!(second.ownership.status().lease_valid);
    for user in (1..=100).filter(|&user| Slot::of_user(user).number() >= 32) {
        let said = second.ack(user, 5).await;
        assert!(matches!(said, Said::Done(Outcome::Applied, _)), "{said:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_restored_ring_is_told_what_its_members_know_and_nobody_is_robbed() {
    let mut world = PausedWorld::new();
    let first = world.member().await;
    let old = world.ring.get().await.unwrap().unwrap().table;
    let second = world.member().await;
    balance(&[&first, &second]).await;
    for user in 1..=100 {
        let said = match first.ack(user, 5).await {
            Said::AskAnother(_) => second.ack(user, 5).await,
            said => said,
        };
        assert!(matches!(said, Said::Done(Outcome::Applied, _)), "{said:?}");
    }
    let before = world.ring.get().await.unwrap().unwrap();
    let restored = RingTable::clone(&old);
    let swapped = world.ring.compare_and_swap(Some(before.version), restored);
    assert!(matches!(swapped.await.unwrap(), Swapped::Taken(_)));
    // A member that knows nothing of what happened meanwhile.
    let third = world.member().await;
    sleep(Duration::from_secs(20)).await;
    let after = world.ring.get().await.unwrap().unwrap().table;
    assert!(after.number() > before.table.number());
    let changed = Slot::all().filter(|&slot| after.config(slot) != before.table.config(slot));
    assert_eq!(changed.count(), 0, "everything is at the epoch it was at");
    assert_eq!(
        (first.owned(), second.owned(), third.owned()),
        (512, 512, 0)
    );
    for user in 1..=100 {
        let said = match third.ack(user, 5).await {
            Said::AskAnother(owner) if owner == first.ownership.me().incarnation() => {
                first.ack(user, 5).await
            }
            Said::AskAnother(_) => second.ack(user, 5).await,
            said => said,
        };
        assert!(matches!(said, Said::Done(Outcome::Ignored, _)), "{said:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn routes_follow_the_store_when_its_number_is_lower_and_says_nothing_less() {
    let mut world = PausedWorld::new();
    let (first, second) = (world.member().await, world.member().await);
    balance(&[&first, &second]).await;
    let read = world.ring.get().await.unwrap().unwrap();
    // As a tool would write it that starts to count again.
    let mut record = readstates_ring::record::RingRecord::from(&*read.table);
    record.number = 2;
    let table = RingTable::try_from(record).unwrap();
    let swapped = world.ring.compare_and_swap(Some(read.version), table);
    assert!(matches!(swapped.await.unwrap(), Swapped::Taken(_)));
    sleep(Duration::from_secs(20)).await;
    for member in [&first, &second] {
        assert_eq!(member.ownership.routes().number(), 2);
    }
    let slots: Vec<_> = first.ownership.routes().table().configs().collect();
    let me = first.ownership.me().incarnation();
    let mine = slots.iter().filter(|(_, config)| config.owner() == me);
    let mine: Vec<_> = mine
        .map(|(slot, config)| (*slot, config.epoch()))
        .take(8)
        .collect();
    let to = second.ownership.me().incarnation();
    assert_eq!(first.ownership.begin_move(to, &mine).await, Ok(8));
    until("moves go on", || second.owned() == 520).await;
}

#[tokio::test(start_paused = true)]
async fn routes_follow_a_restored_store_that_came_to_the_same_number_in_another_way() {
    let mut world = PausedWorld::new();
    let (first, second) = (world.member().await, world.member().await);
    balance(&[&first, &second]).await;
    let read = world.ring.get().await.unwrap().unwrap();
    let mut record = readstates_ring::record::RingRecord::from(&*read.table);
    record.number -= 1;
    let restored = RingTable::try_from(record).unwrap();
    let me = second.ownership.me();
    // It is named itself: it would not give up slots for which another member is named.
    let of_second = restored.owned_by(me.incarnation());
    let asked: Vec<_> = of_second
        .map(|(slot, at)| (slot, Some(at)))
        .take(8)
        .collect();
    let now = world.unix_micros();
    let other = restored.swap(&asked, me, Succession::Handed, now).unwrap();
    assert_eq!(other.number(), read.table.number());
    let swapped = world
        .ring
        .compare_and_swap(Some(read.version), other.clone());
    assert!(matches!(swapped.await.unwrap(), Swapped::Taken(_)));
    until("both know the other one", || {
        let knows = |member: &&Member| **member.ownership.routes().table() == other;
        [&first, &second].iter().all(knows)
    })
    .await;
    assert_eq!((first.owned(), second.owned()), (512, 512));
}
