//! Writes of a stripe that are in flight.

use std::time::{Duration, Instant};

use super::{
    BlockWrite, Progress,
    accounts::{Booked, Shared},
    dirty::{Left, Moment},
    jittered, least,
    stripe::Stripe,
    table::{Hash, Stage},
};
use crate::codec;

/// The first wait after a failed write, doubled with each failure up to the last.
const FIRST_RETRY: Duration = Duration::from_millis(200);
const LAST_RETRY: Duration = Duration::from_secs(15);

/// Until a user of a closed slot is looked at again.
const WHILE_CLOSED: Duration = Duration::from_secs(1);

/// Bytes packed under one hold of the lock, but for the last block: a fraction of a millisecond.
const MOST_PACKED: usize = 1 << 20;

/// How long a user is put off whose part of the store takes no writes.
const WHILE_ILL: Duration = Duration::from_secs(1);

/// Users who are put off under one hold of the lock: some hundred microseconds.
const MOST_PUT_OFF: usize = 512;

/// How much may be begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Writes.
    pub all: usize,
    /// Those of them that need not leave yet: see [`Turn::Early`].
    pub early: usize,
    /// Those of them whose last write failed.
    pub again: usize,
    /// Bytes of their blocks, but for the last one's.
    pub bytes: usize,
}

impl Room {
    /// Room for as many writes, of any kind.
    #[must_use]
    pub fn of(writes: usize) -> Self {
        Self {
            all: writes,
            early: writes,
            again: writes,
            bytes: usize::MAX,
        }
    }

    fn is_used_up(self) -> bool {
        self.all == 0 || self.bytes == 0
    }

    fn take(&mut self, write: &BlockWrite) {
        self.all -= 1;
        self.bytes = self.bytes.saturating_sub(write.bytes.len());
        match write.turn {
            Turn::Due => {}
            Turn::Early => self.early = self.early.saturating_sub(1),
            Turn::Again => self.again = self.again.saturating_sub(1),
        }
    }
}

/// Why it is a user's turn to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Its interval is over, or it was brought forward.
    Due,
    /// The store may have time for it, and its interval is not over.
    Early,
    /// Its last write failed.
    Again,
}

impl Stripe {
    /// Takes users off, as far as there is room, whose time comes before `now + ahead`; those whose last
    /// write failed after the others. `admits` says, last of all, whether the store takes one of a user
    /// now.
    pub(super) fn begin_flushes(
        &mut self,
        now: Instant,
        ahead: Duration,
        room: &mut Room,
        shared: &Shared,
        admits: &mut dyn FnMut(u64) -> bool,
        writes: &mut Vec<BlockWrite>,
    ) {
        let now = shared.moment(now);
        let (mut packed, mut put_off) = (0, 0);
        for again in [false, true] {
            // Pressure does not shorten the wait after a failure.
            let until = if again { now } else { now.after(ahead) };
            while !room.is_used_up() {
                if again && room.again == 0 {
                    break;
                }
                if packed > MOST_PACKED || put_off > MOST_PUT_OFF {
                    return;
                }
                let Some((due, user)) = self.dirty.next_due(again, until) else {
                    break;
                };
                let hash = Hash::of(user);
                if shared.slots.term(hash).is_none() {
                    // On its way here: the slot's next owner writes it.
                    self.dirty.postpone(user, until.after(WHILE_CLOSED));
                    put_off += 1;
                    continue;
                }
                let Some(bucket) = self.find(user, hash) else {
                    continue;
                };
                let turn = self.turn(user, due, now, again, shared);
                if turn == Turn::Early && room.early == 0 {
                    // Those behind it are younger, except users that were brought forward: they come next time.
                    self.dirty.put_back(due, user);
                    break;
                }
                if !admits(user) {
                    self.dirty.postpone(user, until.after(WHILE_ILL));
                    put_off += 1;
                    continue;
                }
                let Some(id) = self.dirty.take_off(user) else {
                    continue;
                };
                self.tables.at_mut(bucket).put_stage(Stage::InFlight);
                let block = self.block(bucket);
                let write = BlockWrite {
                    user,
                    bytes: codec::encode(block, shared.process.incarnation),
                    stamp: shared.slots.next_stamp(hash, self.last_stamp(user)),
                    version: block.version(),
                    turn,
                    id,
                };
                packed += write.bytes.len();
                room.take(&write);
                writes.push(write);
            }
        }
    }

    /// Why it is the turn of a user who is due then.
    fn turn(&self, user: u64, due: Moment, now: Moment, again: bool, shared: &Shared) -> Turn {
        let Some(dirty) = self.dirty.get(user) else {
            return Turn::Due;
        };
        let flushing = shared.flushing;
        // A user that was brought forward is due before its time.
        let in_its_time = dirty.age(due) >= least(flushing.delay());
        if again {
            Turn::Again
        } else if in_its_time && dirty.age(now) < least(flushing.interval) {
            Turn::Early
        } else {
            Turn::Due
        }
    }

    pub(super) fn written(&mut self, write: &BlockWrite, now: Instant, shared: &Shared) {
        let BlockWrite {
            user,
            stamp,
            version,
            id,
            ..
        } = *write;
        if !shared.slots.is_of_this_term(Hash::of(user), stamp) {
            // An owner of the slot in between may have written above it.
            return self.failed(write, now, shared);
        }
        let now = shared.moment(now);
        let due = |since: Moment| since.after(shared.delay(user)).max(now);
        let Some(bucket) = self.find(user, Hash::of(user)) else {
            return;
        };
        let Some(left) = self.dirty.landed(user, id, version, due) else {
            return;
        };
        if let Some(replicas) = shared.replicas.get() {
            replicas.written(user, version);
        }
        match left {
            Left::Dirty => {}
            Left::Clean => {
                self.tables.at_mut(bucket).put_stage(Stage::Clean);
                let block = self.block(bucket);
                let (was, is) = (Booked::new(block, true), Booked::new(block, false));
                shared.book(Some(was), Some(is));
            }
        }
        self.remember(user, stamp, shared);
        self.publish(shared);
    }

    pub(super) fn failed(&mut self, write: &BlockWrite, now: Instant, shared: &Shared) {
        let now = shared.moment(now);
        let due = |failures: u32| {
            let wait = FIRST_RETRY * 2_u32.saturating_pow(failures.min(10));
            now.after(jittered(wait.min(LAST_RETRY), write.user))
        };
        if !self.dirty.failed(write.user, write.id, now, due) {
            return;
        }
        if let Some(bucket) = self.find(write.user, Hash::of(write.user)) {
            self.tables.at_mut(bucket).put_stage(Stage::Noted);
        }
        // The write may have arrived all the same: the next stamp must be above it.
        self.remember(write.user, write.stamp, shared);
        self.publish(shared);
    }

    /// Brings the write of a user forward to now, unless the last one failed: then it keeps its
    /// distance. A write in flight is not brought forward: changes that it does not contain wait for
    /// their own time, unless this is called again.
    pub(super) fn bring_forward(&mut self, user: u64, now: Moment) {
        if self.dirty.failures(user).is_none() {
            self.dirty.bring_forward(user, now);
        }
    }

    /// Brings the writes of these users forward, also of those whose last write failed; returns those
    /// who are dirty, with their versions. Users of closed slots are left alone.
    pub(super) fn bring_these_forward(
        &mut self,
        users: &[u64],
        now: Moment,
        shared: &Shared,
    ) -> Vec<(u64, u64)> {
        let dirty = users.iter().filter_map(|&user| {
            shared.slots.term(Hash::of(user))?;
            self.dirty.get(user)?;
            self.dirty.bring_forward(user, now);
            let bucket = self.find(user, Hash::of(user))?;
            Some((user, self.block(bucket).version()))
        });
        dirty.collect()
    }

    pub(super) fn progress(&self, user: u64, version: u64, since: Moment) -> Progress {
        // Only clean users are evicted.
        let Some(dirty) = self.dirty.get(user) else {
            return Progress::Written;
        };
        let failures = self.dirty.failures(user);
        if dirty.written_version >= version {
            Progress::Written
        } else if failures.is_some_and(|failures| failures.last >= since) {
            Progress::Failed
        } else {
            Progress::Waiting
        }
    }
}
