//! What the next step of a move is. In: its spec, what was observed, what its status has on record. Out:
//! [`MigrationPlan`]. Pure.
//!
//! ```text
//! Serve:  members write both ─▶ copy ─▶ verify ─▶ Verified ─▶ members use the target ─▶ Complete
//! Stop:   copy ahead ─▶ members are stopped ─▶ copy ─▶ verify ─▶ Verified ─▶ members start on the target ─▶ Complete
//! ```
//! Into another cluster, whose members are others, both end as `handing` says.
//!
//! Members are a person's to change. What a Job has compared counts only while they are as it needs them from before it
//! began: a change that only the source got meanwhile would be lost by the switch. So the record has the generation of
//! the cluster at which that was last seen. One generation more is one change of the spec, from good to good; two may
//! be one to bad and one back, between two looks, and what was compared does not count any more.

mod ends;
mod handing;
mod jobs;
mod members;
mod others;
mod switch;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use readstates_operator_api::{
    HandOver, MigrationPhase, ReadStateCluster, ReadStateMigrationSpec, ReadStateMigrationStatus,
    Verification, conditions::Reason,
};

use self::{members::MembersState, others::in_use};
use super::{Obstacle, backups::secrets};
use crate::{
    spec::{BackupOwner, Images, Store, ValidatedMigration},
    templates::Ends,
    validate::same_store,
    world::{JobOutcome, MigrationSeen, MoveJob},
};

/// How far a move is, and what to do.
#[derive(Clone, Debug, PartialEq)]
pub struct MigrationPlan {
    pub phase: MigrationPhase,
    pub reason: Reason,
    pub words: String,
    /// What is done next, and by whom.
    pub next: String,
    /// Whether a person has to cure something.
    pub is_bad: bool,
    pub action: MigrationAction,
    /// What the status has on record from now on.
    pub record: MoveRecord,
    /// The last words of an attempt that failed.
    pub failure: Option<String>,
    /// The Job at work.
    pub job: Option<String>,
}

impl MigrationPlan {
    /// Nothing is wrong, and nothing is done until what was seen changes.
    fn waits(
        (phase, reason): (MigrationPhase, Reason),
        words: String,
        next: String,
        record: MoveRecord,
    ) -> Self {
        Self {
            phase,
            reason,
            words,
            next,
            is_bad: false,
            action: MigrationAction::Wait,
            record,
            failure: None,
            job: None,
        }
    }
}

/// What the operator does.
#[derive(Clone, Debug, PartialEq)]
pub enum MigrationAction {
    /// Nothing.
    Wait,
    /// Looks again at once, after the status is written.
    Record,
    /// Makes a Job.
    Make { ends: Box<Ends>, ahead: bool },
    /// Has a Job begin no pods and end those that it has, or go on.
    Suspend { job: String, suspend: bool },
    /// Deletes a Job, by its UID, after its pods.
    Delete { job: String, uid: String },
}

/// What the status has on record.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MoveRecord {
    pub source: Option<String>,
    pub target: Option<String>,
    /// UID of the cluster that it is copied to.
    pub target_uid: Option<String>,
    /// How far the cache is handed over to that.
    pub hand_over: Option<HandOver>,
    /// Generation of the cluster at which its members were last seen as copying needs them.
    pub members_generation: Option<i64>,
    /// The verification that counts.
    pub verified: Option<Verification>,
}

/// What is decided about.
#[derive(Clone, Copy, Debug)]
pub struct MoveInput<'a> {
    pub owner: &'a BackupOwner,
    /// When the resource was created.
    pub created: Option<jiff::Timestamp>,
    pub spec: &'a ReadStateMigrationSpec,
    pub valid: &'a ValidatedMigration,
    pub seen: &'a MigrationSeen,
    pub before: Option<&'a ReadStateMigrationStatus>,
    pub images: &'a Images,
    /// Whether the pod at work says that it compares; none: it does not say.
    pub verifies: Option<bool>,
}

/// The two ends, and what is on record.
struct Scene<'a> {
    input: MoveInput<'a>,
    cluster: &'a ReadStateCluster,
    ends: Ends,
    /// The store that members use, by the cluster's spec.
    current: String,
    source: String,
    target: String,
    record: MoveRecord,
}

#[must_use]
pub fn migration(input: MoveInput<'_>) -> MigrationPlan {
    let record = input.before.map(MoveRecord::of).unwrap_or_default();
    if let Some(plan) = handing::arriving(&input, &record) {
        return plan;
    }
    let scene = match Scene::of(input, record.clone()) {
        Ok(scene) => scene,
        // What members do meanwhile is not known.
        Err(obstacle) => return in_the_way(obstacle, unseen(record)),
    };
    if !scene.is_into() && same_store(&scene.current, &scene.target) {
        return scene.at_target();
    }
    if !same_store(&scene.current, &scene.source) {
        let words = format!(
            "ReadStateCluster {} uses {} now, neither the source {} nor the target: put spec.database.external back, \
             or delete this ReadStateMigration",
            scene.cluster_name(),
            scene.current,
            scene.source
        );
        let lost = scene.without_members();
        return in_the_way(Obstacle::refuse(Reason::SourceChanged, words), lost);
    }
    if let Some(obstacle) = in_use(&input) {
        return in_the_way(obstacle, scene.record.clone());
    }
    if let Some((obstacle, record)) = scene.target_trouble() {
        return in_the_way(obstacle, record);
    }
    scene.at_source()
}

impl MoveRecord {
    /// What this status has on record.
    #[must_use]
    pub fn of(status: &ReadStateMigrationStatus) -> Self {
        Self {
            source: status.source.clone(),
            target: status.target.clone(),
            target_uid: status.target_uid.clone(),
            hand_over: status.hand_over,
            members_generation: status.members_generation,
            verified: status.verified.clone(),
        }
    }
}

/// What is on record, when members were not seen.
fn unseen(record: MoveRecord) -> MoveRecord {
    MoveRecord {
        members_generation: None,
        verified: None,
        hand_over: None,
        ..record
    }
}

fn in_the_way(obstacle: Obstacle, record: MoveRecord) -> MigrationPlan {
    let Obstacle {
        reason,
        words,
        refused,
        away: _,
    } = obstacle;
    let (phase, next) = match refused {
        true => (
            MigrationPhase::Refused,
            "you: cure what the condition Degraded names",
        ),
        false => (
            MigrationPhase::Waiting,
            "you, or whoever provides it: what the condition Complete names",
        ),
    };
    MigrationPlan {
        is_bad: refused,
        ..MigrationPlan::waits((phase, reason), words, next.to_owned(), record)
    }
}

impl<'a> Scene<'a> {
    fn cluster_name(&self) -> &str {
        &self.input.spec.cluster
    }

    fn generation(&self) -> i64 {
        self.cluster.metadata.generation.unwrap_or_default()
    }

    /// Whether the spec of the cluster was changed at most once since members were last seen as copying needs them.
    fn is_followed(&self) -> bool {
        let since = self.record.members_generation;
        since.is_some_and(|since| (since..=since + 1).contains(&self.generation()))
    }

    /// What is on record, when members are not as copying needs them.
    fn without_members(&self) -> MoveRecord {
        unseen(self.record.clone())
    }

    /// While members use the source, alone or with the target.
    fn at_source(&self) -> MigrationPlan {
        let members = self.members();
        match (self.record.members_generation, &members) {
            (Some(_), MembersState::Good | MembersState::Settling) if self.is_followed() => self
                .go_on(MoveRecord {
                    members_generation: Some(self.generation()),
                    ..self.record.clone()
                }),
            (Some(_), _) => self.broken(&members),
            // A Job of which nothing is on record is of a status that was lost.
            (None, _) if self.input.seen.jobs.moving.is_some() => self.broken(&members),
            (None, MembersState::Good) => self.begin(),
            (None, MembersState::Settling) => self.prepare(
                format!(
                    "ReadStateCluster {} has not said yet that it is stopped",
                    self.cluster_name()
                ),
                "the operator: stops the cache pods".to_owned(),
            ),
            (None, MembersState::Bad { words, next }) => self.not_ready(words, next),
        }
    }

    /// Members were, for a time, not as copying needs them.
    fn broken(&self, members: &MembersState) -> MigrationPlan {
        let why = match members {
            MembersState::Bad { words, next: _ } => words.clone(),
            MembersState::Good | MembersState::Settling => {
                "its spec was changed more than once between two looks".to_owned()
            }
        };
        let words = format!(
            "cache pods of ReadStateCluster {} may have written the source alone ({why}): what was compared does not \
             count, and is compared again. Nothing is lost while they use the source",
            self.cluster_name()
        );
        let next = match members {
            MembersState::Bad { words: _, next } => next.clone(),
            MembersState::Good | MembersState::Settling => {
                "the operator: copies and compares again".to_owned()
            }
        };
        let action = match &self.input.seen.jobs.moving {
            Some(job) if job.run.outcome == JobOutcome::Going => MigrationAction::Wait,
            Some(job) => delete(job),
            None => MigrationAction::Record,
        };
        MigrationPlan {
            is_bad: true,
            action,
            ..MigrationPlan::waits(
                (MigrationPhase::Preparing, Reason::MembersChanged),
                words,
                next,
                self.without_members(),
            )
        }
    }

    fn prepare(&self, words: String, next: String) -> MigrationPlan {
        MigrationPlan::waits(
            (MigrationPhase::Preparing, Reason::AwaitingMembers),
            words,
            next,
            self.without_members(),
        )
    }

    /// What has to be there before a Job is made.
    fn ready(&self) -> Result<(), Obstacle> {
        let name = self.cluster_name();
        let status = self.cluster.status.as_ref();
        let wait = |why: &str| {
            let words = format!("ReadStateCluster {name} {why}");
            Err(Obstacle::wait(Reason::ClusterNotReady, words))
        };
        if matches!(self.ends.source.store, Store::Managed(_)) && self.ends.source.stopped {
            return wait("is stopped, and its database with it");
        }
        if self.ends.source.restore.is_some() && status.is_none_or(|s| s.ring_number.is_none()) {
            return wait("is being restored");
        }
        let schema = status.and_then(|s| s.schema.as_ref()).map(|s| &s.store);
        if schema != Some(&self.current) {
            return wait("has not made or verified its keyspace yet");
        }
        let MigrationSeen {
            source,
            target,
            has_claim,
            jobs,
            ..
        } = self.input.seen;
        if !has_claim {
            let claim = &self.input.valid.checkpoints;
            let words = format!(
                "PersistentVolumeClaim {claim} of spec.checkpoints does not exist, or is being deleted"
            );
            return Err(Obstacle::wait(Reason::VolumeClaimMissing, words));
        }
        if let Some(pod) = jobs.stray.first() {
            let words = format!(
                "pod {pod} of a Job that is gone has the checkpoint: it ends by itself, or delete it"
            );
            return Err(Obstacle::wait(Reason::LeftoverObject, words));
        }
        for (cluster, seen) in [(&self.ends.source, source), (&self.ends.target, target)] {
            secrets(cluster, seen.login.as_ref(), seen.certificates.as_ref())?;
        }
        Ok(())
    }
}

fn delete(job: &MoveJob) -> MigrationAction {
    MigrationAction::Delete {
        job: job.run.job.clone(),
        uid: job.uid.clone(),
    }
}

#[cfg(test)]
mod tests;
