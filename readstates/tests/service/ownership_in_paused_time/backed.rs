//! Slots that members of a later release have backups for: this one does not take them while the backup lives, and
//! the ring keeps what it says of them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::{
    FutureExt,
    future::BoxFuture,
    stream::{self, BoxStream, StreamExt},
};
use readstates::ownership::store::{
    MemoryRing, Presence, RingStore, RingStoreError, Swapped, Version, Versioned,
};
use readstates_ring::{
    Incarnation, RingMember, RingTable, SLOTS, Slot, SlotConfig, Succession,
    record::{MemberRecord, RingRecord},
};
use tokio::time::{sleep, timeout};

use super::world::PausedWorld;
use crate::common::rings;

const OWNER: u64 = 77;
const BACKUP: u64 = 78;
/// The slots that have the two.
const BACKED: std::ops::Range<u16> = 0..8;

fn backed() -> impl Iterator<Item = Slot> {
    BACKED.filter_map(Slot::new)
}

fn listed(incarnation: u64) -> RingMember {
    let name = format!("later-{incarnation}");
    let url = format!("http://{name}:7400");
    RingMember::new(name, Incarnation::new(incarnation), url, None).unwrap()
}

/// A member that takes no slots, and says nothing but that it is there.
#[derive(Debug)]
struct Other {
    incarnation: u64,
    lives: Arc<AtomicBool>,
}

impl Other {
    fn new(incarnation: u64, ring: &Arc<MemoryRing>) -> Self {
        let lives = Arc::new(AtomicBool::new(true));
        let (is_alive, ring) = (Arc::clone(&lives), Arc::clone(ring));
        tokio::spawn(async move {
            for renewals in 1.. {
                if !is_alive.load(Ordering::SeqCst) {
                    return;
                }
                ring.renew(presence(incarnation, renewals)).await.unwrap();
                sleep(Duration::from_secs(1)).await;
            }
        });
        Self { incarnation, lives }
    }

    fn die(&self) {
        self.lives.store(false, Ordering::SeqCst);
    }

    /// It says its last word.
    async fn leave(&self, ring: &MemoryRing) {
        self.die();
        let gone = Presence {
            gone: true,
            ..presence(self.incarnation, u64::MAX)
        };
        ring.renew(gone).await.unwrap();
    }
}

fn presence(incarnation: u64, renewals: u64) -> Presence {
    Presence {
        members: None,
        draining: true,
        ..rings::presence(listed(incarnation).name(), incarnation, renewals)
    }
}

/// The table after one in which the owner asks for these slots again, with this backup.
fn asked_again(
    world: &PausedWorld,
    table: &RingTable,
    slots: &[Slot],
    backup: Option<u64>,
) -> RingTable {
    let (owner, backup) = (listed(OWNER), backup.map(listed));
    let (how, now) = (Succession::Handed, world.unix_micros());
    rings::swapped(table, slots, &owner, backup.as_ref(), how, now)
}

async fn put(ring: &MemoryRing, table: &RingTable) {
    let version = ring.get().await.unwrap().map(|current| current.version);
    let swapped = ring.compare_and_swap(version, table.clone()).await;
    assert!(matches!(swapped, Ok(Swapped::Taken(_))));
}

async fn table(ring: &MemoryRing) -> Arc<RingTable> {
    ring.get().await.unwrap().unwrap().table
}

fn config(table: &RingTable, slot: Slot) -> SlotConfig {
    table.config(slot).unwrap()
}

/// Some slots have an owner, and no backup.
async fn owned() -> (PausedWorld, Arc<MemoryRing>, Other) {
    let (mut world, ring) = (PausedWorld::new(), Arc::new(MemoryRing::default()));
    world.ring = Arc::clone(&ring) as _;
    let slots: Vec<Slot> = backed().collect();
    let first = asked_again(&world, &RingTable::default(), &slots, None);
    put(&ring, &first).await;
    let owner = Other::new(OWNER, &ring);
    (world, ring, owner)
}

/// They have both.
async fn owned_and_backed() -> (PausedWorld, Arc<MemoryRing>, Other, Other) {
    let (world, ring, owner) = owned().await;
    let slots: Vec<Slot> = backed().collect();
    let named = asked_again(&world, &*table(&ring).await, &slots, Some(BACKUP));
    put(&ring, &named).await;
    let backup = Other::new(BACKUP, &ring);
    (world, ring, owner, backup)
}

async fn until(what: &str, so: impl Fn() -> bool) {
    let looks = async {
        while !so() {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(Duration::from_secs(120), looks).await.expect(what);
}

#[tokio::test(start_paused = true)]
async fn a_slot_is_taken_when_its_owner_and_its_backup_are_dead_and_not_before() {
    let (mut world, ring, owner, backup) = owned_and_backed().await;
    let before = table(&ring).await;
    let member = world.member().await;
    assert_eq!(member.owned(), SLOTS - BACKED.end, "what has no owner");
    owner.die();
    sleep(Duration::from_secs(120)).await;
    let meanwhile = table(&ring).await;
    for slot in backed() {
        assert_eq!(meanwhile.config(slot), before.config(slot));
    }
    assert_eq!(member.owned(), SLOTS - BACKED.end);
    let (owner, backup_of) = (
        meanwhile.member(Incarnation::new(OWNER)),
        meanwhile.member(Incarnation::new(BACKUP)),
    );
    assert!(
        owner.is_some() && backup_of.is_some(),
        "both are still listed"
    );
    backup.die();
    until("taken", || member.owned() == SLOTS).await;
    let after = table(&ring).await;
    for slot in backed() {
        let taken = config(&after, slot);
        assert_eq!(taken.owner(), member.ownership.me().incarnation());
        assert_eq!((taken.backup(), taken.inherits()), (None, None));
    }
    assert_eq!(after.members().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_restored_ring_is_told_of_backups_and_how_to_reach_them() {
    let (mut world, ring, _owner) = owned().await;
    let member = world.member().await;
    let slots: Vec<Slot> = backed().collect();
    let past = table(&ring).await;
    let _backup = Other::new(BACKUP, &ring);
    let named = asked_again(&world, &past, &slots, Some(BACKUP));
    put(&ring, &named).await;
    let knows = || member.ownership.routes().number() == named.number();
    until("known", knows).await;
    // It has forgotten the backups, and something has happened since.
    let since = asked_again(&world, &past, &slots[7..], None);
    let since = asked_again(&world, &since, &slots[7..], None);
    put(&ring, &since).await;
    let knows = || member.ownership.routes().number() > since.number();
    until("told", knows).await;
    let told = table(&ring).await;
    for &slot in &slots[..7] {
        assert_eq!(told.config(slot), named.config(slot));
    }
    assert_eq!(told.config(slots[7]), since.config(slots[7]));
    let reached = told.member(Incarnation::new(BACKUP));
    assert_eq!(reached, Some(&listed(BACKUP)));
}

/// The same table, in which the slots have a backup at the epochs that they have: what a restored store may come to.
fn backed_at_once(table: &RingTable) -> RingTable {
    let mut record = RingRecord::from(table);
    record.members.push(MemberRecord::from(&listed(BACKUP)));
    let place = i32::try_from(record.members.len()).unwrap() - 1;
    record.backups = vec![-1; SLOTS.into()];
    for slot in backed() {
        record.backups[usize::from(slot.number())] = place;
    }
    RingTable::try_from(record).unwrap()
}

/// A ring that cannot be watched, and that changes once, when it was seen that a process is gone.
#[derive(Debug)]
struct ChangesLate {
    inner: Arc<MemoryRing>,
    changed: AtomicBool,
}

impl RingStore for ChangesLate {
    fn get(&self) -> BoxFuture<'_, Result<Option<Versioned>, RingStoreError>> {
        self.inner.get()
    }

    fn compare_and_swap(
        &self,
        expected: Option<Version>,
        next: RingTable,
    ) -> BoxFuture<'_, Result<Swapped, RingStoreError>> {
        self.inner.compare_and_swap(expected, next)
    }

    fn watch(&self) -> BoxStream<'static, Arc<RingTable>> {
        stream::pending().boxed()
    }

    fn renew(&self, presence: Presence) -> BoxFuture<'_, Result<(), RingStoreError>> {
        self.inner.renew(presence)
    }

    fn presences(&self) -> BoxFuture<'_, Result<Vec<Presence>, RingStoreError>> {
        async {
            let presences = self.inner.presences().await?;
            let is_gone = presences.iter().any(|presence| presence.gone);
            if is_gone && !self.changed.swap(true, Ordering::SeqCst) {
                let current = table(&self.inner).await;
                put(&self.inner, &backed_at_once(&current)).await;
            }
            Ok(presences)
        }
        .boxed()
    }

    fn forget(&self, incarnation: Incarnation) -> BoxFuture<'_, Result<(), RingStoreError>> {
        self.inner.forget(incarnation)
    }
}

#[tokio::test(start_paused = true)]
async fn a_backup_that_the_ring_names_at_the_same_epoch_is_seen_before_the_slot_is_taken() {
    let (mut world, ring, owner) = owned().await;
    let _backup = Other::new(BACKUP, &ring);
    let late = Arc::new(ChangesLate {
        inner: Arc::clone(&ring),
        changed: AtomicBool::new(false),
    });
    world.ring = Arc::clone(&late) as _;
    let member = world.member().await;
    assert_eq!(member.owned(), SLOTS - BACKED.end);
    let expected = backed_at_once(&*table(&ring).await);
    owner.leave(&ring).await;
    sleep(Duration::from_secs(60)).await;
    assert!(late.changed.load(Ordering::SeqCst));
    let after = table(&ring).await;
    for slot in backed() {
        assert_eq!(after.config(slot), expected.config(slot));
    }
    assert_eq!(member.owned(), SLOTS - BACKED.end);
}
