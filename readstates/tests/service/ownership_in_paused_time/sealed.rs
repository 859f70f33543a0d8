//! Slots that are sealed for a transfer while their owner's ring changes: what was acknowledged stays here.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use readstates::{
    block::{Operation, Outcome, Visit},
    cache::Touch,
    engine::Rests,
    ownership::{
        Pass, Way,
        store::{MemoryRing, RingStore, Swapped, Versioned},
    },
};
use readstates_ring::{Epoch, SLOTS, Slot};
use tokio::time::sleep;

use super::{
    replicated::{USERS, ack_all, all_are_backed, nothing_is_lost, said, until, with_ring},
    world::{Member, PausedWorld, Said},
};
use crate::common::faulty::{FaultyStore, Mood};

/// How long the destination takes to confirm, in seconds. Then its confirmation is lost.
const CONFIRMED_AFTER: u64 = 8;

/// Acknowledged while the database is away.
const MESSAGE: u64 = 6;

/// The first member owns everything, backed by the second, has acknowledged what is not written, and has sealed all slots to hand
/// them to the second, which takes its time. The database is away.
struct Sealed {
    world: PausedWorld,
    ring: Arc<MemoryRing>,
    database: Arc<FaultyStore>,
    first: Member,
    second: Member,
    at: Vec<(Slot, Epoch)>,
}

async fn sealed() -> Sealed {
    let (mut world, ring) = with_ring();
    let database = FaultyStore::new();
    world.store = Arc::clone(&database) as _;
    let (first, second) = (world.member().await, world.member().await);
    all_are_backed(&ring, &[&first, &second]).await;
    ack_all(&[&first], 5).await;
    database.set(Mood::Away);
    ack_all(&[&first], MESSAGE).await;
    let answered_after = &world.network.last_parts_answered_after;
    answered_after.store(CONFIRMED_AFTER, Ordering::SeqCst);
    let loses_confirmations = &world.network.loses_confirmations;
    loses_confirmations.store(true, Ordering::SeqCst);
    let me = first.ownership.me().incarnation();
    let table = Arc::clone(first.ownership.routes().table());
    let at: Vec<(Slot, Epoch)> = table.owned_by(me).collect();
    let to = second.ownership.me().incarnation();
    assert_eq!(first.ownership.begin_move(to, &at).await, Ok(SLOTS));
    until("sealed", async || first.ownership.status().sealed == SLOTS).await;
    Sealed {
        world,
        ring,
        database,
        first,
        second,
        at,
    }
}

/// What was acknowledged before is a change.
fn is_lost(said: &Said) -> bool {
    matches!(said, Said::Done(outcome, _) if *outcome != Outcome::Ignored)
}

impl Sealed {
    async fn goes_on_and_loses_nothing(&self) {
        let network = &self.world.network;
        network.loses_frames.store(false, Ordering::SeqCst);
        network.last_parts_answered_after.store(0, Ordering::SeqCst);
        network.loses_confirmations.store(false, Ordering::SeqCst);
        self.database.set(Mood::Healthy);
        let members = [&self.first, &self.second];
        let nothing_is_lost = async || {
            for user in USERS {
                until("it is served", async || {
                    let said = said(&members, user, MESSAGE).await;
                    assert!(!is_lost(&said), "{user}: {said:?}");
                    matches!(said, Said::Done(..))
                })
                .await;
            }
        };
        nothing_is_lost().await;
        all_are_backed(&self.ring, &members).await;
        nothing_is_lost().await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_backup_of_sealed_slots_that_falls_silent_is_dropped_once_and_nothing_is_lost() {
    let sealed = sealed().await;
    let network = &sealed.world.network;
    network.loses_frames.store(true, Ordering::SeqCst);
    sleep(Duration::from_secs(CONFIRMED_AFTER - 2)).await;
    let table = sealed.ring.get().await.unwrap().unwrap().table;
    let mut dropped = 0;
    for &(slot, epoch) in &sealed.at {
        let config = table.config(slot).unwrap();
        if config.epoch() != epoch {
            assert_eq!(config.inherits(), Some(epoch), "slot {slot}: {config:?}");
            dropped += 1;
        }
    }
    assert!(dropped > 0, "nothing was dropped");
    sleep(Duration::from_secs(4)).await;
    sealed.goes_on_and_loses_nothing().await;
}

/// Such as one that was restored, and mended.
#[tokio::test(start_paused = true)]
async fn a_ring_that_names_the_owner_of_sealed_slots_twice_makes_it_write_what_it_acknowledged() {
    let sealed = sealed().await;
    for _ in 0..2 {
        let Versioned { table, version } = sealed.ring.get().await.unwrap().unwrap();
        let me = sealed.first.ownership.me();
        let at = table.owned_by(me.incarnation());
        let at: Vec<_> = at.map(|(slot, epoch)| (slot, Some(epoch))).collect();
        let next = table.swap_handed(&at, me, sealed.world.unix_micros());
        let swapped = sealed
            .ring
            .compare_and_swap(Some(version), next.unwrap())
            .await;
        assert!(matches!(swapped, Ok(Swapped::Taken(_))), "{swapped:?}");
    }
    // The confirmation is asked for more than once.
    sleep(Duration::from_secs(60)).await;
    sealed.goes_on_and_loses_nothing().await;
}

/// A user of whom an operation was admitted that does not end.
const HUNG: u64 = 7;

/// Longer than operations may take to end after the seal.
const TOO_LONG: Duration = Duration::from_secs(6);

/// The first member owns everything, backed by the second, and has acknowledged what is not written.
async fn backed() -> (PausedWorld, Member, Member) {
    let (mut world, ring) = with_ring();
    let (first, second) = (world.member().await, world.member().await);
    all_are_backed(&ring, &[&first, &second]).await;
    ack_all(&[&first], 5).await;
    (world, first, second)
}

/// An operation is admitted, and then all slots are to be handed on.
async fn hangs<'a>(first: &'a Member, second: &Member) -> Pass<'a> {
    let Ok(Way::Here(pass)) = first.ownership.way(Slot::of_user(HUNG)).await else {
        panic!("the first member owns everything")
    };
    let table = Arc::clone(first.ownership.routes().table());
    let at: Vec<_> = table.owned_by(first.ownership.me().incarnation()).collect();
    let to = second.ownership.me().incarnation();
    assert_eq!(first.ownership.begin_move(to, &at).await, Ok(SLOTS));
    pass
}

/// It makes its change after all; returns whether that is acknowledged.
async fn changes(first: &Member, pass: Pass<'_>) -> bool {
    let operation = Operation::Ack {
        channel: 10,
        message: MESSAGE,
        visit: Visit::default(),
    };
    let changed = first
        .engine
        .change(HUNG, &[operation], Touch::Online, |_, _| ())
        .await;
    changed.is_ok() && first.engine.settled(HUNG, Rests::OnChange).await && pass.may_acknowledge()
}

#[tokio::test(start_paused = true)]
async fn what_an_operation_changes_after_the_last_part_has_left_is_not_lost_with_the_owner() {
    let (world, first, second) = backed().await;
    let answered_after = &world.network.last_parts_answered_after;
    answered_after.store(CONFIRMED_AFTER, Ordering::SeqCst);
    let pass = hangs(&first, &second).await;
    sleep(TOO_LONG).await;
    let is_acknowledged = changes(&first, pass).await;
    // The ring was not asked to name the second one, which is promoted with all that it was sent.
    world.kill(&first);
    until("promoted", async || second.owned() == SLOTS).await;
    nothing_is_lost(&[&second], 5).await;
    let said = said(&[&second], HUNG, MESSAGE).await;
    assert!(!is_acknowledged || !is_lost(&said), "{said:?}");
}

#[tokio::test(start_paused = true)]
async fn slots_whose_operations_do_not_end_stay_and_the_others_are_handed_on() {
    let (_world, first, second) = backed().await;
    let pass = hangs(&first, &second).await;
    sleep(TOO_LONG).await;
    until("handed on", async || {
        first.ownership.status().streaming.is_empty()
    })
    .await;
    assert_eq!((first.owned(), second.owned()), (1, SLOTS - 1));
    assert!(!changes(&first, pass).await, "its epoch is over");
    nothing_is_lost(&[&first, &second], 5).await;
    let said = said(&[&first, &second], HUNG, MESSAGE).await;
    assert!(matches!(said, Said::Done(..)), "{said:?}");
}
