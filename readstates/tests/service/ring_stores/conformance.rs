//! The suite. Every check begins where the one before it ended, as members do.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt, future::join_all};
use readstates::ownership::store::{Presence, RingStore, Swapped, Version, Versioned};
use readstates_ring::{Incarnation, RingMember, RingTable, Slot, Succession};
use tokio::time::timeout;

use crate::common::rings::{presence, swapped};

/// 2026-11-21, about.
const NOW: i64 = 1_795_000_000_000_000;
/// Longer than any watch lags that works.
const SOON: Duration = Duration::from_secs(60);

/// Checks a ring that was never used; `open` makes a member's own way to it.
pub(crate) async fn conforms<S: RingStore>(open: impl AsyncFn() -> Arc<S>) {
    let (one, other) = (open().await, open().await);
    nothing_is_there_at_first(&*one).await;
    the_first_ring_is_put_once(&*one, &*other).await;
    a_swap_needs_the_version_that_was_read_last(&*one, &*other).await;
    a_ring_of_1024_slots_comes_back_as_it_was(&*one, &*other).await;
    backups_come_back_as_they_were_until_the_last_is_dropped(&*one, &*other).await;
    of_many_who_swap_at_once_each_gets_its_turn(&open).await;
    a_watch_tells_what_is_and_what_comes(&*one, &*other).await;
    a_process_is_known_by_its_last_word(&*one, &*other).await;
    two_processes_of_one_name_do_not_touch_each_other(&*one, &*other).await;
    whoever_is_forgotten_is_not_there(&*one, &*other).await;
}

fn member(number: u64) -> RingMember {
    let url = format!("http://chat-{number}.chat-members.ns.svc:7400");
    let zone = (!number.is_multiple_of(2)).then(|| "zone-a".to_owned());
    RingMember::new(
        format!("chat-{number}"),
        Incarnation::new(number),
        url,
        zone,
    )
    .unwrap()
}

fn slots(numbers: &[u16]) -> Vec<Slot> {
    let slot = |&number: &u16| Slot::new(number).unwrap();
    numbers.iter().map(slot).collect()
}

/// The table in which `owner` has taken these slots.
pub(crate) fn taken(table: &RingTable, numbers: &[u16], owner: u64) -> RingTable {
    let how = Succession::TakenOver;
    swapped(table, &slots(numbers), &member(owner), None, how, NOW)
}

pub(crate) async fn read(store: &dyn RingStore) -> Versioned {
    store.get().await.unwrap().unwrap()
}

async fn swap(store: &dyn RingStore, expected: Option<Version>, next: RingTable) -> Swapped {
    store.compare_and_swap(expected, next).await.unwrap()
}

async fn nothing_is_there_at_first(store: &dyn RingStore) {
    assert_eq!(store.get().await.unwrap(), None);
    assert_eq!(store.presences().await.unwrap(), []);
}

async fn the_first_ring_is_put_once(one: &dyn RingStore, other: &dyn RingStore) {
    let mine = taken(&RingTable::default(), &[0, 1], 1);
    let Swapped::Taken(put) = swap(one, None, mine.clone()).await else {
        panic!("no other member swaps here")
    };
    assert_eq!(*put.table, mine);
    let theirs = taken(&RingTable::default(), &[0, 1], 2);
    assert_eq!(swap(other, None, theirs).await, Swapped::Conflict);
    assert_eq!(read(one).await, put);
    assert_eq!(read(other).await.table, put.table);
}

async fn a_swap_needs_the_version_that_was_read_last(one: &dyn RingStore, other: &dyn RingStore) {
    let (mine, theirs) = (read(one).await, read(other).await);
    let next = taken(&mine.table, &[2], 1);
    let Swapped::Taken(put) = swap(one, Some(mine.version.clone()), next).await else {
        panic!("the version was the last one")
    };
    assert_eq!(read(other).await.table, put.table);
    for old in [mine.version, theirs.version] {
        let late = taken(&theirs.table, &[3], 2);
        assert_eq!(swap(other, Some(old), late).await, Swapped::Conflict);
    }
    assert_eq!(read(one).await, put, "a conflict changes nothing");
    // What a swap returned is as good as what was read.
    let next = taken(&put.table, &[3], 1);
    let put = swap(one, Some(put.version), next).await;
    assert!(matches!(put, Swapped::Taken(_)));
}

async fn a_ring_of_1024_slots_comes_back_as_it_was(one: &dyn RingStore, other: &dyn RingStore) {
    let before = read(one).await;
    let mut table = (*before.table).clone();
    for owner in 0..64 {
        let slots: Vec<u16> = (owner * 16..owner * 16 + 16).collect();
        table = taken(&table, &slots, u64::from(owner) + 100);
    }
    let put = swap(one, Some(before.version), table.clone()).await;
    assert!(matches!(put, Swapped::Taken(_)));
    assert_eq!(*read(other).await.table, table);
    // Back to few members.
    let slots: Vec<u16> = (0..1024).collect();
    let before = read(other).await;
    let few = taken(&before.table, &slots, 1);
    swap(other, Some(before.version), few.clone()).await;
    assert_eq!(*read(one).await.table, few);
}

/// The table in which these slots, of the owner that they have, are backed by `backup`.
fn backed(table: &RingTable, numbers: &[u16], backup: Option<u64>) -> RingTable {
    let slots = slots(numbers);
    let owner = table.owner(slots[0]).unwrap();
    let backup = backup.map(member);
    swapped(
        table,
        &slots,
        owner,
        backup.as_ref(),
        Succession::Handed,
        NOW,
    )
}

async fn backups_come_back_as_they_were_until_the_last_is_dropped(
    one: &dyn RingStore,
    other: &dyn RingStore,
) {
    let before = read(one).await;
    let named = backed(&before.table, &[5, 6], Some(2));
    let put = swap(one, Some(before.version), named.clone()).await;
    let Swapped::Taken(put) = put else {
        panic!("no other member swaps here")
    };
    assert_eq!(*put.table, named);
    assert_eq!(*read(other).await.table, named);
    assert_eq!(*other.watch().next().await.unwrap(), named);
    // A member that takes other slots keeps them, with how to reach the backup.
    let next = taken(&named, &[9], 3);
    swap(other, Some(read(other).await.version), next).await;
    let after = read(one).await;
    for slot in [5, 6].map(|number| Slot::new(number).unwrap()) {
        assert_eq!(after.table.config(slot), named.config(slot));
    }
    let backup = after.table.member(Incarnation::new(2));
    assert_eq!(backup, Some(&member(2)));
    let none = backed(&after.table, &[5, 6], None);
    swap(one, Some(after.version), none.clone()).await;
    assert_eq!(*read(other).await.table, none);
}

/// Six members take the slot from each other, three times each: no swap is lost, none is doubled.
async fn of_many_who_swap_at_once_each_gets_its_turn<S: RingStore>(
    open: &impl AsyncFn() -> Arc<S>,
) {
    let before = read(&*open().await).await.table;
    let stores = join_all((1..=6).map(|_| open())).await;
    let turns = stores.iter().zip(1..).map(|(store, me)| async move {
        let mut conflicts = 0;
        for _ in 0..3 {
            loop {
                let current = read(&**store).await;
                let next = taken(&current.table, &[7], me);
                match swap(&**store, Some(current.version), next).await {
                    Swapped::Taken(_) => break,
                    Swapped::Conflict => conflicts += 1,
                }
                assert!(conflicts < 5000, "starved");
            }
        }
    });
    join_all(turns).await;
    let after = read(&*stores[0]).await.table;
    assert_eq!(after.number(), before.number() + 18);
    let epoch = |table: &RingTable| {
        let config = table.config(Slot::new(7).unwrap()).unwrap();
        config.epoch().number()
    };
    assert_eq!(epoch(&after), epoch(&before) + 18);
}

async fn a_watch_tells_what_is_and_what_comes(one: &dyn RingStore, other: &dyn RingStore) {
    let current = read(one).await;
    let mut watched = one.watch();
    let told = timeout(SOON, watched.next()).await.unwrap().unwrap();
    assert_eq!(told, current.table);
    let next = taken(&current.table, &[9], 2);
    swap(other, Some(read(other).await.version), next.clone()).await;
    let until_told = async { while watched.next().await.unwrap().number() < next.number() {} };
    timeout(SOON, until_told).await.unwrap();
    // A new watch of another member is told the same.
    let told = timeout(SOON, other.watch().next()).await.unwrap().unwrap();
    assert_eq!(*told, next);
}

async fn a_process_is_known_by_its_last_word(one: &dyn RingStore, other: &dyn RingStore) {
    let mut mine = presence("chat-0", 10, 1);
    one.renew(mine.clone()).await.unwrap();
    assert_eq!(other.presences().await.unwrap(), [mine.clone()]);
    mine.renewals = 2;
    mine.draining = true;
    mine.zone = Some("zone-ä".to_owned());
    mine.ordinal = Some(0);
    mine.admin = Some("http://127.0.0.1:7401".to_owned());
    let theirs = presence("chat-1", 9, 1);
    one.renew(mine.clone()).await.unwrap();
    other.renew(theirs.clone()).await.unwrap();
    assert_eq!(
        other.presences().await.unwrap(),
        [mine.clone(), theirs.clone()]
    );
    // The last word.
    mine.renewals = 3;
    mine.gone = true;
    one.renew(mine.clone()).await.unwrap();
    assert_eq!(other.presences().await.unwrap(), [mine, theirs]);
}

async fn two_processes_of_one_name_do_not_touch_each_other(
    one: &dyn RingStore,
    other: &dyn RingStore,
) {
    let before = one.presences().await.unwrap();
    let (first, second) = (presence("chat-2", 20, 5), presence("chat-2", 21, 1));
    one.renew(first.clone()).await.unwrap();
    other.renew(second.clone()).await.unwrap();
    let first = Presence {
        renewals: 6,
        ..first
    };
    one.renew(first.clone()).await.unwrap();
    let all = [&before[..], &[first, second]].concat();
    assert_eq!(one.presences().await.unwrap(), all);
    assert_eq!(other.presences().await.unwrap(), all);
}

async fn whoever_is_forgotten_is_not_there(one: &dyn RingStore, other: &dyn RingStore) {
    for gone in one.presences().await.unwrap() {
        other.forget(gone.incarnation).await.unwrap();
        // Two may think of it at once.
        one.forget(gone.incarnation).await.unwrap();
    }
    assert_eq!(one.presences().await.unwrap(), []);
    // A living process that was forgotten says again that it is there.
    let alive = presence("chat-0", 10, 7);
    one.renew(alive.clone()).await.unwrap();
    assert_eq!(other.presences().await.unwrap(), [alive]);
    one.forget(Incarnation::new(10)).await.unwrap();
}
