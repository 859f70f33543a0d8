//! The ring itself: reading it, changing it, and what follows when it is another one.

use std::{
    collections::HashMap,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures::StreamExt;
use readstates_ring::{
    Epoch, Incarnation, MOST_AHEAD_MICROS, Now, RingMember, RingTable, Slot, Stamp, Succession,
    mutant::{self, Rule},
    record::NotSwapped,
};
use tokio::time::{Instant, sleep, timeout_at};

use super::{
    Ownership, Routes,
    store::{RingStore, RingStoreError, Swapped, Versioned},
};
use crate::{clock, store::chain};

/// Between two questions to a ring that does not answer, or whose swaps others win.
const FIRST_RETRY: Duration = Duration::from_millis(20);
const LAST_RETRY: Duration = Duration::from_secs(1);

/// What the store is told that has forgotten something.
struct WriteBack {
    next: RingTable,
    /// Slots that stay here though it names others for them.
    kept: u64,
}

/// What tables were taken in.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// How many that said something new.
    tables: u64,
    /// How those are reached whom any of them named for a slot.
    members: HashMap<Incarnation, RingMember>,
}

impl Ownership {
    /// Takes a table in: routes first, so that whoever is let go by a door finds the way. One that came some other
    /// way than from the store itself may be old; then nothing is taken from it.
    pub(super) fn adopt(&self, table: &Arc<RingTable>) {
        let mut known = self.known.lock();
        if table.number() > self.routes.load().number() {
            self.follow_routes(&mut known, table);
        }
        self.learn(&mut known, table);
    }

    /// Takes in a table that the store itself has said, when so many others had been taken in before it was asked.
    /// Another table under a number that is not above that of the routes, or a slot at a lower epoch than it is known to
    /// be at, means that the store was restored. Returns what the store is to be told then, if more is known here.
    fn adopt_read(&self, table: &Arc<RingTable>, before: u64) -> Option<WriteBack> {
        let mut known = self.known.lock();
        // Else somebody else's answer, asked for later, may be in already.
        let is_last = known.tables == before;
        let routes = self.routes.load_full();
        let mended = is_last.then(|| self.to_write_back(&known, table, routes.number()));
        let mended = mended.flatten();
        // A store that was restored may have come to the same number again, in another way.
        let went_back = is_last
            && table.number() <= routes.number()
            && table.as_ref() != routes.table().as_ref();
        // Whoever the store names instead does not serve: these routes are the right ones until it is mended.
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

    /// What the store is to be told, when it has forgotten what is known here, or names somebody else for slots that are
    /// served here and that nobody can have taken.
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
                "the ring in the store names others for slots that are served here: it was restored, and somebody took \
                 them; they stay here, under a new epoch"
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
            let named = self.slots.owners();
            known.members.retain(|owner, _| named.contains(owner));
            for member in table.members() {
                known.members.insert(member.incarnation(), member.clone());
            }
        }
        for slot in news {
            self.gate.look_again(slot);
        }
        if table.line() != self.seen.line() {
            self.seen.hurry();
        }
        let number = self.routes.load().number();
        self.number.send_if_modified(|known| {
            let other = number != *known;
            *known = number;
            other
        });
    }

    /// Whether the store, when it was last read, knew less than this member does. Nothing is taken by such a ring:
    /// those whom it names may be over for long.
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
                // An old word, or a store that was restored.
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
        match self.store.compare_and_swap(version, next).await? {
            Swapped::Taken(taken) => {
                self.counters.mended.fetch_add(1, Ordering::Relaxed);
                self.counters.kept.fetch_add(kept, Ordering::Relaxed);
                tracing::warn!(
                    number = taken.table.number(),
                    "the ring that was restored has what its members know again"
                );
                self.behind.store(false, Ordering::Release);
                self.adopt(&taken.table);
                Ok(Some(taken))
            }
            // Somebody else mends it: the next read shows.
            Swapped::Conflict => Ok(current),
        }
    }

    /// Reads the ring because somebody is in doubt; those who are so at the same time read it once, and it
    /// is read a few times a second at most.
    pub async fn refresh(&self) {
        let read = async {
            if let Err(error) = self.read().await {
                tracing::debug!("the ring was not read: {}", chain(&error));
            }
        };
        self.outdated.settle(read).await;
    }

    /// Asks the ring to name `owner` for those of the slots that are still at the epochs given, until it is known for
    /// each of them what the ring says, or it is too late. `ahead` is the ring as it was read when the slots were at
    /// these epochs already: most often nobody has swapped since, and it need not be read.
    ///
    /// A slot that the clock forbids to swap is left out, and the others go on. Returns whether the ring has said of
    /// all of them what they are at: if not, some may or may not be swapped yet.
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
            // Not cancel-safe: the swap may be taken. Whoever goes on after that asks by the epochs.
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
                    tracing::warn!(slots, "the ring was not swapped: {}", chain(&error));
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
            let share = 1.0 - self.lots.share() / 2.0;
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
            // It was restored, and does not know yet what is known here: it has said nothing of these slots.
            return Ok(Swapped::Conflict);
        }
        asked.retain(|&(slot, expected)| epoch(slot) == expected || mutant::drops(Rule::R10));
        let is_mine = owner.incarnation() == self.me.incarnation();
        if !mutant::drops(Rule::R10) {
            // A store that was restored may have given the same epoch to somebody else.
            let watch = self.watch.lock();
            let may_be_taken = |owner| match succession {
                Succession::Handed => false,
                Succession::TakenOver => watch.was_dead(owner),
            };
            asked.retain(|&(slot, _)| {
                let owner = table.config(slot).map(|config| config.owner());
                owner.is_none_or(|owner| owner == self.me.incarnation() || may_be_taken(owner))
            });
        }
        if !is_mine && !mutant::drops(Rule::R3) {
            // Whoever has lost its lease since hands nothing on: others may have taken the slots, and a store that was
            // restored does not know.
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
        match table.swap(asked, owner, succession, now) {
            Ok(next) => {
                let next = match is_mine {
                    true => next.on_line(self.new_line()),
                    false => next,
                };
                if !is_mine {
                    self.gives(&next, asked);
                }
                self.store.compare_and_swap(version, next).await
            }
            Err(NotSwapped::Conflict { .. } | NotSwapped::TooFarAhead { .. }) => {
                Ok(Swapped::Conflict)
            }
        }
    }

    /// The time to mint from for what is taken here: above every epoch that those can have known who are dead. If the
    /// store was restored, the ring need not know of it, and one that had that epoch may have writes under way. What is
    /// taken from this member itself as from the dead is above what anybody can have known, and what it has asked the
    /// ring to give to others.
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

    /// Whether an epoch can be one that clocks have minted which are right. What a wrong one has minted must not spread.
    pub(super) fn is_near(&self, epoch: Epoch) -> bool {
        let latest = self.mint_time().latest;
        Stamp::new(epoch, 0).as_database() < latest.saturating_add(MOST_AHEAD_MICROS)
    }

    /// Remembers what the ring is asked to give to another.
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

    /// Takes slots that are sealed here under a new epoch: with what is in memory of them, or, where somebody else may
    /// have served, with what is in the database once everything is written. What the ring does not name again in time
    /// is asked for with the next renewal of the lease.
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
