//! Round trips, garbage, and the golden file that pins format 2.

use proptest::prelude::*;

use super::*;
use crate::block::{EMPTY, Operation, Visit, apply, reference::operations, take_over};

/// A block with one of everything, as written by the first release of format 2.
const GOLDEN: &str = include_str!("../../tests/golden/block-v2.hex");

fn one_of_everything() -> Vec<u8> {
    let visit = Visit {
        flags: Some(5),
        last_viewed: Some(4112),
    };
    let channel = 81_384_788_765_712_384;
    let message = 1_175_928_847_299_117_063;
    let mut block = EMPTY.to_vec();
    take_over(&mut block);
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
        apply(&mut block, &operation, 0).unwrap();
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
    let (block, writer) = (one_of_everything(), 0x0123_4567_89ab_cdef);
    let block = BlockRef::trusted(&block);
    assert_eq!(hex(&encode(block, writer)), GOLDEN);
    assert_eq!(decode(&unhex(GOLDEN)), Ok(Decoded { block, writer }));
}

#[test]
fn an_unknown_format_is_refused_by_number() {
    let mut bytes = encode(BlockRef::trusted(&one_of_everything()), 1);
    bytes[0] = 3;
    assert_eq!(decode(&bytes), Err(DecodeError::UnknownFormat(3)));
    assert_eq!(decode(&[]), Err(DecodeError::Truncated));
}

#[test]
fn every_truncation_and_any_trailing_byte_is_refused() {
    let mut bytes = encode(BlockRef::trusted(&one_of_everything()), 1);
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

proptest! {
    #[test]
    fn a_block_survives_packing(operations in operations(200), writer: u64, jump in 0_u64..1 << 50) {
        let mut block = EMPTY.to_vec();
        let half = operations.len() / 2;
        for operation in &operations[..half] {
            apply(&mut block, operation, 0).unwrap();
        }
        take_over(&mut block);
        for operation in &operations[half..] {
            apply(&mut block, operation, jump).unwrap();
        }
        let bytes = encode(BlockRef::trusted(&block), writer);
        let decoded = decode(&bytes).unwrap();
        prop_assert_eq!(decoded.writer, writer);
        prop_assert_eq!(decoded.block.bytes(), &bytes[ENVELOPE..]);
    }

    #[test]
    fn damaged_blocks_never_panic_and_never_decode_to_what_packs_differently(
        operations in operations(60),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut block = EMPTY.to_vec();
        for operation in &operations {
            apply(&mut block, operation, 0).unwrap();
        }
        let mut bytes = encode(BlockRef::trusted(&block), 9);
        for (at, value) in damage {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Ok(Decoded { block, writer }) = decode(&bytes) {
            prop_assert_eq!(encode(block, writer), bytes);
        }
    }
}
