//! A request on its way: to the old system, and to what its route asks for.

use std::sync::Arc;

use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use super::{
    counts::{Counts, Now},
    differences::Differences,
    old::{self, Head, Old},
    operation::Does,
    ours::Ours,
    queue::Queue,
    routes::Routes,
    share::{Proven, Share},
    tee::Outgoing,
    writes::Writes,
};
use crate::{
    http::{Body, reply},
    ration::Ration,
    store::chain,
};

/// The mirror, as its requests share it.
pub(super) struct Mirror {
    pub(super) routes: Routes,
    pub(super) old: Old,
    pub(super) ours: Arc<Ours>,
    pub(super) queue: Queue,
    pub(super) writes: Arc<Writes>,
    pub(super) share: Share,
    pub(super) proven: Arc<Proven>,
    pub(super) counts: Arc<Counts>,
    pub(super) differences: Differences,
    /// Comparisons under way.
    pub(super) comparisons: Arc<Semaphore>,
    /// Kibibytes of bodies that are read.
    pub(super) bodies: Arc<Semaphore>,
    /// Between two looks at what differs.
    pub(super) pause: std::time::Duration,
    /// Writes until they are in the queue: their callers may have left.
    pub(super) at_old: TaskTracker,
    pub(super) log: Ration,
}

impl Mirror {
    /// How many writes the service does not have yet, each that is in the queue counted by its users.
    pub(super) fn left(&self) -> usize {
        // In this order: a write goes from the one into the other.
        self.at_old.len() + self.queue.len()
    }

    /// The page for Prometheus.
    pub(super) fn page(&self) -> String {
        self.counts.page(Now {
            queued: self.queue.len(),
            proven: self.proven.count(),
        })
    }

    /// An answer of the old system, or that there was none.
    pub(super) fn passed(
        &self,
        answer: Result<reqwest::Response, reqwest::Error>,
    ) -> Result<(Response<()>, reqwest::Body), Box<Response<Body>>> {
        answer.map(old::parted).map_err(|error| {
            self.counts.unanswered.increment(1);
            // Without the URL, which may say who the user is.
            let error = error.without_url();
            if let Some(left_out) = self.log.take(std::time::Instant::now()) {
                let error = chain(&error);
                tracing::warn!(left_out, "the old system did not answer: {error}");
            }
            Box::new(text(
                StatusCode::BAD_GATEWAY,
                "the old system did not answer",
            ))
        })
    }
}

pub(super) async fn answer(mirror: &Arc<Mirror>, request: Request<Incoming>) -> Response<Body> {
    if upgrades(request.method(), request.headers()) {
        let refused = "connections that change their protocol, such as WebSockets, do not go through this mirror: send \
                       them to the old system itself";
        return text(StatusCode::NOT_IMPLEMENTED, refused);
    }
    let (parts, body) = request.into_parts();
    let Some(head) = Head::of(parts) else {
        return text(
            StatusCode::NOT_IMPLEMENTED,
            "only requests for a path are passed on",
        );
    };
    let route = mirror.routes.find(&head.method, head.path());
    mirror.counts.request(route);
    match route.map(|route| (route, &mirror.routes.routes[route].does)) {
        None => {
            let sent = mirror.old.send(&head, Outgoing::unread(body).into_body());
            match mirror.passed(sent.await) {
                Ok((answer, body)) => answer.map(|()| Body::Passed(body)),
                Err(none) => *none,
            }
        }
        Some((route, Does::Read { open, .. })) => mirror.read(route, *open, head, body).await,
        Some((route, Does::Ack { .. } | Does::Mention { .. } | Does::Delete { .. })) => {
            mirror.write(route, head, body).await
        }
    }
}

/// Whether a connection is to become another one. An offer of HTTP/2 may be ignored (RFC 9110 §7.8).
fn upgrades(method: &Method, headers: &HeaderMap) -> bool {
    let offered = headers.get(header::UPGRADE);
    let is_offer = |offered: &HeaderValue| offered.as_bytes().eq_ignore_ascii_case(b"h2c");
    *method == Method::CONNECT || offered.is_some_and(|offered| !is_offer(offered))
}

/// An answer of the mirror's own.
pub(super) fn text(status: StatusCode, text: &str) -> Response<Body> {
    reply::text(status, format!("readstates mirror: {text}\n"))
}
