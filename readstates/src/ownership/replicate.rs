//! Backups of the slots that this member owns, and promotions of those that it backs.
//!
//! One task looks several times a second: it drops backups that are slow or refuse (R12), names those that have
//! everything, seeds others for slots that have none, and asks to be promoted for slots whose owners are silent or have no
//! lease. Streams have tasks of their own.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures::{
    StreamExt,
    future::{BoxFuture, FutureExt},
    stream,
};
use parking_lot::Mutex;
use readstates_ring::{Incarnation, RingMember, Slot, SlotConfig, Succession, handoff::Event};
use tokio::time::{Instant, sleep, timeout};

use super::{
    Destination, NotReceived, Ownership, frame,
    store::{Swapped, Versioned},
};
use crate::{
    clock,
    replication::{Carry, Heard, Replicas, Said, Seeds, keep_sending},
    store::chain,
};

/// Between two looks.
const TICK: Duration = Duration::from_millis(50);
/// How long a backup waits for its watch of the ring until it reads the ring itself.
const WATCHED: Duration = Duration::from_millis(20);
/// How often everything is asked to be written while a backup has little room.
const BRING_FORWARD_EVERY: Duration = Duration::from_secs(1);

/// Between two looks at what is left of the journals of owners before.
const WORK_OFF_PAUSE: Duration = Duration::from_millis(500);
/// Users of these that are loaded at once.
const LOADS_AT_ONCE: usize = 32;

/// The tasks that send to backups: each holds a part of what is here for as long as it works.
type Senders = BTreeMap<Incarnation, Arc<()>>;

/// The way to one backup.
struct Way {
    ownership: Arc<Ownership>,
    to: Incarnation,
    /// When everything was asked to be written last.
    brought_forward: Mutex<Option<std::time::Instant>>,
}

impl Way {
    /// Has everything written that the database lacks, once in a while.
    fn bring_forward(&self) {
        let now = clock::now();
        let mut brought_forward = self.brought_forward.lock();
        if brought_forward
            .is_none_or(|last| now.saturating_duration_since(last) >= BRING_FORWARD_EVERY)
        {
            *brought_forward = Some(now);
            self.ownership.engine.bring_all_forward();
        }
    }
}

impl Carry for Way {
    fn carry(&self, frame: Vec<u8>) -> BoxFuture<'_, Option<Said>> {
        async move {
            let Some(to) = self.ownership.reachable(self.to) else {
                self.ownership.see_the_others().await;
                return None;
            };
            let began = Instant::now();
            let sent = self
                .ownership
                .peers
                .send_for_answers(&to, frame::replica(&frame));
            match sent.await {
                Ok(answer) => {
                    let said = Said::decode(&answer).ok()?;
                    self.ownership.timings.frames.record(began.elapsed());
                    if said.has_little_room {
                        self.bring_forward();
                    }
                    Some(said)
                }
                Err(error) => {
                    tracing::debug!(to = to.name(), "a frame was not accepted: {error}");
                    None
                }
            }
        }
        .boxed()
    }
}

impl Ownership {
    /// A frame of an owner that this member backs.
    pub(super) async fn backs(&self, frame: &[u8]) -> Result<Bytes, NotReceived> {
        let replicas = self.engine.cache().replicas();
        let replicas = replicas.ok_or(NotReceived::NoBackup)?;
        // From here on: a ring that comes during the first look counts.
        let mut numbered = pin!(self.numbered.notified());
        for look in 0..3 {
            match replicas.holding.receive(frame) {
                Ok(Heard::Say(said)) => return Ok(said.encode().into()),
                // Mostly the watch brings it in a moment: then the store is not asked.
                Ok(Heard::LearnFirst(..)) if look == 0 => {
                    let _ = timeout(WATCHED, numbered.as_mut()).await;
                }
                Ok(Heard::LearnFirst(..)) => self.refresh().await,
                Ok(Heard::Full) => return Err(NotReceived::NoRoom),
                Ok(Heard::Ignored) => return Err(NotReceived::OutOfPlace),
                Err(why) => {
                    tracing::warn!("a frame of an owner was not accepted: {why}");
                    return Err(NotReceived::Malformed);
                }
            }
        }
        Err(NotReceived::OutOfPlace)
    }

    /// Looks after backups for as long as the process lives.
    pub(super) async fn keep_backed(self: Arc<Self>) {
        let Some(replicas) = self.engine.cache().replicas().cloned() else {
            return;
        };
        let (mut sending, mut seeds) = (Senders::new(), Seeds::default());
        loop {
            sleep(TICK).await;
            self.drop_backups(&replicas).await;
            self.name_backups(&replicas).await;
            self.seed_backups(&replicas, &mut seeds);
            self.begin_to_send(&replicas, &mut sending);
            self.ask_to_be_promoted(&replicas).await;
            self.serve_promoted();
            self.look_for_unprotected(&replicas);
        }
    }

    /// Takes note of since when there are slots without a backup, and of how many wait for the clock.
    fn look_for_unprotected(&self, replicas: &Replicas) {
        self.look_for_held_back(replicas);
        let mut since = self.unprotected_since.lock();
        *since = match replicas.owner.unprotected() {
            0 => None,
            _ => Some(since.unwrap_or_else(Instant::now)),
        };
    }

    /// R12: nothing is acknowledged until the ring says that they are out.
    async fn drop_backups(&self, replicas: &Replicas) {
        let mut due = replicas.owner.to_drop();
        let candidates = self.backups();
        if candidates.is_empty() {
            // No other can be the backup of slots whose backup leaves.
            due.extend(self.misplaced(replicas, &candidates));
            due.sort_unstable();
            due.dedup();
        }
        if replicas.is_required() {
            self.keep_those_not_written(replicas, &mut due);
        }
        if !due.is_empty() && self.lease.is_valid() {
            replicas.owner.give_up(&due);
            self.ask_for_backup(&due, None, Succession::Handed).await;
        }
        replicas.owner.give_up_slow();
        let watch = self.watch.lock();
        for (to, rest) in replicas.owner.begun_rests() {
            let backup = watch.presence(to).map_or("?", |it| it.name.as_str());
            tracing::warn!(
                backup,
                seconds = rest.as_secs(),
                "a backup was given up, because it is slow or has no room; it is not asked again for so long"
            );
        }
        for to in replicas.owner.backups() {
            if watch.is_dead(to, clock::now()) {
                replicas.owner.forget(to);
            }
        }
        replicas.holding.forget(|from| watch.is_forgotten(from));
    }

    /// Where backups are required, one is not dropped before the database has what it holds of the slot: if this member
    /// died in between, that would be in no other place. Until then nothing of the slot is answered, and another member may
    /// be named in its stead.
    fn keep_those_not_written(&self, replicas: &Replicas, due: &mut Vec<Slot>) {
        // Before the look: what is changed from now on is not acknowledged without a backup or the database.
        replicas.owner.hold(due);
        if due.is_empty() {
            return;
        }
        self.engine.bring_all_forward();
        let users = self
            .engine
            .cache()
            .dirty_users_of(&due.iter().copied().collect());
        let unwritten: BTreeSet<Slot> = users.into_iter().map(Slot::of_user).collect();
        due.retain(|slot| !unwritten.contains(slot));
    }

    async fn name_backups(&self, replicas: &Replicas) {
        let seeding = replicas.owner.seeding();
        if seeding.is_empty() || !self.lease.is_valid() || !self.may_name_backups() {
            return;
        }
        let mut named: BTreeMap<Incarnation, Vec<Slot>> = BTreeMap::new();
        let mut at_rest = self.slots.at_rest();
        let now = self.mint_time();
        at_rest
            .retain(|&(slot, epoch)| seeding.contains(&slot) && SlotConfig::may_name(epoch, now));
        for (slot, _) in at_rest {
            if let Some(backup) = replicas.owner.name(slot) {
                self.slots.backup_asked(slot);
                named.entry(backup).or_default().push(slot);
            }
        }
        for (backup, slots) in named {
            let Ok(Destination { member, .. }) = self.destination(backup).await else {
                continue;
            };
            let how = Succession::Handed;
            self.ask_for_backup(&slots, Some(&member), how).await;
        }
    }

    fn begin_to_send(self: &Arc<Self>, replicas: &Replicas, sending: &mut Senders) {
        // One ends when its backup is forgotten, which may have been taken up again since.
        sending.retain(|_, works| Arc::strong_count(works) > 1);
        for to in replicas.owner.backups() {
            if let Entry::Vacant(sender) = sending.entry(to) {
                let way = Way {
                    ownership: Arc::clone(self),
                    to,
                    brought_forward: Mutex::default(),
                };
                let works = Arc::clone(sender.insert(Arc::default()));
                let owner = Arc::clone(&replicas.owner);
                self.spawn_for_answers(async move {
                    let _works = works;
                    keep_sending(owner, to, way).await;
                });
            }
        }
    }

    async fn ask_to_be_promoted(&self, replicas: &Replicas) {
        let may_be_promoted = self.may_be_promoted.lock().await;
        if !*may_be_promoted || !self.lease.is_valid() {
            return;
        }
        let due = {
            let watch = self.watch.lock();
            replicas.holding.promise(|it| watch.was_dead(it))
        };
        if !due.is_empty() {
            let how = Succession::Promoted;
            self.ask_for_backup(&due, None, how).await;
        }
    }

    /// Asks the ring for slots with this backup, as their owner or as one that is promoted. What comes of it is learned
    /// like any other config; what fails is asked for again.
    async fn ask_for_backup(&self, slots: &[Slot], backup: Option<&RingMember>, how: Succession) {
        let Ok(Some(Versioned { table, version })) = self.read().await else {
            return;
        };
        let me = self.me.incarnation();
        let Some(replicas) = self.engine.cache().replicas() else {
            return;
        };
        // By what was learned with this very table: what was promised or asked for at an epoch before holds no more.
        let may_ask = |slot, config: &SlotConfig| match (how, backup) {
            (Succession::Promoted, _) => {
                let promised = || replicas.holding.has_promised(slot, config.epoch());
                config.backup() == Some(me) && promised()
            }
            (Succession::Handed, Some(backup)) => {
                let to = backup.incarnation();
                config.owner() == me && replicas.owner.may_ask_for(slot, to)
            }
            (Succession::Handed, None) => config.owner() == me,
            (Succession::TakenOver, _) => false,
        };
        // Of slots that are sealed for a transfer nothing is learned: after a second swap, what is here would be taken
        // for what another owner has changed since.
        let may_ask =
            |slot, it: &SlotConfig| may_ask(slot, it) && self.slots.has_learned(slot, *it);
        let asked = slots.iter().filter_map(|&slot| {
            let config = table.config(slot).filter(|it| may_ask(slot, it))?;
            Some((slot, Some(config.epoch())))
        });
        let asked: Vec<_> = asked.collect();
        let now = self.mint_time();
        let (asked, refused) = table.swappable(&asked, me, how, now);
        self.report_forbidden(&refused);
        if asked.is_empty() || self.is_behind() {
            return;
        }
        let Ok(next) = table.swap_backed(&asked, &self.me, backup, how, now) else {
            return;
        };
        match self.replace(Some(version), next).await {
            Ok(Swapped::Taken(taken)) => {
                self.tell_of_backups(asked.len(), backup, how);
                self.adopt(&taken.table);
            }
            Ok(Swapped::Conflict) => {}
            Err(error) => tracing::debug!("failed to change backups: {}", chain(&error)),
        }
    }

    fn tell_of_backups(&self, slots: usize, backup: Option<&RingMember>, how: Succession) {
        let count = |counter: &AtomicU64| counter.fetch_add(slots as u64, Ordering::Relaxed);
        match (how, backup) {
            (Succession::Handed, Some(backup)) => {
                count(&self.counters.backups_named);
                tracing::debug!(slots, backup = backup.name(), "slots have a backup");
            }
            (Succession::Handed, None) => {
                count(&self.counters.backups_dropped);
                tracing::warn!(
                    slots,
                    "slots go on without their backup: it is slow, refuses them, or leaves"
                );
                // Until another backup has it, only the database can: write soon.
                self.engine.bring_all_forward();
            }
            (Succession::Promoted, _) => {
                // They are counted when they are served.
                tracing::warn!(
                    slots,
                    "promoted: the owners of slots were silent, or without a lease"
                );
            }
            (Succession::TakenOver, _) => {}
        }
    }

    /// Serves slots that this member was promoted for, once their owner before answers nothing any more.
    fn serve_promoted(&self) {
        let now = Instant::now();
        let due = self.slots.promoted().into_iter();
        let due: Vec<_> = due.filter(|&(_, _, from)| from <= now).collect();
        if due.is_empty() {
            return;
        }
        tracing::info!(slots = due.len(), "slots of silent owners are served");
        let promoted = &self.counters.promoted;
        promoted.fetch_add(due.len() as u64, Ordering::Relaxed);
        for (slot, epoch, _) in due {
            self.slots.hear(slot, Event::Agreed { epoch });
        }
    }

    /// Loads what this member was promoted with until the database has all of it: users of whom nobody has asked since are
    /// in no other place.
    pub(super) async fn keep_working_off(self: Arc<Self>) {
        let Some(replicas) = self.engine.cache().replicas() else {
            return;
        };
        loop {
            sleep(WORK_OFF_PAUSE).await;
            let users = replicas.to_load();
            if users.is_empty() {
                continue;
            }
            let load = |user| {
                let engine = Arc::clone(&self.engine);
                async move {
                    // What fails is tried again with the next look.
                    let _ = engine.read(user, |_| ()).await;
                }
            };
            let loads = stream::iter(users).for_each_concurrent(LOADS_AT_ONCE, load);
            loads.await;
            self.engine.bring_all_forward();
        }
    }
}
