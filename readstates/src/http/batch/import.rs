//! Version 3 of the frames: read states of another system.

use jiff::Timestamp;
use readstates_api::{
    Id, Problem, ProblemType,
    batch::v3::{self, Import, ImportOutcome, RawRecord},
};

use super::version::Frames;
use crate::{
    access::Verb,
    block::{self, Operation, Outcome},
    http::{
        head::{Head, Imported},
        problem::Refusal,
    },
};

/// Whether the caller may import. Looked at once it is known that the frame asks for that.
pub(super) fn allowed(head: &Head) -> Result<(), Refusal> {
    if head.may_import() {
        return Ok(());
    }
    head.refuse(Verb::Import);
    let detail = "an import needs the verb import as well; add it to the caller's verbs";
    Err(Problem::new(ProblemType::Forbidden, detail).into())
}

/// Version 3.
pub(super) enum Third {}

impl Frames for Third {
    type Raw = RawRecord;
    type Entry = Import;
    type Single = Operation;
    type Answer = ImportOutcome;

    const ANSWER_BYTES: usize = 1;

    fn entry(record: &RawRecord, _: bool) -> Result<(u64, Import), ImportOutcome> {
        let record = Import::from_bytes(record).map_err(|_| ImportOutcome::Bad)?;
        Ok((record.user.get(), record))
    }

    fn is_refused_read(_: &ImportOutcome) -> bool {
        false
    }

    fn is_of_all(_: &Import) -> bool {
        true
    }

    fn single(record: Import) -> Operation {
        operation(record)
    }

    fn done(outcome: Outcome) -> ImportOutcome {
        match outcome {
            Outcome::Applied => ImportOutcome::Applied,
            Outcome::Ignored => ImportOutcome::Ignored,
        }
    }

    fn failed(problem: ProblemType) -> ImportOutcome {
        match problem {
            ProblemType::OutcomeUnknown => ImportOutcome::Unknown,
            ProblemType::TooManyReadStates => ImportOutcome::Full,
            // Of a frame that this member made: its owner does not know the version, and did nothing.
            ProblemType::MalformedBody => ImportOutcome::OwnerTooOld,
            _ => ImportOutcome::NotTaken,
        }
    }

    fn encode_request<'a>(records: impl ExactSizeIterator<Item = &'a RawRecord>) -> Vec<u8> {
        v3::encode_request(records.copied())
    }

    fn encode_answer(outcomes: &[ImportOutcome]) -> Vec<u8> {
        v3::encode_answer(outcomes)
    }

    fn parse_answer(frame: &[u8]) -> Option<Vec<ImportOutcome>> {
        v3::parse_answer(frame).ok()
    }

    fn note(head: &Head, outcomes: &[ImportOutcome]) {
        let applied = outcomes.iter();
        head.note_import(Imported {
            records: outcomes.len(),
            applied: applied
                .filter(|&&outcome| outcome == ImportOutcome::Applied)
                .count(),
        });
    }
}

fn operation(record: Import) -> Operation {
    let Import {
        user: _,
        channel,
        last_message_id,
        mention_count,
        counted_through,
        flags,
        last_viewed,
        last_pin_timestamp,
    } = record;
    let millis = last_pin_timestamp.map_or(0, Timestamp::as_millisecond);
    Operation::Import {
        channel: channel.get(),
        import: block::Import {
            message: last_message_id.map_or(0, Id::get),
            mention_count,
            counted_through: counted_through.map_or(0, Id::get),
            flags,
            last_viewed,
            // There are no pins before 1970.
            last_pin_millis: u64::try_from(millis).unwrap_or(0),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_of_a_part_says_what_the_sender_can_do() {
        for &problem in ProblemType::ALL {
            let expected = match problem {
                ProblemType::OutcomeUnknown => ImportOutcome::Unknown,
                ProblemType::TooManyReadStates => ImportOutcome::Full,
                ProblemType::MalformedBody => ImportOutcome::OwnerTooOld,
                _ => ImportOutcome::NotTaken,
            };
            assert_eq!(Third::failed(problem), expected, "{problem}");
        }
    }

    #[test]
    fn a_record_becomes_the_operation_with_all_its_numbers() {
        let id = |number| Id::new(number).unwrap();
        let record = Import {
            user: id(1),
            channel: id(2),
            last_message_id: Some(id(3)),
            mention_count: 4,
            counted_through: Some(id(5)),
            flags: Some(6),
            last_viewed: 7,
            last_pin_timestamp: Some(Timestamp::from_millisecond(8).unwrap()),
        };
        let import = block::Import {
            message: 3,
            mention_count: 4,
            counted_through: 5,
            flags: Some(6),
            last_viewed: 7,
            last_pin_millis: 8,
        };
        let expected = Operation::Import { channel: 2, import };
        let read = Third::entry(&record.to_bytes(), false).unwrap();
        assert_eq!((read.0, Third::single(read.1)), (1, expected));
        assert_eq!(Third::entry(&[0; 56], true), Err(ImportOutcome::Bad));
    }
}
