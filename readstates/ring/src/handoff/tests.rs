use super::*;
use crate::Succession;

const NOW: i64 = 1_795_000_000_000_000;
const ME: Incarnation = Incarnation::new(1);
const OTHER: Incarnation = Incarnation::new(2);

fn fresh() -> SlotAtMember {
    let nobody = SlotConfig::from_parts(Epoch::mint(None, 0), Incarnation::new(0), None, None);
    SlotAtMember::at_start(ME, nobody)
}

fn first(owner: Incarnation) -> SlotConfig {
    SlotConfig::first(owner, NOW)
}

fn after(config: SlotConfig, owner: Incarnation, how: Succession) -> SlotConfig {
    config.swap(config.epoch(), owner, how, NOW).unwrap()
}

/// A slot that this member took, and every member has seen it.
fn owner() -> SlotAtMember {
    let mut slot = fresh();
    slot.step(Event::Learned(first(ME)));
    let epoch = first(ME).epoch();
    slot.step(Event::Agreed { epoch });
    assert_eq!(slot.admits(), Some(epoch));
    slot
}

#[test]
fn what_was_taken_is_served_when_everybody_has_seen_it() {
    let mut slot = fresh();
    let epoch = first(ME).epoch();
    let taken = slot.step(Event::Learned(first(ME)));
    assert_eq!(taken, [Action::Agree { warm: false }]);
    assert_eq!((slot.admits(), slot.flushes()), (None, Some(epoch)));
    assert!(!slot.may_acknowledge(epoch, true));
    let later = after(first(ME), ME, Succession::Handed).epoch();
    assert_eq!(slot.step(Event::Agreed { epoch: later }), []);
    let warm = true;
    let agreed = slot.step(Event::Agreed { epoch });
    assert_eq!(agreed, [Action::Serve { epoch, warm }]);
}

#[test]
fn a_lease_that_runs_out_before_everybody_has_seen_it_needs_another_epoch() {
    let mut slot = fresh();
    let config = first(ME);
    slot.step(Event::Learned(config));
    assert_eq!(slot.step(Event::LeaseLost), [Action::Seal]);
    let epoch = config.epoch();
    assert_eq!(slot.step(Event::Agreed { epoch }), []);
    let swap = Action::Swap {
        expected: epoch,
        owner: ME,
        how: Succession::Handed,
    };
    assert_eq!(slot.step(Event::LeaseRenewed), [swap]);
    let again = after(config, ME, Succession::Handed);
    let actions = slot.step(Event::Learned(again));
    assert_eq!(actions, [Action::Agree { warm: true }]);
}

#[test]
fn whoever_serves_keeps_its_slot_whatever_a_restored_ring_says() {
    let held = first(ME).epoch();
    let stolen = after(first(OTHER), OTHER, Succession::TakenOver);
    for theirs in [first(OTHER), stolen] {
        let mut slot = owner();
        let actions = slot.step(Event::Learned(theirs));
        assert_eq!(actions, [Action::Keep { held }]);
        assert_eq!(slot.admits(), Some(held));
        let kept = theirs.kept(ME, held, NOW).unwrap();
        let epoch = kept.epoch();
        let warm = true;
        let actions = slot.step(Event::Learned(kept));
        assert_eq!(actions, [Action::Serve { epoch, warm }]);
    }
    let mut slot = owner();
    slot.step(Event::LeaseLost);
    let actions = slot.step(Event::Learned(stolen));
    assert_eq!(actions, [Action::Release { owner: OTHER }]);
}

#[test]
fn whoever_has_not_served_gives_up_an_epoch_that_was_given_twice() {
    let mut slot = fresh();
    slot.step(Event::Learned(first(ME)));
    slot.step(Event::Learned(first(OTHER)));
    assert_eq!(slot.state(), State::Away);
    assert_eq!(slot.config(), first(OTHER));
    let mut away = fresh();
    away.step(Event::Learned(first(OTHER)));
    assert_eq!(away.step(Event::Learned(first(ME))), []);
    assert_eq!(away.config(), first(OTHER), "those who serve sort it out");
}

#[test]
fn what_was_handed_on_is_served_at_once_unless_the_lease_has_run_out_since_it_was_confirmed() {
    let (theirs, origin) = (first(OTHER), OTHER);
    let epoch = theirs.epoch();
    let handed = after(theirs, ME, Succession::Handed);
    let ready = || {
        let mut slot = fresh();
        slot.step(Event::Learned(theirs));
        slot.step(Event::Offered { origin, epoch });
        slot.step(Event::LastPart { origin, epoch });
        slot
    };
    let mut slot = ready();
    let (epoch, warm) = (handed.epoch(), true);
    let actions = slot.step(Event::Learned(handed));
    assert_eq!(actions, [Action::Serve { epoch, warm }]);
    let mut slot = ready();
    slot.step(Event::LeaseLost);
    let actions = slot.step(Event::Learned(handed));
    assert_eq!(actions, [Action::Agree { warm: true }]);
}

#[test]
fn whoever_asked_the_ring_to_name_another_begins_with_the_database_when_it_is_named_again() {
    let held = first(ME).epoch();
    let (destination, epoch) = (OTHER, held);
    let mut handing = owner();
    handing.step(Event::MoveAsked { epoch, destination });
    handing.step(Event::CaughtUp);
    handing.step(Event::Finished);
    let sent = handing;
    handing.step(Event::Confirmed { destination, epoch });
    let takes = |how| Action::Swap {
        expected: held,
        owner: ME,
        how,
    };
    for through in [
        &[Event::StreamFailed][..],
        &[Event::LeaseLost, Event::LeaseRenewed],
    ] {
        for (mut slot, how) in [(sent, Succession::Handed), (handing, Succession::TakenOver)] {
            let actions: Vec<Action> = through.iter().flat_map(|it| slot.step(*it)).collect();
            assert_eq!(actions.last(), Some(&takes(how)), "{through:?}");
            // A ring that nevertheless names it for what it has proves nothing.
            let again = after(first(ME), ME, Succession::Handed);
            let epoch = again.epoch();
            slot.step(Event::Learned(again));
            let cold = how == Succession::TakenOver;
            assert_eq!(slot.state(), State::Taking { epoch, cold });
            assert_eq!(slot.step(Event::Agreed { epoch }).is_empty(), cold);
        }
    }
}

#[test]
fn a_slot_that_is_taken_again_after_a_failed_move_is_kept_unless_another_was_asked_for_or_the_lease_ran_out()
 {
    let held = first(ME).epoch();
    let (destination, epoch) = (OTHER, held);
    let mut sent = owner();
    sent.step(Event::MoveAsked { epoch, destination });
    sent.step(Event::CaughtUp);
    sent.step(Event::Finished);
    let confirmed = Event::Confirmed { destination, epoch };
    let taken = after(first(ME), OTHER, Succession::TakenOver);
    let taken = after(taken, OTHER, Succession::TakenOver);
    let (keep, release) = (Action::Keep { held }, Action::Release { owner: OTHER });
    for (before, asked, then) in [
        (&[Event::StreamFailed][..], false, keep),
        (&[Event::StreamFailed, Event::StreamFailed], false, keep),
        (
            &[Event::StreamFailed, Event::LeaseLost, Event::LeaseRenewed],
            false,
            release,
        ),
        (&[confirmed, Event::StreamFailed], true, release),
        (&[confirmed, Event::LeaseLost], true, release),
    ] {
        let mut slot = sent;
        before.iter().for_each(|&event| drop(slot.step(event)));
        assert_eq!(slot.has_asked(), asked, "{before:?}");
        assert_eq!(slot.step(Event::Learned(taken)), [then], "{before:?}");
    }
}

#[test]
fn what_the_dead_have_said_makes_a_slot_be_taken_once_more() {
    let mut slot = fresh();
    let config = first(ME);
    let epoch = config.epoch();
    slot.step(Event::Learned(config));
    let swap = Action::Swap {
        expected: epoch,
        owner: ME,
        how: Succession::TakenOver,
    };
    let before = Epoch::mint(None, 0);
    assert_eq!(slot.step(Event::Doubted { epoch: before }), []);
    assert_eq!(slot.step(Event::Doubted { epoch }), [swap]);
    assert_eq!(slot.step(Event::Agreed { epoch }), []);
    let above = after(config, ME, Succession::TakenOver);
    let actions = slot.step(Event::Learned(above));
    assert_eq!(actions, [Action::Agree { warm: false }]);
    let epoch = above.epoch();
    let actions = slot.step(Event::Agreed { epoch });
    assert_eq!(actions, [Action::Serve { epoch, warm: true }]);
}

#[test]
fn what_was_admitted_outlives_the_owners_swaps_of_backups_and_no_seal() {
    let backed = |config: SlotConfig, backup| {
        let how = Succession::Handed;
        let next = config.swap_backed(config.epoch(), ME, backup, how, NOW);
        next.unwrap()
    };
    let mut slot = owner();
    let admitted = first(ME).epoch();
    assert_eq!(slot.unbroken(), Some(admitted));
    slot.backup_asked();
    assert_eq!(slot.unbroken(), None, "the backup may have been promoted");
    let with = backed(first(ME), Some(OTHER));
    let without = backed(with, None);
    for config in [with, without] {
        let (epoch, warm) = (config.epoch(), true);
        let actions = slot.step(Event::Learned(config));
        assert_eq!(actions, [Action::Serve { epoch, warm }]);
        assert_eq!(slot.in_force().map(|it| it.since), Some(admitted));
        assert!(slot.may_acknowledge(admitted, true) && slot.may_acknowledge(epoch, true));
        assert!(!slot.may_acknowledge(admitted, false));
    }
    assert_eq!(slot.unbroken(), Some(without.epoch()));
    slot.step(Event::LeaseLost);
    slot.step(Event::LeaseRenewed);
    let retaken = backed(without, Some(OTHER));
    slot.step(Event::Learned(retaken));
    let epoch = retaken.epoch();
    slot.step(Event::Agreed { epoch });
    assert!(slot.may_acknowledge(epoch, true) && !slot.may_acknowledge(admitted, true));
    assert!(!slot.may_acknowledge(without.epoch(), true));
}

#[test]
fn an_owner_gives_way_to_its_backup_and_to_no_other() {
    let backed = first(ME).swap_backed(first(ME).epoch(), ME, Some(OTHER), Succession::Handed, NOW);
    let promoted = after(backed.unwrap(), OTHER, Succession::Promoted);
    let mut slot = owner();
    slot.step(Event::Learned(backed.unwrap()));
    let released = slot.step(Event::Learned(promoted));
    assert_eq!(released, [Action::Release { owner: OTHER }]);
    // Without one, a config that names another was not asked for: the store was restored.
    let mut slot = owner();
    let held = first(ME).epoch();
    assert_eq!(slot.step(Event::Learned(promoted)), [Action::Keep { held }]);
}
