//! Read states of another system, for many users in one call.

use http::Method;
use readstates_api::{
    Id, ProblemType,
    batch::{
        MAX_RECORDS, MEDIA_TYPE,
        v3::{self, Import, ImportOutcome},
    },
};

use crate::{
    error::{Error, Outcome},
    exchange::Request,
    many::Work,
};

/// What came of an import: see [`crate::Client::import`].
#[derive(Debug)]
#[non_exhaustive]
pub struct Imported {
    /// The outcome of each record, in order.
    pub outcomes: Vec<ImportOutcome>,
    /// Why records are left as [`ImportOutcome::NotTaken`] or [`ImportOutcome::Unknown`], where some are: the error of
    /// one of them.
    pub error: Option<Error>,
}

impl Imported {
    pub(crate) fn nothing_of(records: usize) -> Self {
        Self {
            outcomes: vec![ImportOutcome::NotTaken; records],
            error: None,
        }
    }
}

impl Work for Imported {
    /// A record and its place.
    type Item = (usize, Import);
    const OPERATION: &'static str = "import read states";
    const MOST: usize = MAX_RECORDS;

    fn user((_, record): &Self::Item) -> Id {
        record.user
    }

    fn repeats(_: &Self::Item) -> bool {
        true
    }

    fn request(&self, items: &[Self::Item]) -> Request {
        let records = items.iter().map(|(_, record)| record.to_bytes());
        let frame = v3::encode_request(records);
        Request {
            body: Some((MEDIA_TYPE, frame.into())),
            ..Request::plain(Self::OPERATION, Method::POST, "/v1/batch".into())
        }
    }

    fn read(&mut self, items: &[Self::Item], answer: &[u8]) -> Option<Vec<(usize, ProblemType)>> {
        let outcomes = v3::parse_answer(answer).ok()?;
        if outcomes.len() != items.len() {
            return None;
        }
        let mut open = Vec::new();
        for (index, (&(place, _), outcome)) in items.iter().zip(outcomes).enumerate() {
            match outcome {
                ImportOutcome::Applied
                | ImportOutcome::Ignored
                | ImportOutcome::Bad
                | ImportOutcome::Full
                | ImportOutcome::OwnerTooOld => self.outcomes[place] = outcome,
                ImportOutcome::NotTaken => open.push((index, ProblemType::Overloaded)),
                ImportOutcome::Unknown => open.push((index, ProblemType::OutcomeUnknown)),
            }
        }
        Some(open)
    }

    fn give_up(&mut self, (place, _): Self::Item, outcome: Outcome, why: &Error) {
        self.outcomes[place] = match outcome {
            Outcome::Unknown => ImportOutcome::Unknown,
            Outcome::NothingDone => ImportOutcome::NotTaken,
        };
        // One that does not pass tells more than one that does.
        if self
            .error
            .as_ref()
            .is_none_or(|before| before.passes() && !why.passes())
        {
            self.error = Some(why.clone());
        }
    }
}
