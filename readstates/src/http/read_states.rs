//! What is done to and read from one user's read states.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, Query, State, rejection::QueryRejection},
    response::{IntoResponse, Response},
};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use readstates_api::{
    AckAnswer, AckBulkAnswer, AckBulkRequest, AckBulkResult, AckRequest, DeleteAnswer, Id,
    MAX_BULK_ITEMS, PinsAckRequest, Problem, ProblemType, ReadState, ReadStates, Summary, Version,
};

use super::{
    App,
    body::{self, JsonBody, SinceQuery},
    problem::Refusal,
    view,
};
use crate::{
    block::{Operation, Outcome, Visit},
    cache::Touch,
};

type Answer<T> = Result<Json<T>, Refusal>;

/// All read states of a user, or what changed since a version
///
/// The full form is also the answer when `since` is ahead of the user, or older than what deletions
/// are remembered for.
#[utoipa::path(
    get, path = "/v1/users/{user}/read-states", tag = "read states",
    params(
        ("user" = Id, Path, description = "The user"),
        ("since" = Option<Version>, Query, description = "Only what changed after this version"),
        ("if-none-match" = Option<String>, Header, description = "The ETag of an earlier answer"),
    ),
    responses(
        (status = 200, body = ReadStates, description = "The read states, by channel",
         headers(("etag" = String, description = "The user's version, quoted"))),
        (status = 304, description = "The user's version is the one in If-None-Match"),
        (status = "default", body = Problem, content_type = "application/problem+json",
         description = "A refusal"),
    )
)]
pub(super) async fn list(
    State(app): State<Arc<App>>,
    Path(user): Path<String>,
    query: Result<Query<SinceQuery>, QueryRejection>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let user_id = body::id("the user", &user)?;
    let since = body::since(query)?;
    // A user who is being loaded is shown later, and elsewhere: the view takes along what it needs.
    let view = move |block: crate::block::BlockRef<'_>| {
        let etag = format!("\"{}\"", block.version());
        let known = body::none_match(&headers, &etag);
        (
            etag,
            (!known).then(|| view::read_states(user_id, block, since)),
        )
    };
    let (etag, states) = app.engine.read(user_id.get(), view).await?;
    let mut response = match states {
        Some(states) => Json(states).into_response(),
        None => StatusCode::NOT_MODIFIED.into_response(),
    };
    if let Ok(etag) = HeaderValue::from_str(&etag) {
        response.headers_mut().insert(header::ETAG, etag);
    }
    Ok(response)
}

/// The read state of one channel
#[utoipa::path(
    get, path = "/v1/users/{user}/read-states/{channel}", tag = "read states",
    params(("user" = Id, Path, description = "The user"),
           ("channel" = Id, Path, description = "The channel")),
    responses(
        (status = 200, body = ReadState, description = "The read state"),
        (status = "default", body = Problem, content_type = "application/problem+json",
         description = "A refusal; 404 when there is no read state"),
    )
)]
pub(super) async fn get(
    State(app): State<Arc<App>>,
    Path(ids): Path<(String, String)>,
) -> Answer<ReadState> {
    let (user, channel) = user_and_channel(&ids)?;
    let state = app
        .engine
        .read(user.get(), move |block| {
            block.state(channel.get()).and_then(view::read_state)
        })
        .await?;
    state.map(Json).ok_or_else(|| {
        let detail = format!("user {user} has no read state for channel {channel}");
        Problem::new(ProblemType::NoReadState, detail).into()
    })
}

/// The user has read a channel up to a message
///
/// Without `manual` this only moves forward; a message at or below the last one read changes nothing.
#[utoipa::path(
    post, path = "/v1/users/{user}/read-states/{channel}/ack", tag = "read states",
    params(("user" = Id, Path, description = "The user"),
           ("channel" = Id, Path, description = "The channel")),
    request_body = AckRequest,
    responses(
        (status = 200, body = AckAnswer, description = "Applied, or known already"),
        (status = "default", body = Problem, content_type = "application/problem+json",
         description = "A refusal"),
    )
)]
pub(super) async fn ack(
    State(app): State<Arc<App>>,
    Path(ids): Path<(String, String)>,
    JsonBody(request): JsonBody<AckRequest>,
) -> Answer<AckAnswer> {
    let (user, channel) = user_and_channel(&ids)?;
    let AckRequest {
        message_id,
        manual,
        mention_count,
        flags,
        last_viewed,
    } = request;
    let (channel, message) = (channel.get(), message_id.get());
    let visit = Visit { flags, last_viewed };
    let operation = match (manual, mention_count) {
        (true, count) => Operation::Manual {
            channel,
            message,
            mention_count: count.unwrap_or(0),
            visit,
        },
        (false, None) => Operation::Ack {
            channel,
            message,
            visit,
        },
        (false, Some(_)) => {
            let detail = "mention_count goes with manual: true only; \
                          without it the count follows from the message";
            return Err(Problem::new(ProblemType::BadValue, detail)
                .at("/mention_count")
                .into());
        }
    };
    acknowledge(&app, user, operation).await
}

/// The user has seen the pins made until a time
#[utoipa::path(
    post, path = "/v1/users/{user}/read-states/{channel}/pins/ack", tag = "read states",
    params(("user" = Id, Path, description = "The user"),
           ("channel" = Id, Path, description = "The channel")),
    request_body = PinsAckRequest,
    responses(
        (status = 200, body = AckAnswer, description = "Applied, or known already"),
        (status = "default", body = Problem, content_type = "application/problem+json",
         description = "A refusal"),
    )
)]
pub(super) async fn ack_pins(
    State(app): State<Arc<App>>,
    Path(ids): Path<(String, String)>,
    JsonBody(request): JsonBody<PinsAckRequest>,
) -> Answer<AckAnswer> {
    let (user, channel) = user_and_channel(&ids)?;
    let millis = u64::try_from(request.last_pin_timestamp.as_millisecond()).unwrap_or(0);
    if millis == 0 {
        let detail = "a pin was made after 1970-01-01T00:00:00Z";
        return Err(Problem::new(ProblemType::BadValue, detail)
            .at("/last_pin_timestamp")
            .into());
    }
    acknowledge(
        &app,
        user,
        Operation::AckPins {
            channel: channel.get(),
            millis,
        },
    )
    .await
}

/// The user has read many channels
///
/// All acknowledgements are applied in order, or none is when the request is refused.
#[utoipa::path(
    post, path = "/v1/users/{user}/read-states/ack-bulk", tag = "read states",
    params(("user" = Id, Path, description = "The user")),
    request_body = AckBulkRequest,
    responses(
        (status = 200, body = AckBulkAnswer, description = "What became of each, in order"),
        (status = "default", body = Problem, content_type = "application/problem+json",
         description = "A refusal"),
    )
)]
pub(super) async fn ack_bulk(
    State(app): State<Arc<App>>,
    Path(user): Path<String>,
    JsonBody(request): JsonBody<AckBulkRequest>,
) -> Answer<AckBulkAnswer> {
    let user = body::id("the user", &user)?;
    let items = request.read_states;
    if items.is_empty() {
        let detail = "read_states is empty; give 1 to 1000 acknowledgements";
        return Err(Problem::new(ProblemType::BadValue, detail)
            .at("/read_states")
            .into());
    }
    if items.len() > MAX_BULK_ITEMS {
        let detail = format!(
            "{} acknowledgements; send at most {MAX_BULK_ITEMS}",
            items.len()
        );
        return Err(Problem::new(ProblemType::TooManyItems, detail)
            .at("/read_states")
            .into());
    }
    let visit = Visit::default();
    let operations: Vec<Operation> = items
        .iter()
        .map(|item| {
            let (channel, message) = (item.channel_id.get(), item.message_id.get());
            Operation::Ack {
                channel,
                message,
                visit,
            }
        })
        .collect();
    let answer = app
        .engine
        .change(
            user.get(),
            &operations,
            Touch::Online,
            move |block, outcomes| AckBulkAnswer {
                version: Version(block.version()),
                results: items
                    .iter()
                    .zip(outcomes)
                    .map(|(item, &outcome)| AckBulkResult {
                        channel_id: item.channel_id,
                        applied: outcome == Outcome::Applied,
                    })
                    .collect(),
            },
        )
        .await?;
    Ok(Json(answer))
}

/// Delete the read state of a channel
#[utoipa::path(
    delete, path = "/v1/users/{user}/read-states/{channel}", tag = "read states",
    params(("user" = Id, Path, description = "The user"),
           ("channel" = Id, Path, description = "The channel")),
    responses(
        (status = 200, body = DeleteAnswer, description = "Deleted, or not there"),
        (status = "default", body = Problem, content_type = "application/problem+json",
         description = "A refusal"),
    )
)]
pub(super) async fn delete(
    State(app): State<Arc<App>>,
    Path(ids): Path<(String, String)>,
) -> Answer<DeleteAnswer> {
    let (user, channel) = user_and_channel(&ids)?;
    let operation = Operation::Delete {
        channel: channel.get(),
    };
    let answer = app
        .engine
        .change(
            user.get(),
            &[operation],
            Touch::Online,
            |block, outcomes| DeleteAnswer {
                applied: outcomes.contains(&Outcome::Applied),
                version: Version(block.version()),
            },
        )
        .await?;
    Ok(Json(answer))
}

/// Delete everything of a user
///
/// The user's version does not go back. The database is written at once, not after the interval.
#[utoipa::path(
    delete, path = "/v1/users/{user}", tag = "read states",
    params(("user" = Id, Path, description = "The user")),
    responses(
        (status = 204, description = "Everything is gone for readers"),
        (status = "default", body = Problem, content_type = "application/problem+json",
         description = "A refusal"),
    )
)]
pub(super) async fn delete_user(
    State(app): State<Arc<App>>,
    Path(user): Path<String>,
) -> Result<StatusCode, Refusal> {
    let user = body::id("the user", &user)?.get();
    app.engine
        .change(user, &[Operation::DeleteUser], Touch::Online, |_, _| ())
        .await?;
    app.engine.hurry(user);
    Ok(StatusCode::NO_CONTENT)
}

/// The totals of a user, for a badge
#[utoipa::path(
    get, path = "/v1/users/{user}/summary", tag = "read states",
    params(("user" = Id, Path, description = "The user")),
    responses(
        (status = 200, body = Summary, description = "The totals"),
        (status = "default", body = Problem, content_type = "application/problem+json",
         description = "A refusal"),
    )
)]
pub(super) async fn summary(
    State(app): State<Arc<App>>,
    Path(user): Path<String>,
) -> Answer<Summary> {
    let user = body::id("the user", &user)?;
    Ok(Json(
        app.engine
            .read(user.get(), move |block| view::summary(user, block))
            .await?,
    ))
}

fn user_and_channel((user, channel): &(String, String)) -> Result<(Id, Id), Refusal> {
    Ok((
        body::id("the user", user)?,
        body::id("the channel", channel)?,
    ))
}

/// Applies an operation on one channel and shows the state that it leaves.
async fn acknowledge(app: &App, user: Id, operation: Operation) -> Answer<AckAnswer> {
    let channel = operation.channel().unwrap_or_default();
    let answer = app
        .engine
        .change(
            user.get(),
            &[operation],
            Touch::Online,
            move |block, outcomes| {
                let state = block.state(channel).and_then(view::read_state)?;
                Some(AckAnswer {
                    applied: outcomes.contains(&Outcome::Applied),
                    version: Version(block.version()),
                    read_state: state,
                })
            },
        )
        .await?;
    answer.map(Json).ok_or_else(|| {
        let detail = format!("user {user} has no read state for channel {channel}");
        Problem::new(ProblemType::NoReadState, detail).into()
    })
}
