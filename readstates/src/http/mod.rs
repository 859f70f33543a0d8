//! The HTTP surface: what comes in, in the order in which it is looked at.
//!
//! ```text
//! connection ─ TLS? ─ route ─ caller? ─ owner? ─ limit ─ body ─ permit ─ handler ─ engine ─ answer
//!                                                                └─ another member: forward once
//! ```
//!
//! There is no framework between hyper and the handlers: a request is a match over the operations of
//! [`route`], so that what it costs is what is written here.

mod access;
mod admin;
mod batch;
mod body;
mod changes;
mod connection;
mod connections;
mod crowd;
mod deadline;
mod fan_out;
mod gates;
mod handoff;
mod json;
mod listen;
mod mentions;
mod openapi;
mod owner;
mod pages;
mod precondition;
mod probes;
mod problem;
mod read_states;
mod reply;
mod route;
mod selection;
mod snapshots;
mod tls;

use std::{sync::Arc, time::Instant};

use access::Peer;
use bytes::Bytes;
use deadline::Deadline;
use gates::Gates;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, Uri, request::Parts};
use hyper::body::Incoming;
pub(crate) use listen::{Entrance, listen};
pub use openapi::{admin_document as admin_openapi_document, document as openapi_document};
use pages::Page;
use problem::Refusal;
pub(crate) use problem::UNKNOWN;
use readstates_api::{Problem, ProblemType, headers};
use reply::Answer;
pub(crate) use reply::Body;
use route::{Class, Resource};
pub(crate) use route::{Operation, Port};
use snapshots::Snapshots;
pub(crate) use tls::ApiTls;
pub use tls::{RELOAD_EVERY as TLS_RELOAD_EVERY, TlsFiles};
use tokio::sync::watch;
use tracing::Instrument;

use crate::{
    access::Access, config::Limits, engine::Engine, forward::Forwarder, health::Health,
    limit::Permit, metrics::Metrics, ownership::Ownership,
};

const RING: HeaderName = HeaderName::from_static(headers::RING);
const FORWARDED: HeaderName = HeaderName::from_static(headers::FORWARDED);
const INCARNATION: HeaderName = HeaderName::from_static(headers::INCARNATION);

/// What handlers work with.
pub struct App {
    pub(crate) ownership: Arc<Ownership>,
    pub(crate) engine: Arc<Engine>,
    pub(crate) forwarder: Forwarder,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) health: Arc<Health>,
    gates: Gates,
    /// Who may call; `None`: everybody.
    access: Option<Arc<Access>>,
    /// TLS with clients; `None`: they speak plain HTTP.
    tls: Option<Arc<ApiTls>>,
    snapshots: Arc<Snapshots>,
    metrics_page: Page,
    status_page: Page,
    /// True when the member stops listening.
    closed: watch::Receiver<bool>,
}

impl App {
    /// Brings the parts together.
    #[must_use]
    pub fn new(
        ownership: Arc<Ownership>,
        engine: Arc<Engine>,
        forwarder: Forwarder,
        metrics: Arc<Metrics>,
        health: Arc<Health>,
        limits: Limits,
        closed: watch::Receiver<bool>,
    ) -> Self {
        let gates = Gates::new(limits);
        Self {
            snapshots: Snapshots::new(Arc::clone(&gates.buffered)),
            metrics_page: Page::default(),
            status_page: Page::default(),
            gates,
            ownership,
            engine,
            forwarder,
            metrics,
            health,
            access: None,
            tls: None,
            closed,
        }
    }

    /// The same, for callers who are admitted and over TLS, where there are such.
    pub(crate) fn guarded(self, access: Option<Arc<Access>>, tls: Option<Arc<ApiTls>>) -> Self {
        Self {
            access,
            tls,
            ..self
        }
    }

    /// The DNS names that the other end of a connection has proven to have.
    fn names_of<'a>(&self, peer: &'a Peer) -> Option<&'a [String]> {
        let certificate = peer.certificate.as_ref()?;
        self.tls.as_ref()?.names(certificate)
    }
}

impl std::fmt::Debug for App {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("App")
            .field("me", self.ownership.me())
            .finish_non_exhaustive()
    }
}

/// Answers one request, books it, and says the ring's number in the answer.
async fn answer(
    app: Arc<App>,
    port: Port,
    peer: &Peer,
    request: Request<Incoming>,
) -> Response<Body> {
    let started = Instant::now();
    let (mut parts, body) = request.into_parts();
    believe(port, &mut parts.headers);
    let waits = Deadline::of(&parts.headers);
    if let Ok(Some(deadline)) = waits {
        // Whoever passes the request on says what is left.
        parts.extensions.insert(deadline);
    }
    let routed = routed(port, &parts);
    let operation = routed
        .as_ref()
        .map_or(Operation::Unrouted, |&(operation, _)| operation);
    let admitted = match port {
        Port::Api => access::admit(&app, peer, &parts, operation).await,
        // The connection has proven who is there, or nothing is to be proven.
        Port::Admin | Port::Members | Port::Watch => Ok(None),
    };
    let (admitted, routed) = match admitted {
        Ok(admitted) => (admitted, routed),
        Err(refusal) => (None, Err(refusal)),
    };
    let answered = match routed {
        Ok((operation, resource)) => {
            let work = async {
                let work = handle(&app, operation, resource, &parts, body);
                match waits? {
                    Some(deadline) => deadline.within(&parts.method, work).await,
                    None => work.await,
                }
            };
            // A span that nobody looks at would be made and entered all the same.
            let answered = if tracing::enabled!(tracing::Level::DEBUG) {
                let span =
                    tracing::debug_span!("request", method = %parts.method, uri = %parts.uri);
                work.instrument(span).await
            } else {
                work.await
            };
            let status = match &answered {
                Ok(response) => response.status(),
                Err(refusal) => refusal.status(),
            };
            access::audit(port, peer, admitted.as_ref(), (operation, resource), status);
            answered
        }
        Err(refusal) => Err(refusal),
    };
    let mut response = finished(&app, operation, answered);
    let ring = app.ownership.routes().header();
    response.headers_mut().insert(RING, ring);
    app.metrics
        .request(operation, response.status(), started.elapsed());
    response
}

/// The answer as it goes out: what is large is counted, and a refusal booked.
fn finished(app: &App, operation: Operation, answered: Answer) -> Response<Body> {
    answered
        .and_then(|response| match operation.class() {
            Class::Open => Ok(response),
            Class::Reads
            | Class::Changes
            | Class::Batches
            | Class::Mentions
            | Class::RingWaiters => hold(&app.gates, response),
        })
        .unwrap_or_else(|refusal| {
            app.metrics.refused(refusal.problem_type());
            refusal.into_response()
        })
}

/// Leaves only those headers that say something where they came in.
fn believe(port: Port, headers: &mut HeaderMap) {
    match port {
        // Members speak of other members, and forward once.
        Port::Members => {
            let unnamed = HeaderValue::from_static("unnamed");
            headers.entry(FORWARDED).or_insert(unnamed);
        }
        Port::Api | Port::Admin | Port::Watch => {
            headers.remove(FORWARDED);
            headers.remove(INCARNATION);
        }
    }
}

fn routed(port: Port, parts: &Parts) -> Result<(Operation, Resource<'_>), Refusal> {
    let path = parts.uri.path();
    let resource = Resource::at(port, path).ok_or_else(|| no_route(&parts.uri))?;
    match resource.operation(&parts.method) {
        Ok(operation) => Ok((operation, resource)),
        Err(allow) => Err(no_method(&parts.method, &parts.uri, allow)),
    }
}

fn no_route(uri: &Uri) -> Refusal {
    let detail = format!(
        "there is nothing at {}; GET /openapi.json lists what there is",
        uri.path()
    );
    Problem::new(ProblemType::NoRoute, detail).into()
}

fn no_method(method: &Method, uri: &Uri, allow: &'static str) -> Refusal {
    let detail = format!("{} does not take {method}", uri.path());
    Refusal::method_not_allowed(detail, allow)
}

/// The work itself.
async fn handle(
    app: &App,
    operation: Operation,
    resource: Resource<'_>,
    parts: &Parts,
    body: Incoming,
) -> Answer {
    match operation {
        Operation::List
        | Operation::Get
        | Operation::Summary
        | Operation::Ack
        | Operation::AckPins
        | Operation::AckBulk
        | Operation::Delete
        | Operation::DeleteUser => owner::serve(app, operation, resource, parts, body).await,
        // Rare and large: in a box, so that the others need not carry their state.
        Operation::Mention => Box::pin(mentions::mention(app, parts, body)).await,
        Operation::Batch => batch::batch(app, parts, body).await,
        Operation::Ring => Box::pin(probes::ring(app, parts)).await,
        Operation::Livez => Ok(probes::livez()),
        Operation::Readyz => Ok(probes::readyz(app)),
        Operation::Metrics => Ok(Box::pin(probes::metrics(app)).await),
        Operation::Openapi => Ok(probes::openapi()),
        Operation::AdminStatus => Box::pin(admin::status(app)).await,
        Operation::AdminFlush => Box::pin(admin::flush(app)).await,
        Operation::AdminSetCapacity => {
            let body = body::read(&app.gates, body).await?;
            admin::set_capacity(app, body::json(&parts.headers, &body.bytes)?)
        }
        Operation::AdminMove => {
            let body = body::read(&app.gates, body).await?;
            let request = body::json(&parts.headers, &body.bytes)?;
            Box::pin(admin::start_moves(app, request)).await
        }
        Operation::AdminDrain => {
            let body = body::read(&app.gates, body).await?;
            admin::drain(app, body::json(&parts.headers, &body.bytes)?)
        }
        Operation::Handoff => Box::pin(handoff::receive(app, parts, body)).await,
        // Nothing is routed there.
        Operation::Unrouted => Err(no_route(&parts.uri)),
    }
}

/// Counts an answer that is not small, until its last byte is on its way: clients that are slow to
/// read cannot make the member hold more than it may.
fn hold(gates: &Gates, mut response: Response<Body>) -> Answer {
    if let Body::Whole(Some(bytes)) = response.body_mut()
        && bytes.len() > body::SMALL_BYTES
    {
        let permit =
            Permit::take(Arc::clone(&gates.buffered), bytes.len()).ok_or_else(body::no_memory)?;
        *bytes = Bytes::from_owner(Held {
            bytes: bytes.clone(),
            _permit: permit,
        });
    }
    Ok(response)
}

/// Bytes that give their permit back when the last copy of them is gone.
struct Held {
    bytes: Bytes,
    _permit: Permit<Arc<crate::limit::Limit>>,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}
