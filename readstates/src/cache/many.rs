//! Operations of many users in one call: grouped by stripe, so that a lock is taken once for several,
//! and looked up together, so that the processor waits for the memory of all of them at once.

use std::{collections::HashSet, hash::BuildHasher, hint::black_box, ops::Range, time::Instant};

use super::{
    Cache, Operations, Refused, Single, Touch,
    stripe::Stripe,
    table::{Bucket, Hash, STRIPES},
};

/// Operations under one hold of a lock: some microseconds.
const AT_ONCE: usize = 16;

/// One of the operations of a call.
#[derive(Debug, Clone, Copy)]
struct Place {
    hash: Hash,
    index: u32,
}

impl Cache {
    /// Applies some of the operations of many users, each on its own, and tells `each` what was seen of it, by its
    /// index: `None` when the user is not cached. Operations of one user are applied in their order,
    /// and once one of them is `None`, so are the others: `cold` gathers the users of whom that is
    /// so, and may bring some from an earlier part of the same call.
    pub fn change_many<M: Operations + ?Sized, S: BuildHasher>(
        &self,
        operations: &M,
        some: Range<usize>,
        touch: Touch,
        now: Instant,
        cold: &mut HashSet<u64, S>,
        mut each: impl FnMut(usize, Option<Result<<M::One as Single>::Seen, Refused>>),
    ) {
        let order = by_stripe(operations, some);
        let mut rest = &order[..];
        while let Some(first) = rest.first() {
            let stripe = first.hash.stripe();
            let same = rest
                .iter()
                .take(AT_ONCE)
                .take_while(|place| place.hash.stripe() == stripe);
            let (group, later) = rest.split_at(same.count());
            rest = later;
            let mut stripe = self.stripes[stripe].lock();
            let buckets = stripe.find_all(group);
            for (place, bucket) in group.iter().zip(buckets) {
                let user = place.hash.user();
                // A user may be loaded in the midst of this.
                let bucket = bucket.filter(|_| cold.is_empty() || !cold.contains(&user));
                if bucket.is_none() {
                    cold.insert(user);
                }
                let index = place.index as usize;
                let done = bucket.map(|bucket| {
                    stripe.touch(bucket, touch);
                    let operation = operations.operation(index);
                    let outcome = match operation.change() {
                        Some(change) => {
                            let one = std::slice::from_ref(change);
                            let outcomes =
                                stripe.apply(place.hash, bucket, one, now, &self.shared)?;
                            Some(outcomes.as_slice()[0])
                        }
                        None => None,
                    };
                    // What `apply` tidies does not move records.
                    Ok(operation.see(stripe.block(bucket), outcome))
                });
                each(index, done);
            }
        }
    }
}

/// Some operations by stripe, in their order within each.
fn by_stripe<M: Operations + ?Sized>(operations: &M, some: Range<usize>) -> Vec<Place> {
    // A call has far fewer operations than an index holds.
    let place = |index| Place {
        hash: Hash::of(operations.user(index)),
        index: index as u32,
    };
    let places: Vec<Place> = some.map(place).collect();
    let mut starts = [0_u32; STRIPES + 1];
    for place in &places {
        starts[place.hash.stripe() + 1] += 1;
    }
    for stripe in 0..STRIPES {
        starts[stripe + 1] += starts[stripe];
    }
    let mut order = places.clone();
    for place in places {
        let next = &mut starts[place.hash.stripe()];
        order[*next as usize] = place;
        *next += 1;
    }
    order
}

impl Stripe {
    /// Finds the users of some operations. Each round of reads depends only on the one before, so that
    /// they wait for memory together.
    fn find_all(&self, group: &[Place]) -> [Option<Bucket>; AT_ONCE] {
        let homes = group.iter().map(|place| self.tables.home(place.hash));
        black_box(homes.fold(0, u64::wrapping_add));
        let mut buckets = [None; AT_ONCE];
        for (bucket, place) in buckets.iter_mut().zip(group) {
            *bucket = self.find(place.hash.user(), place.hash);
        }
        for bucket in buckets.iter().flatten() {
            self.slab.warm(self.tables.at(*bucket).place());
        }
        buckets
    }
}
