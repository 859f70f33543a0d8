//! One lock partition: its users, its clock, its dirty set.
//!
//! Eviction is LRU in effect: a hand goes around over the users; a user who was touched since the
//! last pass is passed over and cools, a cold and clean one goes. Dirty ones are passed over and asked
//! to be written early.

use std::{
    collections::HashMap,
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use readstates_ring::slot::mix64;

use super::{
    Flight, Refused, Shared, VERSION_GAP,
    dirty::DirtySet,
    entry::{Entry, Failures, Unwritten},
};
use crate::{
    block::{self, MAX_READ_STATES, Operation, Outcome, TooManyReadStates},
    codec,
};

/// The first wait after a failed write, doubled with each failure up to the last.
const FIRST_RETRY: Duration = Duration::from_millis(200);
const LAST_RETRY: Duration = Duration::from_secs(15);

/// Dirty users that one eviction asks to be written early.
const MOST_HURRIED: usize = 16;

/// One lock partition.
#[derive(Debug, Default)]
pub(super) struct Stripe {
    users: HashMap<u64, Entry>,
    /// The users in the order of the hand.
    clock: Vec<u64>,
    hand: usize,
    dirty: DirtySet,
}

impl Stripe {
    pub(super) fn get_mut(&mut self, user: u64) -> Option<&mut Entry> {
        self.users.get_mut(&user)
    }

    pub(super) fn oldest_dirty(&self) -> Option<Instant> {
        self.dirty.oldest()
    }

    pub(super) fn insert(&mut self, user: u64, mut entry: Entry, shared: &Shared) {
        entry.clock_index = self.clock.len();
        self.clock.push(user);
        shared.users.fetch_add(1, Ordering::Relaxed);
        shared
            .states
            .fetch_add(entry.block().weight(), Ordering::Relaxed);
        self.users.insert(user, entry);
    }

    /// Applies operations, all or none; `None` when the user is not here.
    pub(super) fn apply(
        &mut self,
        user: u64,
        operations: &[Operation],
        now: Instant,
        shared: &Shared,
    ) -> Option<Result<Vec<Outcome>, Refused>> {
        let entry = self.users.get_mut(&user)?;
        if let Err(refused) = admit(entry, operations, shared) {
            if refused == Refused::UserTooBusy {
                self.hurry(user, now);
            }
            return Some(Err(refused));
        }
        let (weight, was_dirty) = (entry.block().weight(), entry.is_dirty());
        let outcomes: Result<Vec<_>, _> = operations
            .iter()
            .map(|operation| {
                block::apply(&mut entry.bytes, operation, shared.process.started_micros)
            })
            .collect();
        let outcomes = match outcomes {
            Ok(outcomes) => outcomes,
            Err(refused) => return Some(Err(refused.into())),
        };
        if outcomes.contains(&Outcome::Applied) {
            account(shared, (weight, was_dirty), (entry.block().weight(), true));
            let ahead = entry.ahead();
            self.changed(user, now, shared.flush_interval);
            if ahead > VERSION_GAP / 2 {
                self.hurry(user, now);
            }
        }
        Some(Ok(outcomes))
    }

    fn changed(&mut self, user: u64, now: Instant, interval: Duration) {
        let Some(entry) = self.users.get_mut(&user) else {
            return;
        };
        match &mut entry.unwritten {
            Unwritten::Clean => {
                let due = now + jittered(interval, user);
                entry.unwritten = Unwritten::Dirty {
                    since: now,
                    due,
                    failures: Failures::default(),
                };
                self.dirty.became_dirty(user, now);
                self.dirty.wait_until(user, due);
            }
            Unwritten::Dirty { .. } => {}
            Unwritten::Flushing { rearmed, .. } => {
                rearmed.get_or_insert(now);
            }
        }
    }

    pub(super) fn begin_flushes(
        &mut self,
        now: Instant,
        ahead: Duration,
        most: usize,
        shared: &Shared,
        flights: &mut Vec<Flight>,
    ) {
        let mut later = Vec::new();
        for _ in 0..most {
            let Some(user) = self.dirty.first_due(now + ahead) else {
                break;
            };
            let Some(entry) = self.users.get_mut(&user) else {
                break;
            };
            let Unwritten::Dirty {
                since,
                due,
                failures,
            } = entry.unwritten
            else {
                break;
            };
            self.dirty.stop_waiting(user, due);
            // Pressure does not shorten the wait after a failure.
            if due > now && failures.count > 0 {
                later.push((user, due));
                continue;
            }
            entry.unwritten = Unwritten::Flushing {
                since,
                rearmed: None,
                failures,
            };
            flights.push(Flight {
                user,
                bytes: codec::encode(entry.block(), shared.process.incarnation),
                stamp: shared.stamps.next(entry.stamp),
                version: entry.block().version(),
            });
        }
        for (user, due) in later {
            self.dirty.wait_until(user, due);
        }
    }

    pub(super) fn written(&mut self, flight: &Flight, now: Instant, shared: &Shared) {
        let Flight {
            user,
            stamp,
            version,
            ..
        } = *flight;
        let Some(entry) = self.users.get_mut(&user) else {
            return;
        };
        let Unwritten::Flushing { since, rearmed, .. } = entry.unwritten else {
            return;
        };
        entry.stamp = Some(stamp);
        entry.written_version = version;
        entry.unwritten = Unwritten::Clean;
        self.dirty.became_clean(user, since);
        match rearmed {
            None => {
                shared.dirty_users.fetch_sub(1, Ordering::Relaxed);
                shared
                    .dirty_states
                    .fetch_sub(entry.block().weight(), Ordering::Relaxed);
            }
            Some(since) => {
                let due = (since + jittered(shared.flush_interval, user)).max(now);
                entry.unwritten = Unwritten::Dirty {
                    since,
                    due,
                    failures: Failures::default(),
                };
                self.dirty.became_dirty(user, since);
                self.dirty.wait_until(user, due);
            }
        }
    }

    pub(super) fn failed(&mut self, flight: &Flight, now: Instant) {
        let Some(entry) = self.users.get_mut(&flight.user) else {
            return;
        };
        let Unwritten::Flushing {
            since, failures, ..
        } = entry.unwritten
        else {
            return;
        };
        // The write may have arrived all the same: the next stamp must be above it.
        entry.stamp = entry.stamp.max(Some(flight.stamp));
        let wait = FIRST_RETRY * 2_u32.saturating_pow(failures.count.min(10));
        let due = now + jittered(wait.min(LAST_RETRY), flight.user);
        let failures = Failures {
            count: failures.count.saturating_add(1),
            last: Some(now),
        };
        entry.unwritten = Unwritten::Dirty {
            since,
            due,
            failures,
        };
        self.dirty.wait_until(flight.user, due);
    }

    /// Brings the write of a user forward to now, unless the last one failed: then it keeps its
    /// distance. One that is in flight is not brought forward: what it does not contain waits for its
    /// own time, unless somebody asks again.
    pub(super) fn hurry(&mut self, user: u64, now: Instant) {
        let Some(entry) = self.users.get(&user) else {
            return;
        };
        if let Unwritten::Dirty {
            failures: Failures { count: 0, .. },
            ..
        } = entry.unwritten
        {
            self.bring_forward(user, now);
        }
    }

    fn bring_forward(&mut self, user: u64, now: Instant) {
        let Some(entry) = self.users.get_mut(&user) else {
            return;
        };
        if let Unwritten::Dirty { due, .. } = &mut entry.unwritten {
            self.dirty.stop_waiting(user, *due);
            *due = now.min(*due);
            self.dirty.wait_until(user, *due);
        }
    }

    pub(super) fn hurry_all(&mut self, now: Instant) -> Vec<(u64, u64)> {
        let users = self.dirty.users();
        for &user in &users {
            self.bring_forward(user, now);
        }
        let versions = users.into_iter().filter_map(|user| {
            self.users
                .get(&user)
                .map(|entry| (user, entry.block().version()))
        });
        versions.collect()
    }

    /// Frees `wanted` states where it can within one pass of the hand; returns what it freed, and
    /// whether it asked dirty users to be written.
    pub(super) fn evict(
        &mut self,
        wanted: u64,
        keep: Option<u64>,
        now: Instant,
        shared: &Shared,
    ) -> (u64, bool) {
        let (mut freed, mut in_the_way) = (0, Vec::new());
        for _ in 0..self.clock.len() {
            if freed >= wanted || self.clock.is_empty() {
                break;
            }
            self.hand %= self.clock.len();
            let user = self.clock[self.hand];
            let Some(entry) = self.users.get_mut(&user) else {
                break;
            };
            let cold = entry.cool();
            if cold && entry.is_dirty() && in_the_way.len() < MOST_HURRIED {
                in_the_way.push(user);
            }
            if !cold || entry.is_dirty() || keep == Some(user) {
                self.hand += 1;
                continue;
            }
            freed += entry.block().weight();
            self.remove(user, shared);
        }
        for &user in &in_the_way {
            self.hurry(user, now);
        }
        (freed, !in_the_way.is_empty())
    }

    fn remove(&mut self, user: u64, shared: &Shared) {
        let Some(entry) = self.users.remove(&user) else {
            return;
        };
        self.clock.swap_remove(entry.clock_index);
        if let Some(moved) = self.clock.get(entry.clock_index)
            && let Some(moved) = self.users.get_mut(moved)
        {
            moved.clock_index = entry.clock_index;
        }
        shared.users.fetch_sub(1, Ordering::Relaxed);
        shared
            .states
            .fetch_sub(entry.block().weight(), Ordering::Relaxed);
        shared.evictions.fetch_add(1, Ordering::Relaxed);
    }
}

/// Whether operations may be applied to a user now.
fn admit(entry: &Entry, operations: &[Operation], shared: &Shared) -> Result<(), Refused> {
    if shared.sealed.load(Ordering::Acquire) {
        return Err(Refused::Sealed);
    }
    let made = new_channels(entry, operations);
    if entry.block().len() + made > MAX_READ_STATES {
        return Err(TooManyReadStates.into());
    }
    if entry.ahead() + operations.len() as u64 >= VERSION_GAP {
        return Err(Refused::UserTooBusy);
    }
    let full = shared.dirty_states.load(Ordering::Relaxed) >= shared.unwritten_bound();
    if full && (made > 0 || !entry.is_dirty()) {
        return Err(Refused::TooManyUnwritten);
    }
    Ok(())
}

/// How many read states the operations would make.
fn new_channels(entry: &Entry, operations: &[Operation]) -> usize {
    let creating = operations.iter().filter(|operation| operation.creates());
    let mut channels: Vec<u64> = creating
        .filter_map(Operation::channel)
        .filter(|&channel| entry.block().state(channel).is_none())
        .collect();
    channels.sort_unstable();
    channels.dedup();
    channels.len()
}

/// Books a change of one user from (weight, dirty) to (weight, dirty).
fn account(shared: &Shared, before: (u64, bool), after: (u64, bool)) {
    let move_to = |total: &std::sync::atomic::AtomicU64, from: u64, to: u64| {
        if to >= from {
            total.fetch_add(to - from, Ordering::Relaxed);
        } else {
            total.fetch_sub(from - to, Ordering::Relaxed);
        }
    };
    let dirty = |(weight, is): (u64, bool)| if is { weight } else { 0 };
    move_to(&shared.states, before.0, after.0);
    move_to(&shared.dirty_states, dirty(before), dirty(after));
    move_to(&shared.dirty_users, before.1.into(), after.1.into());
}

/// A duration within a tenth of `interval`, the same for the same user: spreads the writes of users
/// who became dirty together.
fn jittered(interval: Duration, user: u64) -> Duration {
    // 0 to 1023 of 1024.
    let share = (mix64(!user) & 1023) as u32;
    interval - interval / 10 + interval / 5 * share / 1024
}
