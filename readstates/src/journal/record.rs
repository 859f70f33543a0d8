//! One change of one user as bytes.
//!
//! | bytes, little endian | |
//! |---|---|
//! | 8 | the user |
//! | 8 | the first version of the slot's term, see [`crate::block::take_over`] |
//! | 8 | the user's version after the change |
//! | 4 | 0: the block was this process's; 1 or 2: another's until then |
//! | 4 | how many operations follow, 0 to [`MOST_OPERATIONS`] |
//! | 8 or 0 | with 2 alone: the user's version before |
//! | 32 each | operations: kind, which of flags and visit are there (1, 2), day of the visit (u16), count or mention count (u32), flags (u32), 0 (u32), channel, message or milliseconds (u64 each) |
//!
//! Operations are pure: applied to the same block they give the same block. So a change is replayed by doing it
//! again, and the version says whether it was the same. Without operations it is the mark of this process on a block
//! that another one wrote: see [`crate::block::renew`].

use crate::block::{Operation, Visit};

/// Bytes of a record before its operations.
pub(super) const HEAD: usize = 32;
/// Bytes of a version.
const VERSION: usize = 8;
/// Bytes of an operation.
const OPERATION: usize = 32;

/// Operations of one change: more than any request about one user has.
pub(super) const MOST_OPERATIONS: usize = 1 << 16;

const ACK: u8 = 1;
const MANUAL: u8 = 2;
const ACK_PINS: u8 = 3;
const MENTION: u8 = 4;
const DELETE: u8 = 5;
const DELETE_USER: u8 = 6;

const HAS_FLAGS: u8 = 1;
const HAS_LAST_VIEWED: u8 = 2;

/// Whose a block was before a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Before {
    /// This process's: its version says whether anything is missing before the change.
    Ours,
    /// Another's, at this version. The version jumps with the change, and says nothing by itself.
    Others { version: u64 },
    /// Another's, as the first release with a journal wrote it.
    OthersAtAny,
}

const OURS: u32 = 0;
const OTHERS_AT_ANY: u32 = 1;
const OTHERS: u32 = 2;

/// A change that was applied, as [`super::Journal::append`] takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry<'a> {
    pub(crate) user: u64,
    /// The first version of the slot's term.
    pub(crate) first_version: u64,
    /// The user's version after it.
    pub(crate) version: u64,
    /// Whose the block was until then.
    pub(crate) before: Before,
    /// What was done, ignored operations included.
    pub(crate) operations: &'a [Operation],
}

/// A change as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) user: u64,
    pub(super) first_version: u64,
    pub(super) version: u64,
    pub(super) before: Before,
    pub(super) operations: Vec<Operation>,
}

/// The bytes of a frame are no records, although their checksum is right: a newer release wrote them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a record that this release does not know")]
pub(super) struct UnknownRecord;

impl Entry<'_> {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let (kind, before) = match self.before {
            Before::Ours => (OURS, None),
            Before::OthersAtAny => (OTHERS_AT_ANY, None),
            Before::Others { version } => (OTHERS, Some(version)),
        };
        out.reserve(HEAD + VERSION + OPERATION * self.operations.len());
        out.extend(self.user.to_le_bytes());
        out.extend(self.first_version.to_le_bytes());
        out.extend(self.version.to_le_bytes());
        out.extend(kind.to_le_bytes());
        // A request has far fewer than 2^32.
        out.extend((self.operations.len() as u32).to_le_bytes());
        if let Some(version) = before {
            out.extend(version.to_le_bytes());
        }
        for operation in self.operations {
            out.extend(bytes_of(operation));
        }
    }
}

/// The parts of an operation that kinds share.
#[derive(Default)]
struct Parts {
    kind: u8,
    visit: Visit,
    count: u32,
    channel: u64,
    message: u64,
}

fn parts_of(operation: &Operation) -> Parts {
    match *operation {
        Operation::Ack {
            channel,
            message,
            visit,
        } => Parts {
            kind: ACK,
            visit,
            channel,
            message,
            ..Parts::default()
        },
        Operation::Manual {
            channel,
            message,
            mention_count,
            visit,
        } => Parts {
            kind: MANUAL,
            visit,
            count: mention_count,
            channel,
            message,
        },
        Operation::AckPins { channel, millis } => Parts {
            kind: ACK_PINS,
            channel,
            message: millis,
            ..Parts::default()
        },
        Operation::Mention {
            channel,
            message,
            count,
        } => Parts {
            kind: MENTION,
            count,
            channel,
            message,
            ..Parts::default()
        },
        Operation::Delete { channel } => Parts {
            kind: DELETE,
            channel,
            ..Parts::default()
        },
        Operation::DeleteUser => Parts {
            kind: DELETE_USER,
            ..Parts::default()
        },
    }
}

fn bytes_of(operation: &Operation) -> [u8; OPERATION] {
    let Parts {
        kind,
        visit: Visit { flags, last_viewed },
        count,
        channel,
        message,
    } = parts_of(operation);
    let mut bytes = [0; OPERATION];
    bytes[0] = kind;
    bytes[1] = flags.map_or(0, |_| HAS_FLAGS) | last_viewed.map_or(0, |_| HAS_LAST_VIEWED);
    bytes[2..4].copy_from_slice(&last_viewed.unwrap_or(0).to_le_bytes());
    bytes[4..8].copy_from_slice(&count.to_le_bytes());
    bytes[8..12].copy_from_slice(&flags.unwrap_or(0).to_le_bytes());
    bytes[16..24].copy_from_slice(&channel.to_le_bytes());
    bytes[24..32].copy_from_slice(&message.to_le_bytes());
    bytes
}

fn operation(bytes: &[u8; OPERATION]) -> Result<Operation, UnknownRecord> {
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
        _ => return Err(UnknownRecord),
    };
    // One way to write each: what is out of place belongs to a newer release.
    if bytes_of(&operation) == *bytes {
        Ok(operation)
    } else {
        Err(UnknownRecord)
    }
}

/// All changes of a frame, in the order in which they were made.
pub(super) fn decode_all(mut bytes: &[u8]) -> Result<Vec<Change>, UnknownRecord> {
    let mut changes = Vec::new();
    while let Some((head, rest)) = bytes.split_first_chunk::<HEAD>() {
        let (before, rest) = match u32_at(head, 24) {
            OURS => (Before::Ours, rest),
            OTHERS_AT_ANY => (Before::OthersAtAny, rest),
            OTHERS => {
                let (version, rest) = rest.split_first_chunk().ok_or(UnknownRecord)?;
                let version = u64::from_le_bytes(*version);
                (Before::Others { version }, rest)
            }
            _ => return Err(UnknownRecord),
        };
        let count = u32_at(head, 28) as usize;
        if count > MOST_OPERATIONS {
            return Err(UnknownRecord);
        }
        let (operations, rest) = rest
            .split_at_checked(OPERATION * count)
            .ok_or(UnknownRecord)?;
        let (operations, _) = operations.as_chunks::<OPERATION>();
        changes.push(Change {
            user: u64_at(head, 0),
            first_version: u64_at(head, 8),
            version: u64_at(head, 16),
            before,
            operations: operations.iter().map(operation).collect::<Result<_, _>>()?,
        });
        bytes = rest;
    }
    if bytes.is_empty() {
        Ok(changes)
    } else {
        Err(UnknownRecord)
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_operation() -> impl Strategy<Value = Operation> {
        let visit = (any::<Option<u32>>(), any::<Option<u16>>())
            .prop_map(|(flags, last_viewed)| Visit { flags, last_viewed });
        (0..6_u8, any::<[u64; 2]>(), any::<u32>(), visit).prop_map(
            |(kind, [channel, message], count, visit)| match kind {
                0 => Operation::Ack {
                    channel,
                    message,
                    visit,
                },
                1 => Operation::Manual {
                    channel,
                    message,
                    mention_count: count,
                    visit,
                },
                2 => Operation::AckPins {
                    channel,
                    millis: message,
                },
                3 => Operation::Mention {
                    channel,
                    message,
                    count,
                },
                4 => Operation::Delete { channel },
                _ => Operation::DeleteUser,
            },
        )
    }

    fn any_before() -> impl Strategy<Value = Before> {
        prop_oneof![
            Just(Before::Ours),
            any::<u64>().prop_map(|version| Before::Others { version }),
            Just(Before::OthersAtAny),
        ]
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(
            changes in prop::collection::vec(
                (any::<[u64; 3]>(), any_before(), prop::collection::vec(any_operation(), 0..4)),
                0..6,
            ),
        ) {
            let changes: Vec<Change> = changes
                .into_iter()
                .map(|([user, first_version, version], before, operations)| Change {
                    user,
                    first_version,
                    version,
                    before,
                    operations,
                })
                .collect();
            let mut bytes = Vec::new();
            for change in &changes {
                let entry = Entry {
                    user: change.user,
                    first_version: change.first_version,
                    version: change.version,
                    before: change.before,
                    operations: &change.operations,
                };
                entry.encode(&mut bytes);
            }
            prop_assert_eq!(decode_all(&bytes), Ok(changes));
            if !bytes.is_empty() {
                prop_assert_eq!(decode_all(&bytes[..bytes.len() - 1]), Err(UnknownRecord));
            }
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode_all(&bytes);
        }
    }

    #[test]
    fn an_operation_with_anything_out_of_place_is_unknown() {
        let mut bytes = Vec::new();
        let entry = Entry {
            user: 1,
            first_version: 2,
            version: 3,
            before: Before::Ours,
            operations: &[Operation::Delete { channel: 4 }],
        };
        entry.encode(&mut bytes);
        assert_eq!(bytes.len(), HEAD + OPERATION);
        // What a deletion has not: flags that are there, a count, a reserved word, a message.
        for at in [1, 4, 12, 24] {
            let mut other = bytes.clone();
            other[HEAD + at] = 1;
            assert_eq!(decode_all(&other), Err(UnknownRecord), "byte {at}");
        }
    }
}
