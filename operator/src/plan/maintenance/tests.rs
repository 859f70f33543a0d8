use std::time::Duration;

use readstates_operator_api::conditions::Reason;

use crate::{
    fixtures::{CASSANDRA, Scene, now, scene, template},
    plan::{MemberAction, database::sim::Sim},
    templates::Template,
};

/// Open for an hour from 01:00 on. It is Friday, 2027-01-15, 08:00.
const NIGHTS: &str = "replicas: 3\nmaintenance: { windows: [{ start: '01:00', duration: 1h }] }";
const OPEN: &str = "replicas: 3\nmaintenance: { windows: [{ start: '07:30', duration: 1h }] }";
const PACED: &str = "replicas: 3\nmaintenance: { pace: 2h }";

/// Three pods of an older template.
fn outdated(maintenance: &str) -> Scene {
    let spec = CASSANDRA.replace("replicas: 3", maintenance);
    let scene = scene(&spec).ready_for_cache().running(3);
    scene.outdated(&["chat-0", "chat-1", "chat-2"])
}

fn drained(scene: &Scene) -> Option<String> {
    match scene.plan().cache?.action? {
        MemberAction::Drain { pod, .. } => Some(pod.name),
        other => panic!("{other:?}"),
    }
}

fn waits(scene: &Scene) -> String {
    let waiting = scene.plan().waiting;
    waiting.map_or_else(String::new, |w| w.to_string())
}

#[test]
fn a_cache_pod_that_serves_is_restarted_in_a_window_and_what_it_waits_for_is_said() {
    assert_eq!(drained(&outdated("replicas: 3")).as_deref(), Some("chat-2"));
    assert_eq!(drained(&outdated(OPEN)).as_deref(), Some("chat-2"));
    let scene = outdated(NIGHTS);
    assert_eq!(drained(&scene), None);
    assert_eq!(
        waits(&scene),
        "chat-2 is restarted when its maintenance window opens, at 2027-01-16T01:00:00Z"
    );
    let reason = scene.plan().waiting.unwrap().reason();
    assert_eq!(reason, Reason::MaintenancePending);
}

#[test]
fn what_heals_or_was_begun_or_scales_waits_for_no_window() {
    // One that is broken.
    let plan = outdated(NIGHTS).down("chat-1").plan();
    assert!(
        plan.cache.unwrap().action.is_some()
            || plan.waiting.unwrap().reason() != Reason::MaintenancePending
    );
    // One that drains already.
    let scene = outdated(NIGHTS).says("chat-1", |m| {
        m.ownership.draining = true;
        m.dirty = 0;
    });
    assert_ne!(
        scene.plan().waiting.unwrap().reason(),
        Reason::MaintenancePending
    );
    // Fewer and more pods.
    let mut scene = outdated(NIGHTS);
    scene.cluster.replicas = 2;
    assert_eq!(drained(&scene).as_deref(), Some("chat-2"));
    scene.cluster.replicas = 4;
    assert_eq!(scene.plan().cache.unwrap().replicas, 4);
}

#[test]
fn the_next_pod_waits_until_the_one_before_is_old_enough() {
    // Fixture pods are an hour old.
    let scene = outdated(PACED);
    assert_eq!(drained(&scene), None);
    assert!(
        waits(&scene).contains("the pace of its maintenance allows the next one"),
        "{}",
        waits(&scene)
    );
    let mut old = scene;
    for pod in &mut old.world.cache_pods {
        pod.created = Some(now() - Duration::from_hours(2));
    }
    assert_eq!(drained(&old).as_deref(), Some("chat-2"));
    // A clock that is wrong holds nothing up.
    for pod in &mut old.world.cache_pods {
        pod.created = Some(now() + Duration::from_hours(2));
    }
    assert_eq!(drained(&old).as_deref(), Some("chat-2"));
}

#[test]
fn a_request_to_restart_marks_the_template_and_brings_no_other_one() {
    let mut scene = scene(CASSANDRA).ready_for_cache().running(3);
    assert_eq!(scene.plan().cache.unwrap().restarted, None);
    scene.world.consent.restart_cache = Some("now".to_owned());
    let plan = scene.plan().cache.unwrap();
    assert_eq!(plan.restarted.as_deref(), Some("now"));
    // With an update that waits for consent, the pods stay what they are.
    let set = scene.world.cache.as_mut().unwrap();
    set.template_hash = Some("of another operator".to_owned());
    let plan = scene.plan().cache.unwrap();
    assert!(matches!(plan.template, Template::Held { .. }) && plan.update.is_some());
    assert_eq!(plan.restarted.as_deref(), Some("now"));
}

#[test]
fn a_request_that_is_taken_away_restarts_nothing_once_more() {
    let mut scene = scene(CASSANDRA).ready_for_cache().running(3);
    let set = scene.world.cache.as_mut().unwrap();
    set.template = Some(Box::new(template(Some("now"))));
    assert_eq!(
        scene.plan().cache.unwrap().restarted.as_deref(),
        Some("now")
    );
}

fn restarts(sim: &Sim) -> Vec<&str> {
    let restarts = sim
        .log
        .iter()
        .filter_map(|line| line.strip_prefix("restart "));
    restarts.collect()
}

const ALL: [&str; 4] = ["chat-db-a-1", "chat-db-a-0", "chat-db-b-1", "chat-db-b-0"];

fn sorted(mut names: Vec<&str>) -> Vec<&str> {
    names.sort_unstable();
    names
}

#[test]
fn database_pods_are_restarted_by_request_one_at_a_time_and_once() {
    let mut sim = Sim::up(&crate::plan::database::sim::two_and_two());
    sim.log.clear();
    sim.consent.restart_database = Some("one".to_owned());
    sim.run();
    assert_eq!(sorted(restarts(&sim)), sorted(ALL.to_vec()));
    assert_eq!(sim.members().len(), 4);
    sim.log.clear();
    sim.consent.restart_database = None;
    sim.run();
    assert!(sim.log.is_empty(), "{:?}", sim.log);
    sim.consent.restart_database = Some("two".to_owned());
    sim.run_by(Sim::deadly_turn);
    assert_eq!(sorted(restarts(&sim)), sorted(ALL.to_vec()));
}

#[test]
fn a_restart_that_is_asked_for_while_an_update_waits_brings_no_update() {
    let mut sim = Sim::up(&crate::plan::database::sim::two_and_two());
    sim.cluster.agent_image = "operator:2".to_owned();
    let wanted = sim.wanted("a");
    sim.log.clear();
    sim.consent.restart_database = Some("one".to_owned());
    sim.run();
    assert_eq!(sorted(restarts(&sim)), sorted(ALL.to_vec()));
    assert!(sim.racks.values().all(|set| set.template != wanted));
    assert!(sim.plan().database.update.is_some());
}

#[test]
fn database_pods_wait_for_their_window_and_nothing_waits_for_them() {
    let two = crate::plan::database::sim::two_and_two();
    let mut sim = Sim::up(&two.replace("replicas: 3", NIGHTS));
    sim.log.clear();
    sim.consent.restart_database = Some("one".to_owned());
    sim.run();
    assert!(sim.log.is_empty(), "{:?}", sim.log);
    // The schema Job comes first among what is waited for, and may run.
    assert!(sim.plan().schema_job, "{}", sim.waits());
    sim.also("  image: mine:2\n");
    sim.run();
    assert!(sim.log.is_empty(), "{:?}", sim.log);
    assert!(sim.plan().schema_job, "{}", sim.waits());
    // More nodes join meanwhile, with the release that the others run.
    let more = sim
        .spec
        .replace("{ name: b, members: 2 }", "{ name: b, members: 3 }");
    sim.respec(&more);
    sim.run();
    assert_eq!(sim.members().len(), 5);

    sim.log.clear();
    sim.respec(&more.replace(NIGHTS, "replicas: 3"));
    sim.run();
    assert_eq!(restarts(&sim).len(), 5, "{:?}", sim.log);
    assert_eq!(sim.members().len(), 5);
}
