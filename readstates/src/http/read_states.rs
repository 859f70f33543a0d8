//! What is done to and read from one user's read states.

use std::sync::Arc;

use http::{HeaderValue, StatusCode, header, request::Parts};
use readstates_api::{
    AckAnswer, AckBulkAnswer, AckBulkRequest, AckRequest, DeleteAnswer, Id, MAX_BULK_ITEMS,
    PinsAckRequest, Problem, ProblemType, ReadState, ReadStates, Summary, Version,
};

use super::{
    App, Operation as Asks,
    body::{self, KnownTags},
    json,
    openapi::{OfChannel, OfUser, Refused},
    owner::Target,
    problem::Refusal,
    reply::{self, Answer},
    snapshots::Snapshot,
};
use crate::{
    block::{BlockRef, Operation, Outcome, Visit},
    cache::Touch,
};

/// An answer of so many states is small ([`body::SMALL_BYTES`]) and written while the block is shown. Of
/// what is larger, readers share a snapshot, and it is written after: while a block is shown, others
/// who hash near it wait for a lock.
const FEW_STATES: usize = 64;
const _: () = assert!(json::most_bytes(FEW_STATES) <= body::SMALL_BYTES);
/// Of at most so many states those that changed are counted while the block is shown: some
/// microseconds.
const FEW_TO_COUNT: usize = 1000;

/// A block as it was when it was asked for.
enum Shown {
    Json(Vec<u8>),
    Large(Arc<Snapshot>),
    /// There is no memory for a snapshot.
    Refused,
}

/// A request about a user of this member.
#[derive(Debug)]
pub(super) struct Asked<'a> {
    pub(super) target: Target,
    pub(super) parts: &'a Parts,
    pub(super) body: &'a [u8],
}

impl Asked<'_> {
    fn channel(&self) -> Result<Id, Refusal> {
        self.target.channel.ok_or_else(|| {
            let detail = format!("{} names no channel", self.parts.uri.path());
            Problem::new(ProblemType::NoRoute, detail).into()
        })
    }

    fn json<T: serde::de::DeserializeOwned>(&self) -> Result<T, Refusal> {
        body::json(&self.parts.headers, self.body)
    }
}

/// Answers it.
pub(super) async fn serve(app: &App, asks: Asks, asked: &Asked<'_>) -> Answer {
    match asks {
        Asks::List => list(app, asked).await,
        Asks::Get => get(app, asked).await,
        Asks::Summary => summary(app, asked).await,
        Asks::Ack => ack(app, asked).await,
        Asks::AckPins => ack_pins(app, asked).await,
        Asks::AckBulk => ack_bulk(app, asked).await,
        Asks::Delete => delete(app, asked).await,
        Asks::DeleteUser => delete_user(app, asked).await,
        Asks::Mention
        | Asks::Batch
        | Asks::Ring
        | Asks::Livez
        | Asks::Readyz
        | Asks::Metrics
        | Asks::Openapi
        | Asks::AdminStatus
        | Asks::AdminFlush
        | Asks::AdminSetCapacity
        | Asks::AdminMove
        | Asks::AdminDrain
        | Asks::Handoff
        | Asks::Unrouted => {
            let detail = format!("{} is about no single user", asked.parts.uri.path());
            Err(Problem::new(ProblemType::NoRoute, detail).into())
        }
    }
}

/// All read states of a user, or what changed since a version
///
/// The full form is also the answer when `since` is ahead of the user, or older than what deletions
/// are remembered for.
#[utoipa::path(
    get, path = "/v1/users/{user}/read-states", tag = "read states",
    params(
        OfUser,
        ("since" = Option<Version>, Query, description = "Only what changed after this version"),
        ("if-none-match" = Option<String>, Header, description = "The ETag of an earlier answer"),
    ),
    responses(
        (status = 200, body = ReadStates, description = "The read states, by channel",
         headers(("etag" = String, description = "The user's version, quoted"))),
        (status = 304, description = "The user's version is the one in If-None-Match"),
        Refused,
    )
)]
async fn list(app: &App, asked: &Asked<'_>) -> Answer {
    let user = asked.target.user.get();
    let since = asked.target.since;
    let known = KnownTags::of(&asked.parts.headers);
    // A user who is being loaded is shown later, and elsewhere: a view takes along what it needs.
    let snapshots = Arc::clone(&app.snapshots);
    let view = move |block: BlockRef<'_>| {
        let etag = format!("\"{}\"", block.version());
        let show = |block: BlockRef<'_>| {
            let counted = since.filter(|_| block.len() <= FEW_TO_COUNT);
            let states = json::shown(block, counted);
            if states <= FEW_STATES {
                return Shown::Json(json::read_states(user, block, since, states));
            }
            let snapshot = snapshots.of(user, block);
            snapshot.map_or(Shown::Refused, Shown::Large)
        };
        let shown = (!known.have(&etag)).then(|| show(block));
        (etag, shown)
    };
    let (etag, states) = app.engine.read(user, view).await?;
    let mut response = match states {
        Some(Shown::Json(json)) => reply::json(json),
        Some(Shown::Large(snapshot)) => reply::shared_json(snapshot.json(since).await?),
        Some(Shown::Refused) => return Err(body::no_memory()),
        None => reply::empty(StatusCode::NOT_MODIFIED),
    };
    if let Ok(etag) = HeaderValue::try_from(etag) {
        response.headers_mut().insert(header::ETAG, etag);
    }
    Ok(response)
}

/// The read state of one channel
#[utoipa::path(
    get, path = "/v1/users/{user}/read-states/{channel}", tag = "read states",
    params(OfChannel),
    responses(
        (status = 200, body = ReadState, description = "The read state"),
        (status = 404, body = Problem, content_type = "application/problem+json",
         description = "There is no read state"),
        Refused,
    )
)]
async fn get(app: &App, asked: &Asked<'_>) -> Answer {
    let (user, channel) = (asked.target.user, asked.channel()?);
    let view = move |block: BlockRef<'_>| {
        block
            .state(channel.get())
            .map(|state| json::read_state(&state))
    };
    let state = app.engine.read(user.get(), view).await?;
    state
        .map(reply::json)
        .ok_or_else(|| no_read_state(user, channel.get()))
}

/// The user has read a channel up to a message
///
/// Without `manual` this only moves forward; a message at or below the last one read changes nothing.
#[utoipa::path(
    post, path = "/v1/users/{user}/read-states/{channel}/ack", tag = "read states",
    params(OfChannel),
    request_body = AckRequest,
    responses(
        (status = 200, body = AckAnswer, description = "Applied, or known already"),
        Refused,
    )
)]
async fn ack(app: &App, asked: &Asked<'_>) -> Answer {
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
            let detail = "mention_count goes with manual: true only; \
                          without it the count follows from the message";
            return Err(wrong(detail, "/mention_count"));
        }
    };
    acknowledge(app, asked.target.user, channel, operation).await
}

/// The user has seen the pins made until a time
#[utoipa::path(
    post, path = "/v1/users/{user}/read-states/{channel}/pins/ack", tag = "read states",
    params(OfChannel),
    request_body = PinsAckRequest,
    responses(
        (status = 200, body = AckAnswer, description = "Applied, or known already"),
        Refused,
    )
)]
async fn ack_pins(app: &App, asked: &Asked<'_>) -> Answer {
    let channel = asked.channel()?.get();
    let PinsAckRequest { last_pin_timestamp } = asked.json()?;
    let millis = u64::try_from(last_pin_timestamp.as_millisecond()).unwrap_or(0);
    if millis == 0 {
        let detail = "a pin was made after 1970-01-01T00:00:00Z";
        return Err(wrong(detail, "/last_pin_timestamp"));
    }
    let operation = Operation::AckPins { channel, millis };
    acknowledge(app, asked.target.user, channel, operation).await
}

/// The user has read many channels
///
/// All acknowledgements are applied in order, or none is when the request is refused.
#[utoipa::path(
    post, path = "/v1/users/{user}/read-states/ack-bulk", tag = "read states",
    params(OfUser),
    request_body = AckBulkRequest,
    responses(
        (status = 200, body = AckBulkAnswer, description = "What became of each, in order"),
        Refused,
    )
)]
async fn ack_bulk(app: &App, asked: &Asked<'_>) -> Answer {
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
    let answer = app
        .engine
        .change(asked.target.user.get(), &operations, Touch::Online, view)
        .await?;
    Ok(reply::json(answer))
}

/// Delete the read state of a channel
#[utoipa::path(
    delete, path = "/v1/users/{user}/read-states/{channel}", tag = "read states",
    params(OfChannel),
    responses(
        (status = 200, body = DeleteAnswer, description = "Deleted, or not there"),
        Refused,
    )
)]
async fn delete(app: &App, asked: &Asked<'_>) -> Answer {
    let channel = asked.channel()?.get();
    let view = move |block: BlockRef<'_>, outcomes: &[Outcome]| {
        json::delete_answer(outcomes.contains(&Outcome::Applied), block.version())
    };
    let operation = Operation::Delete { channel };
    let answer = app
        .engine
        .change(asked.target.user.get(), &[operation], Touch::Online, view)
        .await?;
    Ok(reply::json(answer))
}

/// Delete everything of a user
///
/// The user's version does not go back. The database is written at once, not after the interval.
#[utoipa::path(
    delete, path = "/v1/users/{user}", tag = "read states",
    params(OfUser),
    responses(
        (status = 204, description = "Everything is gone for readers"),
        Refused,
    )
)]
async fn delete_user(app: &App, asked: &Asked<'_>) -> Answer {
    let user = asked.target.user.get();
    app.engine
        .change(user, &[Operation::DeleteUser], Touch::Online, |_, _| ())
        .await?;
    app.engine.hurry(user);
    Ok(reply::empty(StatusCode::NO_CONTENT))
}

/// The totals of a user, for a badge
#[utoipa::path(
    get, path = "/v1/users/{user}/summary", tag = "read states",
    params(OfUser),
    responses(
        (status = 200, body = Summary, description = "The totals"),
        Refused,
    )
)]
async fn summary(app: &App, asked: &Asked<'_>) -> Answer {
    let user = asked.target.user.get();
    let view = move |block: BlockRef<'_>| json::summary(user, block);
    Ok(reply::json(app.engine.read(user, view).await?))
}

/// Applies an operation on one channel and shows the state that it leaves.
async fn acknowledge(app: &App, user: Id, channel: u64, operation: Operation) -> Answer {
    let view = move |block: BlockRef<'_>, outcomes: &[Outcome]| {
        let applied = outcomes.contains(&Outcome::Applied);
        block
            .state(channel)
            .map(|state| json::ack_answer(applied, block.version(), &state))
    };
    let answer = app
        .engine
        .change(user.get(), &[operation], Touch::Online, view)
        .await?;
    answer
        .map(reply::json)
        .ok_or_else(|| no_read_state(user, channel))
}

fn no_read_state(user: Id, channel: u64) -> Refusal {
    let detail = format!("user {user} has no read state for channel {channel}");
    Problem::new(ProblemType::NoReadState, detail).into()
}

fn wrong(detail: &str, pointer: &str) -> Refusal {
    Problem::new(ProblemType::BadValue, detail)
        .at(pointer)
        .into()
}
