//! A keyspace whose number of copies is not on record: the resource was created again over its volumes, or its status was
//! emptied.

use readstates_operator_api::DatabaseReplicationStage::{Repairing, Stable};

use super::{recorded, waits, wants, with_copies};
use crate::plan::database::{
    sim::{Sim, spec},
    tests::ALL,
};

fn steps(sim: &Sim) -> Vec<&str> {
    let steps = sim.log.iter().filter(|line| line.contains("copies"));
    steps.map(String::as_str).collect()
}

#[test]
fn a_cluster_made_again_with_another_number_goes_there_step_by_step() {
    for (before, after, expected) in [
        (1, 3, vec!["1 copies to 2", "2 copies to 3"]),
        (3, 1, vec!["3 copies to 2", "2 copies to 1"]),
        (2, 3, vec!["2 copies to 3"]),
        (2, 2, vec![]),
    ] {
        let mut sim = with_copies(before);
        sim.made_again(&spec(after, &[2, 2]));
        sim.run();
        assert_eq!(steps(&sim), expected);
        assert_eq!(recorded(&sim), (after, after, Stable), "{}", waits(&sim));
        assert_eq!(sim.keyspace, Some(after));
        assert!(after == 1 || sim.unequal.is_empty(), "{:?}", sim.unequal);
        assert_eq!(sim.members(), ALL);
        assert_eq!(waits(&sim), "");
    }
}

#[test]
fn the_schema_job_is_not_made_before_it_is_on_record_how_many_copies_there_are() {
    let mut sim = with_copies(1);
    sim.made_again(&spec(3, &[2, 2]));
    while sim.replication.is_none() {
        assert!(sim.jobs.is_empty(), "{:?}", sim.jobs);
        sim.turn(usize::MAX);
    }
    assert_eq!(recorded(&sim), (1, 1, Stable));
    assert_eq!(sim.keyspace, Some(1));
}

#[test]
fn a_status_that_was_emptied_changes_no_number() {
    let mut sim = with_copies(2);
    sim.forgets();
    sim.has_schema = false;
    sim.run();
    assert_eq!(recorded(&sim), (2, 2, Stable));
    assert_eq!(steps(&sim), [""; 0]);
}

/// It had begun when the resource was deleted: some writes have one copy.
#[test]
fn a_step_whose_record_is_lost_is_followed_by_a_repair_before_the_next_one() {
    for (before, after) in [(1, 3), (3, 1)] {
        let mut sim = with_copies(before);
        wants(&mut sim, after);
        while sim.keyspace == Some(before) {
            sim.turn(usize::MAX);
        }
        assert!(!sim.unequal.is_empty());
        sim.made_again(&spec(after, &[2, 2]));
        while sim.replication.is_none() {
            sim.turn(usize::MAX);
        }
        assert_eq!(recorded(&sim), (2, 2, Repairing));
        sim.run();
        assert_eq!(recorded(&sim), (after, after, Stable), "{}", waits(&sim));
    }
}

#[test]
fn operators_that_die_at_every_write_never_jump() {
    for (before, after) in [(1, 3), (3, 1), (2, 4)] {
        let mut sim = with_copies(before);
        sim.made_again(&spec(after, &[2, 2]));
        sim.run_by(Sim::deadly_turn);
        assert_eq!(recorded(&sim), (after, after, Stable), "{}", waits(&sim));
    }
}

#[test]
fn nodes_join_and_leave_when_what_was_found_was_repaired() {
    for (copies, racks) in [(1, [2, 1]), (1, [1, 1]), (4, [3, 2])] {
        let mut sim = with_copies(3);
        sim.made_again(&spec(copies, &[2, 2]));
        while sim.replication.is_none() {
            sim.turn(usize::MAX);
        }
        sim.respec(&spec(copies, &racks));
        sim.run();
        assert_eq!(recorded(&sim), (copies, copies, Stable), "{}", waits(&sim));
        let nodes = usize::try_from(racks[0] + racks[1]).unwrap();
        assert_eq!(sim.members().len(), nodes, "{}", waits(&sim));
    }
}

#[test]
fn while_nodes_do_not_agree_on_the_schema_no_number_is_taken_from_any() {
    let mut sim = with_copies(1);
    sim.made_again(&spec(2, &[2, 2]));
    sim.schema_versions = 2;
    sim.run();
    assert!(
        sim.waits().ends_with(
            "how many the keyspace has is not known: the nodes do not agree on the schema (v0, v1)"
        ),
        "{}",
        sim.waits()
    );
    assert!(sim.jobs.is_empty() && sim.replication.is_none());
    sim.schema_versions = 1;
    sim.run();
    assert_eq!(recorded(&sim), (2, 2, Stable));
}

#[test]
fn a_number_that_no_node_tells_is_waited_for() {
    let mut sim = with_copies(1);
    sim.forgets();
    (sim.has_schema, sim.unreachable) = (false, ALL.map(str::to_owned).to_vec());
    sim.jobs.clear();
    sim.respec(&spec(2, &[2, 2]));
    sim.run();
    assert!(
        sim.waits()
            .ends_with("no node that serves has been asked yet"),
        "{}",
        sim.waits()
    );
    assert!(sim.jobs.is_empty() && sim.replication.is_none());
}

#[test]
fn a_new_keyspace_is_made_with_the_number_that_is_wanted() {
    let mut sim = Sim::new(&spec(3, &[2, 2]));
    sim.run();
    assert_eq!(sim.replication, None);
    let plan = sim.plan();
    assert!(plan.schema_job);
    assert_eq!(sim.wanted_job().1, 3);
}

#[test]
fn a_disk_that_is_lost_before_a_cluster_is_made_again_is_rebuilt_by_the_number_that_there_was() {
    let mut sim = with_copies(1);
    sim.made_again(&spec(3, &[2, 2]));
    sim.disks.remove("chat-db-b-1");
    sim.run();
    let trouble = sim.plan().database.trouble.unwrap().to_string();
    assert!(trouble.contains("with one copy of everything"), "{trouble}");
    assert_eq!(sim.members(), ALL[..3]);

    let mut sim = with_copies(3);
    sim.made_again(&spec(1, &[2, 2]));
    sim.disks.remove("chat-db-b-1");
    sim.run();
    assert_eq!(sim.members(), ALL);
    assert_eq!(recorded(&sim), (1, 1, Stable));
}

#[test]
fn a_lost_disk_is_not_rebuilt_before_the_number_is_on_record() {
    let mut sim = with_copies(3);
    sim.forgets();
    sim.has_schema = false;
    sim.schema_versions = 2;
    sim.lose_disk("chat-db-b-1");
    sim.run();
    assert_eq!(sim.members(), ALL[..3]);
    let words = sim.waits();
    assert!(
        words.contains(
            "how many copies there are is not known: the nodes do not agree on the schema (v0, v1)"
        ),
        "{words}"
    );
    sim.schema_versions = 1;
    sim.run();
    assert_eq!(sim.members(), ALL);
}

#[test]
fn agents_that_cannot_repair_get_an_update_before_a_number_that_was_found_changes() {
    let mut sim = with_copies(2);
    sim.made_again(&spec(3, &[2, 2]));
    sim.unable = Some(sim.wanted("a"));
    sim.run();
    assert_eq!(recorded(&sim), (2, 2, Stable));
    assert!(
        waits(&sim).contains("is of an earlier release that cannot repair"),
        "{}",
        waits(&sim)
    );
    sim.also("  image: cassandra:5.0.9\n");
    sim.run();
    assert_eq!(recorded(&sim), (3, 3, Stable), "{}", waits(&sim));
}
