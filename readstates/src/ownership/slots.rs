//! The state machine of every slot at this member, and what its actions do here: doors, terms of the
//! cache, blocks that are dropped or taken in.
//!
//! One lock over all of it, held for the work of one event or one part of a transfer and never across
//! an await. The path of requests does not take it: it looks at the gate and at the routes.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use readstates_ring::{
    Epoch, Incarnation, RingTable, Slot, SlotConfig,
    handoff::{Action, Event, SlotAtMember, Stage, State},
    mutant::{self, Rule},
};
use tokio::sync::{Mutex as Turn, Notify};

use super::{
    frame::{Header, digest_after},
    gate::Gate,
};
use crate::{
    cache::{Exported, SlotSet},
    clock,
    engine::Engine,
};

/// Transfers to this member at once; more are refused.
const MOST_TRANSFERS: usize = 16;

#[derive(Debug)]
pub(super) struct Slots {
    engine: Arc<Engine>,
    gate: Arc<Gate>,
    inner: Mutex<Inner>,
    /// One sweep at a time.
    sweeping: Turn<()>,
    /// There is something to be swept.
    pub(super) litter: Notify,
}

#[derive(Debug)]
struct Inner {
    /// By number.
    machines: Box<[SlotAtMember]>,
    /// Transfers to here, by who sends.
    transfers: HashMap<Incarnation, Transfer>,
    /// Slots to be served once what is left of them is swept.
    opening: Vec<(Slot, Epoch)>,
    /// Nothing is confirmed any more: whoever confirms must stay to own.
    leaving: bool,
    /// Sealed slots that the ring may name another member for, which has not said yet that it knows: what is here of
    /// them is kept.
    held: SlotSet,
}

/// What comes from one member.
#[derive(Debug)]
struct Transfer {
    number: u64,
    next_part: u32,
    digest: u64,
    slots: Vec<(Slot, Epoch)>,
    /// When something of it came.
    heard: Instant,
}

/// A part of a transfer, decoded.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) header: Header,
    pub(super) blocks: Vec<Exported>,
    pub(super) digest: u64,
    pub(super) last: Option<u64>,
}

/// Why a part was not taken in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotTaken {
    #[error("this member is leaving")]
    Leaving,
    #[error("this transfer is not known here; begin again")]
    UnknownTransfer,
    #[error("part {came} came instead of part {expected}")]
    OutOfOrder { came: u32, expected: u32 },
    #[error("the digest is not that of the parts that came")]
    Digest,
    #[error("a block in it cannot be read")]
    Block,
}

/// How many slots are in which state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) owned: u16,
    pub(super) sealed: u16,
    pub(super) receiving: u16,
    /// Of those that are received: confirmed, so that the ring may name this member for them.
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
                transfers: HashMap::new(),
                opening: Vec::new(),
                leaving: false,
                held: SlotSet::default(),
            }),
            sweeping: Turn::new(()),
            litter: Notify::new(),
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
        let actions = inner.machines[index].step(event);
        let others = |action: &Action| !self.carry_out(inner, slot, *action);
        actions.into_iter().filter(others).collect()
    }

    /// Does what is to be done here; returns whether that was all.
    fn carry_out(&self, inner: &mut Inner, slot: Slot, action: Action) -> bool {
        let cache = self.engine.cache();
        match action {
            Action::Seal => {
                let state = inner.machines[usize::from(slot.number())].state();
                let finishing = matches!(
                    state,
                    State::Sealed {
                        stage: Stage::Finishing { .. },
                        ..
                    }
                );
                self.gate.close(slot, finishing);
                if finishing {
                    // Whoever waits for a load is not waited for. Under the lock, as serving is: a slot that has gone on
                    // under another epoch by now must load again.
                    cache.pause(slot);
                }
            }
            Action::Serve { epoch, warm } => {
                inner.leave_transfers(slot);
                if warm && !cache.is_doomed(slot) {
                    self.open(slot, epoch);
                } else if cache.users_of(slot) == 0 {
                    cache.pardon(slot);
                    self.open(slot, epoch);
                } else {
                    self.gate.close(slot, false);
                    cache.close(slot);
                    cache.doom(slot);
                    inner.opening.push((slot, epoch));
                    self.litter.notify_one();
                }
            }
            Action::Release { .. } if mutant::drops(Rule::R6) => {
                self.gate.close(slot, false);
                let config = inner.machines[usize::from(slot.number())].config();
                cache.serve(slot, config.epoch());
            }
            Action::Release { .. } => {
                self.gate.close(slot, false);
                cache.close(slot);
                cache.doom(slot);
                self.litter.notify_one();
            }
            Action::DropReceived => {
                inner.leave_transfers(slot);
                cache.doom(slot);
                self.litter.notify_one();
            }
            Action::Stream { .. }
            | Action::SendLastPart { .. }
            | Action::Confirm { .. }
            | Action::Swap { .. }
            | Action::AskRing
            | Action::Refuse { .. } => return false,
        }
        true
    }

    /// Serves a slot with what is in memory of it.
    fn open(&self, slot: Slot, epoch: Epoch) {
        let cache = self.engine.cache();
        cache.track(&[slot], false);
        cache.serve(slot, epoch);
        self.gate.open(slot, epoch);
    }

    /// Drops what is doomed, and opens what waited for that.
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
            if self.engine.cache().is_doomed(slot) {
                // It was given away and taken again meanwhile.
                inner.opening.push((slot, epoch));
                self.litter.notify_one();
            } else {
                self.open(slot, epoch);
            }
        }
    }

    /// Takes note of a transfer of those slots that can be received, and returns these. Nothing of them
    /// may be left in memory: see [`Slots::sweep`].
    pub(super) fn begin_transfer(
        &self,
        origin: Incarnation,
        number: u64,
        slots: &[(Slot, Epoch)],
    ) -> Vec<Slot> {
        let mut inner = self.inner.lock();
        if !inner.transfers.contains_key(&origin) && inner.transfers.len() >= MOST_TRANSFERS {
            return Vec::new();
        }
        let receives = |&&(slot, epoch): &&(Slot, Epoch)| {
            inner.receives(slot, origin, epoch) && !self.engine.cache().is_doomed(slot)
        };
        let slots: Vec<(Slot, Epoch)> = slots.iter().filter(receives).copied().collect();
        if slots.is_empty() {
            // It would keep a place, and nothing would ever end it.
            return Vec::new();
        }
        let taken = slots.iter().map(|&(slot, _)| slot).collect();
        let transfer = Transfer {
            number,
            next_part: 0,
            digest: 0,
            slots,
            heard: clock::now(),
        };
        inner.transfers.insert(origin, transfer);
        taken
    }

    /// Seals slots that were streamed, and returns those that are sealed for that now. The others are left as they
    /// are: meanwhile the lease has run out, or they have gone on under another epoch.
    pub(super) fn seal(&self, slots: &[(Slot, Epoch)]) -> Vec<(Slot, Epoch)> {
        let mut inner = self.inner.lock();
        let sealed = |&&(slot, at): &&(Slot, Epoch)| {
            self.hear_in(&mut inner, slot, Event::CaughtUp);
            let state = inner.machines[usize::from(slot.number())].state();
            matches!(state, State::Sealed { epoch, stage: Stage::Finishing { .. } } if epoch == at)
        };
        slots.iter().filter(sealed).copied().collect()
    }

    /// Confirms nothing from now on; the senders keep what they have.
    pub(super) fn begin_to_leave(&self) {
        self.inner.lock().leaving = true;
    }

    /// Takes a part in. After the last one: the slots of which everything is here.
    pub(super) fn take_part(&self, part: &Part) -> Result<Vec<Slot>, NotTaken> {
        let Part {
            header,
            blocks,
            digest,
            last,
        } = part;
        let origin = Incarnation::new(header.origin);
        let mut inner = self.inner.lock();
        if inner.leaving && last.is_some() {
            return Err(NotTaken::Leaving);
        }
        let transfer = inner
            .transfers
            .get_mut(&origin)
            .filter(|transfer| transfer.number == header.transfer)
            .ok_or(NotTaken::UnknownTransfer)?;
        transfer.heard = clock::now();
        let expected = transfer.next_part;
        // The answer to the one before may have been lost.
        let again = header.number.checked_add(1) == Some(expected);
        if !again {
            if header.number != expected {
                let came = header.number;
                return Err(NotTaken::OutOfOrder { came, expected });
            }
            let all = digest_after(transfer.digest, *digest);
            if last.is_some_and(|said| said != all) {
                return Err(NotTaken::Digest);
            }
            self.import(&inner, origin, blocks)?;
            if let Some(transfer) = inner.transfers.get_mut(&origin) {
                (transfer.next_part, transfer.digest) = (expected + 1, all);
            }
        }
        if last.is_none() {
            return Ok(Vec::new());
        }
        Ok(self.confirm(&mut inner, origin))
    }

    /// Gives up receiving what nothing has come of for so long: its owner has it all, and nobody may write what is
    /// here of it. Returns how many slots that are.
    pub(super) fn give_up_silent(&self, patience: Duration) -> usize {
        let mut inner = self.inner.lock();
        let now = clock::now();
        let comes = |transfer: &Transfer| now.saturating_duration_since(transfer.heard) < patience;
        let silent: Vec<Slot> = Slot::all()
            .filter(|slot| {
                let state = inner.machines[usize::from(slot.number())].state();
                let State::Receiving { origin, .. } = state else {
                    return false;
                };
                let transfer = inner.transfers.get(&origin).filter(|it| comes(it));
                !transfer.is_some_and(|it| it.slots.iter().any(|(of, _)| of == slot))
            })
            .collect();
        for &slot in &silent {
            self.hear_in(&mut inner, slot, Event::OriginSilent);
        }
        // Those that are confirmed wait for the ring, not for their transfer.
        inner.transfers.retain(|_, transfer| comes(transfer));
        silent.len()
    }

    /// Puts blocks into the cache, of those slots that are being received.
    fn import(
        &self,
        inner: &Inner,
        origin: Incarnation,
        blocks: &[Exported],
    ) -> Result<(), NotTaken> {
        let Some(transfer) = inner.transfers.get(&origin) else {
            return Err(NotTaken::UnknownTransfer);
        };
        let receiving = transfer
            .slots
            .iter()
            .filter(|&&(slot, epoch)| inner.receives(slot, origin, epoch))
            .map(|&(slot, _)| slot)
            .collect::<SlotSet>();
        let now = clock::now();
        for block in blocks {
            if receiving.contains(Slot::of_user(block.user)) {
                self.engine.cache().import(block, now).map_err(|error| {
                    tracing::error!(user = block.user, "a block on its way here: {error}");
                    NotTaken::Block
                })?;
            }
        }
        Ok(())
    }

    fn confirm(&self, inner: &mut Inner, origin: Incarnation) -> Vec<Slot> {
        let slots = match inner.transfers.get(&origin) {
            Some(transfer) => transfer.slots.clone(),
            None => Vec::new(),
        };
        let mut confirmed = Vec::new();
        for (slot, epoch) in slots {
            let actions = self.hear_in(inner, slot, Event::LastPart { origin, epoch });
            if actions.contains(&Action::Confirm { origin, epoch }) {
                confirmed.push(slot);
            }
        }
        confirmed
    }

    /// Lets every slot hear of its config in a table; returns those for which it was news.
    pub(super) fn learn(&self, table: &RingTable) -> Vec<Slot> {
        let mut inner = self.inner.lock();
        let mut news = Vec::new();
        for (slot, config) in table.configs() {
            let known = inner.machines[usize::from(slot.number())].config();
            if config.epoch() > known.epoch() {
                if !inner.held.contains(slot) {
                    self.hear_in(&mut inner, slot, Event::Learned(config));
                }
                news.push(slot);
            }
        }
        news
    }

    /// The latest config that is known here of each slot that has one.
    pub(super) fn known(&self) -> Vec<(Slot, SlotConfig)> {
        let inner = self.inner.lock();
        let config = |slot: Slot| inner.machines[usize::from(slot.number())].config();
        let all = Slot::all().map(|slot| (slot, config(slot)));
        all.filter(|(_, config)| config.owner() != Incarnation::new(0))
            .collect()
    }

    /// Everybody who is known here to own a slot.
    pub(super) fn owners(&self) -> HashSet<Incarnation> {
        let known = self.known().into_iter();
        known.map(|(_, config)| config.owner()).collect()
    }

    /// Keeps what is here of sealed slots, whatever the ring says, until the next call; of these alone. What is to be
    /// learned of others comes with the table that is learned next.
    pub(super) fn hold(&self, slots: SlotSet) {
        self.inner.lock().held = slots;
    }

    /// The slots that are this member's, sealed or not, with their epochs.
    pub(super) fn mine(&self) -> Vec<(Slot, Epoch)> {
        let inner = self.inner.lock();
        let epoch = |slot: Slot| inner.machines[usize::from(slot.number())].flushes();
        Slot::all()
            .filter_map(|slot| Some((slot, epoch(slot)?)))
            .collect()
    }

    /// Slots that the ring has not named this member for again in time wait for the next renewal of the lease.
    pub(super) fn retake_later(&self, slots: &[Slot]) {
        let mut inner = self.inner.lock();
        for &slot in slots {
            let state = inner.machines[usize::from(slot.number())].state();
            let retaking = matches!(
                state,
                State::Sealed {
                    stage: Stage::Retaking,
                    ..
                }
            );
            if retaking {
                self.hear_in(&mut inner, slot, Event::LeaseLost);
            }
        }
    }

    /// Forgets what was received and is not owned: the process ends.
    pub(super) fn drop_received(&self) {
        let mut inner = self.inner.lock();
        inner.transfers.clear();
        for slot in Slot::all() {
            if inner.machines[usize::from(slot.number())]
                .flushes()
                .is_none()
            {
                self.engine.cache().close(slot);
                self.engine.cache().doom(slot);
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
                State::Sealed { .. } => {
                    counts.owned += 1;
                    counts.sealed += 1;
                }
            }
        }
        counts
    }
}

impl Inner {
    fn receives(&self, slot: Slot, origin: Incarnation, epoch: Epoch) -> bool {
        let state = self.machines[usize::from(slot.number())].state();
        state == State::Receiving { origin, epoch }
    }

    /// A slot is in no transfer any more; a transfer without slots is over.
    fn leave_transfers(&mut self, slot: Slot) {
        self.transfers.retain(|_, transfer| {
            transfer.slots.retain(|&(of, _)| of != slot);
            !transfer.slots.is_empty()
        });
    }
}
