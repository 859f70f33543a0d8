//! What the operator reads and asks of this member.

use readstates_api::{
    Problem, ProblemType,
    admin::{Capacity, FlushAnswer, MemberStatus, OwnershipStatus, StoreStatus},
};

use super::{
    App,
    reply::{self, Answer},
};

/// How the member stands
#[utoipa::path(get, path = "/admin/v1/status", tag = "admin",
    responses((status = 200, body = MemberStatus, description = "How the member stands")))]
pub(super) fn status(app: &App) -> Answer {
    let cache = app.engine.cache();
    let totals = cache.totals();
    let store = app.health.store();
    reply::value(&MemberStatus {
        member: app.membership.name().to_owned(),
        incarnation: app.membership.incarnation(),
        ring_number: app.membership.ring().number(),
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
        ownership: OwnershipStatus {
            owned: app.membership.owned(),
            lease_valid: true,
            ..OwnershipStatus::default()
        },
    })
}

/// Write everything that is dirty now
#[utoipa::path(post, path = "/admin/v1/flush", tag = "admin",
    responses((status = 200, body = FlushAnswer,
               description = "Everything was written, or its write has failed")))]
pub(super) async fn flush(app: &App) -> Answer {
    let flushed = app.engine.flush_all().await;
    reply::value(&FlushAnswer {
        flushed_users: flushed.written,
        failed_users: flushed.failed,
    })
}

/// Change how many states the cache keeps
#[utoipa::path(put, path = "/admin/v1/capacity", tag = "admin", request_body = Capacity,
    responses(
        (status = 200, body = Capacity, description = "The capacity from now on"),
        super::openapi::Refused,
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
