use proptest::prelude::*;

use super::*;
use crate::batch::{AnyRequest, BatchRequest, MAX_RECORDS, v2};

fn id(number: u64) -> Id {
    Id::new(number).unwrap()
}

fn plain(user: u64, channel: u64) -> Import {
    Import {
        user: id(user),
        channel: id(channel),
        last_message_id: None,
        mention_count: 0,
        counted_through: None,
        flags: None,
        last_viewed: 0,
        last_pin_timestamp: None,
    }
}

fn frame(records: &[Import]) -> Vec<u8> {
    encode_request(records.iter().map(Import::to_bytes))
}

#[test]
fn a_request_looks_as_documented() {
    let full = Import {
        last_message_id: Some(id(0x0b0a)),
        mention_count: 0x0102_0304,
        counted_through: Some(id(13)),
        flags: Some(0x0506_0708),
        last_viewed: 0x090a,
        last_pin_timestamp: Some(Timestamp::from_millisecond(14).unwrap()),
        ..plain(11, 12)
    };
    let expected = [
        b"RSB3".as_slice(),
        &[3, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0],
        &[5, 1, 0x0a, 9, 4, 3, 2, 1],
        &[8, 7, 6, 5, 0, 0, 0, 0],
        &[11, 0, 0, 0, 0, 0, 0, 0],
        &[12, 0, 0, 0, 0, 0, 0, 0],
        &[0x0a, 0x0b, 0, 0, 0, 0, 0, 0],
        &[13, 0, 0, 0, 0, 0, 0, 0],
        &[14, 0, 0, 0, 0, 0, 0, 0],
        &[5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        &[1, 0, 0, 0, 0, 0, 0, 0],
        &[2, 0, 0, 0, 0, 0, 0, 0],
        &[0; 24],
    ];
    assert_eq!(frame(&[full, plain(1, 2)]), expected.concat());
}

#[test]
fn an_answer_looks_as_documented() {
    let outcomes = [
        ImportOutcome::Applied,
        ImportOutcome::Ignored,
        ImportOutcome::Bad,
        ImportOutcome::NotTaken,
        ImportOutcome::Unknown,
        ImportOutcome::Full,
        ImportOutcome::OwnerTooOld,
    ];
    let answer = encode_answer(&outcomes);
    let head: &[u8] = &[3, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0];
    let expected = [b"RSR3".as_slice(), head, &[0, 1, 2, 3, 4, 7, 8]].concat();
    assert_eq!(answer, expected);
    assert_eq!(parse_answer(&answer).unwrap(), outcomes);
    for byte in [5, 6, 9, 255] {
        let mut bad = answer.clone();
        bad[HEADER_BYTES + 1] = byte;
        assert_eq!(parse_answer(&bad), Err(FrameError::Outcome(byte)));
    }
}

#[test]
fn the_first_bytes_say_which_version_it_is_and_the_others_know_nothing_of_it() {
    let bytes = frame(&[plain(1, 2)]);
    let any = AnyRequest::parse(&bytes).unwrap();
    assert!(matches!(any, AnyRequest::V3(request) if request.raw().len() == 1));
    let first = BatchRequest::parse(&bytes).unwrap_err();
    let second = v2::Request::parse(&bytes).unwrap_err();
    assert_eq!(
        (first, second),
        (FrameError::Magic("RSB1"), FrameError::Magic("RSB2"))
    );
    let expected = HEADER_BYTES + RECORD_BYTES;
    let short = Request::parse(&bytes[..expected - 1]).unwrap_err();
    let found = expected - 1;
    assert_eq!(
        short,
        FrameError::Length {
            count: 1,
            expected,
            found
        }
    );
}

#[test]
fn the_largest_frame_is_no_larger_than_a_body_may_be() {
    let largest = encode_request(std::iter::repeat_n(plain(1, 2).to_bytes(), MAX_RECORDS));
    assert!(largest.len() <= 4 << 20, "{}", largest.len());
}

#[test]
fn a_record_with_anything_out_of_place_is_bad() {
    let good = plain(7, 8).to_bytes();
    assert_eq!(Import::from_bytes(&good), Ok(plain(7, 8)));
    // Another operation, a bit that means nothing, flags that are not given, a reserved byte, no user, no channel, and
    // a pin after the end of the calendar.
    let table = [
        (0, 1),
        (1, 2),
        (8, 1),
        (12, 1),
        (15, 1),
        (16, 0),
        (24, 0),
        (55, 1),
    ];
    for (at, byte) in table {
        let mut bad = good;
        bad[at] = byte;
        assert_eq!(Import::from_bytes(&bad), Err(BadRecord), "byte {at}");
    }
}

fn any_import() -> impl Strategy<Value = Import> {
    let ids = [1..=u64::MAX, 1..=u64::MAX, 0..=u64::MAX, 0..=u64::MAX];
    let numbers = any::<(u32, Option<u32>, u16)>();
    // Up to the end of the calendar.
    (ids, numbers, 0..=253_402_207_200_999_u64).prop_map(
        |([user, channel, message, through], (mention_count, flags, last_viewed), pin)| Import {
            user: id(user),
            channel: id(channel),
            last_message_id: Id::new(message),
            mention_count,
            counted_through: Id::new(through),
            flags,
            last_viewed,
            last_pin_timestamp: pin::at_millis(pin).unwrap(),
        },
    )
}

proptest! {
    #[test]
    fn what_was_asked_is_read(records in prop::collection::vec(any_import(), 1..50)) {
        let frame = frame(&records);
        let read: Result<Vec<Import>, BadRecord> =
            Request::parse(&frame).unwrap().records().collect();
        prop_assert_eq!(read, Ok(records));
    }

    #[test]
    fn no_bytes_panic_and_what_is_read_is_written_as_it_was(
        head in prop_oneof![Just(&b"RSB3\x03\0\0\0"[..]), Just(&b"RSR3\x03\0\0\0"[..])],
        count in 0..5_u32,
        code in 0..10_u8,
        mut rest in prop::collection::vec(prop_oneof![3 => Just(0_u8), 1 => any::<u8>()], 0..300),
        fits in any::<bool>(),
    ) {
        let item = if head.starts_with(b"RSB3") { RECORD_BYTES } else { 1 };
        if fits {
            rest.resize(count as usize * item, 0);
        }
        for item in rest.chunks_mut(item) {
            item[0] = code;
        }
        let bytes = [head, &count.to_le_bytes(), &[0; 4], &rest].concat();
        if let Ok(AnyRequest::V3(request)) = AnyRequest::parse(&bytes) {
            for (record, raw) in request.records().zip(request.raw()) {
                if let Ok(record) = record {
                    prop_assert_eq!(record.to_bytes(), *raw);
                }
            }
        }
        if let Ok(outcomes) = parse_answer(&bytes) {
            prop_assert_eq!(encode_answer(&outcomes), bytes);
        }
    }
}
