//! One message, many users: the fan-out of a mention.
//!
//! Users are grouped by owner. Those of this member are applied here; every other owner gets one
//! request with its part. A part that fails fails for its users alone, and says so in the answer.

use std::sync::Arc;

use axum::{Json, extract::State};
use bytes::Bytes;
use futures::{StreamExt, future::join_all, stream};
use http::{HeaderMap, StatusCode};
use readstates_api::{
    FailedUser, Id, MAX_MENTIONED_USERS, MentionsAnswer, MentionsRequest, Problem, ProblemType,
    headers,
};

use super::{
    App,
    body::JsonBody,
    owner,
    problem::{Refusal, problem_type},
};
use crate::{
    block::{BlockRef, Operation, Outcome},
    cache::Touch,
    engine::NotDone,
    membership::{Member, Owner},
};

/// Users of one request that are worked on at once: most are answered from memory, the others wait for
/// the store.
const AT_ONCE: usize = 64;
/// Users after which other requests get a turn.
const TURN: usize = 256;

/// A message mentions users
///
/// Each user is mentioned once, however often it is listed or the message is sent again.
#[utoipa::path(
    post, path = "/v1/mentions", tag = "mentions", request_body = MentionsRequest,
    responses(
        (status = 200, body = MentionsAnswer, description = "How many were applied; who failed"),
        (status = "default", body = Problem, content_type = "application/problem+json",
         description = "A refusal"),
    )
)]
pub(super) async fn mention(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    JsonBody(request): JsonBody<MentionsRequest>,
) -> Result<Json<MentionsAnswer>, Refusal> {
    let Ok(_permit) = app.mentions.try_acquire() else {
        let detail = "as many mentions are being handled as may be; try again later";
        return Err(Problem::new(ProblemType::Overloaded, detail).into());
    };
    let mention = checked(request)?;
    let (mine, others) = by_owner(&app, &mention.users);
    let mut answer = MentionsAnswer::default();
    if let Some(refused) = refuse(&app, &others, &headers)? {
        fail(
            &mut answer,
            others.iter().flat_map(|part| &part.users),
            refused,
        );
        add(&mut answer, apply(&app, &mention, mine).await);
        return Ok(Json(answer));
    }
    let here = apply(&app, &mention, mine);
    let there = join_all(others.into_iter().map(|part| pass(&app, &mention, part)));
    let (here, there) = futures::future::join(here, there).await;
    for part in std::iter::once(here).chain(there) {
        add(&mut answer, part);
    }
    Ok(Json(answer))
}

/// A mention that is in range, its users sorted and each there once.
struct Mention {
    channel: Id,
    message: Id,
    count: u32,
    users: Vec<Id>,
}

/// The users of another member.
struct Part<'a> {
    index: usize,
    owner: &'a Member,
    users: Vec<Id>,
}

fn checked(request: MentionsRequest) -> Result<Mention, Refusal> {
    let MentionsRequest {
        channel_id,
        message_id,
        mut user_ids,
        count,
    } = request;
    let most = MAX_MENTIONED_USERS;
    if user_ids.is_empty() {
        let detail = format!("user_ids is empty; give 1 to {most} users");
        return Err(Problem::new(ProblemType::BadValue, detail)
            .at("/user_ids")
            .into());
    }
    if user_ids.len() > most {
        let detail = format!(
            "{} users; send at most {most} in one request",
            user_ids.len()
        );
        return Err(Problem::new(ProblemType::TooManyItems, detail)
            .at("/user_ids")
            .into());
    }
    let count = count.unwrap_or(1);
    if count == 0 {
        let detail = "count is 0; give at least 1";
        return Err(Problem::new(ProblemType::BadValue, detail)
            .at("/count")
            .into());
    }
    user_ids.sort_unstable();
    user_ids.dedup();
    Ok(Mention {
        channel: channel_id,
        message: message_id,
        count,
        users: user_ids,
    })
}

fn by_owner<'a>(app: &'a App, users: &[Id]) -> (Vec<Id>, Vec<Part<'a>>) {
    let mut mine = Vec::new();
    let mut others: Vec<Part<'a>> = Vec::new();
    // Where the part of each member is in `others`.
    let mut places = vec![None; app.membership.members().len()];
    for &user in users {
        match app.membership.owner(user.get()) {
            Owner::Me => mine.push(user),
            Owner::Other(index, owner) => {
                let place = *places[index].get_or_insert_with(|| {
                    others.push(Part {
                        index,
                        owner,
                        users: Vec::new(),
                    });
                    others.len() - 1
                });
                others[place].users.push(user);
            }
        }
    }
    (mine, others)
}

/// Whether users of others are refused rather than passed on: the whole request when its sender chose
/// the owner itself, those users when another member did.
fn refuse(
    app: &App,
    others: &[Part<'_>],
    headers: &HeaderMap,
) -> Result<Option<ProblemType>, Refusal> {
    let Some(first) = others.first() else {
        return Ok(None);
    };
    match owner::not_here(app, first.owner, headers) {
        Some(problem) if headers.contains_key(headers::DIRECT) => Err(problem.into()),
        Some(problem) => Ok(Some(problem.problem)),
        None => Ok(None),
    }
}

/// Applies a mention to users of this member.
async fn apply(app: &App, mention: &Mention, users: Vec<Id>) -> MentionsAnswer {
    let mut answer = MentionsAnswer::default();
    for turn in users.chunks(TURN) {
        let changes: Vec<_> = turn
            .iter()
            .map(|&user| apply_one(app, mention, user))
            .collect();
        let mut outcomes = stream::iter(changes).buffer_unordered(AT_ONCE);
        while let Some((user_id, outcome)) = outcomes.next().await {
            match outcome {
                Ok(true) => answer.applied += 1,
                Ok(false) => answer.ignored += 1,
                Err(not_done) => {
                    let problem = problem_type(not_done);
                    answer.failed.push(FailedUser { user_id, problem });
                }
            }
        }
        tokio::task::yield_now().await;
    }
    answer
}

/// Whether the mention changed anything for one user.
async fn apply_one(app: &App, mention: &Mention, user: Id) -> (Id, Result<bool, NotDone>) {
    let operation = Operation::Mention {
        channel: mention.channel.get(),
        message: mention.message.get(),
        count: mention.count,
    };
    let applied = |_: BlockRef<'_>, outcomes: &[Outcome]| outcomes.contains(&Outcome::Applied);
    (
        user,
        app.engine
            .change(user.get(), &[operation], Touch::Mention, applied)
            .await,
    )
}

/// Sends a part to its owner.
async fn pass(app: &App, mention: &Mention, part: Part<'_>) -> MentionsAnswer {
    let mut answer = MentionsAnswer::default();
    let request = MentionsRequest {
        channel_id: mention.channel,
        message_id: mention.message,
        user_ids: part.users,
        count: Some(mention.count),
    };
    let sent = match serde_json::to_vec(&request) {
        Ok(body) => {
            app.forwarder
                .mention(part.index, part.owner, body.into())
                .await
        }
        Err(error) => Err(Problem::new(ProblemType::MalformedBody, error.to_string())),
    };
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
    answer
}

/// What another member made of its part.
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
