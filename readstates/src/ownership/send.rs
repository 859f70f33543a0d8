//! The sending end of a transfer: a batch of slots to one member, warm and without an error.
//!
//! ```text
//! offer ─▶ all blocks ─▶ what changed meanwhile, repeatedly ─▶ seal ─▶ wait until no operation is left
//!       ─▶ the last changes and the digest ─▶ confirmed ─▶ swap ─▶ waiting requests go to the new owner,
//!                                                                  which is told of the ring
//! ```
//! Whatever goes wrong before the seal leaves everything as it was. After it the slots go on under a
//! new epoch: the destination's, or this member's again.
//!
//! With the last part the destination confirms all slots of the transfer. A slot whose operations do not end is taken again
//! before it leaves: what they still change would be missing there.

mod keep;
mod stream;

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use readstates_api::admin::StreamStatus;
use readstates_ring::{
    Epoch, Incarnation, RingTable, Slot, Succession,
    handoff::{Action, Event},
    mutant::{self, Rule},
    record::NotSwapped,
    replication::Handing,
};
use stream::{ATTEMPT_PAUSE, Sending};
use tokio::{
    sync::OwnedMutexGuard,
    time::{Instant, timeout_at},
};

use super::{
    Destination, NoDestination, Ownership,
    alive::swaps,
    peers::PeerError,
    store::{RingStoreError, Versioned},
};
use crate::{cache::SlotSet, store::chain};

/// How long operations may take to end after the seal.
const FINISH_PATIENCE: Duration = Duration::from_secs(5);

/// Why a move was not completed.
#[derive(Debug, thiserror::Error)]
enum NotMoved {
    #[error(transparent)]
    Peer(#[from] PeerError),
    /// Nothing is sealed for a swap that cannot be made.
    #[error("failed to read the ring before the seal")]
    Ring(#[from] RingStoreError),
    /// A seal is final: a slot that cannot be swapped afterwards would have no owner.
    #[error("the clock forbids a new epoch for some of the slots: nothing was sealed")]
    Forbidden,
    /// What was streamed cannot be handed on any more: a lease that ran out ends the epoch.
    #[error(
        "the slots have gone on under other epochs meanwhile, wait for the lease, or have operations that do not end"
    )]
    Overtaken,
    /// The destination would confirm them with the others, and lacks what was changed last.
    #[error(
        "some of the slots cannot be handed on, and the ring did not say in time that they stay"
    )]
    Unfinished,
}

impl Ownership {
    /// Begins to move slots to a process, if none are on the move: returns how many. Only slots that are
    /// owned here at the epoch given are moved.
    ///
    /// # Errors
    /// When the process is not a live member of this ring that takes slots. Its address is the one in its
    /// presence.
    pub async fn begin_move(
        self: &Arc<Self>,
        to: Incarnation,
        slots: &[(Slot, Epoch)],
    ) -> Result<u16, NoDestination> {
        let to = self.destination(to).await?;
        let Ok(turn) = Arc::clone(&self.moving).try_lock_owned() else {
            return Ok(0);
        };
        let accepted = self.accepted(&to, slots);
        let count = accepted.len() as u16;
        if count > 0 {
            let this = Arc::clone(self);
            self.spawn(async move {
                this.send(&to, accepted, turn).await;
            });
        }
        Ok(count)
    }

    /// Moves slots to a process and waits for the end; returns how many are not here any more.
    pub(super) async fn move_now(
        self: &Arc<Self>,
        to: &Destination,
        slots: &[(Slot, Epoch)],
    ) -> usize {
        let turn = Arc::clone(&self.moving).lock_owned().await;
        let accepted = self.accepted(to, slots);
        // They may have gone on under other epochs while this waited for its turn.
        if accepted.is_empty() {
            return 0;
        }
        self.send(to, accepted, turn).await
    }

    fn accepted(&self, to: &Destination, slots: &[(Slot, Epoch)]) -> Vec<(Slot, Epoch)> {
        let destination = to.member.incarnation();
        let accepts = |&(slot, epoch): &(Slot, Epoch)| {
            let asked = Event::MoveAsked { epoch, destination };
            let actions = self.slots.hear(slot, asked);
            actions.contains(&Action::Stream { destination })
        };
        let table = Arc::clone(self.routes.load().table());
        let movable = self.movable(&table, destination, slots);
        // Users of whom nobody has asked since a promotion are in no other place.
        let replicas = self.engine.cache().replicas();
        let is_whole = |slot: &(Slot, Epoch)| {
            replicas.is_none_or(|replicas| replicas.may_hand_on(slot.0, Handing::Move))
        };
        let movable = movable.into_iter().filter(is_whole);
        movable.filter(accepts).collect()
    }

    /// The slots that a table lets move now. Those that the clock forbids are reported.
    fn movable(
        &self,
        table: &RingTable,
        to: Incarnation,
        slots: &[(Slot, Epoch)],
    ) -> Vec<(Slot, Epoch)> {
        let asked: Vec<_> = slots.iter().map(|&(slot, at)| (slot, Some(at))).collect();
        let now = self.mint_time();
        let (_, mut refused) = table.swappable(&asked, to, Succession::Handed, now);
        refused.retain(|why| matches!(why, NotSwapped::TooFarAhead { .. }));
        self.report_forbidden(&refused);
        let forbidden = |of: Slot| {
            let is = |why: &NotSwapped| matches!(why, NotSwapped::TooFarAhead { slot, .. } if *slot == of);
            refused.iter().any(is)
        };
        let movable = slots.iter().filter(|(slot, _)| !forbidden(*slot));
        movable.copied().collect()
    }

    async fn send(
        self: &Arc<Self>,
        to: &Destination,
        slots: Vec<(Slot, Epoch)>,
        _turn: OwnedMutexGuard<()>,
    ) -> usize {
        let all: Vec<Slot> = slots.iter().map(|&(slot, _)| slot).collect();
        *self.streaming.lock() = Some(StreamStatus {
            to: to.name().to_owned(),
            slots: all.len() as u16,
        });
        let cache = self.engine.cache();
        cache.track(&all, true);
        let mut sending = Sending::new(self, to);
        if let Err(error) = sending.run(&slots).await {
            let (to, slots) = (to.name(), all.len());
            tracing::warn!(to, slots, "failed to move slots: {}", chain(&error));
        }
        // Slots that were not handed over by now stay, or go on under a new epoch.
        let stuck = self
            .slots
            .hear_all(all.iter().copied(), Event::StreamFailed);
        self.retake(swaps(&stuck)).await;
        let mine: Vec<Slot> = self
            .slots
            .mine()
            .into_iter()
            .map(|(slot, _)| slot)
            .collect();
        let stay: Vec<Slot> = all
            .iter()
            .filter(|slot| mine.contains(slot))
            .copied()
            .collect();
        cache.track(&stay, false);
        cache.forget_changed(&all.iter().copied().collect());
        *self.streaming.lock() = None;
        let handed = all.len() - stay.len();
        let counter = &self.counters.handed;
        counter.fetch_add(handed as u64, Ordering::Relaxed);
        tracing::info!(
            to = to.name(),
            slots = handed,
            bytes = sending.bytes(),
            took = ?sending.took(),
            "slots were handed on"
        );
        handed
    }
}

impl Sending<'_> {
    async fn run(&mut self, slots: &[(Slot, Epoch)]) -> Result<(), NotMoved> {
        let taken = self.offer(slots).await?;
        let (slots, refused): (Vec<_>, Vec<_>) =
            slots.iter().partition(|(slot, _)| taken.contains(slot));
        let refused = refused.into_iter().map(|(slot, _)| slot);
        self.ownership.slots.hear_all(refused, Event::StreamFailed);
        if slots.is_empty() {
            return Err(PeerError::new(self.to.name(), "it takes none of the slots").into());
        }
        let set = slots.iter().map(|&(slot, _)| slot).collect();
        self.all_blocks(&set).await?;
        // Read now and not after the seal, while requests wait: most often no member swaps in between.
        let ahead = self.ownership.read().await?;
        self.changes(&set).await?;
        let to = self.to.member.incarnation();
        let movable =
            |table: &RingTable| self.ownership.movable(table, to, &slots).len() == slots.len();
        if !ahead.as_ref().is_none_or(|ahead| movable(&ahead.table)) {
            return Err(NotMoved::Forbidden);
        }
        let sealed = Instant::now();
        let sent = slots;
        let slots = self.seal(&sent).await;
        if slots.is_empty() {
            return Err(NotMoved::Overtaken);
        }
        let set: SlotSet = slots.iter().map(|&(slot, _)| slot).collect();
        let rest = sent.into_iter().filter(|(slot, _)| !set.contains(*slot));
        let rest: Vec<_> = rest.collect();
        if !self.take_back(&rest).await {
            return Err(NotMoved::Unfinished);
        }
        // What was acknowledged here and is not written is in two places until the destination serves it.
        self.ownership.slots.hold(&set);
        let ended = self.last_part(&slots, &set, ahead).await;
        self.ownership.timings.sealed.record(sealed.elapsed());
        if self.ownership.may_let_go(self.to, &slots).await {
            self.ownership.let_go(&slots);
        } else {
            self.ownership.keep(self.to.clone(), slots);
        }
        Ok(ended?)
    }

    /// Closes the gates and waits until no operation is behind them. Returns the slots of which that is so, and which are
    /// sealed.
    async fn seal(&self, slots: &[(Slot, Epoch)]) -> Vec<(Slot, Epoch)> {
        let ownership = self.ownership;
        let mut sealed = ownership.slots.seal(slots);
        let all = sealed.iter().map(|&(slot, _)| slot);
        ownership.engine.abandon_loads(&all.clone().collect());
        let deadline = Instant::now() + FINISH_PATIENCE;
        let mut finished = SlotSet::default();
        for slot in all {
            // Cancel-safe: it only waits.
            if timeout_at(deadline, ownership.gate.left(slot))
                .await
                .is_ok()
            {
                ownership.slots.hear(slot, Event::Finished);
                finished.insert(slot);
            }
        }
        sealed.retain(|&(slot, _)| finished.contains(slot));
        sealed
    }

    /// Takes slots again that are not handed on with the others. Returns whether the ring has said so of all of them: then
    /// the destination, which may be their backup as well, cannot become their owner with what it was sent.
    async fn take_back(&self, slots: &[(Slot, Epoch)]) -> bool {
        if slots.is_empty() {
            return true;
        }
        tracing::warn!(
            to = self.to.name(),
            slots = slots.len(),
            "slots stay: operations on them did not end in time, or they have gone on under other epochs"
        );
        let ownership = self.ownership;
        let all = slots.iter().map(|&(slot, _)| slot);
        let again = ownership.slots.hear_all(all, Event::StreamFailed);
        ownership.retake(swaps(&again)).await;
        ownership.slots.are_over(slots)
    }

    /// The last changes, the digest, and the ring.
    async fn last_part(
        &mut self,
        slots: &[(Slot, Epoch)],
        set: &SlotSet,
        ahead: Option<Versioned>,
    ) -> Result<(), PeerError> {
        self.changes_once(set, false).await?;
        let message = self.finish(true);
        if mutant::drops(Rule::R3) {
            let all = slots.iter().map(|&(slot, epoch)| (slot, Some(epoch)));
            let all = all.collect();
            let handed = Succession::Handed;
            let to = &self.to.member;
            self.ownership.swap(all, to, handed, None).await;
        }
        let answer = self.say(message).await?;
        let confirmed = self.numbers(&answer)?;
        let destination = self.to.member.incarnation();
        let mut handed = Vec::new();
        for &(slot, epoch) in slots.iter().filter(|(slot, _)| confirmed.contains(slot)) {
            let event = Event::Confirmed { destination, epoch };
            let actions = self.ownership.slots.hear(slot, event);
            let swap = Action::Swap {
                expected: epoch,
                owner: destination,
                how: Succession::Handed,
            };
            if actions.contains(&swap) {
                handed.push((slot, Some(epoch)));
            }
        }
        if self.ownership.becomes_backup(&self.to.member) {
            let dirty = self.ownership.engine.cache().dirty_of(set);
            let slots = handed.iter().map(|&(slot, _)| slot);
            self.ownership.slots.hand(dirty, slots);
        }
        self.ownership
            .swap(handed, &self.to.member, Succession::Handed, ahead)
            .await;
        Ok(())
    }
}
