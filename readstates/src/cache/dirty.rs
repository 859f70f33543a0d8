//! The dirty users of a stripe: since when, when they are to be written, and what became of that.
//!
//! Only dirty users are in here, so that what a clean one takes is its block and a record. Ordered
//! trees, because they grow without a pause.
//!
//! ```text
//!           changed            take_off              landed
//! (absent) ───────▶ Waiting ──────────▶ Flying ─────────────▶ (absent)
//!                    ▲    ▲               │ changed
//!                    │    └─ failed ──────┤
//!                    │                    ▼
//!                    └─ landed, failed ─ Rearmed
//! ```

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

/// Bytes of memory for each dirty user, by count: 24 for the order of age, 24 for the order of
/// writing and 60 for the rest, in tree nodes that are two thirds full.
pub(super) const BYTES_PER_DIRTY_USER: usize = 108;

/// Nanoseconds since the cache began: half of an [`Instant`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Moment(u64);

impl Moment {
    /// The moments of the next 580 years.
    pub(super) fn of(instant: Instant, origin: Instant) -> Self {
        let since = instant.saturating_duration_since(origin);
        Self(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    }

    pub(super) fn instant(self, origin: Instant) -> Instant {
        origin + Duration::from_nanos(self.0)
    }

    pub(super) fn after(self, wait: Duration) -> Self {
        let wait = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(wait))
    }
}

/// One dirty user.
#[derive(Debug, Clone, Copy)]
pub(super) struct Dirty {
    /// When the oldest change was made that is not written.
    since: Moment,
    stage: Stage,
    /// The version from which unwritten changes are counted.
    pub(super) written_version: u64,
}

#[derive(Debug, Clone, Copy)]
enum Stage {
    /// To be written at `due`.
    Waiting { due: Moment },
    /// Being written, with every change.
    Flying,
    /// Being written without the changes since `since`.
    Rearmed { since: Moment },
}

/// Writes that failed one after the other.
#[derive(Debug, Clone, Copy)]
pub(super) struct Failures {
    pub(super) count: u32,
    pub(super) last: Moment,
}

/// What is left of a user whose write has landed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Left {
    /// Nothing.
    Clean,
    /// Changes made meanwhile.
    Dirty,
}

/// The dirty users of a stripe.
#[derive(Debug, Default)]
pub(super) struct DirtySet {
    users: BTreeMap<u64, Dirty>,
    /// Those who wait, by when they are due.
    due: BTreeSet<(Moment, u64)>,
    /// All, by when they became dirty.
    since: BTreeSet<(Moment, u64)>,
    /// Those whose last write failed: few, unless the store is away.
    failures: BTreeMap<u64, Failures>,
}

impl DirtySet {
    pub(super) fn get(&self, user: u64) -> Option<&Dirty> {
        self.users.get(&user)
    }

    pub(super) fn failures(&self, user: u64) -> Option<Failures> {
        self.failures.get(&user).copied()
    }

    pub(super) fn bytes(&self) -> usize {
        // One who failed has a share of a fourth tree.
        self.users.len() * BYTES_PER_DIRTY_USER + self.failures.len() * 36
    }

    /// A user who was clean has changed.
    pub(super) fn became_dirty(&mut self, user: u64, now: Moment, due: Moment, version: u64) {
        let dirty = Dirty {
            since: now,
            stage: Stage::Waiting { due },
            written_version: version,
        };
        self.users.insert(user, dirty);
        self.since.insert((now, user));
        self.due.insert((due, user));
    }

    /// A user has changed who is being written.
    pub(super) fn changed_in_flight(&mut self, user: u64, now: Moment) {
        if let Some(Dirty { stage, .. }) = self.users.get_mut(&user)
            && matches!(stage, Stage::Flying)
        {
            *stage = Stage::Rearmed { since: now };
        }
    }

    /// The user who is due first, if not later than `until`.
    pub(super) fn first_due(&self, until: Moment) -> Option<(Moment, u64)> {
        self.due.first().filter(|&&(due, _)| due <= until).copied()
    }

    /// The users who are due after this one, not later than `until`.
    pub(super) fn next_due(&self, after: (Moment, u64), until: Moment) -> Option<(Moment, u64)> {
        let mut later = self
            .due
            .range((std::ops::Bound::Excluded(after), std::ops::Bound::Unbounded));
        later.next().filter(|&&(due, _)| due <= until).copied()
    }

    /// A user who waits is written from now on.
    pub(super) fn take_off(&mut self, user: u64) {
        if let Some(Dirty { stage, .. }) = self.users.get_mut(&user)
            && let Stage::Waiting { due } = *stage
        {
            *stage = Stage::Flying;
            self.due.remove(&(due, user));
        }
    }

    /// A user's write has landed with this version. What came in meanwhile is written when `due`
    /// says. `None` when the user was not being written.
    pub(super) fn landed(
        &mut self,
        user: u64,
        version: u64,
        due: impl FnOnce(Moment) -> Moment,
    ) -> Option<Left> {
        let dirty = self.users.get_mut(&user)?;
        let old = dirty.since;
        let left = match dirty.stage {
            Stage::Waiting { .. } => return None,
            Stage::Flying => {
                self.users.remove(&user);
                Left::Clean
            }
            Stage::Rearmed { since } => {
                let due = due(since);
                *dirty = Dirty {
                    since,
                    stage: Stage::Waiting { due },
                    written_version: version,
                };
                self.since.insert((since, user));
                self.due.insert((due, user));
                Left::Dirty
            }
        };
        // The same pair when the clock stood still.
        if self.users.get(&user).is_none_or(|dirty| dirty.since != old) {
            self.since.remove(&(old, user));
        }
        self.failures.remove(&user);
        Some(left)
    }

    /// A user's write has failed, and is tried again when `due` says of the failures before; returns
    /// whether it was being written.
    pub(super) fn failed(
        &mut self,
        user: u64,
        now: Moment,
        due: impl FnOnce(u32) -> Moment,
    ) -> bool {
        let Some(Dirty { stage, .. }) = self.users.get_mut(&user) else {
            return false;
        };
        if matches!(stage, Stage::Waiting { .. }) {
            return false;
        }
        let before = self
            .failures
            .get(&user)
            .map_or(0, |failures| failures.count);
        let due = due(before);
        *stage = Stage::Waiting { due };
        self.due.insert((due, user));
        let count = before.saturating_add(1);
        self.failures.insert(user, Failures { count, last: now });
        true
    }

    /// A user who waits is due now, if not before.
    pub(super) fn bring_forward(&mut self, user: u64, now: Moment) {
        if let Some(Dirty { stage, .. }) = self.users.get_mut(&user)
            && let Stage::Waiting { due } = stage
            && *due > now
        {
            self.due.remove(&(*due, user));
            self.due.insert((now, user));
            *due = now;
        }
    }

    pub(super) fn oldest(&self) -> Option<Moment> {
        self.since.first().map(|&(since, _)| since)
    }

    pub(super) fn users(&self) -> Vec<u64> {
        self.users.keys().copied().collect()
    }
}
