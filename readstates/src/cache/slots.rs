//! What the cache knows of the slots: which of them are served here, and the numbers that follow from
//! the epoch at which each is.
//!
//! A slot that is served has a *base*: the first stamp of its epoch. Writes of its users are stamped
//! above it, and the first change of a user whose block was written before goes to a version
//! from there on. A slot without a base is closed: its users are neither loaded nor changed nor
//! written, though they may be in memory, on their way here or to be dropped.
//!
//! A cache begins with every slot served since the start of its process, as for a member that is
//! alone; a member that knows a ring closes them first ([`Cache::close_all`]).
//!
//! Readers hold the lock of a stripe: once a slot is closed and every stripe's lock has been taken once
//! after that, nothing that began before is still running.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering};

use readstates_ring::{
    BySlot, Epoch, SLOTS, Slot, Stamp,
    fence::{self, Stored},
};

use super::{Cache, accounts::Shared, stripe::Stripe, table::Hash};

/// The base of a slot that is not served.
const CLOSED: i64 = i64::MIN;

/// Some of the slots.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SlotSet([u64; SLOTS as usize / 64]);

impl SlotSet {
    /// Adds a slot.
    pub fn insert(&mut self, slot: Slot) {
        let number = usize::from(slot.number());
        self.0[number / 64] |= 1 << (number % 64);
    }

    /// Takes a slot away.
    pub fn remove(&mut self, slot: Slot) {
        let number = usize::from(slot.number());
        self.0[number / 64] &= !(1 << (number % 64));
    }

    /// Whether a slot is among them.
    #[must_use]
    pub fn contains(&self, slot: Slot) -> bool {
        let number = usize::from(slot.number());
        self.0[number / 64] >> (number % 64) & 1 == 1
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|&word| word == 0)
    }
}

impl FromIterator<Slot> for SlotSet {
    fn from_iter<I: IntoIterator<Item = Slot>>(slots: I) -> Self {
        let mut set = Self::default();
        slots.into_iter().for_each(|slot| set.insert(slot));
        set
    }
}

/// Since when a slot is served: what was read from the store in one term is not for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Term(i64);

#[derive(Debug)]
struct SlotState {
    /// The lowest stamp of the epoch, or [`CLOSED`].
    base: AtomicI64,
    /// The next stamp.
    next: AtomicI64,
    /// Users of it who are in memory.
    users: AtomicU32,
    /// Whether changes of its users are noted for the hand-off that sends them away.
    tracked: AtomicBool,
    /// Whether what is in memory of it is to be dropped.
    retired: AtomicBool,
    /// Whether the store has shown a block of a later epoch.
    regressed: AtomicBool,
    /// Whether no more of its users are loaded.
    paused: AtomicBool,
}

#[derive(Debug)]
pub(super) struct Slots {
    all: BySlot<SlotState>,
    /// Whether others may own slots of the same ring: then a stamp above the epoch is a ring that went
    /// back, and not only a clock.
    shared_ring: AtomicBool,
}

impl Slots {
    pub(super) fn served_since(started_micros: i64) -> Self {
        let state = |_| SlotState {
            base: AtomicI64::new(started_micros),
            next: AtomicI64::new(started_micros.saturating_add(1)),
            users: AtomicU32::new(0),
            tracked: AtomicBool::new(false),
            retired: AtomicBool::new(false),
            regressed: AtomicBool::new(false),
            paused: AtomicBool::new(false),
        };
        Self {
            all: BySlot::of(state),
            shared_ring: AtomicBool::new(false),
        }
    }

    fn of(&self, hash: Hash) -> &SlotState {
        &self.all[hash.slot()]
    }

    fn at(&self, slot: Slot) -> &SlotState {
        &self.all[slot]
    }

    /// The first stamp since the slot is served; `None` when it is closed.
    pub(super) fn first_stamp(&self, hash: Hash) -> Option<Stamp> {
        let base = self.of(hash).base.load(Ordering::Acquire);
        (base != CLOSED).then_some(Stamp::from_database(base))
    }

    /// The first version of the slot's term; `None` when the slot is closed.
    pub(super) fn first_version(&self, hash: Hash) -> Option<u64> {
        self.first_stamp(hash).map(fence::first_version)
    }

    pub(super) fn term(&self, hash: Hash) -> Option<Term> {
        let base = self.of(hash).base.load(Ordering::Acquire);
        (base != CLOSED).then_some(Term(base))
    }

    /// Whether a write was stamped since the slot is served.
    pub(super) fn is_of_this_term(&self, hash: Hash, stamp: Stamp) -> bool {
        let first = self.first_stamp(hash);
        first.is_some_and(|first| fence::is_of_term(stamp, first))
    }

    /// The stamp of the next write of a user whose last known write carried `last`.
    pub(super) fn next_stamp(&self, hash: Hash, last: Option<Stamp>) -> Stamp {
        let own = self.of(hash).next.fetch_add(1, Ordering::Relaxed);
        let own = Stamp::from_database(own);
        last.map_or(own, |last| own.max(last.successor()))
    }

    /// Whether every stamp from now on is above this one by itself.
    pub(super) fn is_above(&self, hash: Hash, stamp: Stamp) -> bool {
        stamp.as_database() < self.of(hash).next.load(Ordering::Relaxed)
    }

    pub(super) fn is_tracked(&self, hash: Hash) -> bool {
        self.of(hash).tracked.load(Ordering::Acquire)
    }

    pub(super) fn came(&self, hash: Hash) {
        self.of(hash).users.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn went(&self, hash: Hash) {
        self.of(hash).users.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Cache {
    /// Closes every slot: from now on a ring says which are served. `shared` says whether others may
    /// own slots of it.
    pub fn close_all(&self, shared: bool) {
        self.shared
            .slots
            .shared_ring
            .store(shared, Ordering::Relaxed);
        for slot in Slot::all() {
            self.close(slot);
            if shared {
                // A stamp is one of the epoch alone. The start of a process whose clock is ahead would be
                // above the epochs of owners after it.
                let state = self.shared.slots.at(slot);
                state.next.store(0, Ordering::Release);
            }
        }
    }

    /// Serves a slot at this epoch, with what is in memory of it. Where no other member can own slots, the
    /// ring is as old as the process, and stamps begin no earlier than it.
    pub fn serve(&self, slot: Slot, epoch: Epoch) {
        let state = self.shared.slots.at(slot);
        let of_epoch = Stamp::new(epoch, 0).as_database();
        let base = if self.shared.slots.shared_ring.load(Ordering::Relaxed) {
            of_epoch
        } else {
            // The epoch of the process before is not remembered; it may be the same one.
            of_epoch.max(self.shared.started())
        };
        state.regressed.store(false, Ordering::Relaxed);
        state.paused.store(false, Ordering::Relaxed);
        // No stamp comes twice, whatever was served before.
        state
            .next
            .fetch_max(base.saturating_add(1), Ordering::AcqRel);
        state.base.store(base, Ordering::Release);
    }

    /// Serves a slot no longer.
    pub fn close(&self, slot: Slot) {
        let state = self.shared.slots.at(slot);
        state.base.store(CLOSED, Ordering::Release);
        state.tracked.store(false, Ordering::Release);
        state.regressed.store(false, Ordering::Relaxed);
    }

    /// Whether a slot is served: what is in memory of it can be written.
    #[must_use]
    pub fn is_served(&self, slot: Slot) -> bool {
        self.shared.slots.at(slot).base.load(Ordering::Acquire) != CLOSED
    }

    /// Loads no more users of a slot, until it is served again.
    pub fn pause(&self, slot: Slot) {
        let state = self.shared.slots.at(slot);
        state.paused.store(true, Ordering::Release);
    }

    /// Whether no more users of this user's slot are loaded.
    #[must_use]
    pub fn is_paused(&self, user: u64) -> bool {
        let state = self.shared.slots.of(Hash::of(user));
        state.paused.load(Ordering::Acquire)
    }

    /// Whether a user's slot is served, and in which term.
    #[must_use]
    pub fn term(&self, user: u64) -> Option<Term> {
        self.shared.slots.term(Hash::of(user))
    }

    /// Whether a stored block shows that epochs went back, or that another process has had this epoch (see
    /// [`fence::shows_regression`]): then it is noted, and the user must not be served at this epoch. `writer` is the
    /// incarnation that wrote the block, where the block has it.
    pub fn shows_regression(&self, user: u64, stamp: Stamp, writer: Option<u64>) -> bool {
        let slots = &self.shared.slots;
        let state = slots.of(Hash::of(user));
        let base = state.base.load(Ordering::Acquire);
        if base == CLOSED || !slots.shared_ring.load(Ordering::Relaxed) {
            return false;
        }
        let ours = Stamp::from_database(base).epoch();
        let next = Stamp::from_database(state.next.load(Ordering::Relaxed));
        let is_own = writer.is_none_or(|writer| writer == self.incarnation());
        let shown = fence::shows_regression(Stored { stamp, is_own }, ours, next);
        if shown {
            state.regressed.store(true, Ordering::Relaxed);
        }
        shown
    }

    /// The slots of which the store has shown a block of a later epoch than theirs.
    #[must_use]
    pub fn regressed(&self) -> Vec<Slot> {
        let regressed = |slot: &Slot| {
            let state = self.shared.slots.at(*slot);
            state.regressed.load(Ordering::Relaxed)
        };
        Slot::all().filter(regressed).collect()
    }

    /// Notes changes of the slots' users from now on, until each is closed or this is asked with
    /// `false`; see [`Cache::export_changed`].
    pub fn track(&self, slots: &[Slot], noted: bool) {
        for &slot in slots {
            let state = self.shared.slots.at(slot);
            state.tracked.store(noted, Ordering::Release);
        }
    }

    /// Says that what is in memory of a closed slot is to be dropped, by [`Cache::sweep`].
    pub fn retire(&self, slot: Slot) {
        let state = self.shared.slots.at(slot);
        state.retired.store(true, Ordering::Release);
    }

    /// Says that there is nothing of a slot to be dropped.
    pub fn revive(&self, slot: Slot) {
        let state = self.shared.slots.at(slot);
        state.retired.store(false, Ordering::Release);
    }

    /// Whether something of a slot is still to be dropped.
    #[must_use]
    pub fn is_retired(&self, slot: Slot) -> bool {
        self.shared.slots.at(slot).retired.load(Ordering::Acquire)
    }

    /// The slots of which something is to be dropped.
    #[must_use]
    pub fn retired(&self) -> SlotSet {
        Slot::all().filter(|&slot| self.is_retired(slot)).collect()
    }

    /// Says that nothing of these slots is left to be dropped.
    pub(super) fn revive_all(&self, slots: &SlotSet) {
        let all = Slot::all().filter(|&slot| slots.contains(slot));
        all.for_each(|slot| self.revive(slot));
    }

    /// How many users of a slot are in memory.
    #[must_use]
    pub fn users_of(&self, slot: Slot) -> u32 {
        self.shared.slots.at(slot).users.load(Ordering::Relaxed)
    }
}

impl Stripe {
    /// Notes a change for who sends the user's slot away.
    pub(super) fn note_for_sender(&mut self, user: u64, hash: Hash, shared: &Shared) {
        if shared.slots.is_tracked(hash) {
            self.changed.insert(user);
        }
    }
}
