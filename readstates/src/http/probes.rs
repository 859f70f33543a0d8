//! What others ask about this member: is it alive, is it ready, its metrics, its ring, its API.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use readstates_api::RingDocument;

use super::{App, body, openapi};

/// Alive
#[utoipa::path(get, path = "/livez", tag = "probes",
    responses((status = 200, body = String, description = "The process answers")))]
pub(super) async fn livez() -> &'static str {
    "alive\n"
}

/// Ready to answer clients
///
/// From the moment the database has answered once until the member has stopped serving. A database
/// that goes away later does not end it: users who are cached are served from memory.
#[utoipa::path(get, path = "/readyz", tag = "probes",
    responses((status = 200, body = String, description = "Ready"),
              (status = 503, body = String, description = "Not ready, and why")))]
pub(super) async fn readyz(State(app): State<Arc<App>>) -> Response {
    match app.health.not_ready() {
        None => "ready\n".into_response(),
        Some(reason) => {
            let retry = [(header::RETRY_AFTER, "1")];
            (
                StatusCode::SERVICE_UNAVAILABLE,
                retry,
                format!("not ready: {reason}\n"),
            )
                .into_response()
        }
    }
}

/// Metrics for Prometheus
#[utoipa::path(get, path = "/metrics", tag = "probes",
    responses((status = 200, body = String, description = "Prometheus text")))]
pub(super) async fn metrics(State(app): State<Arc<App>>) -> Response {
    let cache = app.engine.cache();
    let healthy = app.health.store().is_ok();
    let text = app
        .metrics
        .render(&app.engine.totals(), cache.capacity(), healthy);
    (
        [(
            header::CONTENT_TYPE,
            "text/plain; version=0.0.4; charset=utf-8",
        )],
        text,
    )
        .into_response()
}

/// The ring: who owns which slot
#[utoipa::path(get, path = "/v1/ring", tag = "ring",
    responses(
        (status = 200, body = RingDocument, description = "The ring",
         headers(("etag" = String, description = "The ring's number, quoted"))),
        (status = 304, description = "The ring's number is the one in If-None-Match"),
    ))]
pub(super) async fn ring(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    let etag = format!("\"{}\"", app.membership.ring().number());
    let mut response = if body::none_match(&headers, &etag) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        Json(app.membership.document()).into_response()
    };
    if let Ok(etag) = HeaderValue::from_str(&etag) {
        response.headers_mut().insert(header::ETAG, etag);
    }
    response
}

/// The OpenAPI document of this API.
pub(super) async fn openapi() -> Response {
    (
        [(header::CONTENT_TYPE, "application/json")],
        openapi::document(),
    )
        .into_response()
}
