//! The blocks held against the naive reference, over reordered, repeated and interleaved operations
//! of processes that follow each other.

mod cases;

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{
    layout::Shape,
    reference::{BlockStep, NaiveUser, operations, steps},
    *,
};
use crate::codec;

fn view(block: &[u8]) -> BlockRef<'_> {
    BlockRef::trusted(block)
}

fn states(block: &[u8]) -> Vec<State> {
    view(block).states().collect()
}

/// What is packed and read again, with the mark that only memory has.
fn repacked(block: &[u8]) -> Vec<u8> {
    let bytes = codec::encode(view(block), 1);
    let mut read = codec::decode(&bytes)
        .expect("what was packed")
        .block
        .bytes()
        .to_vec();
    if Shape::of(block).taken_over {
        take_over(&mut read);
    }
    read
}

/// A block and its reference, of the same past.
#[derive(Default)]
struct Pair {
    block: Vec<u8>,
    naive: NaiveUser,
    first_version: u64,
    take_overs: usize,
}

impl Pair {
    fn new() -> Self {
        Self {
            block: EMPTY.to_vec(),
            ..Self::default()
        }
    }

    fn step(&mut self, step: &BlockStep) -> Result<(), TestCaseError> {
        match *step {
            BlockStep::Apply(operation) => {
                let outcome = apply(&mut self.block, &operation, self.first_version);
                prop_assert_eq!(outcome, Ok(self.naive.apply(&operation)));
            }
            BlockStep::TakeOver(first_version) => {
                take_over(&mut self.block);
                self.naive.take_over(first_version);
                self.first_version = first_version;
                self.take_overs += 1;
            }
            BlockStep::Repack => self.block = repacked(&self.block),
        }
        self.compare()
    }

    fn compare(&self) -> Result<(), TestCaseError> {
        let (block, naive) = (view(&self.block), &self.naive);
        prop_assert_eq!(block.version(), naive.version);
        prop_assert_eq!(block.history(), naive.history.clone());
        prop_assert_eq!(block.len(), naive.states.len());
        for (state, exact) in block.states().zip(naive.states()) {
            let told = State {
                version: exact.version,
                ..state
            };
            prop_assert_eq!(told, exact);
            // Of an era that is not told apart any more the versions seem later than they are.
            let known = exact.version >= block.history().floor || self.take_overs <= 3;
            if known {
                prop_assert_eq!(state.version, exact.version);
            }
            prop_assert!(state.version >= exact.version);
            prop_assert!(state.version <= block.history().floor.max(exact.version));
            prop_assert_eq!(block.state(state.channel), Some(state));
        }
        for (&channel, state) in &naive.states {
            let counted = block.counted(channel);
            prop_assert_eq!(counted.mentions(), state.counted());
        }
        prop_assert_eq!(&repacked(&self.block), &self.block);
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn operations_mean_what_the_reference_says(steps in steps(120)) {
        let mut pair = Pair::new();
        for step in &steps {
            pair.step(step)?;
        }
    }

    #[test]
    fn a_user_taken_over_again_and_again_forgets_no_state(
        rounds in proptest::collection::vec((operations(8), 0_u64..1 << 51), 5..12),
    ) {
        let mut pair = Pair::new();
        for (operations, first_version) in rounds {
            pair.step(&BlockStep::TakeOver(first_version))?;
            for operation in operations {
                pair.step(&BlockStep::Apply(operation))?;
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
        steps in steps(80),
        cut in any::<prop::sample::Index>(),
    ) {
        let without_version = |state: State| (state.channel, State { version: 0, ..state });
        let mut pair = Pair::new();
        let (earlier, later) = steps.split_at(cut.index(steps.len() + 1));
        for step in earlier {
            pair.step(step)?;
        }
        let known = view(&pair.block).version();
        let mut copy: BTreeMap<_, _> = view(&pair.block).states().map(without_version).collect();
        for step in later {
            pair.step(step)?;
        }
        match view(&pair.block).since(known) {
            Since::Everything(states) => copy = states.map(without_version).collect(),
            Since::Changes { states, deleted } => {
                copy.retain(|channel, _| !deleted.contains(channel));
                copy.extend(states.map(without_version));
            }
        }
        let now: BTreeMap<_, _> = view(&pair.block).states().map(without_version).collect();
        prop_assert_eq!(copy, now);
    }
}

proptest! {
    // Each compares up to 150 states after each of 600 steps.
    #![proptest_config(ProptestConfig::with_cases(20))]

    #[test]
    fn many_channels_come_and_go(
        operations in proptest::collection::vec((1_u64..150, 0_u8..8), 0..600),
    ) {
        let mut pair = Pair::new();
        for (number, (channel, kind)) in operations.into_iter().enumerate() {
            let message = 1 << 62 | number as u64;
            pair.step(&BlockStep::Apply(match kind {
                0..3 => Operation::Delete { channel },
                3 => Operation::Mention { channel, message, count: 2 },
                _ => Operation::Ack { channel, message, visit: Visit::default() },
            }))?;
        }
    }
}

/// Counts the bytes that are moved to make room.
struct Counting {
    block: Vec<u8>,
    moved: usize,
}

impl Room for Counting {
    fn bytes(&self) -> &[u8] {
        &self.block
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.block
    }

    fn resize(&mut self, length: usize) {
        // Each growth is followed by a move of what is behind the new bytes.
        self.moved += self.block.len();
        self.block.resize(length, 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn acks_that_come_together_mean_what_they_mean_one_by_one(
        past in steps(60),
        acks in proptest::collection::vec((1_u64..60, 0_u64..9), 0..80),
        first_version in 0_u64..1 << 51,
    ) {
        let mut pair = Pair::new();
        for step in &past {
            pair.step(step)?;
        }
        let ack = |&(channel, message): &(u64, u64)| Operation::Ack {
            channel, message, visit: Visit::default(),
        };
        let acks: Vec<Operation> = acks.iter().map(ack).collect();
        let (mut one_by_one, mut together) = (pair.block.clone(), pair.block);
        let mut told = Vec::new();
        apply_all(&mut together, &acks, first_version, |outcome| told.push(outcome)).unwrap();
        let outcomes: Vec<Outcome> = acks
            .iter()
            .map(|ack| apply(&mut one_by_one, ack, first_version).unwrap())
            .collect();
        prop_assert_eq!(outcomes, told);
        prop_assert_eq!(one_by_one, together);
    }
}
