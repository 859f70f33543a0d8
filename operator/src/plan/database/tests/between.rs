//! Racks and nodes that come, go or are lost while the database is changed to another release, and records that are.

use readstates_operator_api::DatabaseUpgradeStage::{self, Restarting, Rewriting, Snapshotting};

use super::super::sim::{Sim, spec};

const OLD: &str = "cassandra:4.1.9";
const NEW: &str = "cassandra:5.0.9";

/// Racks of so many nodes, and the image.
fn racks(members: &[i32], image: &str) -> String {
    format!("{}  image: {image}\n", spec(2, members))
}

fn running(members: &[i32]) -> Sim {
    let mut sim = Sim::up(&racks(members, OLD));
    sim.log.clear();
    sim
}

fn stage(sim: &Sim) -> Option<DatabaseUpgradeStage> {
    sim.upgrade.as_ref().map(|upgrade| upgrade.stage)
}

/// Turns until this is so.
fn until(sim: &mut Sim, so: impl Fn(&Sim) -> bool) {
    for _ in 0..60 {
        if so(sim) {
            return;
        }
        sim.turn(usize::MAX);
    }
    panic!("{:?} {:?}: {}", sim.upgrade, sim.steps, sim.waits());
}

/// So many pods have the new image.
fn changed(pods: usize) -> impl Fn(&Sim) -> bool {
    move |sim| sim.pods.values().filter(|pod| pod.image == NEW).count() == pods
}

/// Every node runs the new release with rewritten data, and no record or snapshot of the upgrade is left.
fn assert_done(sim: &Sim, nodes: usize) {
    assert_eq!(
        sim.members().len(),
        nodes,
        "{:?}: {}",
        sim.upgrade,
        sim.waits()
    );
    assert_eq!(sim.images(), [NEW].into(), "{:?}", sim.steps);
    assert_eq!(
        (stage(sim), sim.snapshots().len()),
        (None, 0),
        "{}",
        sim.waits()
    );
}

#[test]
fn a_rack_that_is_asked_for_with_another_release_joins_with_the_one_that_runs() {
    let mut sim = running(&[2, 2]);
    sim.respec(&racks(&[2, 2, 1], NEW));
    sim.run();
    assert_done(&sim, 5);
    let joined = sim.log.iter().position(|l| l == "start chat-db-c-0");
    let restarted = sim.log.iter().position(|l| l.starts_with("restart"));
    assert!(joined < restarted, "{:?}", sim.log);
}

#[test]
fn a_rack_that_is_asked_for_in_the_middle_comes_at_the_end() {
    for pods in 1..=4 {
        let mut sim = running(&[2, 2]);
        sim.respec(&racks(&[2, 2], NEW));
        until(&mut sim, changed(pods));
        sim.respec(&racks(&[2, 2, 1], NEW));
        sim.run();
        assert_done(&sim, 5);
    }
}

#[test]
fn a_rack_deleted_before_the_first_restart_comes_back_as_it_was() {
    let mut sim = running(&[2, 2]);
    sim.may_be_down = 2;
    sim.respec(&racks(&[2, 2], NEW));
    until(&mut sim, |sim| stage(sim) == Some(Snapshotting));
    sim.delete_set("b");
    until(&mut sim, |sim| sim.members().len() == 4);
    assert_eq!(sim.images(), [OLD].into());
    sim.run();
    assert_done(&sim, 4);
}

#[test]
fn a_rack_deleted_in_the_middle_comes_back_with_the_new_release() {
    let mut sim = running(&[2, 2]);
    sim.may_be_down = 2;
    sim.respec(&racks(&[2, 2], NEW));
    until(&mut sim, changed(2));
    sim.delete_set("a");
    sim.run();
    assert_done(&sim, 4);
}

#[test]
fn a_node_that_waits_to_join_does_so_before_the_first_restart() {
    let mut sim = running(&[2, 2]);
    // It has too little room for its share.
    sim.free_bytes = 1 << 20;
    sim.respec(&racks(&[2, 3], OLD));
    sim.run();
    sim.consent.without_snapshot = Some(NEW.to_owned());
    sim.respec(&racks(&[2, 3], NEW));
    sim.run();
    assert_eq!(sim.images(), [OLD].into(), "{:?}", sim.steps);
    sim.free_bytes = 1 << 40;
    sim.run();
    assert_done(&sim, 5);
}

#[test]
fn a_node_that_does_not_say_how_much_is_free_is_waited_for() {
    let mut sim = running(&[2, 2]);
    sim.unreachable = vec!["chat-db-b-1".to_owned()];
    sim.respec(&racks(&[2, 2], NEW));
    sim.run();
    assert_eq!(stage(&sim), None);
    let decision = super::super::decide(&sim.cluster, &sim.world(), sim.clock);
    let words = decision.upkeep.unwrap().to_string();
    assert!(
        words.contains(
            "now chat-db-b-1: whether it has room for a snapshot is not known: timed out"
        ),
        "{words}"
    );
    sim.unreachable.clear();
    sim.run();
    assert_done(&sim, 4);
}

#[test]
fn a_record_lost_to_an_operator_that_knows_none_is_made_again_and_no_node_joins_meanwhile() {
    let mut sim = running(&[2, 2]);
    sim.respec(&racks(&[2, 2], NEW));
    until(&mut sim, changed(1));
    let first = sim.upgrade.take().unwrap().snapshot;
    for record in &mut sim.records {
        record.upgrade = None;
    }
    sim.respec(&racks(&[3, 2], NEW));
    until(&mut sim, |sim| stage(sim) == Some(Rewriting));
    assert!(sim.snapshots().contains(first.as_str()));
    assert!(!sim.log.contains(&"a has 3".to_owned()), "{:?}", sim.log);
    sim.run();
    assert_done(&sim, 5);
}

#[test]
fn a_release_that_is_refused_is_given_to_no_rack() {
    let mut sim = Sim::up(&racks(&[2, 2], NEW));
    sim.respec(&racks(&[2, 2, 1], OLD));
    sim.run();
    assert_eq!(sim.images(), [NEW].into());
    assert_ne!(stage(&sim), Some(Restarting));
}
