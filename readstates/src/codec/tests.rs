//! The golden files that pin format 2, every damage of one byte to them, and round trips.

use std::{fmt::Write, fs, path::PathBuf};

use proptest::prelude::*;

use super::*;
use crate::block::{
    EMPTY, Operation, REMEMBERED_DELETIONS, Visit, apply, reference::operations, take_over,
    view::Eras,
};

const WRITER: u64 = 0x0123_4567_89ab_cdef;
const CHANNEL: u64 = 81_384_788_765_712_384;
const MESSAGE: u64 = 1_175_928_847_299_117_063;
/// The first version of the first process.
const FIRST_VERSION: u64 = 1_767_225_600_000_000;

fn ack(channel: u64, message: u64) -> Operation {
    Operation::Ack {
        channel,
        message,
        visit: Visit {
            flags: Some(5),
            last_viewed: Some(4112),
        },
    }
}

fn mention(channel: u64, message: u64, count: u32) -> Operation {
    Operation::Mention {
        channel,
        message,
        count,
    }
}

/// One process after the other does its operations.
fn block(processes: &[&[Operation]]) -> Vec<u8> {
    let mut block = EMPTY.to_vec();
    for (number, operations) in processes.iter().enumerate() {
        take_over(&mut block);
        for operation in *operations {
            let first_version = FIRST_VERSION + number as u64 * 1_000_000_000;
            apply(&mut block, operation, first_version).unwrap();
        }
    }
    block
}

/// A user who only reads.
fn plain() -> Vec<u8> {
    block(&[&[ack(CHANNEL, MESSAGE), ack(7, 1), ack(u64::MAX, u64::MAX)]])
}

/// Values on both sides of what a row holds, and all that may be beside it.
fn wide() -> Vec<u8> {
    let manual = |channel, mention_count, flags, last_viewed| Operation::Manual {
        channel,
        message: MESSAGE,
        mention_count,
        visit: Visit {
            flags: Some(flags),
            last_viewed: Some(last_viewed),
        },
    };
    let mut operations = vec![
        manual(1, 4095, 7, 16_383),
        manual(2, 4096, 8, 16_384),
        manual(3, u32::MAX, u32::MAX, u16::MAX),
        Operation::AckPins {
            channel: 4,
            millis: 1_767_225_600_123,
        },
        mention(5, MESSAGE, 1),
        mention(CHANNEL, u64::MAX, u32::MAX),
    ];
    // Out of order, and two more than are remembered.
    operations.extend((1..=10).map(|n| mention(6, MESSAGE + n * 7 % 11, n as u32 % 3 + 1)));
    block(&[&operations])
}

/// Six processes, of whose eras four are told apart; deletions of two.
fn eras() -> Vec<u8> {
    let delete = |channel| Operation::Delete { channel };
    block(&[
        &[ack(1, MESSAGE), ack(2, MESSAGE)],
        &[ack(2, MESSAGE + 1), ack(3, MESSAGE)],
        &[ack(4, MESSAGE), ack(5, MESSAGE), delete(5)],
        &[ack(6, MESSAGE), ack(7, MESSAGE)],
        &[ack(8, MESSAGE), delete(6)],
        &[ack(9, MESSAGE), delete(7)],
    ])
}

/// More deletions than are remembered, and then everything.
fn erased() -> Vec<u8> {
    let channels = 1..=REMEMBERED_DELETIONS as u64 + 1;
    let mut operations: Vec<_> = channels
        .flat_map(|channel| [ack(channel, 1), Operation::Delete { channel }])
        .collect();
    operations.push(Operation::DeleteUser);
    block(&[&[ack(1, 1)], &operations])
}

fn goldens() -> [(&'static str, Vec<u8>); 5] {
    [
        ("empty", EMPTY.to_vec()),
        ("plain", plain()),
        ("wide", wide()),
        ("eras", eras()),
        ("erased", erased()),
    ]
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

/// What a cell says, a line each.
fn meaning(Decoded { block, writer }: Decoded<'_>) -> String {
    let mut text = format!("writer {writer:x}\nversion {}\n", block.version());
    writeln!(text, "{:?}", block.history()).unwrap();
    writeln!(text, "{:?}", Eras::of(block.bytes())).unwrap();
    for state in block.states() {
        let counted = block.counted(state.channel);
        writeln!(text, "{state:?} {:?}", counted.mentions()).unwrap();
    }
    text
}

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}"))
}

/// `UPDATE_GOLDEN=1` writes the files; a format that was released must not need it.
#[test]
fn what_the_first_release_wrote_is_still_read_and_written_the_same() {
    for (name, block) in goldens() {
        let [bytes, says] = ["hex", "txt"].map(|end| golden(&format!("block-v2-{name}.{end}")));
        let cell = encode(BlockRef::trusted(&block), WRITER);
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&bytes, hex(&cell)).unwrap();
            fs::write(&says, meaning(decode(&cell).unwrap())).unwrap();
        }
        assert_eq!(hex(&cell), fs::read_to_string(&bytes).unwrap(), "{name}");
        let stored = unhex(&fs::read_to_string(bytes).unwrap());
        let read = meaning(decode(&stored).unwrap());
        assert_eq!(read, fs::read_to_string(says).unwrap(), "{name}");
    }
}

#[test]
fn an_unknown_format_is_refused_by_number() {
    for format in (0..=u8::MAX).filter(|&format| format != FORMAT) {
        let mut bytes = encode(BlockRef::trusted(&plain()), WRITER);
        bytes[0] = format;
        assert_eq!(decode(&bytes), Err(DecodeError::UnknownFormat(format)));
    }
    assert_eq!(decode(&[]), Err(DecodeError::Truncated));
}

#[test]
fn every_truncation_and_any_trailing_byte_is_refused() {
    for (name, block) in goldens() {
        let mut bytes = encode(BlockRef::trusted(&block), WRITER);
        for length in 0..bytes.len() {
            assert!(decode(&bytes[..length]).is_err(), "{name} cut at {length}");
        }
        bytes.push(0);
        assert_eq!(decode(&bytes), Err(DecodeError::Trailing(1)), "{name}");
    }
}

#[test]
fn every_damage_of_one_byte_is_refused_or_makes_another_block_with_one_packing() {
    for (name, block) in goldens() {
        let sound = encode(BlockRef::trusted(&block), WRITER);
        for at in 0..sound.len() {
            for value in 0..=u8::MAX {
                let mut bytes = sound.clone();
                bytes[at] = value;
                if let Ok(decoded) = decode(&bytes) {
                    assert_eq!(encode(decoded.block, decoded.writer), bytes, "{name}");
                    let same = meaning(decoded) == meaning(decode(&sound).unwrap());
                    assert_eq!(same, bytes == sound, "{name}: byte {at} is {value}");
                }
            }
        }
    }
}

#[test]
fn more_states_than_a_user_can_have_are_refused_and_numbers_that_lie_ask_for_no_memory() {
    let mut bytes = encode(BlockRef::trusted(&EMPTY), WRITER);
    let shape = ENVELOPE + 16;
    bytes[shape..shape + 4].copy_from_slice(&(MAX_READ_STATES as u32 + 1).to_le_bytes());
    assert_eq!(
        decode(&bytes),
        Err(DecodeError::TooMany(MAX_READ_STATES + 1))
    );
    bytes[shape..shape + 4].copy_from_slice(&(MAX_READ_STATES as u32).to_le_bytes());
    assert_eq!(decode(&bytes), Err(DecodeError::Truncated));
}

#[test]
fn a_plain_state_takes_24_bytes_and_a_user_24_more() {
    assert_eq!(plain().len(), 24 + 3 * 24);
    // After another process took over: the base of the era before, and the last version in it.
    let taken_over = block(&[&[ack(1, 1), ack(2, 1)], &[ack(1, 2)]]);
    assert_eq!(taken_over.len(), 24 + 2 * 24 + 16);
}

proptest! {
    #[test]
    fn damaged_blocks_never_panic_and_never_decode_to_what_packs_differently(
        operations in operations(60),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut bytes = encode(BlockRef::trusted(&block(&[&operations])), WRITER);
        for (at, value) in damage {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Ok(Decoded { block, writer }) = decode(&bytes) {
            prop_assert_eq!(encode(block, writer), bytes);
        }
    }
}
