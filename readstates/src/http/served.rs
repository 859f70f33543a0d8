//! What every request has around the work on it: a span, its deadline, and what is booked of its answer.

use std::{sync::Arc, time::Instant};

use bytes::Bytes;
use http::Response;
use tracing::Instrument;

use super::{
    App, RING, body,
    gates::Gates,
    head::{self, Head},
    reply::{self, Answer, Body},
};
use crate::{
    limit::{Limit, Permit},
    operation::{Class, Operation, Port},
};

/// Begins its span, where requests are traced.
pub(super) fn trace(app: &App, operation: Operation, head: &Head) {
    if let Some(tracing) = &app.tracing
        && operation.class() != Class::Open
    {
        let span = tracing.begin(operation.method(), operation.route(), &head.headers);
        head.trace(span);
    }
}

/// The answer as it goes out, once it is counted and its span has ended.
pub(super) fn booked(
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
pub(super) async fn worked(head: &Head, work: impl Future<Output = Answer>) -> Answer {
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
