//! The lease of this process: how it is renewed, what is done while that fails, and what follows when it runs out.
//!
//! ```text
//! renewed ──▶ a renewal fails, or is overdue ──▶ everything is written, again and again ──▶ renewed: all goes on
//!                                                              │
//!                                                              └─▶ runs out: slots are sealed, and what is left is written
//! ```
//! Others take the slots some seconds after the lease has run out, and begin with what is in the database: a member
//! that reaches the database loses nothing with its lease.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use readstates_ring::{Slot, handoff::Event};
use tokio::time::{Instant, sleep, timeout};

use super::{Ownership, alive::swaps, clocks::Verdict, lease::Reading, store::RingStore};
use crate::store::chain;

impl Ownership {
    /// Begins to renew the lease, on the thread that does nothing else.
    pub(super) fn begin_to_renew(self: &Arc<Self>) {
        let renewing = Arc::clone(self).keep_lease();
        let mut tasks = self.tasks.lock();
        match self.lease_thread.runtime() {
            Some(runtime) => tasks.spawn_on(renewing, runtime),
            None => tasks.spawn_on(renewing, &self.runtime),
        };
    }

    async fn keep_lease(self: Arc<Self>) {
        let every = self.config.timing.renew_every;
        loop {
            let heard = self.renew_here().await;
            let left = self.lease.left();
            // Soon again after a failure: the others wait some seconds, and all members may have been held up as long.
            sleep(if heard { every.min(left) } else { every / 4 }).await;
            if !self.lease.is_valid() {
                self.lapse();
            }
        }
    }

    /// Renews the presence of this process; returns whether the store has taken it.
    pub(super) async fn renew(self: &Arc<Self>) -> bool {
        let Some(runtime) = self.lease_thread.runtime() else {
            return self.renew_here().await;
        };
        let this = Arc::clone(self);
        // A connection belongs to the thread that made it.
        let renewed = runtime.spawn(async move { this.renew_here().await });
        renewed.await.unwrap_or(false)
    }

    async fn renew_here(self: &Arc<Self>) -> bool {
        let _turn = self.renewing.lock().await;
        let presence = {
            let mut presence = self.presence.lock();
            presence.renewals += 1;
            presence.draining = self.draining.load(Ordering::Relaxed);
            presence.gone = self.gone.load(Ordering::Relaxed);
            presence.unix_micros = Some(self.config.unix_clock.micros());
            presence.line = Some(self.seen.line());
            let known = self.slots.known().into_iter();
            presence.epoch = known.map(|(_, config)| config.epoch().number()).max();
            presence.clock_wrong = matches!(self.clock_verdict(), Verdict::Wrong { .. });
            presence.clone()
        };
        let (gone, line) = (presence.gone, presence.line);
        let sent = self.lease.now();
        let patience = self.config.timing.held / 3;
        let heard = match timeout(patience, self.store.renew(presence)).await {
            Ok(Ok(())) => true,
            Ok(Err(error)) => {
                tracing::warn!("the lease was not renewed: {}", chain(&error));
                false
            }
            Err(_) => {
                tracing::warn!("the lease was not renewed within {patience:?}");
                false
            }
        };
        self.watch.lock().spoke(heard);
        self.lease_missed.store(!heard, Ordering::Release);
        if let Some(line) = line.filter(|_| heard) {
            self.seen.told(line);
        }
        if !heard {
            let failures = &self.counters.renewal_failures;
            failures.fetch_add(1, Ordering::Relaxed);
            self.lease_doubted.notify_one();
        } else if !gone {
            self.renewed(sent);
        }
        heard
    }

    fn renewed(self: &Arc<Self>, sent: Reading) {
        if !self.lease.is_valid() {
            // Other members may have taken slots meanwhile: their epochs here end first.
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
        let sealed = self.slots.counts().sealed;
        // Those that are confirmed and not owned yet, too.
        self.slots.hear_all(Slot::all(), Event::LeaseLost);
        if mine.is_empty() {
            return;
        }
        if usize::from(sealed) < mine.len() {
            self.counters.lapses.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(
                slots = mine.len(),
                "the lease has run out: slots are sealed"
            );
        }
        self.lease_doubted.notify_one();
    }

    /// Whether the last renewal has failed, or the next one is overdue.
    fn is_lease_in_doubt(&self) -> bool {
        let overdue = self.lease.left() < self.config.timing.held / 2;
        self.lease_missed.load(Ordering::Acquire) || overdue
    }

    /// Writes everything while the lease is in doubt. What is acknowledged meanwhile is written by the next round; the
    /// pace of writes bounds what that costs the database.
    pub(super) async fn keep_written(self: Arc<Self>) {
        let every = self.config.timing.renew_every;
        loop {
            if self.is_lease_in_doubt() && self.engine.cache().dirty_users() > 0 {
                self.write_in_doubt(every).await;
            }
            // Cancel-safe: without a notification, the next round looks by itself.
            let _ = timeout(every / 4, self.lease_doubted.notified()).await;
        }
    }

    async fn write_in_doubt(&self, every: Duration) {
        self.counters.doubts.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(
            dirty_users = self.engine.cache().dirty_users(),
            lease_left = ?self.lease.left(),
            "the lease was not renewed in time: writing everything before it runs out"
        );
        let (began, mut pause, mut total) = (Instant::now(), every / 12, 0);
        while self.is_lease_in_doubt() && self.engine.cache().dirty_users() > 0 {
            // A user whose write hangs must not keep the next round from what has changed since.
            let round = timeout(every / 3, self.engine.flush_all()).await;
            let written = round.map_or(0, |flushed| flushed.written);
            total += written;
            pause = if written > 0 {
                every / 12
            } else {
                (pause * 2).min(every)
            };
            sleep(pause).await;
        }
        tracing::info!(
            took = ?began.elapsed(),
            written_at_least = total,
            dirty_users = self.engine.cache().dirty_users(),
            lease_valid = self.lease.is_valid(),
            "written while the lease was in doubt"
        );
    }
}
