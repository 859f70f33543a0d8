//! What backups are told of blocks, under the lock of the blocks' stripe.

use std::time::Duration;

use super::{
    Cache, Exported, PARTS, SlotSet,
    accounts::Shared,
    landed::Landed,
    slots::Term,
    stripe::Stripe,
    table::{Hash, STRIPES, Spot, Stage},
};
use crate::{
    block::BlockRef,
    codec,
    replication::{Changed, Replicas},
};

impl Cache {
    /// Tells those that are seeded with some slots of every user that the store lacks something of. Changes from now on
    /// are told as they come.
    pub(crate) fn seed(&self, slots: &SlotSet, replicas: &Replicas) {
        for part in 0..PARTS {
            let stripe = self.stripes[part % STRIPES].lock();
            for spot in stripe.tables.spots(part / STRIPES) {
                let record = stripe.tables.at(spot);
                let user = stripe.slab.user(record.place());
                let is_dirty = record.stage() != Stage::Clean;
                if is_dirty && slots.contains(readstates_ring::Slot::of_user(user)) {
                    stripe.image(user, spot, replicas, &self.shared);
                }
            }
        }
    }

    /// The users of some slots that the store lacks something of, with their versions and packed blocks.
    pub(crate) fn dirty_of(&self, slots: &SlotSet) -> Vec<(u64, u64, Vec<u8>)> {
        let mut dirty = Vec::new();
        for part in 0..PARTS {
            let stripe = self.stripes[part % STRIPES].lock();
            for spot in stripe.tables.spots(part / STRIPES) {
                let record = stripe.tables.at(spot);
                let user = stripe.slab.user(record.place());
                let is_dirty = record.stage() != Stage::Clean;
                if is_dirty && slots.contains(readstates_ring::Slot::of_user(user)) {
                    let block = stripe.block(spot);
                    let packed = codec::encode(block, self.shared.process.incarnation);
                    dirty.push((user, block.version(), packed));
                }
            }
        }
        dirty
    }

    /// As [`Cache::land`], of a user that the store lacks something of: an owner before this one has acknowledged it.
    pub(crate) fn land_replayed<T>(
        &self,
        user: u64,
        block: &[u8],
        term: Term,
        now: std::time::Instant,
        first: impl FnOnce(&mut Landed<'_>) -> T,
    ) -> Option<T> {
        let hash = Hash::of(user);
        let mut stripe = self.stripes[hash.stripe()].lock();
        if self.shared.slots.term(hash) != Some(term) {
            return None;
        }
        let spot = match stripe.find(user, hash) {
            Some(spot) => spot,
            None => {
                let replayed = Exported {
                    user,
                    bytes: Vec::new(),
                    // Another owner's: the next change jumps above every version of that one.
                    taken_over: true,
                    dirty_for: Some(Duration::ZERO),
                };
                stripe.import(BlockRef::trusted(block), &replayed, now, &self.shared);
                stripe.publish(&self.shared);
                stripe.find(user, hash)?
            }
        };
        Some(first(&mut Landed {
            stripe: &mut stripe,
            hash,
            spot,
            now,
            shared: &self.shared,
        }))
    }
}

impl Stripe {
    /// A user has changed: its backups get the change, or the whole block if it was another owner's until now.
    pub(super) fn replicate(
        &self,
        changed: &Changed<'_>,
        was_foreign: bool,
        spot: Spot,
        replicas: &Replicas,
        shared: &Shared,
    ) {
        if was_foreign {
            self.image(changed.user, spot, replicas, shared);
        } else {
            replicas.changed(changed);
        }
    }

    fn image(&self, user: u64, spot: Spot, replicas: &Replicas, shared: &Shared) {
        if replicas.is_backed(user) {
            let block = self.block(spot);
            let packed = codec::encode(block, shared.process.incarnation);
            replicas.image(user, block.version(), &packed);
        }
    }
}
