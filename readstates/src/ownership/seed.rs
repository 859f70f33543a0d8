//! Seeding members with slots that have no backup, or should have another, and the slots for which that has to wait.
//!
//! Each backup that is named and dropped again takes two epochs of its slot, of some 17 seconds each. One that comes and
//! goes would bring the epoch so far ahead of the clock that the slot cannot be moved. So a slot whose epoch is a quarter
//! of an hour ahead gets no backup until the clock has come nearer: see [`SlotConfig::may_name`].

use std::{collections::BTreeMap, sync::atomic::Ordering};

use readstates_ring::{Epoch, Incarnation, Slot, SlotConfig, replication::Handing};

use super::Ownership;
use crate::{
    cache::{Cache, SlotSet},
    replication::{Replicas, Seeds, Sow},
};

/// Bytes of blocks in the slots for which seeds are begun together, as far as slots are alike.
const MOST_BEGUN: u64 = 4 << 20;

/// What seeds take from and send to.
struct Field<'a> {
    cache: &'a Cache,
    replicas: &'a Replicas,
}

impl Sow for Field<'_> {
    fn goes_on(&self, slot: Slot, to: Incarnation) -> bool {
        self.replicas.owner.seeds(slot, to)
    }

    fn pending(&self, to: Incarnation) -> usize {
        self.replicas.owner.pending(to)
    }

    fn send(&self, user: u64, most: usize) -> bool {
        self.cache.seed(user, most, self.replicas)
    }

    fn done(&self, slot: Slot) {
        self.replicas.owner.seeded(slot);
    }
}

impl Ownership {
    /// Goes on with the seeds under way, and begins others when those have ended.
    pub(super) fn seed_backups(&self, replicas: &Replicas, seeds: &mut Seeds) {
        let cache = self.engine.cache();
        let field = Field { cache, replicas };
        // Those that were given up end with it, before the same slots are seeded anew.
        seeds.go_on(&field);
        if seeds.is_empty() && self.lease.is_valid() {
            self.begin_seeds(replicas, seeds);
            seeds.go_on(&field);
        }
    }

    fn begin_seeds(&self, replicas: &Replicas, seeds: &mut Seeds) {
        let alone = replicas.owner.alone();
        let candidates = self.backups();
        if candidates.is_empty() {
            return;
        }
        let misplaced = self.misplaced(replicas, &candidates);
        let kept = match replicas.is_required() {
            true => replicas.owner.not_seeded(replicas.owner.to_drop()),
            false => Vec::new(),
        };
        let lacks = |slot: &Slot| alone.contains(slot) || kept.contains(slot);
        let is_due = |slot: &Slot| {
            (lacks(slot) || misplaced.contains(slot)) && replicas.may_hand_on(*slot, Handing::Seed)
        };
        let at_rest = self.slots.at_rest();
        let of_each = self.engine.cache().dirty_bytes() / (at_rest.len() as u64).max(1);
        let most = (MOST_BEGUN / of_each.max(1)).max(1) as usize;
        let now = self.mint_time();
        let due = at_rest
            .into_iter()
            .filter(|&(slot, epoch)| SlotConfig::may_name(epoch, now) && is_due(&slot));
        let begun = due.filter_map(|(slot, epoch)| {
            // Others in the same order for each slot: where one rests, the next takes its place.
            let first = usize::from(slot.number()) % candidates.len();
            let in_turn = || candidates[first..].iter().chain(&candidates[..first]);
            let rested = in_turn().find(|&&to| replicas.owner.seed(slot, to));
            // Changes are refused until there is one: one that rests is better than none.
            let is_refused = replicas.is_required() && lacks(&slot);
            let may_try = is_refused && SlotConfig::may_try(epoch, now);
            let tried = || in_turn().find(|&&to| may_try && replicas.owner.try_to_seed(slot, to));
            Some((slot, *rested.or_else(tried)?))
        });
        let begun: Vec<(Slot, Incarnation)> = begun.take(most).collect();
        if begun.is_empty() {
            return;
        }
        // Looked at once changes are told.
        let set: SlotSet = begun.iter().map(|&(slot, _)| slot).collect();
        let mut users: BTreeMap<Slot, Vec<u64>> = BTreeMap::new();
        for user in self.engine.cache().dirty_users_of(&set) {
            users.entry(Slot::of_user(user)).or_default().push(user);
        }
        tracing::debug!(slots = begun.len(), "backups are seeded");
        for (slot, to) in begun {
            seeds.begin(slot, to, users.remove(&slot).unwrap_or_default());
        }
    }

    /// Counts the slots without a backup that wait for the clock, and says when the first one does.
    pub(super) fn look_for_held_back(&self, replicas: &Replicas) {
        let (alone, now) = (replicas.owner.alone(), self.mint_time());
        let waits = |(slot, epoch): &(Slot, Epoch)| {
            alone.contains(slot) && !SlotConfig::may_name(*epoch, now)
        };
        let at_rest = self.slots.at_rest();
        let waiting = at_rest.into_iter().filter(waits).count() as u64;
        let before = self
            .counters
            .backups_held_back
            .swap(waiting, Ordering::Relaxed);
        if waiting > 0 && before == 0 {
            tracing::warn!(
                slots = waiting,
                "slots get no backup for now: theirs came and went so often that their epochs are a quarter of an hour \
                 ahead of the clock, or a clock was wrong"
            );
        }
    }
}
