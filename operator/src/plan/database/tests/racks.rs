//! A rack is emptied, and then removed.

use super::trouble;
use crate::plan::database::{
    decide,
    sim::{Sim, spec, two_and_two},
};

/// What the database waits for, in words.
fn waits(sim: &Sim) -> String {
    let wait = decide(&sim.cluster, &sim.world(), sim.clock).waiting;
    wait.map_or_else(String::new, |wait| wait.to_string())
}

#[test]
fn a_rack_with_no_members_is_left_by_its_nodes_and_can_be_removed() {
    let mut sim = Sim::up(&two_and_two());
    sim.log.clear();
    sim.respec(&spec(2, &[2, 0]));
    sim.run();
    assert_eq!(
        sim.log,
        [
            "leave chat-db-b-1",
            "b has 1",
            "leave chat-db-b-0",
            "b has 0"
        ]
    );
    assert_eq!(sim.members(), ["chat-db-a-0", "chat-db-a-1"]);
    assert_eq!(waits(&sim), "");
    sim.respec(&spec(2, &[2]));
    sim.run();
    assert_eq!((waits(&sim), trouble(&sim)), (String::new(), String::new()));
    assert_eq!(sim.members().len(), 2);
}

#[test]
fn a_rack_is_emptied_once_others_have_room_for_its_copies() {
    let mut sim = Sim::up(&spec(3, &[2, 1]));
    sim.respec(&spec(3, &[3, 0]));
    sim.run();
    // The new node of the first rack comes first.
    assert_eq!(sim.members(), ["chat-db-a-0", "chat-db-a-1", "chat-db-a-2"]);
    assert_eq!(sim.racks["b"].replicas, 0);
}

#[test]
fn a_rack_that_is_removed_with_its_nodes_is_asked_for_back() {
    let mut sim = Sim::up(&two_and_two());
    sim.respec(&spec(2, &[2]));
    sim.run();
    let words = trouble(&sim);
    assert!(
        words.contains("put the rack back with members: 0"),
        "{words}"
    );
    assert_eq!(sim.members().len(), 4, "they serve");
    sim.respec(&spec(2, &[2, 0]));
    sim.run();
    assert_eq!(trouble(&sim), "");
    assert_eq!(sim.members().len(), 2);
}

#[test]
fn a_rack_that_is_removed_before_its_last_pod_has_gone_is_asked_for_back() {
    let mut sim = Sim::up(&two_and_two());
    sim.respec(&spec(2, &[2, 0]));
    while !sim.told().contains(&"chat-db-b-0 Left".to_owned()) {
        sim.turn(usize::MAX);
    }
    sim.respec(&spec(2, &[2]));
    sim.run();
    let words = trouble(&sim);
    assert!(words.contains("still has chat-db-b-0"), "{words}");
    sim.respec(&spec(2, &[2, 0]));
    sim.run();
    sim.respec(&spec(2, &[2]));
    sim.run();
    assert_eq!((waits(&sim), trouble(&sim)), (String::new(), String::new()));
}

#[test]
fn a_rack_is_emptied_by_operators_that_die_at_every_write() {
    let mut sim = Sim::up(&two_and_two());
    sim.respec(&spec(2, &[2, 0]));
    sim.run_by(Sim::deadly_turn);
    assert_eq!(sim.members(), ["chat-db-a-0", "chat-db-a-1"]);
    assert_eq!(sim.racks["b"].replicas, 0);
}
