//! The HTTP surface: routes, and what surrounds each of them.
//!
//! ```text
//! request ─ ring header ─ metrics ─ limit ─ owner? ─ handler ─ engine
//!                                             └─ another member: forward once
//! ```

mod admin;
mod body;
mod mentions;
mod openapi;
mod owner;
mod probes;
mod problem;
mod read_states;
mod view;

use std::{sync::Arc, time::Instant};

use axum::{
    Router,
    extract::{MatchedPath, Request, State},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{delete, get, post, put},
};
use http::{HeaderName, HeaderValue, Method, Uri};
pub use openapi::document as openapi_document;
use problem::Refusal;
use readstates_api::{Problem, ProblemType, headers};
use tokio::sync::Semaphore;

use crate::{
    engine::Engine, forward::Forwarder, health::Health, membership::Membership, metrics::Metrics,
};

/// Requests handled at once; what is over it is refused before its body is read.
const MOST_REQUESTS: usize = 2048;
/// Mentions handled at once: each may be of 100,000 users.
const MOST_MENTIONS: usize = 64;

/// Methods with a metric label of their own: a client can make up others without end.
const METHODS: [Method; 6] = [
    Method::GET,
    Method::HEAD,
    Method::POST,
    Method::PUT,
    Method::DELETE,
    Method::OPTIONS,
];

/// What handlers work with.
pub struct App {
    pub(crate) membership: Membership,
    pub(crate) engine: Arc<Engine>,
    pub(crate) forwarder: Forwarder,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) health: Arc<Health>,
    ring_header: HeaderValue,
    requests: Semaphore,
    mentions: Semaphore,
}

impl App {
    /// Brings the parts together.
    #[must_use]
    pub fn new(
        membership: Membership,
        engine: Arc<Engine>,
        forwarder: Forwarder,
        metrics: Arc<Metrics>,
        health: Arc<Health>,
    ) -> Self {
        Self {
            ring_header: HeaderValue::from(membership.ring().number()),
            membership,
            engine,
            forwarder,
            metrics,
            health,
            requests: Semaphore::new(MOST_REQUESTS),
            mentions: Semaphore::new(MOST_MENTIONS),
        }
    }
}

impl std::fmt::Debug for App {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("App")
            .field("membership", &self.membership)
            .finish_non_exhaustive()
    }
}

/// The routes for clients and probes.
pub fn public(app: Arc<App>) -> Router {
    let user = Router::new()
        .route("/v1/users/{user}", delete(read_states::delete_user))
        .route("/v1/users/{user}/summary", get(read_states::summary))
        .route("/v1/users/{user}/read-states", get(read_states::list))
        .route(
            "/v1/users/{user}/read-states/ack-bulk",
            post(read_states::ack_bulk),
        )
        .route(
            "/v1/users/{user}/read-states/{channel}",
            get(read_states::get).delete(read_states::delete),
        )
        .route(
            "/v1/users/{user}/read-states/{channel}/ack",
            post(read_states::ack),
        )
        .route(
            "/v1/users/{user}/read-states/{channel}/pins/ack",
            post(read_states::ack_pins),
        )
        .route_layer(middleware::from_fn_with_state(
            Arc::clone(&app),
            owner::serve_or_forward,
        ));
    let limited = user
        .route("/v1/mentions", post(mentions::mention))
        .route("/v1/ring", get(probes::ring))
        .route_layer(middleware::from_fn_with_state(Arc::clone(&app), limit));
    let open = Router::new()
        .route("/livez", get(probes::livez))
        .route("/readyz", get(probes::readyz))
        .route("/metrics", get(probes::metrics))
        .route("/openapi.json", get(probes::openapi));
    surround(limited.merge(open), app)
}

/// The routes for the operator.
pub fn admin(app: Arc<App>) -> Router {
    let routes = Router::new()
        .route("/admin/v1/status", get(admin::status))
        .route("/admin/v1/flush", post(admin::flush))
        .route("/admin/v1/capacity", put(admin::set_capacity));
    surround(routes, app)
}

fn surround(routes: Router<Arc<App>>, app: Arc<App>) -> Router {
    routes
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .layer(middleware::from_fn_with_state(Arc::clone(&app), observe))
        .with_state(app)
}

async fn no_route(uri: Uri) -> Refusal {
    let detail = format!(
        "there is nothing at {}; GET /openapi.json lists what there is",
        uri.path()
    );
    Problem::new(ProblemType::NoRoute, detail).into()
}

async fn no_method(method: Method, uri: Uri) -> Refusal {
    let detail = format!("{} does not take {method}", uri.path());
    Problem::new(ProblemType::MethodNotAllowed, detail).into()
}

/// Refuses what is over the limit; the permit frees itself when the answer is made.
async fn limit(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let Ok(_permit) = app.requests.try_acquire() else {
        let detail = format!("{MOST_REQUESTS} requests are being handled");
        return Refusal::from(Problem::new(ProblemType::Overloaded, detail)).into_response();
    };
    next.run(request).await
}

/// Books the request, and says the ring's number in its answer.
async fn observe(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let started = Instant::now();
    // Paths nobody routes share one label: a label per path would be unbounded.
    let matched = request.extensions().get::<MatchedPath>().cloned();
    let method = request.method().clone();
    app.metrics.in_flight.increment(1.0);
    let in_flight = Ended(&app.metrics.in_flight);
    let mut response = next.run(request).await;
    drop(in_flight);
    let route = matched.as_ref().map_or("unmatched", MatchedPath::as_str);
    let method = if METHODS.contains(&method) {
        method.as_str()
    } else {
        "other"
    };
    app.metrics
        .request(route, method, response.status().as_u16(), started.elapsed());
    let ring = HeaderName::from_static(headers::RING);
    response.headers_mut().insert(ring, app.ring_header.clone());
    response
}

/// Counts down also when the client goes away and the handler is dropped.
struct Ended<'a>(&'a metrics::Gauge);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}
