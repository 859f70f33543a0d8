//! Blocks of whole slots: out, in, and away.
//!
//! Slots are spread over all stripes and tables, so finding the users of some slots means a walk over
//! all records, one table under one hold of a lock: with ten million users 2400 records, some hundred
//! microseconds. What is copied out of a table under one hold is whole: a user is in it or is not in
//! memory, and a later change of a tracked slot's user is noted.

use std::time::{Duration, Instant};

use readstates_ring::Slot;

use super::{
    Cache,
    accounts::{Booked, Shared, tail},
    exported::Exported,
    lock::Lock,
    slots::SlotSet,
    stripe::Stripe,
    table::{Bucket, Hash, STRIPES, Stage, TABLES},
};
use crate::{
    block::{self, BlockRef, layout::Shape},
    codec,
};

/// Parts in which a walk over all users is made.
pub const PARTS: usize = STRIPES * TABLES;

impl Cache {
    /// The users of some slots in one of the [`PARTS`].
    pub fn export(&self, slots: &SlotSet, part: usize, now: Instant, out: &mut Vec<Exported>) {
        let stripe = self.stripes[part % STRIPES].lock();
        for bucket in stripe.tables.occupied(part / STRIPES) {
            let user = stripe.slab.user(stripe.tables.at(bucket).place());
            if slots.contains(Slot::of_user(user)) {
                out.push(stripe.export(user, bucket, now, &self.shared));
            }
        }
    }

    /// Up to `most` users of some tracked slots who have changed since they were exported last, or
    /// since the tracking began; whether there may be more.
    pub fn export_changed(
        &self,
        slots: &SlotSet,
        most: usize,
        now: Instant,
        out: &mut Vec<Exported>,
    ) -> bool {
        for stripe in &self.stripes {
            let mut stripe = stripe.lock();
            let room = most.saturating_sub(out.len());
            let of_slots = |user: &&u64| slots.contains(Slot::of_user(**user));
            let users: Vec<u64> = stripe.changed.iter().filter(of_slots).copied().collect();
            for &user in users.iter().take(room) {
                stripe.changed.remove(&user);
                // A user that is not there any more was written before it was evicted, and the receiver
                // must not keep what it has.
                let bucket = stripe.find(user, Hash::of(user));
                out.push(match bucket {
                    Some(bucket) => stripe.export(user, bucket, now, &self.shared),
                    None => Exported {
                        user,
                        bytes: Vec::new(),
                        taken_over: false,
                        dirty_for: None,
                    },
                });
            }
            if users.len() > room {
                return true;
            }
        }
        false
    }

    /// How many users of tracked slots have changed since they were exported.
    #[must_use]
    pub fn changed(&self) -> usize {
        let of = |stripe: &Lock<Stripe>| stripe.lock().changed.len();
        self.stripes.iter().map(of).sum()
    }

    /// Forgets which users of these slots have changed.
    pub fn forget_changed(&self, slots: &SlotSet) {
        for stripe in &self.stripes {
            let keep = |user: &u64| !slots.contains(Slot::of_user(*user));
            stripe.lock().changed.retain(keep);
        }
    }

    /// Takes in a user of a closed slot in the place of what is here of it; an empty block takes it
    /// away. The caller makes room afterwards.
    ///
    /// # Errors
    /// When the bytes are no block.
    pub fn import(&self, exported: &Exported, now: Instant) -> Result<(), codec::DecodeError> {
        let user = exported.user;
        let block = match &exported.bytes[..] {
            [] => None,
            bytes => Some(codec::decode(bytes)?.block),
        };
        let hash = Hash::of(user);
        let mut stripe = self.stripes[hash.stripe()].lock();
        if let Some(bucket) = stripe.find(user, hash) {
            stripe.forget(user, bucket, &self.shared);
        }
        if let Some(block) = block {
            stripe.import(block, exported, now, &self.shared);
        }
        stripe.publish(&self.shared);
        Ok(())
    }

    /// Drops the users of retired slots in one of the [`PARTS`], dirty or not.
    fn sweep_part(&self, slots: &SlotSet, part: usize) {
        let mut stripe = self.stripes[part % STRIPES].lock();
        let stripe = &mut *stripe;
        let of_slots = |bucket: &Bucket| {
            let user = stripe.slab.user(stripe.tables.at(*bucket).place());
            slots.contains(Slot::of_user(user)).then_some(user)
        };
        // A removal moves those behind it.
        let users: Vec<u64> = stripe
            .tables
            .occupied(part / STRIPES)
            .filter_map(|bucket| of_slots(&bucket))
            .collect();
        for user in users {
            if let Some(bucket) = stripe.find(user, Hash::of(user)) {
                stripe.forget(user, bucket, &self.shared);
            }
        }
        stripe.publish(&self.shared);
    }

    /// Drops what is in memory of the slots that are retired now, and lets others work in between.
    /// One caller at a time.
    pub async fn sweep(&self) {
        let retired = self.retired();
        let full = |slot: &Slot| retired.contains(*slot) && self.users_of(*slot) > 0;
        if Slot::all().any(|slot| full(&slot)) {
            for part in 0..PARTS {
                self.sweep_part(&retired, part);
                if part % STRIPES == 0 {
                    tokio::task::yield_now().await;
                }
            }
        }
        self.forget_changed(&retired);
        self.revive_all(&retired);
    }
}

impl Stripe {
    fn export(&self, user: u64, bucket: Bucket, now: Instant, shared: &Shared) -> Exported {
        let block = self.block(bucket);
        let dirty_for = (self.tables.at(bucket).stage() != Stage::Clean).then(|| {
            let since = self.dirty.get(user).map(|dirty| dirty.since(shared.origin));
            since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
        });
        Exported {
            user,
            bytes: codec::encode(block, shared.process.incarnation),
            taken_over: Shape::of(block.bytes()).taken_over,
            dirty_for,
        }
    }

    pub(super) fn import(
        &mut self,
        block: BlockRef<'_>,
        from: &Exported,
        now: Instant,
        shared: &Shared,
    ) {
        let Exported {
            user,
            bytes: _,
            taken_over,
            dirty_for,
        } = *from;
        let hash = Hash::of(user);
        let appended = self.slab.appended();
        let mut place = self.slab.put(user, block.bytes());
        if taken_over {
            let mut room = self.room(place);
            block::take_over(&mut room);
            place = room.place;
        }
        let bucket = self.tables.insert(hash, place);
        shared.slots.came(hash);
        let block = self.block(bucket);
        let (tail, version) = (tail(block), block.version());
        shared.book(None, Some(Booked::new(block, dirty_for.is_some())));
        self.tails += tail;
        if let Some(age) = dirty_for {
            let since = now.checked_sub(age).unwrap_or(now);
            let since = shared.moment(since);
            // Counted from now: this process may be younger than the change.
            let left = shared.delay(user).saturating_sub(age);
            let due = shared.moment(now).after(left);
            // Nothing here knows what is written of it; the last change is not.
            let written = version.saturating_sub(1);
            self.dirty.became_dirty(user, since, due, written);
            self.tables.at_mut(bucket).put_stage(Stage::Noted);
        }
        self.tidy_since(appended);
    }

    /// Drops a user, dirty or not.
    fn forget(&mut self, user: u64, bucket: Bucket, shared: &Shared) {
        let record = self.tables.at(bucket);
        let (place, dirty) = (record.place(), record.stage() != Stage::Clean);
        let block = self.block(bucket);
        let (booked, tail) = (Booked::new(block, dirty), tail(block));
        shared.book(Some(booked), None);
        if dirty {
            self.dirty.forget(user);
        }
        self.leave(user, bucket, place, tail, shared);
    }
}
