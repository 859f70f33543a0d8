//! One request, from its head to its answer: admitted, worked on within its deadline, and booked.

use std::{sync::Arc, time::Instant};

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::Incoming;
use tracing::Instrument;

use super::{
    App, RING,
    access::{self, Peer},
    admin, batch, body,
    deadline::Deadline,
    entry::{believe, no_route, routed},
    gates::Gates,
    handoff,
    head::{self, Head},
    mentions, openapi, owner, probes,
    reply::{self, Answer, Body},
    route::Resource,
    singles,
    target::Target,
};
use crate::{
    limit::{Limit, Permit},
    operation::{Class, Operation, Port},
};

/// Answers one request, books it, and says the ring's number in the answer.
pub(super) async fn answer(
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
    trace(&app, operation, &head);
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
                let (operation, resource) = routed;
                let work = async {
                    waits?;
                    handle(&app, operation, resource, &head, body).await
                };
                let answered = worked(&head, work).await;
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
    booked(&app, (port, operation), &head, started, answered)
}

/// Answers a request about one user that another member has passed on among others.
pub(super) async fn passed_on(
    app: &App,
    (port, operation): (Port, Operation),
    target: Target,
    head: &Head,
    body: &[u8],
) -> Response<Body> {
    let started = Instant::now();
    trace(app, operation, head);
    let work = owner::serve_passed_on(app, operation, target, head, body);
    let answered = worked(head, work).await;
    booked(app, (port, operation), head, started, answered)
}

/// Begins its span, where requests are traced.
fn trace(app: &App, operation: Operation, head: &Head) {
    if let Some(tracing) = &app.tracing
        && operation.class() != Class::Open
    {
        let span = tracing.begin(operation.method(), operation.route(), &head.headers);
        head.trace(span);
    }
}

/// The answer as it goes out, once it is counted and its span has ended.
fn booked(
    app: &App,
    (port, operation): (Port, Operation),
    head: &Head,
    started: Instant,
    answered: Answer,
) -> Response<Body> {
    let mut response = finished(app, operation, head, answered);
    let ring = app.ownership.routes().header();
    response.headers_mut().insert(RING, ring);
    let (status, took) = (response.status(), started.elapsed());
    app.metrics.request(operation, status, took);
    app.slow.look((port, operation), head, status, took);
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
async fn worked(head: &Head, work: impl Future<Output = Answer>) -> Answer {
    let work = async {
        match &head.deadline {
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
            reply::refused(refusal, head.id())
        })
}

async fn handle(
    app: &Arc<App>,
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
        Operation::Openapi => Ok(openapi::served()),
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
        Operation::Singles => Box::pin(singles::receive(app, head, body)).await,
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
    _permit: Permit<Arc<Limit>>,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}
