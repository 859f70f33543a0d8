use serde_json::json;

use super::*;
use crate::{
    fixtures::{CASSANDRA, EMBEDDED, EXTERNAL, images},
    templates,
    world::SecretSeen,
};

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// A cluster whose keyspace is proven to be there, if it should have one.
fn source(spec: &str) -> SourceSeen {
    let spec: serde_json::Value = serde_yaml_ng::from_str(spec).unwrap();
    let cluster = json!({
        "apiVersion": "readstates.dev/v1alpha1", "kind": "ReadStateCluster",
        "metadata": { "name": "chat", "namespace": "talk", "uid": "uid-of-chat" }, "spec": spec,
    });
    let mut cluster: readstates_operator_api::ReadStateCluster =
        serde_json::from_value(cluster).unwrap();
    let valid = validate(Identity::of(&cluster).unwrap(), &cluster.spec, &images()).unwrap();
    let store = templates::wanted_store(&valid);
    let status =
        store.map(|store| json!({ "schema": { "store": store, "since": "2026-01-01T00:00:00Z" } }));
    cluster.status = status.map(|status| serde_json::from_value(status).unwrap());
    SourceSeen {
        cluster: Some(cluster),
        login: Some(SecretSeen::Complete),
        ..SourceSeen::default()
    }
}

fn obstacle(seen: &SourceSeen) -> Obstacle {
    backup_source("chat", seen, &images()).unwrap_err()
}

fn run(job: &str, outcome: JobOutcome, said: &[(&str, Said)]) -> Run {
    Run {
        job: job.to_owned(),
        begun: at("2026-01-02T03:00:00Z"),
        finished: (outcome == JobOutcome::Succeeded).then(|| at("2026-01-02T03:10:00Z")),
        outcome,
        said: said
            .iter()
            .map(|(name, said)| ((*name).to_owned(), said.clone()))
            .collect(),
    }
}

fn failed() -> JobOutcome {
    JobOutcome::Failed {
        at: at("2026-01-02T03:10:00Z"),
        message: "too many attempts".to_owned(),
    }
}

fn reported(id: &str, finished: &str) -> Said {
    Said::Done(Some(Told {
        id: Some(id.to_owned()),
        finished: Some(at(finished)),
        users: Some(7),
        ..Told::default()
    }))
}

/// A schedule with these Jobs of the CronJob that makes backups, and of the one that verifies them.
fn schedule(creates: Vec<Run>, verifies: Vec<Run>) -> ScheduleSeen {
    let cron_job = |uid: &str| {
        Some(CronJobSeen {
            uid: uid.to_owned(),
            suspended: false,
        })
    };
    let of = |uid: &'static str| move |run| (uid.to_owned(), run);
    ScheduleSeen {
        create: cron_job("create"),
        verify: cron_job("verify"),
        runs: creates
            .into_iter()
            .map(of("create"))
            .chain(verifies.into_iter().map(of("verify")))
            .collect(),
    }
}

#[test]
fn a_database_whose_keyspace_is_proven_can_be_backed_up() {
    for spec in [CASSANDRA, EXTERNAL] {
        assert!(
            backup_source("chat", &source(spec), &images()).is_ok(),
            "{spec}"
        );
    }
}

#[test]
fn what_is_in_the_way_is_named() {
    let none = SourceSeen::default();
    let gone = obstacle(&none);
    assert_eq!((gone.reason, gone.away), (Reason::ClusterNotFound, true));

    let refused = obstacle(&source(EMBEDDED));
    assert_eq!(
        (refused.reason, refused.refused),
        (Reason::BackupUnsupported, true)
    );
    assert!(
        refused
            .words
            .contains("readstates backup create --store embedded:")
    );

    let mut new = source(CASSANDRA);
    new.cluster.as_mut().unwrap().status = None;
    assert_eq!(obstacle(&new).reason, Reason::ClusterNotReady);

    let mut login = source(CASSANDRA);
    login.login = Some(SecretSeen::Absent);
    let said = obstacle(&login);
    assert_eq!(said.reason, Reason::SecretMissing);
    assert_eq!(said.words, "Secret chat-db-login does not exist");
    login.login = Some(SecretSeen::Incomplete(vec!["password"]));
    assert_eq!(
        obstacle(&login).words,
        "Secret chat-db-login has no password"
    );

    let mut bucket = source(EXTERNAL);
    bucket.lacking = vec!["Secret bucket does not exist".to_owned()];
    let said = obstacle(&bucket);
    assert_eq!(said.words, "Secret bucket does not exist");
    assert!(!said.away, "the database is there");
}

#[test]
fn a_stopped_database_cannot_be_asked_and_one_that_is_not_ours_can() {
    let stopped = |spec: &str| {
        let mut seen = source(spec);
        seen.cluster.as_mut().unwrap().spec.stopped = true;
        backup_source("chat", &seen, &images()).map(|_| ())
    };
    assert!(stopped(CASSANDRA).unwrap_err().away);
    assert_eq!(stopped(EXTERNAL), Ok(()));
}

#[test]
fn the_job_that_is_there_decides_whatever_became_of_the_cluster() {
    let nothing = || Err(obstacle(&SourceSeen::default()));
    let made = reported("a", "2026-01-02T03:09:00Z");
    let done = run("j", JobOutcome::Succeeded, &[(CREATE, made)]);
    let BackupStep::Complete(backup) = backup_step(Some(&done), nothing()) else {
        panic!("it is complete");
    };
    assert_eq!(backup.id.as_deref(), Some("a"));
    assert_eq!(backup.finished, Time(at("2026-01-02T03:09:00Z")));

    let words = Said::Failed("no host answers".to_owned());
    let gave_up = run("j", failed(), &[(CREATE, words)]);
    let step = backup_step(Some(&gave_up), nothing());
    assert_eq!(step, BackupStep::Failed("no host answers".to_owned()));
    let step = backup_step(Some(&run("j", failed(), &[])), nothing());
    assert_eq!(step, BackupStep::Failed("too many attempts".to_owned()));

    let going = run("j", JobOutcome::Going, &[]);
    assert!(matches!(
        backup_step(Some(&going), nothing()),
        BackupStep::Running { .. }
    ));
    assert!(matches!(
        backup_step(None, nothing()),
        BackupStep::Blocked(_)
    ));
}

#[test]
fn a_backup_whose_pod_is_gone_was_made_when_its_job_ended() {
    let done = run("j", JobOutcome::Succeeded, &[]);
    let seen = schedule(vec![done], vec![]);
    let made = backup_results(&seen, None).last_backup.unwrap();
    assert_eq!(made.finished, Time(at("2026-01-02T03:10:00Z")));
    assert_eq!((made.id, made.users), (None, None));
}

#[test]
fn a_schedule_tells_of_the_last_good_backup_and_of_what_failed_after_it() {
    let words = Said::Failed("no host answers".to_owned());
    let bad = run("chat-2", failed(), &[(CREATE, words)]);
    let made = reported("a", "2026-01-02T03:09:00Z");
    let good = run("chat-1", JobOutcome::Succeeded, &[(CREATE, made)]);
    let running = run("chat-3", JobOutcome::Running { trouble: None }, &[]);
    let seen = schedule(vec![running, bad, good.clone()], vec![]);
    let results = backup_results(&seen, None);
    assert_eq!(results.last_backup.unwrap().id.as_deref(), Some("a"));
    let (reason, said) = results.trouble.unwrap();
    assert_eq!(reason, Reason::BackupFailed);
    assert_eq!(said, "the last backup failed (Job chat-2): no host answers");
    // What was bad before a good one is over.
    let words = Said::Failed("no host answers".to_owned());
    let bad = run("chat-0", failed(), &[(CREATE, words)]);
    assert_eq!(
        backup_results(&schedule(vec![good, bad], vec![]), None).trouble,
        None
    );
}

#[test]
fn a_backup_counts_although_old_ones_could_not_be_deleted() {
    let made = reported("a", "2026-01-02T03:09:00Z");
    let busy = Said::Failed("another process is at work".to_owned());
    let seen = schedule(
        vec![run("chat-1", failed(), &[(CREATE, made), (PRUNE, busy)])],
        vec![],
    );
    let results = backup_results(&seen, None);
    assert_eq!(results.last_backup.unwrap().id.as_deref(), Some("a"));
    let (reason, said) = results.trouble.unwrap();
    assert_eq!(reason, Reason::PruneFailed);
    assert!(
        said.ends_with("(Job chat-1): another process is at work"),
        "{said}"
    );
}

#[test]
fn a_backup_that_is_damaged_is_told_although_new_ones_are_made() {
    let made = reported("b", "2026-01-02T03:09:00Z");
    let good = run("chat-1", JobOutcome::Succeeded, &[(CREATE, made)]);
    let damaged = Said::Failed("1 problems: chunk x".to_owned());
    let bad = run("chat-v", failed(), &[(VERIFY, damaged)]);
    let results = backup_results(&schedule(vec![good], vec![bad]), None);
    assert_eq!(results.trouble.unwrap().0, Reason::VerifyFailed);
    assert_eq!(results.last_verified, None);
}

#[test]
fn what_was_recorded_stays_when_its_job_is_gone_and_jobs_of_others_do_not_count() {
    let before = json!({ "lastBackup": { "finished": "2026-01-01T03:00:00Z", "id": "a" } });
    let before: ReadStateBackupScheduleStatus = serde_json::from_value(before).unwrap();
    let empty = schedule(vec![], vec![]);
    let kept = backup_results(&empty, Some(&before));
    assert_eq!(kept.last_backup, before.last_backup);

    let mut foreign = empty;
    let made = reported("x", "2026-01-02T03:00:00Z");
    let other = run("other", JobOutcome::Succeeded, &[(CREATE, made)]);
    foreign.runs = vec![("another".to_owned(), other)];
    let kept = backup_results(&foreign, Some(&before));
    assert_eq!(kept.last_backup, before.last_backup);
}

#[test]
fn a_backup_is_overdue_by_its_age_or_by_that_of_the_schedule() {
    let made = BackupMade {
        finished: Time(at("2026-01-02T03:00:00Z")),
        id: None,
        users: None,
        bytes: None,
        stored_bytes: None,
        new_stored_bytes: None,
    };
    let created = at("2026-01-01T00:00:00Z");
    let day = Duration::from_hours(24);
    let late = |made: Option<&BackupMade>, now: &str| overdue(made, created, day, at(now));
    assert_eq!(late(Some(&made), "2026-01-03T03:00:00Z"), None);
    let said = late(Some(&made), "2026-01-03T04:00:00Z").unwrap();
    assert!(said.contains("25 hours old"), "{said}");
    assert_eq!(late(None, "2026-01-01T23:00:00Z"), None);
    assert!(late(None, "2026-01-02T01:00:00Z").is_some());
}
