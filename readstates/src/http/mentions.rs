//! One message, many users: the fan-out of a mention.
//!
//! Users are grouped by owner. Those of this member are applied here; every other owner gets one
//! request with its part. A part that fails fails for its users alone, and says so in the answer.

use bytes::Bytes;
use futures::future::{join, join_all};
use http::{HeaderValue, StatusCode, request::Parts};
use hyper::body::Incoming;
use readstates_api::{
    FailedUser, Id, MAX_MENTIONED_USERS, MentionsAnswer, MentionsRequest, Problem, ProblemType,
};

use super::{
    App, body,
    fan_out::{self, Part},
    owner,
    problem::{Refusal, problem_type},
    reply::{self, Answer},
    route::Class,
};
use crate::{
    block::{Operation, Outcome},
    cache::Touch,
};

/// A message mentions users
///
/// Each user is mentioned once, however often it is listed or the message is sent again.
#[utoipa::path(
    post, path = "/v1/mentions", tag = "mentions", request_body = MentionsRequest,
    responses(
        (status = 200, body = MentionsAnswer, description = "How many were applied; who failed"),
        super::openapi::Refused,
    )
)]
pub(super) async fn mention(app: &App, parts: &Parts, content: Incoming) -> Answer {
    app.gates.look(Class::Mentions)?;
    let body = body::read(&app.gates, content).await?;
    let _permit = app.gates.enter(Class::Mentions)?;
    let _from = app.gates.enter_from(&parts.headers)?;
    let mention = checked(body::json(&parts.headers, &body.bytes)?)?;
    drop(body);
    let by_user = mention.users.iter().map(|&user| (user.get(), user));
    let (mine, others) = fan_out::by_owner(&app.membership, by_user);
    let mut answer = MentionsAnswer::default();
    let first = others.first().map(|part| part.owner);
    if let Some(refused) = owner::refuse_others(app, first, &parts.headers)? {
        let users = others.iter().flat_map(|part| &part.items);
        fail(&mut answer, users, refused);
        add(&mut answer, apply(app, &mention, mine).await);
        return reply::value(&answer);
    }
    let here = apply(app, &mention, mine);
    let there = join_all(others.into_iter().map(|part| pass(app, &mention, part)));
    let (here, there) = join(here, there).await;
    for part in std::iter::once(here).chain(there) {
        add(&mut answer, part);
    }
    reply::value(&answer)
}

/// A mention that is in range, its users sorted and each there once.
struct Mention {
    channel: Id,
    message: Id,
    count: u32,
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

/// Applies a mention to users of this member.
async fn apply(app: &App, mention: &Mention, users: Vec<Id>) -> MentionsAnswer {
    let operation = Operation::Mention {
        channel: mention.channel.get(),
        message: mention.message.get(),
        count: mention.count,
    };
    let operations: Vec<_> = users.iter().map(|user| (user.get(), operation)).collect();
    let outcomes = app.engine.change_many(&operations, Touch::Mention).await;
    let mut answer = MentionsAnswer::default();
    for (user_id, outcome) in users.into_iter().zip(outcomes) {
        match outcome {
            Ok(Outcome::Applied) => answer.applied += 1,
            Ok(Outcome::Ignored) => answer.ignored += 1,
            Err(not_done) => {
                let problem = problem_type(not_done);
                answer.failed.push(FailedUser { user_id, problem });
            }
        }
    }
    answer
}

/// Sends a part to its owner.
async fn pass(app: &App, mention: &Mention, part: Part<'_, Id>) -> MentionsAnswer {
    let mut answer = MentionsAnswer::default();
    let request = MentionsRequest {
        channel_id: mention.channel,
        message_id: mention.message,
        user_ids: part.items,
        count: Some(mention.count),
    };
    let json = HeaderValue::from_static("application/json");
    let sent = match serde_json::to_vec(&request) {
        Ok(body) => {
            app.forwarder
                .part(part.index, part.owner, "/v1/mentions", json, body.into())
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
