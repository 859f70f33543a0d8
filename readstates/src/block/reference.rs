//! The naive reference: the same meaning, written a second time with other means, and a property test
//! that holds the two against each other over reordered, repeated and interleaved operations.
//!
//! It keeps every mention ever counted and derives from that list what is remembered.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// Operations on few channels with few messages, so that they meet.
pub(crate) fn operations(most: usize) -> impl Strategy<Value = Vec<Operation>> {
    proptest::collection::vec(operation(), 0..most)
}

pub(crate) fn operation() -> impl Strategy<Value = Operation> {
    let channel = || 1_u64..5;
    let message = || 1_u64..40;
    let visit = || {
        let parts = (
            proptest::option::of(0_u32..3),
            proptest::option::of(0_u16..4),
        );
        parts.prop_map(|(flags, last_viewed)| Visit { flags, last_viewed })
    };
    let amount = || prop_oneof![4 => 1_u32..4, 1 => Just(u32::MAX)];
    prop_oneof![
        4 => (channel(), message(), visit())
            .prop_map(|(channel, message, visit)| Operation::Ack { channel, message, visit }),
        2 => (channel(), message(), 0_u32..4, visit()).prop_map(
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

#[derive(Debug, Clone, Default)]
struct NaiveState {
    last: u64,
    count: u32,
    flags: u32,
    viewed: u16,
    pin: u64,
    /// Every (message, n) that was ever counted.
    ever_counted: Vec<(u64, u32)>,
    changed: u64,
}

impl NaiveState {
    /// The last eight counted, newest first.
    fn remembered(&self) -> Vec<(u64, u32)> {
        let mut newest = self.ever_counted.clone();
        newest.sort_by_key(|&(message, _)| std::cmp::Reverse(message));
        newest.truncate(8);
        newest
    }

    fn visit(&mut self, visit: Visit) {
        self.flags = visit.flags.unwrap_or(self.flags);
        self.viewed = self.viewed.max(visit.last_viewed.unwrap_or_default());
    }

    fn counted(&self) -> Vec<Mention> {
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
    version: u64,
    states: BTreeMap<u64, NaiveState>,
    any_deletion: bool,
}

impl NaiveUser {
    /// Works on a copy of the state, and takes the copy when it differs.
    pub(crate) fn apply(&mut self, operation: &Operation) -> Outcome {
        match *operation {
            Operation::Delete { channel } => {
                let had = self.states.remove(&channel).is_some();
                self.any_deletion |= had;
                return self.counted_up(had);
            }
            Operation::DeleteUser => {
                let had = !self.states.is_empty() || self.any_deletion;
                *self = Self {
                    version: self.version,
                    ..Self::default()
                };
                return self.counted_up(had);
            }
            _ => {}
        }
        let channel = operation.channel().unwrap();
        let before = self.states.get(&channel).cloned();
        let mut state = before.clone().unwrap_or_default();
        let changed = match *operation {
            Operation::Ack { message, visit, .. } if message > state.last => {
                let remembered = state.remembered();
                let newer: u64 = remembered
                    .iter()
                    .filter(|&&(counted, _)| counted > message)
                    .map(|&(_, n)| u64::from(n))
                    .sum();
                let all_newer = remembered.iter().all(|&(counted, _)| counted > message);
                if remembered.is_empty() {
                    state.count = 0;
                } else if !all_newer {
                    state.count = u64::from(state.count).min(newer) as u32;
                }
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
                (state.last, state.count) = (message, mention_count);
                state.visit(visit);
                before.is_none() || old != (state.last, state.count, state.flags, state.viewed)
            }
            Operation::AckPins { millis, .. } => {
                let old = state.pin;
                state.pin = old.max(millis);
                state.pin != old
            }
            Operation::Mention { message, count, .. } => {
                let remembered = state.remembered();
                let known = remembered.iter().any(|&(counted, _)| counted == message);
                let too_old = remembered.len() == 8 && message < remembered[7].0;
                let counts = message > state.last && !known && !too_old;
                if counts {
                    state.count = u32::try_from(u64::from(state.count) + u64::from(count))
                        .unwrap_or(u32::MAX);
                    state.ever_counted.push((message, count));
                }
                counts
            }
            _ => false,
        };
        if changed {
            state.changed = self.version + 1;
            self.states.insert(channel, state);
        }
        self.counted_up(changed)
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
        self.version += u64::from(changed);
        if changed {
            Outcome::Applied
        } else {
            Outcome::Ignored
        }
    }

    fn states(&self) -> Vec<State> {
        self.states
            .iter()
            .map(|(&channel, state)| state.as_state(channel))
            .collect()
    }
}

fn states(block: &[u8]) -> Vec<State> {
    BlockRef::trusted(block).states().collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn operations_mean_what_the_reference_says(operations in operations(120)) {
        let (mut block, mut naive) = (EMPTY.to_vec(), NaiveUser::default());
        for (step, operation) in operations.iter().enumerate() {
            let outcome = apply(&mut block, operation, 0).unwrap();
            prop_assert_eq!(outcome, naive.apply(operation), "step {}: {:?}", step, operation);
            let view = BlockRef::trusted(&block);
            prop_assert_eq!(states(&block), naive.states(), "step {}: {:?}", step, operation);
            prop_assert_eq!(view.version(), naive.version);
            for (&channel, state) in &naive.states {
                let counted = view.counted(channel);
                prop_assert_eq!(counted.mentions(), state.counted());
            }
        }
    }

    #[test]
    fn a_message_that_comes_again_at_once_changes_nothing(operations in operations(60)) {
        let mut block = EMPTY.to_vec();
        for operation in &operations {
            apply(&mut block, operation, 0).unwrap();
            let before = block.clone();
            prop_assert_eq!(apply(&mut block, operation, 0), Ok(Outcome::Ignored), "{:?}", operation);
            prop_assert_eq!(&block, &before);
        }
    }

    #[test]
    fn acks_and_mentions_replayed_in_any_order_count_nothing_twice(
        originals in proptest::collection::vec((1_u64..5, 1_u64..9), 1..30),
        replays in proptest::collection::vec(any::<prop::sample::Index>(), 0..60),
    ) {
        // At most eight messages a channel: all of them are remembered.
        let mention = |&(channel, message): &(u64, u64)| Operation::Mention {
            channel, message, count: 1 << message
        };
        let mut block = EMPTY.to_vec();
        for original in &originals {
            apply(&mut block, &mention(original), 0).unwrap();
        }
        let once = block.clone();
        for replay in replays {
            apply(&mut block, &mention(&originals[replay.index(originals.len())]), 0).unwrap();
        }
        prop_assert_eq!(&block, &once);
        for state in states(&block) {
            let mut messages: Vec<u64> = originals
                .iter()
                .filter(|&&(channel, _)| channel == state.channel)
                .map(|&(_, message)| message)
                .collect();
            messages.sort_unstable();
            messages.dedup();
            let sum: u32 = messages.iter().map(|message| 1 << message).sum();
            prop_assert_eq!(state.mention_count, sum, "the sum names what was lost or doubled");
        }
    }

    #[test]
    fn what_changed_since_any_version_turns_an_old_copy_into_the_new_one(
        operations in operations(80),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut block = EMPTY.to_vec();
        let cut = cut.index(operations.len() + 1);
        let (earlier, later) = operations.split_at(cut);
        for operation in earlier {
            apply(&mut block, operation, 0).unwrap();
        }
        let known = BlockRef::trusted(&block).version();
        let mut copy: BTreeMap<u64, State> =
            states(&block).iter().map(|state| (state.channel, *state)).collect();
        for operation in later {
            apply(&mut block, operation, 0).unwrap();
        }
        match BlockRef::trusted(&block).since(known) {
            Since::Everything(states) => {
                copy = states.map(|state| (state.channel, state)).collect();
            }
            Since::Changes { states, deleted } => {
                copy.retain(|channel, _| !deleted.contains(channel));
                copy.extend(states.map(|state| (state.channel, state)));
            }
        }
        prop_assert_eq!(copy.into_values().collect::<Vec<_>>(), states(&block));
    }
}

#[test]
fn an_ack_amidst_the_remembered_mentions_leaves_the_exact_count() {
    let mut block = EMPTY.to_vec();
    for message in [10, 30, 20, 40] {
        apply(
            &mut block,
            &Operation::Mention {
                channel: 1,
                message,
                count: 1,
            },
            0,
        )
        .unwrap();
    }
    apply(
        &mut block,
        &Operation::Ack {
            channel: 1,
            message: 20,
            visit: Visit::default(),
        },
        0,
    )
    .unwrap();
    assert_eq!(BlockRef::trusted(&block).state(1).unwrap().mention_count, 2);
}

#[test]
fn a_rewound_channel_does_not_count_again_what_is_delivered_again() {
    let mut block = EMPTY.to_vec();
    let mention = Operation::Mention {
        channel: 1,
        message: 10,
        count: 1,
    };
    let visit = Visit::default();
    apply(&mut block, &mention, 0).unwrap();
    apply(
        &mut block,
        &Operation::Ack {
            channel: 1,
            message: 10,
            visit,
        },
        0,
    )
    .unwrap();
    apply(
        &mut block,
        &Operation::Manual {
            channel: 1,
            message: 5,
            mention_count: 1,
            visit,
        },
        0,
    )
    .unwrap();
    assert_eq!(apply(&mut block, &mention, 0), Ok(Outcome::Ignored));
    assert_eq!(BlockRef::trusted(&block).state(1).unwrap().mention_count, 1);
}
