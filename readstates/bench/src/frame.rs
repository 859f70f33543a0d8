//! Operations as a batch frame, and its answer.

use readstates_api::{
    Id,
    batch::{BatchEncoder, Record, RecordOperation, RecordOutcome, parse_answer},
};

use crate::{
    answer::{Answer, Failure},
    operation::{Kind, Operation},
    protocol::Unreadable,
};

/// Appends the frame. It can hold no reads, and ids are never 0: the source of the operations sees to both.
/// An operation that it cannot hold becomes a record that is refused, and so is counted.
pub(crate) fn encode(operations: &[Operation], output: &mut Vec<u8>) {
    let mut frame = BatchEncoder::with_capacity(operations.len());
    for operation in operations {
        match record(operation) {
            Some(record) => frame.push(&record),
            None => frame.push_raw(&[0; _]),
        }
    }
    output.extend_from_slice(&frame.finish());
}

fn record(operation: &Operation) -> Option<Record> {
    Some(Record {
        operation: match operation.kind {
            Kind::Ack => RecordOperation::Ack,
            Kind::Mention { amount } => RecordOperation::Mention { count: amount },
            Kind::Read => return None,
        },
        user: Id::new(operation.user)?,
        channel: Id::new(operation.channel)?,
        message: Id::new(operation.message)?,
    })
}

/// Reads the answer to a frame of `count` operations.
pub(crate) fn decode(
    body: &[u8],
    count: usize,
    answers: &mut Vec<Answer>,
) -> Result<(), Unreadable> {
    let outcomes = parse_answer(body).map_err(|_| Unreadable)?;
    if outcomes.len() != count {
        return Err(Unreadable);
    }
    answers.extend(outcomes.map(|outcome| match outcome {
        RecordOutcome::Applied => Answer::Applied,
        RecordOutcome::Ignored => Answer::Ignored,
        RecordOutcome::Bad => Answer::Failed(Failure::BadRecord),
        RecordOutcome::NotTaken => Answer::Failed(Failure::NotTaken),
        RecordOutcome::Unknown => Answer::Failed(Failure::OutcomeUnknown),
    }));
    Ok(())
}

#[cfg(test)]
mod tests {
    use readstates_api::batch::{BatchRequest, encode_answer};

    use super::*;

    #[test]
    fn a_frame_says_what_the_operations_do() {
        let operation = |kind| Operation {
            kind,
            user: 1,
            channel: 2,
            message: 3,
        };
        let kinds = [Kind::Ack, Kind::Mention { amount: 4 }, Kind::Read];
        let mut frame = Vec::new();
        encode(&kinds.map(operation), &mut frame);
        let records: Vec<_> = BatchRequest::parse(&frame).unwrap().records().collect();
        let expected = |operation| {
            let id = |number| Id::new(number).unwrap();
            Ok(Record {
                operation,
                user: id(1),
                channel: id(2),
                message: id(3),
            })
        };
        assert_eq!(records[0], expected(RecordOperation::Ack));
        assert_eq!(records[1], expected(RecordOperation::Mention { count: 4 }));
        assert!(records[2].is_err(), "a read is no record");
    }

    #[test]
    fn an_answer_of_another_length_is_none() {
        let answer = encode_answer(&[RecordOutcome::Applied, RecordOutcome::NotTaken]);
        let mut answers = Vec::new();
        decode(&answer, 2, &mut answers).unwrap();
        assert_eq!(
            answers,
            [Answer::Applied, Answer::Failed(Failure::NotTaken)]
        );
        assert_eq!(decode(&answer, 3, &mut answers), Err(Unreadable));
        assert_eq!(decode(b"", 0, &mut answers), Err(Unreadable));
    }
}
