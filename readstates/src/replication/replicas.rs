//! Both sides of a member: what it owns with backups, what it backs, and what it was promoted with.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use readstates_ring::{
    Epoch, Incarnation, Slot, SlotConfig,
    replication::{Answer, Handing, may_hand_on},
};
use tokio::time::Instant as Deadline;

use super::{
    holding::Holding,
    owner::{Owner, Settled},
    replay::{OfSlot, replayed},
    time::Time,
    wire::Changed,
};
use crate::codec::Decoded;

/// Users with their versions and packed blocks.
pub(crate) type Handed = Vec<(u64, u64, Vec<u8>)>;

/// What a member keeps of a slot under a later config.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    /// It was the owner before, without a break.
    Everything,
    /// It took the slot from itself and begins with the database. What it was promoted with and the database lacks is
    /// still in no other place.
    Inherited,
    /// It was not the owner before, or is not any more.
    Nothing,
}

/// Why a change of a slot is not made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotAdmitted {
    /// The slot has no backup, and must have one.
    NoBackup,
    /// The backup does not take changes as fast as they come.
    Behind,
}

/// What a member does for others' changes, and they for its own.
#[derive(Debug)]
pub(crate) struct Replicas {
    me: Incarnation,
    /// Changes of a slot without a backup are refused.
    required: bool,
    pub(crate) owner: Arc<Owner>,
    pub(crate) holding: Holding,
    /// What this member was promoted with and the database lacks.
    inherited: Mutex<HashMap<Slot, OfSlot>>,
    /// Users of whom something that an owner before has acknowledged is lost.
    lost_users: AtomicU64,
}

impl Replicas {
    /// With room for this many bytes of what others acknowledge.
    pub(crate) fn new(me: Incarnation, required: bool, most: usize, time: Time) -> Self {
        Self {
            me,
            required,
            owner: Arc::new(Owner::new(me, time.clone())),
            holding: Holding::new(me, most, time),
            inherited: Mutex::default(),
            lost_users: AtomicU64::new(0),
        }
    }

    /// A later config of a slot; `kept`: of what this member had as its owner. `handed`: it owned it until now, sealed it
    /// at this epoch, and these are the users that the database may lack something of, with versions and packed blocks.
    /// Returns how long it answers nothing, if it is promoted by it.
    pub(crate) fn learned(
        &self,
        slot: Slot,
        config: &SlotConfig,
        kept: Kept,
        handed: Option<(Epoch, Handed)>,
    ) -> Option<Duration> {
        let owned = handed.map(|(epoch, dirty)| self.holding.owned(epoch, dirty));
        let promoted = self.holding.learned(slot, *config, owned);
        let mut inherited = self.inherited.lock();
        if kept == Kept::Nothing || config.owner() != self.me {
            inherited.remove(&slot);
        }
        let wait = promoted.map(|(promoted, wait)| {
            if !promoted.journal.is_empty() {
                inherited.insert(slot, promoted.journal);
            }
            wait
        });
        drop(inherited);
        if config.owner() == self.me {
            let goes_on = kept == Kept::Everything;
            self.owner.learned(slot, config, goes_on);
        } else {
            self.owner.lost(slot);
        }
        wait
    }

    /// Of a slot that was handed on to this member, everything is here that it backed.
    pub(crate) fn was_handed(&self, slot: Slot) {
        self.inherited.lock().remove(&slot);
    }

    pub(crate) fn is_backed(&self, user: u64) -> bool {
        self.owner.is_backed(user)
    }

    /// Whether changes of a user may be made.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn admits(&self, user: u64) -> Result<(), NotAdmitted> {
        let slot = Slot::of_user(user);
        if self.required && !self.owner.is_guarded(slot) {
            return Err(NotAdmitted::NoBackup);
        }
        match self.owner.takes_changes(slot) {
            true => Ok(()),
            false => Err(NotAdmitted::Behind),
        }
    }

    /// Whether a change of a slot without a backup is acknowledged only when the database has it.
    pub(crate) fn is_required(&self) -> bool {
        self.required
    }

    pub(crate) fn changed(&self, change: &Changed<'_>) {
        self.owner.changed(change);
    }

    pub(crate) fn image(&self, user: u64, version: u64, block: &[u8]) {
        self.owner.image(user, version, block);
    }

    /// The database has a user at this version.
    pub(crate) fn written(&self, user: u64, version: u64) {
        self.trim_inherited(user, version);
        self.owner.written(user, version);
    }

    fn trim_inherited(&self, user: u64, version: u64) {
        let mut inherited = self.inherited.lock();
        let slot = Slot::of_user(user);
        if let Some(journal) = inherited.get_mut(&slot) {
            journal.trim(user, version);
            if journal.is_empty() {
                inherited.remove(&slot);
            }
        }
    }

    /// See [`Owner::settled`].
    pub(crate) async fn settled(
        &self,
        user: u64,
        answer: Answer,
        is_dirty: bool,
        deadline: Deadline,
    ) -> Settled {
        self.owner.settled(user, answer, is_dirty, deadline).await
    }

    /// See [`Owner::settled_all`].
    pub(crate) async fn settled_all(
        &self,
        slots: &[Slot],
        deadline: Deadline,
    ) -> Option<Vec<Slot>> {
        let answer = Answer::Change;
        self.owner.settled_all(slots, answer, deadline).await
    }

    /// What a user's block is when the database has `loaded`, if that lacks what an owner before has acknowledged.
    pub(crate) fn replayed(&self, user: u64, loaded: Option<&Decoded<'_>>) -> Option<Vec<u8>> {
        let inherited = self.inherited.lock();
        let journal = inherited.get(&Slot::of_user(user))?;
        let replayed = match replayed(journal, user, loaded) {
            Ok(replayed) => replayed,
            Err(mismatch) => {
                self.lost_users.fetch_add(1, Ordering::Relaxed);
                tracing::error!(
                    "changes that an owner before has acknowledged are lost, at most those of the user since it was \
                     written last: {mismatch}"
                );
                None
            }
        };
        drop(inherited);
        if replayed.is_none() {
            // The database has all that there is.
            self.trim_inherited(user, u64::MAX);
        }
        replayed
    }

    /// Users of whom something that an owner before has acknowledged is lost, since the start.
    pub(crate) fn lost_users(&self) -> u64 {
        self.lost_users.load(Ordering::Relaxed)
    }

    /// Users that an owner before has changed and the database may lack.
    pub(crate) fn to_load(&self) -> Vec<u64> {
        let inherited = self.inherited.lock();
        let users = inherited.values().flat_map(|journal| journal.users());
        let mut users: Vec<u64> = users.collect();
        users.sort_unstable();
        users
    }

    /// Whether a slot may get a backup, or be handed on: the journal of the owner before is worked off.
    pub(crate) fn may_hand_on(&self, slot: Slot, handing: Handing) -> bool {
        may_hand_on(self.inherited.lock().get(&slot), handing)
    }
}
