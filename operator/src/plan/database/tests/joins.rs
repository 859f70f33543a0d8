//! Reasons against a join, and what the peers drop after one.

use super::{
    super::sim::{Sim, spec, two_and_two},
    trouble,
};

/// The cleanups among what was done, by pod.
fn cleaned(sim: &Sim) -> Vec<&str> {
    let done = sim
        .log
        .iter()
        .filter_map(|line| line.strip_prefix("clean up chat-db-"));
    done.collect()
}

fn pending(sim: &Sim) -> Vec<&str> {
    let pending = sim.records.iter().filter(|r| r.cleanup.is_some());
    pending.map(|r| r.name.as_str()).collect()
}

#[test]
fn a_database_without_data_has_nothing_to_drop() {
    let sim = Sim::up(&two_and_two());
    assert!(cleaned(&sim).is_empty(), "{:?}", sim.log);
    assert!(pending(&sim).is_empty());
}

#[test]
fn when_all_have_joined_the_others_drop_what_those_took_over_one_at_a_time() {
    let mut sim = Sim::up(&two_and_two());
    sim.log.clear();
    sim.respec(&spec(2, &[3, 3]));
    sim.run();
    let last_join = sim.log.iter().rposition(|line| line.starts_with("start"));
    let first = sim.log.iter().position(|line| line.starts_with("clean up"));
    assert!(last_join < first, "{:?}", sim.log);
    // The last one has taken from all others, the one before it from those that were there.
    assert_eq!(cleaned(&sim), ["a-0", "a-1", "a-2", "b-0", "b-1"]);
    assert!(pending(&sim).is_empty(), "{:?}", sim.records);
}

#[test]
fn a_node_that_takes_its_old_place_leaves_nothing_to_drop() {
    let mut sim = Sim::up(&two_and_two());
    sim.log.clear();
    sim.lose_disk("chat-db-a-1");
    sim.run();
    assert!(cleaned(&sim).is_empty(), "{:?}", sim.log);
}

#[test]
fn an_agent_that_restarts_in_the_middle_is_told_again() {
    let mut sim = Sim::up(&two_and_two());
    sim.respec(&spec(2, &[3, 2]));
    while cleaned(&sim) != ["a-0"] {
        sim.turn(usize::MAX);
    }
    sim.stop("chat-db-a-0");
    sim.run();
    assert_eq!(cleaned(&sim), ["a-0", "a-0", "a-1", "b-0", "b-1"]);
    assert!(pending(&sim).is_empty());
}

#[test]
fn a_cleanup_that_fails_is_told_in_the_databases_words_and_no_node_leaves_before_it() {
    let mut sim = Sim::up(&two_and_two());
    sim.cleanup_fails = true;
    sim.respec(&spec(2, &[3, 2]));
    sim.run();
    assert_eq!(cleaned(&sim), ["a-0", "a-0", "a-0"]);
    let words = trouble(&sim);
    assert!(
        words.contains("chat-db-a-0 was told 3 times") && words.contains("No space left on device"),
        "{words}"
    );
    sim.respec(&spec(2, &[2, 2]));
    sim.run();
    let waits = sim.waits();
    assert!(
        waits.contains("chat-db-a-2 does not leave the database")
            && waits.contains("has not dropped yet"),
        "{waits}"
    );
    sim.cleanup_fails = false;
    sim.clock += jiff::SignedDuration::from_mins(31);
    sim.run();
    assert_eq!(trouble(&sim), "");
    assert_eq!(sim.members().len(), 4, "{}", sim.waits());
}

#[test]
fn a_node_joins_only_where_all_agree_on_the_schema() {
    let mut sim = Sim::up(&two_and_two());
    sim.schema_versions = 2;
    sim.respec(&spec(2, &[3, 2]));
    sim.run();
    let waits = sim.waits();
    assert!(
        waits.starts_with("chat-db-a-2 does not join the database, because the nodes do not agree on the schema (v0, v1)"),
        "{waits}"
    );
    assert_eq!(sim.members().len(), 4);
    sim.schema_versions = 1;
    sim.run();
    assert_eq!(sim.members().len(), 5);
}

/// One node in a rack of its own has a copy of everything.
#[test]
fn a_node_does_not_join_where_its_volume_is_too_small_for_its_share() {
    let mut sim = Sim::up(&spec(2, &[3, 3]));
    // Each of six holds one GiB; a third of that and half as much again is what the new one must have room for.
    sim.free_bytes = 2 << 30;
    sim.respec(&spec(2, &[3, 3, 1]));
    sim.run();
    let waits = sim.waits();
    assert!(
        waits.contains("chat-db-c-0 does not join the database, because it has 2048 MiB free and must have 3072 MiB"),
        "{waits}"
    );
    sim.free_bytes = 4 << 30;
    sim.run();
    assert_eq!(sim.members().len(), 7);
}
