//! Slots whose epochs have become old go on under new ones.
//!
//! Writes are stamped with their epoch, so a write by another program, without a timestamp of ours, hides what is
//! written here until the epoch has grown past it. An epoch that never ages by more than a day bounds that to a day.
//!
//! The owner stays in service: it asks the ring for the next epoch, one that inherits its own, and goes on with that.
//! An operation that is in flight at that moment is not acknowledged, and is sent again.

use readstates_ring::{Epoch, Slot, Succession};

use super::{
    Ownership,
    store::{Swapped, Versioned},
};
use crate::store::chain;

/// Slots that get a new epoch with one swap.
const MOST_AT_ONCE: usize = 64;

impl Ownership {
    /// Asks the ring for new epochs for some of the slots whose epochs are too old. What fails is tried again with a
    /// later look.
    pub(super) async fn mint_anew(&self) {
        // Slots on the move get new epochs anyway.
        let Ok(_turn) = self.moving.try_lock() else {
            return;
        };
        if self.old_slots().is_empty() {
            return;
        }
        let Ok(Some(Versioned { table, version })) = self.read().await else {
            return;
        };
        let me = self.me.incarnation();
        let mut held = self.old_slots();
        held.retain(|&(slot, epoch)| {
            let config = table.config(slot);
            config.is_some_and(|config| config.owner() == me && config.epoch() == epoch)
        });
        held.truncate(MOST_AT_ONCE);
        if held.is_empty() || self.is_behind() || !self.lease.is_valid() {
            return;
        }
        let asked: Vec<_> = held.iter().map(|&(slot, at)| (slot, Some(at))).collect();
        let now = self.mint_time();
        let (asked, refused) = table.swappable(&asked, me, Succession::Handed, now);
        self.report_forbidden(&refused);
        if asked.is_empty() {
            return;
        }
        let Ok(next) = table.swap_handed(&asked, &self.me, now) else {
            return;
        };
        match self.replace(Some(version), next).await {
            Ok(Swapped::Taken(taken)) => {
                tracing::debug!(slots = held.len(), "slots go on under new epochs");
                self.adopt(&taken.table);
            }
            Ok(Swapped::Conflict) => {}
            Err(error) => tracing::debug!("failed to mint new epochs: {}", chain(&error)),
        }
    }

    /// The slots that are served here under an epoch that is too old and are not on the move.
    fn old_slots(&self) -> Vec<(Slot, Epoch)> {
        let lasts = i64::try_from(self.config.timing.epoch_lasts.as_micros()).unwrap_or(i64::MAX);
        let oldest = self.mint_time().earliest.saturating_sub(lasts);
        let oldest = Epoch::mint(None, oldest.max(0));
        let mut slots = self.slots.at_rest();
        slots.retain(|&(_, epoch)| epoch < oldest);
        slots
    }
}
