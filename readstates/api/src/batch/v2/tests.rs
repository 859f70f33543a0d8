use jiff::Timestamp;
use proptest::prelude::*;

use super::*;
use crate::{
    Version,
    batch::{AnyRequest, BatchRequest, RecordOperation},
};

fn id(number: u64) -> Id {
    Id::new(number).unwrap()
}

fn read(user: u64, channel: u64) -> Entry {
    Entry::Read {
        user: id(user),
        channel: id(channel),
    }
}

fn ack(user: u64, message: u64) -> Entry {
    Entry::Change(Record {
        operation: RecordOperation::Ack,
        user: id(user),
        channel: id(10),
        message: id(message),
    })
}

fn frame(entries: &[Entry]) -> Vec<u8> {
    encode_request(entries.iter().map(Entry::to_bytes))
}

#[test]
fn a_request_looks_as_documented() {
    let expected = [
        b"RSB2".as_slice(),
        &[2, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0],
        &[4, 0, 0, 0, 0, 0, 0, 0],
        &[1, 0, 0, 0, 0, 0, 0, 0],
        &[3, 2, 0, 0, 0, 0, 0, 0],
        &[0; 8],
        &[1, 0, 0, 0, 0, 0, 0, 0],
        &[7, 0, 0, 0, 0, 0, 0, 0],
        &[10, 0, 0, 0, 0, 0, 0, 0],
        &[8, 0, 0, 0, 0, 0, 0, 0],
    ];
    assert_eq!(frame(&[read(1, 0x0203), ack(7, 8)]), expected.concat());
}

#[test]
fn an_answer_looks_as_documented() {
    let state = StateNumbers {
        last_message_id: Some(id(9)),
        mention_count: 0x0102,
        flags: 3,
        last_viewed: 0x0405,
        last_pin_timestamp: Some(Timestamp::from_millisecond(6).unwrap()),
        version: Version(57),
    };
    let rows = [
        Row::Applied {
            version: Version(58),
            state,
        },
        Row::Absent {
            version: Version(58),
        },
        Row::OwnerTooOld,
    ];
    let expected = [
        b"RSR2".as_slice(),
        &[2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0],
        &[0, 0, 5, 4, 2, 1, 0, 0],
        &[3, 0, 0, 0, 0, 0, 0, 0],
        &[58, 0, 0, 0, 0, 0, 0, 0],
        &[9, 0, 0, 0, 0, 0, 0, 0],
        &[6, 0, 0, 0, 0, 0, 0, 0],
        &[57, 0, 0, 0, 0, 0, 0, 0],
        &[6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        &[58, 0, 0, 0, 0, 0, 0, 0],
        &[0; 24],
        &[8],
        &[0; 47],
    ];
    let answer = encode_answer(&rows);
    assert_eq!(answer, expected.concat());
    assert_eq!(parse_answer(&answer).unwrap(), rows);
}

#[test]
fn what_is_no_frame_of_this_version_is_refused_with_the_reason() {
    let sound = frame(&[ack(1, 1)]);
    let with = |at: usize, byte: u8| {
        let mut frame = sound.clone();
        frame[at] = byte;
        frame
    };
    let table = [
        (with(3, b'1'), FrameError::Magic("RSB2")),
        (with(4, 1), FrameError::Version(1)),
        (with(5, 1), FrameError::Reserved),
        (with(8, 0), FrameError::Count(0)),
        (sound[..15].to_vec(), FrameError::Short(15)),
    ];
    for (bytes, expected) in table {
        assert_eq!(Request::parse(&bytes).unwrap_err(), expected);
    }
    // A service that knows version 1 alone refuses all of it.
    let refused = BatchRequest::parse(&sound).unwrap_err();
    assert_eq!(refused, FrameError::Magic("RSB1"));
}

#[test]
fn the_first_bytes_say_which_version_it_is() {
    let second = frame(&[ack(1, 1)]);
    let any = AnyRequest::parse(&second).unwrap();
    assert!(matches!(any, AnyRequest::V2(request) if request.raw().len() == 1));
    let mut first = second.clone();
    (first[3], first[4]) = (b'1', 1);
    let any = AnyRequest::parse(&first).unwrap();
    assert!(matches!(any, AnyRequest::V1(request) if request.raw() == [ack(1, 1).to_bytes()]));
}

#[test]
fn a_read_with_a_message_or_an_argument_is_bad_and_one_of_version_1_too() {
    let good = read(7, 8).to_bytes();
    assert_eq!(Entry::from_bytes(&good), Ok(read(7, 8)));
    for at in [1, 3, 4, 24, 31] {
        let mut bad = good;
        bad[at] = 1;
        assert_eq!(Entry::from_bytes(&bad), Err(BadRecord), "byte {at}");
    }
    for at in [8, 16] {
        let mut bad = good;
        bad[at] = 0;
        assert_eq!(Entry::from_bytes(&bad), Err(BadRecord), "byte {at}");
    }
    assert_eq!(Record::from_bytes(&good), Err(BadRecord));
}

#[test]
fn a_row_with_numbers_that_do_not_go_with_its_outcome_is_refused() {
    let version = Version(5);
    let answer = encode_answer(&[Row::Absent { version }, Row::NotTaken]);
    let second = HEADER_BYTES + ROW_BYTES;
    let table = [
        (second, 10, FrameError::Outcome(10)),
        (second + 1, 1, FrameError::Row(1)),
        (second + 4, 1, FrameError::Row(1)),
        (second + 16, 1, FrameError::Row(1)),
        (second + 47, 1, FrameError::Row(1)),
        // An absent state with numbers, and a state that never changed.
        (HEADER_BYTES + 4, 1, FrameError::Row(0)),
        (HEADER_BYTES, 5, FrameError::Row(0)),
    ];
    for (at, byte, expected) in table {
        let mut bad = answer.clone();
        bad[at] = byte;
        assert_eq!(parse_answer(&bad), Err(expected), "byte {at}");
    }
}

fn any_entry() -> impl Strategy<Value = Entry> {
    let ids = [1..=u64::MAX, 1..=u64::MAX, 1..=u64::MAX];
    let change = (0..3_u8, 1..=u32::MAX, ids);
    let change = change.prop_map(|(kind, number, [user, channel, message])| {
        Entry::Change(Record {
            operation: match kind {
                0 => RecordOperation::Ack,
                1 => RecordOperation::Manual {
                    mention_count: number,
                },
                _ => RecordOperation::Mention { count: number },
            },
            user: id(user),
            channel: id(channel),
            message: id(message),
        })
    });
    let reads = (1..=u64::MAX, 1..=u64::MAX).prop_map(|(user, channel)| read(user, channel));
    prop_oneof![change, reads]
}

fn at_millis(millis: i64) -> Timestamp {
    Timestamp::new(millis / 1000, (millis % 1000) as i32 * 1_000_000).unwrap()
}

fn any_row() -> impl Strategy<Value = Row> {
    let numbers = (any::<u64>(), any::<(u32, u32, u16)>(), 1..=u64::MAX);
    // Up to the end of the calendar.
    let state = (numbers, 0..=253_402_207_200_999_i64).prop_map(
        |((message, (mention_count, flags, last_viewed), version), pin)| StateNumbers {
            last_message_id: Id::new(message),
            mention_count,
            flags,
            last_viewed,
            last_pin_timestamp: (pin > 0).then(|| at_millis(pin)),
            version: Version(version),
        },
    );
    (0..10_u8, any::<u64>().prop_map(Version), state).prop_map(
        |(code, version, state)| match code {
            0 => Row::Applied { version, state },
            1 => Row::Ignored { version, state },
            2 => Row::Bad,
            3 => Row::NotTaken,
            4 => Row::Unknown,
            5 => Row::Found { version, state },
            6 => Row::Absent { version },
            7 => Row::Full,
            8 => Row::OwnerTooOld,
            _ => Row::Forbidden,
        },
    )
}

proptest! {
    #[test]
    fn what_was_asked_is_read(entries in prop::collection::vec(any_entry(), 1..50)) {
        let frame = frame(&entries);
        let read: Result<Vec<Entry>, BadRecord> =
            Request::parse(&frame).unwrap().records().collect();
        prop_assert_eq!(read, Ok(entries));
    }

    #[test]
    fn what_was_answered_is_read(rows in prop::collection::vec(any_row(), 1..50)) {
        prop_assert_eq!(parse_answer(&encode_answer(&rows)), Ok(rows));
    }

    #[test]
    fn no_bytes_panic_and_what_is_read_is_written_as_it_was(
        head in prop_oneof![Just(&b"RSB2\x02\0\0\0"[..]), Just(&b"RSR2\x02\0\0\0"[..])],
        count in 0..5_u32,
        codes in [0..11_u8, 0..11_u8, 0..11_u8, 0..11_u8],
        mut rest in prop::collection::vec(prop_oneof![3 => Just(0_u8), 1 => any::<u8>()], 0..200),
        fits in any::<bool>(),
    ) {
        let item = if head.starts_with(b"RSB2") { RECORD_BYTES } else { ROW_BYTES };
        if fits {
            rest.resize(count as usize * item, 0);
        }
        for (item, code) in rest.chunks_mut(item).zip(codes) {
            item[0] = code;
        }
        let bytes = [head, &count.to_le_bytes(), &[0; 4], &rest].concat();
        if let Ok(AnyRequest::V2(request)) = AnyRequest::parse(&bytes) {
            for (entry, raw) in request.records().zip(request.raw()) {
                if let Ok(entry) = entry {
                    prop_assert_eq!(entry.to_bytes(), *raw);
                }
            }
        }
        if let Ok(rows) = parse_answer(&bytes) {
            prop_assert_eq!(encode_answer(&rows), bytes);
        }
    }
}
