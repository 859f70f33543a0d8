use jiff::Timestamp;
use proptest::prelude::*;

use super::*;

fn state(channel: u64) -> ReadState {
    ReadState {
        channel_id: Id::new(channel).unwrap(),
        last_message_id: Id::new(1_175_928_847_299_117_063),
        mention_count: 2,
        flags: 0x8000_0001,
        last_viewed: 4112,
        last_pin_timestamp: Some(Timestamp::from_millisecond(1_450_000_000_123).unwrap()),
        version: Version(57),
    }
}

fn all() -> ReadStates {
    ReadStates {
        user_id: Id::new(53_908_232_506_183_680).unwrap(),
        version: Version(58),
        partial: false,
        read_states: vec![state(7), state(u64::MAX)],
        deleted: None,
        next: Id::new(u64::MAX),
    }
}

fn changes() -> ReadStates {
    ReadStates {
        partial: true,
        deleted: Some(vec![Id::new(1).unwrap(), Id::new(9).unwrap()]),
        next: None,
        ..all()
    }
}

/// With another byte.
fn with(bytes: &[u8], place: usize, byte: u8) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[place] = byte;
    bytes
}

#[test]
fn bytes_are_where_they_are_documented() {
    let bytes = encode(&all());
    assert_eq!(bytes.len(), HEADER_BYTES + 2 * ROW_BYTES);
    let number = |from: usize| u64::from_le_bytes(bytes[from..from + 8].try_into().unwrap());
    assert_eq!(&bytes[..8], b"RSL1\x01\x00\x00\x00");
    assert_eq!(&bytes[8..16], [2, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(number(16), 53_908_232_506_183_680);
    assert_eq!((number(24), number(32)), (58, u64::MAX));
    assert_eq!((number(40), number(48)), (7, 1_175_928_847_299_117_063));
    assert_eq!((number(56), number(64)), (1_450_000_000_123, 57));
    assert_eq!(
        &bytes[72..88],
        [2, 0, 0, 0, 1, 0, 0, 128, 0x10, 0x10, 0, 0, 0, 0, 0, 0]
    );
    let bytes = encode(&changes());
    assert_eq!(
        (bytes[5], bytes[12], bytes.len()),
        (1, 2, HEADER_BYTES + 2 * ROW_BYTES + 16)
    );
    assert_eq!(
        &bytes[HEADER_BYTES + 2 * ROW_BYTES..][..9],
        [1, 0, 0, 0, 0, 0, 0, 0, 9]
    );
}

#[test]
fn a_user_never_seen_has_no_rows_and_changes_without_deletions_have_an_empty_list() {
    let empty = ReadStates {
        version: Version(0),
        read_states: Vec::new(),
        next: None,
        ..all()
    };
    assert_eq!(parse(&encode(&empty)), Ok(empty));
    let nothing = ReadStates {
        deleted: Some(Vec::new()),
        ..changes()
    };
    assert_eq!(parse(&encode(&nothing)), Ok(nothing));
}

#[test]
fn what_makes_no_sense_is_refused_by_its_place() {
    let good = encode(&changes());
    let (row, deleted) = (HEADER_BYTES, HEADER_BYTES + 2 * ROW_BYTES);
    assert_eq!(parse(&good), Ok(changes()));
    assert_eq!(parse(&good[..39]), Err(RowsError::Short(39)));
    assert_eq!(parse(&with(&good, 0, b'X')), Err(RowsError::Magic));
    assert_eq!(parse(&with(&good, 4, 2)), Err(RowsError::Version(2)));
    // An unknown flag, a reserved byte, a next beside changes, deletions beside everything.
    for (place, byte) in [(5, 3), (6, 1), (7, 1), (32, 1), (5, 0)] {
        assert_eq!(
            parse(&with(&good, place, byte)),
            Err(RowsError::Header),
            "{place}"
        );
    }
    let mut nobody = good.clone();
    nobody[16..24].fill(0);
    assert_eq!(parse(&nobody), Err(RowsError::Header));
    for bytes in [&good[..good.len() - 1], &[&*good, &[0]].concat()] {
        let (expected, found) = (good.len(), bytes.len());
        assert_eq!(parse(bytes), Err(RowsError::Length { expected, found }));
    }
    // More rows than any memory has.
    let mut huge = good.clone();
    huge[8..16].fill(255);
    assert!(matches!(parse(&huge), Err(RowsError::Length { .. })));
    // Channel 0; out of order; a version of 0; a reserved byte; a pin beyond the calendar.
    assert_eq!(parse(&with(&good, row, 0)), Err(RowsError::Row(0)));
    let mut twice = good.clone();
    twice.copy_within(row..row + 8, row + ROW_BYTES);
    assert_eq!(parse(&twice), Err(RowsError::Row(1)));
    assert_eq!(parse(&with(&good, row + 24, 0)), Err(RowsError::Row(0)));
    assert_eq!(parse(&with(&good, row + 42, 1)), Err(RowsError::Row(0)));
    assert_eq!(parse(&with(&good, row + 23, 1)), Err(RowsError::Row(0)));
    assert_eq!(parse(&with(&good, deleted, 0)), Err(RowsError::Deleted(0)));
    assert_eq!(
        parse(&with(&good, deleted + 8, 1)),
        Err(RowsError::Deleted(1))
    );
}

prop_compose! {
    fn any_state()(
        message in any::<u64>(), pin in prop_oneof![Just(0), 1..=253_402_207_200_999_u64],
        version in 1..=u64::MAX, mention_count in any::<u32>(), flags in any::<u32>(), last_viewed in any::<u16>(),
    ) -> ReadState {
        ReadState {
            channel_id: Id::new(1).unwrap(),
            last_message_id: Id::new(message),
            mention_count,
            flags,
            last_viewed,
            last_pin_timestamp: pin::at_millis(pin).unwrap(),
            version: Version(version),
        }
    }
}

proptest! {
    #[test]
    fn read_states_survive_the_wire(
        user in 1..=u64::MAX, version in any::<u64>(), next in any::<u64>(),
        states in prop::collection::btree_map(1..=u64::MAX, any_state(), 0..20),
        deleted in prop::option::of(prop::collection::btree_set(1..=u64::MAX, 0..20)),
    ) {
        let read_states = states.into_iter().map(|(channel, state)| {
            ReadState { channel_id: Id::new(channel).unwrap(), ..state }
        });
        let partial = deleted.is_some();
        let states = ReadStates {
            user_id: Id::new(user).unwrap(),
            version: Version(version),
            partial,
            read_states: read_states.collect(),
            deleted: deleted.map(|all| all.into_iter().filter_map(Id::new).collect()),
            next: Id::new(next).filter(|_| !partial),
        };
        prop_assert_eq!(parse(&encode(&states)), Ok(states));
    }

    #[test]
    fn no_bytes_panic_and_what_is_read_is_written_the_same(
        mut bytes in prop::collection::vec(any::<u8>(), 0..300), place in any::<prop::sample::Index>(), byte in any::<u8>(), like in any::<bool>(),
    ) {
        if like {
            bytes = encode(&changes());
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        if let Ok(states) = parse(&bytes) {
            prop_assert_eq!(encode(&states), bytes);
        }
    }
}
