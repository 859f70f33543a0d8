//! Writes: the old system first, then the service.

use std::{sync::Arc, time::Duration};

use http::{Response, StatusCode};
use hyper::body::{Body as _, Incoming};
use readstates_api::Id;
use tokio::{
    sync::{OwnedSemaphorePermit, oneshot},
    task,
    time::timeout,
};
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::{
    field::{Seen, Twice},
    json,
    old::Head,
    operation::{Operation, Unreadable},
    proxy::{Mirror, text},
    queue::Part,
    tee::Outgoing,
    writes::UnderWay,
};
use crate::http::Body;

/// Bodies of writes that are read; larger ones go to the old system alone.
const MOST_BODY: usize = 1 << 20;
/// How long a caller of the share waits until the service has the write, too.
const AWAITED: Duration = Duration::from_secs(1);

/// What the old system has made of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    Done,
    /// It was refused.
    Nothing,
    /// There is no answer, or one that does not tell.
    Unknown,
}

/// A write, read from its request.
enum Write {
    /// What it means, in parts.
    Parts(Vec<Part>),
    /// Something for users who are not known.
    Unreadable {
        too_large: bool,
        under_way: UnderWay,
    },
}

impl Mirror {
    pub(super) async fn write(
        self: &Arc<Self>,
        route: usize,
        head: Head,
        body: Incoming,
    ) -> Response<Body> {
        let needs_body = self.routes.routes[route].does.needs_body();
        // Without room a body is not read, as one that is too large.
        let room = self.room(&body).filter(|_| needs_body);
        let body = match room.is_some() {
            true => match Outgoing::read(body, MOST_BODY).await {
                Ok(body) => body,
                Err(_) => return text(StatusCode::BAD_REQUEST, "the request ended early"),
            },
            false => Outgoing::unread(body),
        };
        let write = self.parsed(route, &head, &body);
        // Before the look: a stop that it does not see waits for the write.
        let at_old = self.at_old.token();
        if self.at_old.is_closed() {
            return text(StatusCode::SERVICE_UNAVAILABLE, "it is being stopped");
        }
        let mirror = Arc::clone(self);
        // In a task, so that a caller who leaves does not end it when only one of the systems has the write.
        let sent = task::spawn(async move {
            let answer = mirror.both(head, body, write, at_old).await;
            drop(room);
            answer
        });
        sent.await
            .unwrap_or_else(|_| text(StatusCode::BAD_GATEWAY, "failed to pass the request on"))
    }

    /// Room for a body in memory, until its write is queued.
    fn room(&self, body: &Incoming) -> Option<OwnedSemaphorePermit> {
        let most = MOST_BODY as u64;
        let bytes = body.size_hint().upper().unwrap_or(most).min(most);
        let kibibytes = u32::try_from(bytes / 1024 + 1).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.bodies).try_acquire_many_owned(kibibytes);
        room.ok()
    }

    /// What the request means, before anything is sent.
    fn parsed(&self, route: usize, head: &Head, body: &Outgoing) -> Write {
        let does = &self.routes.routes[route].does;
        let json = match body {
            Outgoing::Whole(bytes) => {
                json::read(bytes).map_err(|Twice| Unreadable("a key of the body"))
            }
            Outgoing::None => Ok(None),
            Outgoing::Streamed(_) if does.needs_body() => {
                return self.unreadable(true);
            }
            Outgoing::Streamed(_) => Ok(None),
        };
        let operation = json.and_then(|json| {
            does.write(&Seen {
                path: head.path(),
                query: head.query(),
                headers: &head.headers,
                body: json.as_ref(),
            })
        });
        match operation {
            Ok(Some(operation)) => Write::Parts(Part::of(&operation, &self.writes)),
            Ok(None) => Write::Parts(Vec::new()),
            Err(unreadable) => {
                if let Some(left_out) = self.log.take(std::time::Instant::now()) {
                    let route = &self.routes.routes[route].request;
                    let value = unreadable.0;
                    tracing::warn!(
                        left_out,
                        "in a request of {route} {value} is missing, is there twice, or is of another form"
                    );
                }
                self.unreadable(false)
            }
        }
    }

    fn unreadable(&self, too_large: bool) -> Write {
        Write::Unreadable {
            too_large,
            under_way: self.writes.begin_unknown(),
        }
    }

    /// Sends a write to the old system, and puts it into the queue if that has done it; `at_old`: until then.
    async fn both(
        self: Arc<Self>,
        head: Head,
        body: Outgoing,
        write: Write,
        at_old: TaskTrackerToken,
    ) -> Response<Body> {
        let answer = self.old.send(&head, body.into_body()).await;
        let effect = match &answer {
            Ok(answer) if answer.status().is_success() => Effect::Done,
            Ok(answer) if answer.status().is_client_error() => Effect::Nothing,
            Ok(_) | Err(_) => Effect::Unknown,
        };
        match (effect, write) {
            (Effect::Nothing, _) => {}
            (
                Effect::Done | Effect::Unknown,
                Write::Unreadable {
                    too_large,
                    under_way,
                },
            ) => {
                match too_large {
                    true => self.counts.too_large.increment(1),
                    false => self.counts.unreadable.increment(1),
                }
                // Nobody is proven meanwhile.
                self.proven.clear();
                drop(under_way);
            }
            (Effect::Unknown, Write::Parts(parts)) => {
                self.counts.unknown.increment(parts.len() as u64);
                if let Ok(answer) = &answer
                    && let Some(left_out) = self.log.take(std::time::Instant::now())
                {
                    let status = answer.status().as_u16();
                    tracing::warn!(
                        left_out,
                        status,
                        "the old system's answer to a write does not say whether it is done; the service does not get it"
                    );
                }
                for part in parts {
                    part.lost(&self.proven, &self.counts);
                }
            }
            (Effect::Done, Write::Parts(parts)) => {
                let waiting = parts.into_iter().filter_map(|part| self.queued(part));
                let waiting: Vec<_> = waiting.collect();
                drop(at_old);
                for (user, told) in waiting {
                    self.awaited(user, told).await;
                }
            }
        }
        match self.passed(answer) {
            Ok((answer, body)) => answer.map(|()| Body::Passed(body)),
            Err(none) => *none,
        }
    }

    /// Puts a part into the queue; returns for whom the caller is to wait: a user of the share who reads next.
    fn queued(&self, part: Part) -> Option<(Id, oneshot::Receiver<bool>)> {
        let waits = match &part.operation {
            Operation::Ack { user, .. } | Operation::Delete { user, .. } => {
                self.share.has(*user).then_some(*user)
            }
            // Whoever writes a message does not wait for the badges of others.
            Operation::Mention(_) => None,
        };
        match self.queue.put(part) {
            Ok(told) => waits.map(|user| (user, told)),
            Err(part) => {
                self.counts.dropped.increment(1);
                part.lost(&self.proven, &self.counts);
                None
            }
        }
    }

    /// Waits until the service has a write, for a while. Without it the user is not served from there.
    async fn awaited(&self, user: Id, told: oneshot::Receiver<bool>) {
        // A write that failed has removed the user itself.
        if timeout(AWAITED, told).await.is_err() && self.proven.remove(user) {
            self.counts.unproven.increment(1);
        }
    }
}
