//! Transitions and refusals, each as a database in memory goes through them.

use super::sim::{Sim, spec, two_and_two};
use crate::plan::DatabaseTrouble;

mod between;
mod disks;
mod joins;
mod racks;
mod repairs;
mod upgrades;
mod volumes_lost;
mod volumes_of;

pub(super) const ALL: [&str; 4] = ["chat-db-a-0", "chat-db-a-1", "chat-db-b-0", "chat-db-b-1"];

fn trouble(sim: &Sim) -> String {
    let trouble = sim.plan().database.trouble;
    trouble.map_or_else(String::new, |t: DatabaseTrouble| t.to_string())
}

#[test]
fn nodes_join_one_after_another_and_the_first_one_alone_begins() {
    let sim = Sim::up(&two_and_two());
    let starts: Vec<_> = sim.log.iter().filter(|l| l.starts_with("start")).collect();
    assert_eq!(
        starts,
        [
            "start chat-db-a-0",
            "start chat-db-a-1",
            "start chat-db-b-0",
            "start chat-db-b-1"
        ]
    );
    assert_eq!(sim.members(), ALL);
    assert!(
        sim.told().iter().all(|r| r.ends_with("Member")),
        "{:?}",
        sim.told()
    );
}

#[test]
fn nothing_is_ordered_before_it_is_on_record() {
    let mut sim = Sim::new(&two_and_two());
    sim.turn(usize::MAX);
    // The pod waits; the record is decided on, the order not yet given.
    let plan = sim.plan();
    assert_eq!(plan.database.records.len(), 1);
    assert_eq!(plan.database.orders, []);
}

#[test]
fn a_new_node_waits_until_all_others_see_each_other_up() {
    let mut sim = Sim::up(&two_and_two());
    sim.unreachable = vec!["chat-db-b-1".to_owned()];
    sim.respec(&spec(2, &[3, 2]));
    sim.run();
    assert_eq!(
        sim.waits(),
        "chat-db-a-2 joins the database when all nodes see each other up: chat-db-b-1 cannot be asked: timed out"
    );
    assert_eq!(sim.members(), ALL);
    sim.unreachable.clear();
    sim.run();
    assert_eq!(sim.members().len(), 5);
}

#[test]
fn the_last_node_of_a_rack_leaves_and_its_volume_stays_unless_asked() {
    let mut sim = Sim::up(&two_and_two());
    sim.log.clear();
    sim.respec(&spec(2, &[2, 1]));
    sim.run();
    assert_eq!(sim.log, ["leave chat-db-b-1", "b has 1"]);
    assert_eq!(sim.members(), ALL[..3]);
    assert!(sim.disks.contains_key("chat-db-b-1"));
    assert_eq!(sim.told()[3], "chat-db-b-1 Left");
    assert_eq!(
        sim.plan().waiting.unwrap().reason().as_str(),
        "SchemaPending"
    );
}

#[test]
fn a_claim_is_deleted_last_and_only_where_the_spec_says_so() {
    let mut sim = Sim::up(&two_and_two());
    sim.log.clear();
    sim.respec(&format!("{}  reclaim: Delete\n", spec(2, &[2, 1])));
    sim.run();
    assert_eq!(
        sim.log,
        ["leave chat-db-b-1", "b has 1", "delete data-chat-db-b-1"]
    );
    assert_eq!(sim.told().len(), 3);
}

#[test]
fn nobody_waits_for_a_volume_that_does_not_go() {
    let mut sim = Sim::up(&two_and_two());
    sim.respec(&format!("{}  reclaim: Delete\n", spec(2, &[2, 1])));
    while !sim.told().contains(&"chat-db-b-1 Left".to_owned()) {
        sim.turn(usize::MAX);
    }
    sim.keeps_claims = true;
    sim.lose_disk("chat-db-a-1");
    sim.run();
    assert_eq!(sim.members(), ALL[..3]);
    assert!(sim.waits().ends_with("its volume goes"), "{}", sim.waits());
}

#[test]
fn a_place_is_taken_until_nothing_is_left_of_the_node_that_was_there() {
    let mut sim = Sim::up(&two_and_two());
    sim.respec(&spec(2, &[2, 1]));
    sim.run();
    sim.respec(&two_and_two());
    sim.run();
    assert!(
        sim.waits()
            .contains("delete the claim data-chat-db-b-1 to make room"),
        "{}",
        sim.waits()
    );
    sim.disks.remove("chat-db-b-1");
    sim.run();
    assert_eq!(sim.members(), ALL);
}

#[test]
fn a_scale_down_taken_back_in_the_middle_ends_with_all_nodes() {
    for turns in 1..8 {
        let mut sim = Sim::up(&two_and_two());
        sim.respec(&format!("{}  reclaim: Delete\n", spec(2, &[2, 1])));
        for _ in 0..turns {
            sim.turn(usize::MAX);
        }
        sim.respec(&format!("{}  reclaim: Delete\n", two_and_two()));
        sim.run();
        assert_eq!(sim.members(), ALL, "after {turns} turns: {:?}", sim.log);
        assert_eq!(sim.told().len(), 4);
    }
}

#[test]
fn a_rack_that_somebody_scales_in_mid_leave_ends_well() {
    for turns in 1..6 {
        let mut sim = Sim::up(&two_and_two());
        sim.respec(&spec(2, &[2, 1]));
        for _ in 0..turns {
            sim.turn(usize::MAX);
        }
        sim.scale("b", 1);
        sim.run();
        assert_eq!(
            sim.members(),
            ALL[..3],
            "after {turns} turns: {:?}",
            sim.log
        );
        assert_eq!(sim.told()[3], "chat-db-b-1 Left");
        assert_eq!(sim.racks["b"].replicas, 1);
    }
    // And with nothing going on.
    let mut sim = Sim::up(&two_and_two());
    sim.scale("b", 1);
    sim.run();
    assert_eq!(sim.members(), ALL);
}

#[test]
fn a_rack_that_somebody_deletes_in_mid_leave_ends_well() {
    for turns in 1..6 {
        for rack in ["a", "b"] {
            let mut sim = Sim::up(&two_and_two());
            sim.may_be_down = 2;
            sim.respec(&spec(2, &[2, 1]));
            for _ in 0..turns {
                sim.turn(usize::MAX);
            }
            sim.delete_set(rack);
            sim.run();
            let place = format!("{rack} after {turns} turns");
            assert_eq!(sim.members(), ALL[..3], "{place}: {:?}", sim.log);
            assert_eq!(sim.told()[3], "chat-db-b-1 Left", "{place}");
        }
    }
}

#[test]
fn a_node_does_not_leave_when_copies_would_lack_and_the_numbers_are_told() {
    let mut sim = Sim::up(&spec(2, &[1, 2]));
    sim.respec(&spec(2, &[1, 1]));
    // A keyspace of another application with three copies.
    let world_says = |sim: &Sim| sim.plan().waiting.unwrap().to_string();
    sim.free_bytes = 100 << 20;
    assert_eq!(
        world_says(&sim),
        "chat-db-b-1 does not leave the database, because chat-db-b-0 has 100 MiB free and must have 1536 MiB for \
         its share of the 1024 MiB of chat-db-b-1"
    );
    sim.free_bytes = 1 << 40;
    sim.unreachable = vec!["chat-db-a-0".to_owned()];
    assert_eq!(
        world_says(&sim),
        "chat-db-b-1 does not leave the database, because chat-db-a-0 cannot be asked: timed out"
    );
    sim.run();
    assert_eq!(sim.racks["b"].replicas, 2);
    sim.unreachable.clear();
    sim.run();
    assert_eq!(sim.members(), ["chat-db-a-0", "chat-db-b-0"]);
}

#[test]
fn an_unknown_load_refuses() {
    let mut sim = Sim::up(&two_and_two());
    let of_b1 = sim.records[3].host_id.clone().unwrap();
    let at = sim.ring.iter().position(|n| n.host_id == of_b1).unwrap();
    let load = sim.ring[at].load_bytes.take();
    sim.respec(&spec(2, &[2, 1]));
    sim.run();
    assert_eq!(
        sim.waits(),
        "chat-db-b-1 does not leave the database, because chat-db-b-1 does not say yet how much data it has for the \
         others"
    );
    assert_eq!(sim.members(), ALL);
    sim.ring[at].load_bytes = load;
    sim.run();
    assert_eq!(sim.members(), ALL[..3]);
}

#[test]
fn a_node_is_gone_only_when_two_others_say_so() {
    let mut sim = Sim::up(&two_and_two());
    sim.respec(&spec(2, &[2, 1]));
    while !sim.log.contains(&"leave chat-db-b-1".to_owned()) {
        sim.turn(usize::MAX);
    }
    sim.unreachable = vec!["chat-db-a-0".to_owned(), "chat-db-a-1".to_owned()];
    sim.run();
    assert_eq!(sim.racks["b"].replicas, 2);
    assert!(
        sim.waits().contains("1 of 2 nodes have confirmed it"),
        "{}",
        sim.waits()
    );
    sim.unreachable.pop();
    sim.run();
    assert_eq!(sim.racks["b"].replicas, 1);
}

#[test]
fn a_decommission_that_fails_is_tried_three_times_and_then_told_in_the_databases_words() {
    let mut sim = Sim::up(&two_and_two());
    sim.decommission_fails = true;
    sim.respec(&spec(2, &[2, 1]));
    for _ in 0..60 {
        sim.turn(usize::MAX);
    }
    let attempts = sim.log.iter().filter(|l| *l == "leave chat-db-b-1").count();
    assert_eq!(attempts, 3);
    assert_eq!(
        trouble(&sim),
        "chat-db-b-1 was told 3 times to leave the database and could not: Unable to find new replica"
    );
    assert_eq!(sim.racks["b"].replicas, 2);
    // Taken back, it is a member as before.
    sim.respec(&two_and_two());
    sim.run();
    assert_eq!(trouble(&sim), "");
    assert!(sim.told().iter().all(|r| r.ends_with("Member")));
}

#[test]
fn a_join_that_fails_is_tried_three_times_and_then_told() {
    let mut sim = Sim::up(&two_and_two());
    sim.join_fails = true;
    sim.log.clear();
    sim.respec(&spec(2, &[3, 2]));
    for _ in 0..60 {
        sim.turn(usize::MAX);
    }
    assert_eq!(
        sim.log,
        [
            "a has 3",
            "start chat-db-a-2",
            "start chat-db-a-2",
            "start chat-db-a-2"
        ]
    );
    assert_eq!(
        trouble(&sim),
        "chat-db-a-2 has tried 3 times to take over its share of the data and could not: the log of its container \
         database tells why"
    );
    assert_eq!(sim.members().len(), 5, "it is up, and none yet");
    // It is tried on, but seldom.
    sim.join_fails = false;
    for _ in 0..200 {
        sim.turn(usize::MAX);
    }
    assert_eq!(trouble(&sim), "");
    assert!(sim.told().iter().all(|r| r.ends_with("Member")));
}

#[test]
fn a_node_that_never_started_goes_without_a_word() {
    let mut sim = Sim::up(&two_and_two());
    sim.unreachable = vec!["chat-db-a-0".to_owned()];
    sim.respec(&spec(2, &[2, 3]));
    sim.run();
    assert!(sim.pods.contains_key("chat-db-b-2"));
    sim.respec(&two_and_two());
    sim.run();
    assert_eq!(sim.racks["b"].replicas, 2);
    assert_eq!(sim.told().len(), 4);
}

#[test]
fn a_change_goes_through_the_pods_one_by_one_with_all_nodes_up_in_between() {
    let mut sim = Sim::up(&two_and_two());
    sim.log.clear();
    sim.also("  image: cassandra:5.0.9\n");
    sim.run();
    assert_eq!(
        sim.log,
        [
            "restart chat-db-a-1",
            "restart chat-db-a-0",
            "restart chat-db-b-1",
            "restart chat-db-b-0"
        ]
    );
    assert!(sim.racks.values().all(|r| r.partition == r.replicas));
}

#[test]
fn a_release_that_cannot_follow_restarts_nothing_until_somebody_says_so() {
    let image = |tag: &str| format!("{}  image: cassandra:{tag}\n", two_and_two());
    let mut sim = Sim::up(&image("5.0.9"));
    sim.log.clear();
    for tag in ["4.1.3", "7.0.0"] {
        sim.respec(&image(tag));
        sim.run();
        assert!(sim.log.is_empty(), "{:?}", sim.log);
        let words = trouble(&sim);
        assert!(
            words.contains(&format!(
                "the pods run cassandra:5.0.9, and cassandra:{tag} was asked for"
            )),
            "{words}"
        );
    }
    // What is asked for after all ends it, and so does a word.
    sim.respec(&image("5.0.9"));
    assert_eq!(trouble(&sim), "");
    sim.respec(&image("4.1.3"));
    sim.consent.engine_version = Some("cassandra:4.1.3".to_owned());
    sim.run();
    assert_eq!(sim.log.len(), 4, "{:?}", sim.log);
    sim.respec(&image("5.0.9"));
    sim.run();
    assert_eq!(sim.log.len(), 8, "{:?}", sim.log);
}

#[test]
fn a_rollout_restart_by_somebody_else_goes_through_the_pods_one_by_one_as_well() {
    let mut sim = Sim::up(&spec(2, &[1, 1, 1]));
    sim.log.clear();
    // All three racks at once, each of one pod: what `kubectl rollout restart -l` does.
    for rack in ["a", "b", "c"] {
        sim.restart_rack(rack);
    }
    // Before the operator has looked: none of them may go by itself.
    sim.move_on();
    assert_eq!(sim.members().len(), 3);
    sim.run();
    assert_eq!(
        sim.log,
        [
            "restart chat-db-a-0",
            "restart chat-db-b-0",
            "restart chat-db-c-0"
        ]
    );
}

#[test]
fn a_change_stops_where_a_node_does_not_come_back_and_a_newer_one_cures_it() {
    let mut sim = Sim::up(&two_and_two());
    sim.log.clear();
    sim.also("  image: broken\n");
    sim.bad_template = Some(sim.wanted("a"));
    sim.run();
    assert_eq!(sim.log, ["restart chat-db-a-1"]);
    assert_eq!(sim.members().len(), 3);

    sim.respec(&format!("{}  image: cured\n", two_and_two()));
    sim.run();
    assert_eq!(sim.members(), ALL);
    assert!(
        sim.plan().waiting.unwrap().reason().as_str() == "SchemaPending",
        "{}",
        sim.waits()
    );
}

#[test]
fn a_change_waits_for_a_node_that_leaves() {
    let mut sim = Sim::up(&two_and_two());
    sim.respec(&spec(2, &[2, 1]));
    while !sim.log.contains(&"leave chat-db-b-1".to_owned()) {
        sim.turn(usize::MAX);
    }
    sim.log.clear();
    sim.also("  image: cassandra:5.0.9\n");
    sim.run();
    assert_eq!(sim.log[0], "b has 1");
    assert_eq!(sim.log.len(), 4, "{:?}", sim.log);
}

#[test]
fn a_node_that_leaves_is_not_restarted_for_a_newer_spec() {
    for turns in 2..6 {
        let mut sim = Sim::up(&two_and_two());
        sim.respec(&spec(2, &[2, 1]));
        for _ in 0..turns {
            sim.turn(usize::MAX);
        }
        sim.also("  image: cassandra:5.0.9\n");
        sim.run();
        let restarted = sim.log.iter().any(|l| l == "restart chat-db-b-1");
        assert!(!restarted, "after {turns} turns: {:?}", sim.log);
    }
}

#[test]
fn a_change_waits_until_it_is_on_record_that_a_node_stays() {
    let mut sim = Sim::up(&two_and_two());
    sim.respec(&spec(2, &[2, 1]));
    sim.turn(usize::MAX);
    assert_eq!(sim.told()[3], "chat-db-b-1 Leaving");
    sim.log.clear();
    // The node was not told yet, and stays; but an operator that finds this record with a different spec would tell it.
    sim.respec(&format!("{}  image: cassandra:5.0.9\n", two_and_two()));
    let both_racks = 2;
    for _ in 0..3 {
        sim.turn(both_racks);
    }
    assert_eq!(sim.log, [""; 0]);
    sim.run();
    assert_eq!(sim.log.len(), 4, "{:?}", sim.log);
}

#[test]
fn another_operator_restarts_nothing_until_somebody_says_so() {
    let mut sim = Sim::up(&two_and_two());
    sim.log.clear();
    sim.cluster.agent_image = "operator:2".to_owned();
    sim.run();
    assert_eq!(sim.log.len(), 0, "{:?}", sim.log);
    let name = sim.plan().database.update.unwrap();
    assert_eq!(
        sim.plan().waiting.unwrap().reason().as_str(),
        "SchemaPending"
    );
    sim.consent.update = Some("another".to_owned());
    sim.run();
    assert_eq!(sim.log.len(), 0, "{:?}", sim.log);
    sim.consent.update = Some(name);
    sim.run();
    assert_eq!(sim.log.len(), 4, "{:?}", sim.log);
    assert_eq!(sim.plan().database.update, None);
}

#[test]
fn pods_of_before_there_were_agents_are_left_as_they_are() {
    let mut sim = Sim::up(&two_and_two());
    sim.inherited();
    sim.respec(&spec(2, &[2, 1]));
    sim.cluster.agent_image = "operator:2".to_owned();
    sim.run();
    assert_eq!(sim.log.len(), 0, "{:?}", sim.log);
    assert!(sim.waits().contains("RequiresUpdate"), "{}", sim.waits());
    assert!(sim.plan().database.update.is_some());
}

#[test]
fn nodes_of_before_there_were_records_are_taken_over_one_by_one_once_somebody_says_so() {
    let mut sim = Sim::up(&two_and_two());
    let ring: Vec<_> = sim.ring.iter().map(|n| n.host_id.clone()).collect();
    sim.inherited();
    sim.run();
    assert_eq!(sim.log.len(), 0, "{:?}", sim.log);
    sim.consent.update = sim.plan().database.update;
    sim.run();
    let turns = ["chat-db-a-1", "chat-db-a-0", "chat-db-b-1", "chat-db-b-0"];
    let expected = turns
        .map(|pod| [format!("restart {pod}"), format!("start {pod}")])
        .concat();
    // They are taken for nodes that join: a cleanup that drops nothing.
    sim.log.retain(|line| !line.starts_with("clean up"));
    assert_eq!(sim.log, expected);
    assert!(
        sim.told().iter().all(|r| r.ends_with("Member")),
        "{:?}",
        sim.told()
    );
    assert_eq!(sim.members(), ALL);
    // The same nodes, on the same data.
    let after: Vec<_> = sim.ring.iter().map(|n| n.host_id.clone()).collect();
    assert_eq!(after, ring);
}
