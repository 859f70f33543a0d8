//! Operations of many users in one call: grouped by stripe, so that a lock is taken once for several,
//! and looked up together, so that the processor waits for the memory of all of them at once.

use std::{collections::HashSet, hash::BuildHasher, hint::black_box, time::Instant};

use super::{
    Cache, Refused, Single, Touch,
    stripe::Stripe,
    table::{Hash, STRIPES, Spot},
};

/// Operations under one hold of a lock: some microseconds.
const AT_ONCE: usize = 16;

impl Cache {
    /// Applies operations of many users, each on its own, and tells `each` what was seen of it, by its
    /// index: `None` when the user is not cached. Operations of one user are applied in their order,
    /// and once one of them is `None`, so are the others: `cold` gathers the users of whom that is
    /// so, and may bring some from an earlier part of the same call.
    pub fn change_many<O: Single, S: BuildHasher>(
        &self,
        operations: &[(u64, O)],
        touch: Touch,
        now: Instant,
        cold: &mut HashSet<u64, S>,
        mut each: impl FnMut(usize, Option<Result<O::Seen, Refused>>),
    ) {
        let order = by_stripe(operations);
        let mut rest = &order[..];
        while let Some(&first) = rest.first() {
            let stripe = Hash::of(operations[first as usize].0).stripe();
            let same = rest
                .iter()
                .take(AT_ONCE)
                .take_while(|&&index| Hash::of(operations[index as usize].0).stripe() == stripe);
            let (group, later) = rest.split_at(same.count());
            rest = later;
            let mut stripe = self.stripes[stripe].lock();
            let spots = stripe.find_all(operations, group);
            for (&index, spot) in group.iter().zip(spots) {
                let (user, operation) = &operations[index as usize];
                // A user may be loaded in the midst of this.
                let spot = spot.filter(|_| cold.is_empty() || !cold.contains(user));
                if spot.is_none() {
                    cold.insert(*user);
                }
                let done = spot.map(|spot| {
                    stripe.touch(spot, touch);
                    let outcome = match operation.change() {
                        Some(change) => {
                            let one = std::slice::from_ref(change);
                            let outcomes = stripe.apply(*user, spot, one, now, &self.shared)?;
                            Some(outcomes.as_slice()[0])
                        }
                        None => None,
                    };
                    // What `apply` tidies does not move records.
                    Ok(operation.see(stripe.block(spot), outcome))
                });
                each(index as usize, done);
            }
        }
    }
}

/// The indices of operations by stripe, in their order within each.
fn by_stripe<O>(operations: &[(u64, O)]) -> Vec<u32> {
    let mut starts = [0_u32; STRIPES + 1];
    for &(user, _) in operations {
        starts[Hash::of(user).stripe() + 1] += 1;
    }
    for stripe in 0..STRIPES {
        starts[stripe + 1] += starts[stripe];
    }
    let mut order = vec![0; operations.len()];
    for (index, &(user, _)) in operations.iter().enumerate() {
        let next = &mut starts[Hash::of(user).stripe()];
        // A batch is far below 2^32.
        order[*next as usize] = index as u32;
        *next += 1;
    }
    order
}

impl Stripe {
    /// Finds the users of some operations. Each round of reads depends only on the one before, so that
    /// they wait for memory together.
    fn find_all<O>(&self, operations: &[(u64, O)], group: &[u32]) -> [Option<Spot>; AT_ONCE] {
        let user = |index: u32| operations[index as usize].0;
        let homes = group
            .iter()
            .map(|&index| self.tables.home(Hash::of(user(index))));
        black_box(homes.fold(0, u64::wrapping_add));
        let mut spots = [None; AT_ONCE];
        for (spot, &index) in spots.iter_mut().zip(group) {
            *spot = self.find(user(index), Hash::of(user(index)));
        }
        for spot in spots.iter().flatten() {
            self.slab.warm(self.tables.at(*spot).place());
        }
        spots
    }
}
