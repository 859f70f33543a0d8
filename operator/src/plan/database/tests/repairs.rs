//! What is repaired, when, and what waits for it.

use jiff::SignedDuration;
use readstates_operator_api::DatabaseNodeState;

use super::{
    super::sim::{Sim, spec, two_and_two},
    ALL, trouble,
};

const WEEK: SignedDuration = SignedDuration::from_hours(7 * 24);

/// The repairs among what was done.
fn repairs(sim: &Sim) -> Vec<&str> {
    let done = sim.log.iter();
    done.filter_map(|line| line.strip_prefix("repair "))
        .collect()
}

fn state(sim: &Sim, pod: &str) -> DatabaseNodeState {
    let record = sim.records.iter().find(|r| r.name == pod).unwrap();
    record.state
}

fn waits(sim: &Sim) -> String {
    sim.plan().database.repair_waits.unwrap_or_default()
}

/// Until the agent of some node has a repair under way.
fn until_one_runs(sim: &mut Sim) {
    let before = repairs(sim).len();
    for _ in 0..40 {
        sim.turn(usize::MAX);
        if repairs(sim).len() > before {
            return;
        }
    }
    panic!("no repair begins: {:?} {:?}", sim.log, sim.records);
}

fn until_rebuilt(sim: &mut Sim, pod: &str) {
    for _ in 0..40 {
        if state(sim, pod) == DatabaseNodeState::Repairing {
            return;
        }
        sim.turn(usize::MAX);
    }
    panic!("{pod} is not rebuilt: {:?}", sim.records);
}

#[test]
fn a_node_that_was_rebuilt_is_a_member_only_when_all_its_data_was_repaired() {
    let mut sim = Sim::up(&two_and_two());
    sim.log.clear();
    sim.repairs_last = true;
    sim.lose_disk("chat-db-a-1");
    until_rebuilt(&mut sim, "chat-db-a-1");
    sim.run();
    assert_eq!(sim.log, ["start chat-db-a-1", "repair all of chat-db-a-1"]);
    assert_eq!(sim.told()[1], "chat-db-a-1 Repairing");
    assert_eq!(sim.members(), ALL, "it serves meanwhile");
    sim.repairs_last = false;
    sim.run();
    assert_eq!(sim.told()[1], "chat-db-a-1 Member");
    let record = &sim.records[1];
    assert_eq!(record.repair, None);
    assert!(record.last_repaired.as_ref().unwrap().0 < record.since.0);
    assert_eq!(repairs(&sim).len(), 1);
}

#[test]
fn nothing_joins_leaves_or_is_restarted_before_a_rebuilt_node_is_repaired() {
    let image = "  image: cassandra:5.0.9\n";
    let snapshot = "it begins after the repair of chat-db-a-1";
    let repaired = "chat-db-a-1 is being repaired";
    for (asked, words) in [
        (format!("{}{image}", two_and_two()), snapshot),
        (spec(2, &[3, 2]), repaired),
        (spec(2, &[2, 1]), repaired),
    ] {
        let mut sim = Sim::up(&two_and_two());
        sim.repairs_last = true;
        sim.lose_disk("chat-db-a-1");
        until_rebuilt(&mut sim, "chat-db-a-1");
        sim.log.clear();
        sim.respec(&asked);
        sim.run();
        let begun = |line: &&String| {
            ["start", "leave", "restart"]
                .iter()
                .any(|w| line.starts_with(w))
        };
        assert_eq!(sim.log.iter().find(begun), None, "{asked}");
        let decision = super::super::decide(&sim.cluster, &sim.world(), sim.clock);
        let upkeep = decision.upkeep.map(|wait| wait.to_string());
        let all = format!("{} {}", sim.waits(), upkeep.unwrap_or_default());
        assert!(all.contains(words), "{all}");
        sim.repairs_last = false;
        sim.run();
        assert!(sim.log.iter().any(|line| begun(&line)), "{:?}", sim.log);
        assert_eq!(sim.told()[1], "chat-db-a-1 Member");
    }
}

#[test]
fn a_pod_that_a_newer_spec_cures_does_not_wait_for_a_repair_that_waits_for_it() {
    let mut sim = Sim::up(&two_and_two());
    sim.also("  image: broken\n");
    sim.bad_template = Some(sim.wanted("a"));
    sim.run();
    assert_eq!(sim.members().len(), 3);
    // As if it had been rebuilt shortly before.
    sim.records[2].state = DatabaseNodeState::Repairing;
    sim.records[2].repair = Some(readstates_operator_api::PendingJob::since(
        sim.records[2].since.clone(),
    ));
    sim.respec(&format!("{}  image: cured\n", two_and_two()));
    sim.run();
    assert_eq!(sim.members(), ALL);
    assert_eq!(sim.told()[2], "chat-db-b-0 Member");
}

#[test]
fn another_lost_disk_is_rebuilt_first_and_then_both_are_repaired() {
    let mut sim = Sim::up(&two_and_two());
    sim.log.clear();
    sim.repairs_last = true;
    sim.lose_disk("chat-db-a-1");
    until_one_runs(&mut sim);
    sim.lose_disk("chat-db-b-0");
    sim.turn(usize::MAX);
    sim.repairs_last = false;
    sim.run();
    let at = |line: &str| sim.log.iter().rposition(|l| l == line).unwrap();
    assert!(
        at("start chat-db-b-0") < at("repair all of chat-db-a-1"),
        "{:?}",
        sim.log
    );
    assert!(at("start chat-db-b-0") < at("repair all of chat-db-b-0"));
    assert_eq!(sim.members(), ALL);
    assert!(sim.told().iter().all(|r| r.ends_with("Member")));
}

#[test]
fn a_repair_waits_for_a_node_that_is_away_and_says_for_which() {
    let mut sim = Sim::up(&two_and_two());
    sim.log.clear();
    sim.lose_disk("chat-db-a-1");
    // The repair begins in the round in which the node is rebuilt: the other one goes before.
    while sim.log.is_empty() {
        sim.turn(usize::MAX);
    }
    sim.unreachable = vec!["chat-db-b-1".to_owned()];
    sim.run();
    assert_eq!(
        waits(&sim),
        "chat-db-a-1: it begins when all nodes are well: chat-db-b-1 cannot be asked: timed out"
    );
    assert!(repairs(&sim).is_empty());
    assert_eq!(sim.members(), ALL);
    assert_eq!(trouble(&sim), "", "nothing has failed");
    sim.unreachable.clear();
    sim.run();
    assert_eq!(sim.told()[1], "chat-db-a-1 Member");
}

#[test]
fn a_repair_that_fails_is_tried_three_times_and_then_told_in_the_databases_words() {
    let mut sim = Sim::up(&two_and_two());
    sim.repair_fails = vec!["chat-db-a-1".to_owned()];
    sim.lose_disk("chat-db-a-1");
    for _ in 0..60 {
        sim.turn(usize::MAX);
    }
    assert_eq!(repairs(&sim), ["all of chat-db-a-1"; 3]);
    let words = trouble(&sim);
    assert!(
        words.contains("chat-db-a-1 was told 3 times to repair its data")
            && words.contains("Validation failed"),
        "{words}"
    );
    assert_eq!(sim.members(), ALL, "it serves");
    let pending = sim.records[1].repair.as_ref().unwrap();
    assert_eq!((pending.attempts, pending.failures()), (3, 3));
    sim.repair_fails.clear();
    sim.clock += SignedDuration::from_mins(31);
    sim.run();
    assert_eq!(trouble(&sim), "");
    assert_eq!(sim.told()[1], "chat-db-a-1 Member");
}

#[test]
fn an_agent_that_restarts_in_the_middle_of_a_repair_is_told_again() {
    let mut sim = Sim::up(&two_and_two());
    sim.repairs_last = true;
    sim.lose_disk("chat-db-a-1");
    until_one_runs(&mut sim);
    sim.stop("chat-db-a-1");
    sim.repairs_last = false;
    sim.run();
    assert_eq!(repairs(&sim), ["all of chat-db-a-1"; 2]);
    assert_eq!(sim.told()[1], "chat-db-a-1 Member");
}

#[test]
fn each_week_every_node_repairs_its_share_one_after_another() {
    let mut sim = Sim::up(&two_and_two());
    sim.run();
    assert!(repairs(&sim).is_empty(), "a new database is not due");
    let shares = [
        "the share of chat-db-a-0",
        "the share of chat-db-a-1",
        "the share of chat-db-b-0",
        "the share of chat-db-b-1",
    ];
    for _ in 0..2 {
        sim.log.clear();
        sim.clock += WEEK;
        sim.run();
        assert_eq!(repairs(&sim), shares);
        assert!(sim.records.iter().all(|r| r.last_repaired.is_some()));
    }
    sim.log.clear();
    sim.clock += WEEK - SignedDuration::from_hours(1);
    sim.run();
    assert!(repairs(&sim).is_empty());
}

#[test]
fn a_node_whose_repair_fails_keeps_no_other_from_being_repaired() {
    let mut sim = Sim::up(&two_and_two());
    sim.repair_fails = vec!["chat-db-a-0".to_owned()];
    sim.clock += WEEK;
    for _ in 0..80 {
        sim.turn(usize::MAX);
    }
    let repaired = sim.records.iter().filter(|r| r.last_repaired.is_some());
    let names: Vec<_> = repaired.map(|r| r.name.as_str()).collect();
    assert_eq!(names, ALL[1..]);
    assert!(trouble(&sim).contains("chat-db-a-0 was told 3 times"));
}

#[test]
fn a_scheduled_repair_begins_in_a_maintenance_window_and_one_of_a_rebuilt_node_at_once() {
    // It is Friday, 2027-01-15, 08:00.
    let nights = "replicas: 3\nmaintenance: { windows: [{ start: '01:00', duration: 1h }] }";
    let mut sim = Sim::up(&two_and_two().replace("replicas: 3", nights));
    sim.clock += WEEK;
    sim.run();
    assert!(repairs(&sim).is_empty());
    sim.lose_disk("chat-db-a-1");
    sim.run();
    assert_eq!(repairs(&sim), ["all of chat-db-a-1"]);
    sim.log.clear();
    sim.clock += SignedDuration::from_hours(17);
    sim.run();
    // The one that was rebuilt has been repaired.
    assert_eq!(
        repairs(&sim),
        [
            "the share of chat-db-a-0",
            "the share of chat-db-b-0",
            "the share of chat-db-b-1"
        ]
    );
}

#[test]
fn a_scheduled_repair_and_a_change_wait_for_each_other() {
    for asked in [spec(2, &[3, 2]), spec(2, &[2, 1])] {
        // It runs: the change waits.
        let mut sim = Sim::up(&two_and_two());
        sim.repairs_last = true;
        sim.clock += WEEK;
        until_one_runs(&mut sim);
        sim.log.clear();
        sim.respec(&asked);
        sim.run();
        let moved = |sim: &Sim| {
            let moves = |l: &String| l.starts_with("start") || l.starts_with("leave");
            sim.log.iter().any(moves)
        };
        assert!(!moved(&sim), "{:?}", sim.log);
        assert!(
            sim.waits().contains("chat-db-a-0 is being repaired"),
            "{}",
            sim.waits()
        );
        sim.repairs_last = false;
        sim.run();
        assert!(moved(&sim), "{:?}", sim.log);
        // Both are due: the change is first.
        let mut sim = Sim::up(&two_and_two());
        sim.log.clear();
        sim.clock += WEEK;
        sim.respec(&asked);
        sim.run();
        let first = sim.log.iter().position(|l| l.starts_with("repair"));
        let moves = |l: &String| l.starts_with("start") || l.starts_with("leave");
        assert!(sim.log.iter().position(moves) < first, "{:?}", sim.log);
    }
}

#[test]
fn what_has_one_copy_or_is_repaired_by_others_is_not_repaired() {
    let off = format!("{}  repair: {{ enabled: false }}\n", two_and_two());
    for spec in [spec(1, &[2, 2]), off.clone()] {
        let mut sim = Sim::up(&spec);
        sim.clock += WEEK + WEEK;
        sim.run();
        assert!(repairs(&sim).is_empty(), "{spec}");
    }
    let mut sim = Sim::up(&off);
    sim.lose_disk("chat-db-a-1");
    sim.run();
    assert_eq!(sim.told()[1], "chat-db-a-1 Member");
    assert!(repairs(&sim).is_empty());
}

#[test]
fn what_the_user_no_longer_wants_repaired_holds_nothing_up() {
    let mut sim = Sim::up(&two_and_two());
    sim.repair_fails = vec!["chat-db-a-1".to_owned()];
    sim.lose_disk("chat-db-a-1");
    for _ in 0..60 {
        sim.turn(usize::MAX);
    }
    assert_eq!(sim.told()[1], "chat-db-a-1 Repairing");
    sim.also("  repair: { enabled: false }\n");
    sim.run();
    assert_eq!(sim.told()[1], "chat-db-a-1 Member");
    assert_eq!(trouble(&sim), "");
}

#[test]
fn agents_of_the_release_before_are_not_told_to_repair_and_hold_no_update_up() {
    let mut sim = Sim::up(&two_and_two());
    sim.unable = Some(sim.wanted("a"));
    sim.clock += WEEK;
    sim.run();
    assert!(
        repairs(&sim).iter().all(|r| !r.contains("-a-")),
        "{:?}",
        sim.log
    );
    sim.lose_disk("chat-db-a-1");
    sim.run();
    assert_eq!(sim.told()[1], "chat-db-a-1 Repairing");
    assert!(
        waits(&sim).contains("its agent is of an earlier release"),
        "{}",
        waits(&sim)
    );
    sim.log.clear();
    sim.also("  image: cassandra:5.0.9\n");
    sim.run();
    assert_eq!(sim.told()[1], "chat-db-a-1 Member");
    assert_eq!(repairs(&sim)[0], "all of chat-db-a-1");
}

#[test]
fn ranges_of_a_node_that_has_left_are_no_younger_for_being_anothers() {
    let mut sim = Sim::up(&two_and_two());
    sim.clock += WEEK;
    sim.run();
    let old = SignedDuration::from_hours(5 * 24);
    let repaired = sim.records[3].last_repaired.as_mut().unwrap();
    repaired.0 -= old;
    let oldest = repaired.0;
    sim.respec(&spec(2, &[2, 1]));
    sim.run();
    let members = sim.records.iter().filter(|r| r.is_member());
    let all: Vec<_> = members
        .map(|r| r.last_repaired.clone().unwrap().0)
        .collect();
    assert_eq!(all, [oldest; 3]);
}
