//! Blocks in memory, in stripes with short locks.
//!
//! Comes in: blocks that were loaded, operations for users who are cached, outcomes of writes. Goes
//! out: answers, and [`BlockWrite`]s: packed blocks on their way to the store. The cache never waits and
//! does no IO; a lock is held for the work of one or a few users and never across an await.
//!
//! What it guarantees:
//! - a user with changes that are not written is never evicted, and is written once per
//!   [`Flushing::delay`] however often it changes;
//! - the states and bytes of such users are bounded; beyond the bound new changes are refused, not
//!   dropped;
//! - memory is bounded in states and in bytes ([`BYTES_PER_STATE`]), whatever is in the blocks;
//! - no user runs more than [`VERSION_GAP`] versions ahead of what is written.
//!
//! ```text
//!          change                  begin_flushes                 written
//! Clean ───────────▶ Dirty ──────────────────────▶ InFlight ───────────────▶ Clean
//!                      ▲                              │  │ written, changed meanwhile
//!                      └──────────── failed ──────────┘──┘
//! ```
//!
//! A stripe is made of
//! - `table`: a record of eight bytes for each user, in buckets that the clock hand walks;
//! - `slab`: the blocks, one after the other, moved together as holes appear;
//! - `dirty`: the users with changes that are not written, by age and by time of writing.
//!
//! Which slots are served, and at which epoch, is in `slots`; blocks of whole slots go and come
//! through `handoff`.
//!
//! What a state takes, all in, as the resident set of a process with 20 million states grew (`cargo bench --package
//! readstates-bench --bench cache -- --only ours` fills and measures one; users have between 1 and twice the mean; a state is
//! 24 bytes, a block has 24 more, the prefix in the slab 12, the record 8 to 11):
//!
//! - just filled: 26.5 bytes with 20 states per user, 33.6 with 5;
//! - with 20, after half a million blocks had become longer and a quarter of the users dirty: 31.1;
//! - with 20, after a third of the users had been replaced by others: 30.8.
//!
//! The last two were measured once. So was that no insertion took the processor for more than 0.6 ms while the tables grew,
//! with 20 states per user. On a machine of two processors that others used as well, where one read at a random place of
//! memory takes 430 ns by itself, half of the updates of users who were dirty took less than 1.2 µs, half of the reads of all
//! states of a user less than 1.4 µs, and half of the updates of any user less than 2.8 µs.

mod accounts;
mod dirty;
mod evict;
mod exported;
mod flushing;
mod handoff;
mod in_flight;
mod landed;
mod lock;
mod many;
mod outcomes;
mod replicated;
mod single;
mod slab;
mod slots;
mod stripe;
mod table;
#[cfg(test)]
mod tests;
mod writes;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

pub use accounts::BYTES_PER_STATE;
use accounts::Shared;
use dirty::WriteId;
pub use evict::Shrink;
pub use exported::Exported;
pub use flushing::{FlushMode, Flushing};
pub use handoff::PARTS;
pub use in_flight::{Room, Turn};
pub use landed::Landed;
use lock::Lock;
use readstates_ring::Stamp;
pub use single::{Made, OfUser, Operations, Single, StateSeen, WithState};
pub use slots::{SlotSet, Term};
use stripe::Stripe;
use table::{Bucket, Hash, STRIPES};

use crate::{
    block::{BlockRef, Operation, Outcome, TooManyReadStates, VERSION_GAP},
    codec::Decoded,
    journal::{self, Journal},
    mixed,
    replication::Replicas,
};

const _: () = assert!(
    STRIPES <= journal::BUFFERS,
    "a stripe has no buffer in the journal"
);

/// What touches a user. Mentions are made to all users, and should not push out those who are online.
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
    /// The disk does not take the journal, or too much of it waits for the store.
    #[error("the journal's disk does not keep up with changes")]
    JournalBehind,
    /// The backup does not take changes as fast as they come.
    #[error("the backup does not keep up with changes")]
    BackupBehind,
    /// The slot has no backup, and changes need one.
    #[error(
        "no other member keeps the user's changes now, and --durability replicated demands one"
    )]
    NoBackup,
    /// Too many states wait for the store.
    #[error("too many changes wait for the database")]
    TooManyUnwritten,
    /// The user is [`VERSION_GAP`] versions ahead of the store.
    #[error("the user changes faster than the database takes it")]
    UserTooBusy,
    /// The cache takes no more changes: see [`Cache::seal`].
    #[error("the member is stopping")]
    Sealed,
    /// The precondition of the change does not hold.
    #[error("the user is at another version than the request is for")]
    VersionMoved,
    /// The user's slot is not served here: see [`Cache::close`].
    #[error("the user belongs to another member by now")]
    NotHere,
}

/// What is in the cache now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Totals {
    pub users: u64,
    /// Their weight: states, and 1 for each user without any.
    pub states: u64,
    /// Bytes of memory: blocks and what is dead or idle between them, tables, dirty users.
    pub bytes: u64,
    /// Those of them that are needed.
    pub bytes_needed: u64,
    /// Those of them that are in the blocks' tails: what does not fit a state's 24 bytes.
    pub bytes_of_tails: u64,
    /// Users with changes that are not written.
    pub dirty_users: u64,
    /// Their weight.
    pub dirty_states: u64,
    /// The bytes of their blocks.
    pub dirty_bytes: u64,
    /// Users evicted since the start.
    pub evictions: u64,
    /// When the oldest change that is not written was made.
    pub oldest_dirty: Option<Instant>,
}

/// A packed block on its way to the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockWrite {
    pub user: u64,
    pub bytes: Vec<u8>,
    /// The stamp to write it with.
    pub stamp: Stamp,
    /// The version it holds.
    pub version: u64,
    /// Why it leaves now.
    pub turn: Turn,
    /// Which write of the user it is.
    id: WriteId,
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

#[derive(Debug)]
pub struct Cache {
    stripes: Box<[Lock<Stripe>]>,
    shared: Shared,
    /// The stripe whose clock hand moves next.
    next_to_evict: AtomicUsize,
    /// The stripe that is looked at first for users to write, so that none waits for the others.
    next_to_flush: AtomicUsize,
}

impl Cache {
    /// An empty cache of this many states, whose users are written as `flushing` says.
    #[must_use]
    pub fn new(process: Process, capacity_states: u64, flushing: impl Into<Flushing>) -> Self {
        Self::with_journal(process, capacity_states, flushing.into(), None)
    }

    /// As [`Cache::new`], and tells a journal of each change.
    pub(crate) fn with_journal(
        process: Process,
        capacity_states: u64,
        flushing: Flushing,
        journal: Option<Arc<Journal>>,
    ) -> Self {
        let shared = Shared::new(process, capacity_states, flushing, journal);
        let stripe = |_| {
            let mut stripe = Stripe::default();
            stripe.publish(&shared);
            Lock::new(stripe)
        };
        Self {
            stripes: (0..STRIPES).map(stripe).collect(),
            shared,
            next_to_evict: AtomicUsize::new(0),
            next_to_flush: AtomicUsize::new(0),
        }
    }

    /// Tells backups of every change and write from now on. Once, before any slot is served.
    pub(crate) fn replicate(&self, replicas: Arc<Replicas>) {
        // A cache has one member.
        let _ = self.shared.replicas.set(replicas);
    }

    /// Where backups are told.
    pub(crate) fn replicas(&self) -> Option<&Arc<Replicas>> {
        self.shared.replicas.get()
    }

    pub(crate) fn incarnation(&self) -> u64 {
        self.shared.process.incarnation
    }

    /// Shows the block of a cached user to `view`; `None` when the user is not cached.
    pub fn read<T>(&self, user: u64, view: impl FnOnce(BlockRef<'_>) -> T) -> Option<T> {
        let hash = Hash::of(user);
        let mut stripe = self.stripes[hash.stripe()].lock();
        let bucket = stripe.find(user, hash)?;
        stripe.touch(bucket, Touch::Online);
        Some(view(stripe.block(bucket)))
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
        self.visit(user, now, |landed| landed.change(operations, touch, view))?
    }

    /// Lets `work` read and change a cached user under one hold of the lock; `None` when the user is not
    /// cached.
    pub fn visit<T>(
        &self,
        user: u64,
        now: Instant,
        work: impl FnOnce(&mut Landed<'_>) -> T,
    ) -> Option<T> {
        let hash = Hash::of(user);
        let mut stripe = self.stripes[hash.stripe()].lock();
        let bucket = stripe.find(user, hash)?;
        Some(work(&mut Landed {
            stripe: &mut stripe,
            hash,
            bucket,
            now,
            shared: &self.shared,
        }))
    }

    /// Takes in a user's block as it was loaded: `None` when the store has none. A user who is cached
    /// already is left as is. The caller makes room afterwards.
    pub fn insert(&self, user: u64, loaded: Option<(Decoded<'_>, Stamp)>) {
        if let Some(term) = self.term(user) {
            self.land(user, loaded, term, self.shared.origin, |_| ());
        }
    }

    /// As [`Cache::insert`], and lets `first` work on the user before any other task can: what waited for
    /// the load comes before what comes after it. `None` when the user's slot is not served any more,
    /// or not since the load began: then nothing happens.
    pub fn land<T>(
        &self,
        user: u64,
        loaded: Option<(Decoded<'_>, Stamp)>,
        term: Term,
        now: Instant,
        first: impl FnOnce(&mut Landed<'_>) -> T,
    ) -> Option<T> {
        let put = |stripe: &mut Stripe, hash| Some(stripe.insert(user, hash, loaded, &self.shared));
        self.land_as(user, term, now, put, first)
    }

    /// `put` puts the user in, if it is not there.
    fn land_as<T>(
        &self,
        user: u64,
        term: Term,
        now: Instant,
        put: impl FnOnce(&mut Stripe, Hash) -> Option<Bucket>,
        first: impl FnOnce(&mut Landed<'_>) -> T,
    ) -> Option<T> {
        let hash = Hash::of(user);
        let mut stripe = self.stripes[hash.stripe()].lock();
        if self.shared.slots.term(hash) != Some(term) {
            return None;
        }
        let bucket = match stripe.find(user, hash) {
            Some(bucket) => bucket,
            None => put(&mut stripe, hash)?,
        };
        Some(first(&mut Landed {
            stripe: &mut stripe,
            hash,
            bucket,
            now,
            shared: &self.shared,
        }))
    }

    fn stripe(&self, user: u64) -> &Lock<Stripe> {
        &self.stripes[Hash::of(user).stripe()]
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

    /// Bytes of blocks that the store lacks something of.
    pub(crate) fn dirty_bytes(&self) -> u64 {
        self.shared.dirty_bytes.load(Ordering::Relaxed)
    }

    /// Changes the capacity; the caller makes room afterwards, see [`Cache::shrink`].
    pub fn set_capacity(&self, states: u64) {
        self.shared.capacity.store(states, Ordering::Relaxed);
    }

    /// Whether so much waits for the store that it should be written before its time.
    #[must_use]
    pub fn under_pressure(&self) -> bool {
        self.shared.under_pressure()
    }

    /// The stripe of a user.
    pub(crate) fn stripe_of(user: u64) -> usize {
        Hash::of(user).stripe()
    }

    /// What is in the cache now.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let (mut bytes, mut bytes_of_tails, mut oldest) = (0, 0, None);
        for stripe in &self.stripes {
            let mut stripe = stripe.lock();
            bytes += stripe.slab.resident() + stripe.beside();
            bytes_of_tails += stripe.tails;
            oldest = [oldest, stripe.dirty.oldest()].into_iter().flatten().min();
        }
        let load = |total: &AtomicU64| total.load(Ordering::Relaxed);
        Totals {
            users: load(&self.shared.users),
            states: load(&self.shared.states),
            bytes: bytes as u64,
            bytes_needed: load(&self.shared.bytes),
            bytes_of_tails: bytes_of_tails as u64,
            dirty_users: load(&self.shared.dirty_users),
            dirty_states: load(&self.shared.dirty_states),
            dirty_bytes: load(&self.shared.dirty_bytes),
            evictions: load(&self.shared.evictions),
            oldest_dirty: oldest.map(|oldest| oldest.instant(self.shared.origin)),
        }
    }

    /// How many users have changes that are not written.
    #[must_use]
    pub fn dirty_users(&self) -> u64 {
        self.shared.dirty_users.load(Ordering::Relaxed)
    }
}

/// Bytes of the blocks of these writes.
pub(crate) fn bytes_of(writes: &[BlockWrite]) -> usize {
    writes.iter().map(|write| write.bytes.len()).sum()
}

/// The shortest that [`jittered`] makes of an interval.
fn least(interval: Duration) -> Duration {
    interval - interval / 10
}

/// A duration within a tenth of `interval`, the same for the same user: spreads the writes of users
/// who became dirty together.
fn jittered(interval: Duration, user: u64) -> Duration {
    // 0 to 1023 of 1024.
    let share = (mixed::keyed(!user) & 1023) as u32;
    least(interval) + interval / 5 * share / 1024
}
