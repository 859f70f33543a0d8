//! The state machine of every slot at this member, and what its actions do here: doors, terms of the
//! cache, blocks that are dropped or taken in.
//!
//! One lock over all of it, held for the work of one event or one part of a transfer and never across
//! an await. The path of requests does not take it: it looks at the gate and at the routes.

mod known;
mod replicated;
mod transfers;

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use readstates_ring::{
    Epoch, Incarnation, Slot, SlotConfig,
    handoff::{Action, Event, SlotAtMember, Stage, State},
    mutant::{self, Rule},
};
use tokio::{
    sync::{Mutex as Turn, Notify},
    time::Instant,
};
use transfers::Transfer;
pub(super) use transfers::{NotTaken, Part};

use super::gate::Gate;
use crate::{cache::SlotSet, engine::Engine, replication::Handed};

#[derive(Debug)]
pub(super) struct Slots {
    engine: Arc<Engine>,
    gate: Arc<Gate>,
    inner: Mutex<Inner>,
    /// One sweep at a time.
    sweeping: Turn<()>,
    /// There is something to be swept.
    pub(super) garbage: Notify,
}

#[derive(Debug)]
struct Inner {
    /// By number.
    machines: Box<[SlotAtMember]>,
    /// Transfers to this member, by sender.
    transfers: BTreeMap<Incarnation, Transfer>,
    /// Slots to be served once what is left of them is swept.
    opening: Vec<(Slot, Epoch)>,
    /// Nothing is confirmed any more: a member that confirms must stay to become the owner.
    leaving: bool,
    /// Sealed slots for which the ring may name another member that has not yet said that it knows: what is here of
    /// them is kept.
    held: SlotSet,
    /// Slots that this member was promoted for, with the epoch, and from when on it may serve them.
    promoted: Vec<(Slot, Epoch, Instant)>,
    /// What the database lacks of sealed slots that are handed on, while the ring is asked to name their next owner.
    handed: BTreeMap<Slot, Handed>,
}

/// How many slots are in which state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) owned: u16,
    pub(super) sealed: u16,
    pub(super) receiving: u16,
    /// Received slots that are confirmed, so that the ring may name this member for them.
    pub(super) ready: u16,
}

impl Slots {
    pub(super) fn new(me: Incarnation, engine: Arc<Engine>, gate: Arc<Gate>) -> Self {
        // Below every config that there can be.
        let nobody = SlotConfig::from_parts(Epoch::mint(None, 0), Incarnation::new(0), None, None);
        let machines = Slot::all().map(|_| SlotAtMember::at_start(me, nobody));
        Self {
            engine,
            gate,
            inner: Mutex::new(Inner {
                machines: machines.collect(),
                transfers: BTreeMap::new(),
                opening: Vec::new(),
                leaving: false,
                held: SlotSet::default(),
                promoted: Vec::new(),
                handed: BTreeMap::new(),
            }),
            sweeping: Turn::new(()),
            garbage: Notify::new(),
        }
    }

    /// Lets one slot hear of an event, does what is to be done here, and returns what is to be done with
    /// others.
    pub(super) fn hear(&self, slot: Slot, event: Event) -> Vec<Action> {
        self.hear_in(&mut self.inner.lock(), slot, event)
    }

    /// The same event for many slots: those for which something is to be done with others.
    pub(super) fn hear_all(
        &self,
        slots: impl IntoIterator<Item = Slot>,
        event: Event,
    ) -> Vec<(Slot, Action)> {
        let mut inner = self.inner.lock();
        let mut actions = Vec::new();
        for slot in slots {
            let of_slot = self.hear_in(&mut inner, slot, event);
            actions.extend(of_slot.into_iter().map(|action| (slot, action)));
        }
        actions
    }

    fn hear_in(&self, inner: &mut Inner, slot: Slot, event: Event) -> Vec<Action> {
        let index = usize::from(slot.number());
        let before = inner.machines[index];
        let actions = inner.machines[index].step(event);
        self.tell_replicas(inner, slot, &before);
        let others = |action: &Action| !self.carry_out(inner, slot, *action);
        let others = actions.into_iter().filter(others).collect();
        let in_force = inner.machines[index].in_force();
        if in_force != before.in_force() {
            self.gate.put_in_force(slot, in_force);
        }
        others
    }

    /// Carries out an action that concerns this member alone; returns `false` for any other.
    fn carry_out(&self, inner: &mut Inner, slot: Slot, action: Action) -> bool {
        let cache = self.engine.cache();
        let in_force = inner.machines[usize::from(slot.number())].in_force();
        match action {
            Action::Seal => {
                self.gate.close(slot, in_force);
                if in_force.is_some() {
                    // Operations that wait for a load are not waited for. Under the lock, as serving is: a slot that
                    // has gone on under another epoch by now must be able to load.
                    cache.pause(slot);
                }
            }
            Action::Serve { epoch, warm } => {
                inner.leave_transfers(slot);
                if warm && !cache.is_retired(slot) {
                    self.open(inner, slot, epoch);
                } else if cache.users_of(slot) == 0 {
                    cache.revive(slot);
                    self.open(inner, slot, epoch);
                } else {
                    self.gate.close(slot, in_force);
                    cache.close(slot);
                    cache.retire(slot);
                    inner.opening.push((slot, epoch));
                    self.garbage.notify_one();
                }
            }
            Action::Agree { warm } => {
                inner.leave_transfers(slot);
                self.gate.close(slot, in_force);
                if !warm {
                    cache.close(slot);
                    cache.retire(slot);
                    self.garbage.notify_one();
                }
            }
            Action::Release { .. } if mutant::drops(Rule::R6) => {
                self.gate.close(slot, in_force);
                let config = inner.machines[usize::from(slot.number())].config();
                cache.serve(slot, config.epoch());
            }
            Action::Release { .. } => {
                self.gate.close(slot, in_force);
                cache.close(slot);
                cache.retire(slot);
                self.garbage.notify_one();
            }
            Action::DropReceived => {
                inner.leave_transfers(slot);
                cache.retire(slot);
                self.garbage.notify_one();
            }
            Action::Stream { .. }
            | Action::SendLastPart { .. }
            | Action::Confirm { .. }
            | Action::Swap { .. }
            | Action::AskRing
            | Action::Keep { .. }
            | Action::Refuse { .. } => return false,
        }
        true
    }

    /// Serves a slot with what is in memory of it.
    fn open(&self, inner: &Inner, slot: Slot, epoch: Epoch) {
        let cache = self.engine.cache();
        cache.track(&[slot], false);
        cache.serve(slot, epoch);
        let machine = &inner.machines[usize::from(slot.number())];
        self.gate.open(slot, machine.in_force());
    }

    /// Drops what is retired, and opens the slots that waited for that.
    pub(super) async fn sweep(&self) {
        let _turn = self.sweeping.lock().await;
        self.engine.cache().sweep().await;
        let mut inner = self.inner.lock();
        for (slot, epoch) in std::mem::take(&mut inner.opening) {
            let state = inner.machines[usize::from(slot.number())].state();
            let ours = matches!(state, State::Owner { epoch: at, .. } if at == epoch);
            if !ours {
                continue;
            }
            if self.engine.cache().is_retired(slot) {
                // It was given away and taken again meanwhile.
                inner.opening.push((slot, epoch));
                self.garbage.notify_one();
            } else {
                self.open(&inner, slot, epoch);
            }
        }
    }

    /// Seals slots that were streamed, and returns those that are sealed for their transfer now. The others are left
    /// as they are: meanwhile the lease has run out, or they have gone on under another epoch.
    pub(super) fn seal(&self, slots: &[(Slot, Epoch)]) -> Vec<(Slot, Epoch)> {
        let mut inner = self.inner.lock();
        let sealed = |&&(slot, at): &&(Slot, Epoch)| {
            self.hear_in(&mut inner, slot, Event::CaughtUp);
            let state = inner.machines[usize::from(slot.number())].state();
            matches!(state, State::Sealed { epoch, stage: Stage::Finishing { .. } } if epoch == at)
        };
        slots.iter().filter(sealed).copied().collect()
    }

    /// The slots that are this member's, sealed or not, with their epochs.
    pub(super) fn mine(&self) -> Vec<(Slot, Epoch)> {
        let inner = self.inner.lock();
        let epoch = |slot: Slot| inner.machines[usize::from(slot.number())].flushes();
        Slot::all()
            .filter_map(|slot| Some((slot, epoch(slot)?)))
            .collect()
    }

    /// If the ring has not named this member for a slot again in time, the slot waits for the next lease renewal.
    pub(super) fn retake_later(&self, slots: &[Slot]) {
        let mut inner = self.inner.lock();
        for &slot in slots {
            let state = inner.machines[usize::from(slot.number())].state();
            let retaking = matches!(
                state,
                State::Sealed {
                    stage: Stage::Retaking { .. },
                    ..
                }
            );
            if retaking {
                self.hear_in(&mut inner, slot, Event::LeaseLost);
            }
        }
    }

    pub(super) fn counts(&self) -> Counts {
        let inner = self.inner.lock();
        let mut counts = Counts::default();
        for machine in &inner.machines {
            match machine.state() {
                State::Away => {}
                State::Receiving { .. } => counts.receiving += 1,
                State::Ready { .. } => {
                    counts.receiving += 1;
                    counts.ready += 1;
                }
                State::Owner { .. } => counts.owned += 1,
                State::Sealed { .. } | State::Taking { .. } => {
                    counts.owned += 1;
                    counts.sealed += 1;
                }
            }
        }
        counts
    }
}
