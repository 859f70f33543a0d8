use std::time::Duration;

use readstates_operator_api::conditions::Reason;

use super::*;
use crate::{
    fixtures::{CASSANDRA, Scene, now, scene},
    plan::{MemberAction, Plan, database::sim::Sim},
};

const NIGHTS: &str = "replicas: 3\nmaintenance: { windows: [{ start: '01:00', duration: 1h }] }";

fn holder(name: &str) -> Holder {
    Holder {
        name: format!("talk/{name}"),
        since: Some(now()),
        degraded: name == "ill",
    }
}

/// So many may restart pods, and these do.
fn places(limit: usize, ours: bool, others: &[&str]) -> Places {
    Places {
        limit: Some(limit),
        ours,
        others: Some(others.iter().map(|name| holder(name)).collect()),
    }
}

fn running(spec: &str) -> Scene {
    scene(spec).ready_for_cache().running(3)
}

/// Three pods of an older template.
fn outdated(places: Places) -> Scene {
    let mut scene = running(CASSANDRA).outdated(&["chat-0", "chat-1", "chat-2"]);
    scene.world.places = places;
    scene
}

fn drains(plan: &Plan) -> bool {
    let action = plan.cache.as_ref().unwrap().action.as_ref();
    match action {
        Some(MemberAction::Drain { .. }) => true,
        None => false,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_pod_is_restarted_once_it_is_recorded_that_the_cluster_restarts_pods() {
    let plan = outdated(places(2, false, &["a"])).plan();
    assert!(!drains(&plan));
    assert_eq!(plan.rollout, RolloutStep::Takes);
    let plan = outdated(places(2, true, &["a"])).plan();
    assert!(drains(&plan));
    assert_eq!(plan.rollout, RolloutStep::Goes);
    // Without a limit at once.
    let plan = outdated(Places::default()).plan();
    assert!(drains(&plan));
    assert_eq!(plan.rollout, RolloutStep::Goes);
}

#[test]
fn the_clusters_that_are_waited_for_are_named_and_which_of_them_is_in_trouble() {
    let scene = outdated(places(5, false, &["ill", "b", "c", "d", "e"]));
    let plan = scene.plan();
    assert!(!drains(&plan));
    let waiting = plan.waiting.unwrap();
    assert_eq!(waiting.reason(), Reason::WaitsForOtherClusters);
    let words = "chat-2 is restarted when fewer than 5 other clusters restart pods: talk/ill (since \
                 2027-01-15T08:00:00Z, Degraded), talk/b (since 2027-01-15T08:00:00Z), talk/c (since \
                 2027-01-15T08:00:00Z) and 2 more do; one that cannot go on keeps its place until it is cured, or \
                 spec.paused is set there";
    assert_eq!(waiting.to_string(), words);
    let words = words.to_owned();
    assert_eq!(plan.rollout, RolloutStep::Waits { words });

    let mut unread = scene;
    unread.world.places.others = None;
    let plan = unread.plan();
    assert!(matches!(plan.rollout, RolloutStep::Waits { .. }));
    let words = plan.waiting.unwrap().to_string();
    assert!(
        words.contains("when the operator has read all clusters"),
        "{words}"
    );
}

#[test]
fn a_limit_that_is_lowered_takes_no_place_away() {
    let plan = outdated(places(1, true, &["a", "b"])).plan();
    assert!(drains(&plan));
    assert_eq!(plan.rollout, RolloutStep::Goes);
}

#[test]
fn what_heals_and_what_was_begun_needs_no_place() {
    let full = || places(1, false, &["a"]);
    let plan = outdated(full()).down("chat-1").plan();
    let action = plan.cache.unwrap().action;
    assert!(
        matches!(action, Some(MemberAction::Delete { .. })),
        "{action:?}"
    );
    let drained = outdated(full()).says("chat-1", |m| {
        m.ownership.draining = true;
        m.ownership.owned = 0;
    });
    assert_ne!(
        drained.plan().waiting.unwrap().reason(),
        Reason::WaitsForOtherClusters
    );
}

#[test]
fn a_place_is_kept_until_the_last_pod_serves_again() {
    let has_one = |mut scene: Scene| {
        scene.world.places = places(1, true, &[]);
        scene.plan().rollout
    };
    let goes = RolloutStep::Goes;
    assert_eq!(has_one(running(CASSANDRA).outdated(&["chat-0"])), goes);
    // The last one comes back, or cannot.
    assert_eq!(has_one(running(CASSANDRA).down("chat-0")), goes);
    let mut missing = running(CASSANDRA).gone("chat-0");
    missing.world.cache.as_mut().unwrap().ready = 2;
    assert_eq!(has_one(missing), goes);
    let receives = running(CASSANDRA).says("chat-0", |m| m.ownership.receiving = 1);
    assert_eq!(has_one(receives), goes);
    let mut unseen = running(CASSANDRA);
    unseen.world.racks.get_mut("b").unwrap().observed = false;
    assert_eq!(has_one(unseen), goes);
    assert_eq!(has_one(running(CASSANDRA)), RolloutStep::Idle);
    // Without one, a pod that is not ready is no rollout.
    let mut down = running(CASSANDRA).down("chat-0");
    for limit in [None, Some(1)] {
        down.world.places.limit = limit;
        assert_eq!(down.plan().rollout, RolloutStep::Idle);
    }
}

#[test]
fn a_cluster_that_waits_for_its_window_its_pace_or_a_person_has_no_place() {
    let full = [places(1, false, &["a"]), places(1, true, &[])];
    for places in full {
        for maintenance in [NIGHTS, "replicas: 3\nmaintenance: { pace: 2h }"] {
            let spec = CASSANDRA.replace("replicas: 3", maintenance);
            let mut scene = running(&spec).outdated(&["chat-0"]);
            scene.world.places = places.clone();
            let plan = scene.plan();
            assert_eq!(plan.rollout, RolloutStep::Idle, "{maintenance}");
            assert_eq!(plan.waiting.unwrap().reason(), Reason::MaintenancePending);
        }
        let mut paused = outdated(places);
        paused.cluster.paused = true;
        assert_eq!(paused.plan().rollout, RolloutStep::Idle);
    }
}

fn restarts(sim: &Sim) -> usize {
    sim.log
        .iter()
        .filter(|line| line.starts_with("restart "))
        .count()
}

#[test]
fn database_pods_wait_for_other_clusters_and_nothing_waits_for_them() {
    let mut sim = Sim::up(&crate::plan::database::sim::two_and_two());
    sim.log.clear();
    sim.places = places(1, false, &["a"]);
    sim.also("  image: mine:2\n");
    sim.run();
    assert!(sim.log.is_empty(), "{:?}", sim.log);
    let plan = sim.plan();
    assert!(plan.schema_job, "{}", sim.waits());
    assert!(matches!(plan.rollout, RolloutStep::Waits { .. }));
    // A place is free, and not recorded yet.
    sim.places = places(1, false, &[]);
    sim.run();
    assert!(sim.log.is_empty(), "{:?}", sim.log);
    assert_eq!(sim.plan().rollout, RolloutStep::Takes);

    sim.places = places(1, true, &[]);
    let mut kept = 0;
    for _ in 0..200 {
        if sim.plan().rollout == RolloutStep::Idle {
            break;
        }
        kept += 1;
        sim.turn(usize::MAX);
    }
    assert_eq!(restarts(&sim), 4, "{:?} after {kept} turns", sim.log);
    assert_eq!(sim.plan().rollout, RolloutStep::Idle);
    sim.run();
    assert_eq!(restarts(&sim), 4, "the place was kept to the end");
}

#[test]
fn a_pace_gives_the_place_to_another_cluster_between_two_pods() {
    let paced = "replicas: 3\nmaintenance: { pace: 2h }";
    let mut sim = Sim::up(&crate::plan::database::sim::two_and_two().replace("replicas: 3", paced));
    sim.clock += Duration::from_hours(3);
    sim.log.clear();
    sim.consent.restart_database = Some("one".to_owned());
    sim.places = places(1, true, &[]);
    sim.run();
    assert_eq!(restarts(&sim), 1, "{:?}", sim.log);
    assert_eq!(sim.plan().rollout, RolloutStep::Idle);
}
