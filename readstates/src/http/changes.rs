//! Changes of one user. Each may carry `If-Match`, and is then made only at that version of the user.

use std::time::Duration;

use http::{StatusCode, header};
use readstates_api::{
    AckAnswer, AckBulkAnswer, AckBulkRequest, AckRequest, DeleteAnswer, MAX_BULK_ITEMS,
    MentionsAnswer, PinsAckRequest, Problem, ProblemType, UserDeleted, Version,
};
use tokio::time::Instant;

use super::{
    App,
    asked::{Asked, no_read_state},
    checked_mention, json,
    problem::Refusal,
    reply::{self, Answer},
    schemas::{OfChannel, OfUser, Refused, VersionMoved},
};
use crate::{
    block::{BlockRef, Operation, Outcome, Precondition, Visit},
    cache::{Refused as NotChanged, Touch},
    engine::{Change, NotDone},
    limit::Permit,
};

/// How long the deletion of a user waits for the database. A write takes milliseconds where the database is well;
/// what takes longer may take as long as the database is away. With the 3 s that a user may take to be loaded it is
/// less than the 6 s that another member waits for this one.
const WRITTEN_WITHIN: Duration = Duration::from_secs(2);

/// The user has read a channel up to a message
///
/// Without `manual`, the position only moves forward; a message at or before the last one read changes nothing.
#[utoipa::path(
    post, path = "/v1/users/{user}/read-states/{channel}/ack", operation_id = "ackReadState", tag = "read states",
    params(
        OfChannel,
        ("if-match" = Option<String>, Header, example = json!("\"57\""), pattern = "^(\\*|(W/)?\"[!#-~]*\"( *, *(W/)?\"[!#-~]*\")*)$", description = "The ETag of the user: apply only at this version"),
    ),
    request_body = AckRequest,
    responses(
        (status = 200, body = AckAnswer, description = "Applied, or already known"),
        VersionMoved,
        Refused,
    )
)]
pub(super) async fn ack(app: &App, asked: &Asked<'_>) -> Answer {
    let channel = asked.channel()?.get();
    let AckRequest {
        message_id,
        manual,
        mention_count,
        flags,
        last_viewed,
    } = asked.json()?;
    let message = message_id.get();
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
            let detail = "mention_count is valid only with manual: true; \
                          without it the count follows from the message";
            return Err(wrong(detail, "/mention_count"));
        }
    };
    acknowledge(app, asked, channel, operation).await
}

/// The user has seen all pins created up to a time
#[utoipa::path(
    post, path = "/v1/users/{user}/read-states/{channel}/pins/ack", operation_id = "ackPins", tag = "read states",
    params(
        OfChannel,
        ("if-match" = Option<String>, Header, example = json!("\"57\""), pattern = "^(\\*|(W/)?\"[!#-~]*\"( *, *(W/)?\"[!#-~]*\")*)$", description = "The ETag of the user: apply only at this version"),
    ),
    request_body = PinsAckRequest,
    responses(
        (status = 200, body = AckAnswer, description = "Applied, or already known"),
        VersionMoved,
        Refused,
    )
)]
pub(super) async fn ack_pins(app: &App, asked: &Asked<'_>) -> Answer {
    let channel = asked.channel()?.get();
    let PinsAckRequest { last_pin_timestamp } = asked.json()?;
    let millis = u64::try_from(last_pin_timestamp.as_millisecond()).unwrap_or(0);
    if millis == 0 {
        let detail = "a pin was made after 1970-01-01T00:00:00Z";
        return Err(wrong(detail, "/last_pin_timestamp"));
    }
    let operation = Operation::AckPins { channel, millis };
    acknowledge(app, asked, channel, operation).await
}

/// The user has read many channels
///
/// Acknowledgements are applied in order; if the request is refused, none is applied.
#[utoipa::path(
    post, path = "/v1/users/{user}/read-states/ack-bulk", operation_id = "ackReadStates", tag = "read states",
    params(
        OfUser,
        ("if-match" = Option<String>, Header, example = json!("\"57\""), pattern = "^(\\*|(W/)?\"[!#-~]*\"( *, *(W/)?\"[!#-~]*\")*)$", description = "The ETag of the user: apply only at this version"),
    ),
    request_body = AckBulkRequest,
    responses(
        (status = 200, body = AckBulkAnswer, description = "The result of each item, in order"),
        VersionMoved,
        Refused,
    )
)]
pub(super) async fn ack_bulk(app: &App, asked: &Asked<'_>) -> Answer {
    let AckBulkRequest { read_states: items } = asked.json()?;
    if items.is_empty() {
        let detail = "read_states is empty; give 1 to 1000 acknowledgements";
        return Err(wrong(detail, "/read_states"));
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
        .map(|item| Operation::Ack {
            channel: item.channel_id.get(),
            message: item.message_id.get(),
            visit,
        })
        .collect();
    let view = move |block: BlockRef<'_>, outcomes: &[Outcome]| {
        let channels = items.iter().map(|item| item.channel_id.get());
        json::ack_bulk_answer(block.version(), channels.zip(outcomes.iter().copied()))
    };
    let answer = change(app, asked, &operations, Touch::Online, view).await?;
    Ok(reply::json(answer))
}

/// Delete the read state of a channel
///
/// A repeated request also deletes what was added in the meantime: use `If-Match` if the request may be repeated.
#[utoipa::path(
    delete, path = "/v1/users/{user}/read-states/{channel}", operation_id = "deleteReadState", tag = "read states",
    params(
        OfChannel,
        ("if-match" = Option<String>, Header, example = json!("\"57\""), pattern = "^(\\*|(W/)?\"[!#-~]*\"( *, *(W/)?\"[!#-~]*\")*)$", description = "The ETag of the user: delete only at this version"),
    ),
    responses(
        (status = 200, body = DeleteAnswer, description = "Deleted, or not found"),
        VersionMoved,
        Refused,
    )
)]
pub(super) async fn delete(app: &App, asked: &Asked<'_>) -> Answer {
    let channel = asked.channel()?.get();
    let view = move |block: BlockRef<'_>, outcomes: &[Outcome]| {
        json::delete_answer(outcomes.contains(&Outcome::Applied), block.version())
    };
    let operation = Operation::Delete { channel };
    let answer = change(app, asked, &[operation], Touch::Online, view).await?;
    Ok(reply::json(answer))
}

/// Delete all data of a user
///
/// The user's version does not decrease. The deletion is written to the database at once; the answer waits for the
/// write for up to two seconds, but for at most half of the time that `x-readstates-timeout` leaves.
#[utoipa::path(
    delete, path = "/v1/users/{user}", operation_id = "deleteUser", tag = "read states",
    params(
        OfUser,
        ("if-match" = Option<String>, Header, example = json!("\"57\""), pattern = "^(\\*|(W/)?\"[!#-~]*\"( *, *(W/)?\"[!#-~]*\")*)$", description = "The ETag of the user: delete only at this version"),
    ),
    responses(
        (status = 202, body = UserDeleted,
         description = "The user is deleted for readers, but not yet in the database; send the request \
                        again: it is answered with 204 once the database has the deletion",
         headers(("etag" = String, description = "The user's version, quoted"))),
        (status = 204, description = "The user is deleted, also from the database",
         headers(("etag" = String, description = "The user's version, quoted"))),
        VersionMoved,
        Refused,
    )
)]
pub(super) async fn delete_user(app: &App, asked: &Asked<'_>) -> Answer {
    let user = asked.target.user.get();
    let version = change(
        app,
        asked,
        &[Operation::DeleteUser],
        Touch::Online,
        |block, _| block.version(),
    );
    let version = version.await?;
    let mut response = reply::accepted(&UserDeleted {
        version: Version(version),
    })?;
    let etag = reply::etag(version);
    response.headers_mut().insert(header::ETAG, etag);
    if let Some(change) = app.engine.bring_forward(user, version) {
        response.extensions_mut().insert(change);
    }
    Ok(response)
}

/// Waits until the database has a user's deletion, which is already applied here, and says so if it does.
///
/// A request that waits here does not keep a slot from moving, nor takes a place from requests that change users.
pub(super) async fn written(app: &App, asked: &Asked<'_>, answer: Answer) -> Answer {
    let mut response = answer?;
    let Some(change) = response.extensions_mut().remove::<Change>() else {
        // What another member answered.
        return Ok(response);
    };
    // Half of it: the answer has to arrive, too.
    let within = asked.head.time_left(2 * WRITTEN_WITHIN) / 2;
    // When too many wait, the answer comes at once and the client asks again.
    if let Some(_place) = Permit::take(&app.gates.deletions, 1)
        && app.engine.is_written(change, Instant::now() + within).await
    {
        let mut written = reply::empty(StatusCode::NO_CONTENT);
        let etag = response.headers_mut().remove(header::ETAG);
        written
            .headers_mut()
            .extend(etag.map(|etag| (header::ETAG, etag)));
        return Ok(written);
    }
    Ok(response)
}

/// A mention of one user, as `POST /v1/mentions` with `If-Match` has it.
pub(super) async fn mention(app: &App, asked: &Asked<'_>) -> Answer {
    let operation = checked_mention::checked(asked.json()?)?.0.operation();
    let view = |_: BlockRef<'_>, outcomes: &[Outcome]| outcomes.contains(&Outcome::Applied);
    let applied = change(app, asked, &[operation], Touch::Mention, view).await?;
    reply::value(&MentionsAnswer {
        applied: applied.into(),
        ignored: (!applied).into(),
        failed: Vec::new(),
    })
}

/// Applies operations, all or none, if what the request asks of the user holds, and shows the result.
async fn change<T: Send + 'static>(
    app: &App,
    asked: &Asked<'_>,
    operations: &[Operation],
    touch: Touch,
    view: impl Fn(BlockRef<'_>, &[Outcome]) -> T + Send + 'static,
) -> Result<T, Refusal> {
    let (user, precondition) = (asked.target.user.get(), asked.precondition.clone());
    let done = app
        .engine
        .change_if(user, precondition, operations, touch, view);
    match done.await {
        Err(NotDone::Refused(NotChanged::VersionMoved)) => Err(version_moved(app, asked).await?),
        done => Ok(done?),
    }
}

/// The refusal of a change whose precondition does not hold.
async fn version_moved(app: &App, asked: &Asked<'_>) -> Result<Refusal, Refusal> {
    let user = asked.target.user;
    let read = app.engine.read(user.get(), |block| block.version());
    let version = Version(read.await?);
    let why = match asked.precondition {
        Some(Precondition::Exists(_)) => "has no read state that this is about",
        Some(Precondition::VersionIn(_)) | None => "is at none of the versions in If-Match",
    };
    let detail = format!(
        "user {user} {why}; nothing was done; its version is {version} now: read what is there, and decide again"
    );
    let mut problem = Problem::new(ProblemType::VersionMoved, detail);
    problem.version = Some(version);
    Ok(problem.into())
}

/// Applies an operation on one channel and shows the state that it leaves.
async fn acknowledge(app: &App, asked: &Asked<'_>, channel: u64, operation: Operation) -> Answer {
    let view = move |block: BlockRef<'_>, outcomes: &[Outcome]| {
        let applied = outcomes.contains(&Outcome::Applied);
        block
            .state(channel)
            .map(|state| json::ack_answer(applied, block.version(), &state))
    };
    let answer = change(app, asked, &[operation], Touch::Online, view).await?;
    answer
        .map(reply::json)
        .ok_or_else(|| no_read_state(asked.target.user, channel))
}

fn wrong(detail: &str, pointer: &str) -> Refusal {
    Problem::new(ProblemType::BadValue, detail)
        .at(pointer)
        .into()
}
