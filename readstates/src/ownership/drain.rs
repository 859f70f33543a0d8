//! Draining: everything that is owned is handed on.

use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use readstates_ring::{Epoch, Incarnation, Slot, moves::next_handover};
use tokio::time::{Instant, sleep, timeout_at};

use super::{Destination, Ownership};
use crate::clock;

/// Slots in one batch.
const BATCH: usize = 64;
/// After a batch of which nothing was taken.
const PAUSE: Duration = Duration::from_millis(200);
/// After so many batches in a row of which nothing was taken, what is here is written before it is offered again.
const VAIN_BATCHES: u32 = 5;

/// What came of handing everything on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HandedOn {
    Everything,
    /// Members live that could take slots, and take none for now.
    NotYet,
    /// No other member lives that could.
    NobodyThere,
}

impl Ownership {
    /// Takes nothing more, and hands on what is owned, for as long as the process runs; what no member
    /// takes is written and still served.
    pub fn begin_drain(self: &Arc<Self>) {
        if self.draining.swap(true, Ordering::Relaxed) {
            return;
        }
        tracing::info!(owned = self.slots.counts().owned, "draining");
        self.slots.begin_to_leave();
        let this = Arc::clone(self);
        self.spawn(async move {
            this.renew().await;
            this.hear_of_confirmed().await;
            while this.hand_over().await != HandedOn::Everything || this.backing() > 0 {
                this.engine.flush_all().await;
                sleep(this.config.timing.look_every).await;
            }
            tracing::info!("drained: nothing is owned here any more, and nothing is backed");
        });
    }

    /// Takes nothing more, and hands on what is owned until nothing is left, no member is there to take
    /// it, or it is too late; returns whether nothing is left.
    pub async fn drain(self: &Arc<Self>, deadline: Instant) -> bool {
        self.draining.store(true, Ordering::Relaxed);
        self.slots.begin_to_leave();
        let work = async {
            self.renew().await;
            self.hear_of_confirmed().await;
            // The owners of what it backs seed others first; one that dies meanwhile leaves its slots here.
            loop {
                match self.hand_over().await {
                    HandedOn::Everything if self.backing() == 0 => return true,
                    // The other member may have just started, or be dead without this one knowing it yet.
                    HandedOn::Everything | HandedOn::NotYet => sleep(PAUSE).await,
                    // Promotions take a moment.
                    HandedOn::NobodyThere if self.entrusted_users() > 0 => sleep(PAUSE).await,
                    HandedOn::NobodyThere => return false,
                }
            }
        };
        // A batch that is cut off stays sealed: after giving up here, the process writes everything and ends.
        tokio::select! {
            biased;
            done = timeout_at(deadline, work) => done.unwrap_or(false),
            () = self.is_cut_off() => {
                tracing::warn!("the ring has not answered for long: the slots owned here cannot be handed on");
                false
            }
        }
    }

    /// Waits until this process has been without a lease for as long as others wait until they take it for dead, and is
    /// not the last with what an owner acknowledged that is silent: that is worth all of the time that there is.
    async fn is_cut_off(&self) {
        let mut held = Instant::now();
        while held.elapsed() < self.config.timing.dead_after {
            sleep(PAUSE).await;
            if self.lease.is_valid() || self.entrusted_users() > 0 {
                held = Instant::now();
            }
        }
    }

    /// Waits until the ring names an owner for each slot that this member has confirmed: if that is this
    /// member, it hands the slot on, too. The origin, which has the confirmation, swaps or takes the slot back.
    async fn hear_of_confirmed(self: &Arc<Self>) {
        while self.slots.counts().ready > 0 {
            self.refresh().await;
            sleep(PAUSE).await;
        }
    }

    /// One try to hand on everything.
    async fn hand_over(self: &Arc<Self>) -> HandedOn {
        let mut vain = 0;
        let mut passed_over = BTreeSet::new();
        while self.slots.counts().owned > 0 {
            self.see_the_others().await;
            let next = self.next_to_hand_over(&passed_over);
            let Some((to, slots)) = next else {
                if passed_over.is_empty() {
                    return HandedOn::NobodyThere;
                }
                passed_over.clear();
                continue;
            };
            if self.move_now(&to, &slots).await > 0 {
                vain = 0;
                passed_over.clear();
                continue;
            }
            // Others may take what this one does not.
            passed_over.insert(to.member.incarnation());
            // What waits for the others' agreement can be handed on once they have said it, what waits for an owner
            // before once that answers no more, and what this member was promoted with once the database has it.
            let is_waiting = !self.slots.taking().is_empty()
                || !self.slots.promoted().is_empty()
                || self.inherited_users() > 0;
            vain += u32::from(!is_waiting);
            if vain >= VAIN_BATCHES {
                break;
            }
            sleep(PAUSE).await;
        }
        match self.slots.counts().owned {
            0 => HandedOn::Everything,
            _ => HandedOn::NotYet,
        }
    }

    /// The next batch, and who is to take it: a live member, as far as is known, that is not passed over.
    fn next_to_hand_over(
        &self,
        passed_over: &BTreeSet<Incarnation>,
    ) -> Option<(Destination, Vec<(Slot, Epoch)>)> {
        let me = self.me.incarnation();
        let table = Arc::clone(self.routes.load().table());
        let watch = self.watch.lock();
        let destination = |to| watch.presence(to).and_then(Destination::of);
        let mut live = watch.live(clock::now());
        live.retain(|live| {
            let it = live.incarnation;
            it != me && !passed_over.contains(&it) && destination(it).is_some()
        });
        let next = next_handover(&table, &live, me, BATCH)?;
        Some((destination(next.to)?, next.slots))
    }
}
