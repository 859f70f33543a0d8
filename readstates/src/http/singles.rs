//! Requests about one user that are forwarded together: all that wait for one owner leave in one frame.
//!
//! ```text
//! forward ──▶ queue of the owner ──▶ frame, at most two on their way ──▶ the owner ──▶ each its answer, as it is made
//!                   ▲                           │
//!                   └── the response has begun ─┘ the next leaves with what has come meanwhile
//! ```
//! No request waits to be joined by others: while there is little to forward, each leaves at once and alone. The owner
//! answers each request of a frame when it is done, and begins its response soon in any case, so that one that waits for
//! the database holds up neither others nor the next frame. What is done, checked and answered is what would be for a
//! request of its own, and so is what is known when no answer comes.
//!
//! Bounded by the requests that may be under way to one member: what waits counts among them. Requests of one user
//! go one after the other, unless it has unusually many. A call that is dropped takes its request back if it has not
//! left.

pub(super) mod frame;
mod sender;
#[cfg(test)]
mod tests;

use std::{
    hash::{Hash, Hasher},
    ops::Deref,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use http::{HeaderValue, Response};
use readstates_api::{Problem, ProblemType};
use readstates_queues::{Queues, Ticket};
use tokio::{
    sync::oneshot,
    time::{Instant, timeout_at},
};

use self::frame::Encoded;
use super::{
    passed::{Passed, too_many},
    reply::Body,
    target::Target,
};
use crate::{
    limit::{Limit, Permit},
    metrics::Metrics,
    operation::Operation,
    ownership::{Ownership, Peer},
};

/// What a frame is declared as; another layout is another number.
pub(super) const MEDIA_TYPE: &str = "application/vnd.readstates.singles-1";

/// Requests of one user that wait for each other. Those of a user who has more at once, such as a bot, go alone and
/// leave room for others.
const MOST_OF_ONE_USER: usize = 16;

/// The queues of requests to forward.
#[derive(Debug)]
pub(super) struct Singles {
    client: reqwest::Client,
    /// This member's name, as the header says it.
    me: HeaderValue,
    /// Held for the work of one request or one frame, never across an await.
    queues: Mutex<Queues<To, Waiting>>,
    metrics: Arc<Metrics>,
}

/// A request that fits in a frame.
#[derive(Debug)]
pub(super) struct Single {
    user: u64,
    encoded: Encoded,
}

/// What became of a request.
#[derive(Debug)]
pub(super) enum Came {
    /// The owner's answer, and the number of the ring that it works by.
    Answer(Response<Body>, u64),
    /// None; `sent`: the owner may have done it.
    Silence { sent: bool },
    /// It was not sent, since its user has another owner now.
    OwnerMoved,
    /// Nothing was done, and the owner takes this as a request of its own.
    Alone,
}

/// The member that owns a user: one process.
#[derive(Debug, Clone)]
struct To(Arc<Peer>);

/// A request in the queue or in a frame.
#[derive(Debug)]
struct Waiting {
    encoded: Encoded,
    /// Whom it is for: behind others of its user it can be in the queue of another member.
    to: To,
    /// Where that takes forwarded requests.
    at: Arc<str>,
    deadline: Instant,
    answer: oneshot::Sender<Came>,
    /// Kept until it is answered, also when its call is dropped: what is under way is bounded.
    permit: Permit<To>,
}

impl PartialEq for To {
    fn eq(&self, other: &Self) -> bool {
        self.0.incarnation == other.0.incarnation
    }
}

impl Eq for To {}

impl Hash for To {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.incarnation.hash(state);
    }
}

/// The requests under way to it.
impl Deref for To {
    type Target = Limit;

    fn deref(&self) -> &Limit {
        &self.0.to
    }
}

impl Single {
    /// `None`: it is forwarded as a request of its own, since it may be long or its answer may.
    pub(super) fn of(operation: Operation, target: Target, request: &Passed<'_>) -> Option<Self> {
        // HEAD is the method of no operation.
        if request.method.as_str() != operation.method() {
            return None;
        }
        Some(Self {
            user: target.user.get(),
            encoded: frame::encode_request(operation, target, request.headers, &request.body)?,
        })
    }
}

impl Singles {
    pub(super) fn new(
        client: reqwest::Client,
        me: HeaderValue,
        metrics: Arc<Metrics>,
    ) -> Arc<Self> {
        Arc::new(Self {
            client,
            me,
            queues: Mutex::new(Queues::new()),
            metrics,
        })
    }

    fn queues(&self) -> MutexGuard<'_, Queues<To, Waiting>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes a request on to its owner, together with others.
    ///
    /// Cancel-safe: a request that has not left is taken back.
    pub(super) async fn pass(
        self: &Arc<Self>,
        ownership: &Arc<Ownership>,
        (owner, at): (&Arc<Peer>, Arc<str>),
        single: Single,
        timeout: Duration,
    ) -> Result<Came, Problem> {
        let Single { user, encoded } = single;
        if self.queues().waiting_of(user) >= MOST_OF_ONE_USER {
            return Ok(Came::Alone);
        }
        let to = To(Arc::clone(owner));
        let permit = Permit::take(to.clone(), 1).ok_or_else(|| too_many(owner))?;
        let deadline = Instant::now() + timeout;
        let (answer, came) = oneshot::channel();
        let waiting = Waiting {
            encoded,
            to: to.clone(),
            at,
            deadline,
            answer,
            permit,
        };
        let pushed = self.queues().push(user, to, waiting);
        let pushed = pushed.map_err(|_| too_many(owner))?;
        if let Some(to) = pushed.start {
            sender::start(Arc::clone(self), Arc::clone(ownership), to);
        }
        let mut place = Place {
            singles: self,
            user,
            ticket: Some(pushed.ticket),
        };
        match timeout_at(deadline, came).await {
            Ok(came) => {
                place.ticket = None;
                // Without a word of it only when the runtime is about to end.
                Ok(came.unwrap_or(Came::Silence { sent: true }))
            }
            Err(_) if place.withdraw() => Err(still_waits(owner, timeout)),
            Err(_) => Ok(Came::Silence { sent: true }),
        }
    }
}

/// The refusal of a request that has not left in time.
fn still_waits(owner: &Peer, timeout: Duration) -> Problem {
    let detail = format!(
        "what was sent to {} before this was not answered within {timeout:?}; try again later",
        owner.name
    );
    Problem::new(ProblemType::Overloaded, detail)
}

/// The place of a call in its queue, taken back when the call is dropped.
struct Place<'a> {
    singles: &'a Singles,
    user: u64,
    /// `None` once it is answered or taken back.
    ticket: Option<Ticket>,
}

impl Place<'_> {
    /// Whether it still waited.
    fn withdraw(&mut self) -> bool {
        let ticket = self.ticket.take();
        ticket.is_some_and(|ticket| self.singles.queues().withdraw(self.user, ticket))
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.withdraw();
    }
}
