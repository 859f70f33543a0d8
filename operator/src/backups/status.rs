//! What became of a backup or of a schedule, in conditions and events. A status is written only when it differs.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition as Metav1Condition;
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
    runtime::{
        controller::Action,
        events::{Event, EventType, Recorder},
    },
};
use readstates_operator_api::{
    BackupPhase, ReadStateBackupScheduleStatus, ReadStateBackupStatus, ReadStateMigrationStatus,
    conditions::{
        Condition,
        ConditionStatus::{self, False, True},
        ConditionType, Reason,
    },
    labels,
};
use serde::Serialize;
use serde_json::json;

use crate::{
    apply::{Applied, Blocked},
    context::Context,
    error::Error,
    namespaced::Namespaced,
    plan::{BackupResults, BackupStep, Obstacle, overdue},
    spec::{BackupMethod, BackupOwner, ValidatedSchedule},
    words::chain,
};

/// The status of a backup.
pub(super) fn of_backup(
    owner: &BackupOwner,
    before: Option<&ReadStateBackupStatus>,
    step: &BackupStep,
    applied: &Applied,
    now: Timestamp,
) -> ReadStateBackupStatus {
    let job = owner.job();
    let refusal = refused(owner, applied);
    let (phase, reason, words) = match (step, &refusal) {
        (_, Some((reason @ Reason::LeftoverObject, words))) => {
            (BackupPhase::Waiting, *reason, words.clone())
        }
        (_, Some((reason, words))) => (BackupPhase::Refused, *reason, words.clone()),
        (BackupStep::Make(_), None) => {
            let words = format!("Job {job} has been created");
            (BackupPhase::Running, Reason::BackupRunning, words)
        }
        (BackupStep::Running { trouble }, None) => {
            let trouble = trouble.iter().map(|words| format!(" ({words})"));
            let words = format!("Job {job} is at work{}", trouble.collect::<String>());
            (BackupPhase::Running, Reason::BackupRunning, words)
        }
        (BackupStep::Complete(made), None) => {
            let words = match (&made.id, made.users) {
                (Some(id), Some(users)) => format!("backup {id} has {users} users"),
                (Some(_) | None, _) => {
                    "the backup was made, and what it reported is not known any more: \
                                        `readstates backup list` shows it"
                        .to_owned()
                }
            };
            (BackupPhase::Complete, Reason::BackupComplete, words)
        }
        (BackupStep::Failed(said), None) => {
            let words = format!(
                "Job {job} failed: {said}. Create another ReadStateBackup when that is cured"
            );
            (BackupPhase::Failed, Reason::BackupFailed, words)
        }
        (BackupStep::Blocked(obstacle), None) => {
            let phase = if obstacle.refused {
                BackupPhase::Refused
            } else {
                BackupPhase::Waiting
            };
            (phase, obstacle.reason, obstacle.words.clone())
        }
    };
    let bad = match phase {
        BackupPhase::Failed | BackupPhase::Refused => Some((reason, words.clone())),
        BackupPhase::Waiting | BackupPhase::Running | BackupPhase::Complete => None,
    };
    let complete = ConditionStatus::from(phase == BackupPhase::Complete);
    let conditions = [
        Condition::new(ConditionType::Complete, complete, reason, words),
        degraded(bad),
    ];
    ReadStateBackupStatus {
        observed_generation: Some(owner.id.generation),
        conditions: since(&conditions, before.map(|b| &b.conditions), owner, now),
        phase,
        job: match step {
            BackupStep::Blocked(_) => before.and_then(|b| b.job.clone()),
            BackupStep::Make(_)
            | BackupStep::Running { .. }
            | BackupStep::Complete(_)
            | BackupStep::Failed(_) => Some(job),
        },
        backup: match step {
            BackupStep::Complete(made) => Some(made.clone()),
            BackupStep::Make(_)
            | BackupStep::Running { .. }
            | BackupStep::Failed(_)
            | BackupStep::Blocked(_) => None,
        },
        flushed: None,
        volume_snapshots: Vec::new(),
    }
}

/// What one reconcile of a schedule came to.
pub(super) struct ScheduleReport<'a> {
    pub(super) owner: &'a BackupOwner,
    /// The parsed spec; none: it is invalid.
    pub(super) valid: Option<&'a ValidatedSchedule>,
    pub(super) before: Option<&'a ReadStateBackupScheduleStatus>,
    pub(super) obstacle: Option<&'a Obstacle>,
    pub(super) applied: &'a Applied,
    pub(super) results: BackupResults,
    pub(super) created: Timestamp,
    pub(super) now: Timestamp,
}

/// The status of a schedule.
pub(super) fn of_schedule(report: &ScheduleReport<'_>) -> ReadStateBackupScheduleStatus {
    let ScheduleReport {
        owner,
        valid,
        before,
        obstacle,
        applied,
        results,
        created,
        now,
    } = report;
    let refusal = refused(owner, applied);
    let (status, reason, words) = match (obstacle, &refusal, valid) {
        (Some(obstacle), _, _) => (False, obstacle.reason, obstacle.words.clone()),
        (None, Some((reason, words)), _) => (False, *reason, words.clone()),
        (None, None, Some(valid)) if valid.suspend => {
            let words = "spec.suspend is true: no backup is begun";
            (False, Reason::Suspended, words.to_owned())
        }
        (None, None, Some(valid)) if matches!(valid.method, BackupMethod::Volumes(_)) => {
            let words = "the operator makes backups";
            (True, Reason::Scheduled, words.to_owned())
        }
        (None, None, _) => {
            let words = format!("CronJob {} makes backups", owner.create());
            (True, Reason::Scheduled, words)
        }
    };
    let max_age = valid.filter(|v| !v.suspend).and_then(|v| v.max_age);
    let late = max_age
        .and_then(|max_age| overdue(results.last_backup.as_ref(), *created, max_age, *now))
        .map(|words| (Reason::BackupOverdue, words));
    let in_the_way = obstacle.filter(|o| o.refused);
    let bad = in_the_way
        .map(|o| (o.reason, o.words.clone()))
        .or(refusal.filter(|(reason, _)| *reason != Reason::LeftoverObject))
        .or_else(|| results.trouble.clone())
        .or(late);
    let conditions = [
        Condition::new(ConditionType::Scheduled, status, reason, words),
        degraded(bad),
    ];
    ReadStateBackupScheduleStatus {
        observed_generation: Some(owner.id.generation),
        conditions: since(&conditions, before.map(|b| &b.conditions), owner, *now),
        last_backup: results.last_backup.clone(),
        last_verified: results.last_verified.clone(),
        last_pruned: results.last_pruned.clone(),
    }
}

/// Whether the condition Degraded is true.
pub(crate) fn is_degraded(conditions: &[Metav1Condition]) -> bool {
    conditions
        .iter()
        .any(|c| c.type_ == ConditionType::Degraded.as_str() && c.status == True.as_str())
}

pub(crate) fn degraded(bad: Option<(Reason, String)>) -> Condition {
    match bad {
        Some((reason, words)) => Condition::new(ConditionType::Degraded, True, reason, words),
        None => Condition::new(
            ConditionType::Degraded,
            False,
            Reason::AsExpected,
            "nothing is wrong",
        ),
    }
}

/// Why objects could not be written, in words about this backup.
pub(crate) fn refused(owner: &BackupOwner, applied: &Applied) -> Option<(Reason, String)> {
    let BackupOwner { id, kind, label: _ } = owner;
    applied.refusals().first().map(|refusal| match &refusal.why {
        Blocked::Leftover { object } => leftover(object),
        Blocked::Conflict {
            object,
            owner: Some(other),
        } if *other == format!("{kind} {}", id.name) => leftover(object),
        Blocked::Conflict {
            object,
            owner: other,
        } => {
            let other = other.as_ref().map(|other| format!(" and belongs to {other}"));
            let words = format!(
                "{object} exists already{}: delete or rename it, or give this {kind} another name",
                other.unwrap_or_default()
            );
            (Reason::NameConflict, words)
        }
        Blocked::Rejected { object, message } => (
            Reason::ApplyRejected,
            format!("the API server refused {object}: {message}"),
        ),
    })
}

fn leftover(object: &str) -> (Reason, String) {
    let words = format!("{object} of an earlier resource of this name is still being deleted");
    (Reason::LeftoverObject, words)
}

pub(crate) fn since(
    conditions: &[Condition],
    before: Option<&Vec<Metav1Condition>>,
    owner: &BackupOwner,
    now: Timestamp,
) -> Vec<Metav1Condition> {
    let old = before.map(Vec::as_slice).unwrap_or_default();
    let each = conditions.iter();
    each.map(|c| c.to_metav1(old, Some(owner.id.generation), now))
        .collect()
}

/// A status that is told in conditions.
pub(crate) trait Told: Clone + Default + PartialEq + Serialize {
    fn conditions(&self) -> &Vec<Metav1Condition>;
    fn conditions_mut(&mut self) -> &mut Vec<Metav1Condition>;
}

macro_rules! told {
    ($($status:ty),+) => {$(
        impl Told for $status {
            fn conditions(&self) -> &Vec<Metav1Condition> {
                &self.conditions
            }

            fn conditions_mut(&mut self) -> &mut Vec<Metav1Condition> {
                &mut self.conditions
            }
        }
    )+};
}

told!(
    ReadStateBackupStatus,
    ReadStateBackupScheduleStatus,
    ReadStateMigrationStatus
);

/// What a reconcile came to. One that failed is told in the status of its object, and is still a failure: it is tried
/// again.
///
/// # Errors
/// The failure of the reconcile.
pub(crate) async fn ended<K: Namespaced, S: Told>(
    ctx: &Context,
    owner: &BackupOwner,
    object: &K,
    before: Option<&S>,
    reconciled: Result<Action, Error>,
) -> Result<Action, Error> {
    let error = match reconciled {
        Ok(action) => return Ok(action),
        Err(error) => error,
    };
    // After one that another client was faster than, the next look follows at once.
    if let Some(words) = error.told().filter(|_| !error.is_outdated()) {
        let status = with_failure(owner, before, &words, Timestamp::now());
        // One that cannot be written either is in the log with the failure.
        if let Err(untold) = publish(ctx, object, before, &status).await {
            tracing::debug!(error = chain(&untold), "failed to tell a failure");
        }
    }
    Err(error)
}

/// The status before, and that an attempt failed.
fn with_failure<S: Told>(
    owner: &BackupOwner,
    before: Option<&S>,
    words: &str,
    now: Timestamp,
) -> S {
    let words = format!("{words}; it is tried again");
    let bad = degraded(Some((Reason::RequestFailed, words)));
    let told = since(&[bad], before.map(Told::conditions), owner, now);
    let mut status = before.cloned().unwrap_or_default();
    let conditions = status.conditions_mut();
    conditions.retain(|c| c.type_ != ConditionType::Degraded.as_str());
    conditions.extend(told);
    status
}

/// Writes the status if it says something new, and publishes events for what changed.
///
/// # Errors
/// When the API server does not take it.
pub(crate) async fn publish<K: Namespaced, S: Told>(
    ctx: &Context,
    object: &K,
    before: Option<&S>,
    status: &S,
) -> Result<(), Error> {
    if before == Some(status) {
        return Ok(());
    }
    let name = object.name_any();
    let namespace = object.namespace().unwrap_or_default();
    let api: Api<K> = Api::namespaced(ctx.client.clone(), &namespace);
    let patch = json!({
        "apiVersion": K::api_version(&()),
        "kind": K::kind(&()),
        // Not onto one created again under this name meanwhile, and not over what was recorded since this one was read.
        "metadata": { "uid": object.uid(), "resourceVersion": object.resource_version() },
        "status": status,
    });
    let params = PatchParams::apply(labels::MANAGER).force();
    match api.patch_status(&name, &params, &Patch::Apply(patch)).await {
        Ok(_) => {}
        Err(kube::Error::Api(gone)) if gone.code == 404 => return Ok(()),
        Err(source) => {
            let what = format!("the status of {name}");
            return Err(Error::Write { what, source });
        }
    }
    let recorder = Recorder::new(ctx.client.clone(), ctx.reporter.clone());
    for event in news(before.map(Told::conditions), status.conditions()) {
        if let Err(error) = recorder.publish(&event, &object.object_ref(&())).await {
            tracing::warn!(%error, reason = event.reason, "failed to publish an event");
        }
    }
    Ok(())
}

/// One event for each condition with another status or reason; none for what was never wrong.
fn news(before: Option<&Vec<Metav1Condition>>, after: &[Metav1Condition]) -> Vec<Event> {
    let old = |type_: &str| before.and_then(|all| all.iter().find(|c| c.type_ == type_));
    let is_new = |c: &&Metav1Condition| match old(&c.type_) {
        Some(old) => (&old.status, &old.reason) != (&c.status, &c.reason),
        None => c.reason != Reason::AsExpected.as_str(),
    };
    let event = |c: &Metav1Condition| {
        let is_bad = c.type_ == ConditionType::Degraded.as_str() && c.status == True.as_str();
        Event {
            type_: if is_bad {
                EventType::Warning
            } else {
                EventType::Normal
            },
            reason: c.reason.clone(),
            note: Some(c.message.clone()),
            action: c.type_.clone(),
            secondary: None,
        }
    };
    after.iter().filter(is_new).map(event).collect()
}
