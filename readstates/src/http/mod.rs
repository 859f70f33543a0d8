//! The HTTP surface: what comes in, in the order in which it is looked at.
//!
//! ```text
//! connection ─ TLS? ─ route ─ caller? ─ owner? ─ limit ─ body ─ permit ─ handler ─ engine ─ answer
//!                                                                └─ another member: forward once
//! ```
//!
//! There is no framework between hyper and the handlers: a request is a match over the operations of
//! `route`, so that what it costs is what is written here.

mod access;
mod admin;
mod batch;
mod body;
mod changes;
mod connection;
mod connections;
mod crowd;
mod deadline;
mod entry;
mod fan_out;
mod forward;
mod gates;
mod handoff;
mod head;
mod json;
mod listen;
mod mentions;
mod openapi;
mod owner;
mod packing;
mod pages;
mod precondition;
mod probes;
mod problem;
mod read_states;
mod reply;
mod representation;
mod route;
mod rows;
mod selection;
mod slow;
mod snapshots;
mod tls;

use std::{
    sync::{Arc, OnceLock},
    time::Instant,
};

use access::Peer;
use bytes::Bytes;
use deadline::Deadline;
use entry::{believe, no_route, routed};
pub use forward::Forwarder;
use gates::Gates;
use head::Head;
use http::{HeaderName, Request, Response};
use hyper::body::Incoming;
pub(crate) use listen::{Entrance, listen};
pub use openapi::{admin_document as admin_openapi_document, document as openapi_document};
use packing::Packer;
use pages::Page;
use problem::Refusal;
pub(crate) use problem::UNKNOWN;
use readstates_api::headers;
use reply::Answer;
pub(crate) use reply::Body;
use route::Resource;
pub(crate) use route::{Class, Operation, Port};
use slow::Slow;
use snapshots::Snapshots;
pub(crate) use tls::ApiTls;
pub use tls::{RELOAD_EVERY as TLS_RELOAD_EVERY, TlsFiles};
use tokio::{runtime::Handle, sync::watch};
use tracing::Instrument;

use crate::{
    access::Access,
    config::{Limits, ObserveConfig},
    engine::Engine,
    health::Health,
    limit::Permit,
    metrics::Metrics,
    ownership::Ownership,
    trace::Tracing,
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
    /// Who may call; `None`: anyone.
    access: Option<Arc<Access>>,
    /// TLS with clients; `None`: they speak plain HTTP.
    tls: Option<Arc<ApiTls>>,
    snapshots: Arc<Snapshots>,
    packer: Arc<Packer>,
    metrics_page: Page,
    status_page: Page,
    slow: Slow,
    /// Makes spans of requests; `None`: there are none.
    tracing: Option<Tracing>,
    /// The runtime that answers clients, once it is there.
    pub(crate) workers: OnceLock<Handle>,
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
        let packer = Arc::new(Packer::new(Arc::clone(&gates.buffered)));
        Self {
            snapshots: Snapshots::new(Arc::clone(&gates.buffered), Arc::clone(&packer)),
            packer,
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
            slow: Slow::default(),
            tracing: None,
            workers: OnceLock::new(),
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

    /// The same, that says this about requests.
    pub(crate) fn observed(self, observe: ObserveConfig) -> Self {
        let ObserveConfig {
            slow_request,
            tracing,
        } = observe;
        Self {
            slow: Slow::new(slow_request),
            tracing,
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
    let deadline = waits.as_ref().ok().copied().flatten();
    let head = Head::new(parts, deadline);
    let routed = routed(port, &head);
    let operation = routed
        .as_ref()
        .map_or(Operation::Unrouted, |&(operation, _)| operation);
    if let Some(tracing) = &app.tracing
        && operation.class() != Class::Open
    {
        let span = tracing.begin(operation.method(), operation.route(), &head.headers);
        head.trace(span);
    }
    let admitted = match port {
        Port::Api => access::admit(&app, peer, &head, operation).await,
        // The connection has proven who is there, or nothing is to be proven.
        Port::Admin | Port::Members | Port::Watch => Ok(None),
    };
    if let Ok(Some(admitted)) = &admitted {
        admitted.bind(&head);
    }
    let answered = match admitted {
        Ok(admitted) => match routed {
            Ok(routed) => {
                let answered = worked(&app, routed, &head, waits, body).await;
                let status = match &answered {
                    Ok(response) => response.status(),
                    Err(refusal) => refusal.status(),
                };
                access::audit(port, peer, &head, admitted.as_ref(), routed, status);
                if let Some((admitted, verb)) = admitted.as_ref().zip(head.refused()) {
                    access::audit_refused_part(&app, peer, &head, admitted, (operation, verb));
                }
                answered
            }
            Err(refusal) => Err(refusal),
        },
        Err(refusal) => Err(refusal),
    };
    let mut response = finished(&app, operation, &head, answered);
    let ring = app.ownership.routes().header();
    response.headers_mut().insert(RING, ring);
    let (status, took) = (response.status(), started.elapsed());
    app.metrics.request(operation, status, took);
    app.slow.look((port, operation), &head, status, took);
    if let Some(id) = head.known_id() {
        head::name(response.headers_mut(), id.clone());
    }
    if let Some(span) = head.span() {
        let id = head.known_id().and_then(|id| id.to_str().ok());
        span.answered(status, id);
    }
    response
}

/// Works on a request for as long as its sender waits.
async fn worked(
    app: &App,
    (operation, resource): (Operation, Resource<'_>),
    head: &Head,
    waits: Result<Option<Deadline>, Refusal>,
    body: Incoming,
) -> Answer {
    let work = async {
        let work = handle(app, operation, resource, head, body);
        match waits? {
            Some(deadline) => deadline.within(&head.method, work).await,
            None => work.await,
        }
    };
    // Without the check the span would be made and entered even where no subscriber wants it.
    if tracing::enabled!(tracing::Level::DEBUG) {
        let (method, uri, id) = (&head.method, &head.uri, head.id());
        let span = tracing::debug_span!("request", %method, %uri, id);
        return work.instrument(span).await;
    }
    work.await
}

/// The answer as it goes out: what is large is counted, and a refusal booked.
fn finished(app: &App, operation: Operation, head: &Head, answered: Answer) -> Response<Body> {
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
            refusal.into_response(head.id())
        })
}

async fn handle(
    app: &App,
    operation: Operation,
    resource: Resource<'_>,
    head: &Head,
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
        | Operation::DeleteUser => owner::serve(app, operation, resource, head, body).await,
        // Rare and large: in a box, so that the others need not carry their state.
        Operation::Mention => Box::pin(mentions::mention(app, head, body)).await,
        Operation::Batch => batch::batch(app, head, body).await,
        Operation::Ring => Box::pin(probes::ring(app, head)).await,
        Operation::Livez => Ok(probes::livez()),
        Operation::Readyz => Ok(probes::readyz(app)),
        Operation::Metrics => Ok(Box::pin(probes::metrics(app)).await),
        Operation::Openapi => Ok(probes::openapi()),
        Operation::AdminStatus => Box::pin(admin::status(app)).await,
        Operation::AdminFlush => Box::pin(admin::flush(app)).await,
        Operation::AdminSetCapacity => {
            let body = body::read(&app.gates, body).await?;
            admin::set_capacity(app, body::json(&head.headers, &body.bytes)?)
        }
        Operation::AdminMove => {
            let body = body::read(&app.gates, body).await?;
            let request = body::json(&head.headers, &body.bytes)?;
            Box::pin(admin::start_moves(app, request)).await
        }
        Operation::AdminDrain => {
            let body = body::read(&app.gates, body).await?;
            admin::drain(app, body::json(&head.headers, &body.bytes)?)
        }
        Operation::Handoff => Box::pin(handoff::receive(app, head, body)).await,
        // Nothing is routed there.
        Operation::Unrouted => Err(no_route(&head.uri)),
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
