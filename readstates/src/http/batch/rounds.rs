//! The records of a frame, done by the owners of their users.
//!
//! Records are grouped by owner. Those of this member are applied here; every other owner gets one
//! request with its part, in the version and the order in which the records came. A part that fails fails for its
//! records alone, and says so in the answer.

use std::time::Duration;

use bytes::Bytes;
use futures::future::{join, join_all};
use http::{HeaderValue, StatusCode};
use readstates_api::{Problem, ProblemType, batch::MEDIA_TYPE};

use super::version::Frames;
use crate::{
    access::Verb,
    cache::{OfUser, Single, Touch},
    engine::NotDone,
    http::{
        App,
        fan_out::{self, Part, Passes, Split},
        forward::PART_TIMEOUT,
        head::Head,
        owner,
        problem::Refusal,
    },
    operation::Operation,
    ownership::Peer,
};

/// A record that makes sense.
#[derive(Clone, Copy)]
struct Placed<E> {
    user: u64,
    /// In the request.
    place: usize,
    entry: E,
}

impl<E: Copy + Send + Sync> OfUser for Placed<E> {
    fn user(&self) -> u64 {
        self.user
    }
}

/// What the work on one record takes at most: itself, among those of its owner and among those who wait (both with the
/// room of a list that has grown), its place among those whose users are loaded, what became of it, and what is answered
/// to it.
pub(super) const fn work_bytes<F: Frames>() -> usize {
    5 * size_of::<Placed<F::Entry>>()
        + size_of::<u32>()
        + size_of::<Result<<F::Single as Single>::Seen, NotDone>>()
        + size_of::<F::Answer>()
        + F::ANSWER_BYTES
}

/// Applies the records of a frame; returns what is answered to each.
pub(super) async fn apply<F: Frames>(
    app: &App,
    head: &Head,
    raw: &[F::Raw],
) -> Result<Vec<F::Answer>, Refusal> {
    // Stays for records whose users are still on the move in the end.
    let mut answers = vec![F::failed(ProblemType::SlotMoving); raw.len()];
    let mut left: Vec<Placed<F::Entry>> = Vec::with_capacity(raw.len());
    for (place, record) in raw.iter().enumerate() {
        match F::entry(record, head.may_read()) {
            Ok((user, entry)) => left.push(Placed { user, place, entry }),
            Err(answer) => {
                if F::is_refused_read(&answer) {
                    head.refuse(Verb::Read);
                }
                answers[place] = answer;
            }
        }
    }
    for _ in 0..fan_out::MOST_LOOKS {
        left = round::<F>(app, head, raw, &left, &mut answers).await?;
        if left.is_empty() {
            return Ok(answers);
        }
        fan_out::decided(&app.ownership, &left).await;
    }
    Ok(answers)
}

/// Does what can be done now; returns the records whose users are on the move.
async fn round<F: Frames>(
    app: &App,
    head: &Head,
    raw: &[F::Raw],
    records: &[Placed<F::Entry>],
    answers: &mut [F::Answer],
) -> Result<Vec<Placed<F::Entry>>, Refusal> {
    let Split {
        mine,
        passes,
        mut others,
        mut waiting,
    } = fan_out::by_owner(&app.ownership, &head.headers, records).await;
    let first = others.first().map(|part| &*part.owner);
    if let Some(refused) = owner::refuse_others(app, first, &head.headers)? {
        for record in others.iter().flat_map(|part| &part.items) {
            answers[record.place] = F::failed(refused);
        }
        others.clear();
    }
    if others.is_empty() {
        waiting.extend(here::<F>(app, mine, passes, answers).await);
        return Ok(waiting);
    }
    let timeout = head.time_left(PART_TIMEOUT);
    let there = join_all(
        others
            .iter()
            .map(|part| pass::<F>(app, head, part, raw, timeout)),
    );
    let (there, moved) = Box::pin(join(there, here::<F>(app, mine, passes, answers))).await;
    for (part, answered) in others.iter().zip(there) {
        for (record, answer) in part.items.iter().zip(answered) {
            answers[record.place] = answer;
        }
    }
    waiting.extend(moved);
    Ok(waiting)
}

/// Applies records of users of this member; returns those whose users are on the move.
async fn here<F: Frames>(
    app: &App,
    records: Vec<Placed<F::Entry>>,
    passes: Passes<'_>,
    answers: &mut [F::Answer],
) -> Vec<Placed<F::Entry>> {
    // Acknowledgements come from users who are online; mentions and imports are of all users, online or not.
    let of_all = records.iter().all(|record| F::is_of_all(&record.entry));
    let touch = if of_all {
        Touch::Mention
    } else {
        Touch::Online
    };
    let operation = |record: &Placed<F::Entry>| F::single(record.entry);
    let done = passes.change(&app.engine, records, operation, touch);
    let mut moved = Vec::new();
    for (record, done) in done.await {
        answers[record.place] = match done {
            Ok(seen) => F::done(seen),
            Err(ProblemType::SlotMoving) => {
                moved.push(record);
                continue;
            }
            Err(problem) => F::failed(problem),
        };
    }
    moved
}

/// Sends a part to its owner, as its records came.
async fn pass<F: Frames>(
    app: &App,
    head: &Head,
    part: &Part<Placed<F::Entry>>,
    raw: &[F::Raw],
    timeout: Duration,
) -> Vec<F::Answer> {
    let frame = F::encode_request(part.items.iter().map(|record| &raw[record.place]));
    let media_type = HeaderValue::from_static(MEDIA_TYPE);
    let (headers, span) = head.of_part(&part.owner.name, media_type);
    let sent = app
        .forwarder
        .part(
            &app.ownership,
            &part.owner,
            Operation::Batch.route(),
            &headers,
            frame.into(),
            timeout,
        )
        .await;
    if let (Some(span), Ok((status, _))) = (span, &sent) {
        span.answered(*status, None);
    }
    let answered = sent
        .map_err(|problem| problem.problem)
        .and_then(|(status, body)| read_answer::<F>(&part.owner, status, &body, part.items.len()));
    match answered {
        Ok(answers) => {
            app.metrics.forwards.increment(1);
            answers
        }
        Err(problem) => {
            app.metrics.forward_failures.increment(1);
            vec![F::failed(problem); part.items.len()]
        }
    }
}

/// What another member answered for its part.
fn read_answer<F: Frames>(
    owner: &Peer,
    status: StatusCode,
    body: &Bytes,
    records: usize,
) -> Result<Vec<F::Answer>, ProblemType> {
    if status != StatusCode::OK {
        // A refusal of the whole part: nothing was done, unless it says that the outcome is unknown.
        return Err(serde_json::from_slice::<Problem>(body)
            .map_or(ProblemType::OutcomeUnknown, |problem| problem.problem));
    }
    match F::parse_answer(body) {
        Some(answers) if answers.len() == records => Ok(answers),
        Some(_) | None => {
            tracing::warn!(owner = owner.name, "the answer to a batch cannot be read");
            Err(ProblemType::OutcomeUnknown)
        }
    }
}
