//! The dirty users of a stripe: since when each is dirty, when it is due, and how its writes went.
//!
//! Only dirty users are in here, so that a clean one takes no more than its block and a record. A user
//! who becomes dirty is entered in three places, none of which is searched for that: the [`DirtyUsers`], and
//! the ends of two [`Order`]s.
//!
//! A user who is being written remembers by which write. The result of another one says nothing of it: a write can
//! outlast the ownership that began it, and end when the user is here again.
//!
//! ```text
//!           changed            take_off              landed
//! (absent) ───────▶ Waiting ──────────▶ InFlight ───────────▶ (absent)
//!                    ▲    ▲               │ changed
//!                    │    └─ failed ──────┤
//!                    │                    ▼
//!                    └─ landed, failed ─ Rearmed
//! ```

mod order;
mod users;

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use order::Order;
use users::DirtyUsers;

use super::table::Hash;

/// Bytes of memory for each dirty user, by count: 40 for the entry, 14 to find it by, and 16 in each of
/// the orders, a third of whose entries are stale.
const BYTES_PER_DIRTY_USER: usize = 40 + 14 + 2 * 24;

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

/// A write of a stripe, told from the others of it. The number comes again after four billion of them, when none of
/// those is under way any more; a stamp would take eight bytes of each dirty user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WriteId(u32);

/// One dirty user.
#[derive(Debug, Clone, Copy)]
pub(super) struct Dirty {
    /// When the oldest unwritten change was made.
    since: Moment,
    stage: Stage,
    /// The version from which unwritten changes are counted.
    pub(super) written_version: u64,
}

impl Dirty {
    /// How long the oldest unwritten change has waited at `at`.
    pub(super) fn age(&self, at: Moment) -> Duration {
        Duration::from_nanos(at.0.saturating_sub(self.since.0))
    }

    /// When the oldest unwritten change was made.
    pub(super) fn since(&self, origin: Instant) -> Instant {
        self.since.instant(origin)
    }
}

#[derive(Debug, Clone, Copy)]
enum Stage {
    /// To be written at `due`.
    Waiting { due: Moment },
    /// Being written, with every change.
    InFlight { write: WriteId },
    /// Being written without the changes since `since`.
    Rearmed { write: WriteId, since: Moment },
}

impl Stage {
    /// The write that is under way.
    fn write(self) -> Option<WriteId> {
        match self {
            Self::Waiting { .. } => None,
            Self::InFlight { write } | Self::Rearmed { write, .. } => Some(write),
        }
    }
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
    users: DirtyUsers,
    /// Waiting users, by when they are due.
    due: Order,
    /// Those of them whose last write failed: they go behind the others.
    again: Order,
    /// All, by when they became dirty.
    since: Order,
    /// Those whose last write failed: few, unless the store is away.
    failures: BTreeMap<u64, Failures>,
    /// The number of the next write.
    next_write: u32,
}

impl DirtySet {
    pub(super) fn get(&self, user: u64) -> Option<&Dirty> {
        self.users.get(user, Hash::of(user))
    }

    pub(super) fn failures(&self, user: u64) -> Option<Failures> {
        self.failures.get(&user).copied()
    }

    pub(super) fn bytes(&self) -> usize {
        // A failure is an entry of a B-tree.
        self.users.len() * BYTES_PER_DIRTY_USER + self.failures.len() * 36
    }

    /// A user who was clean has changed.
    pub(super) fn became_dirty(&mut self, user: u64, now: Moment, due: Moment, version: u64) {
        let dirty = Dirty {
            since: now,
            stage: Stage::Waiting { due },
            written_version: version,
        };
        self.users.insert(user, Hash::of(user), dirty);
        self.since.push(now, user);
        self.due.push(due, user);
        self.tidy();
    }

    /// A user who is being written has changed.
    pub(super) fn changed_in_flight(&mut self, user: u64, now: Moment) {
        if let Some(Dirty { stage, .. }) = self.users.get_mut(user, Hash::of(user))
            && let Stage::InFlight { write } = *stage
        {
            *stage = Stage::Rearmed { write, since: now };
        }
    }

    /// The user who is due first, if not later than `until`, of those whose last write failed or of the
    /// others. It leaves the order: the caller takes it off or puts it back.
    pub(super) fn next_due(&mut self, again: bool, until: Moment) -> Option<(Moment, u64)> {
        let order = if again {
            &mut self.again
        } else {
            &mut self.due
        };
        while let Some((due, user)) = order.first().filter(|&(due, _)| due <= until) {
            order.pop();
            if is_due(&self.users, due, user) && self.failures.contains_key(&user) == again {
                return Some((due, user));
            }
        }
        None
    }

    /// Enters a waiting user, due at `due`.
    fn enter(&mut self, due: Moment, user: u64) {
        if self.failures.contains_key(&user) {
            self.again.push(due, user);
        } else {
            self.due.push(due, user);
        }
    }

    /// Puts back a user from [`Self::next_due`].
    pub(super) fn put_back(&mut self, due: Moment, user: u64) {
        self.enter(due, user);
    }

    /// A user from [`Self::next_due`] is being written from now on; returns by which write. `None` when it does not wait.
    pub(super) fn take_off(&mut self, user: u64) -> Option<WriteId> {
        let dirty = self.users.get_mut(user, Hash::of(user))?;
        let Stage::Waiting { .. } = dirty.stage else {
            return None;
        };
        let write = WriteId(self.next_write);
        self.next_write = self.next_write.wrapping_add(1);
        dirty.stage = Stage::InFlight { write };
        Some(write)
    }

    /// A write of a user has landed with this version. What came in meanwhile is written when `due`
    /// says. `None` when the user was not being written by it.
    pub(super) fn landed(
        &mut self,
        user: u64,
        write: WriteId,
        version: u64,
        due: impl FnOnce(Moment) -> Moment,
    ) -> Option<Left> {
        let dirty = self.users.get_mut(user, Hash::of(user))?;
        if dirty.stage.write() != Some(write) {
            return None;
        }
        let left = match dirty.stage {
            Stage::Waiting { .. } => return None,
            Stage::InFlight { .. } => {
                self.users.remove(user, Hash::of(user));
                Left::Clean
            }
            Stage::Rearmed { since, .. } => {
                let due = due(since);
                *dirty = Dirty {
                    since,
                    stage: Stage::Waiting { due },
                    written_version: version,
                };
                self.since.push(since, user);
                self.due.push(due, user);
                Left::Dirty
            }
        };
        self.failures.remove(&user);
        self.tidy();
        Some(left)
    }

    /// A write of a user has failed, and is tried again when `due` says of the failures before; returns
    /// whether the user was being written by it.
    pub(super) fn failed(
        &mut self,
        user: u64,
        write: WriteId,
        now: Moment,
        due: impl FnOnce(u32) -> Moment,
    ) -> bool {
        let Some(Dirty { stage, .. }) = self.users.get_mut(user, Hash::of(user)) else {
            return false;
        };
        if stage.write() != Some(write) {
            return false;
        }
        let before = self
            .failures
            .get(&user)
            .map_or(0, |failures| failures.count);
        let due = due(before);
        *stage = Stage::Waiting { due };
        let count = before.saturating_add(1);
        self.failures.insert(user, Failures { count, last: now });
        self.again.push(due, user);
        true
    }

    /// Makes a waiting user due now, if it is not already.
    pub(super) fn bring_forward(&mut self, user: u64, now: Moment) {
        if let Some(Dirty { stage, .. }) = self.users.get_mut(user, Hash::of(user))
            && let Stage::Waiting { due } = stage
            && *due > now
        {
            *due = now;
            self.enter(now, user);
            self.tidy();
        }
    }

    /// When the oldest dirty user became dirty.
    pub(super) fn oldest(&mut self) -> Option<Moment> {
        while let Some((since, user)) = self.since.first() {
            if is_dirty_since(&self.users, since, user) {
                return Some(since);
            }
            self.since.pop();
        }
        None
    }

    /// Makes a waiting user due at `until`.
    pub(super) fn postpone(&mut self, user: u64, until: Moment) {
        if let Some(Dirty { stage, .. }) = self.users.get_mut(user, Hash::of(user))
            && let Stage::Waiting { due } = stage
        {
            *due = until;
            self.enter(until, user);
            self.tidy();
        }
    }

    /// A user is not here any more.
    pub(super) fn forget(&mut self, user: u64) {
        self.users.remove(user, Hash::of(user));
        self.failures.remove(&user);
        self.tidy();
    }

    pub(super) fn users(&self) -> Vec<u64> {
        self.users.users().collect()
    }

    /// Drops stale entries from the orders, once they are most of them.
    fn tidy(&mut self) {
        let users = &self.users;
        for order in [&mut self.due, &mut self.again] {
            order.tidy(users.len(), |due, user| is_due(users, due, user));
        }
        self.since.tidy(users.len(), |since, user| {
            is_dirty_since(users, since, user)
        });
    }
}

/// Whether a user waits, and is due then.
fn is_due(users: &DirtyUsers, at: Moment, user: u64) -> bool {
    let dirty = users.get(user, Hash::of(user));
    dirty.is_some_and(|dirty| matches!(dirty.stage, Stage::Waiting { due } if due == at))
}

fn is_dirty_since(users: &DirtyUsers, since: Moment, user: u64) -> bool {
    let dirty = users.get(user, Hash::of(user));
    dirty.is_some_and(|dirty| dirty.since == since)
}
