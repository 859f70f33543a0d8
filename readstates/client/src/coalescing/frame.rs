//! One frame: its records, and what the rows of its answer mean for each.

use std::sync::Arc;

use http::Method;
use readstates_api::{
    Id, ProblemType,
    batch::{
        MEDIA_TYPE, RecordOperation,
        v2::{self, Entry, Row},
    },
};
use readstates_queues::MOST_RECORDS;

use super::{
    sender,
    waiting::{Done, Inner, Waiting},
};
use crate::{
    error::{Error, Outcome},
    exchange::Request,
    many::Work,
};

/// Operations that are sent together, until each is answered.
pub(super) struct Frame {
    inner: Arc<Inner>,
    /// By their places; taken when they are answered.
    waiting: Vec<Option<Waiting>>,
    /// Those that their owner does not take in a frame.
    alone: Vec<Waiting>,
    /// Whether a member refused all of it, since it does not know the version.
    refused: bool,
}

impl Frame {
    pub(super) fn new(inner: Arc<Inner>, waiting: impl Iterator<Item = Waiting>) -> Self {
        Self {
            inner,
            waiting: waiting.map(Some).collect(),
            alone: Vec::new(),
            refused: false,
        }
    }

    /// The records, with their places.
    pub(super) fn items(&self) -> Vec<(usize, Entry)> {
        let waiting = self.waiting.iter().enumerate();
        waiting
            .filter_map(|(place, waiting)| Some((place, waiting.as_ref()?.entry)))
            .collect()
    }

    /// Those that are to be sent alone; none of them is a part of the frame any more.
    pub(super) fn take_alone(&mut self) -> Vec<Waiting> {
        std::mem::take(&mut self.alone)
    }

    pub(super) fn set_all_apart(&mut self) {
        let waiting = self.waiting.iter_mut().filter_map(Option::take);
        self.alone.extend(waiting);
    }

    /// Whether a member refused all of it, since it does not know the version.
    pub(super) fn was_refused(&self) -> bool {
        self.refused
    }

    fn end(&mut self, place: usize, result: Result<Done, Error>) {
        if let Some(waiting) = self.waiting.get_mut(place).and_then(Option::take) {
            sender::end(&self.inner, [(waiting, result)]);
        }
    }

    fn set_apart(&mut self, place: usize) {
        let waiting = self.waiting.get_mut(place).and_then(Option::take);
        self.alone.extend(waiting);
    }
}

/// What a row says about its record.
enum Meaning {
    Done(Done),
    /// It stays open, or is refused.
    Open(ProblemType),
    /// The owner does not take it in a frame.
    Alone,
}

impl Work for Frame {
    /// A record and its place.
    type Item = (usize, Entry);
    const OPERATION: &'static str = "apply a frame";
    const MOST: usize = MOST_RECORDS;

    fn user((_, entry): &Self::Item) -> Id {
        entry.user()
    }

    fn repeats((_, entry): &Self::Item) -> bool {
        repeats(entry)
    }

    fn request(&self, items: &[Self::Item]) -> Request {
        let frame = v2::encode_request(items.iter().map(|(_, entry)| entry.to_bytes()));
        Request {
            body: Some((MEDIA_TYPE, frame.into())),
            ..Request::plain(Self::OPERATION, Method::POST, "/v1/batch".into())
        }
    }

    fn read(&mut self, items: &[Self::Item], answer: &[u8]) -> Option<Vec<(usize, ProblemType)>> {
        let rows = v2::parse_answer(answer).ok()?;
        if rows.len() != items.len() {
            return None;
        }
        // All of it makes sense before any of it counts.
        let meanings = items.iter().zip(rows);
        let meanings: Option<Vec<Meaning>> = meanings
            .map(|((_, entry), row)| meaning(entry, row))
            .collect();
        let (mut open, mut done) = (Vec::new(), Vec::with_capacity(items.len()));
        for (index, (meaning, &(place, _))) in meanings?.into_iter().zip(items).enumerate() {
            match meaning {
                Meaning::Done(came) => {
                    let waiting = self.waiting.get_mut(place).and_then(Option::take);
                    done.extend(waiting.map(|waiting| (waiting, Ok(came))));
                }
                Meaning::Open(problem) => open.push((index, problem)),
                Meaning::Alone => self.set_apart(place),
            }
        }
        sender::end(&self.inner, done);
        Some(open)
    }

    fn give_up(&mut self, (place, entry): Self::Item, outcome: Outcome, why: &Error) {
        // A whole frame that was refused as malformed: the member does not know its version.
        if why.problem() == Some(ProblemType::MalformedBody) {
            self.refused = true;
            self.set_apart(place);
        } else {
            self.end(place, Err(operation_of(&entry, outcome, why)));
        }
    }
}

fn meaning(entry: &Entry, row: Row) -> Option<Meaning> {
    let done = |applied, version, state: Option<v2::StateNumbers>| {
        let state = state.map(|state| state.of_channel(entry.channel()));
        Meaning::Done(Done {
            applied,
            version,
            state,
        })
    };
    Some(match (entry, row) {
        (Entry::Change(_), Row::Applied { version, state }) => done(true, version, Some(state)),
        (Entry::Change(_), Row::Ignored { version, state }) => done(false, version, Some(state)),
        (Entry::Read { .. }, Row::Found { version, state }) => done(false, version, Some(state)),
        (Entry::Read { .. }, Row::Absent { version }) => done(false, version, None),
        (_, Row::Bad) => Meaning::Open(ProblemType::BadValue),
        (_, Row::NotTaken) => Meaning::Open(ProblemType::Overloaded),
        (_, Row::Unknown) => Meaning::Open(ProblemType::OutcomeUnknown),
        (_, Row::Full) => Meaning::Open(ProblemType::TooManyReadStates),
        (_, Row::Forbidden) => Meaning::Open(ProblemType::Forbidden),
        (_, Row::OwnerTooOld) => Meaning::Alone,
        (Entry::Change(_), Row::Found { .. } | Row::Absent { .. })
        | (Entry::Read { .. }, Row::Applied { .. } | Row::Ignored { .. }) => return None,
    })
}

/// Whether an operation may be sent again when its outcome is unknown.
fn repeats(entry: &Entry) -> bool {
    match entry {
        Entry::Read { .. } => true,
        Entry::Change(record) => match record.operation {
            RecordOperation::Ack | RecordOperation::Mention { .. } => true,
            // It would undo what the user has done since.
            RecordOperation::Manual { .. } => false,
        },
    }
}

/// The error of one operation of a frame that failed in this way.
pub(super) fn operation_of(entry: &Entry, outcome: Outcome, why: &Error) -> Error {
    let (operation, outcome) = match entry {
        Entry::Read { .. } => ("read a state", Outcome::NothingDone),
        Entry::Change(record) => match record.operation {
            RecordOperation::Ack | RecordOperation::Manual { .. } => {
                ("acknowledge a message", outcome)
            }
            RecordOperation::Mention { .. } => ("mention a user", outcome),
        },
    };
    Error {
        operation,
        outcome,
        repeats: repeats(entry),
        ..why.clone()
    }
}
