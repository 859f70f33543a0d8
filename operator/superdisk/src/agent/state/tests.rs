use std::fs;

use super::*;
use crate::{
    heal::tests::{LIMITS, NOW, healthy},
    lineage::BrokenSlots,
    model::Code,
    snapshot::wire::Loss,
    spec::{FilesystemKind, Policy},
};

pub(in crate::agent) fn spec() -> Spec {
    Spec {
        durable: "/dev/sdb".into(),
        local: vec!["/dev/nvme*".to_owned()],
        local_count: 2,
        volume: "vol".parse().unwrap(),
        copy_of: None,
        restored: None,
        mount: "/data".into(),
        filesystem: FilesystemKind::Xfs,
        policy: Policy::default(),
    }
}

fn agent(root: &Path) -> AgentState {
    AgentState::new(&spec(), StateFolder::new(&root.join("state"), "vol"), root)
}

fn boot(root: &Path, id: &str) {
    let folder = root.join("proc/sys/kernel/random");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("boot_id"), id).unwrap();
}

#[test]
fn a_freeze_is_remembered_by_the_next_agent_but_not_over_a_boot() {
    let root = tempfile::tempdir().unwrap();
    boot(root.path(), "one\n");
    agent(root.path()).learn(Outcome::done(&Step::Freeze, &healthy()), NOW);
    assert!(agent(root.path()).memory().frozen);
    boot(root.path(), "two\n");
    assert!(!agent(root.path()).memory().frozen);
}

#[test]
fn a_freeze_for_a_snapshot_is_remembered_until_the_boot_ends_or_somebody_thaws() {
    let root = tempfile::tempdir().unwrap();
    boot(root.path(), "one\n");
    let held = Past {
        id: "s".parse().unwrap(),
        generation: 7,
        lost: Some(Loss::AgentEnded),
    };
    let kept = agent(root.path()).keep_snapshots(Some(held.clone()), None);
    kept.unwrap();
    assert_eq!(agent(root.path()).snapshots().frozen, Some(held.clone()));
    boot(root.path(), "two\n");
    assert_eq!(agent(root.path()).snapshots().frozen, None);
    boot(root.path(), "one\n");
    agent(root.path()).thawed();
    let kept = agent(root.path()).snapshots();
    assert_eq!((kept.frozen, kept.last), (None, Some(held)));
}

#[test]
fn an_attempt_counts_even_when_the_agent_dies_in_it() {
    let root = tempfile::tempdir().unwrap();
    agent(root.path()).before(&Step::RebuildFastLeg, NOW);
    assert_eq!(agent(root.path()).memory().attempts.len(), 1);
}

#[test]
fn what_failed_is_told_until_the_same_succeeds() {
    let root = tempfile::tempdir().unwrap();
    let agent = agent(root.path());
    let came = |tried: Tried, error: Option<&str>| {
        let error = error.map(str::to_owned);
        let refusal = None;
        agent.learn(
            Outcome {
                tried,
                error,
                refusal,
            },
            NOW,
        );
        let facts = healthy();
        let decision = agent.decide(&LIMITS, &facts, NOW);
        agent.report_of(&facts, &decision, NOW).last_error
    };
    let beat = || Tried::Beat(BrokenSlots::default());
    let says = |text: &str| Some(text.to_owned());
    let added = || Outcome::done(&Step::ReAddFastLeg, &healthy()).tried;
    assert_eq!(came(beat(), Some("no header")), says("no header"));
    assert_eq!(came(beat(), None), None);
    assert_eq!(came(added(), Some("not added")), says("not added"));
    assert_eq!(came(beat(), None), says("not added"));
    let both = says("not added; no header");
    assert_eq!(came(beat(), Some("no header")), both);
    assert_eq!(came(added(), None), says("no header"));
    assert_eq!(came(Tried::BringUp, None), says("no header"));
    assert_eq!(came(beat(), None), None);
}

#[test]
fn an_agent_whose_record_cannot_be_written_goes_on_and_says_so_until_it_can() {
    let root = tempfile::tempdir().unwrap();
    let agent = agent(root.path());
    let record = crate::assemble::record(&spec(), Some("1".to_owned()));
    let error = || {
        let facts = healthy();
        let decision = agent.decide(&LIMITS, &facts, NOW);
        agent.report_of(&facts, &decision, NOW).last_error
    };
    // Nobody can write where a folder is.
    let in_the_way = root.path().join("state/vol.record.new");
    fs::create_dir_all(&in_the_way).unwrap();
    agent.keep_record(&record);
    assert!(agent.lacks_record());
    let said = error().unwrap();
    assert!(said.starts_with("`reap` cannot take this"), "{said}");
    fs::remove_dir(in_the_way).unwrap();
    agent.keep_record(&record);
    assert!(!agent.lacks_record());
    assert_eq!(error(), None);
    let folder = StateFolder::new(&root.path().join("state"), "vol");
    assert_eq!(folder.load("record"), Some(record));
}

/// `superdisk status` is another process: it knows by the state folder.
#[test]
fn a_broken_slot_is_known_to_another_process_until_a_header_is_taken_there() {
    let root = tempfile::tempdir().unwrap();
    let maintaining = agent(root.path());
    let beat = |broken: BrokenSlots, error: Option<&str>| {
        let tried = Tried::Beat(broken);
        let (error, refusal) = (error.map(str::to_owned), None);
        maintaining.learn(
            Outcome {
                tried,
                error,
                refusal,
            },
            NOW,
        );
        agent(root.path()).memory().broken_slots
    };
    let broken = BrokenSlots {
        durable: true,
        fast: false,
    };
    assert_eq!(beat(broken, None), broken);
    let nothing_known = BrokenSlots::default();
    assert_eq!(beat(nothing_known, Some("it hangs")), broken);
    assert_eq!(beat(nothing_known, None), nothing_known);
}

#[test]
fn a_refusal_is_told_until_a_mirror_runs() {
    let root = tempfile::tempdir().unwrap();
    let agent = agent(root.path());
    let refused = Refusal {
        code: Code::SsdAhead,
        message: "The fast leg is ahead".to_owned(),
        next_step: "Run `superdisk resolve`".to_owned(),
    };
    agent.learn(
        Outcome {
            tried: Tried::BringUp,
            error: None,
            refusal: Some(refused),
        },
        NOW,
    );
    let shown = |facts: &Facts| {
        let decision = agent.decide(&LIMITS, facts, NOW);
        agent.publish(facts, &decision, Some(3), NOW);
        let report = agent.report().unwrap();
        (
            report.refusal.map(|refusal| refusal.code),
            report.generation,
        )
    };
    let nothing = Facts {
        mirror: None,
        stripe: None,
        mount: None,
        local_found: 2,
    };
    assert_eq!(shown(&nothing), (Some("E_SSD_AHEAD".to_owned()), Some(3)));
    assert_eq!(shown(&healthy()), (None, Some(3)));
}

#[test]
fn a_patrol_is_sent_only_where_both_legs_are_in_sync() {
    let root = tempfile::tempdir().unwrap();
    let agent = agent(root.path());
    assert_eq!(agent.healthy_mirror(), None);
    let publish = |facts: &Facts| {
        let decision = agent.decide(&LIMITS, facts, NOW);
        agent.publish(facts, &decision, None, NOW);
        agent.healthy_mirror()
    };
    assert_eq!(publish(&healthy()), Some("/dev/md101".into()));
    let mut degraded = healthy();
    degraded.mirror.as_mut().unwrap().fast = None;
    assert_eq!(publish(&degraded), None);
}
