//! Members that replicate: what was acknowledged survives the death of any one of them, and is served again soon.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::{future::BoxFuture, stream::BoxStream};
use readstates::{
    block::Outcome,
    ownership::{
        Backing,
        store::{MemoryRing, Presence, RingStore, RingStoreError, Swapped, Version, Versioned},
    },
};
use readstates_ring::{
    Incarnation, RingMember, RingTable, SLOTS, Slot, Succession, record::RingRecord,
};
use tokio::time::{Instant, sleep, timeout};

use super::{
    balance,
    world::{Member, PausedWorld, Said},
};
use crate::common::rings::presence;

pub(super) const USERS: std::ops::RangeInclusive<u64> = 1..=200;

pub(super) async fn until(what: &str, so: impl AsyncFn() -> bool) {
    let looks = async {
        while !so().await {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(Duration::from_secs(120), looks).await.expect(what);
}

async fn table(ring: &MemoryRing) -> Arc<RingTable> {
    ring.get().await.unwrap().unwrap().table
}

/// Every slot has an owner among these, and a backup among the others of them.
pub(super) async fn all_are_backed(ring: &MemoryRing, members: &[&Member]) {
    let lives = |it| {
        members
            .iter()
            .any(|member| member.ownership.me().incarnation() == it)
    };
    until("backed", async || {
        let table = table(ring).await;
        Slot::all().all(|slot| {
            let config = table.config(slot);
            config.is_some_and(|config| lives(config.owner()) && config.backup().is_some_and(lives))
        })
    })
    .await;
}

pub(super) fn with_ring() -> (PausedWorld, Arc<MemoryRing>) {
    let (mut world, ring) = (PausedWorld::new(), Arc::new(MemoryRing::default()));
    world.ring = Arc::clone(&ring) as _;
    world.backing = Backing::Available;
    (world, ring)
}

/// Three members, each of which owns slots with a backup, and has acknowledged changes that are not written.
async fn three_that_acknowledged() -> (PausedWorld, Arc<MemoryRing>, [Member; 3]) {
    let (mut world, ring) = with_ring();
    let three = [
        world.member().await,
        world.member().await,
        world.member().await,
    ];
    let all = three.each_ref();
    balance(&all).await;
    all_are_backed(&ring, &all).await;
    ack_all(&all, 5).await;
    (world, ring, three)
}

/// What the one of these says that owns the user.
pub(super) async fn said(members: &[&Member], user: u64, message: u64) -> Said {
    loop {
        for member in members {
            match member.ack(user, message).await {
                Said::AskAnother(_) => {}
                said => return said,
            }
        }
        sleep(Duration::from_millis(10)).await;
    }
}

pub(super) async fn ack_all(members: &[&Member], message: u64) {
    for user in USERS {
        let said = said(members, user, message).await;
        assert!(
            matches!(said, Said::Done(Outcome::Applied, _)),
            "{user}: {said:?}"
        );
    }
}

pub(super) async fn nothing_is_lost(members: &[&Member], message: u64) {
    for user in USERS {
        let said = said(members, user, message).await;
        assert!(
            matches!(said, Said::Done(Outcome::Ignored, _)),
            "{user}: {said:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_dead_member_acknowledged_is_served_by_its_backup_seconds_later() {
    let (mut world, ring) = with_ring();
    let first = world.member().await;
    let second = world.member().await;
    balance(&[&first, &second]).await;
    all_are_backed(&ring, &[&first, &second]).await;
    ack_all(&[&first, &second], 5).await;
    world.kill(&first);
    let killed = Instant::now();
    until("promoted", async || second.owned() == SLOTS).await;
    nothing_is_lost(&[&second], 5).await;
    let took = killed.elapsed();
    assert!(took < Duration::from_secs(6), "{took:?}, in paused time");
}

#[tokio::test(start_paused = true)]
async fn members_that_die_one_after_the_other_leave_everything_to_the_last() {
    let (world, ring, [first, second, third]) = three_that_acknowledged().await;
    world.kill(&first);
    // Nobody asks for anything meanwhile.
    all_are_backed(&ring, &[&second, &third]).await;
    ack_all(&[&second, &third], 6).await;
    world.kill(&second);
    until("promoted", async || third.owned() == SLOTS).await;
    nothing_is_lost(&[&third], 6).await;
    nothing_is_lost(&[&third], 5).await;
}

#[tokio::test(start_paused = true)]
async fn a_dead_backup_holds_nobody_up_for_long_and_is_replaced() {
    let (mut world, ring) = with_ring();
    let first = world.member().await;
    let second = world.member().await;
    all_are_backed(&ring, &[&first, &second]).await;
    world.kill(&second);
    let killed = Instant::now();
    ack_all(&[&first], 5).await;
    let took = killed.elapsed();
    assert!(took < Duration::from_secs(2), "{took:?}, in paused time");
    let third = world.member().await;
    all_are_backed(&ring, &[&first, &third]).await;
    world.kill(&first);
    until("promoted", async || third.owned() == SLOTS).await;
    nothing_is_lost(&[&third], 5).await;
}

#[tokio::test(start_paused = true)]
async fn whoever_hands_slots_on_is_their_backup_from_then_on() {
    let (mut world, ring) = with_ring();
    let first = world.member().await;
    ack_all(&[&first], 5).await;
    let second = world.member().await;
    all_are_backed(&ring, &[&first, &second]).await;
    let (one, other) = (first.ownership.me(), second.ownership.me());
    balance(&[&first, &second]).await;
    let table = table(&ring).await;
    let handed: Vec<Slot> = table
        .owned_by(other.incarnation())
        .map(|(slot, _)| slot)
        .collect();
    assert!(handed.len() > 500, "{}", handed.len());
    for slot in handed {
        let backup = table.config(slot).unwrap().backup();
        assert_eq!(backup, Some(one.incarnation()), "slot {slot}");
    }
    world.kill(&second);
    until("promoted", async || first.owned() == SLOTS).await;
    nothing_is_lost(&[&first], 5).await;
}

#[tokio::test(start_paused = true)]
async fn a_member_that_leaves_owns_and_backs_nothing_in_the_end() {
    let (world, ring, [first, second, third]) = three_that_acknowledged().await;
    let deadline = Instant::now() + Duration::from_secs(60);
    assert!(second.ownership.drain(deadline).await);
    let left = second.ownership.me().incarnation();
    let table = table(&ring).await;
    assert!(table.member(left).is_none(), "it is named for nothing");
    world.kill(&second);
    all_are_backed(&ring, &[&first, &third]).await;
    world.kill(&first);
    until("promoted", async || third.owned() == SLOTS).await;
    nothing_is_lost(&[&third], 5).await;
}

#[tokio::test(start_paused = true)]
async fn a_member_that_was_promoted_and_leaves_at_once_hands_on_what_it_inherited() {
    let (mut world, ring) = with_ring();
    let (first, second) = (world.member().await, world.member().await);
    all_are_backed(&ring, &[&first, &second]).await;
    ack_all(&[&first], 5).await;
    world.kill(&first);
    until("promoted", async || second.owned() == SLOTS).await;
    let third = world.member().await;
    // It tries to hand slots to the dead one, too, until it takes that one for dead.
    second.ownership.begin_drain();
    let backing = || second.ownership.status().replication.unwrap().backing;
    until("drained", async || second.owned() == 0 && backing() == 0).await;
    world.kill(&second);
    assert_eq!(third.owned(), SLOTS);
    nothing_is_lost(&[&third], 5).await;
}

#[tokio::test(start_paused = true)]
async fn the_backup_of_the_last_owner_can_leave_though_no_other_takes_its_place() {
    let (mut world, ring) = with_ring();
    let (first, second) = (world.member().await, world.member().await);
    balance(&[&first, &second]).await;
    all_are_backed(&ring, &[&first, &second]).await;
    ack_all(&[&first, &second], 5).await;
    let deadline = Instant::now() + Duration::from_secs(60);
    assert!(second.ownership.drain(deadline).await);
    world.kill(&second);
    assert_eq!(first.owned(), SLOTS);
    nothing_is_lost(&[&first], 5).await;
}

#[tokio::test(start_paused = true)]
async fn no_backup_is_named_while_a_process_lives_that_does_not_read_such_rings() {
    let (mut world, ring) = with_ring();
    let mut older = Presence {
        draining: true,
        ..presence("older", 99, 0)
    };
    let began = Instant::now();
    ring.renew(older.clone()).await.unwrap();
    let (first, second) = (world.member().await, world.member().await);
    while began.elapsed() < Duration::from_secs(30) {
        older.renewals += 1;
        ring.renew(older.clone()).await.unwrap();
        sleep(Duration::from_secs(1)).await;
        assert!(!table(&ring).await.has_backups());
    }
    assert_eq!(first.owned() + second.owned(), SLOTS);
    older.gone = true;
    older.renewals += 1;
    ring.renew(older).await.unwrap();
    all_are_backed(&ring, &[&first, &second]).await;
}

/// A Kubernetes API server with a definition of the ring that knows no backups.
#[derive(Debug, Default)]
struct OlderDefinition {
    ring: MemoryRing,
    is_replaced: AtomicBool,
}

impl RingStore for OlderDefinition {
    fn get(&self) -> BoxFuture<'_, Result<Option<Versioned>, RingStoreError>> {
        self.ring.get()
    }

    fn compare_and_swap(
        &self,
        expected: Option<Version>,
        next: RingTable,
    ) -> BoxFuture<'_, Result<Swapped, RingStoreError>> {
        if self.is_replaced.load(Ordering::SeqCst) {
            return self.ring.compare_and_swap(expected, next);
        }
        let mut record = RingRecord::from(&next);
        record.backups.clear();
        record.reader = 1;
        self.ring
            .compare_and_swap(expected, record.try_into().unwrap())
    }

    fn watch(&self) -> BoxStream<'static, Arc<RingTable>> {
        self.ring.watch()
    }

    fn renew(&self, presence: Presence) -> BoxFuture<'_, Result<(), RingStoreError>> {
        self.ring.renew(presence)
    }

    fn presences(&self) -> BoxFuture<'_, Result<Vec<Presence>, RingStoreError>> {
        self.ring.presences()
    }

    fn forget(&self, incarnation: Incarnation) -> BoxFuture<'_, Result<(), RingStoreError>> {
        self.ring.forget(incarnation)
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_keeps_no_backups_is_noticed_and_asked_again_when_it_may_have_changed() {
    let (mut world, ring) = (PausedWorld::new(), Arc::new(OlderDefinition::default()));
    world.ring = Arc::clone(&ring) as _;
    world.backing = Backing::Available;
    let (first, second) = (world.member().await, world.member().await);
    balance(&[&first, &second]).await;
    let notices = async || {
        let of = |member: &Member| member.ownership.status().replication.unwrap();
        of(&first).store_drops_backups && of(&second).store_drops_backups
    };
    until("noticed", &notices).await;
    let number = table(&ring.ring).await.number();
    sleep(Duration::from_secs(50)).await;
    let later = table(&ring.ring).await.number();
    assert!(
        later <= number + 2,
        "{number} {later}: it is not asked over and over"
    );
    ack_all(&[&first, &second], 5).await;
    ring.is_replaced.store(true, Ordering::SeqCst);
    all_are_backed(&ring.ring, &[&first, &second]).await;
    until("told", async || !notices().await).await;
}

#[tokio::test(start_paused = true)]
async fn where_backups_are_required_changes_wait_for_a_second_member() {
    let (mut world, ring) = with_ring();
    world.backing = Backing::Required;
    let first = world.member().await;
    let refused = first.ack(1, 5).await;
    assert!(matches!(refused, Said::Later(_)), "{refused:?}");
    let second = world.member().await;
    all_are_backed(&ring, &[&first, &second]).await;
    ack_all(&[&first, &second], 5).await;
    world.kill(&second);
    // At first it is waited for.
    until("refused", async || {
        matches!(first.ack(1, 6).await, Said::Later(_))
    })
    .await;
    let third = world.member().await;
    all_are_backed(&ring, &[&first, &third]).await;
    nothing_is_lost(&[&first, &third], 5).await;
}

#[tokio::test(start_paused = true)]
async fn a_backup_that_lacks_something_takes_the_slots_of_a_dead_owner_as_anybody_would() {
    let (mut world, ring) = with_ring();
    let (first, second) = (world.member().await, world.member().await);
    all_are_backed(&ring, &[&first, &second]).await;
    world.kill(&first);
    // A third process owns everything for a moment, and the ring names the other one as a backup that has nothing of it.
    let third = RingMember::new("chat-77", Incarnation::new(77), "http://chat-77", None).unwrap();
    let (owner, backup) = (first.ownership.me(), second.ownership.me());
    for (owner, backup) in [(&third, None), (owner, Some(backup))] {
        let current = ring.get().await.unwrap().unwrap();
        let at = |slot| current.table.config(slot).map(|config| config.epoch());
        let asked: Vec<_> = Slot::all().map(|slot| (slot, at(slot))).collect();
        let (how, now) = (Succession::TakenOver, world.unix_micros());
        let next = current.table.swap_backed(&asked, owner, backup, how, now);
        let (next, number) = (next.unwrap(), current.table.number() + 1);
        let swapped = ring.compare_and_swap(Some(current.version), next).await;
        assert!(matches!(swapped, Ok(Swapped::Taken(_))));
        until("seen", async || {
            second.ownership.routes().number() >= number
        })
        .await;
    }
    until("taken", async || second.owned() == SLOTS).await;
    let said = said(&[&second], 1, 5).await;
    assert!(matches!(said, Said::Done(Outcome::Applied, _)), "{said:?}");
}

#[tokio::test(start_paused = true)]
async fn a_backup_that_comes_and_goes_never_stops_moves() {
    let (mut world, ring) = with_ring();
    let (first, second) = (world.member().await, world.member().await);
    all_are_backed(&ring, &[&first, &second]).await;
    let lost = &world.network.loses_frames;
    let ahead = async || {
        let highest = table(&ring).await.highest_epoch().unwrap();
        highest.number() - (world.unix_micros() >> 24)
    };
    let mut most = 0;
    for _ in 0..120 {
        // Until it is out, and for a while longer than its first rest.
        lost.store(true, Ordering::SeqCst);
        sleep(Duration::from_secs(1)).await;
        lost.store(false, Ordering::SeqCst);
        sleep(Duration::from_secs(2)).await;
        most = most.max(ahead().await);
    }
    // It came and went, and rested longer each time: without rests, epochs would be some fifty ahead.
    assert!((5..=20).contains(&most), "{most} epochs ahead");
    balance(&[&first, &second]).await;
    assert!(second.owned() > 500, "{}", second.owned());
    // The clock comes nearer.
    all_are_backed(&ring, &[&first, &second]).await;
}

#[tokio::test(start_paused = true)]
async fn where_backups_are_required_none_is_dropped_before_what_it_holds_is_written() {
    let (mut world, ring) = with_ring();
    world.backing = Backing::Required;
    let (first, second) = (world.member().await, world.member().await);
    all_are_backed(&ring, &[&first, &second]).await;
    ack_all(&[&first], 5).await;
    world.kill(&second);
    until("dropped", async || {
        let table = table(&ring).await;
        let is_alone = |user| {
            let config = table.config(Slot::of_user(user));
            config.is_some_and(|config| config.backup().is_none())
        };
        USERS.into_iter().any(is_alone)
    })
    .await;
    // The last copy in memory goes with it.
    let table = table(&ring).await;
    world.kill(&first);
    for user in USERS {
        let config = table.config(Slot::of_user(user)).unwrap();
        if config.backup().is_none() {
            let stored = world.store.load(user).await.unwrap();
            assert!(stored.is_some(), "user {user} is in no place");
        }
    }
}
