//! What the flusher asks of the cache: whom to write now, and what became of it.

use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use super::{BlockWrite, Cache, Progress, Room, table::STRIPES};

/// Users brought forward under one hold of a lock: some tens of microseconds.
const BROUGHT_FORWARD_AT_ONCE: usize = 256;

impl Cache {
    /// Takes up to `most` users whose time to be written has come; under pressure those whose time
    /// comes next. Each is in flight until [`Cache::written`] or [`Cache::failed`].
    pub fn begin_flushes(&self, now: Instant, most: usize) -> Vec<BlockWrite> {
        self.begin_flushes_in(now, Room::of(most), |_| true)
    }

    /// As [`Cache::begin_flushes`], with as many of each kind as there is room for. `admits` says whether
    /// the store takes a write of this user now, and is asked only when it would begin at once; a user
    /// that is not admitted is looked at again a second later.
    pub fn begin_flushes_in(
        &self,
        now: Instant,
        mut room: Room,
        mut admits: impl FnMut(u64) -> bool,
    ) -> Vec<BlockWrite> {
        let mut writes = Vec::new();
        let start = self.next_to_flush.fetch_add(1, Ordering::Relaxed) % STRIPES;
        for offset in 0..STRIPES {
            if room.all == 0 || room.bytes == 0 {
                break;
            }
            // Far beyond any interval, so that a user who waits after a failure goes on waiting.
            let ahead = if self.under_pressure() {
                self.shared.flushing.interval * 2
            } else {
                Duration::ZERO
            };
            let mut stripe = self.stripes[(start + offset) % STRIPES].lock();
            stripe.begin_flushes(
                now,
                ahead,
                &mut room,
                &self.shared,
                &mut admits,
                &mut writes,
            );
        }
        writes
    }

    /// The store has written this.
    pub fn written(&self, write: &BlockWrite, now: Instant) {
        self.stripe(write.user)
            .lock()
            .written(write, now, &self.shared);
    }

    /// The store has not written this, or it is not known.
    pub fn failed(&self, write: &BlockWrite, now: Instant) {
        self.stripe(write.user)
            .lock()
            .failed(write, now, &self.shared);
    }

    /// Asks that a user be written as soon as can be.
    pub fn bring_forward(&self, user: u64, now: Instant) {
        let now = self.shared.moment(now);
        self.stripe(user).lock().bring_forward(user, now);
    }

    /// Asks that everything that is dirty be written as soon as can be; returns each dirty user of a
    /// slot that is served, and the version it has.
    pub fn bring_all_forward(&self, now: Instant) -> Vec<(u64, u64)> {
        let now = self.shared.moment(now);
        let mut brought_forward = Vec::new();
        for stripe in &self.stripes {
            let users = stripe.lock().dirty.users();
            for some in users.chunks(BROUGHT_FORWARD_AT_ONCE) {
                brought_forward.extend(stripe.lock().bring_these_forward(some, now, &self.shared));
            }
        }
        brought_forward
    }

    /// Whether a user has changes that are not written.
    pub(crate) fn is_dirty(&self, user: u64) -> bool {
        self.stripe(user).lock().dirty.get(user).is_some()
    }

    /// When the oldest change that is not written was made.
    pub(crate) fn oldest_dirty(&self) -> Option<Instant> {
        let oldest = self
            .stripes
            .iter()
            .filter_map(|stripe| stripe.lock().dirty.oldest());
        oldest
            .min()
            .map(|oldest| oldest.instant(self.shared.origin))
    }

    /// Everything that was changed before this moment is written. `now` is read before the call: a change in a stripe
    /// that was looked at already is later than that, although it may be older than one that is seen.
    pub(crate) fn written_until(&self, now: Instant) -> Instant {
        self.oldest_dirty().map_or(now, |oldest| oldest.min(now))
    }

    /// How a user stands who had `version` when its write was asked for at `since`.
    pub fn progress(&self, user: u64, version: u64, since: Instant) -> Progress {
        let since = self.shared.moment(since);
        self.stripe(user).lock().progress(user, version, since)
    }
}
