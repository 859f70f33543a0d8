//! A cluster that is made again over its volumes, some of which are lost.

use readstates_agent::wire::Disk;

use super::{ALL, trouble};
use crate::plan::database::sim::{Sim, spec, two_and_two};

/// A cluster of this spec that was deleted and is made again without these volumes.
fn without(spec: &str, lost: &[&str]) -> Sim {
    let mut sim = Sim::up(spec);
    sim.made_again(spec);
    for pod in lost {
        sim.disks.remove(*pod);
    }
    sim
}

fn assert_whole(sim: &Sim, nodes: usize) {
    let place = format!("{:?}: {} {}", sim.log, sim.waits(), trouble(sim));
    assert_eq!(sim.members().len(), nodes, "{place}");
    assert_eq!(sim.ring.len(), nodes, "{place}");
    assert!(
        sim.told().iter().all(|r| r.ends_with("Member")),
        "{:?}",
        sim.told()
    );
    assert_eq!(trouble(sim), "");
}

#[test]
fn the_one_that_is_lost_is_rebuilt_whichever_it_was() {
    for lost in ["chat-db-a-0", "chat-db-b-0", "chat-db-c-0"] {
        let mut sim = without(&spec(3, &[1, 1, 1]), &[lost]);
        sim.run();
        assert_whole(&sim, 3);
        let rebuilt = format!("repair all of {lost}");
        assert!(sim.log.contains(&rebuilt), "{:?}", sim.log);
    }
    for lost in ALL {
        let mut sim = without(&two_and_two(), &[lost]);
        sim.run();
        assert_whole(&sim, 4);
    }
}

#[test]
fn operators_that_die_at_every_write_rebuild_it_as_well() {
    for lost in ["chat-db-a-0", "chat-db-b-0"] {
        let mut sim = without(&spec(3, &[1, 1, 1]), &[lost]);
        sim.run_by(Sim::deadly_turn);
        assert_whole(&sim, 3);
    }
}

#[test]
fn a_disk_that_is_lost_while_the_status_is_emptied_is_rebuilt() {
    for lost in ALL {
        let mut sim = Sim::up(&two_and_two());
        sim.forgets();
        sim.lose_disk(lost);
        sim.run();
        assert_whole(&sim, 4);
    }
}

#[test]
fn with_one_copy_the_loss_has_to_be_accepted() {
    let mut sim = without(&spec(1, &[1, 1]), &["chat-db-b-0"]);
    sim.run();
    assert_eq!(sim.members(), ["chat-db-a-0"]);
    let words = trouble(&sim);
    let host_id = words.split('=').next_back().unwrap().to_owned();
    assert!(words.contains("no other node has a copy"), "{words}");
    sim.consent.data_loss = Some(host_id);
    sim.run();
    assert_whole(&sim, 2);
}

#[test]
fn of_two_that_are_lost_it_is_not_known_which_is_which() {
    let mut sim = without(&spec(3, &[1, 1, 1]), &["chat-db-b-0", "chat-db-c-0"]);
    sim.run();
    assert_eq!(sim.members(), ["chat-db-a-0"]);
    let down: Vec<_> = sim.ring.iter().filter(|n| !n.up).collect();
    let ids = format!("{}, {}", down[0].host_id, down[1].host_id);
    assert_eq!(
        trouble(&sim),
        format!(
            "chat-db-b-0: its disk has no data, and which of the nodes it was that the others miss is not known: they \
             miss 2. Put the volumes back, or have what is lost for good taken out of the database (nodetool removenode \
             in the pod of another node: {ids}); then it joins as a new node"
        )
    );
    sim.ring.retain(|n| n.up);
    sim.run();
    assert_whole(&sim, 3);
}

#[test]
fn a_node_that_was_not_there_before_is_not_taken_for_one_that_is_lost() {
    let mut sim = without(&spec(3, &[1, 1, 1]), &["chat-db-b-0"]);
    sim.respec(&spec(3, &[2, 1, 1]));
    sim.run();
    assert_eq!(sim.members().len(), 2);
    let words = trouble(&sim);
    assert!(
        words.contains("the disk of chat-db-b-0 has no data either"),
        "{words}"
    );
    // As it was first, and then with one more.
    sim.respec(&spec(3, &[1, 1, 1]));
    sim.run();
    let words = trouble(&sim);
    assert!(
        words.contains("delete that claim if its node had left"),
        "{words}"
    );
    sim.disks.remove("chat-db-a-1");
    sim.run();
    assert_whole(&sim, 3);
    sim.respec(&spec(3, &[2, 1, 1]));
    sim.run();
    assert_whole(&sim, 4);
}

#[test]
fn a_node_whose_rack_is_not_asked_for_any_more_is_not_replaced() {
    let mut sim = without(&spec(2, &[1, 1, 1]), &["chat-db-b-0"]);
    sim.respec(&spec(2, &[1, 1]));
    sim.run();
    assert_eq!(sim.members(), ["chat-db-a-0"]);
    let words = trouble(&sim);
    assert!(
        words.contains("the volume of data-chat-db-c-0 may have one"),
        "{words}"
    );
    sim.respec(&spec(2, &[1, 1, 1]));
    sim.run();
    assert_whole(&sim, 3);
}

#[test]
fn where_no_volume_has_data_the_first_node_does_not_begin_anew_by_itself() {
    let mut sim = without(&two_and_two(), &[]);
    for pod in ALL {
        sim.volume(pod).disk = Disk::Blank;
    }
    sim.run();
    assert!(sim.members().is_empty());
    assert!(sim.records.is_empty());
    let words = trouble(&sim);
    assert!(
        words.contains("the claim data-chat-db-b-0 of an earlier cluster is there"),
        "{words}"
    );
}

#[test]
fn the_volume_of_a_rack_that_is_not_asked_for_keeps_the_first_node_from_beginning_anew() {
    let mut sim = without(&spec(1, &[1, 1]), &["chat-db-a-0"]);
    sim.respec(&spec(1, &[1]));
    sim.run();
    assert!(sim.members().is_empty());
    let words = trouble(&sim);
    assert!(
        words.contains("the claim data-chat-db-b-0 of an earlier cluster is there"),
        "{words}"
    );
}

/// The StatefulSet makes their pods and claims at once.
#[test]
fn a_new_rack_whose_nodes_start_together_begins_with_its_first_one() {
    let scylla = two_and_two().replace("Cassandra", "Scylla");
    let mut sim = Sim::new(&scylla);
    sim.turn(usize::MAX);
    sim.turn(usize::MAX);
    assert!(sim.racks["a"].parallel);
    sim.run();
    assert_eq!(trouble(&sim), "");
    assert_eq!(sim.members(), ALL);
}
