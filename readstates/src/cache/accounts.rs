//! What all stripes share: the accounts, the bounds that follow from the capacity, and what it takes
//! to write.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use super::{Process, dirty::Moment, flushing::Flushing, jittered, slots::Slots};
use crate::{
    block::{BlockRef, EMPTY},
    clock,
    journal::Journal,
    replication::Replicas,
};

/// Bytes of memory for each state of the capacity, all in: blocks, tables, what is dead or waits in
/// the slab, what dirty users take. 26.5 were measured with 20 states a user and 33 with 5 (see
/// the head of [`super`]); a cache of smaller users than that is full before it holds as many states
/// as its capacity says.
pub const BYTES_PER_STATE: u64 = 34;

/// However small the capacity, this many states may wait for the store.
const LEAST_UNWRITTEN_STATES: u64 = 1000;

/// However small the capacity, blocks and tables may take this many bytes.
const LEAST_BYTES: u64 = 4 << 20;

/// Bytes of one state in a block; what is beyond them and the header is the tail.
const BYTES_OF_STATE: usize = 24;

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) process: Process,
    pub(super) slots: Slots,
    pub(super) flushing: Flushing,
    pub(super) origin: Instant,
    pub(super) capacity: AtomicU64,
    pub(super) users: AtomicU64,
    pub(super) states: AtomicU64,
    /// Bytes of blocks, tables and dirty users; not what is dead or idle in the slabs.
    pub(super) bytes: AtomicU64,
    /// What the clock hands walk over.
    pub(super) buckets: AtomicU64,
    pub(super) dirty_users: AtomicU64,
    pub(super) dirty_states: AtomicU64,
    pub(super) dirty_bytes: AtomicU64,
    pub(super) evictions: AtomicU64,
    pub(super) sealed: AtomicBool,
    /// Has each change before it is acknowledged.
    pub(super) journal: Option<Arc<Journal>>,
    /// Where members replicate: what each backup is told of changes and writes.
    pub(super) replicas: OnceLock<Arc<Replicas>>,
}

impl Shared {
    pub(super) fn new(
        process: Process,
        capacity: u64,
        flushing: Flushing,
        journal: Option<Arc<Journal>>,
    ) -> Self {
        let started = started(process);
        Self {
            process,
            slots: Slots::served_since(started),
            flushing,
            origin: clock::now(),
            capacity: AtomicU64::new(capacity),
            users: AtomicU64::new(0),
            states: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            buckets: AtomicU64::new(0),
            dirty_users: AtomicU64::new(0),
            dirty_states: AtomicU64::new(0),
            dirty_bytes: AtomicU64::new(0),
            evictions: AtomicU64::new(0),
            sealed: AtomicBool::new(false),
            journal,
            replicas: OnceLock::new(),
        }
    }

    /// The start of the process as a stamp.
    pub(super) fn started(&self) -> i64 {
        started(self.process)
    }

    pub(super) fn moment(&self, now: Instant) -> Moment {
        Moment::of(now, self.origin)
    }

    /// How long after its first change a user is due.
    pub(super) fn delay(&self, user: u64) -> Duration {
        jittered(self.flushing.delay(), user)
    }

    /// How many bytes blocks, tables and dirty users may take before users are evicted. What is held for others takes
    /// from it.
    pub(super) fn byte_budget(&self) -> u64 {
        let capacity = self.capacity.load(Ordering::Relaxed);
        let held = self
            .replicas
            .get()
            .map_or(0, |replicas| replicas.holding.bytes());
        let budget = capacity.saturating_mul(BYTES_PER_STATE);
        budget.saturating_sub(held as u64).max(LEAST_BYTES)
    }

    /// What is over the capacity, in states and in bytes.
    pub(super) fn over(&self) -> Over {
        let capacity = self.capacity.load(Ordering::Relaxed);
        Over {
            states: self.states.load(Ordering::Relaxed).saturating_sub(capacity),
            bytes: self
                .bytes
                .load(Ordering::Relaxed)
                .saturating_sub(self.byte_budget()),
        }
    }

    fn most_unwritten_states(&self) -> u64 {
        (self.capacity.load(Ordering::Relaxed) / 2).max(LEAST_UNWRITTEN_STATES)
    }

    /// Whether the limit of states that wait for the store is reached. A change that passes just below takes its
    /// whole user over the bound, so it is exceeded by one user for each thread at most.
    pub(super) fn too_many_unwritten_states(&self) -> bool {
        self.dirty_states.load(Ordering::Relaxed) >= self.most_unwritten_states()
    }

    /// The same for bytes: the states may have long tails.
    pub(super) fn too_many_unwritten_bytes(&self) -> bool {
        self.dirty_bytes.load(Ordering::Relaxed) >= self.byte_budget() / 2
    }

    /// Whether so much waits that it should be written before its time.
    pub(super) fn under_pressure(&self) -> bool {
        self.dirty_states.load(Ordering::Relaxed) > self.most_unwritten_states() / 2
            || self.dirty_bytes.load(Ordering::Relaxed) > self.byte_budget() / 4
    }

    /// Books that a block was one and is another: `None` when it is not there.
    pub(super) fn book(&self, before: Option<Booked>, after: Option<Booked>) {
        let of = |booked: Option<Booked>| booked.unwrap_or_default();
        let dirty = |booked: Option<Booked>| booked.filter(|it| it.dirty).unwrap_or_default();
        move_by(&self.users, before.is_some().into(), after.is_some().into());
        move_by(&self.states, of(before).states, of(after).states);
        let (from, to) = (dirty(before), dirty(after));
        move_by(&self.dirty_users, from.dirty.into(), to.dirty.into());
        move_by(&self.dirty_states, from.states, to.states);
        move_by(&self.dirty_bytes, from.bytes, to.bytes);
    }
}

fn started(process: Process) -> i64 {
    // The clock of a machine reads below 2^63 µs for the next 290,000 years.
    i64::try_from(process.started_micros).unwrap_or(i64::MAX)
}

/// Moves a total by as much as one of its parts.
pub(super) fn move_by(total: &AtomicU64, from: u64, to: u64) {
    if to != from {
        // Wraps around to the sum when `to` is the smaller one.
        total.fetch_add(to.wrapping_sub(from), Ordering::Relaxed);
    }
}

/// What is too much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Over {
    pub(super) states: u64,
    pub(super) bytes: u64,
}

impl Over {
    pub(super) fn is_nothing(self) -> bool {
        self.states == 0 && self.bytes == 0
    }
}

/// A block as it stands in the accounts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Booked {
    states: u64,
    bytes: u64,
    dirty: bool,
}

impl Booked {
    pub(super) fn new(block: BlockRef<'_>, dirty: bool) -> Self {
        Self {
            states: block.weight(),
            bytes: block.bytes().len() as u64,
            dirty,
        }
    }

    pub(super) fn states(self) -> u64 {
        self.states
    }
}

/// Bytes of a block beyond its header and its states.
pub(super) fn tail(block: BlockRef<'_>) -> usize {
    block.bytes().len() - EMPTY.len() - BYTES_OF_STATE * block.len()
}
