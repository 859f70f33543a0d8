//! The number of copies changes in the simulation, which asserts that no step is taken before all nodes were repaired.

mod found;

use readstates_operator_api::{DatabaseReplication, DatabaseReplicationStage};

use crate::plan::database::{
    decide,
    sim::{Sim, spec},
};

/// A database of two racks with two nodes each that has this many copies, whose schema Jobs are played.
fn with_copies(copies: i32) -> Sim {
    let mut sim = Sim::up(&spec(copies, &[2, 2]));
    sim.keyspace = Some(copies);
    sim.run();
    assert_eq!(
        recorded(&sim),
        (copies, copies, DatabaseReplicationStage::Stable)
    );
    sim.log.clear();
    sim
}

fn recorded(sim: &Sim) -> (i32, i32, DatabaseReplicationStage) {
    let DatabaseReplication {
        keyspace,
        complete,
        stage,
        since: _,
    } = sim.replication.clone().unwrap();
    (keyspace, complete, stage)
}

/// What the database waits for, in words.
fn waits(sim: &Sim) -> String {
    let decision = decide(&sim.validated(), &sim.world(), sim.clock);
    let wait = decision.waiting.or(decision.upkeep);
    wait.map_or_else(String::new, |wait| wait.to_string())
}

fn wants(sim: &mut Sim, copies: i32) {
    sim.respec(&spec(copies, &[2, 2]));
}

#[test]
fn one_more_copy_is_there_when_every_node_was_repaired() {
    let mut sim = with_copies(2);
    wants(&mut sim, 3);
    sim.repairs_last = true;
    sim.run();
    assert_eq!(recorded(&sim), (3, 2, DatabaseReplicationStage::Repairing));
    assert_eq!(
        waits(&sim),
        "each read state comes to have 3 copies: chat-db-a-0, the first of 4 to be repaired: its data is compared with \
         that of the other nodes"
    );
    sim.repairs_last = false;
    sim.run();
    assert_eq!(recorded(&sim), (3, 3, DatabaseReplicationStage::Stable));
    assert_eq!(
        sim.log,
        [
            "2 copies to 3",
            "repair the share of chat-db-a-0",
            "repair the share of chat-db-a-1",
            "repair the share of chat-db-b-0",
            "repair the share of chat-db-b-1",
        ]
    );
    assert_eq!(waits(&sim), "");
}

#[test]
fn several_copies_more_are_several_steps() {
    let mut sim = with_copies(1);
    wants(&mut sim, 4);
    sim.run();
    assert_eq!(recorded(&sim), (4, 4, DatabaseReplicationStage::Stable));
    let steps: Vec<_> = sim.log.iter().filter(|l| l.contains("copies")).collect();
    assert_eq!(steps, ["1 copies to 2", "2 copies to 3", "3 copies to 4"]);
    let repairs = sim.log.iter().filter(|l| l.starts_with("repair"));
    assert_eq!(repairs.count(), 3 * 4, "{:?}", sim.log);
}

#[test]
fn copies_that_are_given_up_are_dropped_at_the_end() {
    let mut sim = with_copies(3);
    wants(&mut sim, 1);
    sim.run();
    assert_eq!(recorded(&sim), (1, 1, DatabaseReplicationStage::Stable));
    let last = sim.log.split_off(sim.log.len() - 5);
    assert_eq!(
        last,
        [
            "2 copies to 1",
            "clean up chat-db-a-0",
            "clean up chat-db-a-1",
            "clean up chat-db-b-0",
            "clean up chat-db-b-1",
        ]
    );
    assert!(
        !sim.log.iter().any(|l| l.starts_with("clean up")),
        "{:?}",
        sim.log
    );
}

#[test]
fn a_change_of_mind_comes_after_the_step_that_has_begun() {
    let mut sim = with_copies(2);
    wants(&mut sim, 3);
    for _ in 0..4 {
        sim.turn(usize::MAX);
    }
    assert_eq!(recorded(&sim).0, 3);
    wants(&mut sim, 2);
    sim.run();
    assert_eq!(recorded(&sim), (2, 2, DatabaseReplicationStage::Stable));
    assert!(sim.unequal.is_empty());
}

#[test]
fn nothing_else_begins_meanwhile_but_a_lost_disk_is_rebuilt() {
    let mut sim = with_copies(2);
    wants(&mut sim, 3);
    sim.repairs_last = true;
    sim.run();
    sim.respec(&spec(3, &[3, 2]));
    sim.run();
    assert!(
        waits(&sim).ends_with("chat-db-a-0 is being repaired"),
        "{}",
        waits(&sim)
    );
    sim.repairs_last = false;
    sim.lose_disk("chat-db-b-1");
    sim.run();
    // The repair that had failed is told again after a pause.
    sim.clock += jiff::SignedDuration::from_hours(1);
    sim.run();
    assert_eq!(recorded(&sim), (3, 3, DatabaseReplicationStage::Stable));
    assert_eq!(sim.members().len(), 5, "{:?}", sim.log);
}

#[test]
fn a_disk_that_is_lost_before_the_second_copy_is_there_is_the_only_one() {
    let mut sim = with_copies(1);
    wants(&mut sim, 2);
    sim.repairs_last = true;
    sim.run();
    sim.repairs_last = false;
    sim.lose_disk("chat-db-b-1");
    sim.run();
    let trouble = sim.plan().database.trouble.unwrap().to_string();
    assert!(trouble.contains("with one copy of everything"), "{trouble}");
}

#[test]
fn without_repairs_the_number_does_not_change() {
    let mut sim = with_copies(2);
    wants(&mut sim, 3);
    sim.also("  repair: { enabled: false }\n");
    sim.run();
    assert_eq!(recorded(&sim), (2, 2, DatabaseReplicationStage::Stable));
    assert!(
        waits(&sim).contains("spec.database.repair.enabled is false"),
        "{}",
        waits(&sim)
    );
}

#[test]
fn a_schema_job_that_an_operator_made_late_is_followed_by_the_right_one() {
    let mut sim = with_copies(2);
    let late = sim.jobs.clone();
    wants(&mut sim, 3);
    sim.repairs_last = true;
    sim.run();
    sim.jobs.extend(late);
    sim.alter(2);
    sim.repairs_last = false;
    sim.run();
    assert_eq!(recorded(&sim), (3, 3, DatabaseReplicationStage::Stable));
    assert_eq!(sim.keyspace, Some(3));
    assert!(sim.unequal.is_empty());
}

#[test]
fn a_node_that_is_asked_for_meanwhile_joins_afterwards() {
    for turns in 0..12 {
        let mut sim = with_copies(2);
        wants(&mut sim, 3);
        for _ in 0..turns {
            sim.turn(usize::MAX);
        }
        sim.respec(&spec(3, &[3, 2]));
        sim.run();
        assert_eq!(
            sim.members().len(),
            5,
            "{turns}: {} {:?}",
            waits(&sim),
            sim.log
        );
        assert_eq!(recorded(&sim).0, 3, "{turns}");
    }
}

#[test]
fn operators_that_die_at_every_write_end_where_one_would_have() {
    for (before, after) in [(1, 3), (3, 1), (2, 4)] {
        let mut sim = with_copies(before);
        wants(&mut sim, after);
        sim.run_by(Sim::deadly_turn);
        assert_eq!(
            recorded(&sim),
            (after, after, DatabaseReplicationStage::Stable)
        );
        assert!(sim.unequal.is_empty());
    }
}

/// Where in the log something was first done.
fn first(sim: &Sim, what: &str) -> Option<usize> {
    sim.log.iter().position(|line| line.starts_with(what))
}

fn last(sim: &Sim, what: &str) -> Option<usize> {
    sim.log.iter().rposition(|line| line.contains(what))
}

/// Asks in one edit for so many copies, and nodes in two racks, and has both.
fn comes_to_rest(before: i32, copies: i32, racks: [i32; 2]) -> Sim {
    let place = format!("{copies} of {racks:?}");
    let mut sim = with_copies(before);
    sim.respec(&spec(copies, &racks));
    sim.run();
    assert_eq!(
        recorded(&sim),
        (copies, copies, DatabaseReplicationStage::Stable),
        "{place}: {}",
        waits(&sim)
    );
    let nodes = usize::try_from(racks[0] + racks[1]).unwrap();
    assert_eq!(sim.members().len(), nodes, "{place}: {}", waits(&sim));
    assert_eq!(waits(&sim), "", "{place}");
    sim
}

#[test]
fn fewer_copies_come_before_nodes_leave_that_are_asked_for_in_one_edit() {
    for (copies, racks) in [
        (1, [2, 1]),
        (1, [1, 1]),
        (1, [1, 0]),
        (2, [1, 1]),
        (2, [1, 3]),
    ] {
        let sim = comes_to_rest(3, copies, racks);
        assert!(last(&sim, "copies") < first(&sim, "leave"), "{:?}", sim.log);
    }
}

#[test]
fn more_copies_and_other_nodes_that_are_asked_for_in_one_edit_all_come() {
    for (copies, racks) in [(3, [3, 2]), (3, [2, 1]), (3, [3, 1]), (3, [1, 3])] {
        comes_to_rest(1, copies, racks);
    }
}

#[test]
fn a_database_of_one_node_gets_two_more_and_their_copies_and_gives_them_up_again() {
    let mut sim = Sim::up(&spec(1, &[1]));
    sim.keyspace = Some(1);
    sim.run();
    sim.respec(&spec(3, &[1, 1, 1]));
    sim.run();
    assert_eq!(recorded(&sim), (3, 3, DatabaseReplicationStage::Stable));
    assert_eq!(sim.members().len(), 3);
    sim.respec(&spec(1, &[1, 0, 0]));
    sim.run();
    assert_eq!(recorded(&sim), (1, 1, DatabaseReplicationStage::Stable));
    assert_eq!((sim.members().len(), waits(&sim)), (1, String::new()));
}

#[test]
fn operators_that_die_while_copies_and_nodes_go_end_where_one_would_have() {
    let mut sim = with_copies(3);
    sim.respec(&spec(1, &[1, 1]));
    sim.run_by(Sim::deadly_turn);
    assert_eq!(recorded(&sim), (1, 1, DatabaseReplicationStage::Stable));
    assert_eq!((sim.members().len(), waits(&sim)), (2, String::new()));
}
