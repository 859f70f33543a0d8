//! Round trips, garbage, and the golden file that pins format 1.

use proptest::prelude::*;

use super::*;
use crate::block::{Operation, REMEMBERED_DELETIONS, Visit, reference::operations};

/// A block with one of everything, as written by the first release of format 1.
const GOLDEN: &str = include_str!("../../tests/golden/block-v1.hex");

fn one_of_everything() -> Block {
    let visit = Visit {
        flags: Some(5),
        last_viewed: Some(4112),
    };
    let channel = 81_384_788_765_712_384;
    let message = 1_175_928_847_299_117_063;
    let mut block = Block::default();
    block.take_over(0);
    let operations = [
        Operation::Ack {
            channel,
            message,
            visit,
        },
        Operation::Mention {
            channel,
            message: message + 1,
            count: 1,
        },
        Operation::Mention {
            channel,
            message: message + 2,
            count: 300,
        },
        Operation::AckPins {
            channel,
            millis: 1_767_225_600_123,
        },
        Operation::Ack {
            channel: 7,
            message: 1,
            visit: Visit::default(),
        },
        Operation::Mention {
            channel: u64::MAX,
            message: u64::MAX,
            count: u32::MAX,
        },
        Operation::Ack {
            channel: 9,
            message: 1,
            visit: Visit::default(),
        },
        Operation::Delete { channel: 9 },
    ];
    for operation in operations {
        block.apply(&operation).unwrap();
    }
    block
}

fn hex(bytes: &[u8]) -> String {
    let lines = bytes
        .chunks(32)
        .map(|line| line.iter().map(|byte| format!("{byte:02x}")).collect());
    lines.collect::<Vec<String>>().join("\n") + "\n"
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

#[test]
fn what_the_first_release_wrote_is_still_read_and_written_the_same() {
    let expected = Decoded {
        block: one_of_everything(),
        writer: 0x0123_4567_89ab_cdef,
    };
    assert_eq!(hex(&encode(&expected.block, expected.writer)), GOLDEN);
    let mut decoded = decode(&unhex(GOLDEN)).unwrap();
    decoded.block.take_over(0);
    let mut taken_over = expected;
    taken_over.block.take_over(0);
    assert_eq!(decoded, taken_over);
}

#[test]
fn an_unknown_format_is_refused_by_number() {
    let mut bytes = encode(&one_of_everything(), 1);
    bytes[0] = 2;
    assert_eq!(decode(&bytes), Err(DecodeError::UnknownFormat(2)));
    assert_eq!(decode(&[]), Err(DecodeError::Truncated));
}

#[test]
fn every_truncation_and_any_trailing_byte_is_refused() {
    let mut bytes = encode(&one_of_everything(), 1);
    for length in 0..bytes.len() {
        assert!(
            decode(&bytes[..length]).is_err(),
            "{length} of {} bytes",
            bytes.len()
        );
    }
    bytes.push(0);
    assert_eq!(decode(&bytes), Err(DecodeError::Trailing(1)));
}

#[test]
fn a_count_that_lies_does_not_ask_for_memory() {
    let mut bytes = vec![FORMAT];
    bytes.extend(0_u64.to_le_bytes());
    bytes.extend([0, 0, 0, 0]);
    put_varint(&mut bytes, u64::MAX >> 1);
    assert_eq!(decode(&bytes), Err(DecodeError::Truncated));
}

#[test]
fn a_plain_state_takes_about_twenty_bytes() {
    let mut block = Block::default();
    for channel in 1..=100 {
        let operation = Operation::Ack {
            channel,
            message: 1 << 60,
            visit: Visit::default(),
        };
        block.apply(&operation).unwrap();
    }
    let bytes = encode(&block, u64::MAX).len();
    assert!(bytes < 100 * 19, "{bytes} bytes for 100 states");
}

proptest! {
    #[test]
    fn a_block_survives_packing(operations in operations(200), writer: u64, jump in 0_u64..1 << 50) {
        let mut block = Block::default();
        let half = operations.len() / 2;
        for operation in &operations[..half] {
            block.apply(operation).unwrap();
        }
        block.take_over(jump);
        for operation in &operations[half..] {
            block.apply(operation).unwrap();
        }
        let bytes = encode(&block, writer);
        let decoded = decode(&bytes).unwrap();
        prop_assert_eq!(decoded.writer, writer);
        prop_assert_eq!(decoded.block.states(), block.states());
        prop_assert_eq!(decoded.block.history(), block.history());
        prop_assert_eq!(decoded.block.version(), block.version());
        prop_assert!(block.history().deleted.len() <= REMEMBERED_DELETIONS);
    }

    #[test]
    fn garbage_is_refused_or_is_the_one_packing_of_a_block(
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
        format_is_right: bool,
    ) {
        let mut bytes = bytes;
        if let (true, Some(first)) = (format_is_right, bytes.first_mut()) {
            *first = FORMAT;
        }
        if let Ok(Decoded { block, writer }) = decode(&bytes) {
            prop_assert_eq!(encode(&block, writer), bytes);
        }
    }

    #[test]
    fn damaged_blocks_never_panic_and_never_decode_to_what_packs_differently(
        operations in operations(60),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut block = Block::default();
        for operation in &operations {
            block.apply(operation).unwrap();
        }
        let mut bytes = encode(&block, 9);
        for (at, value) in damage {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Ok(Decoded { block, writer }) = decode(&bytes) {
            prop_assert_eq!(encode(&block, writer), bytes);
        }
    }
}
