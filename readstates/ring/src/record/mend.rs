//! A ring that went back, because its store was restored, and what its members still know of it.

use super::{NotSwapped, RingMember, RingTable};
use crate::{Epoch, Incarnation, Now, SlotConfig, slot::Slot};

impl RingTable {
    /// This table, as the store has it, with configs that a member knows of slots that it has at lower epochs.
    /// `None` when there are none. Its number is above this one's and `number`.
    ///
    /// If an epoch was given twice, to the owner that the member knows and later to another, the owner that the store
    /// names gets the next epoch: what the first one may still write stays below.
    ///
    /// Members go by epochs, so what the member knows is who really owns these slots: an owner that was named at a
    /// lower epoch does not serve any more. What was swapped since the store was restored, at higher epochs, stays. A
    /// config is left out if neither this table nor `members` says how to reach its owner and its backup.
    #[must_use]
    pub fn mended(
        &self,
        known: impl IntoIterator<Item = (Slot, SlotConfig)>,
        members: &[RingMember],
        number: u64,
    ) -> Option<Self> {
        let mut next = self.clone();
        let mut changed = false;
        for (slot, config) in known {
            let here = self.config(slot);
            if let Some(here) = here.filter(|here| here.gives_again(config)) {
                next.slots[slot] = Some(here.raised());
                changed = true;
                continue;
            }
            let named = [Some(config.owner()), config.backup()];
            let named = named.into_iter().flatten();
            let unlisted: Vec<_> = named.filter(|&it| next.member(it).is_none()).collect();
            let of = |it: &Incarnation| members.iter().find(|member| member.incarnation == *it);
            let found: Vec<&RingMember> = unlisted.iter().filter_map(of).collect();
            let is_later = here.is_none_or(|here| here.epoch() < config.epoch());
            if !is_later || found.len() < unlisted.len() {
                continue;
            }
            next.members.extend(found.into_iter().cloned());
            next.slots[slot] = Some(config);
            changed = true;
        }
        if !changed {
            return None;
        }
        next.drop_who_is_not_named();
        next.number = self.number.max(number).saturating_add(1);
        Some(next)
    }

    /// This table, as the store has it, with the slots that `owner` has served without a break at the epochs given,
    /// though this table names another member, or an epoch that the owner never asked for. Its number is above this
    /// one's and `number`. Slots for which the clock forbids an epoch are left as they are, and returned as well.
    #[must_use]
    pub fn kept(
        &self,
        held: &[(Slot, Epoch)],
        owner: &RingMember,
        number: u64,
        now: impl Into<Now>,
    ) -> (Self, Vec<NotSwapped>) {
        let now = now.into();
        let (mut next, mut refused) = (self.clone(), Vec::new());
        for &(slot, epoch) in held {
            let Some(stored) = self.config(slot) else {
                continue;
            };
            match stored.kept(owner.incarnation, epoch, now) {
                Ok(kept) => next.slots[slot] = Some(kept),
                Err(why) => refused.push(NotSwapped::of(slot, why)),
            }
        }
        if refused.len() < held.len() {
            next.list(owner);
            next.number = self.number.max(number).saturating_add(1);
        }
        (next, refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Succession;

    const NOW: i64 = 1_795_000_000_000_000;

    fn member(bits: u64) -> RingMember {
        let name = format!("chat-{bits}");
        let url = format!("http://{name}");
        RingMember::new(name, Incarnation::new(bits), url, None).unwrap()
    }

    fn swapped(table: &RingTable, slots: std::ops::Range<u16>, to: u64, now: i64) -> RingTable {
        let slots = slots.filter_map(Slot::new);
        let asked: Vec<(Slot, Option<Epoch>)> = slots
            .map(|slot| (slot, table.config(slot).map(|config| config.epoch())))
            .collect();
        let how = Succession::TakenOver;
        table.swap(&asked, &member(to), how, now).unwrap()
    }

    #[test]
    fn a_restored_ring_learns_from_a_member_what_it_has_forgotten_and_keeps_what_came_since() {
        let first = swapped(&RingTable::default(), 0..1024, 1, NOW);
        // The store goes back to this one, in which 1 owns everything.
        let later = swapped(&first, 0..100, 2, NOW + (1 << 25));
        let later = swapped(&later, 0..50, 3, NOW + (1 << 26));
        let since = swapped(&first, 90..110, 4, NOW + (1 << 28));
        let learned = |table: &RingTable, known: &RingTable| {
            table.mended(known.configs(), known.members(), known.number())
        };
        let mended = learned(&since, &later).unwrap();
        let owner = |slot| {
            let slot = Slot::new(slot).unwrap();
            mended.owner(slot).unwrap().incarnation().bits()
        };
        let owners = [0, 49, 50, 89, 90, 109, 110, 1023].map(owner);
        assert_eq!(owners, [3, 3, 2, 2, 4, 4, 1, 1]);
        assert!(mended.number() > later.number().max(since.number()));
        assert_eq!(mended.members().len(), 4);
        assert_eq!(learned(&mended, &later), None, "nothing more to learn");
        assert_eq!(learned(&mended, &first), None);
        let known = |members: &[RingMember]| since.mended(later.configs(), members, 0);
        assert_eq!(known(&[]), None, "it is not known how to reach 2 and 3");
        let second = known(&[member(2)]).unwrap();
        let at = |slot| Slot::new(slot).unwrap();
        assert_eq!(second.config(at(3)), since.config(at(3)));
        assert_eq!(second.config(at(60)), later.config(at(60)));
        let written = RingTable::from_json(&mended.to_json());
        assert_eq!(written.unwrap(), mended);
    }

    #[test]
    fn an_epoch_that_was_given_twice_is_raised_for_whom_the_store_names() {
        let first = swapped(&RingTable::default(), 0..1024, 1, NOW);
        let known = swapped(&first, 0..10, 2, NOW);
        let stored = swapped(&first, 0..5, 3, NOW);
        let mended = stored.mended(known.configs(), known.members(), 0).unwrap();
        let at = |slot| Slot::new(slot).unwrap();
        let (twice, here) = (mended.config(at(0)).unwrap(), stored.config(at(0)).unwrap());
        assert_eq!(known.config(at(0)).unwrap().epoch(), here.epoch());
        assert_eq!(
            (twice.owner(), twice.inherits()),
            (Incarnation::new(3), Some(here.epoch()))
        );
        assert_eq!(twice.epoch().number(), here.epoch().number() + 1);
        assert_eq!(mended.config(at(7)), known.config(at(7)));
        assert_eq!(mended.mended(known.configs(), known.members(), 0), None);
    }

    #[test]
    fn whoever_owns_nothing_in_a_mended_ring_is_not_listed() {
        let first = swapped(&RingTable::default(), 0..1024, 1, NOW);
        let later = swapped(&first, 0..1024, 2, NOW);
        let mended = first.mended(later.configs(), later.members(), 0).unwrap();
        let listed: Vec<u64> = mended
            .members()
            .iter()
            .map(|it| it.incarnation().bits())
            .collect();
        assert_eq!(listed, [2]);
    }
}
