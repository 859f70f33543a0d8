//! What a schedule of backups by VolumeSnapshots has to do now. Pure. It rests on the `ReadStateBackup`s that are there: the
//! last of them says when one was made last. Those of another cluster are not the schedule's, whatever their label says: a
//! schedule of the same name may have made them, before it was deleted.

use std::{cmp::Reverse, time::Duration};

use jiff::Timestamp;
use readstates_operator_api::{
    BackupMade, BackupPhase, BackupsPruned, ReadStateBackupScheduleStatus, conditions::Reason,
};

use super::BackupResults;
use crate::{
    plan::Named,
    spec::{Times, ValidatedSchedule},
};

/// How late a backup may begin, as with CronJobs.
const LATEST: Duration = Duration::from_hours(6);

/// A `ReadStateBackup` with the label of the schedule.
#[derive(Clone, Debug, PartialEq)]
pub struct BackupSeen {
    pub name: String,
    pub uid: String,
    /// The `ReadStateCluster` that it is a backup of.
    pub cluster: String,
    pub created: Timestamp,
    /// None: it cannot be read, as when it was written for a later release.
    pub phase: Option<BackupPhase>,
    /// The backup, once it is complete.
    pub made: Option<BackupMade>,
    /// What its condition Complete says.
    pub words: String,
}

impl BackupSeen {
    /// Nothing is waited for that may never be told.
    fn is_over(&self) -> bool {
        matches!(
            self.phase,
            Some(BackupPhase::Complete | BackupPhase::Failed) | None
        )
    }
}

/// What is to be done.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TimesStep {
    /// A backup is due since then.
    pub make: Option<Timestamp>,
    /// These are not kept.
    pub delete: Vec<Named>,
    pub results: BackupResults,
}

/// Decides. `created`: the schedule.
#[must_use]
pub fn times_step(
    schedule: &ValidatedSchedule,
    created: Timestamp,
    mut backups: Vec<BackupSeen>,
    before: Option<&ReadStateBackupScheduleStatus>,
    now: Timestamp,
) -> TimesStep {
    backups.retain(|backup| backup.cluster == schedule.cluster);
    backups.sort_by_key(|backup| (Reverse(backup.created), Reverse(backup.name.clone())));
    let goes_on = backups.iter().any(|backup| !backup.is_over());
    let last = backups.first().map_or(created, |backup| backup.created);
    let after = last.max(now.checked_sub(LATEST).unwrap_or(last));
    let due = || {
        let times = Times::parse(&schedule.schedule, &schedule.time_zone).ok()?;
        times.last_between(after, now)
    };
    let make = (!schedule.suspend && !goes_on).then(due).flatten();
    let complete = || {
        let all = backups.iter();
        all.filter(|b| b.phase == Some(BackupPhase::Complete))
    };
    let delete: Vec<_> = backups
        .iter()
        .filter(|backup| !schedule.suspend && !is_kept(schedule, &backups, backup))
        .map(|backup| Named {
            name: backup.name.clone(),
            uid: backup.uid.clone(),
        })
        .collect();
    let decided = backups.iter().find(|backup| {
        let phase = backup.phase;
        !matches!(phase, Some(BackupPhase::Waiting | BackupPhase::Running))
    });
    let trouble = decided.and_then(trouble);
    let pruned = (!delete.is_empty()).then(|| BackupsPruned {
        finished: k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now),
        deleted: i64::try_from(delete.len()).ok(),
        kept: i64::try_from(backups.len() - delete.len()).ok(),
    });
    TimesStep {
        make,
        results: BackupResults {
            last_backup: complete()
                .find_map(|backup| backup.made.clone())
                .or_else(|| before.and_then(|b| b.last_backup.clone())),
            last_verified: before.and_then(|b| b.last_verified.clone()),
            last_pruned: pruned.or_else(|| before.and_then(|b| b.last_pruned.clone())),
            trouble,
        },
        delete,
    }
}

/// What is wrong with a backup.
fn trouble(backup: &BackupSeen) -> Option<(Reason, String)> {
    let (name, words) = (&backup.name, &backup.words);
    let Some(phase) = backup.phase else {
        let words = format!(
            "ReadStateBackup {name} cannot be read, and is kept: was it written for a later release? Update the operator, or \
             delete it"
        );
        return Some((Reason::NotObserved, words));
    };
    let said = match phase {
        BackupPhase::Waiting | BackupPhase::Running | BackupPhase::Complete => return None,
        BackupPhase::Failed => format!("the last backup failed (ReadStateBackup {name}): {words}"),
        BackupPhase::Refused => format!(
            "the last backup cannot begin, and no other is made meanwhile (ReadStateBackup {name}): {words}"
        ),
    };
    Some((Reason::BackupFailed, said))
}

/// Whether a backup stays: what either rule keeps, what is not over or cannot be read, and a failure that no success has
/// followed. Days count back from the last success: while none succeeds, none grows too old, and a clock that is wrong
/// deletes nothing.
fn is_kept(schedule: &ValidatedSchedule, newest_first: &[BackupSeen], backup: &BackupSeen) -> bool {
    let Some(rule) = schedule.retention else {
        return true;
    };
    let newer = |phase| {
        let all = newest_first.iter().take_while(|b| b.uid != backup.uid);
        all.filter(|b| b.phase == Some(phase)).count()
    };
    match backup.phase {
        Some(BackupPhase::Waiting | BackupPhase::Running | BackupPhase::Refused) | None => true,
        Some(BackupPhase::Failed) => newer(BackupPhase::Complete) == 0,
        Some(BackupPhase::Complete) => {
            let count = usize::try_from(rule.last.unwrap_or_default()).unwrap_or_default();
            let days = u64::try_from(rule.days.unwrap_or_default()).unwrap_or_default();
            let made = |backup: &BackupSeen| {
                let made = backup.made.as_ref();
                made.map_or(backup.created, |made| made.finished.0)
            };
            let complete = newest_first.iter().filter(|b| b.phase == backup.phase);
            let last = complete.map(made).max().unwrap_or_else(|| made(backup));
            let age = last.duration_since(made(backup)).unsigned_abs();
            newer(BackupPhase::Complete) < count || age < Duration::from_hours(24 * days)
        }
    }
}

#[cfg(test)]
mod tests;
