//! What became of a move, in conditions and progress.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition as Metav1Condition, Time};
use readstates_api::admin::MigrationProgress as Told;
use readstates_operator_api::{
    MigrationPhase, MigrationProgress, ReadStateMigrationStatus,
    conditions::{Condition, ConditionStatus, ConditionType, Reason},
};

use crate::{
    apply::Applied,
    backups::{degraded, refused, since},
    plan::{MigrationPlan, MoveRecord},
    spec::BackupOwner,
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
        now,
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
        target_uid,
        hand_over,
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
    let users = verified.as_ref().and_then(|v| v.users);
    let progress = progress(*told, old, users);
    ReadStateMigrationStatus {
        observed_generation: Some(owner.id.generation),
        conditions: conditions(report, (phase, reason, &words), is_bad),
        phase,
        next_step: next.clone(),
        source: source.clone(),
        target: target.clone(),
        target_uid: target_uid.clone(),
        hand_over: *hand_over,
        job: job.clone(),
        members_generation: *members_generation,
        progressed: Some(progressed(*before, phase, progress.as_ref(), *now)),
        progress,
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
    let (phase, pass) = (MigrationPhase::Ending, before.progress.as_ref());
    ReadStateMigrationStatus {
        observed_generation: Some(owner.id.generation),
        conditions,
        phase,
        progressed: Some(progressed(Some(&before), phase, pass, now)),
        next_step: words,
        ..before
    }
}

/// When it last got further: now, if it has since the status before was written.
fn progressed(
    before: Option<&ReadStateMigrationStatus>,
    phase: MigrationPhase,
    pass: Option<&MigrationProgress>,
    now: Timestamp,
) -> Time {
    let done = |pass: &MigrationProgress| (pass.what.clone(), pass.percent, pass.users);
    let same = before.filter(|before| {
        before.phase == phase && before.progress.as_ref().map(done) == pass.map(done)
    });
    let since = same.and_then(|before| before.progressed.clone());
    since.unwrap_or(Time(now))
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
    fn what_got_no_further_since_is_as_old_as_it_was() {
        let time = |text: &str| -> Timestamp { text.parse().unwrap() };
        let (first, later) = (time("2026-01-01T00:00:00Z"), time("2026-01-01T00:01:00Z"));
        let pass = progress(Some(&told(Some(0.5))), None, None);
        let before = ReadStateMigrationStatus {
            phase: MigrationPhase::Copying,
            progress: pass.clone(),
            progressed: Some(Time(first)),
            ..ReadStateMigrationStatus::default()
        };
        let at = |phase, pass: Option<&MigrationProgress>| {
            progressed(Some(&before), phase, pass, later).0
        };
        // Another rate is no progress.
        let slower = pass.clone().map(|pass| MigrationProgress {
            users_per_second: 1,
            ..pass
        });
        assert_eq!(at(MigrationPhase::Copying, slower.as_ref()), first);
        assert_eq!(at(MigrationPhase::Verifying, pass.as_ref()), later);
        let more = pass.map(|pass| MigrationProgress {
            users: pass.users + 1,
            ..pass
        });
        assert_eq!(at(MigrationPhase::Copying, more.as_ref()), later);
        assert_eq!(
            progressed(None, MigrationPhase::Waiting, None, later).0,
            later
        );
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
