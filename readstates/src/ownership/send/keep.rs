//! What was handed on is kept here until the new owner serves it, or until it is written (R18).
//!
//! ```text
//! the ring was asked ──▶ it names the destination ──▶ which says that it serves ─────▶ dropped
//!        │                        └─▶ which is silent, or does not serve yet ──▶ written ──▶ dropped
//!        └─▶ it has not answered: the swap may be carried out at any time ─────▶ written ──▶ dropped
//! ```
//! What is written here has the epoch that has ended, so it yields to anything that the new owner writes. While
//! something is kept, this member does not say that it has seen what others took, and an owner that waits for that does
//! not begin with a database that lacks what is kept here.

use std::{sync::Arc, time::Duration};

use readstates_ring::{
    Epoch, Slot,
    mutant::{self, Rule},
};
use tokio::time::{sleep, timeout};

use super::ATTEMPT_PAUSE;
use crate::ownership::{Destination, Ownership, frame};

/// How long the destination may take to hear of the new ring; it watches it, too.
const TELL_PATIENCE: Duration = Duration::from_secs(1);
/// Between two tries to write what is kept.
const KEEP_PAUSE: Duration = Duration::from_secs(1);

/// What has become of slots that were sealed for a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Handover {
    /// The ring was not asked to name another for any of them, or names this member again, which goes on with what is here.
    Here,
    /// The ring names the destination.
    Handed,
    /// The ring has not said whom it names, though it was asked to name the destination; or it names a third member, or
    /// this one without saying that it was the owner all the time: then it begins with the database.
    Unknown,
}

impl Ownership {
    /// Tries once to come to where nothing has to be kept of slots that were sealed for a transfer; returns whether
    /// that is so.
    pub(super) async fn may_let_go(&self, to: &Destination, slots: &[(Slot, Epoch)]) -> bool {
        let why = match self.handover(to, slots) {
            Handover::Here => return true,
            Handover::Handed if self.tell(to).await => return true,
            Handover::Handed => {
                "the new owner has not confirmed that it knows of the ring and serves"
            }
            Handover::Unknown if mutant::drops(Rule::R18) => return true,
            Handover::Unknown => "the ring has not said that it names the new owner",
        };
        tracing::warn!(to = to.name(), "writing what was handed on: {why}");
        self.write_all().await
    }

    fn handover(&self, to: &Destination, slots: &[(Slot, Epoch)]) -> Handover {
        let (me, to) = (self.me.incarnation(), to.member.incarnation());
        let routes = self.routes.load();
        let mut handover = Handover::Here;
        for &(slot, epoch) in slots {
            let config = routes.table().config(slot);
            let named = config.filter(|config| config.epoch() > epoch);
            match named.map(|config| (config.owner(), config.inherits())) {
                None if !self.slots.has_asked(slot) => {}
                Some((owner, Some(inherits))) if owner == me && inherits == epoch => {}
                Some((owner, _)) if owner == to => handover = Handover::Handed,
                // A store that was restored in the middle of the transfer names a third member.
                None | Some(_) => return Handover::Unknown,
            }
        }
        handover
    }

    /// Keeps slots that could not be let go, until that is possible. In the background: the database may be away for
    /// long, and other slots must be able to move meanwhile.
    pub(super) fn keep(self: &Arc<Self>, to: Destination, slots: Vec<(Slot, Epoch)>) {
        tracing::error!(
            to = to.name(),
            slots = slots.len(),
            "failed to write in time what was handed on: it is kept here until it is written, or until the new owner \
             says that it serves; if this process dies before that, what was acknowledged last may be lost"
        );
        let this = Arc::clone(self);
        self.spawn(async move {
            while !this.may_let_go(&to, &slots).await {
                sleep(KEEP_PAUSE).await;
            }
            this.let_go(&slots);
        });
    }

    /// What is here of these slots goes the way that the ring says.
    pub(super) fn let_go(&self, slots: &[(Slot, Epoch)]) {
        self.slots.let_go(slots.iter().map(|&(slot, _)| slot));
        let table = Arc::clone(self.routes().table());
        self.adopt(&table);
        self.slots.are_written(slots.iter().map(|&(slot, _)| slot));
    }

    /// Tells the destination that the ring has changed. Returns whether it says that it knows and serves: from then on it
    /// writes what it was handed. It also learns of the ring by itself, unless it is cut off from the store.
    async fn tell(&self, to: &Destination) -> bool {
        let number = self.routes.load().number();
        let told = self.peers.send(to, frame::hint(number));
        // Cancel-safe: a hint that was sent stays valid, and without one the destination looks by itself.
        match timeout(TELL_PATIENCE, told).await {
            Ok(Ok(answer)) => frame::knows(&answer, number),
            Ok(Err(error)) => {
                tracing::debug!("failed to tell the destination of the new ring: {error}");
                false
            }
            Err(_) => false,
        }
    }

    /// Writes everything that is dirty; returns whether that was possible in the time after which this member would be
    /// taken for dead.
    pub(in crate::ownership) async fn write_all(&self) -> bool {
        let write = async {
            while self.engine.flush_all().await.failed > 0 {
                sleep(ATTEMPT_PAUSE).await;
            }
        };
        timeout(self.config.timing.dead_after, write).await.is_ok()
    }
}
