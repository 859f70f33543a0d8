//! Other releases of the engine, each as a database in memory goes through them.

use readstates_operator_api::DatabaseUpgradeStage::{
    self, Releasing, Restarting, Rewriting, Snapshotting, WentBack,
};

use super::{ALL, Sim, trouble, two_and_two};

fn with(image: &str) -> String {
    format!("{}  image: {image}\n", two_and_two())
}

/// A database that runs this image.
fn running(image: &str) -> Sim {
    let mut sim = Sim::up(&with(image));
    sim.log.clear();
    sim
}

fn stage(sim: &Sim) -> Option<DatabaseUpgradeStage> {
    sim.upgrade.as_ref().map(|upgrade| upgrade.stage)
}

/// Turns until it is in this stage.
fn until(sim: &mut Sim, wanted: DatabaseUpgradeStage) {
    for _ in 0..40 {
        if stage(sim) == Some(wanted) {
            return;
        }
        sim.turn(usize::MAX);
    }
    panic!("never {wanted:?}: {:?}, {}", sim.upgrade, sim.waits());
}

/// Turns until this many pods have the image.
fn until_changed(sim: &mut Sim, image: &str, pods: usize) {
    let gets = format!(" gets {image}");
    for _ in 0..60 {
        let changed = sim.steps.iter().filter(|s| s.ends_with(&gets));
        if changed.count() == pods {
            return;
        }
        sim.turn(usize::MAX);
    }
    panic!("{:?}, {}", sim.steps, sim.waits());
}

fn each(does: &str) -> Vec<String> {
    ALL.iter().map(|pod| format!("{does} {pod}")).collect()
}

fn get(image: &str) -> Vec<String> {
    let order = ["chat-db-a-1", "chat-db-a-0", "chat-db-b-1", "chat-db-b-0"];
    let gets = order.iter().map(|pod| format!("{pod} gets {image}"));
    gets.collect()
}

#[test]
fn another_release_is_snapshots_restarts_rewriting_and_the_removal_of_the_snapshots() {
    let mut sim = running("cassandra:5.0.8");
    sim.respec(&with("cassandra:5.0.9"));
    until(&mut sim, Restarting);
    let name = sim.upgrade.as_ref().unwrap().snapshot.clone();
    assert!(
        name.starts_with("readstates-before-upgrade-from-5.0.8-2027"),
        "{name}"
    );
    assert_eq!(sim.snapshots(), [name.as_str()].into());
    sim.run();
    let course = [
        each("snapshot"),
        get("cassandra:5.0.9"),
        each("rewrite"),
        each("release"),
    ];
    assert_eq!(sim.steps, course.concat());
    assert_eq!((stage(&sim), sim.snapshots().len()), (None, 0));
    assert!(sim.records.iter().all(|r| r.upgrade.is_none()));
    let waits = sim.plan().waiting.unwrap();
    assert_eq!(waits.reason().as_str(), "SchemaPending");
}

#[test]
fn the_status_tells_which_node_does_what() {
    let mut sim = running("cassandra:5.0.8");
    sim.upgrades_last = true;
    sim.respec(&with("cassandra:5.0.9"));
    sim.run();
    let plan = sim.plan();
    assert_eq!(
        super::super::decide(&sim.cluster, &sim.world(), sim.clock)
            .upkeep
            .unwrap()
            .to_string(),
        "the database is changed to another release, now chat-db-a-0: it has begun to take a snapshot (0 of 4 nodes \
         have a snapshot); to go on without snapshots, set the annotation \
         readstates.dev/upgrade-without-snapshot=cassandra:5.0.9"
    );
    assert_eq!(plan.database.upgrade.unwrap().stage, Snapshotting);
    assert_eq!(sim.steps, [""; 0]);
}

#[test]
fn something_is_waited_for_until_the_last_snapshot_is_gone() {
    let mut sim = running("cassandra:5.0.8");
    sim.respec(&with("cassandra:5.0.9"));
    for _ in 0..60 {
        let now = super::super::decide(&sim.cluster, &sim.world(), sim.clock);
        let ends = sim.upgrade.is_some() && now.nodes.upgrade.is_none();
        if ends {
            return;
        }
        let waits = now.waiting.or(now.upkeep);
        assert!(waits.is_some(), "{:?}", sim.upgrade);
        sim.turn(usize::MAX);
    }
    panic!("{:?}", sim.steps);
}

#[test]
fn scylla_writes_nothing_anew() {
    let scylla = |tag| with(tag).replace("Cassandra", "Scylla");
    let mut sim = Sim::up(&scylla("scylla:2025.1.1"));
    sim.respec(&scylla("scylla:2025.1.2"));
    sim.run();
    let course = [each("snapshot"), get("scylla:2025.1.2"), each("release")];
    assert_eq!(sim.steps, course.concat());
}

#[test]
fn the_same_release_of_another_registry_is_a_change_like_any_other() {
    let mut sim = running("cassandra:5.0.9");
    sim.respec(&with("mirror/cassandra:5.0.9-jre17"));
    sim.run();
    assert_eq!(sim.steps, get("mirror/cassandra:5.0.9-jre17"));
    assert_eq!(stage(&sim), None);
}

#[test]
fn a_node_is_restarted_only_while_all_agree_on_the_schema() {
    let mut sim = running("cassandra:5.0.8");
    sim.respec(&with("cassandra:5.0.9"));
    until_changed(&mut sim, "cassandra:5.0.9", 1);
    sim.schema_versions = 2;
    sim.run();
    assert_eq!(
        sim.steps.last().unwrap(),
        "chat-db-a-1 gets cassandra:5.0.9"
    );
    assert!(
        sim.waits()
            .contains("the nodes do not agree on the schema: v0, v1"),
        "{}",
        sim.waits()
    );
    sim.schema_versions = 1;
    sim.run();
    assert_eq!(sim.images(), ["cassandra:5.0.9"].into());
}

#[test]
fn nodes_of_two_release_lines_agree_each_among_themselves() {
    // Their own tables differ, so their versions do as well.
    let mut sim = running("cassandra:4.1.9");
    sim.schema_by_image = true;
    sim.respec(&with("cassandra:5.0.9"));
    sim.run();
    assert_eq!(sim.images(), ["cassandra:5.0.9"].into());
    assert_eq!(stage(&sim), None);

    let mut sim = running("cassandra:4.1.9");
    sim.respec(&with("cassandra:5.0.9"));
    until_changed(&mut sim, "cassandra:5.0.9", 1);
    sim.schema_versions = 2;
    sim.run();
    assert!(sim.waits().contains("do not agree"), "{}", sim.waits());

    // Within a line they do not differ.
    let mut sim = running("cassandra:5.0.8");
    sim.schema_by_image = true;
    sim.respec(&with("cassandra:5.0.9"));
    sim.run();
    assert!(sim.waits().contains("do not agree"), "{}", sim.waits());
}

#[test]
fn a_node_is_restarted_only_while_all_are_up() {
    let mut sim = running("cassandra:5.0.8");
    sim.respec(&with("cassandra:5.0.9"));
    until_changed(&mut sim, "cassandra:5.0.9", 2);
    sim.unreachable = vec!["chat-db-b-0".to_owned()];
    sim.run();
    assert_eq!(sim.images().len(), 2, "{:?}", sim.steps);
    sim.unreachable.clear();
    sim.run();
    assert_eq!(sim.images(), ["cassandra:5.0.9"].into());
}

#[test]
fn a_snapshot_that_fails_restarts_nothing_until_somebody_does_without() {
    let mut sim = running("cassandra:5.0.8");
    sim.upgrade_fails = Some("No space left on device".to_owned());
    sim.respec(&with("cassandra:5.0.9"));
    for _ in 0..40 {
        sim.turn(usize::MAX);
    }
    assert_eq!(sim.steps, [""; 0]);
    assert_eq!(
        trouble(&sim),
        "chat-db-a-0 was told 3 times to take a snapshot, and could not: No space left on device. It serves; the next \
         attempt is made in half an hour"
    );
    sim.upgrade_fails = None;
    sim.consent.without_snapshot = Some("cassandra:5.0.10".to_owned());
    sim.turn(usize::MAX);
    assert_eq!(stage(&sim), Some(Snapshotting), "another image was meant");
    sim.consent.without_snapshot = Some("cassandra:5.0.9".to_owned());
    sim.run();
    assert_eq!(sim.images(), ["cassandra:5.0.9"].into());
    assert!(!sim.steps.contains(&"snapshot chat-db-a-0".to_owned()));
    assert_eq!(stage(&sim), None);
}

#[test]
fn agents_that_know_no_upgrades_restart_nothing() {
    let mut sim = running("cassandra:5.0.8");
    sim.knows_no_upgrades = true;
    sim.respec(&with("cassandra:5.0.9"));
    sim.run();
    assert_eq!(sim.log, [""; 0]);
    let decision = super::super::decide(&sim.cluster, &sim.world(), sim.clock);
    let words = decision.upkeep.unwrap().to_string();
    assert!(words.contains("RequiresUpdate"), "{words}");
}

#[test]
fn on_the_way_back_the_snapshots_stay_until_somebody_lets_them_go() {
    for changed in 1..=4 {
        let mut sim = running("cassandra:5.0.8");
        sim.respec(&with("cassandra:5.0.9"));
        until_changed(&mut sim, "cassandra:5.0.9", changed);
        let name = sim.upgrade.clone().unwrap().snapshot;
        sim.respec(&with("cassandra:5.0.8"));
        sim.run();
        assert_eq!(sim.images(), ["cassandra:5.0.8"].into());
        assert_eq!(stage(&sim), Some(WentBack), "{changed}");
        assert_eq!(sim.snapshots(), [name.as_str()].into());
        let released = sim.steps.iter().any(|s| s.starts_with("release"));
        assert!(!released, "{:?}", sim.steps);

        sim.consent.release_snapshot = Some("another".to_owned());
        sim.run();
        assert_eq!(stage(&sim), Some(WentBack));
        sim.consent.release_snapshot = Some(name);
        sim.run();
        assert_eq!((stage(&sim), sim.snapshots().len()), (None, 0));
    }
}

#[test]
fn who_goes_back_while_data_is_written_anew_finds_the_snapshots() {
    let mut sim = running("cassandra:5.0.8");
    sim.respec(&with("cassandra:5.0.9"));
    until(&mut sim, Rewriting);
    sim.turn(usize::MAX);
    sim.respec(&with("cassandra:5.0.8"));
    sim.run();
    assert_eq!(sim.images(), ["cassandra:5.0.8"].into());
    assert_eq!(stage(&sim), Some(WentBack));
    assert_eq!(sim.snapshots().len(), 1);
}

#[test]
fn who_goes_back_and_forth_keeps_the_first_snapshots_and_has_all_data_written_anew_at_the_end() {
    let mut sim = running("cassandra:5.0.8");
    sim.respec(&with("cassandra:5.0.9"));
    until(&mut sim, Rewriting);
    sim.turn(usize::MAX);
    sim.turn(usize::MAX);
    sim.respec(&with("cassandra:5.0.8"));
    until_changed(&mut sim, "cassandra:5.0.8", 2);
    sim.respec(&with("cassandra:5.0.9"));
    until(&mut sim, Rewriting);
    let taken = sim.steps.iter().filter(|s| s.starts_with("snapshot"));
    assert_eq!(taken.count(), 4, "{:?}", sim.steps);
    let before = sim.steps.len();
    sim.run();
    let end = [each("rewrite"), each("release")];
    assert_eq!(sim.steps[before..], end.concat());
}

#[test]
fn who_changes_their_mind_before_the_first_restart_restarts_nothing() {
    let mut sim = running("cassandra:5.0.8");
    sim.respec(&with("cassandra:5.0.9"));
    sim.turn(usize::MAX);
    sim.turn(usize::MAX);
    assert_eq!(stage(&sim), Some(Snapshotting));
    sim.respec(&with("cassandra:5.0.8"));
    sim.run();
    assert_eq!(sim.log, [""; 0]);
    assert_eq!((stage(&sim), sim.snapshots().len()), (None, 0));
}

#[test]
fn a_later_release_asked_for_meanwhile_has_the_snapshots_of_the_first() {
    let mut sim = running("cassandra:5.0.8");
    sim.respec(&with("cassandra:5.0.9"));
    until_changed(&mut sim, "cassandra:5.0.9", 1);
    let name = sim.upgrade.clone().unwrap().snapshot;
    sim.respec(&with("cassandra:5.0.10"));
    until_changed(&mut sim, "cassandra:5.0.10", 4);
    assert_eq!(sim.snapshots(), [name.as_str()].into());
    sim.run();
    assert_eq!(sim.images(), ["cassandra:5.0.10"].into());
    assert_eq!((stage(&sim), sim.snapshots().len()), (None, 0));
}

#[test]
fn who_goes_forward_again_gets_snapshots_of_their_own() {
    let mut sim = running("cassandra:5.0.8");
    sim.respec(&with("cassandra:5.0.9"));
    until_changed(&mut sim, "cassandra:5.0.9", 1);
    let first = sim.upgrade.clone().unwrap().snapshot;
    sim.respec(&with("cassandra:5.0.8"));
    sim.run();
    sim.respec(&with("cassandra:5.0.9"));
    until(&mut sim, Releasing);
    until(&mut sim, Restarting);
    let second = sim.upgrade.clone().unwrap().snapshot;
    assert_ne!(first, second);
    assert_eq!(sim.snapshots(), [second.as_str()].into());
}

#[test]
fn an_older_line_is_refused_in_the_middle_and_the_snapshots_stay() {
    let mut sim = running("cassandra:4.1.9");
    sim.respec(&with("cassandra:5.0.9"));
    until_changed(&mut sim, "cassandra:5.0.9", 1);
    let name = sim.upgrade.clone().unwrap().snapshot;
    sim.respec(&with("cassandra:4.1.9"));
    sim.run();
    let words = trouble(&sim);
    assert!(words.contains("no node of 4.1 reads"), "{words}");
    assert_eq!(stage(&sim), Some(Restarting));
    assert_eq!(sim.snapshots(), [name.as_str()].into());
    // Forward is the way out.
    sim.respec(&with("cassandra:5.0.9"));
    sim.run();
    assert_eq!(sim.images(), ["cassandra:5.0.9"].into());
    assert_eq!(stage(&sim), None);
}

#[test]
fn no_node_joins_or_leaves_and_no_repair_begins_between_two_releases() {
    for members in ["{ name: a, members: 3 }", "{ name: a, members: 1 }"] {
        let mut sim = running("cassandra:5.0.8");
        sim.respec(&with("cassandra:5.0.9"));
        until_changed(&mut sim, "cassandra:5.0.9", 2);
        sim.clock += jiff::SignedDuration::from_hours(7 * 24);
        sim.respec(&with("cassandra:5.0.9").replace("{ name: a, members: 2 }", members));
        until(&mut sim, Rewriting);
        let log = &sim.log;
        assert!(log.iter().all(|l| l.starts_with("restart")), "{log:?}");
        assert!(
            sim.waits()
                .contains("the database is being changed from cassandra:5.0.8 to cassandra:5.0.9"),
            "{}",
            sim.waits()
        );
        sim.run();
        assert_eq!(stage(&sim), None);
        assert_ne!(sim.members().len(), 4);
        assert!(sim.log.iter().any(|l| l.starts_with("repair")));
    }
}

#[test]
fn a_disk_lost_in_the_middle_is_rebuilt_and_the_change_goes_on() {
    let mut sim = running("cassandra:5.0.8");
    sim.respec(&with("cassandra:5.0.9"));
    until_changed(&mut sim, "cassandra:5.0.9", 1);
    sim.turn(usize::MAX);
    sim.lose_disk("chat-db-b-1");
    sim.run();
    assert_eq!(sim.members(), ALL);
    assert_eq!(sim.images(), ["cassandra:5.0.9"].into());
    assert_eq!((stage(&sim), sim.snapshots().len()), (None, 0));
}

#[test]
fn a_node_without_room_for_its_data_twice_stops_another_format_and_no_other_change() {
    let mut sim = running("cassandra:4.1.9");
    sim.free_bytes = 1 << 29;
    sim.respec(&with("cassandra:5.0.9"));
    sim.run();
    assert_eq!(sim.log, [""; 0]);
    let decision = super::super::decide(&sim.cluster, &sim.world(), sim.clock);
    let words = decision.upkeep.unwrap().to_string();
    assert!(
        words.contains("it has 512 MiB free and holds 1024 MiB"),
        "{words}"
    );
    sim.consent.without_snapshot = Some("cassandra:5.0.9".to_owned());
    sim.run();
    assert_eq!(sim.images(), ["cassandra:5.0.9"].into());

    let mut sim = running("cassandra:5.0.8");
    sim.free_bytes = 1 << 29;
    sim.respec(&with("cassandra:5.0.9"));
    sim.run();
    assert_eq!(sim.images(), ["cassandra:5.0.9"].into());
}

#[test]
fn a_database_that_never_came_up_has_nothing_to_go_back_to() {
    let mut sim = Sim::new(&with("cassandra:5.0.99"));
    sim.bad_template = Some(sim.wanted("a"));
    for _ in 0..5 {
        sim.turn(usize::MAX);
    }
    assert_eq!(sim.members().len(), 0);
    sim.respec(&with("cassandra:5.0.9"));
    sim.run();
    assert_eq!(sim.members(), ALL);
    assert!(sim.upgrade.is_none());
}

#[test]
fn what_a_restarted_pod_has_not_finished_is_told_again() {
    let mut sim = running("cassandra:5.0.8");
    sim.respec(&with("cassandra:5.0.9"));
    until(&mut sim, Rewriting);
    sim.upgrades_last = true;
    sim.turn(usize::MAX);
    sim.turn(usize::MAX);
    sim.stop("chat-db-a-0");
    sim.upgrades_last = false;
    sim.run();
    let rewritten = sim.steps.iter().filter(|s| s.starts_with("rewrite"));
    assert_eq!(rewritten.count(), 4, "{:?}", sim.steps);
    assert_eq!(stage(&sim), None);
}
