//! Senders: tasks that take frames from the queue of an owner until it is empty.
//!
//! No task waits for them: one ends when its queue is empty, and what it leaves open by the deadline of its frame. A call
//! that is dropped meanwhile changes nothing for them.

use std::{
    hash::{Hash, Hasher},
    sync::Arc,
};

use readstates_api::batch::v2::Entry;
use tokio::sync::watch;

use super::{
    alone,
    frame::Frame,
    waiting::{Done, Inner, Waiting},
};
use crate::{
    call::Target,
    error::Error,
    exchange::Destination,
    many::{self, Left},
    routes::Table,
};

/// The owner of users as seen from here; `None`: no owner is known, and any seed forwards.
#[derive(Debug, Clone)]
pub(super) struct OwnerKey(pub(super) Option<Arc<Destination>>);

impl OwnerKey {
    fn address(&self) -> usize {
        self.0.as_ref().map_or(0, |to| Arc::as_ptr(to).addr())
    }
}

impl PartialEq for OwnerKey {
    fn eq(&self, other: &Self) -> bool {
        self.address() == other.address()
    }
}

impl Eq for OwnerKey {}

impl Hash for OwnerKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.address().hash(state);
    }
}

/// Starts a sender for an owner.
pub(super) fn start(inner: Arc<Inner>, owner: OwnerKey) {
    let runtime = inner.runtime.clone();
    // Ends by itself.
    drop(runtime.spawn(send(inner, owner)));
}

async fn send(inner: Arc<Inner>, owner: OwnerKey) {
    loop {
        // Tasks that were about to run when this one was started have added theirs by now.
        let taken = inner.queues().take(&owner);
        if taken.is_empty() {
            return;
        }
        let waiting = taken.into_iter().map(|(_, waiting)| waiting);
        let mut frame = Frame::new(Arc::clone(&inner), waiting);
        let left = attempt(&inner, &mut frame, &owner).await;
        let alone = frame.take_alone();
        if !alone.is_empty() {
            drop(tokio::spawn(alone::send(Arc::clone(&inner), alone)));
        }
        if let Some(left) = left {
            drop(tokio::spawn(go_on(Arc::clone(&inner), frame, left)));
        }
    }
}

/// The first attempt, at the owner.
async fn attempt(
    inner: &Inner,
    frame: &mut Frame,
    owner: &OwnerKey,
) -> Option<Left<(usize, Entry)>> {
    let caller = inner.client.caller();
    let target = match &owner.0 {
        Some(to) => Target {
            to: Arc::clone(to),
            direct: true,
        },
        None => caller.anybody(),
    };
    if !target.to.may_take_frames() {
        frame.set_all_apart();
        return None;
    }
    let to = Arc::clone(&target.to);
    let items = frame.items();
    let left = many::once(caller, frame, items, target, inner.client.deadline()).await;
    if frame.was_refused() {
        to.refuses_frames();
    }
    left
}

/// Further attempts with what the first left open.
async fn go_on(inner: Arc<Inner>, mut frame: Frame, left: Left<(usize, Entry)>) {
    many::go_on(inner.client.caller(), &mut frame, left).await;
    let alone = frame.take_alone();
    alone::send(inner, alone).await;
}

/// Answers operations that have ended, and lets those behind them go.
pub(super) fn end(
    inner: &Arc<Inner>,
    ended: impl IntoIterator<Item = (Waiting, Result<Done, Error>)>,
) {
    let ended: Vec<_> = ended.into_iter().collect();
    let users = ended.iter().map(|(waiting, _)| waiting.entry.user().get());
    let mut owners = Vec::new();
    // Before the answers: a task that goes on with the same user at once finds it free.
    inner
        .queues()
        .land(users, |user| inner.owner_of(user), &mut owners);
    for (waiting, result) in ended {
        // The call may have been dropped.
        let _ = waiting.answer.send(result);
    }
    for owner in owners {
        start(Arc::clone(inner), owner);
    }
}

/// Routes what waits by each new ring, until the task is aborted.
pub(super) async fn route_again(inner: Arc<Inner>, mut rings: watch::Receiver<Option<Arc<Table>>>) {
    while rings.changed().await.is_ok() {
        let mut owners = Vec::new();
        inner
            .queues()
            .route_again(|user| inner.owner_of(user), &mut owners);
        for owner in owners {
            start(Arc::clone(&inner), owner);
        }
    }
}
