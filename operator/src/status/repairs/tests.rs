use jiff::SignedDuration;
use readstates_agent::wire::{Mode, View};
use readstates_operator_api::PendingJob;

use super::*;
use crate::{
    apply::Applied,
    fixtures::{CASSANDRA, Scene, now, scene},
    status::tests::told,
};

fn days(days: i64) -> Time {
    Time(now() - SignedDuration::from_hours(24 * days))
}

/// A cluster whose one recorded node was last repaired so many days ago.
fn repaired(spec: &str, ago: Option<i64>) -> Scene {
    let mut scene = scene(spec).ready_for_cache().running(3);
    scene.world.records = vec![DatabaseNode {
        name: "chat-db-a-0".to_owned(),
        rack: "a".to_owned(),
        host_id: Some("id-1".to_owned()),
        claim_uid: None,
        state: DatabaseNodeState::Member,
        since: days(30),
        attempts: 0,
        error: None,
        cleanup: None,
        repair: None,
        last_repaired: ago.map(days),
        upgrade: None,
    }];
    scene
}

fn said(scene: &Scene) -> Option<String> {
    let status = told(scene, &Applied::All, None);
    let conditions = status.conditions.iter();
    let found = conditions.filter(|c| c.type_ == "Repaired");
    found
        .map(|c| format!("{} {}: {}", c.status, c.reason, c.message))
        .next()
}

#[track_caller]
fn assert_says(scene: &Scene, words: &[&str]) {
    let said = said(scene).unwrap();
    assert!(words.iter().all(|w| said.contains(w)), "{said}");
}

#[test]
fn a_database_that_was_repaired_in_time_says_up_to_when() {
    let scene = repaired(CASSANDRA, Some(3));
    assert_says(&scene, &["True Repaired", "2027-01-12T08:00:00Z"]);
    let status = told(&scene, &Applied::All, None);
    assert_eq!(status.last_repaired, Some(days(3)));
    // One that never was, as of the release before, has failed in nothing.
    let scene = repaired(CASSANDRA, None);
    assert_says(&scene, &["True Repaired", "not due"]);
    let status = told(&scene, &Applied::All, None);
    assert_eq!(status.last_repaired, None);
}

#[test]
fn a_repair_that_is_too_old_is_told_before_deleted_data_comes_back() {
    assert_says(
        &repaired(CASSANDRA, Some(10)),
        &["False RepairOverdue", "chat-db-a-0"],
    );
}

#[test]
fn a_repair_that_fails_is_told_after_three_attempts() {
    let mut scene = repaired(CASSANDRA, Some(8));
    let failed = |attempts| PendingJob {
        attempts,
        told: Some(days(0)),
        error: Some("Endpoint not alive".to_owned()),
        ..PendingJob::since(days(1))
    };
    scene.world.records[0].repair = Some(failed(2));
    assert_says(&scene, &["True Repaired"]);
    scene.world.records[0].repair = Some(failed(3));
    assert_says(
        &scene,
        &["False RepairFailed", "3 attempts: Endpoint not alive"],
    );
    // While the fourth one runs.
    scene.world.records[0].repair = Some(PendingJob {
        error: None,
        ..failed(4)
    });
    assert_says(&scene, &["False RepairFailed", "one more is under way"]);
}

#[test]
fn a_rebuilt_node_that_is_not_repaired_is_told() {
    let mut scene = repaired(CASSANDRA, None);
    scene.world.records[0].state = DatabaseNodeState::Repairing;
    scene.world.records[0].repair = Some(PendingJob::since(days(0)));
    assert_says(&scene, &["False NodeRepairing", "chat-db-a-0"]);
}

#[test]
fn agents_that_cannot_repair_are_told_and_not_taken_for_a_failure() {
    let mut scene = repaired(CASSANDRA, Some(3));
    let view = View {
        host_id: Some("id-1".to_owned()),
        mode: Mode::Normal,
        progress: None,
        cql: true,
        nodes: Vec::new(),
        free_bytes: 0,
        age_seconds: 0,
        decommission: None,
        cleans_up: true,
        cleanup: None,
        repairs: false,
        repair: None,
        upgrades: true,
        upgrade: None,
        flushes: true,
        flush: None,
    };
    let report = Report {
        pod_uid: "uid-1".to_owned(),
        identity: None,
        phase: Phase::Running(view),
    };
    let reports = &mut scene.world.nodes.reports;
    reports.insert("chat-db-a-0".to_owned(), Seen::Known(report));
    assert_says(
        &scene,
        &["Unknown RepairUnsupported", "chat-db-a-0", "RequiresUpdate"],
    );
}

#[test]
fn what_is_not_repaired_says_so_or_nothing() {
    let off = CASSANDRA.replace("  engine:", "  repair: { enabled: false }\n  engine:");
    assert_says(&repaired(&off, None), &["Unknown RepairDisabled"]);
    let one = CASSANDRA.replace("replicationFactor: 2", "replicationFactor: 1");
    assert_eq!(said(&repaired(&one, None)), None);
}
