//! Disks that are lost, or are not what they were.

use readstates_agent::wire::Disk;

use super::{ALL, trouble};
use crate::plan::database::sim::{Sim, spec, two_and_two};

#[test]
fn a_replacement_that_fails_is_tried_again() {
    let mut sim = Sim::up(&two_and_two());
    sim.lose_disk("chat-db-a-1");
    sim.join_fails = true;
    for _ in 0..60 {
        sim.turn(usize::MAX);
    }
    assert!(
        trouble(&sim).contains("has tried 3 times"),
        "{}",
        trouble(&sim)
    );
    sim.join_fails = false;
    for _ in 0..200 {
        sim.turn(usize::MAX);
    }
    assert_eq!(sim.members(), ALL);
}

#[test]
fn a_leaving_node_that_loses_its_disk_is_told() {
    let mut sim = Sim::up(&two_and_two());
    sim.respec(&spec(2, &[2, 1]));
    sim.turn(usize::MAX);
    assert_eq!(sim.told()[3], "chat-db-b-1 Leaving");
    let host_id = sim.records[3].host_id.clone().unwrap();
    sim.lose_disk("chat-db-b-1");
    sim.run();
    assert_eq!(
        trouble(&sim),
        format!(
            "chat-db-b-1 cannot leave the database any more, because its disk came back without its data: put its \
             volume back, or run nodetool removenode {host_id} in the pod of another node, which has the others copy \
             what it held; the rest goes on by itself"
        )
    );
    sim.ring.retain(|n| n.host_id != host_id);
    sim.run();
    assert_eq!(trouble(&sim), "");
    assert_eq!(sim.members(), ALL[..3]);
    assert_eq!(sim.racks["b"].replicas, 1);
}

#[test]
fn a_leaving_node_whose_machine_is_lost_is_told_after_some_minutes() {
    let mut sim = Sim::up(&two_and_two());
    sim.respec(&spec(2, &[2, 1]));
    sim.turn(usize::MAX);
    sim.lose_machine("chat-db-b-1");
    sim.turn(usize::MAX);
    assert_eq!(trouble(&sim), "");
    for _ in 0..40 {
        sim.turn(usize::MAX);
    }
    assert!(
        trouble(&sim).contains("has not found a machine for some minutes"),
        "{}",
        trouble(&sim)
    );
}

#[test]
fn a_disk_that_came_back_empty_is_rebuilt_in_place_of_the_node_that_it_was() {
    let mut sim = Sim::up(&two_and_two());
    sim.log.clear();
    sim.lose_disk("chat-db-a-1");
    sim.turn(usize::MAX);
    sim.turn(usize::MAX);
    assert!(
        sim.waits()
            .starts_with("the disk of chat-db-a-1 came back empty"),
        "{}",
        sim.waits()
    );
    sim.run();
    assert_eq!(sim.members(), ALL);
    assert_eq!(sim.ring.len(), 4);
    assert_eq!(sim.log, ["start chat-db-a-1", "repair all of chat-db-a-1"]);
}

#[test]
fn a_new_node_that_has_not_begun_lets_a_lost_one_come_back_first() {
    for lost in ["chat-db-a-1", "chat-db-b-0"] {
        let mut sim = Sim::up(&two_and_two());
        sim.respec(&spec(2, &[3, 2]));
        while !sim.told().contains(&"chat-db-a-2 Joining".to_owned()) {
            sim.turn(usize::MAX);
        }
        sim.log.clear();
        sim.lose_disk(lost);
        sim.run();
        let starts: Vec<_> = sim.log.iter().filter(|l| l.starts_with("start")).collect();
        assert_eq!(starts, [&format!("start {lost}"), "start chat-db-a-2"]);
        assert_eq!(sim.members().len(), 5);
    }
}

#[test]
fn without_a_copy_a_lost_disk_waits_for_somebody_to_accept_the_loss() {
    let mut sim = Sim::up(&spec(1, &[1, 1]));
    let host = sim.records[1].host_id.clone().unwrap();
    sim.lose_disk("chat-db-b-0");
    sim.run();
    assert_eq!(sim.members(), ["chat-db-a-0"]);
    assert!(
        trouble(&sim).contains("no other node has a copy"),
        "{}",
        trouble(&sim)
    );
    assert!(trouble(&sim).ends_with(&format!("readstates.dev/accept-data-loss={host}")));
    sim.consent.data_loss = Some("another".to_owned());
    sim.run();
    assert_eq!(sim.members().len(), 1);
    sim.consent.data_loss = Some(host);
    sim.run();
    assert_eq!(sim.members().len(), 2);
}

#[test]
fn the_only_node_begins_anew_once_the_loss_of_everything_is_accepted() {
    let mut sim = Sim::up(&spec(1, &[1]));
    let host = sim.records[0].host_id.clone().unwrap();
    sim.lose_disk("chat-db-a-0");
    sim.run();
    assert!(sim.members().is_empty());
    // No node remembers the ring.
    sim.ring.clear();
    sim.consent.data_loss = Some(host);
    sim.run();
    assert_eq!(sim.told(), ["chat-db-a-0 Member"]);
}

#[test]
fn two_disks_of_one_rack_are_replaced_one_after_the_other() {
    let mut sim = Sim::up(&two_and_two());
    sim.may_be_down = 2;
    sim.log.clear();
    sim.lose_disk("chat-db-a-0");
    sim.lose_disk("chat-db-a-1");
    sim.run();
    assert_eq!(
        sim.log,
        [
            "start chat-db-a-0",
            "start chat-db-a-1",
            "repair all of chat-db-a-0",
            "repair all of chat-db-a-1"
        ]
    );
    assert_eq!(sim.members(), ALL);
    assert_eq!(sim.ring.len(), 4);
}

#[test]
fn disks_of_two_racks_are_replaced_while_there_is_a_copy_of_everything() {
    let mut sim = Sim::up(&spec(3, &[1, 1, 1]));
    sim.may_be_down = 2;
    sim.log.clear();
    sim.lose_disk("chat-db-b-0");
    sim.lose_disk("chat-db-c-0");
    sim.run();
    assert_eq!(
        sim.log,
        [
            "start chat-db-b-0",
            "start chat-db-c-0",
            "repair all of chat-db-b-0",
            "repair all of chat-db-c-0"
        ]
    );
    assert_eq!(sim.members().len(), 3);
}

#[test]
fn disks_with_all_copies_of_something_wait_for_somebody_to_accept_the_loss() {
    let mut sim = Sim::up(&two_and_two());
    sim.may_be_down = 2;
    let host = sim.records[1].host_id.clone().unwrap();
    sim.lose_disk("chat-db-a-1");
    sim.lose_disk("chat-db-b-1");
    sim.run();
    assert_eq!(sim.members(), ["chat-db-a-0", "chat-db-b-0"]);
    assert_eq!(
        trouble(&sim),
        format!(
            "chat-db-a-1: its disk came back empty, as did those of chat-db-b-1, and some of what they held may have \
             no copy left: put the volumes back, or accept the loss with the annotation \
             readstates.dev/accept-data-loss={host}"
        )
    );
    sim.consent.data_loss = Some(host);
    sim.run();
    assert_eq!(sim.members(), ALL);
}

#[test]
fn a_disk_is_replaced_while_another_node_of_its_rack_is_away_for_good_and_not_before() {
    let mut sim = Sim::up(&spec(2, &[2, 2]));
    sim.may_be_down = 2;
    sim.log.clear();
    sim.lose_disk("chat-db-a-0");
    sim.lose_machine("chat-db-a-1");
    sim.run();
    assert_eq!(sim.members().len(), 3, "{}", sim.waits());
    // One of another rack may have the only other copy.
    let mut sim = Sim::up(&spec(2, &[2, 2]));
    sim.may_be_down = 2;
    sim.lose_disk("chat-db-a-1");
    sim.lose_machine("chat-db-b-1");
    for _ in 0..60 {
        sim.turn(usize::MAX);
    }
    assert_eq!(sim.members().len(), 2);
    assert!(
        sim.waits()
            .contains("may have no copy while chat-db-b-1 are away"),
        "{}",
        sim.waits()
    );
}

#[test]
fn data_that_nobody_signed_under_a_known_name_is_not_started() {
    let mut sim = Sim::up(&two_and_two());
    sim.stop("chat-db-a-1");
    sim.volume("chat-db-a-1").disk = Disk::Unmarked;
    sim.run();
    assert_eq!(sim.members().len(), 3);
    assert!(
        trouble(&sim).contains("is not signed as that of node"),
        "{}",
        trouble(&sim)
    );
}

#[test]
fn a_cluster_made_again_takes_its_nodes_as_they_come_back() {
    let mut sim = Sim::up(&spec(1, &[1]));
    sim.made_again(&spec(1, &[1]));
    sim.run();
    assert_eq!(sim.log, ["a has 1", "start chat-db-a-0"]);
    assert_eq!(sim.told(), ["chat-db-a-0 Member"]);

    let mut sim = Sim::up(&two_and_two());
    let ring: Vec<_> = sim.ring.iter().map(|n| n.host_id.clone()).collect();
    sim.made_again(&two_and_two());
    sim.run();
    assert_eq!(sim.members(), ALL, "{:?}", sim.log);
    let after: Vec<_> = sim.ring.iter().map(|n| n.host_id.clone()).collect();
    assert_eq!(after, ring);
}

#[test]
fn a_database_whose_operator_is_away_comes_back_by_itself() {
    let mut sim = Sim::up(&two_and_two());
    for pod in ALL {
        sim.stop(pod);
    }
    sim.log.clear();
    for _ in 0..8 {
        sim.move_on();
    }
    assert_eq!(sim.members(), ALL);
    assert_eq!(sim.log, [""; 0]);
}

#[test]
fn a_lost_record_is_made_again_while_the_nodes_run_and_when_they_come_back() {
    let mut sim = Sim::up(&two_and_two());
    sim.forgets();
    sim.stop("chat-db-b-0");
    sim.run();
    assert_eq!(sim.members(), ALL);
    assert!(sim.told().iter().all(|r| r.ends_with("Member")));
}

#[test]
fn a_signed_disk_of_another_node_is_not_started() {
    let known = |host_id: &str, pod: Option<&str>| Disk::Known {
        host_id: host_id.to_owned(),
        pod: pod.map(str::to_owned),
    };
    let mut sim = Sim::up(&two_and_two());
    let of = |sim: &Sim, at: usize| sim.records[at].host_id.clone().unwrap();
    // A copy of another node's volume; signed as an earlier agent did, too.
    let (own, others) = (of(&sim, 1), of(&sim, 2));
    for signed in [Some("chat-db-b-0"), None] {
        sim.stop("chat-db-a-1");
        sim.volume("chat-db-a-1").disk = known(&others, signed);
        sim.log.clear();
        sim.run();
        assert_eq!(sim.members(), ["chat-db-a-0", "chat-db-b-0", "chat-db-b-1"]);
        assert_eq!(
            trouble(&sim),
            format!(
                "chat-db-a-1: its disk holds node {others}, but the node on record is {own}: put the right volume \
                 back, or empty this one to have the node rebuilt from the others"
            )
        );
        assert_eq!(sim.log, [""; 0]);
    }
    // Emptied, it is rebuilt; and the volume that it had before is not its own any more.
    sim.stop("chat-db-a-1");
    sim.volume("chat-db-a-1").disk = Disk::Blank;
    sim.run();
    assert_eq!(sim.members(), ALL);
    sim.stop("chat-db-a-1");
    sim.volume("chat-db-a-1").disk = known(&own, Some("chat-db-a-1"));
    sim.run();
    assert_eq!(sim.members().len(), 3);
    assert!(trouble(&sim).contains(&own), "{}", trouble(&sim));
}

#[test]
fn a_new_node_on_the_signed_disk_of_some_other_database_is_not_started() {
    let mut sim = Sim::up(&two_and_two());
    sim.respec(&spec(2, &[3, 2]));
    while !sim.pods.contains_key("chat-db-a-2") {
        sim.turn(usize::MAX);
    }
    sim.volume("chat-db-a-2").disk = Disk::Known {
        host_id: "id-of-theirs".to_owned(),
        pod: Some("chat-db-a-2".to_owned()),
    };
    sim.run();
    assert_eq!(sim.members(), ALL);
    assert!(
        trouble(&sim).contains("which no other node knows"),
        "{}",
        trouble(&sim)
    );
}

#[test]
fn an_unsigned_disk_that_is_not_the_one_that_is_missed_is_not_started() {
    let mut sim = Sim::up(&two_and_two());
    sim.respec(&spec(2, &[3, 2]));
    sim.turn(usize::MAX);
    sim.turn(usize::MAX);
    // The new pod found the volume of some other database.
    sim.records.retain(|r| r.name != "chat-db-a-2");
    sim.volume("chat-db-a-2").disk = Disk::Unmarked;
    sim.log.clear();
    sim.run();
    assert_eq!(sim.members(), ALL);
    assert!(
        trouble(&sim).contains("they miss none"),
        "{}",
        trouble(&sim)
    );
    assert_eq!(sim.log.len(), 0, "{:?}", sim.log);
}
