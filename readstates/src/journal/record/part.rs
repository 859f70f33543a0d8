//! Operations as parts of 32 bytes: the table is in the head of [`super`].

use super::{UnknownRecord, u32_at, u64_at};
use crate::block::{Import, Operation, Visit};

/// Bytes of a part.
pub(super) const PART: usize = 32;

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

/// How many parts an operation has.
pub(super) fn parts_in(operation: &Operation) -> usize {
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
pub(super) struct Part {
    kind: u8,
    visit: Visit,
    count: u32,
    channel: u64,
    message: u64,
}

/// The part of an operation, the first of an import.
pub(super) fn part_of(operation: &Operation) -> Part {
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
        Operation::Import {
            channel,
            import:
                Import {
                    message,
                    mention_count,
                    counted_through: _,
                    flags,
                    last_viewed,
                    last_pin_millis: _,
                },
        } => Part {
            kind: IMPORT,
            visit: Visit {
                flags,
                last_viewed: Some(last_viewed),
            },
            count: mention_count,
            channel,
            message,
        },
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

/// The second part of an import.
pub(super) fn rest_of(import: &Import) -> Part {
    Part {
        kind: IMPORT_MORE,
        channel: import.counted_through,
        message: import.last_pin_millis,
        ..Part::default()
    }
}

pub(super) fn bytes_of(part: &Part) -> [u8; PART] {
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
pub(super) fn operations(parts: &[[u8; PART]]) -> Result<Vec<Operation>, UnknownRecord> {
    let mut operations = Vec::with_capacity(parts.len());
    let mut parts = parts.iter();
    while let Some(part) = parts.next() {
        operations.push(operation(part, &mut parts)?);
    }
    Ok(operations)
}
