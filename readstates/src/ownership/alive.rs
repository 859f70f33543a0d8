//! Liveness: looks for live and dead members, and takes slots from the dead ones.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering},
};

use readstates_ring::{
    Epoch, Slot, Succession,
    handoff::{Action, Event},
    moves::to_take,
};
use tokio::time::{Instant, sleep};

use super::{Ownership, clocks::Verdict, store::RingStore};
use crate::{clock, store::chain};

/// One look in so many reads the ring itself, too: a change that the watch has missed is seen soon.
const LOOKS_PER_READ: u32 = 5;

impl Ownership {
    /// Starts the background tasks: they renew the lease, follow the ring and take slots.
    pub fn begin(self: &Arc<Self>) {
        self.begin_to_renew();
        self.spawn(Arc::clone(self).keep_written());
        self.spawn(Arc::clone(self).follow());
        self.spawn(Arc::clone(self).look_around());
        self.spawn(Arc::clone(self).keep_agreeing());
        self.spawn(Arc::clone(self).keep_clean());
        if self.config.replicates() {
            self.spawn(Arc::clone(self).keep_backed());
            self.spawn(Arc::clone(self).keep_working_off());
        }
    }

    async fn look_around(self: Arc<Self>) {
        // Without a lease there is nothing to take.
        self.renew().await;
        let mut looks = 0_u32;
        loop {
            if self.look(looks.is_multiple_of(LOOKS_PER_READ)).await {
                self.joined.send_replace(true);
            }
            looks = looks.wrapping_add(1);
            let table = Arc::clone(self.routes.load().table());
            let share = self.random.share();
            let every = self.config.timing.look_every;
            let wait = self
                .watch
                .lock()
                .next_look(&table, clock::now(), every, share);
            sleep(wait).await;
        }
    }

    /// Reads the presences, and the ring itself if `read` is set or it is not known yet, and takes the slots
    /// that are due; returns whether that succeeded: this member may take slots, and serves all that it took.
    async fn look(self: &Arc<Self>, read: bool) -> bool {
        let known = !read && self.routes.load().number() > 0;
        let read = if known {
            Ok(())
        } else {
            self.read().await.map(drop)
        };
        // Taken before the presences are read: otherwise a member that was silent for long and came back could own
        // slots in this table while its presence, read earlier, still made it dead.
        let table = Arc::clone(self.routes.load().table());
        // Silence is measured up to here. An answer may be old when it is looked at: this process may have been
        // stopped meanwhile while all others went on.
        let asked_at = clock::now();
        let presences = match read {
            Ok(()) => self.store.presences().await,
            Err(error) => Err(error),
        };
        let presences = match presences {
            Ok(presences) => presences,
            Err(error) => {
                self.watch.lock().missed();
                tracing::warn!("failed to look for the other members: {}", chain(&error));
                return false;
            }
        };
        self.observe(presences);
        let may_take = self.may_take();
        if self.is_behind() {
            // An owner that the ring in the store names may have handed its slots on since.
            return may_take;
        }
        let (asked, forgettable) = {
            let watch = self.watch.lock();
            let dead = |incarnation| watch.is_dead(incarnation, asked_at);
            let me = self.me.incarnation();
            let mut asked = to_take(&table, &watch.live(asked_at), me, dead);
            asked.extend(self.incomplete_of_the_dead(&table, dead));
            (asked, watch.forgettable(&table, asked_at))
        };
        self.mint_above();
        let silent = self.slots.give_up_silent(self.config.timing.dead_after);
        if silent > 0 {
            tracing::info!(
                slots = silent,
                "gave up receiving slots: their owner stopped sending"
            );
        }
        if may_take && !asked.is_empty() {
            self.take(asked, &table).await;
        } else if may_take {
            self.mint_anew().await;
        }
        for incarnation in forgettable {
            // It is tried again with the next look.
            drop(self.store.forget(incarnation).await);
        }
        may_take && self.slots.taking().is_empty()
    }

    /// Whether this process takes slots now, from dead members or from one that offers them.
    pub(super) fn may_take(&self) -> bool {
        self.lease.is_valid()
            && !self.draining.load(Ordering::Relaxed)
            && self.clock_verdict() == Verdict::Right
    }

    async fn take(
        self: &Arc<Self>,
        asked: Vec<(Slot, Option<Epoch>)>,
        before: &readstates_ring::RingTable,
    ) {
        let died: BTreeMap<Slot, bool> = {
            let watch = self.watch.lock();
            let owner = |slot| before.config(slot).map(|config| config.owner());
            let died = |slot| owner(slot).is_some_and(|owner| !watch.is_gone(owner));
            asked.iter().map(|&(slot, _)| (slot, died(slot))).collect()
        };
        self.known.lock().asks_for(died);
        // The next look takes care of what is left.
        self.swap(asked, &self.me, Succession::TakenOver, None)
            .await;
        self.agree().await;
    }

    /// Takes slots again under a higher epoch if the database has blocks of a later one: the ring went back.
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
            self.slots.garbage.notified().await;
            self.slots.sweep().await;
        }
    }

    /// Waits until this member has joined, or until the deadline.
    pub async fn wait_until_joined(&self, deadline: Instant) {
        let mut joined = self.joined.subscribe();
        let wait = joined.wait_for(|&joined| joined);
        // Joined or too late: the caller goes on either way.
        let _ = tokio::time::timeout_at(deadline, wait).await;
    }
}

/// The swaps among some actions: which slots, from which epochs, and how.
pub(super) fn swaps(actions: &[(Slot, Action)]) -> Vec<(Slot, Epoch, Succession)> {
    let of = |&(slot, action): &(Slot, Action)| match action {
        Action::Swap { expected, how, .. } => Some((slot, expected, how)),
        Action::Stream { .. }
        | Action::Seal
        | Action::SendLastPart { .. }
        | Action::Confirm { .. }
        | Action::AskRing
        | Action::Serve { .. }
        | Action::Agree { .. }
        | Action::Keep { .. }
        | Action::Release { .. }
        | Action::DropReceived
        | Action::Refuse { .. } => None,
    };
    actions.iter().filter_map(of).collect()
}
