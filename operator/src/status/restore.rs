//! What became of `spec.restoreFrom`: the record and the condition `Restored`.

use readstates_operator_api::{
    RestorePhase, RestoreStatus,
    conditions::{
        Condition,
        ConditionStatus::{self, False, True, Unknown},
        ConditionType, Reason,
    },
    labels::Component,
};

use super::{Decided, Report};
use crate::plan::RestoreState;

/// The record. It stays as it is while nothing is decided: it tells that the restore was done.
pub(super) fn entry(report: &Report<'_>) -> Option<RestoreStatus> {
    let before = report
        .before
        .and_then(|before| before.restore.as_deref().cloned());
    let Some(decided) = decided(report) else {
        return before;
    };
    let at = |phase, job: Option<&String>| {
        Some(RestoreStatus {
            phase,
            job: job.cloned(),
            ..RestoreStatus::default()
        })
    };
    match &decided.plan.restore.state {
        RestoreState::Unasked => None,
        RestoreState::Waiting { .. } => at(RestorePhase::Waiting, None),
        // Its Job could not be made.
        RestoreState::Running { job, .. } if !is_made(report, decided, job) => {
            at(RestorePhase::Waiting, None)
        }
        RestoreState::Running { job, .. } => at(RestorePhase::Running, Some(job)),
        RestoreState::Moving(_) => at(RestorePhase::Running, None),
        RestoreState::Failed { job, .. } => at(RestorePhase::Failed, Some(job)),
        RestoreState::Done(made) | RestoreState::Recorded(made) => Some(made.clone()),
        RestoreState::Skipped => before,
    }
}

/// None: the cluster was to begin empty.
pub(super) fn condition(report: &Report<'_>) -> Option<Condition> {
    let of = |status: ConditionStatus, reason, words: String| {
        Some(Condition::new(
            ConditionType::Restored,
            status,
            reason,
            words,
        ))
    };
    let Some(decided) = decided(report) else {
        let record = report.before.and_then(|before| before.restore.as_deref())?;
        return match record.phase {
            RestorePhase::Restored => {
                let words = RestoreState::Recorded(record.clone()).to_string();
                of(True, Reason::Restored, words)
            }
            RestorePhase::Waiting | RestorePhase::Running | RestorePhase::Failed => {
                let words = "nothing is decided about the restore now, see Degraded";
                of(Unknown, Reason::RestoreWaiting, words.to_owned())
            }
        };
    };
    let state = &decided.plan.restore.state;
    let status = match state {
        RestoreState::Unasked => return None,
        RestoreState::Running { job, .. } if !is_made(report, decided, job) => {
            let words = "the Job that restores could not be made, see Degraded and Progressing";
            return of(False, Reason::RestoreWaiting, words.to_owned());
        }
        RestoreState::Waiting { .. }
        | RestoreState::Running { .. }
        | RestoreState::Moving(_)
        | RestoreState::Failed { .. } => False,
        RestoreState::Done(_) | RestoreState::Recorded(_) => True,
        RestoreState::Skipped => Unknown,
    };
    of(status, state.reason()?, state.to_string())
}

/// What a person has to look at, if the restore failed.
pub(super) fn trouble(decided: &Decided<'_>) -> Option<(Reason, String)> {
    let state = &decided.plan.restore.state;
    match state {
        RestoreState::Failed { .. } => Some((Reason::RestoreFailed, state.to_string())),
        RestoreState::Unasked
        | RestoreState::Waiting { .. }
        | RestoreState::Running { .. }
        | RestoreState::Moving(_)
        | RestoreState::Done(_)
        | RestoreState::Recorded(_)
        | RestoreState::Skipped => None,
    }
}

/// What was decided; nothing for an invalid spec and a deleted cluster.
fn decided<'a>(report: &'a Report<'_>) -> Option<&'a Decided<'a>> {
    let decided = report.spec.as_ref().ok();
    decided.filter(|_| report.ending.is_none())
}

/// Whether a Job that is to be at work is there: one that was seen, or could be made.
fn is_made(report: &Report<'_>, decided: &Decided<'_>, name: &str) -> bool {
    let done = decided.done;
    let mut jobs = report.world.restore.jobs.iter();
    done.applied.has_all_of(Component::Backup)
        && (done.failed.is_none() || jobs.any(|job| job.run.job == name))
}
