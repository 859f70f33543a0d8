//! Changing the ring: slots are handed on, taken, and taken again.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use readstates_ring::{
    Epoch, MOST_AHEAD_MICROS, Now, RingMember, RingTable, Slot, SlotConfig, Stamp, Succession,
    mutant::{self, Rule},
    record::NotSwapped,
    replication::may_take,
};
use tokio::time::{Instant, sleep, timeout_at};

use super::{
    Ownership,
    store::{RingStoreError, Swapped, Versioned},
};
use crate::{clock, store::chain};

/// Between two attempts when the ring does not answer, or when other members win the swaps.
const FIRST_RETRY: Duration = Duration::from_millis(20);
const LAST_RETRY: Duration = Duration::from_secs(1);

impl Ownership {
    /// Asks the ring to name `owner` for the slots that are still at the epochs given, until it is known what the ring
    /// says of each of them, or it is too late. `ahead` is the ring as it was read when the slots were at these epochs
    /// already: most often no member has swapped since, and it need not be read again.
    ///
    /// A slot that the clock forbids to swap is left out, and the others go on. Returns whether the ring has said of
    /// all of them at which epoch they are: if not, some may or may not be swapped yet.
    pub(super) async fn swap(
        &self,
        mut asked: Vec<(Slot, Option<Epoch>)>,
        owner: &RingMember,
        succession: Succession,
        mut ahead: Option<Versioned>,
    ) -> bool {
        let deadline = Instant::now() + self.config.timing.held;
        let (mut wait, mut forbidden) = (FIRST_RETRY, 0);
        while !asked.is_empty() {
            let ahead = ahead.take();
            let guessed = ahead.is_some();
            let try_swap = self.try_swap(&mut asked, &mut forbidden, owner, succession, ahead);
            // Not cancel-safe: the swap may have been accepted. What happens next goes by the epochs in the ring.
            match timeout_at(deadline, try_swap).await {
                Ok(Ok(Swapped::Taken(taken))) => {
                    self.adopt(&taken.table);
                    break;
                }
                Ok(Ok(Swapped::Conflict)) => {
                    let conflicts = &self.counters.swap_conflicts;
                    conflicts.fetch_add(1, Ordering::Relaxed);
                    if guessed {
                        continue;
                    }
                }
                Ok(Err(error)) => {
                    let slots = asked.len();
                    tracing::warn!(slots, "failed to swap the ring: {}", chain(&error));
                }
                Err(_) => {}
            }
            if Instant::now() + wait >= deadline {
                tracing::warn!(
                    slots = asked.len(),
                    after = ?self.config.timing.held,
                    "the ring did not say in time who owns these slots: they are asked for again later"
                );
                return false;
            }
            let share = 1.0 - self.random.share() / 2.0;
            sleep(wait.mul_f64(share)).await;
            wait = (wait * 2).min(LAST_RETRY);
        }
        forbidden == 0
    }

    async fn try_swap(
        &self,
        asked: &mut Vec<(Slot, Option<Epoch>)>,
        forbidden: &mut usize,
        owner: &RingMember,
        succession: Succession,
        ahead: Option<Versioned>,
    ) -> Result<Swapped, RingStoreError> {
        let current = match ahead {
            Some(read) => Some(read),
            None => self.read().await?,
        };
        let (table, version) = match current {
            Some(Versioned { table, version }) => (table, Some(version)),
            None => (Arc::default(), None),
        };
        let epoch = |slot| table.config(slot).map(|config| config.epoch());
        if asked.iter().any(|&(slot, expected)| epoch(slot) < expected) {
            // The ring was restored, and does not know yet what is known here: it has said nothing of these slots.
            return Ok(Swapped::Conflict);
        }
        asked.retain(|&(slot, expected)| epoch(slot) == expected || mutant::drops(Rule::R10));
        let is_mine = owner.incarnation() == self.me.incarnation();
        if !mutant::drops(Rule::R10) {
            // A restored store may have given the same epoch to another member, or with another backup.
            let replicas = self.engine.cache().replicas();
            let incomplete = replicas.map(|replicas| replicas.holding.incomplete());
            let watch = self.watch.lock();
            let me = self.me.incarnation();
            let may_be_taken = |slot, config: &SlotConfig| {
                let at = (slot, config.epoch());
                let is_here = incomplete.as_ref().is_some_and(|those| those.contains(&at));
                let is_incomplete = |backup| backup == me && is_here;
                match succession {
                    Succession::Handed | Succession::Promoted => false,
                    Succession::TakenOver => {
                        may_take(config, |it| watch.was_dead(it), is_incomplete)
                    }
                }
            };
            asked.retain(|&(slot, _)| {
                let config = table.config(slot);
                config.is_none_or(|config| config.owner() == me || may_be_taken(slot, &config))
            });
        }
        if !is_mine && !mutant::drops(Rule::R3) {
            // After losing its lease, this member hands nothing on: others may have taken the slots, and a restored
            // store does not know that.
            let handing = self.slots.handing();
            let has_lease = self.lease.is_valid();
            asked.retain(|&(slot, _)| has_lease && handing.contains(slot));
        }
        let is_own = |&(slot, _): &(Slot, Option<Epoch>)| {
            let config = table.config(slot);
            config.is_some_and(|config| config.owner() == self.me.incarnation())
        };
        let is_cold = succession == Succession::TakenOver && asked.iter().any(is_own);
        let now = match is_mine {
            true => self.mint_time_above(is_cold),
            false => self.mint_time(),
        };
        let incarnation = owner.incarnation();
        let (swappable, refused) = table.swappable(asked, incarnation, succession, now);
        if !refused.is_empty() {
            self.report_forbidden(&refused);
            *forbidden += refused.len();
            *asked = swappable;
        }
        if asked.is_empty() {
            return Ok(Swapped::Conflict);
        }
        let next = match succession {
            // An aborted move and a renewed lease cost no slot its backup.
            Succession::Handed if is_mine || self.slots.is_handed(asked) => {
                table.swap_handed(asked, owner, now)
            }
            Succession::Handed | Succession::TakenOver | Succession::Promoted => {
                table.swap(asked, owner, succession, now)
            }
        };
        match next {
            Ok(next) => {
                let next = match is_mine {
                    true => next.on_line(self.new_line()),
                    false => next,
                };
                if !is_mine {
                    self.gives(&next, asked);
                }
                self.replace(version, next).await
            }
            Err(NotSwapped::Conflict { .. } | NotSwapped::TooFarAhead { .. }) => {
                Ok(Swapped::Conflict)
            }
        }
    }

    /// The time to mint from for what is taken here: above every epoch that dead processes can have known. If the store
    /// was restored, the ring need not know of such an epoch, and the process that had it may have writes in flight.
    /// What this member takes from itself as from a dead process goes above every epoch that any process can have
    /// known, and above those that it has asked the ring to give to others.
    fn mint_time_above(&self, is_cold: bool) -> Now {
        let mut now = self.mint_time();
        if mutant::drops(Rule::R17) {
            return now;
        }
        let known = {
            let watch = self.watch.lock();
            let of_the_dead = watch.highest_of_the_dead(clock::now());
            match is_cold {
                true => of_the_dead.max(watch.highest_of_all()).max(self.given()),
                false => of_the_dead,
            }
        };
        if let Some(known) = known.filter(|&known| self.is_near(known)) {
            let above = Stamp::new(Epoch::mint(Some(known), 0), 0).as_database();
            now.earliest = now.earliest.max(above);
            now.latest = now.latest.max(above);
        }
        now
    }

    /// Whether an epoch can have been minted by a right clock. What a wrong clock has minted must not spread.
    pub(super) fn is_near(&self, epoch: Epoch) -> bool {
        let latest = self.mint_time().latest;
        Stamp::new(epoch, 0).as_database() < latest.saturating_add(MOST_AHEAD_MICROS)
    }

    /// Remembers the epochs that the ring is asked to give to another member.
    fn gives(&self, next: &RingTable, asked: &[(Slot, Option<Epoch>)]) {
        let epoch = |&(slot, _): &(Slot, Option<Epoch>)| Some(next.config(slot)?.epoch().number());
        let highest = asked.iter().filter_map(epoch).max().unwrap_or(0);
        self.given.fetch_max(highest, Ordering::AcqRel);
    }

    fn given(&self) -> Option<Epoch> {
        Epoch::new(self.given.load(Ordering::Acquire)).filter(|epoch| epoch.number() > 0)
    }

    /// Says which slots are not swapped because of their epochs.
    pub(super) fn report_forbidden(&self, refused: &[NotSwapped]) {
        let Some(first) = refused.first() else {
            return;
        };
        let counter = &self.counters.swaps_forbidden;
        counter.fetch_add(refused.len() as u64, Ordering::Relaxed);
        tracing::error!(
            slots = refused.len(),
            "slots stay where they are, because a wrong clock has minted their epochs; they move again once the \
             clocks have come that far: {first}"
        );
    }

    /// Takes slots that are sealed here under a new epoch: with what is in memory of them, or, where another member may
    /// have served, with what is in the database once everything is written. If the ring does not name this member
    /// again in time, it is asked again with the next renewal of the lease.
    pub(super) async fn retake(&self, slots: Vec<(Slot, Epoch, Succession)>) {
        for how in [Succession::Handed, Succession::TakenOver] {
            let of_these = slots.iter().filter(|&&(_, _, of)| of == how);
            let asked: Vec<(Slot, Option<Epoch>)> =
                of_these.map(|&(slot, at, _)| (slot, Some(at))).collect();
            if asked.is_empty() {
                continue;
            }
            let (count, cold) = (asked.len(), how == Succession::TakenOver);
            tracing::info!(slots = count, cold, "taking slots again, under a new epoch");
            let counter = &self.counters.retaken;
            counter.fetch_add(count as u64, Ordering::Relaxed);
            let all: Vec<Slot> = asked.iter().map(|&(slot, _)| slot).collect();
            let written = !cold || self.write_all().await;
            if !written || !self.swap(asked, &self.me, how, None).await {
                self.slots.retake_later(&all);
            }
        }
    }
}
