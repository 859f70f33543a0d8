//! Blocks in memory, in stripes with short locks.
//!
//! Comes in: blocks that were loaded, operations for users who are cached, outcomes of writes. Goes
//! out: answers, and [`Flight`]s: packed blocks on their way to the store. The cache never waits and
//! does no IO; a lock is held for one user's work and never across an await.
//!
//! What it guarantees:
//! - a user with changes that are not written is never evicted, and is written once per interval
//!   however often it changes;
//! - the states of such users are bounded ([`Limits::unwritten_states`]); beyond the bound new
//!   changes are refused, not dropped;
//! - no user runs more than [`VERSION_GAP`] versions ahead of what is written.
//!
//! ```text
//!          change                  begin_flushes                 written
//! Clean ───────────▶ Dirty ──────────────────────▶ Flushing ───────────────▶ Clean
//!                      ▲                              │  │ written, changed meanwhile
//!                      └──────────── failed ──────────┘──┘
//! ```

mod dirty;
mod entry;
mod landed;
mod stripe;
#[cfg(test)]
mod tests;

use std::{
    sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use entry::{Entry, MOST_HEAT};
pub use landed::Landed;
use parking_lot::Mutex;
use readstates_ring::{Stamp, StampMint, slot::mix64};
use stripe::Stripe;

use crate::{
    block::{BlockRef, Operation, Outcome, TooManyReadStates, VERSION_GAP},
    codec::Decoded,
};

/// Lock partitions: enough that two requests rarely meet on one. A power of two.
const STRIPES: usize = 64;

/// Passes of the hand after which every user that was not touched meanwhile is cold.
const PASSES: usize = MOST_HEAT as usize + 1;

/// However small the capacity, this many states may wait for the store.
const LEAST_UNWRITTEN_STATES: u64 = 1000;

/// Who touches a user: mentions are made to everybody, and should not push out those who are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Touch {
    /// The user or its client.
    Online,
    /// A mention.
    Mention,
}

/// Why a change was refused. Nothing changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// See [`TooManyReadStates`].
    #[error(transparent)]
    TooManyReadStates(#[from] TooManyReadStates),
    /// As many states wait for the store as may.
    #[error("as many changes wait for the database as may")]
    TooManyUnwritten,
    /// The user is [`VERSION_GAP`] versions ahead of the store.
    #[error("the user changes faster than the database takes it")]
    UserTooBusy,
    /// The cache takes no more changes: see [`Cache::seal`].
    #[error("the member is stopping")]
    Sealed,
}

/// What is in the cache now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Totals {
    /// Users.
    pub users: u64,
    /// Their weight: states, and 1 for each user without any.
    pub states: u64,
    /// Users with changes that are not written.
    pub dirty_users: u64,
    /// Their weight.
    pub dirty_states: u64,
    /// Users evicted since the start.
    pub evictions: u64,
    /// When the oldest change that is not written was made.
    pub oldest_dirty: Option<Instant>,
}

/// A packed block on its way to the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flight {
    /// The user.
    pub user: u64,
    /// The packed block.
    pub bytes: Vec<u8>,
    /// The stamp to write it with.
    pub stamp: Stamp,
    /// The version it holds.
    pub version: u64,
}

/// How a user who was to be written stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// What was to be written is.
    Written,
    /// A write has failed since then.
    Failed,
    /// Neither yet.
    Waiting,
}

/// The process that a cache works for.
#[derive(Debug, Clone, Copy)]
pub struct Process {
    /// Drawn at start; no two processes have the same.
    pub incarnation: u64,
    /// Unix microseconds of the start.
    pub started_micros: u64,
}

/// The cache.
#[derive(Debug)]
pub struct Cache {
    stripes: Box<[Mutex<Stripe>]>,
    shared: Shared,
    /// The stripe whose clock hand moves next.
    next_to_evict: AtomicUsize,
    /// The stripe that is looked at first for users to write, so that none waits for the others.
    next_to_flush: AtomicUsize,
}

/// What all stripes share: the accounts, and what it takes to write.
#[derive(Debug)]
struct Shared {
    process: Process,
    stamps: StampMint,
    flush_interval: Duration,
    capacity: AtomicU64,
    users: AtomicU64,
    states: AtomicU64,
    dirty_users: AtomicU64,
    dirty_states: AtomicU64,
    evictions: AtomicU64,
    sealed: AtomicBool,
}

impl Shared {
    fn unwritten_bound(&self) -> u64 {
        (self.capacity.load(Ordering::Relaxed) / 2).max(LEAST_UNWRITTEN_STATES)
    }
}

impl Cache {
    /// An empty cache of this many states, whose users are written `flush_interval` after their first
    /// change, give or take a tenth.
    #[must_use]
    pub fn new(process: Process, capacity_states: u64, flush_interval: Duration) -> Self {
        // The clock of a machine reads below 2^63 µs for the next 290,000 years.
        let started = i64::try_from(process.started_micros).unwrap_or(i64::MAX);
        Self {
            stripes: (0..STRIPES).map(|_| Mutex::default()).collect(),
            shared: Shared {
                process,
                stamps: StampMint::started_at(started),
                flush_interval,
                capacity: AtomicU64::new(capacity_states),
                users: AtomicU64::new(0),
                states: AtomicU64::new(0),
                dirty_users: AtomicU64::new(0),
                dirty_states: AtomicU64::new(0),
                evictions: AtomicU64::new(0),
                sealed: AtomicBool::new(false),
            },
            next_to_evict: AtomicUsize::new(0),
            next_to_flush: AtomicUsize::new(0),
        }
    }

    fn stripe(&self, user: u64) -> &Mutex<Stripe> {
        // The top bits of this hash are the slot, which all users of a small ring may share.
        &self.stripes[(mix64(user) as usize) % STRIPES]
    }

    /// Shows the block of a cached user to `view`; `None` when the user is not cached.
    pub fn read<T>(&self, user: u64, view: impl FnOnce(BlockRef<'_>) -> T) -> Option<T> {
        let mut stripe = self.stripe(user).lock();
        let entry = stripe.get_mut(user)?;
        entry.touch(Touch::Online);
        Some(view(entry.block()))
    }

    /// Applies operations, all or none, to a cached user, and shows the result to `view`; `None` when
    /// the user is not cached.
    pub fn change<T>(
        &self,
        user: u64,
        operations: &[Operation],
        touch: Touch,
        now: Instant,
        view: impl FnOnce(BlockRef<'_>, &[Outcome]) -> T,
    ) -> Option<Result<T, Refused>> {
        let mut stripe = self.stripe(user).lock();
        change_in(
            &mut stripe,
            user,
            operations,
            touch,
            now,
            &self.shared,
            view,
        )
    }

    /// Takes in a user's block as it was loaded: `None` when the store has none. A user who is cached
    /// already is left as is. The caller makes room afterwards.
    pub fn insert(&self, user: u64, loaded: Option<(Decoded<'_>, Stamp)>) {
        self.land(user, loaded, Instant::now(), |_| ());
    }

    /// As [`Cache::insert`], and lets `first` work on the user before anybody else can: what waited for
    /// the load comes before what comes after it.
    pub fn land<T>(
        &self,
        user: u64,
        loaded: Option<(Decoded<'_>, Stamp)>,
        now: Instant,
        first: impl FnOnce(&mut Landed<'_>) -> T,
    ) -> T {
        let mut stripe = self.stripe(user).lock();
        if stripe.get_mut(user).is_none() {
            let entry = Entry::loaded(loaded, self.shared.process);
            stripe.insert(user, entry, &self.shared);
        }
        first(&mut Landed::new(&mut stripe, user, now, &self.shared))
    }

    /// Lets `work` read and change a cached user under one hold of the lock; `None` when the user is not
    /// cached.
    pub fn visit<T>(
        &self,
        user: u64,
        now: Instant,
        work: impl FnOnce(&mut Landed<'_>) -> T,
    ) -> Option<T> {
        let mut stripe = self.stripe(user).lock();
        stripe.get_mut(user)?;
        Some(work(&mut Landed::new(&mut stripe, user, now, &self.shared)))
    }

    /// Evicts clean users until the cache is within its capacity, or nothing can be evicted; never
    /// `keep`. Dirty users that are in the way are asked to be written early. Returns whether any was.
    pub fn make_room(&self, keep: Option<u64>, now: Instant) -> bool {
        let mut asked = false;
        let mut barren = 0;
        while barren < STRIPES * PASSES {
            let over = self.over_capacity();
            if over == 0 {
                break;
            }
            let next = self.next_to_evict.fetch_add(1, Ordering::Relaxed) % STRIPES;
            let (freed, hurried) = self.stripes[next]
                .lock()
                .evict(over, keep, now, &self.shared);
            asked |= hurried;
            barren = if freed == 0 { barren + 1 } else { 0 };
        }
        asked
    }

    fn over_capacity(&self) -> u64 {
        let capacity = self.shared.capacity.load(Ordering::Relaxed);
        self.shared
            .states
            .load(Ordering::Relaxed)
            .saturating_sub(capacity)
    }

    /// Takes no more changes. When this returns, every change that was applied is in the accounts.
    pub fn seal(&self) {
        self.shared.sealed.store(true, Ordering::Release);
        // A change looks at the seal under its stripe's lock: those that began before have ended once
        // each lock was held.
        for stripe in &self.stripes {
            drop(stripe.lock());
        }
    }

    /// How many states the cache keeps at most.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.shared.capacity.load(Ordering::Relaxed)
    }

    /// Changes the capacity; the caller makes room afterwards.
    pub fn set_capacity(&self, states: u64) {
        self.shared.capacity.store(states, Ordering::Relaxed);
    }

    /// Whether so much waits for the store that it should be written before its time.
    #[must_use]
    pub fn under_pressure(&self) -> bool {
        let dirty = self.shared.dirty_states.load(Ordering::Relaxed);
        dirty > self.shared.unwritten_bound() / 2
    }

    /// Takes up to `most` users whose time to be written has come; under pressure those whose time
    /// comes next. Each is in flight until [`Cache::written`] or [`Cache::failed`].
    pub fn begin_flushes(&self, now: Instant, most: usize) -> Vec<Flight> {
        let mut flights = Vec::new();
        let start = self.next_to_flush.fetch_add(1, Ordering::Relaxed) % STRIPES;
        for offset in 0..STRIPES {
            if flights.len() >= most {
                break;
            }
            // Far beyond any interval, so that a user who waits after a failure goes on waiting.
            let ahead = if self.under_pressure() {
                self.shared.flush_interval * 2
            } else {
                Duration::ZERO
            };
            let mut stripe = self.stripes[(start + offset) % STRIPES].lock();
            stripe.begin_flushes(now, ahead, most - flights.len(), &self.shared, &mut flights);
        }
        flights
    }

    /// The store has written a flight.
    pub fn written(&self, flight: &Flight, now: Instant) {
        self.stripe(flight.user)
            .lock()
            .written(flight, now, &self.shared);
    }

    /// The store has not written a flight, or it is not known.
    pub fn failed(&self, flight: &Flight, now: Instant) {
        self.stripe(flight.user).lock().failed(flight, now);
    }

    /// Asks that a user be written as soon as can be.
    pub fn hurry(&self, user: u64, now: Instant) {
        self.stripe(user).lock().hurry(user, now);
    }

    /// Asks that everything that is dirty be written as soon as can be; returns each dirty user and
    /// the version it has.
    pub fn hurry_all(&self, now: Instant) -> Vec<(u64, u64)> {
        self.stripes
            .iter()
            .flat_map(|stripe| stripe.lock().hurry_all(now))
            .collect()
    }

    /// How a user stands who had `version` when its write was asked for at `since`.
    pub fn progress(&self, user: u64, version: u64, since: Instant) -> Progress {
        match self.stripe(user).lock().get_mut(user) {
            Some(entry) => entry.progress(version, since),
            // Only clean users are evicted.
            None => Progress::Written,
        }
    }

    /// What is in the cache now.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let oldest = self
            .stripes
            .iter()
            .filter_map(|stripe| stripe.lock().oldest_dirty())
            .min();
        let Shared {
            users,
            states,
            dirty_users,
            dirty_states,
            evictions,
            ..
        } = &self.shared;
        Totals {
            users: users.load(Ordering::Relaxed),
            states: states.load(Ordering::Relaxed),
            dirty_users: dirty_users.load(Ordering::Relaxed),
            dirty_states: dirty_states.load(Ordering::Relaxed),
            evictions: evictions.load(Ordering::Relaxed),
            oldest_dirty: oldest,
        }
    }

    /// How many users have changes that are not written.
    #[must_use]
    pub fn dirty_users(&self) -> u64 {
        self.shared.dirty_users.load(Ordering::Relaxed)
    }
}

fn change_in<T>(
    stripe: &mut Stripe,
    user: u64,
    operations: &[Operation],
    touch: Touch,
    now: Instant,
    shared: &Shared,
    view: impl FnOnce(BlockRef<'_>, &[Outcome]) -> T,
) -> Option<Result<T, Refused>> {
    stripe.get_mut(user)?.touch(touch);
    let outcomes = match stripe.apply(user, operations, now, shared)? {
        Ok(outcomes) => outcomes,
        Err(refused) => return Some(Err(refused)),
    };
    stripe
        .get_mut(user)
        .map(|entry| Ok(view(entry.block(), &outcomes)))
}
