//! The receiving end of a transfer: handles each message of another member.

use std::sync::{Arc, atomic::Ordering};

use bytes::Bytes;
use readstates_ring::{
    Epoch, Incarnation, Slot,
    handoff::{Action, Event},
    mutant::{self, Rule},
};

use super::{
    Ownership,
    frame::{self, Malformed, Message, Offer},
    slots::{NotTaken, Part},
};
use crate::clock;

/// Why a message was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotReceived {
    /// It is no message.
    #[error("the message is malformed")]
    Malformed,
    /// This member hands on what it has, and takes nothing more.
    #[error("this member is leaving and takes nothing more")]
    Leaving,
    /// This member has no lease, or its clock is not known to be right.
    #[error(
        "this member takes nothing yet: it has no lease, or has not compared its clock with the others'"
    )]
    NotYet,
    /// This member holds as much of what others have acknowledged as it may.
    #[error("this member has no room for more of what others have acknowledged")]
    NoRoom,
    /// This member is nobody's backup.
    #[error("this member holds nothing for others: it runs without --durability")]
    NoBackup,
    /// The message does not follow the ones before it; the sender begins again.
    #[error("the transfer cannot go on: begin again")]
    OutOfPlace,
    /// The sender owns nothing, by the ring in the store.
    #[error("the ring lists no owner with the incarnation that sends")]
    NotListed,
}

impl From<Malformed> for NotReceived {
    fn from(_: Malformed) -> Self {
        Self::Malformed
    }
}

impl Ownership {
    /// Takes a message of another member; returns the answer.
    ///
    /// # Errors
    /// When it is not taken: the sender keeps what it has, and may begin again.
    pub async fn receive(self: &Arc<Self>, message: &[u8]) -> Result<Bytes, NotReceived> {
        if let Some(frame) = frame::of_replica(message) {
            return self.backs(frame).await;
        }
        match Message::decode(message)? {
            Message::Offer(offer) => self.offered(offer).await.map(|slots| answer(&slots)),
            Message::Hint(number) => {
                // A hint is only a hint: the ring itself is read from its store.
                if number > self.routes.load().number() {
                    self.refresh().await;
                }
                Ok(frame::known(self.knows_and_serves()))
            }
            Message::Part {
                header,
                blocks,
                digest,
                last,
            } => {
                let part = Part {
                    header,
                    blocks,
                    digest,
                    last,
                };
                let confirmed = self.slots.take_part(&part).map_err(|why| {
                    tracing::warn!(origin = %Incarnation::new(header.origin), "a part was not taken: {why}");
                    match why {
                        NotTaken::Leaving => NotReceived::Leaving,
                        NotTaken::UnknownTransfer
                        | NotTaken::OutOfOrder { .. }
                        | NotTaken::Digest
                        | NotTaken::Block => NotReceived::OutOfPlace,
                    }
                })?;
                let blocks = part.blocks.len() as u64;
                self.counters
                    .received_blocks
                    .fetch_add(blocks, Ordering::Relaxed);
                self.engine.cache().make_room(None, clock::now());
                if last.is_some() && !self.may_confirm() {
                    return Err(self.why_not_taking());
                }
                Ok(match last {
                    Some(_) => answer(&confirmed),
                    None => Bytes::new(),
                })
            }
        }
    }

    /// The number of the ring that is known here; 0 while some slots are not served yet: they wait for the others'
    /// agreement, or this member's lease has run out before that (R18).
    fn knows_and_serves(&self) -> u64 {
        let serves = !self.slots.has_unserved() || mutant::drops(Rule::R18);
        if serves {
            self.routes.load().number()
        } else {
            0
        }
    }

    /// A member that confirms takes over what was acknowledged elsewhere and is not written yet. If it has lost
    /// its lease since the offer came, the others take it for dead by now, or soon, and its slots would go on
    /// without that. As with an acknowledgement the lease is read after the work.
    fn may_confirm(&self) -> bool {
        self.lease.is_valid()
    }

    fn why_not_taking(&self) -> NotReceived {
        match self.draining.load(Ordering::Relaxed) {
            true => NotReceived::Leaving,
            false => NotReceived::NotYet,
        }
    }

    async fn offered(self: &Arc<Self>, offer: Offer) -> Result<Vec<Slot>, NotReceived> {
        if !self.may_take() {
            return Err(self.why_not_taking());
        }
        let Offer {
            origin,
            transfer,
            slots,
        } = offer;
        let origin = Incarnation::new(origin);
        let slots = slots
            .into_iter()
            .map(|(slot, epoch)| Some((Slot::new(slot)?, Epoch::new(epoch)?)))
            .collect::<Option<Vec<_>>>()
            .filter(|slots| !slots.is_empty())
            .ok_or(NotReceived::Malformed)?;
        let listed = || self.routes.load().table().member(origin).is_some();
        if !listed() {
            self.refresh().await;
            if !listed() {
                return Err(NotReceived::NotListed);
            }
        }
        let behind = self.hear_offers(origin, &slots);
        if !behind.is_empty() {
            self.refresh().await;
            self.hear_offers(origin, &behind);
        }
        // Leftovers of earlier epochs are dropped before anything new comes.
        self.slots.sweep().await;
        Ok(self.slots.begin_transfer(origin, transfer, &slots))
    }

    /// Returns the slots for which the ring must be read first.
    fn hear_offers(&self, origin: Incarnation, slots: &[(Slot, Epoch)]) -> Vec<(Slot, Epoch)> {
        let behind = |&&(slot, epoch): &&(Slot, Epoch)| {
            let actions = self.slots.hear(slot, Event::Offered { origin, epoch });
            actions.contains(&Action::AskRing)
        };
        slots.iter().filter(behind).copied().collect()
    }
}

fn answer(slots: &[Slot]) -> Bytes {
    let slots = frame::Slots {
        slots: slots.iter().map(|slot| slot.number()).collect(),
    };
    serde_json::to_vec(&slots).unwrap_or_default().into()
}
