//! What the operator reads and asks of this member.

use bytes::Bytes;
use readstates_api::{
    Problem, ProblemType,
    admin::{
        Capacity, DrainRequest, FlushAnswer, MAX_MOVED_SLOTS, MemberStatus, MovesAnswer,
        MovesRequest, OwnershipStatus, StoreStatus,
    },
};
use readstates_ring::{Epoch, Slot};

use super::{
    App, handoff,
    problem::Refusal,
    reply::{self, Answer},
};
use crate::members_tls::MembersTls;

/// Status of the member
#[utoipa::path(get, path = "/admin/v1/status", operation_id = "getStatus", tag = "admin",
    responses((status = 200, body = MemberStatus, description = "Status of the member")))]
pub(super) async fn status(app: &App) -> Answer {
    let page = app.status_page.get(|| page(app).map(Bytes::from));
    let page = page.await.map_err(Refusal::unwritable)?;
    Ok(reply::shared_json(page))
}

fn page(app: &App) -> serde_json::Result<Vec<u8>> {
    let cache = app.engine.cache();
    let totals = cache.totals();
    let store = app.health.store();
    serde_json::to_vec(&MemberStatus {
        member: app.ownership.me().name().to_owned(),
        incarnation: app.ownership.me().incarnation().to_string(),
        ring_number: app.ownership.routes().number(),
        users: totals.users,
        states: totals.states,
        dirty_users: totals.dirty_users,
        oldest_dirty_seconds: totals
            .oldest_dirty
            .map(|since| since.elapsed().as_secs_f64()),
        capacity_states: cache.capacity(),
        store: StoreStatus {
            kind: app.health.kind(),
            healthy: store.is_ok(),
            reason: store.err(),
        },
        ownership: app.ownership.status(),
        identity: app.forwarder.tls().map(MembersTls::status),
    })
}

/// Write all dirty users now
#[utoipa::path(post, path = "/admin/v1/flush", operation_id = "flush", tag = "admin",
    responses((status = 200, body = FlushAnswer,
               description = "Every write has succeeded or failed")))]
pub(super) async fn flush(app: &App) -> Answer {
    let flushed = app.engine.flush_all().await;
    reply::value(&FlushAnswer {
        flushed_users: flushed.written,
        failed_users: flushed.failed,
    })
}

/// Change the capacity of the cache
#[utoipa::path(put, path = "/admin/v1/capacity", operation_id = "setCapacity", tag = "admin", request_body = Capacity,
    responses(
        (status = 200, body = Capacity, description = "The new capacity"),
        super::schemas::AdminRefused,
    ))]
pub(super) fn set_capacity(app: &App, capacity: Capacity) -> Answer {
    if capacity.states == 0 {
        let detail = "states is 0, which keeps nothing; give at least 1";
        return Err(Problem::new(ProblemType::BadValue, detail)
            .at("/states")
            .into());
    }
    app.engine.set_capacity(capacity.states);
    tracing::info!(states = capacity.states, "capacity changed");
    reply::value(&capacity)
}

/// Move slots to another member
///
/// Best effort: the member checks each slot again, and moves those that it owns at the given epoch, unless
/// it is already moving others. The progress is visible in its status and in the ring.
#[utoipa::path(post, path = "/admin/v1/moves", operation_id = "startMoves", tag = "admin", request_body = MovesRequest,
    responses(
        (status = 202, body = MovesAnswer, description = "The moves have begun"),
        (status = 409, body = Problem, content_type = "application/problem+json",
         description = "The destination is not a live member of this ring"),
        super::schemas::AdminRefused,
    ))]
pub(super) async fn start_moves(app: &App, request: MovesRequest) -> Answer {
    let MovesRequest { destination, slots } = request;
    let wrong =
        |detail: String, pointer: &str| Problem::new(ProblemType::BadValue, detail).at(pointer);
    if slots.is_empty() || slots.len() > MAX_MOVED_SLOTS {
        let detail = format!("{} slots; give 1 to {MAX_MOVED_SLOTS}", slots.len());
        return Err(wrong(detail, "/slots").into());
    }
    let asked: Option<Vec<(Slot, Epoch)>> = slots
        .iter()
        .map(|moved| Some((Slot::new(moved.slot)?, Epoch::new(moved.epoch)?)))
        .collect();
    let asked = asked.ok_or_else(|| {
        let detail = "a slot is a number below 1024, an epoch one that is not negative";
        wrong(detail.into(), "/slots")
    })?;
    let incarnation = destination
        .incarnation
        .parse()
        .map_err(|error| wrong(format!("{error}"), "/destination/incarnation"))?;
    // Where it is reached and what it is called is what its own lease says, not the request.
    let accepted = app.ownership.begin_move(incarnation, &asked).await;
    let accepted = accepted.map_err(|error| {
        Problem::new(ProblemType::NotAMember, error.to_string()).at("/destination/incarnation")
    })?;
    reply::accepted(&MovesAnswer {
        accepted,
        // At most 64.
        ignored: asked.len() as u16 - accepted,
    })
}

/// Hand on all slots
///
/// The member takes no new slots, hands its slots to other members in batches, and keeps serving until it is stopped.
#[utoipa::path(post, path = "/admin/v1/drain", operation_id = "drain", tag = "admin", request_body = DrainRequest,
    responses(
        (status = 202, body = OwnershipStatus, description = "Draining has begun"),
        (status = 409, body = Problem, content_type = "application/problem+json",
         description = "The member is a different process"),
        super::schemas::AdminRefused,
    ))]
pub(super) fn drain(app: &App, request: DrainRequest) -> Answer {
    let me = app.ownership.me().incarnation().to_string();
    if request.incarnation != me {
        return Err(handoff::another_incarnation(&me));
    }
    app.ownership.begin_drain();
    reply::accepted(&app.ownership.status())
}
