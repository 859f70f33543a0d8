//! Which members back the slots of this one, and whether the ring may name any.
//!
//! A ring that names backups is read by no process of a release before: none is named before every living process says
//! that it reads such rings. A Kubernetes API server with the definition of such a release drops what a ring says of
//! backups, and the swap succeeds all the same: that is noticed by the table that the store answers with.

use std::collections::BTreeSet;

use readstates_ring::{
    Epoch, Incarnation, RingMember, RingTable, Slot, record::BACKED, slot::mix64,
};
use tokio::time::{Duration, Instant};

use super::{
    Ownership,
    store::{RingStore, RingStoreError, Swapped, Version},
};
use crate::{
    clock,
    replication::{Replicas, SEMANTICS},
};

/// Members among which the slots of one owner have their backups: few, so that frames are large, and more than one, so
/// that a death spreads.
const SPREAD: usize = 3;
/// After a store has dropped the backups of a ring, none is named for so long.
const DROPPED_PAUSE: Duration = Duration::from_secs(60);

impl Ownership {
    /// Asks the store to put a table in the place of the ring, and notices when it does not keep the backups.
    pub(super) async fn replace(
        &self,
        expected: Option<Version>,
        next: RingTable,
    ) -> Result<Swapped, RingStoreError> {
        let names_backups = next.has_backups();
        let swapped = self.store.compare_and_swap(expected, next).await?;
        if let Swapped::Taken(taken) = &swapped
            && names_backups
        {
            self.keeps_backups(taken.table.has_backups());
        }
        Ok(swapped)
    }

    fn keeps_backups(&self, kept: bool) {
        let dropped = (!kept).then(Instant::now);
        let before = std::mem::replace(&mut *self.backups_dropped.lock(), dropped);
        if !kept && before.is_none() {
            tracing::error!(
                "the store of the ring has dropped the backups that it was told: the definition of ReadStateRing in the \
                 Kubernetes API server is of an older release; apply the definitions (CRDs) of this release. Until \
                 then slots have no backups, and changes that are not written are lost with their member"
            );
        }
    }

    /// Whether the ring may be asked to name backups now.
    pub(super) fn may_name_backups(&self) -> bool {
        let dropped = *self.backups_dropped.lock();
        let keeps = dropped.is_none_or(|since| since.elapsed() >= DROPPED_PAUSE);
        let all_read = || self.watch.lock().all_read(BACKED, clock::now());
        self.config.replicates() && keeps && all_read()
    }

    /// Whether this member is the backup of the slots that it hands to another one: it has everything that is sealed.
    pub(super) fn becomes_backup(&self, of: &RingMember) -> bool {
        if of.incarnation() == self.me.incarnation() || !self.may_name_backups() {
            return false;
        }
        let watch = self.watch.lock();
        let presence = watch.presence(of.incarnation());
        presence.is_some_and(|presence| presence.replicates == Some(SEMANTICS))
    }

    /// The slots that name this member as their backup though it lacks some of what was acknowledged, and whose owners
    /// are dead: nobody is promoted for those, so this member takes them over as if it had nothing.
    pub(super) fn incomplete_of_the_dead(
        &self,
        table: &RingTable,
        dead: impl Fn(Incarnation) -> bool,
    ) -> Vec<(Slot, Option<Epoch>)> {
        let Some(replicas) = self.engine.cache().replicas() else {
            return Vec::new();
        };
        let mut slots = replicas.holding.incomplete();
        slots.retain(|&(slot, epoch)| {
            let config = table.config(slot);
            config.is_some_and(|config| config.epoch() == epoch && dead(config.owner()))
        });
        let expected = |(slot, epoch)| (slot, Some(epoch));
        slots.into_iter().map(expected).collect()
    }

    /// The slots that should have another backup: theirs leaves, or is in this member's zone although others are not.
    pub(super) fn misplaced(
        &self,
        replicas: &Replicas,
        candidates: &[Incarnation],
    ) -> BTreeSet<Slot> {
        let watch = self.watch.lock();
        let presence = |it| watch.presence(it);
        let is_elsewhere = |it: Incarnation| {
            let zone = presence(it).and_then(|presence| presence.zone.as_ref());
            zone.is_some() && zone != self.config.zone.as_ref()
        };
        let is_any_elsewhere = candidates.iter().any(|&it| is_elsewhere(it));
        replicas.owner.backed_by(|backup| {
            let leaves = presence(backup).is_some_and(|presence| presence.draining);
            let is_near = is_any_elsewhere && !is_elsewhere(backup);
            !candidates.contains(&backup) && (leaves || is_near)
        })
    }

    /// How many slots have this member as their backup.
    pub(super) fn backing(&self) -> u16 {
        let replicas = self.engine.cache().replicas();
        replicas.map_or(0, |replicas| replicas.holding.backing())
    }

    /// The members that back the slots of this one: in other zones, if there are any.
    pub(super) fn backups(&self) -> Vec<Incarnation> {
        if !self.may_name_backups() {
            return Vec::new();
        }
        let watch = self.watch.lock();
        let others = watch.replicating(SEMANTICS, clock::now());
        let zone = self.config.zone.as_ref();
        let elsewhere = |zone_of: Option<&String>| zone_of.is_some() && zone_of != zone;
        let is_any_elsewhere = others.iter().any(|it| elsewhere(it.zone.as_ref()));
        let chosen = others
            .iter()
            .filter(|it| !is_any_elsewhere || elsewhere(it.zone.as_ref()));
        let mut chosen: Vec<Incarnation> = chosen.map(|it| it.incarnation).collect();
        let me = self.me.incarnation().bits();
        // Others in another order for each owner.
        chosen.sort_by_key(|it| mix64(me ^ it.bits().rotate_left(32)));
        chosen.truncate(SPREAD);
        chosen
    }
}
