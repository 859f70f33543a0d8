//! The naive reference: the same meaning, written a second time with other means, and a property test
//! that holds the two against each other over reordered, repeated and interleaved operations.
//!
//! It keeps every mention that was counted and is not read, and derives from that list what is remembered.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// What may happen to a block.
#[derive(Debug, Clone, Copy)]
pub(crate) enum BlockStep {
    Apply(Operation),
    /// Another process, whose versions begin there, takes over from the database or from a hand-off.
    TakeOver(u64),
    /// The same process reads what it wrote.
    Repack,
}

/// Operations, and from time to time another process.
pub(crate) fn steps(most: usize) -> impl Strategy<Value = Vec<BlockStep>> {
    let step = prop_oneof![
        16 => any_operation().prop_map(BlockStep::Apply),
        1 => prop_oneof![Just(0), 1_u64..1 << 20, 1_u64..1 << 51].prop_map(BlockStep::TakeOver),
        1 => Just(BlockStep::Repack),
    ];
    proptest::collection::vec(step, 0..most)
}

/// Operations on few channels with few messages, so that they meet.
pub(crate) fn operations(most: usize) -> impl Strategy<Value = Vec<Operation>> {
    proptest::collection::vec(any_operation(), 0..most)
}

/// Operations and imports. What an import does to a channel that was deleted depends on how long deletions are
/// remembered, which a reference knows only if it is told of each process that takes over.
pub(crate) fn any_operation() -> impl Strategy<Value = Operation> {
    let import =
        (1_u64..5, import()).prop_map(|(channel, import)| Operation::Import { channel, import });
    prop_oneof![5 => operation(), 1 => import]
}

pub(crate) fn operation() -> impl Strategy<Value = Operation> {
    let channel = || 1_u64..5;
    let message = || 1_u64..40;
    let visit = || {
        let parts = (
            proptest::option::of(prop_oneof![4 => 0_u32..3, 1 => 7_u32..9, 1 => Just(u32::MAX)]),
            proptest::option::of(prop_oneof![6 => 0_u16..4, 1 => 16_383_u16..16_386]),
        );
        parts.prop_map(|(flags, last_viewed)| Visit { flags, last_viewed })
    };
    let amount = || prop_oneof![6 => 1_u32..4, 2 => 4_093_u32..4_097, 1 => Just(u32::MAX)];
    let count = || prop_oneof![4 => 0_u32..4, 1 => 4_094_u32..4_098];
    prop_oneof![
        4 => (channel(), message(), visit())
            .prop_map(|(channel, message, visit)| Operation::Ack { channel, message, visit }),
        2 => (channel(), message(), count(), visit()).prop_map(
            |(channel, message, mention_count, visit)| Operation::Manual {
                channel, message, mention_count, visit
            }
        ),
        1 => (channel(), 1_u64..9).prop_map(|(channel, millis)| Operation::AckPins { channel, millis }),
        8 => (channel(), message(), amount())
            .prop_map(|(channel, message, count)| Operation::Mention { channel, message, count }),
        1 => channel().prop_map(|channel| Operation::Delete { channel }),
        1 => prop_oneof![9 => Just(false), 1 => Just(true)].prop_flat_map(move |all| {
            channel().prop_map(move |channel| {
                if all { Operation::DeleteUser } else { Operation::Delete { channel } }
            })
        }),
    ]
}

/// What another system has, in the range of what operations do.
pub(crate) fn import() -> impl Strategy<Value = Import> {
    let messages = (0_u64..40, prop_oneof![1 => Just(0), 2 => 0_u64..50]);
    let count = prop_oneof![4 => 0_u32..4, 1 => 4_094_u32..4_098, 1 => Just(u32::MAX)];
    let flags = proptest::option::of(prop_oneof![3 => 0_u32..3, 1 => Just(u32::MAX)]);
    let rest = (flags, 0_u16..4, 0_u64..9);
    (messages, count, rest).prop_map(
        |((message, counted_through), mention_count, (flags, last_viewed, last_pin_millis))| {
            Import {
                message,
                mention_count,
                counted_through,
                flags,
                last_viewed,
                last_pin_millis,
            }
        },
    )
}

#[derive(Debug, Clone, Default)]
pub(crate) struct NaiveState {
    last: u64,
    count: u32,
    flags: u32,
    viewed: u16,
    pin: u64,
    /// Every (message, n) that was counted, or may have been, and is not read.
    ever_counted: Vec<(u64, u32)>,
    changed: u64,
}

impl NaiveState {
    /// Returns whether it counts.
    fn mention(&mut self, message: u64, count: u32) -> bool {
        let remembered = self.remembered();
        let known = remembered.iter().any(|&(counted, _)| counted == message);
        let too_old = remembered.len() == 8 && message < remembered[7].0;
        let counts = message > self.last && !known && !too_old;
        if counts {
            let sum = u64::from(self.count) + u64::from(count);
            self.count = u32::try_from(sum).unwrap_or(u32::MAX);
            self.ever_counted.push((message, count));
        }
        counts
    }

    /// The last eight counted, newest first.
    fn remembered(&self) -> Vec<(u64, u32)> {
        let mut newest = self.ever_counted.clone();
        newest.sort_by_key(|&(message, _)| std::cmp::Reverse(message));
        newest.truncate(8);
        newest
    }

    fn read_through(&mut self, message: u64) {
        self.ever_counted.retain(|&(counted, _)| counted > message);
    }

    /// What is known of mentions when everything up to `read` may have been counted, and up to `message` is read.
    fn may_have_counted(&mut self, message: u64, read: u64, count: u32) {
        self.read_through(message.max(read));
        for back in 0..read.saturating_sub(message) {
            if self.remembered().len() < 8 {
                let n = if back == 0 { count.max(1) } else { 1 };
                self.ever_counted.push((read - back, n));
            }
        }
    }

    /// The count once everything up to `message` is read.
    fn count_after(&self, message: u64) -> u32 {
        let remembered = self.remembered();
        let newer: u64 = remembered
            .iter()
            .filter(|&&(counted, _)| counted > message)
            .map(|&(_, n)| u64::from(n))
            .sum();
        let all_newer = remembered.iter().all(|&(counted, _)| counted > message);
        match (remembered.is_empty(), all_newer) {
            (true, _) => 0,
            (false, true) => self.count,
            (false, false) => u64::from(self.count).min(newer) as u32,
        }
    }

    fn import(&mut self, is_new: bool, import: Import) -> bool {
        let all = |state: &Self| (state.as_state(0), state.remembered());
        let before = all(self);
        let newest = self.remembered().first().map_or(0, |&(message, _)| message);
        let through = import.counted_through;
        let (ahead, here) = (
            is_new || import.message > self.last,
            import.message == self.last && through > newest,
        );
        if ahead {
            self.count = self.count_after(import.message).max(import.mention_count);
            self.read_through(import.message);
            self.last = import.message;
            self.flags = import.flags.unwrap_or(self.flags);
        } else if here && through > import.message {
            self.count = self.count.max(import.mention_count);
        }
        if (ahead || here) && through > import.message {
            self.may_have_counted(import.message, through, import.mention_count);
        }
        self.viewed = self.viewed.max(import.last_viewed);
        self.pin = self.pin.max(import.last_pin_millis);
        all(self) != before
    }

    fn visit(&mut self, visit: Visit) {
        self.flags = visit.flags.unwrap_or(self.flags);
        self.viewed = self.viewed.max(visit.last_viewed.unwrap_or_default());
    }

    pub(crate) fn counted(&self) -> Vec<Mention> {
        let mentions = self.remembered().into_iter().rev();
        mentions
            .map(|(message, count)| Mention { message, count })
            .collect()
    }

    fn as_state(&self, channel: u64) -> State {
        State {
            channel,
            last_message: self.last,
            mention_count: self.count,
            flags: self.flags,
            last_viewed: self.viewed,
            last_pin_millis: self.pin,
            version: self.changed,
        }
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct NaiveUser {
    pub(crate) version: u64,
    pub(crate) states: BTreeMap<u64, NaiveState>,
    pub(crate) history: History,
    /// The first version of the process that takes over.
    taken_over: Option<u64>,
}

impl NaiveUser {
    /// Works on a copy of the state, and takes the copy when it differs.
    pub(crate) fn apply(&mut self, operation: &Operation) -> Outcome {
        match *operation {
            Operation::Delete { channel } => {
                let had = self.states.remove(&channel).is_some();
                let outcome = self.counted_up(had);
                if had {
                    self.deleted(channel);
                }
                return outcome;
            }
            Operation::DeleteUser => {
                let had = !self.states.is_empty() || !self.history.deleted.is_empty();
                let outcome = self.counted_up(had);
                if had {
                    self.states.clear();
                    self.history.deleted.clear();
                    self.history.floor = self.version;
                }
                return outcome;
            }
            _ => {}
        }
        let channel = operation.channel().unwrap();
        let before = self.states.get(&channel).cloned();
        let mut state = before.clone().unwrap_or_default();
        let changed = match *operation {
            Operation::Ack { message, visit, .. } if message > state.last => {
                state.count = state.count_after(message);
                state.read_through(message);
                state.last = message;
                state.visit(visit);
                true
            }
            Operation::Manual {
                message,
                mention_count,
                visit,
                ..
            } => {
                let old = (state.last, state.count, state.flags, state.viewed);
                state.may_have_counted(message, state.last, mention_count);
                (state.last, state.count) = (message, mention_count);
                state.visit(visit);
                before.is_none() || old != (state.last, state.count, state.flags, state.viewed)
            }
            Operation::AckPins { millis, .. } => {
                let old = state.pin;
                state.pin = old.max(millis);
                state.pin != old
            }
            Operation::Mention { message, count, .. } => state.mention(message, count),
            // What was deleted is not brought back.
            Operation::Import { import, .. } => {
                (before.is_some() || !self.was_deleted(channel))
                    && state.import(before.is_none(), import)
            }
            _ => false,
        };
        let outcome = self.counted_up(changed);
        if changed {
            state.changed = self.version;
            self.states.insert(channel, state);
            self.history
                .deleted
                .retain(|&(deleted, _)| deleted != channel);
        }
        outcome
    }

    fn was_deleted(&self, channel: u64) -> bool {
        let deleted = &self.history.deleted;
        let erased = self.states.is_empty() && deleted.is_empty() && self.version > 0;
        erased || deleted.iter().any(|&(gone, _)| gone == channel)
    }

    pub(crate) fn take_over(&mut self, first_version: u64) {
        self.taken_over = Some(first_version);
    }

    fn deleted(&mut self, channel: u64) {
        self.history.deleted.push((channel, self.version));
        if self.history.deleted.len() > 64 {
            self.history.floor = self.history.deleted.remove(0).1;
        }
    }

    /// (last message, mention count, flags, last viewed, last pin) of a channel.
    pub(crate) fn seen(&self, channel: u64) -> Option<(u64, u32, u32, u16, u64)> {
        let state = self.states.get(&channel)?;
        Some((
            state.last,
            state.count,
            state.flags,
            state.viewed,
            state.pin,
        ))
    }

    fn counted_up(&mut self, changed: bool) -> Outcome {
        if changed {
            let before = self.version;
            self.version += 1;
            if let Some(first_version) = self.taken_over.take() {
                self.version = before.max(first_version) + 65_536;
                let History {
                    floor,
                    gap,
                    deleted,
                } = &mut self.history;
                *floor = (*floor).max(gap.until);
                *gap = Gap {
                    after: before,
                    until: self.version,
                };
                deleted.retain(|&(_, version)| version > *floor);
            }
            Outcome::Applied
        } else {
            Outcome::Ignored
        }
    }

    pub(crate) fn states(&self) -> Vec<State> {
        self.states
            .iter()
            .map(|(&channel, state)| state.as_state(channel))
            .collect()
    }
}
