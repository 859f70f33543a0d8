use proptest::prelude::*;

use super::*;

fn id(number: u64) -> Id {
    Id::new(number).unwrap()
}

fn ack(user: u64, message: u64) -> Record {
    Record {
        operation: RecordOperation::Ack,
        user: id(user),
        channel: id(10),
        message: id(message),
    }
}

fn frame(records: &[Record]) -> Vec<u8> {
    let mut encoder = BatchEncoder::with_capacity(records.len());
    for record in records {
        encoder.push(record);
    }
    encoder.finish()
}

#[test]
fn a_request_looks_as_documented() {
    let manual = Record {
        operation: RecordOperation::Manual { mention_count: 258 },
        user: id(1),
        channel: id(0x0203),
        message: id(u64::MAX),
    };
    let expected = [
        b"RSB1".as_slice(),
        &[1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0],
        &[2, 0, 0, 0, 2, 1, 0, 0],
        &[1, 0, 0, 0, 0, 0, 0, 0],
        &[3, 2, 0, 0, 0, 0, 0, 0],
        &[0xff; 8],
    ];
    assert_eq!(frame(&[manual]), expected.concat());
}

#[test]
fn an_answer_looks_as_documented() {
    let all = [
        RecordOutcome::Applied,
        RecordOutcome::Ignored,
        RecordOutcome::Bad,
        RecordOutcome::NotTaken,
        RecordOutcome::Unknown,
    ];
    let expected = [
        b"RSR1".as_slice(),
        &[1, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0],
        &[0, 1, 2, 3, 4],
    ];
    let answer = encode_answer(&all);
    assert_eq!(answer, expected.concat());
    assert!(parse_answer(&answer).unwrap().eq(all));
}

#[test]
fn what_is_no_frame_is_refused_with_the_reason() {
    let sound = frame(&[ack(1, 1), ack(2, 2)]);
    let with = |at: usize, byte: u8| {
        let mut frame = sound.clone();
        frame[at] = byte;
        frame
    };
    let length = |count, expected, found| FrameError::Length {
        count,
        expected,
        found,
    };
    let table = [
        (vec![], FrameError::Short(0)),
        (sound[..15].to_vec(), FrameError::Short(15)),
        (with(3, b'2'), FrameError::Magic("RSB1")),
        (with(4, 2), FrameError::Version(2)),
        (with(5, 1), FrameError::Reserved),
        (with(7, 1), FrameError::Reserved),
        (with(15, 1), FrameError::Reserved),
        (with(8, 0), FrameError::Count(0)),
        (with(10, 1), FrameError::Count(65_538)),
        (with(8, 3), length(3, 112, 80)),
        (sound[..79].to_vec(), length(2, 80, 79)),
        ([sound.as_slice(), &[0]].concat(), length(2, 80, 81)),
    ];
    for (bytes, expected) in table {
        assert_eq!(BatchRequest::parse(&bytes).unwrap_err(), expected);
    }
    let mut answer = encode_answer(&[RecordOutcome::Applied]);
    assert_eq!(
        BatchRequest::parse(&answer).unwrap_err(),
        FrameError::Magic("RSB1")
    );
    answer[16] = 5;
    assert_eq!(parse_answer(&answer).err(), Some(FrameError::Outcome(5)));
}

#[test]
fn a_bad_record_spoils_no_other() {
    let good = ack(7, 8).to_bytes();
    let with = |at: usize, byte: u8| {
        let mut record = good;
        record[at] = byte;
        record
    };
    let mut mention_of_nothing = good;
    mention_of_nothing[0] = MENTION;
    let bad = [
        with(0, 0),  // no operation
        with(0, 4),  // an operation that is not known
        with(1, 1),  // reserved
        with(3, 1),  // reserved
        with(4, 1),  // an argument that an acknowledgement does not have
        with(8, 0),  // user 0
        with(16, 0), // channel 0
        with(24, 0), // message 0
        mention_of_nothing,
    ];
    let mut encoder = BatchEncoder::default();
    for record in &bad {
        encoder.push_raw(record);
        encoder.push_raw(&good);
    }
    let frame = encoder.finish();
    let records: Vec<_> = BatchRequest::parse(&frame).unwrap().records().collect();
    for pair in records.chunks(2) {
        assert_eq!(pair, [Err(BadRecord), Ok(ack(7, 8))]);
    }
}

#[test]
fn the_largest_frame_fits_into_a_body_and_one_more_record_is_refused() {
    let mut encoder = BatchEncoder::with_capacity(MAX_RECORDS + 1);
    for _ in 0..MAX_RECORDS {
        encoder.push(&ack(1, 1));
    }
    let full = encoder.clone().finish();
    assert!(full.len() <= 4 << 20);
    assert_eq!(BatchRequest::parse(&full).unwrap().raw().len(), MAX_RECORDS);
    encoder.push(&ack(1, 1));
    let over = encoder.finish();
    assert_eq!(
        BatchRequest::parse(&over).unwrap_err(),
        FrameError::Count(65_537)
    );
}

fn any_record() -> impl Strategy<Value = Record> {
    let operation = prop_oneof![
        Just(RecordOperation::Ack),
        any::<u32>().prop_map(|mention_count| RecordOperation::Manual { mention_count }),
        (1..=u32::MAX).prop_map(|count| RecordOperation::Mention { count }),
    ];
    let ids = [1..=u64::MAX, 1..=u64::MAX, 1..=u64::MAX];
    (operation, ids).prop_map(|(operation, [user, channel, message])| Record {
        operation,
        user: id(user),
        channel: id(channel),
        message: id(message),
    })
}

proptest! {
    #[test]
    fn what_was_written_is_read(records in prop::collection::vec(any_record(), 1..50)) {
        let frame = frame(&records);
        let read: Result<Vec<Record>, BadRecord> =
            BatchRequest::parse(&frame).unwrap().records().collect();
        prop_assert_eq!(read, Ok(records));
    }

    #[test]
    fn a_record_that_is_read_is_written_as_it_was(bytes in any::<[u8; 32]>(), op in 0..5_u8) {
        let mut bytes = bytes;
        // Most bytes at random have an operation that is not known, or reserved bits.
        bytes[..4].copy_from_slice(&[op, 0, 0, 0]);
        if let Ok(record) = Record::from_bytes(&bytes) {
            prop_assert_eq!(record.to_bytes(), bytes);
        }
    }

    #[test]
    fn no_bytes_panic(
        head in prop_oneof![Just(&b"RSB1\x01\0\0\0"[..]), Just(&b"RSR1\x01\0\0\0"[..]), Just(&[][..])],
        count in 0..5_u32,
        rest in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let bytes = [head, &count.to_le_bytes(), &rest].concat();
        if let Ok(request) = BatchRequest::parse(&bytes) {
            prop_assert_eq!(request.records().len(), request.raw().len());
        }
        if let Ok(outcomes) = parse_answer(&bytes) {
            prop_assert!(outcomes.len() >= 1);
        }
    }
}
