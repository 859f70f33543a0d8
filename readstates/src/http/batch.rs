//! `POST /v1/batch`: many operations of many users, in binary.
//!
//! Records are grouped by owner. Those of this member are applied here; every other owner gets one
//! request with its part, in the order in which the records came. A part that fails fails for its
//! records alone, and says so in the answer.

use std::time::Duration;

use bytes::Bytes;
use futures::future::{join, join_all};
use http::{HeaderValue, StatusCode};
use hyper::body::Incoming;
use readstates_api::{
    Problem, ProblemType,
    batch::{
        self, BatchEncoder, BatchRequest, MEDIA_TYPE, RECORD_BYTES, RawRecord, Record,
        RecordOperation, RecordOutcome,
    },
};

use readstates_ring::Slot;

use super::{
    App, body, deadline,
    fan_out::{self, Part, Passes, Split},
    head::Head,
    owner, precondition,
    problem::{Refusal, problem_type},
    reply::{self, Answer},
    route::Class,
};
use crate::{
    block::{Operation, Outcome, Visit},
    cache::Touch,
    engine::NotDone,
    forward::PART_TIMEOUT,
    ownership::Peer,
};

/// Many operations on many users, in binary
///
/// Little endian. A request is a header of 16 bytes (`RSB1`, version 1 as u8, flags 0 as u8, u16 0, the count of
/// records as u32, u32 0) and 1 to 65,536 records of 32 bytes (op as u8, u8 0, u16 0, arg as u32, user, channel and
/// message as u64). Op 1 acknowledges, 2 acknowledges manually (arg is the mention count), 3 mentions (arg is the
/// increment, at least 1). The answer is the same header with `RSR1`, then one byte for each record in order: 0
/// applied, 1 ignored, 2 bad record, 3 not accepted (try later), 4 outcome unknown (send again).
#[utoipa::path(
    post, path = "/v1/batch", operation_id = "applyBatch", tag = "batch",
    request_body(content = super::openapi::BatchFrame, content_type = "application/vnd.readstates.batch"),
    responses(
        (status = 200, body = super::openapi::BatchFrame,
         content_type = "application/vnd.readstates.batch",
         description = "The result of each record, in order"),
        super::openapi::Refused,
    )
)]
pub(super) async fn batch(app: &App, head: &Head, content: Incoming) -> Answer {
    body::require(&head.headers, MEDIA_TYPE)?;
    let of_one = "If-Match is the version of one user, and a batch is of many; leave it out";
    precondition::none(&head.headers, of_one)?;
    app.gates.look(Class::Batches)?;
    let mut body = body::read(&app.gates, content).await?;
    let _permit = app.gates.enter(Class::Batches)?;
    let _from = app
        .gates
        .enter_from(&app.ownership.routes(), &head.headers)?;
    let records = body.bytes.len() / RECORD_BYTES;
    body.count_work(&app.gates, records * WORK_BYTES)?;
    let request = BatchRequest::parse(&body.bytes)
        .map_err(|error| Problem::new(ProblemType::MalformedBody, error.to_string()))?;
    let outcomes = apply(app, head, request).await?;
    Ok(reply::typed(
        HeaderValue::from_static(MEDIA_TYPE),
        batch::encode_answer(&outcomes).into(),
    ))
}

/// A record that makes sense, and its place in the request.
type Placed = (usize, Record);

/// What the work on one record takes at most: itself as it waits and among those of its owner (there with
/// the room of a list that has grown), its operation, where it comes among those of its stripe, and
/// what became of it.
const WORK_BYTES: usize = 3 * size_of::<(u64, Placed)>()
    + size_of::<(u64, Operation)>()
    + size_of::<u32>()
    + size_of::<Result<Outcome, NotDone>>()
    + size_of::<RecordOutcome>();

async fn apply(
    app: &App,
    head: &Head,
    request: BatchRequest<'_>,
) -> Result<Vec<RecordOutcome>, Refusal> {
    let raw = request.raw();
    let mut outcomes = vec![RecordOutcome::Bad; raw.len()];
    let mut left: Vec<(u64, Placed)> = request
        .records()
        .enumerate()
        .filter_map(|(place, record)| Some((place, record.ok()?)))
        .map(|(place, record)| (record.user.get(), (place, record)))
        .collect();
    for _ in 0..fan_out::MOST_LOOKS {
        left = round(app, head, raw, &left, &mut outcomes).await?;
        if left.is_empty() {
            return Ok(outcomes);
        }
        fan_out::decided(&app.ownership, &left).await;
    }
    for (_, (place, _)) in left {
        outcomes[place] = RecordOutcome::NotTaken;
    }
    Ok(outcomes)
}

/// Does what can be done now; returns the records whose users are on the move.
async fn round(
    app: &App,
    head: &Head,
    raw: &[RawRecord],
    records: &[(u64, Placed)],
    outcomes: &mut [RecordOutcome],
) -> Result<Vec<(u64, Placed)>, Refusal> {
    let Split {
        mine,
        passes,
        mut others,
        mut waiting,
    } = fan_out::by_owner(&app.ownership, &head.headers, records).await;
    let first = others.first().map(|part| &*part.owner);
    if owner::refuse_others(app, first, &head.headers)?.is_some() {
        for (place, _) in others.iter().flat_map(|part| &part.items) {
            outcomes[*place] = RecordOutcome::NotTaken;
        }
        others.clear();
    }
    if others.is_empty() {
        waiting.extend(here(app, mine, passes, outcomes).await);
        return Ok(waiting);
    }
    let timeout = deadline::left(head, PART_TIMEOUT);
    let there = join_all(
        others
            .iter()
            .map(|part| pass(app, head, part, raw, timeout)),
    );
    let (there, moved) = Box::pin(join(there, here(app, mine, passes, outcomes))).await;
    for (part, answered) in others.iter().zip(there) {
        for ((place, _), outcome) in part.items.iter().zip(answered) {
            outcomes[*place] = outcome;
        }
    }
    waiting.extend(moved);
    Ok(waiting)
}

/// Applies records of users of this member; returns those whose users are on the move.
async fn here(
    app: &App,
    records: Vec<(u64, Placed)>,
    passes: Passes<'_>,
    outcomes: &mut [RecordOutcome],
) -> Vec<(u64, Placed)> {
    let operations: Vec<(u64, Operation)> = records
        .iter()
        .map(|&(user, (_, record))| (user, operation(record)))
        .collect();
    // Acknowledgements come from users who are online; mentions are made to all users, online or not.
    let online =
        |(_, operation): &(u64, Operation)| !matches!(operation, Operation::Mention { .. });
    let touch = if operations.iter().any(online) {
        Touch::Online
    } else {
        Touch::Mention
    };
    let done = app.engine.change_many(&operations, touch).await;
    let users = operations.iter().map(|&(user, _)| user);
    let settled = app.engine.settled_all(users).await;
    let lost = passes.lost();
    drop(passes);
    let mut moved = Vec::new();
    for ((user, (place, record)), done) in records.into_iter().zip(done) {
        if done.is_ok() && (!settled || lost.contains(Slot::of_user(user))) {
            outcomes[place] = RecordOutcome::Unknown;
        } else if done.is_err_and(|not_done| problem_type(not_done) == ProblemType::SlotMoving) {
            moved.push((user, (place, record)));
        } else {
            outcomes[place] = outcome(done);
        }
    }
    moved
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

fn outcome(done: Result<Outcome, NotDone>) -> RecordOutcome {
    match done {
        Ok(Outcome::Applied) => RecordOutcome::Applied,
        Ok(Outcome::Ignored) => RecordOutcome::Ignored,
        Err(not_done) => outcome_of_problem(problem_type(not_done)),
    }
}

fn outcome_of_problem(problem: ProblemType) -> RecordOutcome {
    if problem == ProblemType::OutcomeUnknown {
        RecordOutcome::Unknown
    } else {
        RecordOutcome::NotTaken
    }
}

/// Sends a part to its owner, as its records came.
async fn pass(
    app: &App,
    head: &Head,
    part: &Part<Placed>,
    raw: &[RawRecord],
    timeout: Duration,
) -> Vec<RecordOutcome> {
    let mut frame = BatchEncoder::with_capacity(part.items.len());
    for (place, _) in &part.items {
        frame.push_raw(&raw[*place]);
    }
    let media_type = HeaderValue::from_static(MEDIA_TYPE);
    let (headers, span) = head.of_part(&part.owner.name, media_type);
    let sent = app
        .forwarder
        .part(
            &app.ownership,
            &part.owner,
            "/v1/batch",
            &headers,
            frame.finish().into(),
            timeout,
        )
        .await;
    if let (Some(span), Ok((status, _))) = (span, &sent) {
        span.answered(*status, None);
    }
    let answered = sent
        .map_err(|problem| problem.problem)
        .and_then(|(status, body)| read_answer(&part.owner, status, &body, part.items.len()));
    match answered {
        Ok(outcomes) => {
            app.metrics.forwards.increment(1);
            outcomes
        }
        Err(problem) => {
            app.metrics.forward_failures.increment(1);
            vec![outcome_of_problem(problem); part.items.len()]
        }
    }
}

/// What another member answered for its part.
fn read_answer(
    owner: &Peer,
    status: StatusCode,
    body: &Bytes,
    records: usize,
) -> Result<Vec<RecordOutcome>, ProblemType> {
    if status != StatusCode::OK {
        // A refusal of the whole part: nothing was done, unless it says that the outcome is unknown.
        return Err(serde_json::from_slice::<Problem>(body)
            .map_or(ProblemType::OutcomeUnknown, |problem| problem.problem));
    }
    match batch::parse_answer(body) {
        Ok(outcomes) if outcomes.len() == records => Ok(outcomes.collect()),
        Ok(_) | Err(_) => {
            tracing::warn!(owner = owner.name, "the answer to a batch cannot be read");
            Err(ProblemType::OutcomeUnknown)
        }
    }
}
