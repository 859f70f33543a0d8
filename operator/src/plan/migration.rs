//! What the next step of a move is. In: its spec, what was observed, what its status has on record. Out:
//! [`MigrationPlan`]. Pure.
//!
//! ```text
//! Serve:  members write both ─▶ copy ─▶ verify ─▶ Verified ─▶ members use the target ─▶ Complete
//! Stop:   copy ahead ─▶ members are stopped ─▶ copy ─▶ verify ─▶ Verified ─▶ members start on the target ─▶ Complete
//! ```
//! Members are a person's to change. What a Job has compared counts only while they are as it needs them from before it
//! began: a change that only the source got meanwhile would be lost by the switch. So the record has the generation of
//! the cluster at which that was last seen. One generation more is one change of the spec, from good to good; two may
//! be one to bad and one back, between two looks, and what was compared does not count any more.

mod jobs;
mod members;
mod switch;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use readstates_operator_api::{
    MigrationPhase, ReadStateCluster, ReadStateMigrationSpec, ReadStateMigrationStatus,
    Verification, conditions::Reason,
};

use self::members::MembersState;
use super::{Obstacle, backups::secrets};
use crate::{
    spec::{
        BackupOwner, Certificates, Identity, Images, Login, Store, ValidatedCluster,
        ValidatedMigration,
    },
    templates::{self, Ends},
    validate::{same_store, validate, validate_target},
    world::{JobOutcome, MigrationSeen, MoveJob, OtherMove, SecretsSeen},
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
    /// The source.
    pub source: Option<String>,
    pub target: Option<String>,
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

/// Decides.
#[must_use]
pub fn migration(input: MoveInput<'_>) -> MigrationPlan {
    let record = input.before.map(MoveRecord::of).unwrap_or_default();
    let scene = match Scene::of(input, record.clone()) {
        Ok(scene) => scene,
        // What members do meanwhile is not known.
        Err(obstacle) => return in_the_way(obstacle, unseen(record)),
    };
    if same_store(&scene.current, &scene.target) {
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
    scene.at_source()
}

impl MoveRecord {
    /// What this status has on record.
    #[must_use]
    pub fn of(status: &ReadStateMigrationStatus) -> Self {
        Self {
            source: status.source.clone(),
            target: status.target.clone(),
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
        phase,
        reason,
        words,
        next: next.to_owned(),
        is_bad: refused,
        action: MigrationAction::Wait,
        record,
        failure: None,
        job: None,
    }
}

/// Another move of this cluster, or to this target, that was there first.
fn in_use(input: &MoveInput<'_>) -> Option<Obstacle> {
    let own = (input.created, &input.owner.id.name);
    let is_first = |other: &&OtherMove| (other.created, &other.name) < own;
    let collides = |other: &&OtherMove| {
        let MigrationEnd {
            hosts,
            port,
            keyspace,
        } = end(&input.spec.target);
        let theirs = end(&other.target);
        let shares = hosts.iter().any(|host| theirs.hosts.contains(host));
        let one_target = shares && (port, keyspace) == (theirs.port, theirs.keyspace);
        other.cluster == input.spec.cluster || one_target
    };
    let mut others = input.seen.others.iter().filter(|other| !other.complete);
    let other = others.find(|other| is_first(other) && collides(other))?;
    let what = match other.cluster == input.spec.cluster {
        true => format!("moves ReadStateCluster {}", other.cluster),
        false => format!("moves ReadStateCluster {} to this target", other.cluster),
    };
    let words = format!(
        "ReadStateMigration {} {what} already: delete one of the two",
        other.name
    );
    Some(Obstacle::refuse(Reason::TargetInUse, words))
}

/// What tells targets apart.
struct MigrationEnd<'a> {
    hosts: &'a [String],
    port: i32,
    keyspace: &'a str,
}

fn end(target: &readstates_operator_api::MigrationTarget) -> MigrationEnd<'_> {
    let external = &target.external;
    MigrationEnd {
        hosts: &external.contact_points,
        port: external.port,
        keyspace: &external.keyspace,
    }
}

impl<'a> Scene<'a> {
    /// Both ends as values, or what is in the way.
    fn of(input: MoveInput<'a>, mut record: MoveRecord) -> Result<Self, Obstacle> {
        let name = &input.spec.cluster;
        let Some(cluster) = &input.seen.cluster else {
            let words = format!("there is no ReadStateCluster {name} in this namespace");
            return Err(Obstacle::wait(Reason::ClusterNotFound, words));
        };
        let not_ready = |why: String| {
            let words = format!("ReadStateCluster {name} {why}");
            Obstacle::wait(Reason::ClusterNotReady, words)
        };
        if cluster.metadata.deletion_timestamp.is_some() {
            return Err(not_ready("is being deleted".to_owned()));
        }
        if cluster.spec.database.external.is_none() {
            return Err(unsupported(name));
        }
        let id = Identity::of(cluster).map_err(|error| not_ready(format!("is odd: {error}")))?;
        let source = validate(id.clone(), &cluster.spec, input.images);
        let source = source.map_err(|invalid| not_ready(format!("is invalid: {invalid}")))?;
        let target = validate_target(cluster, id, &input.spec.target, input.images);
        let target =
            target.map_err(|invalid| Obstacle::refuse(Reason::InvalidSpec, invalid.to_string()))?;
        let current = templates::store_url(&source);
        let to = templates::store_url(&target);
        let from = record.source.get_or_insert_with(|| current.clone()).clone();
        record.target = Some(to.clone());
        Ok(Self {
            input,
            cluster,
            ends: Ends {
                source: seen_by(source, &input.seen.source),
                target: seen_by(target, &input.seen.target),
            },
            current,
            source: from,
            target: to,
            record,
        })
    }

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
            phase: MigrationPhase::Preparing,
            reason: Reason::MembersChanged,
            words,
            next,
            is_bad: true,
            action,
            record: self.without_members(),
            failure: None,
            job: None,
        }
    }

    fn prepare(&self, words: String, next: String) -> MigrationPlan {
        MigrationPlan {
            phase: MigrationPhase::Preparing,
            reason: Reason::AwaitingMembers,
            words,
            next,
            is_bad: false,
            action: MigrationAction::Wait,
            record: self.without_members(),
            failure: None,
            job: None,
        }
    }

    /// What has to be there before a Job is made.
    fn ready(&self) -> Result<(), Obstacle> {
        let name = self.cluster_name();
        let status = self.cluster.status.as_ref();
        let wait = |why: &str| {
            let words = format!("ReadStateCluster {name} {why}");
            Err(Obstacle::wait(Reason::ClusterNotReady, words))
        };
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

fn unsupported(name: &str) -> Obstacle {
    let words = format!(
        "ReadStateCluster {name} has no database.external: a database that the operator runs, and an embedded store, \
         are moved by `readstates migrate` into another ReadStateCluster (see the book: Move to another database)"
    );
    Obstacle::refuse(Reason::MigrationUnsupported, words)
}

fn seen_by(cluster: ValidatedCluster, seen: &SecretsSeen) -> ValidatedCluster {
    use crate::world::CertificatesSeen::Complete;
    let certificates = match &seen.certificates {
        Some(Complete { client, mark, .. }) => Certificates {
            mark: Some(mark.clone()),
            client: *client,
        },
        Some(_) | None => Certificates::default(),
    };
    debug_assert!(
        matches!(cluster.store, Store::External(_)),
        "checked before"
    );
    cluster.seen(Login::default(), certificates, false)
}

fn delete(job: &MoveJob) -> MigrationAction {
    MigrationAction::Delete {
        job: job.run.job.clone(),
        uid: job.uid.clone(),
    }
}

#[cfg(test)]
mod tests;
