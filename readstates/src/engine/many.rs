//! Operations of many users in one call: a fan-out, a batch.
//!
//! Users who are cached are served first and at once, without a task and without an allocation of
//! their own. The others join one after the other, as many at a time as the loader's window has room
//! for: what waits for that is in the caller's memory alone. Operations of one user keep their order:
//! once one of them has to wait, so do those after it.

use std::{collections::HashSet, sync::Arc};

use tokio::time::{Instant, timeout_at};

use super::{Engine, NotDone};
use crate::{
    block::Outcome,
    cache::{Operations, Refused, Single, Touch},
    clock,
    load::{Group, Item, LoadError},
    mixed::BuildMixed,
};

/// Operations after which other tasks of this thread get a turn: about a tenth of a millisecond.
const TURN: usize = 512;

/// What a caller gets back for each operation.
type Done<O> = Result<<O as Single>::Seen, NotDone>;

/// Whose operations have to wait, and which.
#[derive(Default)]
struct Cold {
    users: HashSet<u64, BuildMixed>,
    /// Places in the call, in order for each user.
    places: Vec<u32>,
}

impl Engine {
    /// Applies operations of many users, each on its own: what was seen of it, or a refusal, per operation, in
    /// their order. Operations of one user are applied in the order in which they are given.
    ///
    /// Users who are cached are served first, at once; the others are loaded while the caller waits, as
    /// many at a time as the loader admits.
    pub async fn change_many<O: Single>(
        &self,
        operations: &[(u64, O)],
        touch: Touch,
    ) -> Vec<Done<O>> {
        self.change_all(operations, touch).await
    }

    /// As [`Engine::change_many`], of operations in another form than a list.
    pub async fn change_all<M: Operations + ?Sized>(
        &self,
        operations: &M,
        touch: Touch,
    ) -> Vec<Done<M::One>> {
        let mut results = Vec::with_capacity(operations.len());
        let mut cold = Cold::default();
        while results.len() < operations.len() {
            if !results.is_empty() {
                tokio::task::yield_now().await;
            }
            self.change_cached(operations, touch, &mut results, &mut cold);
        }
        if !cold.places.is_empty() {
            self.change_cold(operations, touch, &cold.places, &mut results)
                .await;
        }
        results
    }

    /// Applies the operations of one turn, as far as they can be applied now; notes the rest.
    fn change_cached<M: Operations + ?Sized>(
        &self,
        operations: &M,
        touch: Touch,
        results: &mut Vec<Done<M::One>>,
        cold: &mut Cold,
    ) {
        let (mut applied, mut ignored, mut reads, mut refusals) = (0, 0, 0, 0);
        let start = results.len();
        let end = operations.len().min(start + TURN);
        // Each is told below, or by `change_cold`.
        results.resize_with(end, || Err(NotDone::Unknown));
        let Cold { users, places } = cold;
        let each = |index: usize, done: Option<Result<<M::One as Single>::Seen, Refused>>| {
            results[index] = match done {
                Some(Ok(seen)) => {
                    match M::One::outcome(&seen) {
                        Some(Outcome::Applied) => applied += 1,
                        Some(Outcome::Ignored) => ignored += 1,
                        None => reads += 1,
                    }
                    Ok(seen)
                }
                Some(Err(refused)) => {
                    refusals += 1;
                    Err(refused.into())
                }
                None => {
                    // A call has fewer operations than this holds: what is sent is bounded.
                    places.push(index as u32);
                    return;
                }
            };
        };
        let now = clock::now();
        self.cache
            .change_many(operations, start..end, touch, now, users, each);
        let hits = applied + ignored + reads + refusals;
        self.metrics.hits.increment(hits);
        self.metrics.applied.increment(applied);
        self.metrics.ignored.increment(ignored);
        if refusals > 0 {
            // What makes room is written as soon as can be.
            self.flusher.wake();
        }
    }

    /// Queues the operations that have to wait, in order, and waits for them.
    async fn change_cold<M: Operations + ?Sized>(
        &self,
        operations: &M,
        touch: Touch,
        cold: &[u32],
        results: &mut [Done<M::One>],
    ) {
        self.metrics.misses.increment(cold.len() as u64);
        for &place in cold {
            // Stays where the load of a user tells nothing by the deadline.
            results[place as usize] = Err(LoadError::StoreAway.into());
        }
        let deadline = Instant::now() + self.loader.patience(touch);
        let (group, mut outcomes) = Group::new();
        let window = self.loader.window(touch);
        let (mut left, mut under_way) = (cold.iter(), 0);
        loop {
            for &place in left.by_ref().take(window - under_way) {
                let user = operations.user(place as usize);
                let item = Item {
                    operation: operations.operation(place as usize),
                    touch,
                    place,
                    group: Some(Arc::clone(&group)),
                };
                self.loader.join(user, touch, Box::new(item));
                under_way += 1;
            }
            if under_way == 0 {
                return;
            }
            // Cancel-safe: what was not received stays in the channel.
            match timeout_at(deadline, outcomes.recv()).await {
                Ok(Some((place, outcome))) => {
                    results[place as usize] = outcome;
                    under_way -= 1;
                }
                // The channel does not end: `group` holds a sender.
                Ok(None) | Err(_) => break,
            }
        }
        for &place in left {
            results[place as usize] = Err(LoadError::TooManyLoads.into());
        }
        group.leave();
        // The caller's wait is over: what is not done by now never is, and stays refused.
        for &place in cold {
            self.loader.settle(operations.user(place as usize));
        }
        while let Ok((place, outcome)) = outcomes.try_recv() {
            results[place as usize] = outcome;
        }
    }
}
