//! What others ask about this member: is it alive, is it ready, its metrics, its ring, its API.

use std::{convert::Infallible, time::Duration};

use http::{HeaderValue, Response, StatusCode, header, request::Parts};
use readstates_api::RingDocument;
use tokio::runtime::Handle;

use super::{
    App, body,
    problem::Refusal,
    reply::{self, Answer, Body},
    tls,
};
use crate::{
    access, journal,
    metrics::{Text, process},
    operation::Class,
};

/// How long a client may wait for the next ring: less than the minute after which many proxies give
/// up.
const RING_PATIENCE: Duration = Duration::from_secs(30);

/// Alive
#[utoipa::path(get, path = "/livez", operation_id = "isAlive", tag = "probes", security(()),
    responses((status = 200, body = String, description = "The process answers")))]
pub(super) fn livez() -> Response<Body> {
    reply::text(StatusCode::OK, "alive\n".into())
}

/// Ready to answer clients
///
/// Ready from the moment the database and the ring have answered once until the member stops serving. A later database
/// outage does not end readiness, because cached users are still served from memory; the text then says so.
#[utoipa::path(get, path = "/readyz", operation_id = "isReady", tag = "probes", security(()),
    responses((status = 200, body = String, description = "Ready"),
              (status = 503, body = String, description = "Not ready, and why")))]
pub(super) fn readyz(app: &App) -> Response<Body> {
    let joining =
        (!*app.ownership.joined().borrow()).then(|| "the ring was not read yet".to_owned());
    let Some(reason) = app.health.not_ready().or(joining) else {
        let line = match app.health.store() {
            Ok(()) => "ready\n".to_owned(),
            Err(reason) => {
                format!("ready for users who are cached; the database is away: {reason}\n")
            }
        };
        return reply::text(StatusCode::OK, line);
    };
    let line = format!("not ready: {reason}\n");
    let mut response = reply::text(StatusCode::SERVICE_UNAVAILABLE, line);
    let retry = HeaderValue::from_static("1");
    response.headers_mut().insert(header::RETRY_AFTER, retry);
    response
}

/// Metrics for Prometheus
#[utoipa::path(get, path = "/metrics", operation_id = "getMetrics", tag = "probes", security(()),
    responses((status = 200, body = String, description = "Prometheus text")))]
pub(super) async fn metrics(app: &App) -> Response<Body> {
    let page = app
        .metrics_page
        .get(|| Ok::<_, Infallible>(page(app).into()));
    let page = page.await.unwrap_or_else(|never| match never {});
    let prometheus = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    reply::shared(prometheus, page)
}

fn page(app: &App) -> String {
    let mut text = Text::default();
    let (totals, capacity) = (app.engine.totals(), app.engine.cache().capacity());
    let healthy = app.health.store().is_ok();
    app.metrics.write(&mut text, &totals, capacity, healthy);
    app.ownership.write(&mut text);
    journal::write_metrics(app.engine.journal().map(AsRef::as_ref), &mut text);
    if let Some(tls) = app.forwarder.tls() {
        text.gauge(
            "readstates_certificate_expires_timestamp_seconds",
            "When the certificate that the member shows others of its cluster expires, in seconds since 1970.",
            tls.expires(),
        );
    }
    app.gates.write(&mut text, &app.ownership.routes());
    access::write(app.access.as_deref(), &mut text);
    tls::write(app.tls.as_deref(), &mut text);
    text.counter(
        "readstates_slow_requests_total",
        "Requests about users that took as long as --slow-request or longer.",
        app.slow.count.get(),
    );
    let background = Handle::current();
    let workers = app.workers.get().map(|workers| ("clients", workers));
    let runtimes: Vec<_> = workers
        .into_iter()
        .chain([("background", &background)])
        .collect();
    process::write_runtimes(&mut text, &runtimes);
    process::write(&mut text);
    text.finish()
}

/// The ring: who owns which slot
///
/// With `after`, the answer is sent once the ring has a greater number, or after 30 seconds with status 304.
#[utoipa::path(get, path = "/v1/ring", operation_id = "getRing", tag = "ring",
    params(("after" = Option<u64>, Query, description = "Wait for a ring with a greater number"),
           ("if-none-match" = Option<String>, Header, description = "The ETag of an earlier answer")),
    responses(
        (status = 200, body = RingDocument, description = "The ring",
         headers(("etag" = String, description = "The ring's number, quoted"))),
        (status = 304, description = "The ring's number matches If-None-Match, or is not greater \
         than after"),
        super::schemas::Refused,
    ))]
pub(super) async fn ring(app: &App, parts: &Parts) -> Answer {
    let [after] = body::numbers_in_query(parts.uri.query(), ["after"])?;
    let older = |number: u64| after.is_some_and(|after| number <= after);
    if older(app.ownership.routes().number()) {
        let _permit = app.gates.enter(Class::RingWaiters)?;
        next_ring(app, older).await;
    }
    let routes = app.ownership.routes();
    let etag = format!("\"{}\"", routes.number());
    let known = older(routes.number()) || body::KnownTags::of(&parts.headers).have(&etag);
    let mut response = if known {
        reply::empty(StatusCode::NOT_MODIFIED)
    } else {
        reply::shared_json(routes.json().map_err(Refusal::unwritable)?)
    };
    if let Ok(etag) = HeaderValue::from_str(&etag) {
        response.headers_mut().insert(header::ETAG, etag);
    }
    Ok(response)
}

/// Waits until the ring has changed, the client's longest wait is over, or the member stops.
async fn next_ring(app: &App, older: impl Fn(u64) -> bool) {
    let (mut closed, mut number) = (app.closed.clone(), app.ownership.number());
    // Whatever ends the wait, nothing is left behind.
    let wait = async {
        tokio::select! {
            _ = closed.wait_for(|&closed| closed) => {}
            _ = number.wait_for(|&number| !older(number)) => {}
        }
    };
    let _ = tokio::time::timeout(RING_PATIENCE, wait).await;
}
