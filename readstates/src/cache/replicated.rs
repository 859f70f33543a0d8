//! What backups are told of blocks, under the lock of the blocks' stripe.

use std::time::Duration;

use readstates_ring::{
    fence::Needs,
    mutant::{self, Shortcut},
};

use super::{
    Cache, Exported, PARTS, SlotSet,
    accounts::Shared,
    landed::Landed,
    slots::Term,
    stripe::Stripe,
    table::{Bucket, Hash, STRIPES, Stage},
};
use crate::{
    block::BlockRef,
    codec,
    replication::{Changed, Replicas},
};

impl Cache {
    /// The users of some slots that the store lacks something of.
    pub(crate) fn dirty_users_of(&self, slots: &SlotSet) -> Vec<u64> {
        let mut users = Vec::new();
        self.each_dirty(slots, |_, user, _| users.push(user));
        users
    }

    /// The same users with their versions and packed blocks.
    pub(crate) fn dirty_of(&self, slots: &SlotSet) -> Vec<(u64, u64, Vec<u8>)> {
        let mut dirty = Vec::new();
        self.each_dirty(slots, |stripe, user, bucket| {
            let (version, packed) = stripe.packed(bucket, &self.shared);
            dirty.push((user, version, packed));
        });
        dirty
    }

    fn each_dirty(&self, slots: &SlotSet, mut does: impl FnMut(&Stripe, u64, Bucket)) {
        for part in 0..PARTS {
            let stripe = self.stripes[part % STRIPES].lock();
            for bucket in stripe.tables.occupied(part / STRIPES) {
                let record = stripe.tables.at(bucket);
                let user = stripe.slab.user(record.place());
                let is_dirty = record.stage() != Stage::Clean;
                if is_dirty && slots.contains(readstates_ring::Slot::of_user(user)) {
                    does(&stripe, user, bucket);
                }
            }
        }
    }

    /// Tells those that are seeded of a user, unless the store has everything of it by now. Changes from then on are told
    /// as they come. `false`, and nothing is told, when the packed block has more than `most` bytes.
    pub(crate) fn seed(&self, user: u64, most: usize, replicas: &Replicas) -> bool {
        let hash = Hash::of(user);
        let stripe = self.stripes[hash.stripe()].lock();
        let bucket = stripe.find(user, hash);
        let is_dirty = |bucket: &Bucket| stripe.tables.at(*bucket).stage() != Stage::Clean;
        let Some(bucket) = bucket.filter(is_dirty) else {
            return true;
        };
        let (version, packed) = stripe.packed(bucket, &self.shared);
        let fits = packed.len() <= most;
        if fits {
            replicas.image(user, version, &packed);
        }
        fits
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
        let put = |stripe: &mut Stripe, hash| {
            let replayed = Exported {
                user,
                bytes: Vec::new(),
                // Another owner's: the next change jumps above every version of that one.
                taken_over: true,
                dirty_for: Some(Duration::ZERO),
            };
            stripe.import(BlockRef::trusted(block), &replayed, now, &self.shared);
            stripe.publish(&self.shared);
            stripe.find(user, hash)
        };
        self.land_as(user, term, now, put, first)
    }
}

impl Stripe {
    /// A user has changed: its backups get the change, or the whole block, if that is needed.
    pub(super) fn replicate(
        &self,
        changed: &Changed<'_>,
        needs: Needs,
        bucket: Bucket,
        replicas: &Replicas,
        shared: &Shared,
    ) {
        if needs == Needs::Image && !mutant::takes(Shortcut::RestampsAlone) {
            self.image(changed.user, bucket, replicas, shared);
        } else {
            replicas.changed(changed);
        }
    }

    fn image(&self, user: u64, bucket: Bucket, replicas: &Replicas, shared: &Shared) {
        if replicas.is_backed(user) {
            let (version, packed) = self.packed(bucket, shared);
            replicas.image(user, version, &packed);
        }
    }

    /// A user's version and packed block.
    fn packed(&self, bucket: Bucket, shared: &Shared) -> (u64, Vec<u8>) {
        let block = self.block(bucket);
        let packed = codec::encode(block, shared.process.incarnation);
        (block.version(), packed)
    }
}
