//! One message, many users: the fan-out of a mention.
//!
//! Users are grouped by owner. Those of this member are applied here; every other owner gets one
//! request with its part. A part that fails fails for its users alone, and says so in the answer.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures::future::{join, join_all};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use hyper::body::Incoming;
use readstates_api::{FailedUser, Id, MentionsAnswer, MentionsRequest, Problem, ProblemType};

use super::{
    App,
    asked::Asked,
    body::{self, Arrived},
    checked_mention::{Mention, checked},
    fan_out::{self, Part, Passes, Split},
    forward::{self, PART_TIMEOUT},
    head::Head,
    owner,
    passed::Passed,
    precondition,
    problem::Refusal,
    reply::{self, Answer},
    selection::Selection,
    target::Target,
};
use crate::{
    block::{Outcome, Precondition},
    cache::Touch,
    engine::NotDone,
    operation::{Class, Operation},
    ownership::Peer,
};

/// What the work on one user takes at most: itself, among those of its owner and among those who wait (both with the room
/// of a list that has grown), its place among those who are loaded, and its outcome.
const WORK_BYTES: usize = 5 * size_of::<Id>()
    + size_of::<u32>()
    + size_of::<Result<Outcome, NotDone>>()
    + size_of::<FailedUser>();

/// A message mentions users
///
/// Each user is mentioned once, even if it is listed several times or the request is sent again. After the read state
/// was deleted, a repeated mention is counted again; to avoid this, mention a single user at a version with `If-Match`.
#[utoipa::path(
    post, path = "/v1/mentions", operation_id = "mention", tag = "mentions", request_body = MentionsRequest,
    params(
        ("if-match" = Option<String>, Header, example = json!("\"57\""), pattern = "^(\\*|(W/)?\"[!#-~]*\"( *, *(W/)?\"[!#-~]*\")*)$",
         description = "With one user: the ETag of that user; the mention is applied only at this version"),
    ),
    responses(
        (status = 200, body = MentionsAnswer, description = "How many were applied, and which users failed"),
        super::schemas::VersionMoved,
        super::schemas::Refused,
    )
)]
pub(super) async fn mention(app: &App, head: &Head, content: Incoming) -> Answer {
    app.gates.look(Class::Mentions)?;
    let mut body = body::read(&app.gates, content).await?;
    let _permit = app.gates.enter(Class::Mentions)?;
    let _from = app
        .gates
        .enter_from(&app.ownership.routes(), &head.headers)?;
    let (mention, mut left) = checked(body::json(&head.headers, &body.bytes)?)?;
    if let Some(precondition) = precondition::if_match(&head.headers, Some(mention.channel))? {
        return alone(app, head, &mention, &left, precondition, &body).await;
    }
    body.count_work(&app.gates, left.len() * WORK_BYTES)?;
    body.done_with_bytes();
    let mut answer = MentionsAnswer::default();
    for _ in 0..fan_out::MOST_LOOKS {
        left = round(app, head, &mention, &left, &mut answer).await?;
        if left.is_empty() {
            return reply::value(&answer);
        }
        fan_out::decided(&app.ownership, &left).await;
    }
    fail(&mut answer, &left, ProblemType::SlotMoving);
    reply::value(&answer)
}

/// A mention of one user at a version of that user: all of it or nothing, and a refusal is one of the whole request.
async fn alone(
    app: &App,
    head: &Head,
    mention: &Mention,
    users: &[Id],
    precondition: Precondition,
    body: &Arrived,
) -> Answer {
    let &[user] = users else {
        let detail = "If-Match is the version of one user; mention one, or leave it out";
        return Err(Problem::new(ProblemType::BadValue, detail)
            .at("/user_ids")
            .into());
    };
    let asked = Asked {
        target: Target {
            user,
            channel: Some(mention.channel),
            selection: Selection::All,
        },
        head,
        body: &body.bytes,
        precondition: Some(precondition),
    };
    owner::answer(app, Operation::Mention, &asked, Some(body)).await
}

/// Does what can be done now; returns the users who are on the move.
async fn round(
    app: &App,
    head: &Head,
    mention: &Mention,
    users: &[Id],
    answer: &mut MentionsAnswer,
) -> Result<Vec<Id>, Refusal> {
    let Split {
        mine,
        passes,
        mut others,
        mut waiting,
    } = fan_out::by_owner(&app.ownership, &head.headers, users).await;
    let first = others.first().map(|part| &*part.owner);
    if let Some(refused) = owner::refuse_others(app, first, &head.headers)? {
        let users = others.iter().flat_map(|part| &part.items);
        fail(answer, users, refused);
        others.clear();
    }
    let here = apply(app, mention, mine, passes);
    let timeout = head.time_left(PART_TIMEOUT);
    let there = others
        .into_iter()
        .map(|part| pass(app, head, mention, part, timeout));
    let there = join_all(there);
    let (here, there) = join(here, there).await;
    for (part, moved) in std::iter::once(here).chain(there) {
        add(answer, part);
        waiting.extend(moved);
    }
    Ok(waiting)
}

/// Applies a mention to users of this member; returns also the users who are on the move.
async fn apply(
    app: &App,
    mention: &Mention,
    users: Vec<Id>,
    passes: Passes<'_>,
) -> (MentionsAnswer, Vec<Id>) {
    let operation = mention.operation();
    let done = passes.change(&app.engine, users, |_| operation, Touch::Mention);
    let (mut answer, mut moved) = (MentionsAnswer::default(), Vec::new());
    for (user_id, outcome) in done.await {
        match outcome {
            Ok(Outcome::Applied) => answer.applied += 1,
            Ok(Outcome::Ignored) => answer.ignored += 1,
            Err(ProblemType::SlotMoving) => moved.push(user_id),
            Err(problem) => answer.failed.push(FailedUser { user_id, problem }),
        }
    }
    (answer, moved)
}

/// Sends a part to its owner; returns also the users who are on the move.
async fn pass(
    app: &App,
    head: &Head,
    mention: &Mention,
    part: Part<Id>,
    timeout: Duration,
) -> (MentionsAnswer, Vec<Id>) {
    let mut answer = MentionsAnswer::default();
    let request = MentionsRequest {
        channel_id: mention.channel,
        message_id: mention.message,
        user_ids: part.items,
        count: Some(mention.count),
    };
    let json = HeaderValue::from_static("application/json");
    let (headers, span) = head.of_part(&part.owner.name, json);
    let sent = match serde_json::to_vec(&request) {
        Ok(body) => send(app, &request, &part.owner, &headers, body.into(), timeout).await,
        Err(error) => Err(Problem::new(ProblemType::MalformedBody, error.to_string())),
    };
    let Some(sent) = sent.transpose() else {
        return (answer, request.user_ids);
    };
    if let (Some(span), Ok((status, _))) = (span, &sent) {
        span.answered(*status, None);
    }
    match sent
        .map_err(Box::new)
        .and_then(|(status, body)| read_answer(status, &body))
    {
        Ok(part) => {
            app.metrics.forwards.increment(1);
            answer = part;
        }
        Err(problem) => {
            app.metrics.forward_failures.increment(1);
            fail(&mut answer, &request.user_ids, problem.problem);
        }
    }
    (answer, Vec::new())
}

/// Status and body of the owner's answer; `None` when it owns the user no more. A part of one user goes together with
/// other requests.
async fn send(
    app: &App,
    request: &MentionsRequest,
    owner: &Arc<Peer>,
    headers: &HeaderMap,
    body: Bytes,
    timeout: Duration,
) -> Result<Option<(StatusCode, Bytes)>, Problem> {
    let (path, forwarder) = (Operation::Mention.route(), &app.forwarder);
    let &[user] = &*request.user_ids else {
        let part = forwarder.part(&app.ownership, owner, path, headers, body, timeout);
        return part.await.map(Some);
    };
    let target = Target {
        user,
        channel: Some(request.channel_id),
        selection: Selection::All,
    };
    let part = Passed {
        at: forward::address(&app.ownership, owner).await?,
        method: &Method::POST,
        path_and_query: path,
        headers,
        body,
        timeout: timeout.min(forward::TIMEOUT),
    };
    forwarder
        .part_of_one(&app.ownership, owner, (Operation::Mention, target), part)
        .await
}

/// What another member answered for its part.
fn read_answer(status: StatusCode, body: &Bytes) -> Result<MentionsAnswer, Box<Problem>> {
    let unknown = |error: serde_json::Error| {
        let detail = format!("the owner answered {status} with what cannot be read: {error}");
        Box::new(Problem::new(ProblemType::OutcomeUnknown, detail))
    };
    if status == StatusCode::OK {
        return serde_json::from_slice(body).map_err(unknown);
    }
    Err(serde_json::from_slice(body).map_or_else(unknown, Box::new))
}

fn fail<'a>(
    answer: &mut MentionsAnswer,
    users: impl IntoIterator<Item = &'a Id>,
    problem: ProblemType,
) {
    answer.failed.extend(
        users
            .into_iter()
            .map(|&user_id| FailedUser { user_id, problem }),
    );
}

fn add(answer: &mut MentionsAnswer, part: MentionsAnswer) {
    let MentionsAnswer {
        applied,
        ignored,
        failed,
    } = part;
    answer.applied += applied;
    answer.ignored += ignored;
    answer.failed.extend(failed);
}
