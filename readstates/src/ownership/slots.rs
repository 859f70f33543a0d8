//! The state machine of every slot at this member, and what its actions do here: a slot is served, sealed, kept or
//! dropped, at its gate and in the cache at once.
//!
//! One lock over all of it, held for the work of one event or one part of a transfer and never across
//! an await. The path of requests does not take it: it looks at the gate and at the routes.

mod known;
mod replicated;
mod rows;
mod transfers;

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use readstates_ring::{
    BySlot, Epoch, Incarnation, Slot,
    handoff::{Action, Event, Stage, State},
    mutant::{self, Rule},
};
use rows::Row;
use tokio::sync::{Mutex as Turn, Notify};
use transfers::Transfer;
pub(super) use transfers::{NotTaken, Part};

use super::gate::Gate;
use crate::engine::Engine;

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
    rows: BySlot<Row>,
    /// Transfers to this member, by sender.
    transfers: BTreeMap<Incarnation, Transfer>,
    /// Nothing is confirmed any more: a member that confirms must stay to become the owner.
    leaving: bool,
}

/// What becomes of a slot here.
#[derive(Debug, Clone, Copy)]
enum Here {
    /// It is served at this epoch, with what is in memory of it.
    Served(Epoch),
    /// It is not served; what is in memory stays, and nothing more is loaded. Operations that wait for a load are not
    /// waited for.
    Sealed,
    /// It is not served; what is in memory stays.
    Kept,
    /// It is not served, and what is in memory is to be swept.
    Dropped,
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
        Self {
            engine,
            gate,
            inner: Mutex::new(Inner {
                rows: rows::at_start(me),
                transfers: BTreeMap::new(),
                leaving: false,
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
        let row = &mut inner.rows[slot];
        let before = row.machine;
        let actions = row.machine.step(event);
        if row.machine.in_force().is_none() {
            // Before those that wait for a backup learn that none is needed any more: they look here next.
            self.gate.put_in_force(slot, None);
        }
        self.tell_replicas(row, slot, &before);
        let others = |action: &Action| !self.carry_out(inner, slot, *action);
        let others = actions.into_iter().filter(others).collect();
        let in_force = inner.rows[slot].machine.in_force();
        if in_force != before.in_force() {
            self.gate.put_in_force(slot, in_force);
        }
        others
    }

    /// Carries out an action that concerns this member alone; returns `false` for any other.
    fn carry_out(&self, inner: &mut Inner, slot: Slot, action: Action) -> bool {
        let here = match action {
            Action::Seal if inner.rows[slot].machine.in_force().is_some() => Here::Sealed,
            Action::Seal => Here::Kept,
            Action::Serve { epoch, warm } => {
                inner.leave_transfers(slot);
                self.serve(&mut inner.rows[slot], slot, epoch, warm)
            }
            Action::Agree { warm } => {
                inner.leave_transfers(slot);
                if warm { Here::Kept } else { Here::Dropped }
            }
            Action::Release { .. } if mutant::drops(Rule::R6) => {
                let config = inner.rows[slot].machine.config();
                self.engine.cache().serve(slot, config.epoch());
                Here::Kept
            }
            Action::Release { .. } => Here::Dropped,
            Action::DropReceived => {
                inner.leave_transfers(slot);
                Here::Dropped
            }
            Action::Stream { .. }
            | Action::SendLastPart { .. }
            | Action::Confirm { .. }
            | Action::Swap { .. }
            | Action::AskRing
            | Action::Keep { .. }
            | Action::Refuse { .. } => return false,
        };
        self.put(&inner.rows[slot], slot, here);
        true
    }

    /// A slot is to be served, with what is in memory of it if that is `warm`.
    fn serve(&self, row: &mut Row, slot: Slot, epoch: Epoch, warm: bool) -> Here {
        let cache = self.engine.cache();
        if warm && !cache.is_retired(slot) {
            return Here::Served(epoch);
        }
        if cache.users_of(slot) == 0 {
            cache.revive(slot);
            return Here::Served(epoch);
        }
        row.opening = Some(epoch);
        Here::Dropped
    }

    /// Makes the gate of a slot and what the cache does with its users what it is here. Under the lock, all of it: a slot
    /// that has gone on under another epoch by now must be able to load.
    fn put(&self, row: &Row, slot: Slot, here: Here) {
        let cache = self.engine.cache();
        let in_force = row.machine.in_force();
        match here {
            Here::Served(epoch) => {
                cache.track(&[slot], false);
                cache.serve(slot, epoch);
                self.gate.open(slot, in_force);
            }
            Here::Sealed => {
                self.gate.close(slot, in_force);
                cache.pause(slot);
            }
            Here::Kept => self.gate.close(slot, in_force),
            Here::Dropped => {
                self.gate.close(slot, in_force);
                cache.close(slot);
                cache.retire(slot);
                self.garbage.notify_one();
            }
        }
    }

    /// Drops what is retired, and opens the slots that waited for that.
    pub(super) async fn sweep(&self) {
        let _turn = self.sweeping.lock().await;
        self.engine.cache().sweep().await;
        let mut inner = self.inner.lock();
        for (slot, row) in inner.rows.iter_mut() {
            let Some(epoch) = row.opening.take() else {
                continue;
            };
            let ours = matches!(row.machine.state(), State::Owner { epoch: at, .. } if at == epoch);
            if !ours {
                continue;
            }
            if self.engine.cache().is_retired(slot) {
                // It was given away and taken again meanwhile.
                row.opening = Some(epoch);
                self.garbage.notify_one();
            } else {
                self.put(row, slot, Here::Served(epoch));
            }
        }
    }

    /// Seals slots that were streamed, and returns those that are sealed for their transfer now. The others are left
    /// as they are: meanwhile the lease has run out, or they have gone on under another epoch.
    pub(super) fn seal(&self, slots: &[(Slot, Epoch)]) -> Vec<(Slot, Epoch)> {
        let mut inner = self.inner.lock();
        let sealed = |&&(slot, at): &&(Slot, Epoch)| {
            self.hear_in(&mut inner, slot, Event::CaughtUp);
            let state = inner.rows[slot].machine.state();
            matches!(state, State::Sealed { epoch, stage: Stage::Finishing { .. } } if epoch == at)
        };
        slots.iter().filter(sealed).copied().collect()
    }

    /// The slots that are this member's, sealed or not, with their epochs.
    pub(super) fn mine(&self) -> Vec<(Slot, Epoch)> {
        let inner = self.inner.lock();
        let mine = |(slot, row): (Slot, &Row)| Some((slot, row.machine.flushes()?));
        inner.rows.iter().filter_map(mine).collect()
    }

    /// If the ring has not named this member for a slot again in time, the slot waits for the next lease renewal.
    pub(super) fn retake_later(&self, slots: &[Slot]) {
        let mut inner = self.inner.lock();
        for &slot in slots {
            let state = inner.rows[slot].machine.state();
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
        for (_, row) in inner.rows.iter() {
            match row.machine.state() {
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
