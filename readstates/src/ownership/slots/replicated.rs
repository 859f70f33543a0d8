//! What backups have to do with the state of each slot.

use std::collections::BTreeMap;

use readstates_ring::{
    Epoch, Slot,
    handoff::{SlotAtMember, State},
};
use tokio::time::Instant;

use super::{Slots, rows::Row};
use crate::replication::{Handed, Kept};

impl Slots {
    /// Tells both sides of the replication of a config that is new here.
    pub(super) fn tell_replicas(&self, row: &mut Row, slot: Slot, before: &SlotAtMember) {
        let machine = row.machine;
        let config = machine.config();
        let Some(replicas) = self.engine.cache().replicas() else {
            return;
        };
        if config == before.config() {
            return;
        }
        let me = machine.me();
        let held = before.flushes();
        let kept = match (held.is_some(), config.inherits()) {
            (true, inherits) if inherits == held => Kept::Everything,
            (true, None) if config.owner() == me => Kept::Inherited,
            (true | false, Some(_) | None) => Kept::Nothing,
        };
        row.promoted = None;
        let backs = config.owner() != me && config.backup() == Some(me);
        let handed = row.handed.take();
        // Without what was handed on, it is no backup, and refuses.
        let handed = handed.filter(|_| backs && kept == Kept::Everything);
        let handed = held.zip(handed);
        let wait = replicas.learned(slot, &config, kept, handed);
        let was_handed = match before.state() {
            State::Ready { epoch, .. } => config.owner() == me && config.inherits() == Some(epoch),
            State::Away
            | State::Receiving { .. }
            | State::Taking { .. }
            | State::Owner { .. }
            | State::Sealed { .. } => false,
        };
        if was_handed {
            replicas.was_handed(slot);
        } else if let Some(wait) = wait {
            let serves_from = Instant::now() + wait;
            row.promoted = Some((config.epoch(), serves_from));
        }
    }

    /// Keeps what the database lacks of sealed slots until the ring has said who is next: this member is to be the backup.
    pub(in crate::ownership) fn hand(&self, dirty: Handed, slots: impl Iterator<Item = Slot>) {
        let mut handed: BTreeMap<Slot, Handed> = slots.map(|slot| (slot, Vec::new())).collect();
        for of_user in dirty {
            if let Some(of_slot) = handed.get_mut(&Slot::of_user(of_user.0)) {
                of_slot.push(of_user);
            }
        }
        let mut inner = self.inner.lock();
        for (slot, handed) in handed {
            inner.rows[slot].handed = Some(handed);
        }
    }

    /// Whether that is kept of all of these.
    pub(in crate::ownership) fn is_handed(&self, slots: &[(Slot, Option<Epoch>)]) -> bool {
        let inner = self.inner.lock();
        let is_handed = |(slot, _): &(Slot, _)| inner.rows[*slot].handed.is_some();
        slots.iter().all(is_handed)
    }

    /// Everything of these sealed slots is in the database, if the ring has not said yet who is next: a backup without
    /// anything in its journal is complete then.
    pub(in crate::ownership) fn are_written(&self, slots: impl Iterator<Item = Slot>) {
        let mut inner = self.inner.lock();
        for slot in slots {
            if let Some(handed) = &mut inner.rows[slot].handed {
                *handed = Vec::new();
            }
        }
    }

    /// The slots that this member was promoted for and does not serve yet.
    pub(in crate::ownership) fn promoted(&self) -> Vec<(Slot, Epoch, Instant)> {
        let mut inner = self.inner.lock();
        let promoted = |(slot, row): (Slot, &mut Row)| {
            let state = row.machine.state();
            let is_taking = |at| matches!(state, State::Taking { epoch, .. } if epoch == at);
            row.promoted = row.promoted.filter(|&(at, _)| is_taking(at));
            row.promoted.map(|(at, from)| (slot, at, from))
        };
        inner.rows.iter_mut().filter_map(promoted).collect()
    }

    /// The ring is asked to name a backup of this slot.
    pub(in crate::ownership) fn backup_asked(&self, slot: Slot) {
        let mut inner = self.inner.lock();
        inner.rows[slot].machine.backup_asked();
    }
}
