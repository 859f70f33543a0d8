//! The end of a move into another cluster: its cache takes over from the cache of the source. Both never serve at once, since
//! neither would see what the other has changed.
//!
//! ```text
//! Verified ─▶ cache of the source stopped ─▶ Closed: on record, so that it starts no more
//!          ─▶ seen stopped once more ─▶ Released: on record, so that the cache of the target starts ─▶ Complete
//! ```
//! Why twice: an operator that starts the cache of the source looks for `Closed` after it has read that this is to run. If
//! it looked before that was on record, the second look here finds the other spec, and opens again.

use readstates_operator_api::{
    HandOver, ReadStateCluster, RestorePhase,
    conditions::{ConditionStatus, ConditionType},
};

use super::{
    MigrationAction, MigrationPhase, MigrationPlan, MoveInput, MoveRecord, Obstacle, Reason, Scene,
    members::MembersState,
};
use crate::templates;

/// The plan once the cache of the target may start, when the source no longer counts. `None`: it may not
/// start yet, or the table moves to a database without a cluster.
pub(super) fn arriving(input: &MoveInput<'_>, record: &MoveRecord) -> Option<MigrationPlan> {
    let to = input.valid.target.cluster()?;
    let other = input.seen.target_cluster.as_ref();
    let other = other.filter(|other| other.metadata.uid == record.target_uid);
    let has_begun = other.is_some_and(|other| began_with(other, &input.owner.id.name));
    if record.hand_over != Some(HandOver::Released) && !has_begun {
        return None;
    }
    let record = MoveRecord {
        hand_over: Some(HandOver::Released),
        ..record.clone()
    };
    let Some(other) = other else {
        let from = &input.spec.cluster;
        let words = format!(
            "ReadStateCluster {to} had the table of ReadStateCluster {from}, and is gone: what its cache pods have \
             written since is in its volumes alone, if those were kept"
        );
        let next = format!(
            "you: create ReadStateCluster {to} again on its volumes, without spec.restoreFrom; or delete this \
             ReadStateMigration, which lets ReadStateCluster {from} start as it was"
        );
        return Some(MigrationPlan {
            is_bad: true,
            ..switching(Reason::TargetChanged, words, next, record)
        });
    };
    Some(match has_begun && is_available(other) {
        true => complete(input, to, record),
        false => {
            let waiting = other.status.as_ref().and_then(|s| s.waiting_on.as_ref());
            let waiting = waiting.map(|w| format!(": {}", w.message));
            let words = format!(
                "ReadStateCluster {to} does not serve yet{}",
                waiting.unwrap_or_default()
            );
            let next = format!("the operator: starts the cache pods of ReadStateCluster {to}");
            switching(Reason::MembersSwitching, words, next, record)
        }
    })
}

/// Whether it has taken the table of this move for what it begins with.
fn began_with(other: &ReadStateCluster, migration: &str) -> bool {
    let restore = other.status.as_ref().and_then(|s| s.restore.as_ref());
    restore.is_some_and(|restore| {
        restore.phase == RestorePhase::Restored && restore.migration.as_deref() == Some(migration)
    })
}

fn is_available(other: &ReadStateCluster) -> bool {
    let conditions = other.status.iter().flat_map(|s| &s.conditions);
    conditions
        .filter(|c| c.type_ == ConditionType::Available.as_str())
        .any(|c| c.status == ConditionStatus::True.as_str())
}

fn switching(reason: Reason, words: String, next: String, record: MoveRecord) -> MigrationPlan {
    MigrationPlan::waits((MigrationPhase::Switching, reason), words, next, record)
}

fn complete(input: &MoveInput<'_>, to: &str, record: MoveRecord) -> MigrationPlan {
    let from = &input.spec.cluster;
    MigrationPlan {
        phase: MigrationPhase::Complete,
        ..switching(
            Reason::Moved,
            format!(
                "ReadStateCluster {to} serves; the database of ReadStateCluster {from} is as it was when its cache pods \
                 had stopped"
            ),
            format!(
                "you: let callers use the Service of ReadStateCluster {to}, and keep ReadStateCluster {from} stopped until \
                 you trust it; then delete that, and this ReadStateMigration last: it keeps {from} from starting"
            ),
            record,
        )
    }
}

impl Scene<'_> {
    /// What is wrong with the other cluster, and what stays on record then.
    pub(super) fn target_trouble(&self) -> Option<(Obstacle, MoveRecord)> {
        let to = self.input.valid.target.cluster()?;
        let (other, own) = (
            self.input.seen.target_cluster.as_ref()?,
            &self.input.owner.id.name,
        );
        let lost = |reason, why: String| {
            let words = format!("ReadStateCluster {to}, the target, {why}");
            Some((Obstacle::refuse(reason, words), self.without_members()))
        };
        let from = self.cluster_name();
        let status = other.status.as_ref();
        if other.metadata.deletion_timestamp.is_some() {
            return lost(
                Reason::TargetChanged,
                format!(
                    "is being deleted: take {} and READSTATES_TO_* away from ReadStateCluster {from}, whose cache pods \
                     could not write without it; it stays until then",
                    crate::names::MOVING_TO
                ),
            );
        }
        let uid = other.metadata.uid.as_ref();
        if self
            .record
            .target_uid
            .as_ref()
            .is_some_and(|of| Some(of) != uid)
        {
            let why = "is another one than what was copied to: delete this ReadStateMigration, and create one of another \
                       name, which copies everything";
            return lost(Reason::TargetChanged, why.to_owned());
        }
        if status.is_some_and(|s| s.ring_number.is_some()) {
            let why = format!(
                "has had cache pods: a table moves into a new ReadStateCluster only, one with \
                 spec.restoreFrom.migration.name: {own}"
            );
            return lost(Reason::TargetInUse, why);
        }
        let wait = |why: String| {
            let words = format!("ReadStateCluster {to}, the target, {why}");
            let obstacle = Obstacle::wait(Reason::ClusterNotReady, words);
            Some((obstacle, self.record.clone()))
        };
        let restore = other.spec.restore_from.as_deref();
        let named = restore.and_then(|restore| Some(&restore.migration.as_ref()?.name));
        if named != Some(own) {
            return wait(format!(
                "does not wait for this move: set its spec.restoreFrom to migration.name: {own}"
            ));
        }
        if other.spec.stopped {
            return wait("is stopped".to_owned());
        }
        let store = status.and_then(|s| s.schema.as_ref()).map(|s| &s.store);
        if store != templates::wanted_store(&self.ends.target).as_ref() {
            return wait("has not made or verified its keyspace yet".to_owned());
        }
        None
    }

    /// Everything was compared: the cache of the source stops, and then that of the target starts.
    pub(super) fn hand_over(&self, verified: MigrationPlan) -> MigrationPlan {
        let (from, record) = (self.cluster_name(), verified.record.clone());
        let open = |record: MoveRecord| MoveRecord {
            hand_over: None,
            ..record
        };
        if !self.cluster.spec.stopped {
            let record = open(record);
            return MigrationPlan { record, ..verified };
        }
        match self.stopped() {
            MembersState::Good => {
                let closed = record.hand_over == Some(HandOver::Closed);
                let stage = match closed {
                    true => HandOver::Released,
                    false => HandOver::Closed,
                };
                let to = self.input.valid.target.cluster().unwrap_or_default();
                let words = format!(
                    "the cache pods of ReadStateCluster {from} have stopped, and start no more"
                );
                let next = format!("the operator: starts the cache pods of ReadStateCluster {to}");
                let record = MoveRecord {
                    hand_over: Some(stage),
                    ..record
                };
                MigrationPlan {
                    action: MigrationAction::Record,
                    ..switching(Reason::MembersSwitching, words, next, record)
                }
            }
            MembersState::Settling => {
                let words = format!("the cache pods of ReadStateCluster {from} are being stopped");
                let next = "the operator: stops the cache pods, which write what they hold first";
                switching(
                    Reason::MembersSwitching,
                    words,
                    next.to_owned(),
                    open(record),
                )
            }
            MembersState::Bad { words, next } => {
                switching(Reason::MembersSwitching, words, next, open(record))
            }
        }
    }

    /// Another cluster that was copied to, by its UID: on record before anything is.
    pub(super) fn with_target(&self, record: MoveRecord) -> MoveRecord {
        let other = self.input.seen.target_cluster.as_ref();
        let uid = other
            .filter(|_| self.is_into())
            .and_then(|other| other.metadata.uid.clone());
        MoveRecord {
            target_uid: uid,
            ..record
        }
    }

    /// What members are given, so that they write the other cluster's database as well.
    pub(super) fn variables(&self) -> String {
        let target = &self.ends.target;
        templates::moving_to(target, self.is_into()).join(", ")
    }
}
