//! What other members send here: transfers under way, and the blocks that come with them.

use std::time::{Duration, Instant};

use readstates_ring::{
    Epoch, Incarnation, Slot,
    handoff::{Action, Event, State},
    mutant::{self, Rule},
};

use super::{Inner, Slots};
use crate::{
    cache::{Exported, SlotSet},
    clock,
    ownership::frame::{Header, digest_after},
};

/// Transfers to this member at once; more are refused.
const MOST_TRANSFERS: usize = 16;

/// What comes from one member.
#[derive(Debug)]
pub(super) struct Transfer {
    number: u64,
    next_part: u32,
    digest: u64,
    slots: Vec<(Slot, Epoch)>,
    /// When a part of it last came.
    heard: Instant,
}

/// A part of a transfer, decoded.
#[derive(Debug)]
pub(in crate::ownership) struct Part {
    pub(in crate::ownership) header: Header,
    pub(in crate::ownership) blocks: Vec<Exported>,
    pub(in crate::ownership) digest: u64,
    pub(in crate::ownership) last: Option<u64>,
}

/// Why a part was not taken in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(in crate::ownership) enum NotTaken {
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

impl Slots {
    /// Registers a transfer of the slots that can be received, and returns these. Nothing of them may be
    /// left in memory: see [`Slots::sweep`].
    pub(in crate::ownership) fn begin_transfer(
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
            inner.receives(slot, origin, epoch) && !self.engine.cache().is_retired(slot)
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

    /// Confirms nothing from now on; the senders keep what they have.
    pub(in crate::ownership) fn begin_to_leave(&self) {
        self.inner.lock().leaving = true;
    }

    /// Takes a part in. After the last one: the slots of which everything is here.
    pub(in crate::ownership) fn take_part(&self, part: &Part) -> Result<Vec<Slot>, NotTaken> {
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
            .filter(|transfer| transfer.number == header.transfer || mutant::drops(Rule::R2))
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
            if last.is_some_and(|said| said != all) && !mutant::drops(Rule::R2) {
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

    /// Gives up receiving slots of which nothing has come for so long: their owner has everything, and no member may
    /// write what is here of them. Returns how many slots these are.
    pub(in crate::ownership) fn give_up_silent(&self, patience: Duration) -> usize {
        let mut inner = self.inner.lock();
        let now = clock::now();
        let comes = |transfer: &Transfer| now.saturating_duration_since(transfer.heard) < patience;
        let silent: Vec<Slot> = Slot::all()
            .filter(|slot| {
                let state = inner.rows[*slot].machine.state();
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

    /// Drops what was received and never served here: the process ends, and the origin writes it, which has not heard
    /// that this member serves it (R18). Returns how many slots with something in them were confirmed: the ring may
    /// name this member for those.
    pub(in crate::ownership) fn drop_received(&self) -> usize {
        let mut inner = self.inner.lock();
        inner.transfers.clear();
        let cache = self.engine.cache();
        let mut confirmed = 0;
        for slot in Slot::all().filter(|&slot| !cache.is_served(slot)) {
            let received = match inner.rows[slot].machine.state() {
                State::Away | State::Receiving { .. } => false,
                State::Ready { .. }
                | State::Owner { .. }
                | State::Sealed { .. }
                | State::Taking { .. } => !cache.is_retired(slot) && cache.users_of(slot) > 0,
            };
            confirmed += usize::from(received);
            cache.retire(slot);
        }
        confirmed
    }
}

impl Inner {
    fn receives(&self, slot: Slot, origin: Incarnation, epoch: Epoch) -> bool {
        let state = self.rows[slot].machine.state();
        state == State::Receiving { origin, epoch }
    }

    /// A slot is in no transfer any more; a transfer without slots is over.
    pub(super) fn leave_transfers(&mut self, slot: Slot) {
        self.transfers.retain(|_, transfer| {
            transfer.slots.retain(|&(of, _)| of != slot);
            !transfer.slots.is_empty()
        });
    }
}
