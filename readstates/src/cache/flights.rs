//! What of a stripe is on its way to the store, and what becomes of it.

use std::time::{Duration, Instant};

use super::{
    Flight, Progress,
    accounts::{Booked, Shared},
    dirty::{Left, Moment},
    jittered,
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

/// How much may be begun.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    pub(super) flights: usize,
    /// But for the last block.
    pub(super) bytes: usize,
}

impl Stripe {
    /// Takes users off, as far as there is room, whose time comes before `now + ahead`.
    pub(super) fn begin_flushes(
        &mut self,
        now: Instant,
        ahead: Duration,
        room: Room,
        shared: &Shared,
        flights: &mut Vec<Flight>,
    ) {
        let now = shared.moment(now);
        let until = now.after(ahead);
        let mut packed = 0;
        let mut resting = Vec::new();
        for _ in 0..room.flights {
            let Some((due, user)) = self.dirty.next_due(until) else {
                break;
            };
            let hash = Hash::of(user);
            if shared.slots.term(hash).is_none() {
                // On the way here: written by whoever owns the slot in the end.
                self.dirty.postpone(user, until.after(WHILE_CLOSED));
                continue;
            }
            // Pressure does not shorten the wait after a failure.
            if due > now && self.dirty.failures(user).is_some() {
                resting.push((due, user));
                continue;
            }
            let Some(spot) = self.find(user, hash) else {
                continue;
            };
            self.dirty.take_off(user);
            self.tables.at_mut(spot).put_stage(Stage::Flying);
            let block = self.block(spot);
            let flight = Flight {
                user,
                bytes: codec::encode(block, shared.process.incarnation),
                stamp: shared.slots.next_stamp(hash, self.last_stamp(user)),
                version: block.version(),
            };
            packed += flight.bytes.len();
            flights.push(flight);
            if packed > MOST_PACKED || packed >= room.bytes {
                break;
            }
        }
        for (due, user) in resting {
            self.dirty.put_back(due, user);
        }
    }

    pub(super) fn written(&mut self, flight: &Flight, now: Instant, shared: &Shared) {
        let Flight {
            user,
            stamp,
            version,
            ..
        } = *flight;
        if !shared.slots.is_of_this_term(Hash::of(user), stamp) {
            // Whoever owned the slot in between may have written above it.
            return self.failed(flight, now, shared);
        }
        let now = shared.moment(now);
        let due = |since: Moment| since.after(jittered(shared.flush_interval, user)).max(now);
        let Some(spot) = self.find(user, Hash::of(user)) else {
            return;
        };
        match self.dirty.landed(user, version, due) {
            None => return,
            Some(Left::Dirty) => {}
            Some(Left::Clean) => {
                self.tables.at_mut(spot).put_stage(Stage::Clean);
                let block = self.block(spot);
                let (was, is) = (Booked::new(block, true), Booked::new(block, false));
                shared.book(Some(was), Some(is));
            }
        }
        self.remember(user, stamp, shared);
        self.publish(shared);
    }

    pub(super) fn failed(&mut self, flight: &Flight, now: Instant, shared: &Shared) {
        let now = shared.moment(now);
        let due = |failures: u32| {
            let wait = FIRST_RETRY * 2_u32.saturating_pow(failures.min(10));
            now.after(jittered(wait.min(LAST_RETRY), flight.user))
        };
        if !self.dirty.failed(flight.user, now, due) {
            return;
        }
        if let Some(spot) = self.find(flight.user, Hash::of(flight.user)) {
            self.tables.at_mut(spot).put_stage(Stage::Noted);
        }
        // The write may have arrived all the same: the next stamp must be above it.
        self.remember(flight.user, flight.stamp, shared);
        self.publish(shared);
    }

    /// Brings the write of a user forward to now, unless the last one failed: then it keeps its
    /// distance. One that is in flight is not brought forward: what it does not contain waits for its
    /// own time, unless somebody asks again.
    pub(super) fn hurry(&mut self, user: u64, now: Moment) {
        if self.dirty.failures(user).is_none() {
            self.dirty.bring_forward(user, now);
        }
    }

    /// Brings the writes of these users forward, also of those whose last write failed; returns those
    /// who are dirty, with their versions. Users of closed slots are left alone.
    pub(super) fn hurry_these(
        &mut self,
        users: &[u64],
        now: Moment,
        shared: &Shared,
    ) -> Vec<(u64, u64)> {
        let dirty = users.iter().filter_map(|&user| {
            shared.slots.term(Hash::of(user))?;
            self.dirty.get(user)?;
            self.dirty.bring_forward(user, now);
            let spot = self.find(user, Hash::of(user))?;
            Some((user, self.block(spot).version()))
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
