//! Requests about one user: what each asks for, and the reads. The changes are in [`changes`].

use std::sync::Arc;

use http::{HeaderValue, StatusCode, header};
use readstates_api::{Id, Problem, ProblemType, ReadState, ReadStates, Summary, Version};

use super::{
    App, Operation as Asks,
    asked::{Asked, FEW_STATES, no_read_state},
    body::{self, KnownTags},
    changes, json, paging,
    reply::{self, Answer},
    representation::Form,
    schemas::{OfChannel, OfUser, Refused},
    selection::Selection,
    snapshots::Snapshot,
};
use crate::block::BlockRef;

/// Of at most so many states those that changed are counted while the block is shown: some
/// microseconds.
const FEW_TO_COUNT: usize = 1000;

/// A block as it was when it was asked for.
enum Shown {
    Small(Vec<u8>),
    Large(Arc<Snapshot>),
    /// There is no memory for a snapshot.
    Refused,
}

/// Answers it.
pub(super) async fn serve(app: &App, asks: Asks, asked: &Asked<'_>) -> Answer {
    match asks {
        Asks::List => list(app, asked).await,
        Asks::Get => get(app, asked).await,
        Asks::Summary => summary(app, asked).await,
        Asks::Ack => changes::ack(app, asked).await,
        Asks::AckPins => changes::ack_pins(app, asked).await,
        Asks::AckBulk => changes::ack_bulk(app, asked).await,
        Asks::Delete => changes::delete(app, asked).await,
        Asks::DeleteUser => changes::delete_user(app, asked).await,
        // One user who is mentioned alone.
        Asks::Mention => changes::mention(app, asked).await,
        Asks::Batch
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
        | Asks::Singles
        | Asks::Unrouted => {
            let detail = format!("{} is about no single user", asked.head.uri.path());
            Err(Problem::new(ProblemType::NoRoute, detail).into())
        }
    }
}

/// All read states of a user, a page of them, or the changes since a version
///
/// The answer is also complete when `since` is ahead of the user's version, or older than the deletions that the
/// service remembers. With `limit` or `after` the answer is a page, ordered by channel; if there are more, it has
/// `next` and a `Link` to the next page. Pages may have different versions: to make them consistent, request the
/// changes since the version of the first page.
///
/// A request whose `Accept` names `application/vnd.readstates.rows` is answered in binary, a quarter of the length: the
/// layout is in the book. One whose `Accept-Encoding` names `zstd` is answered compressed if the answer has 1 KiB or more.
#[utoipa::path(
    get, path = "/v1/users/{user}/read-states", operation_id = "listReadStates", tag = "read states",
    params(
        OfUser,
        ("since" = Option<Version>, Query, description = "Only what changed after this version"),
        ("limit" = Option<u16>, Query, minimum = 1, maximum = 1000,
         description = "Maximum number of read states; 1000 if only after is given. Not with since"),
        ("after" = Option<Id>, Query, description = "Only channels after this one. Not with since"),
        ("if-none-match" = Option<String>, Header, description = "The ETag of an earlier answer"),
    ),
    responses(
        // In JSON alone: a second form of an answer makes a choice of types of every call in clients that are generated.
        (status = 200, body = ReadStates, description = "The read states, by channel",
         headers(("etag" = String, description = "The user's version, quoted"),
                 ("link" = String, description = "If there are more pages: the next one"))),
        (status = 304, description = "The user's version matches If-None-Match"),
        Refused,
    )
)]
async fn list(app: &App, asked: &Asked<'_>) -> Answer {
    let user = asked.target.user.get();
    let since = match asked.target.selection {
        Selection::All => None,
        Selection::Since(version) => Some(version),
        Selection::Page(page) => return paging::page(app, asked, page).await,
    };
    let known = KnownTags::of(&asked.head.headers);
    let form = Form::of(&asked.head.headers);
    // A user who is being loaded is shown later, and elsewhere: a view takes along what it needs.
    let snapshots = Arc::clone(&app.snapshots);
    let view = move |block: BlockRef<'_>| {
        let etag = format!("\"{}\"", block.version());
        let show = |block: BlockRef<'_>| {
            let counted = since.filter(|_| block.len() <= FEW_TO_COUNT);
            let states = json::shown(block, counted);
            if states <= FEW_STATES {
                let written = form.representation.read_states(user, block, since, states);
                return Shown::Small(written);
            }
            let snapshot = snapshots.of(user, block);
            snapshot.map_or(Shown::Refused, Shown::Large)
        };
        let shown = (!known.have(&etag)).then(|| show(block));
        (etag, shown)
    };
    let (etag, states) = app.engine.read(user, view).await?;
    let mut response = match states {
        Some(Shown::Small(body)) => form.short(body),
        Some(Shown::Large(snapshot)) => {
            let (body, coding) = snapshot.read_states(since, form).await?;
            form.shared(body, coding)
        }
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
    get, path = "/v1/users/{user}/read-states/{channel}", operation_id = "getReadState", tag = "read states",
    params(OfChannel),
    responses(
        (status = 200, body = ReadState, description = "The read state"),
        (status = 404, body = Problem, content_type = "application/problem+json",
         description = "The user has no read state for this channel"),
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

/// The totals of a user, for a badge
#[utoipa::path(
    get, path = "/v1/users/{user}/summary", operation_id = "getSummary", tag = "read states",
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
