//! Many operations of many users, in binary.

use http::Method;
use readstates_api::{
    Id, ProblemType,
    batch::{self, BatchEncoder, MAX_RECORDS, MEDIA_TYPE, Record, RecordOperation, RecordOutcome},
};

use crate::{
    error::{Error, Outcome},
    exchange::Request,
    many::Work,
};

/// The outcomes of the records, in their order.
pub(crate) struct Batch {
    pub(crate) outcomes: Vec<RecordOutcome>,
}

impl Work for Batch {
    /// A record and its place.
    type Item = (usize, Record);
    const OPERATION: &'static str = "apply a batch";
    const MOST: usize = MAX_RECORDS;

    fn user((_, record): &Self::Item) -> Id {
        record.user
    }

    fn repeats((_, record): &Self::Item) -> bool {
        match record.operation {
            RecordOperation::Ack | RecordOperation::Mention { .. } => true,
            // It would undo what the user has done since.
            RecordOperation::Manual { .. } => false,
        }
    }

    fn request(&self, items: &[Self::Item]) -> Request {
        let mut frame = BatchEncoder::with_capacity(items.len());
        for (_, record) in items {
            frame.push(record);
        }
        Request {
            body: Some((MEDIA_TYPE, frame.finish().into())),
            ..Request::plain(Self::OPERATION, Method::POST, "/v1/batch".into())
        }
    }

    fn read(&mut self, items: &[Self::Item], answer: &[u8]) -> Option<Vec<(usize, ProblemType)>> {
        let outcomes = batch::parse_answer(answer).ok()?;
        if outcomes.len() != items.len() {
            return None;
        }
        let mut open = Vec::new();
        for (index, (&(place, _), outcome)) in items.iter().zip(outcomes).enumerate() {
            match outcome {
                RecordOutcome::Applied | RecordOutcome::Ignored | RecordOutcome::Bad => {
                    self.outcomes[place] = outcome;
                }
                RecordOutcome::NotTaken => open.push((index, ProblemType::Overloaded)),
                RecordOutcome::Unknown => open.push((index, ProblemType::OutcomeUnknown)),
            }
        }
        Some(open)
    }

    fn give_up(&mut self, (place, _): Self::Item, outcome: Outcome, _why: &Error) {
        self.outcomes[place] = match outcome {
            Outcome::Unknown => RecordOutcome::Unknown,
            Outcome::NothingDone => RecordOutcome::NotTaken,
        };
    }
}
