use std::time::Duration;

use readstates_operator_api::{DatabaseNodeState, conditions::Reason};

use super::*;
use crate::{
    fixtures::{CASSANDRA, EXTERNAL, Scene, now, scene},
    plan::database::sim::{Sim, spec, two_and_two},
    world::Member,
};

const STOPPED: &str = "replicas: 3\nstopped: true";

/// A cluster whose cache has two pods, each with changes that are not in the database, that is to stop.
fn to_stop() -> Scene {
    let spec = CASSANDRA.replace("replicas: 3", STOPPED);
    let dirty = |member: &mut Member| member.dirty = 3;
    let scene = scene(&spec).ready_for_cache().running(2);
    scene.says("chat-0", dirty).says("chat-1", dirty)
}

fn cache_at(scene: &Scene) -> Option<i32> {
    scene.plan().cache.map(|cache| cache.replicas)
}

fn racks_at(scene: &Scene) -> Vec<i32> {
    scene.plan().racks.iter().map(|rack| rack.members).collect()
}

fn waits(scene: &Scene) -> String {
    let waiting = scene.plan().waiting;
    waiting.map_or_else(String::new, |w| w.to_string())
}

/// Its cache pods were told to stop, and are still there.
fn told(mut scene: Scene) -> Scene {
    scene.world.cache.as_mut().unwrap().replicas = 0;
    for pod in ["chat-0", "chat-1"] {
        scene = scene.pod(pod, |pod| {
            pod.terminating = true;
            pod.deadline = Some(now() + Duration::from_mins(5));
        });
    }
    scene
}

#[test]
fn the_cache_stops_first_and_the_database_when_no_process_is_left() {
    let scene = to_stop();
    assert_eq!(cache_at(&scene), Some(0));
    assert_eq!(racks_at(&scene), [1, 2]);
    assert_eq!(
        waits(&scene),
        "the cluster is stopped: chat-0, chat-1 write changes of 6 users and stop, then the database stops"
    );
    let scene = told(scene);
    assert_eq!((cache_at(&scene), racks_at(&scene)), (Some(0), vec![1, 2]));
    let scene = scene.gone("chat-0");
    assert_eq!(racks_at(&scene), [1, 2]);
    let scene = scene.gone("chat-1");
    assert_eq!((cache_at(&scene), racks_at(&scene)), (None, vec![0, 0]));
    assert_eq!(
        scene.plan().waiting.unwrap().reason(),
        Reason::DatabaseStopping
    );
}

#[test]
fn a_cache_pod_that_cannot_write_is_not_told_to_stop_however_long_it_takes() {
    let problem = |member: &mut Member| member.store_problem = Some("no host answers".to_owned());
    let scene = to_stop().says("chat-1", problem);
    assert_eq!(cache_at(&scene), Some(2));
    assert_eq!(scene.plan().waiting.unwrap().reason(), Reason::UnsafeToStop);
    // With nothing to write it may go.
    let scene = scene.says("chat-1", |member| member.dirty = 0);
    assert_eq!(cache_at(&scene), Some(0));
}

#[test]
fn a_machine_that_does_not_answer_holds_the_stop_for_its_pods_time_and_five_minutes() {
    let late = |scene: Scene, minutes: u64| {
        let deadline = now() - Duration::from_mins(minutes);
        let set = |pod: &mut PodSeen| pod.deadline = Some(deadline);
        scene.gone("chat-0").pod("chat-1", set)
    };
    assert_eq!(racks_at(&late(told(to_stop()), 4)), [1, 2]);
    let scene = late(told(to_stop()), 5);
    assert_eq!(racks_at(&scene), [0, 0]);
}

#[test]
fn a_wish_that_is_taken_back_is_taken_back_at_every_step() {
    let running = CASSANDRA.replace("replicas: 3", "replicas: 2");
    let mut scene = told(to_stop());
    scene.cluster = crate::fixtures::cluster(&running);
    assert_eq!((cache_at(&scene), racks_at(&scene)), (Some(2), vec![1, 2]));
}

#[test]
fn what_is_asked_for_meanwhile_changes_no_template() {
    let mut scene = to_stop();
    scene.cluster = crate::fixtures::cluster(
        &CASSANDRA.replace("replicas: 3", "replicas: 3\nstopped: true\nimage: mine:2"),
    );
    let template = scene.plan().cache.unwrap().template;
    assert!(matches!(template, Template::Held { .. }));
}

#[test]
fn a_cluster_on_somebody_elses_database_stops_its_cache_alone() {
    let spec = EXTERNAL.replace("replicas: 2", "replicas: 2\nstopped: true");
    let scene = scene(&spec)
        .schema(crate::world::JobOutcome::Succeeded)
        .running(2);
    assert_eq!(cache_at(&scene), Some(0));
    let scene = told(scene).gone("chat-0").gone("chat-1");
    let plan = scene.plan();
    assert_eq!((plan.cache, plan.waiting), (None, None));
}

#[test]
fn a_cluster_that_is_stopped_from_the_start_makes_nothing() {
    let spec = CASSANDRA.replace("replicas: 3", STOPPED);
    let plan = scene(&spec).plan();
    assert!(plan.racks.is_empty() && plan.cache.is_none() && !plan.schema_job);
}

fn stop(sim: &mut Sim, spec: &str) {
    sim.respec(&spec.replace("replicas: 3", STOPPED));
    sim.may_be_down = usize::MAX;
}

fn sizes(sim: &Sim) -> Vec<i32> {
    sim.racks.values().map(|set| set.replicas).collect()
}

#[test]
fn a_database_that_was_stopped_comes_back_with_the_nodes_it_had_and_their_disks() {
    let mut sim = Sim::up(&two_and_two());
    let (records, disks) = (sim.told(), sim.disks.len());
    stop(&mut sim, &two_and_two());
    sim.run();
    assert_eq!(sizes(&sim), [0, 0]);
    assert!(sim.pods.is_empty());
    assert_eq!((sim.told(), sim.disks.len()), (records.clone(), disks));
    assert_eq!(sim.waits(), "");

    sim.log.clear();
    sim.respec(&two_and_two());
    sim.run();
    assert_eq!(sizes(&sim), [2, 2]);
    assert_eq!(sim.members().len(), 4);
    assert_eq!(sim.told(), records);
    let joined = sim.log.iter().filter(|line| line.starts_with("replace"));
    assert_eq!(joined.count(), 0, "{:?}", sim.log);
}

#[test]
fn a_node_that_gives_its_data_away_does_so_before_the_database_stops() {
    let smaller = spec(2, &[2, 1]);
    for turns in 1..8 {
        let mut sim = Sim::up(&two_and_two());
        sim.respec(&smaller);
        for _ in 0..turns {
            sim.turn(usize::MAX);
        }
        stop(&mut sim, &smaller);
        sim.run();
        assert_eq!(sizes(&sim), [0, 0], "after {turns} turns: {:?}", sim.log);
        sim.respec(&smaller);
        sim.run();
        assert_eq!(sim.members().len(), 3, "after {turns} turns: {:?}", sim.log);
    }
}

#[test]
fn operators_that_die_in_the_middle_of_a_stop_and_a_start_lose_no_node() {
    let mut sim = Sim::up(&two_and_two());
    stop(&mut sim, &two_and_two());
    sim.run_by(Sim::deadly_turn);
    assert_eq!(sizes(&sim), [0, 0]);
    sim.respec(&two_and_two());
    sim.run_by(Sim::deadly_turn);
    assert_eq!(sim.members().len(), 4);
}

#[test]
fn a_cache_that_was_stopped_starts_when_a_majority_of_copies_can_answer() {
    use readstates_operator_api::DatabaseNode;
    let three = CASSANDRA.replace("replicationFactor: 2", "replicationFactor: 3");
    let mut scene = scene(&three).ready_for_cache().running(2).set(0);
    scene = scene.gone("chat-0").gone("chat-1");
    let record = |name: &str, rack: &str| DatabaseNode {
        name: name.to_owned(),
        rack: rack.to_owned(),
        host_id: Some(format!("id-{name}")),
        claim_uid: None,
        state: DatabaseNodeState::Member,
        since: k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now()),
        attempts: 0,
        error: None,
        cleanup: None,
        repair: None,
        last_repaired: None,
        upgrade: None,
    };
    let nodes = ["chat-db-a-0", "chat-db-b-0", "chat-db-b-1"];
    let racks = ["a", "b", "b"];
    scene.world.records = nodes.iter().zip(racks).map(|(n, r)| record(n, r)).collect();
    let up = |scene: &mut Scene, ready: usize| {
        let pods = nodes[..ready].iter().map(|name| PodSeen {
            name: (*name).to_owned(),
            ready: true,
            revision: Some("r1".to_owned()),
            ..PodSeen::default()
        });
        scene.world.database_pods = pods.collect();
    };
    up(&mut scene, 1);
    assert_eq!(cache_at(&scene), Some(0));
    assert!(waits(&scene).contains("rack b"), "{}", waits(&scene));
    up(&mut scene, 2);
    assert_eq!(cache_at(&scene), Some(3));
    // One that runs is not held up.
    up(&mut scene, 0);
    let scene = scene.set(2).joined(0, 1).joined(1, 1);
    assert_eq!(cache_at(&scene), Some(3));
}

#[test]
fn a_database_that_another_clusters_cache_pods_write_stops_after_they_have_left_it() {
    let mut scene = to_stop().set(0).gone("chat-0").gone("chat-1");
    scene.world.cache.as_mut().unwrap().existing = 0;
    scene.world.writers = vec!["old-0".to_owned()];
    assert_eq!(racks_at(&scene), [1, 2]);
    assert_eq!(scene.plan().waiting.unwrap().reason(), Reason::StillWritten);
    assert!(
        waits(&scene).starts_with("old-0 of another ReadStateCluster write"),
        "{}",
        waits(&scene)
    );
    scene.world.writers.clear();
    assert_eq!(racks_at(&scene), [0, 0]);
    // Its own cache comes first, whatever others do.
    let mut first = told(to_stop());
    first.world.writers = vec!["old-0".to_owned()];
    assert_eq!(
        first.plan().waiting.unwrap().reason(),
        Reason::CacheStopping
    );
}

#[test]
fn a_cache_whose_table_was_handed_over_does_not_start_while_the_move_is_there() {
    let mut scene = scene(CASSANDRA).ready_for_cache().running(2).set(0);
    scene = scene.gone("chat-0").gone("chat-1");
    assert_eq!(cache_at(&scene), Some(3));
    scene.world.handed_over = Some(Seen::Known(HandedOver {
        migration: "away".to_owned(),
        to: "mail".to_owned(),
    }));
    assert_eq!(cache_at(&scene), Some(0));
    assert_eq!(scene.plan().waiting.unwrap().reason(), Reason::HandedOver);
    assert!(
        waits(&scene).contains("over to ReadStateCluster mail"),
        "{}",
        waits(&scene)
    );
    // Somebody deleted its StatefulSet.
    scene.world.cache = None;
    assert_eq!(cache_at(&scene), Some(0));
}

#[test]
fn a_cache_does_not_start_while_it_is_not_known_whether_its_table_was_handed_over() {
    let mut scene = scene(CASSANDRA).ready_for_cache();
    scene.world.handed_over = Some(Seen::Unknown("away cannot be read".to_owned()));
    assert_eq!(cache_at(&scene), Some(0));
    assert_eq!(scene.plan().waiting.unwrap().reason(), Reason::NotObserved);
    assert!(
        waits(&scene).ends_with("handed the table over: away cannot be read"),
        "{}",
        waits(&scene)
    );
}
