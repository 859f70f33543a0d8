use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use proptest::prelude::*;

use super::*;
use crate::spec::{BackupMethod, Retention};

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn schedule(retention: Option<Retention>) -> ValidatedSchedule {
    ValidatedSchedule {
        cluster: "chat".to_owned(),
        method: BackupMethod::Volumes(None),
        schedule: "0 3 * * *".to_owned(),
        time_zone: "Etc/UTC".to_owned(),
        suspend: false,
        retention,
        verify: None,
        max_age: None,
    }
}

fn backup(created: &str, phase: BackupPhase) -> BackupSeen {
    let made = BackupMade {
        finished: Time(at(created)),
        id: None,
        users: None,
        bytes: None,
        stored_bytes: None,
        new_stored_bytes: None,
    };
    BackupSeen {
        name: format!("b-{created}"),
        uid: format!("uid-{created}"),
        cluster: "chat".to_owned(),
        created: at(created),
        phase: Some(phase),
        made: (phase == BackupPhase::Complete).then_some(made),
        words: "no room".to_owned(),
    }
}

const BEFORE: &str = "2026-01-01T00:00:00Z";
use BackupPhase::{Complete, Failed, Running};

fn step(schedule: &ValidatedSchedule, backups: &[BackupSeen], now: &str) -> TimesStep {
    times_step(schedule, at(BEFORE), backups.to_vec(), None, at(now))
}

#[test]
fn a_backup_is_due_once_for_each_time_and_never_beside_another() {
    let daily = schedule(None);
    let make = |backups: &[BackupSeen], now| step(&daily, backups, now).make;
    let three = Some(at("2026-01-02T03:00:00Z"));
    assert_eq!(make(&[], "2026-01-02T02:59:59Z"), None);
    assert_eq!(make(&[], "2026-01-02T03:00:00Z"), three);
    // Late, but not too late.
    assert_eq!(make(&[], "2026-01-02T08:59:00Z"), three);
    assert_eq!(make(&[], "2026-01-02T09:01:00Z"), None);
    let made = backup("2026-01-02T03:00:20Z", Complete);
    assert_eq!(make(&[made], "2026-01-02T03:01:00Z"), None);
    let runs = backup("2026-01-01T03:00:20Z", Running);
    assert_eq!(make(&[runs], "2026-01-02T03:01:00Z"), None);
    let failed = backup("2026-01-01T03:00:20Z", Failed);
    assert_eq!(make(&[failed], "2026-01-02T03:01:00Z"), three);
    let mut held = schedule(None);
    held.suspend = true;
    assert_eq!(step(&held, &[], "2026-01-02T03:00:00Z").make, None);
}

#[test]
fn what_neither_rule_keeps_is_deleted_and_a_failure_once_a_success_has_followed() {
    let all = [
        backup("2026-01-01T03:00:00Z", Complete),
        backup("2026-01-02T03:00:00Z", Failed),
        backup("2026-01-03T03:00:00Z", Complete),
        backup("2026-01-04T03:00:00Z", Complete),
        backup("2026-01-05T03:00:00Z", Failed),
        backup("2026-01-06T03:00:00Z", Running),
    ];
    let deleted = |last: Option<i32>, days: Option<i32>| {
        let step = step(
            &schedule(Some(Retention { last, days })),
            &all,
            "2026-01-06T03:01:00Z",
        );
        let names = step.delete.into_iter().map(|named| named.name);
        names.collect::<Vec<_>>()
    };
    let (one, two, three) = (
        "b-2026-01-01T03:00:00Z",
        "b-2026-01-02T03:00:00Z",
        "b-2026-01-03T03:00:00Z",
    );
    assert_eq!(deleted(Some(2), None), [two, one]);
    assert_eq!(deleted(Some(1), None), [three, two, one]);
    // Days count back from the last success.
    assert_eq!(deleted(None, Some(4)), [two]);
    assert_eq!(deleted(None, Some(2)), [two, one]);
    assert_eq!(deleted(Some(3), Some(1)), [two]);
    assert!(
        step(&schedule(None), &all, "2026-01-06T03:01:00Z")
            .delete
            .is_empty()
    );
}

#[test]
fn the_last_success_and_a_failure_after_it_are_told() {
    let all = [
        backup("2026-01-03T03:00:00Z", Complete),
        backup("2026-01-04T03:00:00Z", Failed),
    ];
    let results = step(&schedule(None), &all, "2026-01-04T04:00:00Z").results;
    let last = results.last_backup.unwrap();
    assert_eq!(last.finished, Time(at("2026-01-03T03:00:00Z")));
    let (reason, words) = results.trouble.unwrap();
    assert_eq!(reason, Reason::BackupFailed);
    assert!(
        words.contains("b-2026-01-04T03:00:00Z): no room"),
        "{words}"
    );
}

#[test]
fn a_backup_that_cannot_begin_is_told_and_keeps_others_from_being_made() {
    let all = [
        backup("2026-01-02T03:00:00Z", Complete),
        backup("2026-01-03T03:00:00Z", BackupPhase::Refused),
    ];
    let after = step(&schedule(None), &all, "2026-01-04T03:00:00Z");
    assert_eq!(after.make, None);
    let (reason, words) = after.results.trouble.unwrap();
    assert_eq!(reason, Reason::BackupFailed);
    let ends = "no other is made meanwhile (ReadStateBackup b-2026-01-03T03:00:00Z): no room";
    assert!(words.ends_with(ends), "{words}");
}

#[test]
fn a_backup_that_cannot_be_read_is_kept_and_told_and_keeps_no_other_from_being_made() {
    let unread = BackupSeen {
        phase: None,
        ..backup("2026-01-02T03:00:00Z", Complete)
    };
    let newest = Some(Retention {
        last: Some(1),
        days: None,
    });
    let all = [unread, backup("2026-01-01T03:00:00Z", Complete)];
    let after = step(&schedule(newest), &all, "2026-01-03T03:00:00Z");
    assert_eq!(after.make, Some(at("2026-01-03T03:00:00Z")));
    // It is none of the complete ones that are counted, and stays.
    assert_eq!(after.delete, []);
    let (reason, words) = after.results.trouble.unwrap();
    assert_eq!(reason, Reason::NotObserved);
    assert!(
        words.starts_with("ReadStateBackup b-2026-01-02T03:00:00Z cannot be read"),
        "{words}"
    );
}

#[test]
fn backups_of_another_cluster_are_not_counted_told_or_deleted() {
    // A schedule of this name was for `mail` before it was deleted and created again for `chat`.
    let of_mail = |created, phase| BackupSeen {
        cluster: "mail".to_owned(),
        ..backup(created, phase)
    };
    let mail = [
        of_mail("2026-01-02T03:00:00Z", Complete),
        of_mail("2026-01-03T03:00:00Z", Complete),
        of_mail("2026-01-04T03:00:10Z", Failed),
        of_mail("2026-01-04T03:00:20Z", Running),
    ];
    let daily = schedule(Some(Retention {
        last: Some(1),
        days: None,
    }));
    let first = step(&daily, &mail, "2026-01-04T03:01:00Z");
    let due = Some(at("2026-01-04T03:00:00Z"));
    let nothing_else = TimesStep {
        make: due,
        ..TimesStep::default()
    };
    assert_eq!(first, nothing_else);

    let chat = [
        backup("2026-01-01T03:00:00Z", Complete),
        backup("2026-01-02T03:00:00Z", Complete),
    ];
    let all = [&chat[..], &mail[..]].concat();
    let step = step(&daily, &all, "2026-01-04T03:01:00Z");
    let deleted: Vec<_> = step.delete.iter().map(|named| &named.uid).collect();
    assert_eq!(deleted, [&chat[0].uid]);
    let pruned = step.results.last_pruned.unwrap();
    assert_eq!((pruned.deleted, pruned.kept), (Some(1), Some(1)));
    assert_eq!(step.results.last_backup, chat[1].made);
    assert_eq!(step.results.trouble, None);
}

proptest! {
    /// However many backups there are, the newest complete ones of the rule stay, and nothing that goes on is deleted.
    #[test]
    fn retention_never_takes_the_newest(
        phases in proptest::collection::vec(0..3_usize, 0..12),
        last in proptest::option::of(1..5_i32),
        days in 1..9_i32,
    ) {
        let all: Vec<_> = phases
            .iter()
            .enumerate()
            .map(|(day, phase)| {
                let created = format!("2026-01-{:02}T03:00:00Z", day + 1);
                backup(&created, [Complete, Failed, Running][*phase])
            })
            .collect();
        let days = last.is_none().then_some(days);
        let rule = Retention { last, days };
        // However far ahead the clock is.
        let step = step(&schedule(Some(rule)), &all, "2036-02-01T00:00:00Z");
        let kept = |b: &&BackupSeen| step.delete.iter().all(|d| d.uid != b.uid);
        let left = all.iter().filter(kept).filter(|b| b.phase == Some(Complete)).count();
        let complete = all.iter().filter(|b| b.phase == Some(Complete)).count();
        match last {
            Some(last) => prop_assert_eq!(left, complete.min(usize::try_from(last).unwrap())),
            None => prop_assert!(left >= complete.min(1)),
        }
        prop_assert!(all.iter().filter(|b| b.phase == Some(Running)).all(|b| kept(&b)));
    }
}
