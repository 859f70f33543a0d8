//! The ring itself: reads it, and takes in what has changed.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering},
};

use futures::StreamExt;
use readstates_ring::{Incarnation, RingMember, RingTable, Slot};

use super::{
    Ownership, Routes,
    store::{RingStore, RingStoreError, Swapped, Versioned},
};
use crate::store::chain;

/// What to tell a store that has forgotten something.
struct WriteBack {
    next: RingTable,
    /// Slots that stay here though the store names other owners for them.
    kept: u64,
}

/// Which tables were taken in.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// How many of them said something new.
    tables: u64,
    /// How to reach the members that any of them named for a slot.
    members: BTreeMap<Incarnation, RingMember>,
    /// The slots that this member has asked for last, and whether their owners died.
    asked: BTreeMap<Slot, bool>,
}

impl Known {
    /// This member is about to ask for slots; for each, whether its owner died without a last word.
    pub(super) fn asks_for(&mut self, slots: BTreeMap<Slot, bool>) {
        self.asked = slots;
    }
}

impl Ownership {
    /// Takes a table in: routes first, so that a request that a gate lets go finds its way. A table that did not come
    /// from the store itself may be old; then nothing is taken from it.
    pub(super) fn adopt(&self, table: &Arc<RingTable>) {
        let mut known = self.known.lock();
        if table.number() > self.routes.load().number() {
            self.follow_routes(&mut known, table);
        }
        self.learn(&mut known, table);
    }

    /// Takes in a table that was read from the store itself; `before` tables had been taken in when the read began.
    /// The store was restored if its table differs from the routes without a higher number, or has a slot at a lower
    /// epoch than is known here. Returns what to write back then, if more is known here.
    fn adopt_read(&self, table: &Arc<RingTable>, before: u64) -> Option<WriteBack> {
        let mut known = self.known.lock();
        // Otherwise the answer to a later read may be in already.
        let is_last = known.tables == before;
        let routes = self.routes.load_full();
        let mended = is_last.then(|| self.to_write_back(&known, table, routes.number()));
        let mended = mended.flatten();
        // A restored store may have come to the same number again with another table.
        let went_back = is_last
            && table.number() <= routes.number()
            && table.as_ref() != routes.table().as_ref();
        // The owners that the store names instead do not serve: these routes are the right ones until it is mended.
        if table.number() > routes.number() || (went_back && mended.is_none()) {
            self.follow_routes(&mut known, table);
        }
        if went_back || mended.is_some() {
            tracing::warn!(
                number = table.number(),
                known = routes.number(),
                more_is_known_here = mended.is_some(),
                "the ring in the store went back: it was restored"
            );
        }
        if is_last {
            self.behind.store(mended.is_some(), Ordering::Release);
        }
        self.learn(&mut known, table);
        let agrees = self.slots.contradicted(table).is_empty() && !self.slots.holds();
        if is_last && mended.is_none() && agrees {
            self.seen.saw(table);
        }
        mended
    }

    /// What to tell the store, if it has forgotten what is known here, or names another owner for slots that are served
    /// here and that no other member can have taken.
    fn to_write_back(&self, known: &Known, table: &RingTable, number: u64) -> Option<WriteBack> {
        let members: Vec<RingMember> = known.members.values().cloned().collect();
        let mended = table.mended(self.slots.known(), &members, number);
        let kept = self.slots.contradicted(table);
        let base = mended.as_ref().unwrap_or(table);
        let (next, refused) = base.kept(&kept, &self.me, number, self.mint_time());
        self.report_forbidden(&refused);
        let kept = (kept.len() - refused.len()) as u64;
        if kept > 0 {
            tracing::error!(
                slots = kept,
                "the ring in the store names other owners for slots that are served here: it was restored, and another \
                 member took them; they stay here, under a new epoch"
            );
        }
        let next = next.on_line(self.new_line());
        (kept > 0 || mended.is_some()).then_some(WriteBack { next, kept })
    }

    fn follow_routes(&self, known: &mut Known, table: &Arc<RingTable>) {
        let (before, most) = (self.routes.load_full(), self.config.max_per_member);
        let routes = Routes::new(Arc::clone(table), Some(&before), most);
        self.routes.store(Arc::new(routes));
        known.tables += 1;
    }

    fn learn(&self, known: &mut Known, table: &RingTable) {
        let news = self.slots.learn(table);
        if !news.is_empty() {
            known.tables += 1;
            let named = self.slots.named();
            known.members.retain(|member, _| named.contains(member));
            for member in table.members() {
                known.members.insert(member.incarnation(), member.clone());
            }
        }
        self.count_taken(known, table, &news);
        for slot in news {
            self.gate.look_again(slot);
        }
        if table.line() != self.seen.line() {
            self.seen.wake();
        }
        let number = self.routes.load().number();
        let is_other = self.number.send_if_modified(|known| {
            let other = number != *known;
            *known = number;
            other
        });
        if is_other {
            self.numbered.notify_waiters();
        }
    }

    /// Counts what this member has asked for and was given, before it serves any of it. It goes by the table, since the
    /// answer to the swap itself may have been lost.
    fn count_taken(&self, known: &mut Known, table: &RingTable, news: &[Slot]) {
        let (mut taken, mut of_the_dead) = (0, 0);
        for &slot in news {
            let Some(died) = known.asked.remove(&slot) else {
                continue;
            };
            // What its owner hands on after all was not taken.
            let is_taken = table.config(slot).is_some_and(|config| {
                config.owner() == self.me.incarnation() && config.inherits().is_none()
            });
            taken += u64::from(is_taken);
            of_the_dead += u64::from(is_taken && died);
        }
        let counters = &self.counters;
        counters.taken.fetch_add(taken, Ordering::Relaxed);
        counters
            .taken_from_the_dead
            .fetch_add(of_the_dead, Ordering::Relaxed);
        if of_the_dead > 0 {
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

    /// Whether the store, when it was last read, knew less than this member does. Nothing is taken by such a ring:
    /// the owners that it names may be gone for long.
    pub(super) fn is_behind(&self) -> bool {
        self.behind.load(Ordering::Acquire)
    }

    /// Follows the ring for as long as the store yields it.
    pub(super) async fn follow(self: Arc<Self>) {
        let mut tables = self.store.watch();
        while let Some(table) = tables.next().await {
            self.adopt(&table);
            let other = self.routes.load().table().as_ref() != table.as_ref();
            if other || table.line() != self.seen.line() {
                // An old table, or a store that was restored.
                self.refresh().await;
            }
        }
    }

    /// Reads the ring itself, and mends it when it was restored or deleted and this member knows more.
    pub(super) async fn read(&self) -> Result<Option<Versioned>, RingStoreError> {
        let before = self.known.lock().tables;
        let current = self.store.get().await?;
        // A ring that was deleted has forgotten everything.
        let empty = Arc::default();
        let table = current.as_ref().map_or(&empty, |current| &current.table);
        let Some(WriteBack { next, kept }) = self.adopt_read(table, before) else {
            return Ok(current);
        };
        let version = current.as_ref().map(|current| current.version.clone());
        match self.replace(version, next).await? {
            Swapped::Taken(taken) => {
                self.counters.mended.fetch_add(1, Ordering::Relaxed);
                self.counters.kept.fetch_add(kept, Ordering::Relaxed);
                tracing::warn!(
                    number = taken.table.number(),
                    "the restored ring has again what its members know"
                );
                self.behind.store(false, Ordering::Release);
                self.adopt(&taken.table);
                Ok(Some(taken))
            }
            // Another member mends it: the next read shows that.
            Swapped::Conflict => Ok(current),
        }
    }

    /// Reads the ring because a caller is in doubt; concurrent callers share one read, and it is read a few
    /// times a second at most.
    pub async fn refresh(&self) {
        let read = async {
            if let Err(error) = self.read().await {
                tracing::debug!("failed to read the ring: {}", chain(&error));
            }
        };
        self.outdated.settle(read).await;
    }
}
