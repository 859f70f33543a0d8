//! What became of a move, in conditions and progress.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition as Metav1Condition;
use readstates_api::admin::MigrationProgress as Told;
use readstates_operator_api::{
    MigrationPhase, MigrationProgress, ReadStateMigrationStatus,
    conditions::{Condition, ConditionStatus, ConditionType, Reason},
};

use crate::{
    apply::Applied,
    backups::{degraded, refused, since},
    plan::{MigrationPlan, MoveRecord},
    validate::BackupOwner,
};

/// What one reconcile came to.
pub(super) struct MoveReport<'a> {
    pub(super) owner: &'a BackupOwner,
    pub(super) before: Option<&'a ReadStateMigrationStatus>,
    pub(super) plan: &'a MigrationPlan,
    /// What the pod at work says.
    pub(super) told: Option<&'a Told>,
    pub(super) applied: &'a Applied,
    pub(super) now: Timestamp,
}

/// The status of a move.
pub(super) fn of_migration(report: &MoveReport<'_>) -> ReadStateMigrationStatus {
    let MoveReport {
        owner,
        before,
        plan,
        told,
        applied,
        now: _,
    } = report;
    let MigrationPlan {
        phase,
        reason,
        words,
        next,
        is_bad,
        action: _,
        record,
        failure,
        job,
    } = plan;
    let MoveRecord {
        source,
        target,
        members_generation,
        verified,
    } = record;
    let (phase, reason, words, is_bad) = match refused(owner, applied) {
        Some((reason @ Reason::LeftoverObject, words)) => {
            (MigrationPhase::Waiting, reason, words, false)
        }
        Some((reason, words)) => (MigrationPhase::Refused, reason, words, true),
        None => (*phase, *reason, words.clone(), *is_bad),
    };
    let old = before.and_then(|b| b.progress.clone());
    let over = before.and_then(|b| b.last_error.clone());
    ReadStateMigrationStatus {
        observed_generation: Some(owner.id.generation),
        conditions: conditions(report, (phase, reason, &words), is_bad),
        phase,
        next_step: next.clone(),
        source: source.clone(),
        target: target.clone(),
        job: job.clone(),
        members_generation: *members_generation,
        progress: progress(*told, old, verified.as_ref().and_then(|v| v.users)),
        verified: verified.clone(),
        last_error: failure
            .clone()
            .or_else(|| over.filter(|_| verified.is_none())),
    }
}

/// The status of a move that is deleted, while its Job ends.
pub(super) fn ending(
    owner: &BackupOwner,
    before: Option<&ReadStateMigrationStatus>,
    words: String,
    now: Timestamp,
) -> ReadStateMigrationStatus {
    let before = before.cloned().unwrap_or_default();
    let complete = Condition::new(
        ConditionType::Complete,
        ConditionStatus::False,
        Reason::MigrationEnded,
        words.clone(),
    );
    let mut conditions = before.conditions.clone();
    conditions.retain(|c| c.type_ != ConditionType::Complete.as_str());
    conditions.extend(since(&[complete], Some(&before.conditions), owner, now));
    ReadStateMigrationStatus {
        observed_generation: Some(owner.id.generation),
        conditions,
        phase: MigrationPhase::Ending,
        next_step: words,
        ..before
    }
}

fn conditions(
    report: &MoveReport<'_>,
    (phase, reason, words): (MigrationPhase, Reason, &str),
    is_bad: bool,
) -> Vec<Metav1Condition> {
    let verified = match &report.plan.record.verified {
        Some(_) => Condition::new(
            ConditionType::Verified,
            ConditionStatus::True,
            Reason::MigrationVerified,
            "everything was compared, and nothing is missing",
        ),
        None => Condition::new(
            ConditionType::Verified,
            ConditionStatus::False,
            reason,
            words,
        ),
    };
    let complete = ConditionStatus::from(phase == MigrationPhase::Complete);
    let all = [
        verified,
        Condition::new(ConditionType::Complete, complete, reason, words),
        degraded(is_bad.then(|| (reason, words.to_owned()))),
    ];
    let before = report.before.map(|b| &b.conditions);
    since(&all, before, report.owner, report.now)
}

/// What the pod at work says; what it said last, while it does not; and everything, once that was compared.
fn progress(
    told: Option<&Told>,
    before: Option<MigrationProgress>,
    verified: Option<i64>,
) -> Option<MigrationProgress> {
    let whole = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let told = told.map(|told| MigrationProgress {
        what: told.what.clone(),
        percent: told
            .share
            .map(|share| (share.clamp(0.0, 1.0) * 100.0) as i64),
        users: whole(told.users),
        lacking: whole(told.lacking),
        users_per_second: whole(told.users_per_second),
    });
    let done = verified.map(|users| MigrationProgress {
        what: "verification".to_owned(),
        percent: Some(100),
        users,
        lacking: 0,
        users_per_second: 0,
    });
    done.or(told).or(before)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(share: Option<f64>) -> Told {
        Told {
            what: "pass 2".to_owned(),
            verifies: false,
            share,
            users: 3000,
            lacking: 7,
            users_per_second: 750,
        }
    }

    #[test]
    fn a_pod_that_does_not_answer_leaves_what_it_said_before() {
        let first = progress(Some(&told(Some(0.456))), None, None).unwrap();
        assert_eq!((first.percent, first.users_per_second), (Some(45), 750));
        assert_eq!(
            progress(None, Some(first.clone()), None),
            Some(first.clone())
        );
        let unknown = progress(Some(&told(None)), Some(first.clone()), None).unwrap();
        assert_eq!(unknown.percent, None);
        let all = progress(None, Some(first), Some(4000)).unwrap();
        assert_eq!((all.percent, all.users, all.lacking), (Some(100), 4000, 0));
        assert_eq!(progress(None, None, None), None);
    }
}
