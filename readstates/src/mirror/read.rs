//! Reads: the old system's answer, or for proven users of the share the service's, and the comparison behind it.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use hyper::body::Incoming;
use readstates_api::Id;
use tokio::{sync::OwnedSemaphorePermit, task, time::sleep};

use super::{
    compare::{Difference, again, differences},
    counts::Skipped,
    field::Seen,
    old::{self, Head},
    proxy::Mirror,
    shape::{Positions, Shape},
    tee::{Outgoing, Tee, collected},
    writes::Quiet,
};
use crate::http::Body;

/// Answers of the old system that are compared; larger ones are skipped.
const MOST_ANSWER: usize = 4 << 20;
/// How often two systems that differ are looked at, before it is left open.
const LOOKS: u32 = 4;

/// Headers that are about the old system's body.
const OF_BODY: [HeaderName; 8] = [
    header::CONTENT_LENGTH,
    header::CONTENT_ENCODING,
    header::CONTENT_RANGE,
    header::ACCEPT_RANGES,
    header::ETAG,
    header::LAST_MODIFIED,
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("repr-digest"),
];

/// A read that is to be compared.
struct Compared {
    route: usize,
    user: Id,
    /// To ask the old system anew.
    head: Head,
    /// From before the old system was asked.
    before: Option<Quiet>,
    _place: OwnedSemaphorePermit,
}

/// What two answers come to.
struct Look {
    found: Vec<Difference>,
    /// No write of the user was under way meanwhile.
    quiet: Option<Quiet>,
}

impl Mirror {
    /// `open`: whoever reaches the old system may read.
    pub(super) async fn read(
        self: &Arc<Self>,
        route: usize,
        open: bool,
        head: Head,
        body: Incoming,
    ) -> Response<Body> {
        let head = head.uncompressed();
        let does = &self.routes.routes[route].does;
        let user = does.reader(&Seen {
            path: head.path(),
            query: head.query(),
            headers: &head.headers,
            body: None,
        });
        let body = Outgoing::unread(body);
        let (Some(user), Some(shape), Outgoing::None) = (user, &self.routes.shape, &body) else {
            self.counts.unreadable.increment(1);
            return match self.passed(self.old.send(&head, body.into_body()).await) {
                Ok((answer, body)) => answer.map(|()| Body::Passed(body)),
                Err(none) => *none,
            };
        };
        let served = self.is_served(user);
        let compared = self.place(route, user, &head);
        if served && open {
            if let Some(positions) = self.ask_ours(shape, user).await {
                if let Some(compared) = compared {
                    task::spawn(Arc::clone(self).compare(compared, None, None));
                }
                self.counts.served.increment(1);
                return ours(Response::new(()), shape.render(user, &positions));
            }
            return self.answer_of_old(self.old.send(&head, None).await, compared);
        }
        if served {
            let (answer, positions) =
                tokio::join!(self.old.send(&head, None), self.ask_ours(shape, user));
            return match (answer, positions) {
                (Ok(answer), Some(positions)) if answer.status() == StatusCode::OK => {
                    self.in_place_of(answer, user, positions, shape, compared)
                }
                (answer, _) => self.answer_of_old(answer, compared),
            };
        }
        self.answer_of_old(self.old.send(&head, None).await, compared)
    }

    /// Whether a user is in the share, proven, and has no write on its way to the service, such as a mention, for which
    /// nobody waits.
    fn is_served(&self, user: Id) -> bool {
        // In this order: a write that fails ends after its user has ceased to be proven.
        self.share.has(user) && self.writes.quiet(user).is_some() && self.proven.has(user)
    }

    /// A place among the comparisons under way.
    fn place(&self, route: usize, user: Id, head: &Head) -> Option<Compared> {
        let Ok(place) = Arc::clone(&self.comparisons).try_acquire_owned() else {
            self.counts.skip(Skipped::Busy);
            return None;
        };
        Some(Compared {
            route,
            user,
            head: head.clone(),
            before: self.writes.quiet(user),
            _place: place,
        })
    }

    /// What the service has of a user who is to be served from there.
    async fn ask_ours(&self, shape: &Shape, user: Id) -> Option<Positions> {
        match self.ours.serve(user).await {
            Ok(states) => Some(shape.of_ours(&states)),
            Err(_) => {
                self.counts.fallbacks.increment(1);
                None
            }
        }
    }

    /// The old system's answer, and a comparison behind it.
    fn answer_of_old(
        self: &Arc<Self>,
        answer: Result<reqwest::Response, reqwest::Error>,
        compared: Option<Compared>,
    ) -> Response<Body> {
        let (answer, body) = match self.passed(answer) {
            Ok(passed) => passed,
            Err(none) => {
                self.counts.skip(Skipped::Status);
                return *none;
            }
        };
        let Some(compared) = compared else {
            return answer.map(|()| Body::Passed(body));
        };
        if let Some(why) = skipped(answer.status(), answer.headers()) {
            self.counts.skip(why);
            return answer.map(|()| Body::Passed(body));
        }
        let mirror = Arc::clone(self);
        let tee = Tee::new(body, MOST_ANSWER, move |copy| match copy {
            Some(copy) => {
                task::spawn(mirror.compare(compared, Some(copy), None));
            }
            None => mirror.counts.skip(Skipped::Unreadable),
        });
        answer.map(|()| Body::Passed(reqwest::Body::wrap(tee)))
    }

    /// The service's answer with the head of the old system's, which has let the caller read.
    fn in_place_of(
        self: &Arc<Self>,
        answer: reqwest::Response,
        user: Id,
        positions: Positions,
        shape: &Shape,
        compared: Option<Compared>,
    ) -> Response<Body> {
        let (head, body) = old::parted(answer);
        let why = skipped(head.status(), head.headers());
        let rendered = shape.render(user, &positions);
        match (compared, why) {
            (Some(_), Some(why)) => self.counts.skip(why),
            (Some(compared), None) => {
                let mirror = Arc::clone(self);
                task::spawn(async move {
                    match collected(body, MOST_ANSWER).await {
                        Some(old) => mirror.compare(compared, Some(old), Some(positions)).await,
                        None => mirror.counts.skip(Skipped::Unreadable),
                    }
                });
            }
            (None, _) => {}
        }
        self.counts.served.increment(1);
        ours(head, rendered)
    }

    /// Compares what both have, and looks again where they differ. Its place bounds it; nobody joins it: one that is
    /// under way at the end of the process has no result.
    async fn compare(
        self: Arc<Self>,
        compared: Compared,
        old: Option<Bytes>,
        ours: Option<Positions>,
    ) {
        let mut first = Some((old, ours));
        let mut before: Option<Vec<Difference>> = None;
        for _ in 0..LOOKS {
            let (since, (old, ours)) = match first.take() {
                Some(given) => (compared.before, given),
                None => {
                    sleep(self.pause).await;
                    (self.writes.quiet(compared.user), (None, None))
                }
            };
            let Look { found, quiet } = match self.look(&compared, since, old, ours).await {
                Ok(look) => look,
                Err(why) => return self.counts.skip(why),
            };
            if found.is_empty() {
                return self.equal(compared.user, quiet);
            }
            if let Some(before) = before.as_ref().filter(|_| quiet.is_some()) {
                let again = again(&found, before);
                if !again.is_empty() {
                    return self.differs(&compared, again);
                }
            }
            before = Some(found);
        }
        self.counts.unsettled.increment(1);
        self.unprove(compared.user);
    }

    /// Compares once, with what is not given asked for.
    async fn look(
        &self,
        compared: &Compared,
        before: Option<Quiet>,
        old: Option<Bytes>,
        ours: Option<Positions>,
    ) -> Result<Look, Skipped> {
        let shape = self.routes.shape.as_ref().ok_or(Skipped::Unreadable)?;
        let old = match old {
            Some(old) => old,
            None => self.ask_old(&compared.head).await?,
        };
        let ours = match ours {
            Some(ours) => ours,
            None => {
                let states = self.ours.states(compared.user).await;
                shape.of_ours(&states.map_err(|_| Skipped::Unanswered)?)
            }
        };
        let old = shape.read(&old).ok_or(Skipped::Unreadable)?;
        let after = self.writes.quiet(compared.user);
        Ok(Look {
            found: differences(&old, &ours),
            quiet: before.filter(|_| before == after),
        })
    }

    async fn ask_old(&self, head: &Head) -> Result<Bytes, Skipped> {
        let answer = self
            .old
            .send(head, None)
            .await
            .map_err(|_| Skipped::Status)?;
        let (answer, body) = old::parted(answer);
        match skipped(answer.status(), answer.headers()) {
            Some(why) => Err(why),
            None => collected(body, MOST_ANSWER)
                .await
                .ok_or(Skipped::Unreadable),
        }
    }

    /// Both have the same, which proves the user if no write was under way meanwhile.
    fn equal(&self, user: Id, quiet: Option<Quiet>) {
        self.counts.equal.increment(1);
        if self.share.has(user) && quiet.is_some() {
            let still = || self.writes.quiet(user) == quiet;
            self.proven.prove(user, still);
        }
    }

    /// Both have been seen to differ twice.
    fn differs(&self, compared: &Compared, found: Vec<Difference>) {
        self.counts.differ(&found);
        self.unprove(compared.user);
        let (user, counts) = (compared.user, Arc::clone(&self.counts));
        let route = self.routes.routes[compared.route].request.clone();
        let differences = self.differences.clone();
        // A disk that hangs holds up a thread for that, and no caller.
        task::spawn_blocking(move || {
            counts
                .not_written
                .increment(differences.write(&route, user, &found));
        });
    }

    fn unprove(&self, user: Id) {
        if self.proven.remove(user) {
            self.counts.unproven.increment(1);
        }
    }
}

/// Why an answer of the old system cannot be compared.
fn skipped(status: StatusCode, headers: &HeaderMap) -> Option<Skipped> {
    if status != StatusCode::OK {
        return Some(Skipped::Status);
    }
    headers
        .contains_key(header::CONTENT_ENCODING)
        .then_some(Skipped::Unreadable)
}

/// An answer with what the service has.
fn ours(head: Response<()>, rendered: Vec<u8>) -> Response<Body> {
    let mut answer = head.map(|()| Body::whole(rendered.into()));
    for name in OF_BODY {
        answer.headers_mut().remove(name);
    }
    let json = HeaderValue::from_static("application/json");
    answer.headers_mut().insert(header::CONTENT_TYPE, json);
    answer
}
