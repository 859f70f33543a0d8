//! One request, from its head to its answer: admitted, worked on within its deadline, and booked.

use std::{sync::Arc, time::Instant};

use http::{Request, Response};
use hyper::body::Incoming;

use super::{
    App,
    access::{self, Peer},
    admin, batch, body,
    deadline::Deadline,
    entry::{believe, no_route, routed},
    handoff,
    head::Head,
    mentions, openapi, owner, probes, received_singles,
    reply::{Answer, Body},
    route::Resource,
    served::{booked, trace, worked},
};
use crate::operation::{Operation, Port};

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
        Operation::Singles => Box::pin(received_singles::answer(app, head, body)).await,
        // Nothing is routed there.
        Operation::Unrouted => Err(no_route(&head.uri)),
    }
}
