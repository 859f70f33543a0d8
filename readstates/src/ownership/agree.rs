//! Agreement on takes: a slot is served only when every living member has seen that it was taken.
//!
//! ```text
//! a process takes slots (a swap, a new line) ──▶ the others read the ring, and say its line with their presence
//!                                                   │ but for one that serves one of these slots: the store was restored,
//!                                                   │ and it writes back what the store has forgotten
//!         all who live have said it ──▶ served      └─▶ the slot is not the taker's any more
//! ```
//! A store that is restored forgets who owns what. A member that reads it then may take a slot from an owner that is
//! long gone, while another member serves the slot. Both are alive: so the one that takes asks, and the one that serves
//! objects. A move needs none of this: its origin serves, and knows that no other member does.
//!
//! A dead process cannot object, so its last word counts: if it has seen a line that this ring was never on, a process
//! may have served what the store has forgotten. Then a taken slot begins with what is in the database, above every
//! epoch that dead processes have said ([`Ownership::doubted`]).
//!
//! This rests on two things: a swap that was asked for before the store was restored is not carried out after it (the
//! store's own versions, and its connections, see to that); and a living process is in the store's presences, or was
//! there within the time after which it would be taken for dead.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Instant,
};

use parking_lot::Mutex;
use readstates_ring::{
    Epoch, Incarnation, Line, RingTable, Slot,
    handoff::Event,
    mutant::{self, Rule},
};
use tokio::{sync::Notify, time::timeout};

use super::{
    Ownership,
    alive::swaps,
    store::{RingStore, Versioned},
};
use crate::clock;

/// Which takes of the others this member has seen, and since when it waits for them to see its own.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// The line of the last table that was read and that nothing here contradicts.
    line: AtomicU64,
    /// The line that the others have been told.
    told: AtomicU64,
    /// There is something to tell the others, or to ask them.
    news: Notify,
    waits_since: Mutex<Option<Instant>>,
    /// While slots are sealed or taken: a table was read that does not follow from one that was read before.
    went_back: AtomicBool,
}

impl Seen {
    pub(super) fn line(&self) -> Line {
        Line::new(self.line.load(Ordering::Acquire))
    }

    /// A table was read, and nothing here contradicts it.
    pub(super) fn saw(&self, table: &RingTable) {
        let line = table.line();
        let before = Line::new(self.line.swap(line.bits(), Ordering::AcqRel));
        if before != Line::NONE && !table.was_on(before) {
            self.went_back.store(true, Ordering::Release);
        }
        if before != line {
            self.news.notify_one();
        }
    }

    /// The others can know it by now.
    pub(super) fn told(&self, line: Line) {
        self.told.store(line.bits(), Ordering::Release);
    }

    fn is_told(&self) -> bool {
        self.told.load(Ordering::Acquire) == self.line.load(Ordering::Acquire)
    }

    /// Something was taken here, or by others.
    pub(super) fn wake(&self) {
        self.news.notify_one();
    }
}

impl Ownership {
    /// A line that was never used before.
    pub(super) fn new_line(&self) -> Line {
        Line::new(self.random.bits().max(1))
    }

    /// Reads what others took, tells them that it was seen, and asks for what was taken here.
    pub(super) async fn keep_agreeing(self: Arc<Self>) {
        let every = self.config.timing.renew_every;
        loop {
            let is_settled = self.has_seen_all() && self.slots.taking().is_empty();
            let wait = if is_settled { every } else { every / 12 };
            // Cancel-safe: without a notification, the next round looks by itself.
            let _ = timeout(wait, self.seen.news.notified()).await;
            if self.routes.load().table().line() != self.seen.line() {
                self.refresh().await;
            }
            if !self.seen.is_told() {
                self.renew().await;
            }
            self.agree().await;
        }
    }

    fn has_seen_all(&self) -> bool {
        self.routes.load().table().line() == self.seen.line() && self.seen.is_told()
    }

    /// Serves what was taken here, if every living member has seen it.
    pub(super) async fn agree(self: &Arc<Self>) {
        let waits_since = {
            let mut since = self.seen.waits_since.lock();
            if self.slots.taking().is_empty() {
                *since = None;
                if self.slots.counts().sealed == 0 {
                    self.seen.went_back.store(false, Ordering::Release);
                }
                return;
            }
            *since.get_or_insert_with(clock::now)
        };
        let Ok(Some(Versioned { table, .. })) = self.read().await else {
            return;
        };
        // Silence is measured up to here.
        let asked_at = clock::now();
        let Ok(presences) = self.store.presences().await else {
            self.watch.lock().missed();
            return;
        };
        self.observe(presences);
        let line = table.line();
        if self.seen.line() != line || !self.lease.is_valid() {
            return;
        }
        // The others must know of this line in case this member dies.
        if !self.seen.is_told() && !self.renew().await {
            return;
        }
        let others = self.watch.lock().not_on(line, asked_at);
        let patience = self.config.timing.dead_after * 2;
        let is_late = asked_at.saturating_duration_since(waits_since) > patience;
        if !others.is_empty() && !is_late {
            return;
        }
        let mine = |&(slot, epoch): &(Slot, Epoch)| {
            table.config(slot).is_some_and(|config| {
                config.owner() == self.me.incarnation() && config.epoch() == epoch
            })
        };
        let mut agreed = self.slots.taking();
        agreed.retain(mine);
        if !others.is_empty() {
            self.report_not_agreed(&others, agreed.len());
        }
        let doubted = self.doubted(&table, &agreed, asked_at);
        for &(slot, epoch) in agreed.iter().filter(|slot| !doubted.contains(slot)) {
            self.slots.hear(slot, Event::Agreed { epoch });
        }
        if !doubted.is_empty() {
            self.take_once_more(doubted);
        }
    }

    /// The taken slots that must be taken once more: the ring has forgotten something that a dead member or this one
    /// has seen, or a dead member has said an epoch that is no lower.
    fn doubted(
        &self,
        table: &RingTable,
        taking: &[(Slot, Epoch)],
        now: Instant,
    ) -> Vec<(Slot, Epoch)> {
        if mutant::drops(Rule::R17) {
            return Vec::new();
        }
        let (dead, highest) = {
            let watch = self.watch.lock();
            (
                watch.dead_not_on(table, now),
                watch.highest_of_the_dead(now),
            )
        };
        let highest = highest.filter(|&highest| self.is_near(highest));
        let forgotten = !dead.is_empty() || self.seen.went_back.load(Ordering::Acquire);
        let mut doubted = self.slots.cold(taking, forgotten);
        let is_low = |&(_, epoch): &(Slot, Epoch)| Some(epoch) <= highest;
        let is_new = |slot: &(Slot, Epoch)| is_low(slot) && !doubted.contains(slot);
        let low: Vec<(Slot, Epoch)> = taking.iter().copied().filter(is_new).collect();
        doubted.extend(low);
        if forgotten && !doubted.is_empty() {
            let names: Vec<String> = dead.iter().map(ToString::to_string).collect();
            tracing::error!(
                slots = doubted.len(),
                members = names.join(", "),
                "the ring in the store was restored: a member has seen what it has forgotten, and may have served \
                 these slots; they begin with what is in the database"
            );
        }
        doubted
    }

    fn take_once_more(self: &Arc<Self>, slots: Vec<(Slot, Epoch)>) {
        let counter = &self.counters.doubted;
        counter.fetch_add(slots.len() as u64, Ordering::Relaxed);
        let mut again = Vec::new();
        for (slot, epoch) in slots {
            let actions = self.slots.hear(slot, Event::Doubted { epoch });
            again.extend(actions.into_iter().map(|action| (slot, action)));
        }
        let (this, again) = (Arc::clone(self), swaps(&again));
        self.spawn(async move { this.retake(again).await });
    }

    /// A member that renews its lease and cannot read the ring must not keep taken slots out of service for ever.
    fn report_not_agreed(&self, others: &[Incarnation], slots: usize) {
        let counter = &self.counters.not_agreed;
        counter.fetch_add(slots as u64, Ordering::Relaxed);
        let names: Vec<String> = others.iter().map(ToString::to_string).collect();
        tracing::error!(
            slots,
            members = names.join(", "),
            "taken slots are served although some live members have not said that they saw the take: they renew \
             their leases and do not read the ring. If the ring store was restored just now and one of them serves \
             these slots, what it acknowledges is lost"
        );
    }
}
