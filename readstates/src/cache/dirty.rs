//! The dirty users of a stripe, by the time of their write and by the age of their oldest change.

use std::{collections::BTreeSet, time::Instant};

/// An index over [`super::entry::Unwritten`]: it holds exactly the users who are dirty.
#[derive(Debug, Default)]
pub(super) struct DirtySet {
    /// Those who wait, by when they are due.
    due: BTreeSet<(Instant, u64)>,
    /// All, by when they became dirty.
    since: BTreeSet<(Instant, u64)>,
}

impl DirtySet {
    pub(super) fn became_dirty(&mut self, user: u64, since: Instant) {
        self.since.insert((since, user));
    }

    pub(super) fn became_clean(&mut self, user: u64, since: Instant) {
        self.since.remove(&(since, user));
    }

    pub(super) fn wait_until(&mut self, user: u64, due: Instant) {
        self.due.insert((due, user));
    }

    pub(super) fn stop_waiting(&mut self, user: u64, due: Instant) {
        self.due.remove(&(due, user));
    }

    /// The user who is due first, if not later than `now`.
    pub(super) fn first_due(&self, now: Instant) -> Option<u64> {
        self.due
            .first()
            .filter(|&&(due, _)| due <= now)
            .map(|&(_, user)| user)
    }

    pub(super) fn oldest(&self) -> Option<Instant> {
        self.since.first().map(|&(since, _)| since)
    }

    pub(super) fn users(&self) -> Vec<u64> {
        self.since.iter().map(|&(_, user)| user).collect()
    }
}
