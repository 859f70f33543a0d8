//! What backups have to do with the state of each slot.

use std::collections::HashMap;

use readstates_ring::{
    Epoch, Slot,
    handoff::{SlotAtMember, State},
};
use tokio::time::Instant;

use super::{Inner, Slots};
use crate::replication::Handed;

impl Slots {
    /// Tells both sides of the replication of a config that is new here.
    pub(super) fn tell_replicas(&self, inner: &mut Inner, slot: Slot, before: &SlotAtMember) {
        let machine = inner.machines[usize::from(slot.number())];
        let config = machine.config();
        let Some(replicas) = self.engine.cache().replicas() else {
            return;
        };
        if config == before.config() {
            return;
        }
        let held = before.flushes();
        let goes_on = held.is_some() && config.inherits() == held;
        inner.promoted.retain(|&(of, _, _)| of != slot);
        let backs = config.owner() != machine.me() && config.backup() == Some(machine.me());
        let handed = inner.handed.remove(&slot);
        // Without what was handed on, it is no backup, and refuses.
        let handed = handed.filter(|_| backs && held.is_some() && config.inherits() == held);
        let handed = held.zip(handed);
        let wait = replicas.learned(slot, &config, goes_on, handed);
        let is_handed = matches!(machine.state(), State::Owner { .. }) && !goes_on;
        if is_handed {
            replicas.was_handed(slot);
        } else if let Some(wait) = wait {
            let serves_from = Instant::now() + wait;
            inner.promoted.push((slot, config.epoch(), serves_from));
        }
    }

    /// Keeps what the database lacks of sealed slots until the ring has said who is next: this member is to be the backup.
    pub(in crate::ownership) fn hand(&self, dirty: Handed, slots: impl Iterator<Item = Slot>) {
        let mut handed: HashMap<Slot, Handed> = slots.map(|slot| (slot, Vec::new())).collect();
        for of_user in dirty {
            if let Some(of_slot) = handed.get_mut(&Slot::of_user(of_user.0)) {
                of_slot.push(of_user);
            }
        }
        self.inner.lock().handed.extend(handed);
    }

    /// Everything of these sealed slots is in the database, if the ring has not said yet who is next: a backup without
    /// anything in its journal is complete then.
    pub(in crate::ownership) fn are_written(&self, slots: impl Iterator<Item = Slot>) {
        let mut inner = self.inner.lock();
        for slot in slots {
            if let Some(handed) = inner.handed.get_mut(&slot) {
                *handed = Vec::new();
            }
        }
    }

    /// The slots that this member was promoted for and does not serve yet.
    pub(in crate::ownership) fn promoted(&self) -> Vec<(Slot, Epoch, Instant)> {
        let mut inner = self.inner.lock();
        let Inner {
            machines, promoted, ..
        } = &mut *inner;
        promoted.retain(|&(slot, at, _)| {
            let state = machines[usize::from(slot.number())].state();
            matches!(state, State::Taking { epoch, .. } if epoch == at)
        });
        promoted.clone()
    }

    /// The ring is asked to name a backup of this slot.
    pub(in crate::ownership) fn backup_asked(&self, slot: Slot) {
        let mut inner = self.inner.lock();
        inner.machines[usize::from(slot.number())].backup_asked();
    }
}
