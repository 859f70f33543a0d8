//! The blocks held against the naive reference, over reordered, repeated and interleaved operations
//! of processes that follow each other.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{
    layout::Shape,
    reference::{NaiveUser, Step, operations, steps},
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

    fn step(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match *step {
            Step::Apply(operation) => {
                let outcome = apply(&mut self.block, &operation, self.first_version);
                prop_assert_eq!(outcome, Ok(self.naive.apply(&operation)));
            }
            Step::TakeOver(first_version) => {
                take_over(&mut self.block);
                self.naive.take_over(first_version);
                self.first_version = first_version;
                self.take_overs += 1;
            }
            Step::Repack => self.block = repacked(&self.block),
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
            pair.step(&Step::TakeOver(first_version))?;
            for operation in operations {
                pair.step(&Step::Apply(operation))?;
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
            pair.step(&Step::Apply(match kind {
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

#[test]
fn a_thousand_new_channels_move_a_large_block_twice_and_not_a_thousand_times() {
    let ack = |channel| Operation::Ack {
        channel,
        message: 1,
        visit: Visit::default(),
    };
    let mut room = Counting {
        block: EMPTY.to_vec(),
        moved: 0,
    };
    let large: Vec<Operation> = (1..=20_000).map(|channel| ack(2 * channel)).collect();
    apply_all(&mut room, &large, 0, |_| ()).unwrap();
    let length = room.block.len();
    room.moved = 0;
    let new: Vec<Operation> = (1..=1000).map(|channel| ack(40 * channel + 1)).collect();
    apply_all(&mut room, &new, 0, |_| ()).unwrap();
    assert_eq!(view(&room.block).len(), 21_000);
    assert!(room.moved < 3 * length, "{} bytes moved", room.moved);
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
    assert_eq!(view(&block).state(1).unwrap().mention_count, 2);
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
    assert_eq!(view(&block).state(1).unwrap().mention_count, 1);
}

fn mentioned(message: u64, count: u32) -> Operation {
    Operation::Mention {
        channel: 1,
        message,
        count,
    }
}

fn read_to(message: u64) -> Operation {
    Operation::Ack {
        channel: 1,
        message,
        visit: Visit::default(),
    }
}

#[test]
fn mentions_that_were_read_give_their_bytes_back() {
    let mut plain = EMPTY.to_vec();
    apply(&mut plain, &read_to(80), 0).unwrap();
    let mut block = EMPTY.to_vec();
    for message in 1..=12 {
        apply(&mut block, &mentioned(message, 1 + message as u32 % 3), 0).unwrap();
    }
    assert!(block.len() > plain.len() + 8 * REMEMBERED_MENTIONS);
    let full = block.len();
    // Nine and ten are read: two messages, and a count of two.
    apply(&mut block, &read_to(10), 0).unwrap();
    assert_eq!(view(&block).state(1).unwrap().mention_count, 3 + 1);
    assert!(block.len() < full - 6 * 8);
    apply(&mut block, &read_to(80), 0).unwrap();
    assert_eq!(block.len(), plain.len());
    // So does the position that is put forward by hand.
    apply(&mut block, &mentioned(90, 1), 0).unwrap();
    let forward = Operation::Manual {
        channel: 1,
        message: 90,
        mention_count: 0,
        visit: Visit::default(),
    };
    apply(&mut block, &forward, 0).unwrap();
    assert_eq!(block.len(), plain.len());
}

#[test]
fn of_a_deleted_user_no_channel_stays_and_a_bounded_number_of_bytes() {
    let mut block = EMPTY.to_vec();
    for channel in 1..=1000 {
        let mention = Operation::Mention {
            channel: channel << 32,
            message: u64::MAX - channel,
            count: 5000,
        };
        apply(&mut block, &mention, 0).unwrap();
        take_over(&mut block);
    }
    for channel in 1..=70 {
        let channel = channel << 32;
        apply(&mut block, &Operation::Delete { channel }, 1 << 50).unwrap();
    }
    apply(&mut block, &Operation::DeleteUser, 1 << 50).unwrap();
    assert!(block.len() <= EMPTY.len() + 16, "{} bytes", block.len());
}

#[test]
fn a_rewound_channel_counts_nothing_of_what_was_read_before_and_all_that_is_new() {
    let mut block = EMPTY.to_vec();
    let all: Vec<u64> = (1..=20).map(|number| 1000 + 7 * number).collect();
    for &message in &all {
        apply(&mut block, &mentioned(message, 1), 0).unwrap();
    }
    apply(&mut block, &read_to(2000), 0).unwrap();
    let back = Operation::Manual {
        channel: 1,
        message: 1010,
        mention_count: 19,
        visit: Visit::default(),
    };
    apply(&mut block, &back, 0).unwrap();
    for &message in &all {
        assert_eq!(
            apply(&mut block, &mentioned(message, 1), 0),
            Ok(Outcome::Ignored)
        );
    }
    let count = |block: &[u8]| view(block).state(1).unwrap().mention_count;
    apply(&mut block, &mentioned(2001, 1), 0).unwrap();
    assert_eq!(count(&block), 20);
    // How many of them are above that is not known any more.
    apply(&mut block, &read_to(1100), 0).unwrap();
    assert_eq!(count(&block), 20);
    apply(&mut block, &read_to(2000), 0).unwrap();
    assert_eq!(count(&block), 1);
    apply(&mut block, &read_to(2001), 0).unwrap();
    assert_eq!((count(&block), block.len()), (0, EMPTY.len() + 24));
}

/// Prints nanoseconds per operation, of the quickest batch since others use the machine too; worth
/// reading with `--release -- --ignored --nocapture`.
#[test]
#[ignore = "measures, and says nothing of right or wrong"]
fn how_long_operations_take() {
    for states in [5_u64, 20, 100, 50_000] {
        let mut block = EMPTY.to_vec();
        take_over(&mut block);
        let ack = |place: u64, message| Operation::Ack {
            channel: place * 1_000,
            message,
            visit: Visit::default(),
        };
        let scattered = |round: u64| (round.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % states + 1;
        for place in 1..=states {
            apply(&mut block, &ack(place, 1), 1 << 50).unwrap();
        }
        let capacity = block.capacity();
        let acks = quickest(20_000, |round| {
            apply(&mut block, &ack(scattered(round), round + 2), 1 << 50) == Ok(Outcome::Applied)
        });
        assert_eq!(block.capacity(), capacity, "nothing was allocated");
        let reads = quickest(20_000, |round| {
            view(&block).state(scattered(round) * 1_000).is_some()
        });
        // Each batch begins with the same block, so that it does not grow under the measurement.
        let creates = quickest(5, |round| {
            let made = Operation::AckPins {
                channel: scattered(round) * 1_000 + 1 + round,
                millis: 1,
            };
            let delete = Operation::Delete {
                channel: scattered(round) * 1_000 + 1 + round,
            };
            apply(&mut block, &made, 1 << 50) == Ok(Outcome::Applied)
                && apply(&mut block, &delete, 1 << 50) == Ok(Outcome::Applied)
        });
        println!(
            "{states} states: ack {acks:.1} ns, read {reads:.1} ns, \
             create with a pin and delete {creates:.0} ns"
        );
    }
}

fn quickest(rounds: u64, mut work: impl FnMut(u64) -> bool) -> f64 {
    let batches = (0..50).map(|batch| {
        let start = std::time::Instant::now();
        let done = (0..rounds)
            .filter(|round| work(batch * rounds + round))
            .count();
        assert_eq!(done as u64, rounds);
        start.elapsed().as_nanos() as f64 / rounds as f64
    });
    batches.fold(f64::INFINITY, f64::min)
}
