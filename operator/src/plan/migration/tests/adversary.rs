//! What others do to a move while it is under way: Jobs and volumes go, specs change twice between two looks.

use super::*;

/// The spec of the move was changed so often since its status was written.
fn changed(m: Move, times: i64) -> Move {
    let mut m = m;
    let status = m.before.as_mut().unwrap();
    status.observed_generation = Some(crate::fixtures::id().generation - times);
    m
}

#[test]
fn a_job_that_somebody_deletes_is_made_again_once_its_pods_have_ended() {
    let mut m = serving().since(7);
    m.seen.jobs.stray = vec!["away-move-x7k2p".to_owned()];
    let plan = m.plan();
    assert_eq!(
        (plan.phase, plan.reason),
        (MigrationPhase::Waiting, Reason::LeftoverObject)
    );
    assert!(plan.words.contains("away-move-x7k2p"), "{}", plan.words);
    // What was seen of the members stays on record.
    assert_eq!(plan.record.members_generation, Some(7));
    m.seen.jobs.stray.clear();
    assert_eq!(makes(&m.plan()), Some(false));
}

#[test]
fn one_that_is_being_deleted_is_not_deleted_again() {
    let going = job("away-move", JobOutcome::Going, vec![]);
    let plan = serving().since(7).changed(9).job(going).plan();
    assert_eq!((plan.phase, plan.reason), BROKEN);
    assert_eq!(plan.action, MigrationAction::Wait);
}

#[test]
fn no_job_is_made_that_would_wait_for_its_volume_claim() {
    for mut m in [serving(), serving().since(7), stopped(), moving("Stop")] {
        m.seen.has_claim = false;
        let plan = m.plan();
        assert_eq!(
            (plan.phase, plan.reason),
            (MigrationPhase::Waiting, Reason::VolumeClaimMissing)
        );
        assert!(
            plan.words.contains("PersistentVolumeClaim moves"),
            "{}",
            plan.words
        );
    }
    // A Job that is there says itself what it waits for.
    let mut at_work = serving().since(7).job(job("away-move", running(), vec![]));
    at_work.seen.has_claim = false;
    assert_eq!(phase(&at_work), COPYING);
}

#[test]
fn suspend_that_was_set_and_taken_back_between_two_looks_begins_a_failed_move_again() {
    let m = || {
        let mut m = serving().since(7).job(job("away-move", failed(), vec![]));
        m.before.as_mut().unwrap().phase = MigrationPhase::Failed;
        m
    };
    for (times, begins) in [(0, false), (1, false), (2, true)] {
        let plan = changed(m(), times).plan();
        let deletes = matches!(plan.action, MigrationAction::Delete { .. });
        assert_eq!(deletes, begins, "{times}: {plan:?}");
        assert_eq!(plan.phase == MigrationPhase::Copying, begins);
    }
    // Nobody has been told of this failure yet.
    let mut untold = changed(m(), 2);
    untold.before.as_mut().unwrap().phase = MigrationPhase::Copying;
    assert_eq!(untold.plan().phase, MigrationPhase::Failed);
}

#[test]
fn a_switch_of_which_nobody_knows_what_was_before_is_told_as_too_early() {
    let switched = |generation| serving().verified().switched().changed(generation);
    assert_eq!(switched(8).plan().phase, MigrationPhase::Switching);
    // The variable was removed first, perhaps, and members wrote the source alone until the second change.
    let plan = switched(9).plan();
    assert_eq!(plan.reason, Reason::SwitchedTooEarly);
    assert!(plan.words.contains("more than once"), "{}", plan.words);
    assert_eq!(plan.record.verified, None);
    // Later changes of a cluster that was seen to switch are nothing new.
    let mut known = switched(12);
    known.before.as_mut().unwrap().phase = MigrationPhase::Switching;
    assert_eq!(known.plan().phase, MigrationPhase::Switching);
}

#[test]
fn members_that_were_started_on_the_source_after_the_pause_are_told_as_too_early() {
    let switched = || {
        let mut m = stopped().verified().switched().changed(9);
        m.cluster["spec"]["stopped"] = json!(false);
        m
    };
    // Started on the target by a second change, as the step before said.
    assert_eq!(switched().plan().phase, MigrationPhase::Switching);
    let mut started = switched();
    started.seen.pods = vec![only("chat-0", TARGET), only("chat-1", SOURCE)];
    let plan = started.plan();
    assert_eq!(plan.reason, Reason::SwitchedTooEarly);
    assert!(
        plan.words.contains("chat-1 writes the source alone"),
        "{}",
        plan.words
    );
}

#[test]
fn members_that_are_stopped_already_are_not_asked_for_again() {
    let mut m = stopped().since(7);
    m.seen.jobs.ahead = Some(job("away-copy", running(), vec![]));
    let plan = m.plan();
    assert_eq!(plan.next, "the operator: copies, then compares all rows");
}
