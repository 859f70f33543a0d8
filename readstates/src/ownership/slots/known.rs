//! What the ring says of each slot, and what else is known here.

use std::collections::BTreeSet;

use readstates_ring::{
    Epoch, Incarnation, RingTable, Slot, SlotConfig,
    handoff::{Action, Event, Stage, State},
};

use super::{Slots, rows::Row};
use crate::cache::SlotSet;

impl Slots {
    /// Tells every slot its config in a table; returns the slots for which the table has a later epoch.
    pub(in crate::ownership) fn learn(&self, table: &RingTable) -> Vec<Slot> {
        let mut inner = self.inner.lock();
        let mut news = Vec::new();
        for (slot, config) in table.configs() {
            let row = &inner.rows[slot];
            let known = row.machine.config();
            if config.epoch() < known.epoch() || config == known {
                continue;
            }
            if !row.held {
                if row.machine.keeps(config).is_some() && !self.gate.has_lease() {
                    // The lost lease was not noticed yet: other members may have taken the slot.
                    self.hear_in(&mut inner, slot, Event::LeaseLost);
                }
                let actions = self.hear_in(&mut inner, slot, Event::Learned(config));
                if matches!(actions[..], [Action::Keep { .. }]) {
                    continue;
                }
            }
            if config.epoch() > known.epoch() {
                news.push(slot);
            }
        }
        news
    }

    /// The slots that are served here without a break though a table names another member, or an epoch that was not
    /// asked for here; each with the epoch at which it is served.
    pub(in crate::ownership) fn contradicted(&self, table: &RingTable) -> Vec<(Slot, Epoch)> {
        if !self.gate.has_lease() {
            return Vec::new();
        }
        let inner = self.inner.lock();
        let keeps = |(slot, config): (Slot, SlotConfig)| {
            let held = inner.rows[slot].machine.keeps(config)?;
            Some((slot, held))
        };
        table.configs().filter_map(keeps).collect()
    }

    /// The slots that are this member's by the ring, but not every living member has seen that yet.
    pub(in crate::ownership) fn taking(&self) -> Vec<(Slot, Epoch)> {
        let inner = self.inner.lock();
        let taking = |(slot, row): (Slot, &Row)| match row.machine.state() {
            // A promoted owner waits for no agreement.
            State::Taking { epoch, .. } if row.promoted.is_some_and(|(at, _)| at == epoch) => None,
            State::Taking { epoch, .. } => Some((slot, epoch)),
            State::Away
            | State::Receiving { .. }
            | State::Ready { .. }
            | State::Owner { .. }
            | State::Sealed { .. } => None,
        };
        inner.rows.iter().filter_map(taking).collect()
    }

    /// The slots that are served here and not sent anywhere, with their epochs.
    pub(in crate::ownership) fn at_rest(&self) -> Vec<(Slot, Epoch)> {
        let inner = self.inner.lock();
        let served = |(slot, row): (Slot, &Row)| match row.machine.state() {
            State::Owner {
                epoch,
                streaming_to: None,
            } => Some((slot, epoch)),
            State::Owner { .. }
            | State::Taking { .. }
            | State::Away
            | State::Receiving { .. }
            | State::Ready { .. }
            | State::Sealed { .. } => None,
        };
        inner.rows.iter().filter_map(served).collect()
    }

    /// The slots that must begin with the database though their blocks are still in memory: the ring was asked to name
    /// another member, or `forgotten` says that the store has forgotten something.
    pub(in crate::ownership) fn cold(
        &self,
        taking: &[(Slot, Epoch)],
        forgotten: bool,
    ) -> Vec<(Slot, Epoch)> {
        let inner = self.inner.lock();
        let is_cold = |&&(slot, at): &&(Slot, Epoch)| {
            let machine = &inner.rows[slot].machine;
            let State::Taking { epoch, cold } = machine.state() else {
                return false;
            };
            let warm = machine.config().inherits().is_some();
            epoch == at && (cold || (forgotten && warm))
        };
        taking.iter().filter(is_cold).copied().collect()
    }

    /// The slots for which the ring is asked to name the destination of a transfer.
    pub(in crate::ownership) fn handing(&self) -> SlotSet {
        let inner = self.inner.lock();
        let is_handing = |row: &Row| {
            matches!(
                row.machine.state(),
                State::Sealed {
                    stage: Stage::Handing { .. },
                    ..
                }
            )
        };
        let handing = inner.rows.iter().filter(|(_, row)| is_handing(row));
        handing.map(|(slot, _)| slot).collect()
    }

    /// Whether sealed slots are kept, whatever the ring says: see [`Slots::hold`].
    pub(in crate::ownership) fn holds(&self) -> bool {
        self.inner.lock().rows.iter().any(|(_, row)| row.held)
    }

    /// The latest config that is known here of each slot that has one.
    pub(in crate::ownership) fn known(&self) -> Vec<(Slot, SlotConfig)> {
        let inner = self.inner.lock();
        let all = inner.rows.iter();
        let all = all.map(|(slot, row)| (slot, row.machine.config()));
        all.filter(|(_, config)| config.owner() != Incarnation::new(0))
            .collect()
    }

    /// Whether a slot has this config here: what is read of a sealed slot is not taken in before its transfer has ended.
    pub(in crate::ownership) fn has_learned(&self, slot: Slot, config: SlotConfig) -> bool {
        self.inner.lock().rows[slot].machine.config() == config
    }

    /// Whether later configs than these epochs are known here of all of these slots.
    pub(in crate::ownership) fn are_over(&self, slots: &[(Slot, Epoch)]) -> bool {
        let inner = self.inner.lock();
        let is_over =
            |&(slot, epoch): &(Slot, Epoch)| inner.rows[slot].machine.config().epoch() > epoch;
        slots.iter().all(is_over)
    }

    /// The processes that are known here to own a slot, or to back one.
    pub(in crate::ownership) fn named(&self) -> BTreeSet<Incarnation> {
        let known = self.known().into_iter();
        let named = known.flat_map(|(_, config)| [Some(config.owner()), config.backup()]);
        named.flatten().collect()
    }

    /// Whether the ring was asked to name another member for a slot, and has not answered here.
    pub(in crate::ownership) fn has_asked(&self, slot: Slot) -> bool {
        self.inner.lock().rows[slot].machine.has_asked()
    }

    /// Whether some slots are this member's by the ring and were not served here since. What was handed on for those is
    /// not written here until they are served, and may have to be dropped: their origin keeps it.
    pub(in crate::ownership) fn has_unserved(&self) -> bool {
        let inner = self.inner.lock();
        let unserved = |(slot, row): (Slot, &Row)| {
            row.machine.flushes().is_some() && !self.engine.cache().is_served(slot)
        };
        inner.rows.iter().any(unserved)
    }

    /// Keeps what is here of these sealed slots, whatever the ring says, until they are let go.
    pub(in crate::ownership) fn hold(&self, slots: &SlotSet) {
        let mut inner = self.inner.lock();
        for (_, row) in inner
            .rows
            .iter_mut()
            .filter(|(slot, _)| slots.contains(*slot))
        {
            row.held = true;
        }
    }

    /// Slots that are let go learn their configs from the next table.
    pub(in crate::ownership) fn let_go(&self, slots: impl Iterator<Item = Slot>) {
        let mut inner = self.inner.lock();
        slots.for_each(|slot| inner.rows[slot].held = false);
    }
}
