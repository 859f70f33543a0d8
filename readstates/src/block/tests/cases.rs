//! What happens to a block in cases that chance rarely makes, and how long operations take.

use super::*;

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
