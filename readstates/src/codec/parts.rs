//! Operations as parts of 32 bytes, for the journal on the disk and for backups in other members.
//!
//! | bytes, little endian | |
//! |---|---|
//! | 1 | kind |
//! | 1 | which of flags (1) and day of the visit (2) are there |
//! | 2 | day of the visit |
//! | 4 | count or mention count |
//! | 4 | flags |
//! | 4 | 0 |
//! | 8 | channel |
//! | 8 | message, or milliseconds |
//!
//! A part is an operation, but for an import, which has two: in the second are what was counted through and the
//! milliseconds of the pin, in the place of channel and message.

use crate::block::{Import, Operation, Visit};

/// The bytes are no operations: a newer release wrote them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a record that this release does not know")]
pub(crate) struct UnknownRecord;

/// Bytes of a part.
pub(crate) const PART: usize = 32;

const ACK: u8 = 1;
const MANUAL: u8 = 2;
const ACK_PINS: u8 = 3;
const MENTION: u8 = 4;
const DELETE: u8 = 5;
const DELETE_USER: u8 = 6;
const IMPORT: u8 = 7;
const IMPORT_MORE: u8 = 8;

const HAS_FLAGS: u8 = 1;
const HAS_LAST_VIEWED: u8 = 2;

/// How many parts these operations have.
pub(crate) fn parts_of(operations: &[Operation]) -> usize {
    operations.iter().map(parts_in).sum()
}

/// Appends the parts of operations; returns how many there are.
pub(crate) fn put_operations(out: &mut Vec<u8>, operations: &[Operation]) -> u32 {
    for operation in operations {
        out.extend(bytes_of(&part_of(operation)));
        if let Operation::Import { import, .. } = operation {
            out.extend(bytes_of(&rest_of(import)));
        }
    }
    // A request has far fewer than 2^32.
    parts_of(operations) as u32
}

/// The operations of these parts.
pub(crate) fn operations_of(parts: &[u8]) -> Result<Vec<Operation>, UnknownRecord> {
    match parts.as_chunks::<PART>() {
        (parts, []) => operations(parts),
        _ => Err(UnknownRecord),
    }
}

/// How many parts an operation has.
fn parts_in(operation: &Operation) -> usize {
    match operation {
        Operation::Import { .. } => 2,
        Operation::Ack { .. }
        | Operation::Manual { .. }
        | Operation::AckPins { .. }
        | Operation::Mention { .. }
        | Operation::Delete { .. }
        | Operation::DeleteUser => 1,
    }
}

/// What a part says.
#[derive(Default)]
struct Part {
    kind: u8,
    visit: Visit,
    count: u32,
    channel: u64,
    message: u64,
}

/// The part of an operation, the first of an import.
fn part_of(operation: &Operation) -> Part {
    match *operation {
        Operation::Ack {
            channel,
            message,
            visit,
        } => Part {
            kind: ACK,
            visit,
            channel,
            message,
            ..Part::default()
        },
        Operation::Manual {
            channel,
            message,
            mention_count,
            visit,
        } => Part {
            kind: MANUAL,
            visit,
            count: mention_count,
            channel,
            message,
        },
        Operation::AckPins { channel, millis } => Part {
            kind: ACK_PINS,
            channel,
            message: millis,
            ..Part::default()
        },
        Operation::Mention {
            channel,
            message,
            count,
        } => Part {
            kind: MENTION,
            count,
            channel,
            message,
            ..Part::default()
        },
        Operation::Import { channel, import } => first_of(channel, &import),
        Operation::Delete { channel } => Part {
            kind: DELETE,
            channel,
            ..Part::default()
        },
        Operation::DeleteUser => Part {
            kind: DELETE_USER,
            ..Part::default()
        },
    }
}

/// The first part of an import.
fn first_of(channel: u64, import: &Import) -> Part {
    let Import {
        message,
        mention_count,
        counted_through: _,
        flags,
        last_viewed,
        last_pin_millis: _,
    } = *import;
    let last_viewed = Some(last_viewed);
    Part {
        kind: IMPORT,
        visit: Visit { flags, last_viewed },
        count: mention_count,
        channel,
        message,
    }
}

/// The second part of an import.
fn rest_of(import: &Import) -> Part {
    Part {
        kind: IMPORT_MORE,
        channel: import.counted_through,
        message: import.last_pin_millis,
        ..Part::default()
    }
}

fn bytes_of(part: &Part) -> [u8; PART] {
    let Part {
        kind,
        visit: Visit { flags, last_viewed },
        count,
        channel,
        message,
    } = part;
    let mut bytes = [0; PART];
    bytes[0] = *kind;
    bytes[1] = flags.map_or(0, |_| HAS_FLAGS) | last_viewed.map_or(0, |_| HAS_LAST_VIEWED);
    bytes[2..4].copy_from_slice(&last_viewed.unwrap_or(0).to_le_bytes());
    bytes[4..8].copy_from_slice(&count.to_le_bytes());
    bytes[8..12].copy_from_slice(&flags.unwrap_or(0).to_le_bytes());
    bytes[16..24].copy_from_slice(&channel.to_le_bytes());
    bytes[24..32].copy_from_slice(&message.to_le_bytes());
    bytes
}

/// The operation that begins with this part; takes the second part of an import from those that follow.
fn operation<'a>(
    bytes: &[u8; PART],
    following: &mut impl Iterator<Item = &'a [u8; PART]>,
) -> Result<Operation, UnknownRecord> {
    let has = bytes[1];
    let last_viewed = u16::from_le_bytes([bytes[2], bytes[3]]);
    let (count, flags) = (u32_at(bytes, 4), u32_at(bytes, 8));
    let (channel, message) = (u64_at(bytes, 16), u64_at(bytes, 24));
    let visit = Visit {
        flags: (has & HAS_FLAGS != 0).then_some(flags),
        last_viewed: (has & HAS_LAST_VIEWED != 0).then_some(last_viewed),
    };
    let operation = match bytes[0] {
        ACK => Operation::Ack {
            channel,
            message,
            visit,
        },
        MANUAL => Operation::Manual {
            channel,
            message,
            mention_count: count,
            visit,
        },
        ACK_PINS => Operation::AckPins {
            channel,
            millis: message,
        },
        MENTION => Operation::Mention {
            channel,
            message,
            count,
        },
        DELETE => Operation::Delete { channel },
        DELETE_USER => Operation::DeleteUser,
        IMPORT => {
            let more = following.next().ok_or(UnknownRecord)?;
            let import = Import {
                message,
                mention_count: count,
                counted_through: u64_at(more, 16),
                flags: visit.flags,
                last_viewed,
                last_pin_millis: u64_at(more, 24),
            };
            if bytes_of(&rest_of(&import)) != *more {
                return Err(UnknownRecord);
            }
            Operation::Import { channel, import }
        }
        _ => return Err(UnknownRecord),
    };
    // One way to write each: what is out of place belongs to a newer release.
    if bytes_of(&part_of(&operation)) == *bytes {
        Ok(operation)
    } else {
        Err(UnknownRecord)
    }
}

/// The operations of these parts.
fn operations(parts: &[[u8; PART]]) -> Result<Vec<Operation>, UnknownRecord> {
    let mut operations = Vec::with_capacity(parts.len());
    let mut parts = parts.iter();
    while let Some(part) = parts.next() {
        operations.push(operation(part, &mut parts)?);
    }
    Ok(operations)
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}
