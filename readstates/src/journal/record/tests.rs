use proptest::prelude::*;

use super::*;
use crate::block::{Import, Visit};

fn any_operation() -> impl Strategy<Value = Operation> {
    let visit = (any::<Option<u32>>(), any::<Option<u16>>())
        .prop_map(|(flags, last_viewed)| Visit { flags, last_viewed });
    (0..7_u8, any::<[u64; 4]>(), any::<u32>(), visit).prop_map(
        |(kind, [channel, message, counted_through, last_pin_millis], count, visit)| match kind {
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
            5 => Operation::Import {
                channel,
                import: Import {
                    message,
                    mention_count: count,
                    counted_through,
                    flags: visit.flags,
                    last_viewed: visit.last_viewed.unwrap_or(0),
                    last_pin_millis,
                },
            },
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
    assert_eq!(bytes.len(), HEAD + PART);
    // What a deletion has not: flags that are there, a count, a reserved word, a message.
    for at in [1, 4, 12, 24] {
        let mut other = bytes.clone();
        other[HEAD + at] = 1;
        assert_eq!(decode_all(&other), Err(UnknownRecord), "byte {at}");
    }
}

#[test]
fn an_import_without_its_second_part_or_with_another_one_is_unknown() {
    let import = Import {
        message: 5,
        counted_through: 6,
        last_pin_millis: 7,
        ..Import::default()
    };
    let mut bytes = Vec::new();
    let entry = Entry {
        user: 1,
        first_version: 2,
        version: 3,
        before: Before::Ours,
        operations: &[
            Operation::Import { channel: 4, import },
            Operation::Delete { channel: 4 },
        ],
    };
    entry.encode(&mut bytes);
    assert_eq!(bytes.len(), HEAD + 3 * PART);
    let mut other = bytes.clone();
    other[HEAD + PART] = 5;
    assert_eq!(decode_all(&other), Err(UnknownRecord));
    let mut alone = bytes[..HEAD + PART].to_vec();
    alone[28] = 1;
    assert_eq!(decode_all(&alone), Err(UnknownRecord));
    // The second part by itself.
    let mut rest = bytes.clone();
    rest.drain(HEAD..HEAD + PART);
    rest[28] = 2;
    assert_eq!(decode_all(&rest), Err(UnknownRecord));
}
