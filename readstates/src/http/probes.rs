//! What others ask about this member: is it alive, is it ready, its metrics, its ring, its API.

use std::time::Duration;

use http::{HeaderValue, Response, StatusCode, header, request::Parts};
use readstates_api::RingDocument;

use super::{
    App, body, openapi,
    reply::{self, Answer, Body},
    route::Class,
};
use crate::metrics::Text;

/// How long a client may wait for the next ring: less than the minute after which many proxies give
/// up.
const RING_PATIENCE: Duration = Duration::from_secs(30);

/// Alive
#[utoipa::path(get, path = "/livez", tag = "probes",
    responses((status = 200, body = String, description = "The process answers")))]
pub(super) fn livez() -> Response<Body> {
    reply::text(StatusCode::OK, "alive\n".into())
}

/// Ready to answer clients
///
/// From the moment the database has answered once until the member has stopped serving. A database
/// that goes away later does not end it: users who are cached are served from memory.
#[utoipa::path(get, path = "/readyz", tag = "probes",
    responses((status = 200, body = String, description = "Ready"),
              (status = 503, body = String, description = "Not ready, and why")))]
pub(super) fn readyz(app: &App) -> Response<Body> {
    let Some(reason) = app.health.not_ready() else {
        return reply::text(StatusCode::OK, "ready\n".into());
    };
    let line = format!("not ready: {reason}\n");
    let mut response = reply::text(StatusCode::SERVICE_UNAVAILABLE, line);
    let retry = HeaderValue::from_static("1");
    response.headers_mut().insert(header::RETRY_AFTER, retry);
    response
}

/// Metrics for Prometheus
#[utoipa::path(get, path = "/metrics", tag = "probes",
    responses((status = 200, body = String, description = "Prometheus text")))]
pub(super) fn metrics(app: &App) -> Response<Body> {
    let mut text = Text::default();
    let (totals, capacity) = (app.engine.totals(), app.engine.cache().capacity());
    let healthy = app.health.store().is_ok();
    app.metrics.write(&mut text, &totals, capacity, healthy);
    app.gates.write(&mut text, app.forwarder.limits());
    let prometheus = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    reply::typed(prometheus, text.finish().into())
}

/// The ring: who owns which slot
///
/// With `after`, the answer comes when the ring has a greater number, or after 30 seconds as 304.
#[utoipa::path(get, path = "/v1/ring", tag = "ring",
    params(("after" = Option<u64>, Query, description = "Wait for a ring with a greater number"),
           ("if-none-match" = Option<String>, Header, description = "The ETag of an earlier answer")),
    responses(
        (status = 200, body = RingDocument, description = "The ring",
         headers(("etag" = String, description = "The ring's number, quoted"))),
        (status = 304, description = "The ring's number is the one in If-None-Match, or not greater \
         than the one waited for"),
        openapi::Refused,
    ))]
pub(super) async fn ring(app: &App, parts: &Parts) -> Answer {
    let number = app.membership.ring().number();
    let after = body::number_in_query(parts.uri.query(), "after")?;
    let waited_for = after.is_some_and(|after| number <= after);
    if waited_for {
        let _permit = app.gates.enter(Class::RingWaiters)?;
        next_ring(app).await;
    }
    let etag = format!("\"{number}\"");
    let known = waited_for || body::KnownTags::of(&parts.headers).have(&etag);
    let mut response = if known {
        reply::empty(StatusCode::NOT_MODIFIED)
    } else {
        reply::value(&app.membership.document())?
    };
    if let Ok(etag) = HeaderValue::from_str(&etag) {
        response.headers_mut().insert(header::ETAG, etag);
    }
    Ok(response)
}

/// Waits as long as a client may. A member's ring does not change while it runs, so it only ends early
/// when the member stops.
async fn next_ring(app: &App) {
    let mut closed = app.closed.clone();
    // Both a timeout and a stop end the wait, and neither leaves anything behind.
    let _ = tokio::time::timeout(RING_PATIENCE, closed.wait_for(|&closed| closed)).await;
}

/// The OpenAPI document of this API.
pub(super) fn openapi() -> Response<Body> {
    reply::json(openapi::document().into())
}
