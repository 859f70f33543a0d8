//! The backup that a new cluster begins with: restored by a Job after database and keyspace are there, and before the
//! first cache pod. Or copies of the volumes of a database, on which the nodes start. Or the table of another cluster: the
//! controller of moves brings it, and this one waits.
//!
//! ```text
//! backup known, Secrets there, keyspace made ─▶ Job ─▶ succeeded ─▶ on record in the status ─▶ members of the cache
//!                                                └──▶ failed ─▶ another Job, unless it would end the same
//! ```
//! It rests on what is there: a cluster that has a ring, had one, or has a StatefulSet of cache pods is never restored.
//! Where all of that is lost, as with an etcd that was restored, the Job itself finds in the database that it was
//! done, or that members have served, and changes nothing.

mod volumes;

use std::{fmt, time::Duration};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use readstates_operator_api::{RestorePhase, RestoreStatus, conditions::Reason};

pub(super) use self::volumes::{copies, keeps_logins};
use super::{JobToDelete, WaitingOn};
use crate::{
    names::RESTORE,
    spec::{RestoreSource, RestoreWish, ValidatedCluster},
    templates,
    world::{
        JobOutcome, MoveIn, MoveInStage, RestoreJob, RestoreSeen, RingSeen, Said, Told, World,
    },
};

/// How long a failed Job is kept, so that its log can be read, before the next one is created.
const RETRY: Duration = Duration::from_mins(5);

/// What to do about the restore.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RestoreStep {
    /// What a Job is to be made for.
    pub make: Option<Box<RestoreSource>>,
    /// How the restore stands.
    pub state: RestoreState,
    /// The cluster whose table moves here: its cache pods and Jobs reach this database until that is over.
    pub admits: Option<String>,
}

/// How a restore stands.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum RestoreState {
    /// The cluster is to begin empty.
    #[default]
    Unasked,
    /// Something is missing that it needs.
    Waiting { reason: Reason, words: String },
    /// A Job is at work.
    Running {
        /// Its name.
        job: String,
        /// How many pods it has had, with the one at work.
        attempts: i32,
        /// When it was made.
        begun: Timestamp,
        /// What keeps its pod.
        trouble: Option<String>,
    },
    /// The table of another cluster is on its way here, or volumes are copied.
    Moving(String),
    /// A Job gave up.
    Failed {
        /// Its name.
        job: String,
        /// Its last words.
        words: String,
        /// Whether another Job will be created.
        again: bool,
    },
    /// Everything is restored, and not on record yet.
    Done(RestoreStatus),
    /// Everything is restored, and the status says so.
    Recorded(RestoreStatus),
    /// Nothing is restored: the cluster has had cache pods before.
    Skipped,
}

impl RestoreState {
    /// Whether cache pods may start, as far as the restore is concerned.
    #[must_use]
    pub fn may_serve(&self) -> bool {
        match self {
            Self::Unasked | Self::Recorded(_) | Self::Skipped => true,
            Self::Waiting { .. }
            | Self::Running { .. }
            | Self::Moving(_)
            | Self::Failed { .. }
            | Self::Done(_) => false,
        }
    }

    /// One word for it.
    #[must_use]
    pub fn reason(&self) -> Option<Reason> {
        match self {
            Self::Unasked => None,
            Self::Waiting { reason, words: _ } => Some(*reason),
            Self::Running { .. } | Self::Moving(_) => Some(Reason::RestoreRunning),
            Self::Failed { .. } => Some(Reason::RestoreFailed),
            Self::Done(_) | Self::Recorded(_) => Some(Reason::Restored),
            Self::Skipped => Some(Reason::RestoreSkipped),
        }
    }

    /// What cache pods wait for.
    fn waiting(&self) -> Option<WaitingOn> {
        let reason = self.reason().filter(|_| !self.may_serve())?;
        Some(WaitingOn::Restore {
            reason,
            words: self.to_string(),
        })
    }

    fn wait(words: impl Into<String>) -> Self {
        Self::Waiting {
            reason: Reason::RestoreWaiting,
            words: words.into(),
        }
    }
}

impl fmt::Display for RestoreState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unasked => f.write_str("no backup is asked for"),
            Self::Waiting { reason: _, words } | Self::Moving(words) => f.write_str(words),
            Self::Running {
                job,
                attempts,
                begun,
                trouble,
            } => {
                write!(
                    f,
                    "Job {job} restores the backup since {begun:.0}, attempt {attempts}; `kubectl logs job/{job}` shows \
                     how far it is"
                )?;
                trouble.iter().try_for_each(|t| write!(f, " ({t})"))
            }
            Self::Failed { job, words, again } => {
                write!(f, "Job {job} failed: {words}. ")?;
                f.write_str(match again {
                    true => "It is tried again in five minutes, and goes on where it was",
                    false => {
                        "It is not tried again by itself: change or remove spec.restoreFrom; or cure the cause, and \
                         delete the Job"
                    }
                })
            }
            Self::Done(made) | Self::Recorded(made) => write_made(f, made),
            Self::Skipped => f.write_str(
                "the cluster has had cache pods and is not restored: nothing is restored over live data, and whether a \
                 backup was restored before is not on record",
            ),
        }
    }
}

fn write_made(f: &mut fmt::Formatter<'_>, made: &RestoreStatus) -> fmt::Result {
    let RestoreStatus {
        phase: _,
        job: _,
        migration,
        backup,
        source,
        backed_up,
        users,
        restored,
    } = made;
    match (migration, backup) {
        (Some(migration), _) => write!(f, "by ReadStateMigration {migration}, the table")?,
        (None, Some(backup)) => write!(f, "backup {backup}")?,
        (None, None) => f.write_str("the backup")?,
    }
    if let Some(source) = source {
        write!(f, " of {source}")?;
    }
    if let Some(at) = backed_up {
        write!(f, ", complete at {:.0}", at.0)?;
    }
    if let Some(users) = users {
        write!(f, ", with {users} users")?;
    }
    f.write_str(match migration {
        Some(_) => " was copied and compared",
        None => " was restored",
    })?;
    match restored {
        Some(at) => write!(f, " at {:.0}", at.0),
        None => Ok(()),
    }
}

/// What was decided.
#[derive(Default)]
pub(super) struct Decision {
    pub(super) step: RestoreStep,
    pub(super) delete: Vec<JobToDelete>,
    pub(super) waiting: Option<WaitingOn>,
}

impl From<RestoreState> for Decision {
    fn from(state: RestoreState) -> Self {
        Self {
            waiting: state.waiting(),
            step: RestoreStep {
                state,
                ..RestoreStep::default()
            },
            delete: Vec::new(),
        }
    }
}

/// Decides. `is_ready`: whether a Job could be made, with the database and its keyspace there.
pub(super) fn decide(
    cluster: &ValidatedCluster,
    world: &World,
    is_ready: bool,
    now: Timestamp,
) -> Decision {
    let RestoreSeen {
        record,
        source,
        lacking,
        jobs,
        snapshots: _,
        moving,
    } = &*world.restore;
    if let Some(record) = record.as_ref().filter(|_| world.restore.is_done()) {
        return RestoreState::Recorded(record.clone()).into();
    }
    let Some(wish) = &cluster.restore else {
        return Decision::default();
    };
    if has_had_members(world) {
        return RestoreState::Skipped.into();
    }
    if let Some(pod) = world.cache_pods.first() {
        let words = format!(
            "pod {} has the labels of a cache pod, and this cluster has none yet: it may hold changes. Nothing is restored \
             until it is gone",
            pod.name
        );
        return RestoreState::wait(words).into();
    }
    if let RestoreWish::Volumes(backup) = wish {
        return volumes::state(cluster, world, backup, is_ready, now).into();
    }
    if let Some(MoveIn { from, stage }) = moving {
        return move_in(from.as_ref(), stage);
    }
    let found = |wanted: fn(&JobOutcome) -> bool| jobs.iter().find(|j| wanted(&j.run.outcome));
    if let Some(job) = found(|outcome| *outcome == JobOutcome::Succeeded) {
        return RestoreState::Done(made(job)).into();
    }
    if let Some(job) = found(|outcome| matches!(outcome, JobOutcome::Running { .. })) {
        return running(job).into();
    }
    if let Some(job) = found(|outcome| *outcome == JobOutcome::Going) {
        return RestoreState::wait(format!("Job {} is being deleted", job.run.job)).into();
    }
    let source = match source {
        Some(Ok(source)) => source,
        Some(Err(words)) => return RestoreState::wait(words).into(),
        None => return RestoreState::wait("the backup was not looked for yet").into(),
    };
    let wanted = templates::restore_job_name(cluster, source);
    let (own, others): (Vec<_>, Vec<_>) = jobs.iter().partition(|job| job.run.job == wanted);
    let mut decision = match own.first() {
        Some(job) => failed(job, now),
        None if !others.is_empty() => {
            // One for another wish goes first, so that no two are ever at work.
            RestoreState::wait(format!("Job {} is to be deleted", others[0].run.job)).into()
        }
        None if !lacking.is_empty() => RestoreState::Waiting {
            reason: Reason::SecretMissing,
            words: lacking.join("; "),
        }
        .into(),
        None if !is_ready => {
            RestoreState::wait("the backup is restored when database and keyspace are there").into()
        }
        None => Decision {
            step: RestoreStep {
                make: Some(Box::new(source.clone())),
                ..RestoreStep::default()
            },
            ..Decision::default()
        },
    };
    decision.delete.extend(others.into_iter().map(to_delete));
    if decision.step.make.is_some() {
        let state = RestoreState::Running {
            job: wanted,
            attempts: 1,
            begun: now,
            trouble: None,
        };
        decision.waiting = state.waiting();
        decision.step.state = state;
    }
    decision
}

/// A move into this cluster: cache pods wait until it is over.
fn move_in(from: Option<&String>, stage: &MoveInStage) -> Decision {
    let state = match stage {
        MoveInStage::Waiting(words) => RestoreState::wait(words),
        MoveInStage::Begun(words) => RestoreState::Moving(words.clone()),
        MoveInStage::Over(made) => RestoreState::Done((**made).clone()),
    };
    let mut decision = Decision::from(state);
    decision.step.admits = from.cloned();
    decision
}

/// Whether cache pods were ever started: the ring is made with the first of them, and the status keeps its number.
fn has_had_members(world: &World) -> bool {
    world.ring != RingSeen::Absent || world.last_ring_number.is_some() || world.cache.is_some()
}

fn running(job: &RestoreJob) -> RestoreState {
    let trouble = match &job.run.outcome {
        JobOutcome::Running { trouble } => trouble.clone(),
        JobOutcome::Succeeded | JobOutcome::Failed { .. } | JobOutcome::Going => None,
    };
    RestoreState::Running {
        job: job.run.job.clone(),
        attempts: job.attempts,
        begun: job.run.begun,
        trouble,
    }
}

/// What to do about a Job that failed.
fn failed(job: &RestoreJob, now: Timestamp) -> Decision {
    let (at, message) = match &job.run.outcome {
        JobOutcome::Failed { at, message } => (*at, message.as_str()),
        JobOutcome::Succeeded | JobOutcome::Running { .. } | JobOutcome::Going => (now, ""),
    };
    let words = match job.run.said(RESTORE) {
        Some(Said::Failed(words)) => words,
        Some(Said::Done(_)) | None => message,
    };
    let again = !job.is_final;
    let state = RestoreState::Failed {
        job: job.run.job.clone(),
        words: words.trim_end_matches('.').to_owned(),
        again,
    };
    let is_due = again && now.duration_since(at).unsigned_abs() >= RETRY;
    Decision {
        delete: is_due.then(|| to_delete(job)).into_iter().collect(),
        ..state.into()
    }
}

fn to_delete(job: &RestoreJob) -> JobToDelete {
    JobToDelete {
        name: job.run.job.clone(),
        uid: job.uid.clone(),
    }
}

/// What a Job has restored. Only when is known, where its pod was deleted before it could be read.
fn made(job: &RestoreJob) -> RestoreStatus {
    let told = match job.run.said(RESTORE) {
        Some(Said::Done(Some(told))) => told.clone(),
        Some(Said::Done(None) | Said::Failed(_)) | None => Told::default(),
    };
    RestoreStatus {
        phase: RestorePhase::Restored,
        job: Some(job.run.job.clone()),
        migration: None,
        backup: told.id,
        source: told.source,
        backed_up: told.finished.map(Time),
        users: told.users,
        restored: told.restored.or(job.run.finished).map(Time),
    }
}

#[cfg(test)]
mod tests;
