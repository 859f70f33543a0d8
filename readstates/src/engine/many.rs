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
    cache::{Refused, Single, Touch},
    clock,
    load::{Group, Item, LoadError, Outcomes},
    mixed::BuildMixed,
};

/// Operations after which other tasks of this thread get a turn: about a tenth of a millisecond.
const TURN: usize = 512;

/// What a caller gets back for each operation.
type Done<O> = Result<<O as Single>::Seen, NotDone>;
/// The same, or `None` while its user is being loaded.
type Pending<O> = Option<Done<O>>;
// Callers bound their memory by the size of a result.
const _: () =
    assert!(size_of::<Option<Result<Outcome, NotDone>>>() == size_of::<Result<Outcome, NotDone>>());

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
        let mut results = Vec::with_capacity(operations.len());
        let mut cold = Cold::default();
        for turn in operations.chunks(TURN) {
            if !results.is_empty() {
                tokio::task::yield_now().await;
            }
            self.change_cached(turn, touch, &mut results, &mut cold);
        }
        if !cold.places.is_empty() {
            self.change_cold(operations, touch, &cold.places, &mut results)
                .await;
        }
        // None is left that is not known: what its load has not told by the deadline, `settle` refuses.
        let known = |done: Pending<O>| done.unwrap_or(Err(NotDone::Unknown));
        results.into_iter().map(known).collect()
    }

    /// Applies what can be applied now; notes the rest.
    fn change_cached<O: Single>(
        &self,
        operations: &[(u64, O)],
        touch: Touch,
        results: &mut Vec<Pending<O>>,
        cold: &mut Cold,
    ) {
        let (mut applied, mut ignored, mut reads, mut refusals) = (0, 0, 0, 0);
        let start = results.len();
        results.resize_with(start + operations.len(), || None);
        let Cold { users, places } = cold;
        let each = |index: usize, done: Option<Result<O::Seen, Refused>>| {
            let known = match done {
                Some(Ok(seen)) => {
                    match O::outcome(&seen) {
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
                    places.push((start + index) as u32);
                    return;
                }
            };
            results[start + index] = Some(known);
        };
        self.cache
            .change_many(operations, touch, clock::now(), users, each);
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
    async fn change_cold<O: Single>(
        &self,
        operations: &[(u64, O)],
        touch: Touch,
        cold: &[u32],
        results: &mut [Pending<O>],
    ) {
        self.metrics.misses.increment(cold.len() as u64);
        let deadline = Instant::now() + self.loader.patience(touch);
        let (group, mut outcomes) = Group::new();
        let window = self.loader.window(touch);
        let (mut left, mut under_way) = (cold.iter(), 0);
        loop {
            for &place in left.by_ref().take(window - under_way) {
                let (user, operation) = operations[place as usize];
                let item = Item {
                    operation,
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
                    results[place as usize] = Some(outcome);
                    under_way -= 1;
                }
                // The channel does not end: `group` holds a sender.
                Ok(None) | Err(_) => break,
            }
        }
        for &place in left {
            results[place as usize] = Some(Err(LoadError::TooManyLoads.into()));
        }
        group.leave();
        self.settle(operations, cold, &mut outcomes, results);
    }

    /// The caller's wait is over: what is not done by now never is, and stays refused.
    fn settle<O: Single>(
        &self,
        operations: &[(u64, O)],
        cold: &[u32],
        outcomes: &mut Outcomes<O::Seen>,
        results: &mut [Pending<O>],
    ) {
        for &place in cold {
            self.loader.settle(operations[place as usize].0);
        }
        while let Ok((place, outcome)) = outcomes.try_recv() {
            results[place as usize] = Some(outcome);
        }
        for &place in cold {
            results[place as usize].get_or_insert(Err(LoadError::StoreAway.into()));
        }
    }
}
