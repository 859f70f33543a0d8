//! Which slots need a backup, another one, or none; and the seeding of one that is to be named.

use std::{collections::BTreeSet, sync::atomic::Ordering, time::Duration};

use readstates_ring::{Incarnation, Slot, replication::Outbox};

use super::{Desk, Owner};
use crate::replication::{rests::Rests, wire::OfSlot};

impl Owner {
    /// Begins to seed a process with a slot: from now on it gets every change. `false` when it must not be seeded now, or
    /// there is no lane for it. What follows are [`Owner::image`] of each user that the database lacks something of, in as
    /// many frames as it takes, and [`Owner::seeded`].
    pub(crate) fn seed(&self, slot: Slot, to: Incarnation) -> bool {
        self.seed_if(slot, to, Rests::may_seed)
    }

    /// The same also of a process that rests, if it has answered in time for a while.
    pub(crate) fn try_to_seed(&self, slot: Slot, to: Incarnation) -> bool {
        self.seed_if(slot, to, Rests::may_try)
    }

    fn seed_if(
        &self,
        slot: Slot,
        to: Incarnation,
        may_seed: impl Fn(&Rests, Incarnation, Duration) -> bool,
    ) -> bool {
        let mut desk = self.desk.lock();
        if !may_seed(&desk.rests, to, self.now()) {
            return false;
        }
        let Desk {
            streams,
            guards,
            next_stream,
            ..
        } = &mut *desk;
        let guard = &mut guards[slot];
        let Some(epoch) = self.epoch(slot).filter(|_| guard.may_seed(to)) else {
            return false;
        };
        let stream = streams.entry(to);
        let stream = stream.or_insert_with(|| Outbox::numbered(to, *next_stream));
        if self.open_lane(stream).is_none() {
            return false;
        }
        if let Some(before) = guard.backup() {
            // It may answer until the other one is named, and would be asked again at once.
            desk.give_up(before, self.now());
        }
        let Desk {
            streams, guards, ..
        } = &mut *desk;
        guards[slot].seed(to, streams);
        if let Some(stream) = streams.get_mut(&to) {
            self.say_of_slot(stream, slot, epoch, OfSlot::Seed);
        }
        self.publish(&desk, slot);
        true
    }

    /// Whether a process is still seeded with a slot: it was not lost, and neither side has given up the stream since.
    pub(crate) fn seeds(&self, slot: Slot, to: Incarnation) -> bool {
        let desk = self.desk.lock();
        let seeding = desk.guards[slot].seeding();
        seeding == Some(to) && desk.is_seeding(slot)
    }

    /// Everything that the database lacks of a slot was sent to the process that is seeded.
    pub(crate) fn seeded(&self, slot: Slot) {
        let mut desk = self.desk.lock();
        let Desk {
            streams, guards, ..
        } = &mut *desk;
        let guard = &mut guards[slot];
        let stream = guard.seeding().and_then(|to| streams.get_mut(&to));
        if let (Some(stream), Some(epoch)) = (stream, self.epoch(slot)) {
            self.say_of_slot(stream, slot, epoch, OfSlot::Seeded);
            guard.seeded();
        }
    }

    /// The process that the ring is to be asked to name now. From this moment on every answer needs it as well as the
    /// backup before; the state machine has to be told, too ([`readstates_ring::handoff::SlotAtMember::backup_asked`]).
    pub(crate) fn name(&self, slot: Slot) -> Option<Incarnation> {
        let mut desk = self.desk.lock();
        let Desk {
            streams, guards, ..
        } = &mut *desk;
        guards[slot].seeding()?;
        // Before the look at what has gathered: an answer that finds the slot without a backup after it has changed
        // something has appended that before the look.
        self.guarded[slot].store(true, Ordering::SeqCst);
        // What has gathered and not left yet counts as not acknowledged.
        for stream in streams.values_mut() {
            let pending = self
                .lane_of(stream.to())
                .is_some_and(|(_, lane)| lane.pending() > 0);
            if pending {
                stream.gather();
            }
        }
        let guard = &mut guards[slot];
        let named = guard.may_name(streams);
        if let Some(named) = named {
            guard.name(named);
        }
        self.publish(&desk, slot);
        named
    }

    /// Whether the ring may still be asked to name a process that [`Owner::name`] has returned: no later config was
    /// learned since.
    pub(crate) fn may_ask_for(&self, slot: Slot, to: Incarnation) -> bool {
        self.desk.lock().guards[slot].has_asked(to)
    }

    /// Changes of these slots, and of no others, are refused from now on.
    pub(crate) fn hold(&self, slots: &[Slot]) {
        let held: BTreeSet<Slot> = slots.iter().copied().collect();
        for (slot, is_held) in self.held.iter() {
            is_held.store(held.contains(&slot), Ordering::Release);
        }
    }

    /// The slots of this member that have no backup, and none is on the way.
    pub(crate) fn alone(&self) -> BTreeSet<Slot> {
        let desk = self.desk.lock();
        let is_alone = |slot: &Slot| {
            let slot = *slot;
            desk.owned[slot] && !desk.guards[slot].is_needed() && !desk.is_seeding(slot)
        };
        Slot::all().filter(is_alone).collect()
    }

    /// The slots of this member whose backup is one of `these`, and for which no other is on the way.
    pub(crate) fn backed_by(&self, these: impl Fn(Incarnation) -> bool) -> BTreeSet<Slot> {
        let desk = self.desk.lock();
        let is_by = |slot: &Slot| {
            let guard = &desk.guards[*slot];
            guard.backup().is_some_and(&these) && !desk.is_seeding(*slot)
        };
        Slot::all().filter(is_by).collect()
    }

    /// Those of these slots for which no other backup is on the way.
    pub(crate) fn not_seeded(&self, mut slots: Vec<Slot>) -> Vec<Slot> {
        let desk = self.desk.lock();
        slots.retain(|&slot| !desk.is_seeding(slot));
        slots
    }

    /// How many slots of this member have no backup by the config in force.
    pub(crate) fn unprotected(&self) -> u16 {
        let desk = self.desk.lock();
        let guards = desk.guards.iter();
        let unprotected =
            guards.filter(|(slot, guard)| desk.owned[*slot] && guard.backup().is_none());
        unprotected.count() as u16
    }

    /// Bytes that wait for the next frames to all processes.
    pub(crate) fn pending_of_all(&self) -> usize {
        let lanes = self.lanes.iter().filter_map(|lane| lane.load_full());
        lanes.map(|lane| lane.pending()).sum()
    }

    /// Answers that wait for backups.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Bytes that wait for the next frame to a process.
    pub(crate) fn pending(&self, to: Incarnation) -> usize {
        self.lane_of(to).map_or(0, |(_, lane)| lane.pending())
    }

    /// The slots that are seeded.
    pub(crate) fn seeding(&self) -> BTreeSet<Slot> {
        let desk = self.desk.lock();
        let seeding = desk
            .guards
            .iter()
            .filter(|(_, guard)| guard.seeding().is_some());
        seeding.map(|(slot, _)| slot).collect()
    }

    /// How many streams there are.
    #[cfg(test)]
    pub(crate) fn streams(&self) -> usize {
        self.desk.lock().streams.len()
    }

    /// The processes that there are streams to.
    pub(crate) fn backups(&self) -> Vec<Incarnation> {
        let lanes = self.lanes.iter().filter_map(|lane| lane.load_full());
        lanes.map(|lane| lane.to()).collect()
    }
}

impl Desk {
    /// Whether a process is seeded with a slot, or was, and has not refused it.
    fn is_seeding(&self, slot: Slot) -> bool {
        let seeding = self.guards[slot].seeding();
        let stream = seeding.and_then(|to| self.streams.get(&to));
        stream.is_some_and(|it| it.carries(slot) && it.refused(slot).is_none())
    }
}
