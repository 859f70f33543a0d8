//! The versions of the frames: how each reads a record, and what it tells of it.

use jiff::Timestamp;
use readstates_api::{
    Id, ProblemType, Version,
    batch::{
        self, BatchEncoder, RawRecord, Record, RecordOperation, RecordOutcome,
        v2::{self, Entry, Row, StateNumbers},
    },
};

use crate::{
    block::{Operation, Outcome, State, Visit},
    cache::{Single, StateSeen, WithState},
    http::head::Head,
};

/// A version of the frames.
pub(super) trait Frames {
    /// A record as it is on the wire.
    type Raw: Copy + Send + Sync;
    /// A record that makes sense.
    type Entry: Copy + Send + Sync;
    /// What is done for it.
    type Single: Single;
    /// What is answered to it.
    type Answer: Copy + Send;

    /// What an answer takes in the frame.
    const ANSWER_BYTES: usize;

    /// Reads a record, or says what is answered to it. `may_read`: whether the caller may.
    fn entry(record: &Self::Raw, may_read: bool) -> Result<(u64, Self::Entry), Self::Answer>;

    /// Whether this is answered to a read of a caller that may not read.
    fn is_refused_read(answer: &Self::Answer) -> bool;

    /// Whether it comes whether the user is online or not, as a mention does.
    fn is_of_all(entry: &Self::Entry) -> bool;

    fn single(entry: Self::Entry) -> Self::Single;

    fn done(seen: <Self::Single as Single>::Seen) -> Self::Answer;

    /// The answer where this was the problem: of one record, or of all that went to another owner.
    fn failed(problem: ProblemType) -> Self::Answer;

    fn encode_request<'a>(records: impl ExactSizeIterator<Item = &'a Self::Raw>) -> Vec<u8>
    where
        Self::Raw: 'a;

    fn encode_answer(answers: &[Self::Answer]) -> Vec<u8>;

    fn parse_answer(frame: &[u8]) -> Option<Vec<Self::Answer>>;

    /// Notes what came of all records, where an audit line says so.
    fn note(head: &Head, answers: &[Self::Answer]) {
        let _ = (head, answers);
    }
}

/// Version 1: changes, and their outcomes.
pub(super) enum First {}

impl Frames for First {
    type Raw = RawRecord;
    type Entry = Record;
    type Single = Operation;
    type Answer = RecordOutcome;

    const ANSWER_BYTES: usize = 1;

    fn entry(record: &RawRecord, _: bool) -> Result<(u64, Record), RecordOutcome> {
        let record = Record::from_bytes(record).map_err(|_| RecordOutcome::Bad)?;
        Ok((record.user.get(), record))
    }

    fn is_refused_read(_: &RecordOutcome) -> bool {
        false
    }

    fn is_of_all(record: &Record) -> bool {
        matches!(record.operation, RecordOperation::Mention { .. })
    }

    fn single(record: Record) -> Operation {
        operation(record)
    }

    fn done(outcome: Outcome) -> RecordOutcome {
        match outcome {
            Outcome::Applied => RecordOutcome::Applied,
            Outcome::Ignored => RecordOutcome::Ignored,
        }
    }

    fn failed(problem: ProblemType) -> RecordOutcome {
        if problem == ProblemType::OutcomeUnknown {
            RecordOutcome::Unknown
        } else {
            RecordOutcome::NotTaken
        }
    }

    fn encode_request<'a>(records: impl ExactSizeIterator<Item = &'a RawRecord>) -> Vec<u8> {
        let mut frame = BatchEncoder::with_capacity(records.len());
        for record in records {
            frame.push_raw(record);
        }
        frame.finish()
    }

    fn encode_answer(outcomes: &[RecordOutcome]) -> Vec<u8> {
        batch::encode_answer(outcomes)
    }

    fn parse_answer(frame: &[u8]) -> Option<Vec<RecordOutcome>> {
        batch::parse_answer(frame).ok().map(Iterator::collect)
    }
}

/// Version 2: changes and reads, and the read states after them.
pub(super) enum Second {}

impl Frames for Second {
    type Raw = RawRecord;
    type Entry = Entry;
    type Single = WithState;
    type Answer = Row;

    const ANSWER_BYTES: usize = v2::ROW_BYTES;

    fn entry(record: &RawRecord, may_read: bool) -> Result<(u64, Entry), Row> {
        let entry = Entry::from_bytes(record).map_err(|_| Row::Bad)?;
        match entry {
            Entry::Read { .. } if !may_read => Err(Row::Forbidden),
            Entry::Read { .. } | Entry::Change(_) => Ok((entry.user().get(), entry)),
        }
    }

    fn is_refused_read(answer: &Row) -> bool {
        *answer == Row::Forbidden
    }

    fn is_of_all(entry: &Entry) -> bool {
        match entry {
            Entry::Change(record) => First::is_of_all(record),
            Entry::Read { .. } => false,
        }
    }

    fn single(entry: Entry) -> WithState {
        WithState {
            channel: entry.channel().get(),
            change: match entry {
                Entry::Change(record) => Some(operation(record)),
                Entry::Read { .. } => None,
            },
        }
    }

    fn done(seen: StateSeen) -> Row {
        let StateSeen {
            outcome,
            version,
            state,
        } = seen;
        let version = Version(version);
        match (outcome, state.as_ref().map(numbers)) {
            (Some(Outcome::Applied), Some(state)) => Row::Applied { version, state },
            (Some(Outcome::Ignored), Some(state)) => Row::Ignored { version, state },
            (None, Some(state)) => Row::Found { version, state },
            (None, None) => Row::Absent { version },
            // No change of a record leaves its channel without a state.
            (Some(Outcome::Applied | Outcome::Ignored), None) => Row::Unknown,
        }
    }

    fn failed(problem: ProblemType) -> Row {
        match problem {
            ProblemType::OutcomeUnknown => Row::Unknown,
            ProblemType::TooManyReadStates => Row::Full,
            // Of a frame that this member made: its owner does not know the version, and did nothing.
            ProblemType::MalformedBody => Row::OwnerTooOld,
            _ => Row::NotTaken,
        }
    }

    fn encode_request<'a>(records: impl ExactSizeIterator<Item = &'a RawRecord>) -> Vec<u8> {
        v2::encode_request(records.copied())
    }

    fn encode_answer(rows: &[Row]) -> Vec<u8> {
        v2::encode_answer(rows)
    }

    fn parse_answer(frame: &[u8]) -> Option<Vec<Row>> {
        v2::parse_answer(frame).ok()
    }
}

fn operation(record: Record) -> Operation {
    let (channel, message) = (record.channel.get(), record.message.get());
    let visit = Visit::default();
    match record.operation {
        RecordOperation::Ack => Operation::Ack {
            channel,
            message,
            visit,
        },
        RecordOperation::Manual { mention_count } => Operation::Manual {
            channel,
            message,
            mention_count,
            visit,
        },
        RecordOperation::Mention { count } => Operation::Mention {
            channel,
            message,
            count,
        },
    }
}

fn numbers(state: &State) -> StateNumbers {
    let State {
        channel: _,
        last_message,
        mention_count,
        flags,
        last_viewed,
        last_pin_millis,
        version,
    } = *state;
    let pin = i64::try_from(last_pin_millis)
        .ok()
        .filter(|&millis| millis > 0);
    StateNumbers {
        last_message_id: Id::new(last_message),
        mention_count,
        flags,
        last_viewed,
        last_pin_timestamp: pin.and_then(|millis| Timestamp::from_millisecond(millis).ok()),
        version: Version(version),
    }
}

#[cfg(test)]
mod tests;
