//! What the next step of a backup or of a schedule is. Pure. Whatever the operator was doing when it was killed, the
//! decision rests on the Jobs that are there: a backup has one Job, and a schedule's CronJobs make theirs by themselves.

mod times;
mod volumes;

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use readstates_operator_api::{
    BackupMade, BackupVerified, BackupsPruned, ReadStateBackupScheduleStatus, ReadStateCluster,
    Verification, conditions::Reason,
};

pub use self::{
    times::{BackupSeen, TimesStep, times_step},
    volumes::{ClusterSeen, VolumesStep, volumes_step},
};
use crate::{
    names::{CREATE, PRUNE, VERIFY},
    spec::{Certificates, Identity, Images, Observed, Store, ValidatedCluster},
    templates,
    validate::validate,
    world::{CertificatesSeen, CronJobSeen, JobOutcome, Run, Said, SecretSeen, SourceSeen, Told},
};

/// Why no backup can be made now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    pub reason: Reason,
    pub words: String,
    /// Whether only a person can do something about it.
    pub refused: bool,
    /// Whether the database is not there to be asked, so that nothing is begun until it is.
    pub away: bool,
}

impl Obstacle {
    pub(super) fn wait(reason: Reason, words: impl Into<String>) -> Self {
        Self {
            reason,
            words: words.into(),
            refused: false,
            away: false,
        }
    }

    pub(super) fn away(reason: Reason, words: impl Into<String>) -> Self {
        Self {
            away: true,
            ..Self::wait(reason, words)
        }
    }

    pub(crate) fn refuse(reason: Reason, words: impl Into<String>) -> Self {
        Self {
            refused: true,
            ..Self::wait(reason, words)
        }
    }
}

/// The cluster as Jobs of backups are made for it, when its database can be read.
///
/// # Errors
/// What is in the way.
pub fn backup_source(
    name: &str,
    seen: &SourceSeen,
    images: &Images,
) -> Result<Box<ValidatedCluster>, Obstacle> {
    let SourceSeen {
        cluster,
        login,
        certificates,
        lacking,
    } = seen;
    let valid = whole_cluster(name, cluster.as_ref(), images)?;
    secrets(&valid, login.as_ref(), certificates.as_ref())?;
    if !lacking.is_empty() {
        return Err(Obstacle::wait(Reason::SecretMissing, lacking.join("; ")));
    }
    let certificates = match certificates {
        Some(CertificatesSeen::Complete { client, mark, .. }) => Certificates {
            mark: Some(mark.clone()),
            client: *client,
        },
        Some(_) | None => Certificates::default(),
    };
    let observed = Observed {
        certificates,
        ..Observed::default()
    };
    Ok(Box::new(valid.seen(observed)))
}

/// The cluster, when there is something to be backed up.
///
/// # Errors
/// What is in the way.
pub fn whole_cluster(
    name: &str,
    cluster: Option<&ReadStateCluster>,
    images: &Images,
) -> Result<ValidatedCluster, Obstacle> {
    let Some(cluster) = cluster else {
        let words = format!("there is no ReadStateCluster {name} in this namespace");
        return Err(Obstacle::away(Reason::ClusterNotFound, words));
    };
    let id = Identity::of(cluster).map_err(|error| {
        let words = format!("ReadStateCluster {name}: {error}");
        Obstacle::wait(Reason::ClusterNotReady, words)
    })?;
    let not_ready = |words: String| Obstacle::wait(Reason::ClusterNotReady, words);
    let valid = validate(id, &cluster.spec, images)
        .map_err(|invalid| not_ready(format!("ReadStateCluster {name}: {invalid}")))?;
    let managed = match &valid.store {
        Store::Managed(_) => true,
        Store::External(_) => false,
        Store::Embedded(_) => return Err(embedded(name)),
    };
    let away = |words: &str| {
        let words = format!("ReadStateCluster {name} {words}");
        Obstacle::away(Reason::ClusterNotReady, words)
    };
    if cluster.metadata.deletion_timestamp.is_some() {
        return Err(away("is being deleted"));
    }
    if managed && valid.stopped {
        return Err(away("is stopped, and its database with it"));
    }
    let status = cluster.status.as_ref();
    if valid.restore.is_some() && status.is_none_or(|s| s.ring_number.is_none()) {
        // Half of a backup is none, and the retention of a schedule would count it as one.
        return Err(away("is being restored"));
    }
    let schema = status.and_then(|s| s.schema.as_ref()).map(|s| &s.store);
    if schema != templates::wanted_store(&valid).as_ref() {
        let words = format!("ReadStateCluster {name} has not made or verified its keyspace yet");
        return Err(not_ready(words));
    }
    Ok(valid)
}

fn embedded(name: &str) -> Obstacle {
    let words = format!(
        "ReadStateCluster {name} has an embedded store, which belongs to its one process: set spec.stopped, and run \
         `readstates backup create --store embedded:FOLDER` in a pod with the volume claim data-{name}-0, or take a \
         snapshot of that volume"
    );
    Obstacle::refuse(Reason::BackupUnsupported, words)
}

/// The Secrets by which the database is reached.
pub(super) fn secrets(
    cluster: &ValidatedCluster,
    login: Option<&SecretSeen>,
    certificates: Option<&CertificatesSeen>,
) -> Result<(), Obstacle> {
    let missing = |words: String| Err(Obstacle::wait(Reason::SecretMissing, words));
    match login {
        None | Some(SecretSeen::Complete) => {}
        Some(SecretSeen::Absent) => {
            return missing(format!("Secret {} does not exist", login_secret(cluster)));
        }
        Some(SecretSeen::Incomplete(keys)) => {
            let keys = keys.join(" and no ");
            return missing(format!("Secret {} has no {keys}", login_secret(cluster)));
        }
    }
    let name = cluster.certificate_secret().unwrap_or_default();
    match certificates {
        None | Some(CertificatesSeen::Complete { .. }) => Ok(()),
        Some(CertificatesSeen::Absent { .. }) => missing(format!("Secret {name} does not exist")),
        Some(CertificatesSeen::Incomplete(keys)) => {
            missing(format!("Secret {name} has no {}", keys.join(" and no ")))
        }
        Some(CertificatesSeen::Broken(why) | CertificatesSeen::NoManager(why)) => Err(
            Obstacle::wait(Reason::CertificateInvalid, format!("Secret {name}: {why}")),
        ),
    }
}

/// The Secret with the login of the database.
fn login_secret(cluster: &ValidatedCluster) -> String {
    let own = || cluster.id.login_secret();
    match &cluster.store {
        Store::Managed(database) => database.secret.clone().unwrap_or_else(own),
        Store::External(external) => external.secret.clone().unwrap_or_default(),
        Store::Embedded(_) => String::new(),
    }
}

/// The next step of a backup.
#[derive(Clone, Debug, PartialEq)]
pub enum BackupStep {
    /// Its Job is to be made.
    Make(Box<ValidatedCluster>),
    /// Its Job is at work.
    Running {
        /// What keeps its pod.
        trouble: Option<String>,
    },
    /// It is there.
    Complete(BackupMade),
    /// Its Job gave up, with these last words.
    Failed(String),
    /// It cannot be made now.
    Blocked(Obstacle),
}

/// Decides. `run`: the Job of the backup, if there is one. `source`: what a new one would be made for.
#[must_use]
pub fn backup_step(
    run: Option<&Run>,
    source: Result<Box<ValidatedCluster>, Obstacle>,
) -> BackupStep {
    let Some(run) = run else {
        return match source {
            Ok(cluster) => BackupStep::Make(cluster),
            Err(obstacle) => BackupStep::Blocked(obstacle),
        };
    };
    match &run.outcome {
        JobOutcome::Going => BackupStep::Running {
            trouble: Some(format!(
                "Job {} is being deleted; another one follows",
                run.job
            )),
        },
        JobOutcome::Running { trouble } => BackupStep::Running {
            trouble: trouble.clone(),
        },
        JobOutcome::Succeeded => BackupStep::Complete(made(run)),
        JobOutcome::Failed { at: _, message } => BackupStep::Failed(match run.said(CREATE) {
            Some(Said::Failed(words)) => words.clone(),
            Some(Said::Done(_)) | None => message.clone(),
        }),
    }
}

/// The backup that a Job has made.
fn made(run: &Run) -> BackupMade {
    let told = told(run, CREATE);
    BackupMade {
        finished: Time(told.finished.or(run.finished).unwrap_or(run.begun)),
        id: told.id,
        users: told.users,
        bytes: told.bytes,
        stored_bytes: told.stored_bytes,
        new_stored_bytes: told.new_stored_bytes,
    }
}

/// What a container reported; nothing, where that is not known any more.
fn told(run: &Run, container: &str) -> Told {
    match run.said(container) {
        Some(Said::Done(Some(told))) => told.clone(),
        Some(Said::Done(None) | Said::Failed(_)) | None => Told::default(),
    }
}

/// Whether a container did its work: it says so, or the Job, which needs it, does.
fn did(run: &Run, container: &str) -> bool {
    let said = run.said(container);
    match said {
        Some(Said::Done(_)) => true,
        Some(Said::Failed(_)) => false,
        None => run.outcome == JobOutcome::Succeeded,
    }
}

/// What was seen of a schedule.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScheduleSeen {
    /// The CronJob that makes backups.
    pub create: Option<CronJobSeen>,
    /// The CronJob that verifies them.
    pub verify: Option<CronJobSeen>,
    /// Their Jobs with the UID of the CronJob of each, newest first.
    pub runs: Vec<(String, Run)>,
}

impl ScheduleSeen {
    fn runs_of(&self, cron_job: Option<&CronJobSeen>) -> impl Iterator<Item = &Run> {
        let uid = cron_job.map(|seen| seen.uid.clone());
        let ours = self.runs.iter();
        ours.filter(move |(owner, _)| Some(owner) == uid.as_ref())
            .map(|(_, run)| run)
    }

    /// Whether CronJobs begin Jobs that the database is not there for.
    #[must_use]
    pub fn to_hold(&self) -> bool {
        let begins = |seen: &Option<CronJobSeen>| seen.as_ref().is_some_and(|s| !s.suspended);
        begins(&self.create) || begins(&self.verify)
    }
}

/// What became of the Jobs of a schedule.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BackupResults {
    /// The last good backup.
    pub last_backup: Option<BackupMade>,
    /// The last verification that found one sound.
    pub last_verified: Option<BackupVerified>,
    /// The last pruning.
    pub last_pruned: Option<BackupsPruned>,
    /// What went wrong last.
    pub trouble: Option<(Reason, String)>,
}

/// Looks through the Jobs. What a status has recorded before counts where no later Job is there any more.
#[must_use]
pub fn backup_results(
    seen: &ScheduleSeen,
    before: Option<&ReadStateBackupScheduleStatus>,
) -> BackupResults {
    let ended = |run: &&Run| match run.outcome {
        JobOutcome::Succeeded | JobOutcome::Failed { .. } => true,
        JobOutcome::Running { .. } | JobOutcome::Going => false,
    };
    let creates = || seen.runs_of(seen.create.as_ref());
    let verifies = || seen.runs_of(seen.verify.as_ref());
    let backup = creates().find(|run| did(run, CREATE)).map(made);
    let verified = verifies().find(|run| did(run, VERIFY)).map(|run| {
        let told = told(run, VERIFY);
        BackupVerified {
            verification: Verification {
                finished: Time(run.finished.unwrap_or(run.begun)),
                users: told.users,
            },
            id: told.id,
        }
    });
    let has_pruned = |run: &&Run| matches!(run.said(PRUNE), Some(Said::Done(_)));
    let pruned = creates().find(has_pruned).map(|run| {
        let told = told(run, PRUNE);
        BackupsPruned {
            finished: Time(run.finished.unwrap_or(run.begun)),
            deleted: told.deleted_backups,
            kept: told.kept_backups,
        }
    });
    let failed = |run: &Run, container: &str, reason: Reason, what: &str| {
        let JobOutcome::Failed { at: _, message } = &run.outcome else {
            return None;
        };
        let words = match run.said(container) {
            Some(Said::Failed(words)) => words,
            Some(Said::Done(_)) | None => message,
        };
        Some((reason, format!("{what} (Job {}): {words}", run.job)))
    };
    let of_backup = creates().find(ended).and_then(|run| {
        if did(run, CREATE) {
            let what = "the backup was made, but old ones could not be deleted";
            failed(run, PRUNE, Reason::PruneFailed, what)
        } else {
            failed(run, CREATE, Reason::BackupFailed, "the last backup failed")
        }
    });
    let of_verify = verifies().find(ended).and_then(|run| {
        let what = "the last verification failed";
        failed(run, VERIFY, Reason::VerifyFailed, what)
    });
    let later = |new: Option<BackupMade>, old: Option<BackupMade>| match (new, old) {
        (Some(new), Some(old)) if old.finished.0 >= new.finished.0 => Some(old),
        (new, old) => new.or(old),
    };
    BackupResults {
        last_backup: later(backup, before.and_then(|b| b.last_backup.clone())),
        last_verified: verified.or_else(|| before.and_then(|b| b.last_verified.clone())),
        last_pruned: pruned.or_else(|| before.and_then(|b| b.last_pruned.clone())),
        trouble: of_backup.or(of_verify),
    }
}

/// Whether the last good backup is too old: its age, or that of the schedule where there is none.
#[must_use]
pub fn overdue(
    last: Option<&BackupMade>,
    created: Timestamp,
    max_age: Duration,
    now: Timestamp,
) -> Option<String> {
    let since = last.map_or(created, |made| made.finished.0);
    let age = now.duration_since(since);
    if age.as_secs() <= i64::try_from(max_age.as_secs()).unwrap_or(i64::MAX) {
        return None;
    }
    let hours = age.as_hours();
    Some(match last {
        Some(_) => {
            format!("the last good backup is {hours} hours old, which is more than spec.maxAge")
        }
        None => format!("there is no good backup, {hours} hours after the schedule was created"),
    })
}

#[cfg(test)]
mod tests;
