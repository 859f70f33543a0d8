//! A call: its place in the queue of an owner, and its wait for the answer.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use readstates_api::{Id, ReadState, Version, batch::v2::Entry};
use readstates_queues::{Queues, Ticket};
use tokio::{
    runtime::Handle,
    sync::oneshot,
    time::{Instant, timeout_at},
};

use super::{
    frame::operation_of,
    sender::{self, OwnerKey},
};
use crate::{
    client::Client,
    error::{Cause, Error, Outcome},
};

/// What senders share. They end by themselves, within the deadline of what they send.
#[derive(Debug)]
pub(super) struct Inner {
    pub(super) client: Client,
    /// Where senders run, whichever runtime a call is made from: one that ends would take what they carry with it, and
    /// the users would have something under way for ever.
    pub(super) runtime: Handle,
    /// Held for the work of one operation or one frame, never across an await.
    queues: Mutex<Queues<OwnerKey, Waiting>>,
}

/// An operation that waits for its answer.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) entry: Entry,
    pub(super) answer: oneshot::Sender<Result<Done, Error>>,
}

/// What an operation came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Done {
    pub(super) applied: bool,
    /// The user's version; 0 where only an acknowledgement tells it.
    pub(super) version: Version,
    /// The state after it; none after a read of what is not there, and after a mention that was sent alone.
    pub(super) state: Option<ReadState>,
}

impl Inner {
    pub(super) fn new(client: Client, runtime: Handle) -> Self {
        Self {
            client,
            runtime,
            queues: Mutex::new(Queues::new()),
        }
    }

    pub(super) fn queues(&self) -> MutexGuard<'_, Queues<OwnerKey, Waiting>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn owner_of(&self, user: u64) -> OwnerKey {
        let owner = Id::new(user).and_then(|user| self.client.caller().routes.owner(user));
        OwnerKey(owner)
    }

    /// Puts an operation in the queue of its owner; `None` when too many wait there.
    fn push(self: &Arc<Self>, waiting: Waiting) -> Option<Ticket> {
        let user = waiting.entry.user().get();
        let pushed = {
            let mut queues = self.queues();
            // By the ring as it is while the queues are held: what is routed again sees this one, too.
            let owner = self.owner_of(user);
            queues.push(user, owner, waiting).ok()?
        };
        if let Some(owner) = pushed.start {
            sender::start(Arc::clone(self), owner);
        }
        Some(pushed.ticket)
    }

    /// Waits in the queue of its owner, and for the answer.
    pub(super) async fn done(self: &Arc<Self>, entry: Entry) -> Result<Done, Error> {
        let began = Instant::now();
        let deadline = began + self.client.deadline();
        let (answer, waiting) = oneshot::channel();
        let user = entry.user().get();
        let ticket = self
            .push(Waiting { entry, answer })
            .ok_or_else(|| ended(&entry, began, Outcome::NothingDone, Cause::Busy))?;
        let mut place = Place {
            inner: self,
            user,
            ticket: Some(ticket),
        };
        match timeout_at(deadline, waiting).await {
            Ok(Ok(answered)) => {
                place.ticket = None;
                answered
            }
            // Its sender was dropped: the runtime is about to end.
            Ok(Err(_)) => Err(ended(&entry, began, Outcome::Unknown, Cause::Late)),
            Err(_) if place.withdraw() => {
                Err(ended(&entry, began, Outcome::NothingDone, Cause::Busy))
            }
            Err(_) => Err(ended(&entry, began, Outcome::Unknown, Cause::Late)),
        }
    }
}

/// The place of a call in its queue, taken back when the call is dropped.
struct Place<'a> {
    inner: &'a Inner,
    user: u64,
    /// `None` once it is answered or taken back.
    ticket: Option<Ticket>,
}

impl Place<'_> {
    /// Whether it still waited.
    fn withdraw(&mut self) -> bool {
        let ticket = self.ticket.take();
        ticket.is_some_and(|ticket| self.inner.queues().withdraw(self.user, ticket))
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.withdraw();
    }
}

/// The error of an operation that ended in this way before a frame told more.
pub(super) fn ended(entry: &Entry, began: Instant, outcome: Outcome, cause: Cause) -> Error {
    let known = Error {
        operation: "",
        outcome,
        repeats: true,
        attempts: 0,
        took: began.elapsed(),
        cause,
    };
    operation_of(entry, outcome, &known)
}
