//! What waits for a user to land: a view, a change with a view, or one operation out of many.
//!
//! Each is told its outcome exactly once: when the user lands, when the load fails, or, if its flight
//! ends in neither, by the end of the channel that it holds.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use tokio::sync::{mpsc, oneshot};

use super::LoadError;
use crate::{
    block::{BlockRef, Operation, Outcome, Precondition},
    cache::{Landed, Single, Touch},
    metrics::Metrics,
    mixed,
    refused::NotDone,
};

/// Where the answer of a waiter that is alone goes.
pub(crate) type Answer<T> = oneshot::Sender<Result<T, NotDone>>;
/// What was seen of operations that came together, each with its place among them.
pub(crate) type Outcomes<T> = mpsc::UnboundedReceiver<(u32, Result<T, NotDone>)>;

/// What a heap allocation costs beyond its bytes, about, and a channel for the answer.
const OVERHEAD: usize = 128;

/// Something that waits for a user to land.
pub(crate) trait Waiter: Send {
    /// How many operations it brings; at least 1.
    fn operations(&self) -> usize {
        1
    }

    /// What it takes of memory while it waits, about.
    fn bytes(&self) -> usize;

    /// Whether it may change the user.
    fn changes(&self) -> bool;

    /// Whether no caller waits for its answer any more: then it must change nothing.
    fn gone(&self) -> bool;

    /// Does its work on the user who has landed, and answers.
    fn land(self: Box<Self>, landed: &mut Landed<'_>, metrics: &Metrics);

    /// Answers that the user did not land.
    fn refuse(self: Box<Self>, why: LoadError);
}

/// Looks at the user.
pub(crate) struct Reader<V, T> {
    pub(crate) view: V,
    pub(crate) answer: Answer<T>,
}

impl<T: Send, V: Fn(BlockRef<'_>) -> T + Send> Waiter for Reader<V, T> {
    fn bytes(&self) -> usize {
        size_of::<Self>() + size_of::<T>() + OVERHEAD
    }

    fn changes(&self) -> bool {
        false
    }

    fn gone(&self) -> bool {
        self.answer.is_closed()
    }

    fn land(self: Box<Self>, landed: &mut Landed<'_>, _: &Metrics) {
        let seen = landed.read(&self.view).ok_or(NotDone::Unknown);
        // The caller may have gone.
        let _ = self.answer.send(seen);
    }

    fn refuse(self: Box<Self>, why: LoadError) {
        let _ = self.answer.send(Err(why.into()));
    }
}

/// Changes the user, all or nothing, and looks at the result.
pub(crate) struct Changer<V, T> {
    /// What must hold of the user before.
    pub(crate) precondition: Option<Precondition>,
    pub(crate) operations: Box<[Operation]>,
    pub(crate) touch: Touch,
    pub(crate) view: V,
    pub(crate) answer: Answer<T>,
}

impl<T: Send, V: Fn(BlockRef<'_>, &[Outcome]) -> T + Send> Waiter for Changer<V, T> {
    fn operations(&self) -> usize {
        self.operations.len().max(1)
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + size_of::<T>() + size_of_val(&*self.operations) + OVERHEAD
    }

    fn changes(&self) -> bool {
        true
    }

    fn gone(&self) -> bool {
        self.answer.is_closed()
    }

    fn land(self: Box<Self>, landed: &mut Landed<'_>, metrics: &Metrics) {
        let view = |block: BlockRef<'_>, outcomes: &[Outcome]| {
            metrics.outcomes(outcomes);
            (self.view)(block, outcomes)
        };
        let precondition = self.precondition.as_ref();
        let done = landed.change_if(precondition, &self.operations, self.touch, view);
        let done = done.map_or(Err(NotDone::Unknown), |done| Ok(done?));
        let _ = self.answer.send(done);
    }

    fn refuse(self: Box<Self>, why: LoadError) {
        let _ = self.answer.send(Err(why.into()));
    }
}

/// Shared by operations that came together: where their outcomes go, and whether the caller still waits.
pub(crate) struct Group<T> {
    outcomes: mpsc::UnboundedSender<(u32, Result<T, NotDone>)>,
    left: AtomicBool,
}

impl<T> Group<T> {
    pub(crate) fn new() -> (Arc<Self>, Outcomes<T>) {
        let (sender, outcomes) = mpsc::unbounded_channel();
        let left = AtomicBool::new(false);
        let group = Self {
            outcomes: sender,
            left,
        };
        (Arc::new(group), outcomes)
    }

    /// From now on nothing is begun. What is at work still tells its outcome: the channel stays open until
    /// the last user is settled.
    pub(crate) fn leave(&self) {
        self.left.store(true, Ordering::Release);
    }

    fn gone(&self) -> bool {
        self.left.load(Ordering::Acquire) || self.outcomes.is_closed()
    }
}

/// One of many operations that came together.
pub(crate) struct Item<O: Single> {
    pub(crate) operation: O,
    pub(crate) touch: Touch,
    pub(crate) place: u32,
    /// Taken when it is answered.
    pub(crate) group: Option<Arc<Group<O::Seen>>>,
}

impl<O: Single> Item<O> {
    fn tell(&mut self, outcome: Result<O::Seen, NotDone>) {
        if let Some(group) = self.group.take() {
            let _ = group.outcomes.send((self.place, outcome));
        }
    }
}

impl<O: Single> Waiter for Item<O> {
    fn bytes(&self) -> usize {
        size_of::<Self>() + OVERHEAD
    }

    fn changes(&self) -> bool {
        self.operation.change().is_some()
    }

    fn gone(&self) -> bool {
        self.group.as_ref().is_none_or(|group| group.gone())
    }

    fn land(mut self: Box<Self>, landed: &mut Landed<'_>, metrics: &Metrics) {
        let operation = self.operation;
        let seen = match operation.change() {
            Some(change) => {
                let one = std::slice::from_ref(change);
                let done = landed.change(one, self.touch, |block, outcomes| {
                    metrics.outcomes(outcomes);
                    operation.see(block, outcomes.first().copied())
                });
                done.map(|done| done.map_err(NotDone::from))
            }
            None => landed.read(|block| Ok(operation.see(block, None))),
        };
        self.tell(seen.unwrap_or(Err(NotDone::Unknown)));
    }

    fn refuse(mut self: Box<Self>, why: LoadError) {
        self.tell(Err(why.into()));
    }
}

impl<O: Single> Drop for Item<O> {
    /// Its flight ended without an outcome. Other waiters' callers learn that from the end of the channel, which
    /// this one shares with other items.
    fn drop(&mut self) {
        self.tell(Err(NotDone::Unknown));
    }
}

/// The index of a user among `count` locks, a power of two. Not by the bits that choose the stripe of
/// the cache, so that two users who share a lock there do not share one here.
pub(super) fn lock_of(user: u64, count: usize) -> usize {
    (mixed::keyed(user) >> 40) as usize % count
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

    use super::*;

    /// An item is at work when its caller gives up: its outcome is still told.
    #[test]
    fn what_is_at_work_when_nobody_waits_any_more_still_says_what_became_of_it() {
        let (group, mut outcomes) = Group::new();
        let item = |place| {
            Box::new(Item {
                operation: Operation::Mention {
                    channel: 1,
                    message: 2,
                    count: 1,
                },
                touch: Touch::Mention,
                place,
                group: Some(Arc::clone(&group)),
            })
        };
        let (at_work, next) = (item(0), item(1));
        assert!(!at_work.gone());
        group.leave();
        assert!(next.gone());
        at_work.refuse(LoadError::Unreadable);
        let told = outcomes.try_recv().unwrap();
        assert_eq!(told, (0, Err(LoadError::Unreadable.into())));
    }

    #[test]
    fn items_of_a_call_that_was_given_up_begin_nothing() {
        let (group, outcomes) = Group::<Outcome>::new();
        drop(outcomes);
        assert!(group.gone());
    }
}
