//! Frames of requests that another member forwards: each is done, booked and answered as a request of its own.

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures::{
    StreamExt,
    stream::{FuturesUnordered, Stream},
};
use http::{HeaderValue, Method, Response, Uri};
use hyper::body::Incoming;
use readstates_api::{Problem, ProblemType};
use tokio::time::timeout;

use super::{
    App, FORWARDED,
    body::{self, Arrived},
    deadline::Deadline,
    head::Head,
    owner,
    reply::{self, Answer, Body},
    served::{booked, trace, worked},
    singles::{
        MEDIA_TYPE,
        frame::{self, Request},
    },
    target::Target,
};
use crate::operation::{Operation, Port};

/// How long the first answers may take before the response begins without them: its sender then sends the next frame.
/// More than a backup takes, so that mostly one write has all; less than a load from the database.
const FIRST_WITHIN: Duration = Duration::from_millis(2);

/// Takes a frame. The response has a length when all answers are made at once; else they follow as they are made.
pub(super) async fn answer(app: &Arc<App>, head: &Head, content: Incoming) -> Answer {
    body::require(&head.headers, MEDIA_TYPE)?;
    let body = body::read_message(&app.gates, content, frame::MOST_BYTES).await?;
    let requests = frame::parse(body.bytes.clone())
        .map_err(|error| Problem::new(ProblemType::MalformedBody, error.to_string()))?;
    let forwarder = head.headers.get(FORWARDED);
    let work = requests.into_iter().enumerate();
    let work =
        work.map(|(place, request)| one(Arc::clone(app), forwarder.cloned(), place, request));
    let mut answers = Box::pin(Answers {
        work: work.collect::<FuturesUnordered<_>>(),
        _body: body,
    });
    let first = timeout(FIRST_WITHIN, answers.next()).await;
    let first = first.ok().flatten();
    let is_all = answers.work.is_empty();
    let mut response = reply::typed(HeaderValue::from_static(MEDIA_TYPE), Bytes::new());
    *response.body_mut() = match is_all {
        true => Body::whole(first.unwrap_or_default()),
        false => Body::Parts(first, answers),
    };
    Ok(response)
}

/// Answers a request of a frame.
async fn one(
    app: Arc<App>,
    forwarder: Option<HeaderValue>,
    place: usize,
    request: Request,
) -> Vec<u8> {
    let Request {
        operation,
        target,
        timeout,
        mut headers,
        body,
    } = request;
    headers.extend(forwarder.map(|name| (FORWARDED, name)));
    let mut parts = http::Request::new(()).into_parts().0;
    parts.method = Method::from_bytes(operation.method().as_bytes()).unwrap_or_default();
    parts.uri = Uri::try_from(operation.path(target.user, target.channel)).unwrap_or_default();
    parts.headers = headers;
    let head = Head::new(parts, Some(Deadline::after(timeout)));
    let response = passed_on(&app, (Port::Members, operation), target, &head, &body).await;
    let ring = app.ownership.routes().number();
    let (parts, body) = response.into_parts();
    // What has a place in a frame is answered in one piece.
    let body = body.in_one_piece().unwrap_or_default();
    frame::encode_answer(place, &parts, &body, ring)
}

/// Answers a request of a frame within its deadline, and books it.
async fn passed_on(
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

/// Requests under way; what is made of them is a stream of answers, all that are there at a time.
struct Answers<F> {
    work: FuturesUnordered<F>,
    /// Its memory is counted until the last request is done.
    _body: Arrived,
}

impl<F: Future<Output = Vec<u8>>> Stream for Answers<F> {
    type Item = Bytes;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        // `FuturesUnordered` may be moved whatever is in it.
        let work = &mut self.get_mut().work;
        let mut made: Vec<u8> = Vec::new();
        loop {
            match work.poll_next_unpin(context) {
                Poll::Ready(Some(answer)) if made.is_empty() => made = answer,
                Poll::Ready(Some(answer)) => made.extend_from_slice(&answer),
                Poll::Ready(None) if made.is_empty() => return Poll::Ready(None),
                Poll::Pending if made.is_empty() => return Poll::Pending,
                // What is still pending is polled again when the rest is asked for.
                Poll::Ready(None) | Poll::Pending => return Poll::Ready(Some(made.into())),
            }
        }
    }
}

impl<F> fmt::Debug for Answers<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answers")
            .field("open", &self.work.len())
            .finish_non_exhaustive()
    }
}
