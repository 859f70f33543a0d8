#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

use super::*;

#[test]
fn a_refusal_of_a_part_says_what_the_sender_can_do() {
    // In version 1 there is nothing else to say.
    for &problem in ProblemType::ALL {
        let outcome = match problem {
            ProblemType::OutcomeUnknown => RecordOutcome::Unknown,
            _ => RecordOutcome::NotTaken,
        };
        assert_eq!(First::failed(problem), outcome, "{problem}");
    }
    let table = [
        (ProblemType::OutcomeUnknown, Row::Unknown),
        (ProblemType::TooManyReadStates, Row::Full),
        (ProblemType::MalformedBody, Row::OwnerTooOld),
        (ProblemType::DatabaseAway, Row::NotTaken),
        (ProblemType::RingDisagreement, Row::NotTaken),
    ];
    for (problem, row) in table {
        assert_eq!(Second::failed(problem), row, "{problem}");
    }
}

#[test]
fn a_read_of_a_caller_that_may_not_is_answered_and_its_changes_are_made() {
    let id = |number| Id::new(number).unwrap();
    let (user, channel) = (id(1), id(2));
    let read = Entry::Read { user, channel };
    let ack = Entry::Change(Record {
        operation: RecordOperation::Ack,
        user,
        channel,
        message: id(3),
    });
    assert_eq!(Second::entry(&read.to_bytes(), false), Err(Row::Forbidden));
    assert_eq!(Second::entry(&read.to_bytes(), true), Ok((1, read)));
    assert_eq!(Second::entry(&ack.to_bytes(), false), Ok((1, ack)));
    let of_version_1 = First::entry(&read.to_bytes(), true);
    assert_eq!(of_version_1, Err(RecordOutcome::Bad));
}

#[test]
fn a_row_says_what_was_seen() {
    let state = State {
        channel: 2,
        last_message: 0,
        mention_count: 3,
        flags: 4,
        last_viewed: 5,
        last_pin_millis: 6,
        version: 7,
    };
    let numbers = StateNumbers {
        last_message_id: None,
        mention_count: 3,
        flags: 4,
        last_viewed: 5,
        last_pin_timestamp: Some(Timestamp::from_millisecond(6).unwrap()),
        version: Version(7),
    };
    let done = |outcome, state| {
        Second::done(StateSeen {
            outcome,
            version: 8,
            state,
        })
    };
    let version = Version(8);
    let (state, numbers) = (Some(state), numbers);
    let applied = Row::Applied {
        version,
        state: numbers,
    };
    assert_eq!(done(Some(Outcome::Applied), state), applied);
    let ignored = Row::Ignored {
        version,
        state: numbers,
    };
    assert_eq!(done(Some(Outcome::Ignored), state), ignored);
    let found = Row::Found {
        version,
        state: numbers,
    };
    assert_eq!(done(None, state), found);
    assert_eq!(done(None, None), Row::Absent { version });
}
