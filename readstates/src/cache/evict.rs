//! Eviction: which users leave when the cache is over its capacity.
//!
//! LRU in effect, by a clock: a hand goes around over the buckets of the tables, stripe after stripe;
//! a user who was touched since the last pass is passed over and cools, a cold and clean one goes.
//! Dirty ones are passed over and asked to be written early. A lock is held for some hundred buckets
//! at a time.

use std::{sync::atomic::Ordering, time::Instant};

use super::{
    Cache,
    accounts::{Over, Shared},
    stripe::Stripe,
    table::{MOST_HEAT, STRIPES, Stage},
};

/// Passes of the hand after which every user that was not touched meanwhile is cold.
const PASSES: u64 = MOST_HEAT as u64 + 1;

/// Buckets that a hand walks under one hold of its stripe's lock.
const MOST_WALKED: usize = 256;

/// Holds of locks, one after the other, in which a task that loaded a user makes room for it. One or
/// two are enough when users come one at a time; the limit keeps a single task from doing all of the
/// work after a change of the capacity.
const MOST_STEPS: usize = 256;

/// Dirty users that one step asks to be written early.
const MOST_BROUGHT_FORWARD: usize = 16;

/// Bytes of blocks that a step moves in the slab when the cache becomes smaller.
const TIDIED_BY_STEP: usize = 1 << 14;

impl Cache {
    /// Evicts clean users until the cache is within its capacity, nothing can be evicted, or
    /// `MOST_STEPS` are done (some milliseconds); never `keep`. Dirty users that are in the way are
    /// brought forward to be written early. Returns whether any was.
    pub fn make_room(&self, keep: Option<u64>, now: Instant) -> bool {
        let mut shrink = Shrink {
            keep,
            ..self.shrink()
        };
        for _ in 0..MOST_STEPS {
            if !shrink.evict(now) {
                break;
            }
        }
        shrink.brought_forward
    }

    /// Evicts down to the capacity step by step, after it was made smaller.
    #[must_use]
    pub fn shrink(&self) -> Shrink<'_> {
        Shrink {
            cache: self,
            keep: None,
            barren: 0,
            untidy: STRIPES,
            brought_forward: false,
        }
    }
}

/// Eviction down to the capacity, in steps of some tens of microseconds.
#[derive(Debug)]
pub struct Shrink<'a> {
    cache: &'a Cache,
    keep: Option<u64>,
    /// Buckets walked since the last that freed anything.
    barren: u64,
    /// Stripes that are still to be tidied.
    untidy: usize,
    brought_forward: bool,
}

impl Shrink<'_> {
    /// One step; returns whether there is more to do. It may be dropped before the end.
    pub fn step(&mut self, now: Instant) -> bool {
        if self.evict(now) {
            return true;
        }
        // What is evicted leaves holes: give the memory back.
        let Some(index) = self.untidy.checked_sub(1) else {
            return false;
        };
        let mut stripe = self.cache.stripes[index].lock();
        if !stripe.tidy(TIDIED_BY_STEP) {
            self.untidy = index;
        }
        true
    }

    /// Whether dirty users were asked to be written early.
    #[must_use]
    pub fn brought_forward(&self) -> bool {
        self.brought_forward
    }

    /// Walks on by a few buckets; returns whether it should go on.
    fn evict(&mut self, now: Instant) -> bool {
        let shared = &self.cache.shared;
        let over = shared.over();
        let all = shared.buckets.load(Ordering::Relaxed);
        if over.is_nothing() || self.barren > all * PASSES {
            return false;
        }
        let next = self.cache.next_to_evict.fetch_add(1, Ordering::Relaxed) % STRIPES;
        let walk = self.cache.stripes[next]
            .lock()
            .evict(over, self.keep, now, shared);
        self.brought_forward |= walk.brought_forward > 0;
        self.barren = if walk.freed > 0 {
            0
        } else {
            self.barren + walk.walked
        };
        true
    }
}

/// What a walk of the hand came to.
#[derive(Debug, Clone, Copy, Default)]
struct Walk {
    walked: u64,
    /// Users who went.
    freed: u64,
    brought_forward: usize,
}

impl Stripe {
    /// Walks over some buckets, and evicts until what is over is freed.
    fn evict(&mut self, over: Over, keep: Option<u64>, now: Instant, shared: &Shared) -> Walk {
        let mut walk = Walk::default();
        let (mut states, bytes) = (0, self.bytes() as u64);
        // One pass at most, so that no user cools twice while others are cold.
        for _ in 0..MOST_WALKED.min(self.tables.buckets()) {
            let freed = bytes.saturating_sub(self.bytes() as u64);
            if states >= over.states && freed >= over.bytes {
                break;
            }
            walk.walked += 1;
            let Some(bucket) = self.tables.under_hand() else {
                self.tables.advance();
                continue;
            };
            let record = self.tables.at_mut(bucket);
            let (heat, stage, place) = (record.heat(), record.stage(), record.place());
            record.put_heat(heat.saturating_sub(1));
            if heat > 0 {
                self.tables.advance();
                continue;
            }
            let user = self.slab.user(place);
            if stage != Stage::Clean || keep == Some(user) {
                self.tables.advance();
                if stage == Stage::Noted && walk.brought_forward < MOST_BROUGHT_FORWARD {
                    self.bring_forward(user, shared.moment(now));
                    walk.brought_forward += 1;
                }
                continue;
            }
            // The next record may move into this bucket: the hand stays.
            states += self.remove(bucket, shared);
            walk.freed += 1;
        }
        self.publish(shared);
        walk
    }
}
