//! Staying alive, and seeing who is not: the lease, the looks around, and what is taken from the dead.

use std::sync::{Arc, atomic::Ordering};

use readstates_ring::{
    Epoch, Slot, Succession,
    handoff::{Action, Event},
    moves::to_take,
};
use tokio::time::{Instant, sleep, timeout};

use super::Ownership;
use crate::{clock, store::chain};

/// So often is the ring itself read while looking around: what a watch has missed is not missed for
/// long.
const LOOKS_PER_READ: u32 = 5;

impl Ownership {
    /// Begins to renew the lease, to follow the ring and to take what is to be taken.
    pub fn begin(self: &Arc<Self>) {
        self.spawn(Arc::clone(self).keep_lease());
        self.spawn(Arc::clone(self).follow());
        self.spawn(Arc::clone(self).look_around());
        self.spawn(Arc::clone(self).keep_clean());
    }

    async fn keep_lease(self: Arc<Self>) {
        loop {
            self.renew().await;
            let every = self.config.timing.renew_every;
            let left = self.lease.left();
            // One that is about to run out is not waited for longer than it lasts.
            sleep(if left.is_zero() {
                every / 4
            } else {
                every.min(left)
            })
            .await;
            if !self.lease.is_valid() {
                self.lapse();
            }
        }
    }

    /// Says that this process is there; returns whether that was heard.
    pub(super) async fn renew(self: &Arc<Self>) -> bool {
        let _turn = self.renewing.lock().await;
        let presence = {
            let mut presence = self.presence.lock();
            presence.renewals += 1;
            presence.draining = self.draining.load(Ordering::Relaxed);
            presence.gone = self.gone.load(Ordering::Relaxed);
            presence.clone()
        };
        let gone = presence.gone;
        let sent = self.lease.now();
        let patience = self.config.timing.held / 3;
        match timeout(patience, self.store.renew(presence)).await {
            Ok(Ok(())) => {
                if !gone {
                    self.renewed(sent);
                }
                true
            }
            Ok(Err(error)) => {
                tracing::warn!("the lease was not renewed: {}", chain(&error));
                false
            }
            Err(_) => {
                tracing::warn!("the lease was not renewed within {patience:?}");
                false
            }
        }
    }

    fn renewed(self: &Arc<Self>, sent: super::lease::Reading) {
        if !self.lease.is_valid() {
            // Somebody may have taken slots meanwhile: those are over first.
            self.lapse();
        }
        self.lease.extend(sent, self.config.timing.held);
        let mine = self.slots.mine().into_iter().map(|(slot, _)| slot);
        let again = swaps(&self.slots.hear_all(mine, Event::LeaseRenewed));
        if !again.is_empty() {
            let this = Arc::clone(self);
            self.spawn(async move { this.retake(again).await });
        }
    }

    /// The lease has run out: nothing is acknowledged until slots are taken again.
    fn lapse(&self) {
        let mine = self.slots.mine();
        if mine.is_empty() {
            return;
        }
        let sealed = self.slots.counts().sealed;
        self.slots
            .hear_all(mine.iter().map(|&(slot, _)| slot), Event::LeaseLost);
        if usize::from(sealed) < mine.len() {
            self.counters.lapses.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(
                slots = mine.len(),
                "the lease has run out: slots are sealed"
            );
        }
    }

    async fn look_around(self: Arc<Self>) {
        // Whoever looks before it has a lease has nothing to take.
        self.renew().await;
        let mut looks = 0_u32;
        loop {
            if self.look(looks.is_multiple_of(LOOKS_PER_READ)).await {
                self.joined.send_replace(true);
            }
            looks = looks.wrapping_add(1);
            let table = Arc::clone(self.routes.load().table());
            let share = self.lots.share();
            let every = self.config.timing.look_every;
            let wait = self
                .watch
                .lock()
                .next_look(&table, clock::now(), every, share);
            sleep(wait).await;
        }
    }

    /// Looks who is there, at the ring itself too when it should be read, and takes what is to be taken;
    /// returns whether that was possible.
    async fn look(self: &Arc<Self>, read: bool) -> bool {
        let known = !read && self.routes.load().number() > 0;
        // Whoever is silent was so until here. An answer may be old when it is looked at: this process may
        // have been stopped meanwhile, and everybody else have gone on.
        let asked_at = clock::now();
        let (presences, read) = match self.store.presences().await {
            Ok(presences) => (
                presences,
                if known {
                    Ok(())
                } else {
                    self.read().await.map(drop)
                },
            ),
            Err(error) => (Vec::new(), Err(error)),
        };
        if let Err(error) = read {
            tracing::warn!("the other members were not seen: {}", chain(&error));
            return false;
        }
        self.observe(presences);
        let table = Arc::clone(self.routes.load().table());
        let (asked, litter) = {
            let watch = self.watch.lock();
            let dead = |incarnation| watch.is_dead(incarnation, asked_at);
            let asked = to_take(&table, &watch.live(asked_at), self.me.incarnation(), dead);
            (asked, watch.forgettable(&table, asked_at))
        };
        self.mint_above();
        let silent = self.slots.give_up_silent(self.config.timing.dead_after);
        if silent > 0 {
            tracing::info!(
                slots = silent,
                "their owner stopped sending: they are not received any more"
            );
        }
        let may_take = self.lease.is_valid() && !self.draining.load(Ordering::Relaxed);
        if may_take && !asked.is_empty() {
            self.take(asked, &table).await;
        }
        for incarnation in litter {
            // It is tried again with the next look.
            drop(self.store.forget(incarnation).await);
        }
        may_take
    }

    async fn take(&self, asked: Vec<(Slot, Option<Epoch>)>, before: &readstates_ring::RingTable) {
        let dead: Vec<Slot> = asked
            .iter()
            .map(|&(slot, _)| slot)
            .filter(|&slot| {
                let owner = before.config(slot).map(|config| config.owner());
                owner.is_some_and(|owner| !self.watch.lock().is_gone(owner))
            })
            .collect();
        let slots: Vec<Slot> = asked.iter().map(|&(slot, _)| slot).collect();
        self.swap(asked, &self.me, Succession::TakenOver, None)
            .await;
        let table = Arc::clone(self.routes.load().table());
        let mine = |slot: &Slot| {
            let config = table.config(*slot);
            config.is_some_and(|config| config.owner() == self.me.incarnation())
        };
        let taken = slots.iter().filter(|slot| mine(slot)).count() as u64;
        self.counters.taken.fetch_add(taken, Ordering::Relaxed);
        let of_the_dead = dead.iter().filter(|slot| mine(slot)).count() as u64;
        if of_the_dead > 0 {
            let counter = &self.counters.taken_from_the_dead;
            counter.fetch_add(of_the_dead, Ordering::Relaxed);
            tracing::error!(
                slots = of_the_dead,
                "slots were taken from processes that died: what those acknowledged within their \
                 last flush interval may be lost"
            );
        }
        if taken > of_the_dead {
            tracing::info!(slots = taken - of_the_dead, "slots were taken");
        }
    }

    /// Slots of which the store has blocks of a later epoch go to one above it: the ring went back.
    fn mint_above(self: &Arc<Self>) {
        let regressed = self.engine.cache().regressed();
        if regressed.is_empty() || !self.lease.is_valid() {
            return;
        }
        tracing::error!(
            slots = regressed.len(),
            "the database holds blocks of later epochs than the ring's: the ring went back"
        );
        self.slots
            .hear_all(regressed.iter().copied(), Event::LeaseLost);
        let again = swaps(&self.slots.hear_all(regressed, Event::LeaseRenewed));
        let this = Arc::clone(self);
        self.spawn(async move { this.retake(again).await });
    }

    async fn keep_clean(self: Arc<Self>) {
        loop {
            self.slots.litter.notified().await;
            self.slots.sweep().await;
        }
    }

    /// Waits until this member has joined, at most until then.
    pub async fn wait_until_joined(&self, deadline: Instant) {
        let mut joined = self.joined.subscribe();
        let wait = joined.wait_for(|&joined| joined);
        // An error means that nobody is there to wait for.
        let _ = tokio::time::timeout_at(deadline, wait).await;
    }
}

/// The swaps among some actions: which slots, from which epochs.
pub(super) fn swaps(actions: &[(Slot, Action)]) -> Vec<(Slot, Epoch)> {
    let of = |&(slot, action): &(Slot, Action)| match action {
        Action::Swap { expected, .. } => Some((slot, expected)),
        Action::Stream { .. }
        | Action::Seal
        | Action::SendLastPart { .. }
        | Action::Confirm { .. }
        | Action::AskRing
        | Action::Serve { .. }
        | Action::Release { .. }
        | Action::DropReceived
        | Action::Refuse { .. } => None,
    };
    actions.iter().filter_map(of).collect()
}
