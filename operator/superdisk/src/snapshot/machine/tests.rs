//! What a snapshot takes, in order, and what ends it too early.

use super::*;
use crate::snapshot::wire::{Code, Open};

fn id(text: &str) -> SnapshotId {
    text.parse().unwrap()
}

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn begin(name: &str) -> Event {
    Event::Begin {
        id: id(name),
        obstacle: None,
    }
}

fn end(name: &str) -> Event {
    Event::End { id: id(name) }
}

fn time_over(name: &str) -> Event {
    Event::TimeOver { id: id(name) }
}

const MARKED: Event = Event::Marked { generation: 7 };
const SYNCED: Event = Event::Synced { obstacle: None };
const FAILED: fn() -> Event = || Event::Failed {
    why: "EIO".to_owned(),
};

fn past(name: &str, lost: Option<Loss>) -> Past {
    Past {
        id: id(name),
        generation: 7,
        lost,
    }
}

fn ended(name: &str, lost: Option<Loss>) -> Action {
    Action::Answer(Answer::Ended(past(name, lost)))
}

fn begun(name: &str, left_millis: u64) -> Action {
    Action::Answer(Answer::Begun(Open {
        id: id(name),
        generation: 7,
        left_millis,
    }))
}

/// The code of the refusal that is the only action.
fn code(actions: &[Action]) -> Code {
    match actions {
        [Action::Answer(Answer::Refused(refusal))] => refusal.code,
        other => panic!("not refused: {other:?}"),
    }
}

/// Frozen for `s` from second 100 on.
fn frozen() -> Machine {
    let mut machine = Machine::default();
    for event in [begin("s"), MARKED, SYNCED, Event::Froze] {
        machine.on(event, at(100));
    }
    machine
}

/// Being ended in second 104.
fn probing() -> Machine {
    let mut machine = frozen();
    assert_eq!(machine.on(end("s"), at(104)), [Action::Probe]);
    machine
}

#[test]
fn a_snapshot_is_marked_synced_and_frozen_in_this_order_and_only_then_begun() {
    let mut machine = Machine::default();
    assert_eq!(machine.on(begin("s"), at(100)), [Action::Mark(id("s"))]);
    assert_eq!(machine.on(MARKED, at(101)), [Action::Sync]);
    let freeze = Action::Freeze {
        id: id("s"),
        generation: 7,
    };
    assert_eq!(machine.on(SYNCED, at(130)), [freeze]);
    // Writers wait since second 130.
    let wake = Action::Wake {
        id: id("s"),
        at: at(140),
    };
    let froze = machine.on(Event::Froze, at(131));
    assert_eq!(froze, [wake, begun("s", 9_000)]);
}

#[test]
fn its_end_writes_the_next_generation_before_it_thaws() {
    let mut machine = probing();
    let actions = machine.on(Event::Probed { still: true }, at(104));
    assert_eq!(actions, [Action::Unmark, Action::Thaw, ended("s", None)]);
}

#[test]
fn asked_twice_the_answer_is_the_same() {
    let mut machine = frozen();
    assert_eq!(machine.on(begin("s"), at(103)), [begun("s", 7_000)]);
    machine.on(end("s"), at(104));
    machine.on(Event::Probed { still: true }, at(104));
    for time in [104, 4_000] {
        assert_eq!(machine.on(end("s"), at(time)), [ended("s", None)]);
    }
}

#[test]
fn the_end_of_time_thaws_and_the_snapshot_is_not_proven() {
    let mut machine = frozen();
    assert_eq!(
        machine.on(time_over("s"), at(110)),
        [Action::Thaw, Action::Unmark]
    );
    let lost = ended("s", Some(Loss::TimeOver));
    assert_eq!(machine.on(end("s"), at(111)), [lost]);
    // An end that comes when it is over, but before that was noticed.
    let mut machine = frozen();
    let actions = machine.on(end("s"), at(110));
    let lost = ended("s", Some(Loss::TimeOver));
    assert_eq!(actions, [Action::Thaw, Action::Unmark, lost]);
}

#[test]
fn an_end_that_hangs_does_not_hold_the_writers_for_longer() {
    let mut machine = probing();
    assert_eq!(
        machine.on(time_over("s"), at(110)),
        [Action::Thaw, Action::Unmark]
    );
    // Looking whether it was frozen may have frozen it again.
    assert_eq!(
        machine.on(Event::Probed { still: false }, at(120)),
        [
            Action::Thaw,
            Action::Unmark,
            ended("s", Some(Loss::TimeOver))
        ]
    );
    // It was in time, and the header hangs.
    let mut machine = probing();
    machine.on(Event::Probed { still: true }, at(104));
    assert_eq!(machine.on(time_over("s"), at(110)), [Action::Thaw]);
    assert_eq!(machine.last(), Some(&past("s", None)));
}

#[test]
fn a_timer_of_a_snapshot_before_leaves_the_next_one_alone() {
    let mut machine = frozen();
    assert_eq!(machine.on(time_over("r"), at(105)), []);
    assert_eq!(machine.on(end("s"), at(106)), [Action::Probe]);
    assert_eq!(machine.on(time_over("r"), at(107)), []);
}

#[test]
fn a_thaw_by_somebody_else_is_noticed_at_the_end() {
    for event in [Event::Probed { still: false }, FAILED()] {
        assert_eq!(
            probing().on(event, at(104)),
            [Action::Thaw, Action::Unmark, ended("s", Some(Loss::Thawed))]
        );
    }
}

#[test]
fn the_red_line_takes_the_freeze_over_and_nothing_of_the_snapshot_thaws_it() {
    for mut machine in [frozen(), probing()] {
        assert_eq!(machine.on(Event::DurableLost, at(105)), [Action::HandOver]);
        // In every round.
        assert_eq!(machine.on(Event::DurableLost, at(106)), []);
        assert_eq!(
            machine.on(end("s"), at(107)),
            [ended("s", Some(Loss::DurableLost))]
        );
    }
    let mut freezing = Machine::default();
    for event in [begin("s"), MARKED, SYNCED] {
        freezing.on(event, at(100));
    }
    assert_eq!(freezing.on(Event::DurableLost, at(101)), [Action::HandOver]);
}

#[test]
fn whatever_comes_back_after_an_end_out_of_order_is_undone() {
    for over in [Event::Stop, Event::DurableLost] {
        for (done, result) in [
            (vec![], MARKED),
            (vec![MARKED], SYNCED),
            (vec![MARKED, SYNCED], Event::Froze),
            (vec![MARKED, SYNCED], FAILED()),
        ] {
            let mut machine = Machine::default();
            machine.on(begin("s"), at(100));
            for event in done {
                machine.on(event, at(100));
            }
            machine.on(over.clone(), at(101));
            let actions = machine.on(result, at(102));
            assert_eq!(actions[..2], [Action::Thaw, Action::Unmark], "{over:?}");
            assert_eq!(code(&actions[2..]), Code::NotNow);
        }
    }
}

#[test]
fn an_agent_that_ends_thaws_and_the_snapshot_is_not_proven() {
    let mut machine = frozen();
    assert_eq!(
        machine.on(Event::Stop, at(105)),
        [Action::Thaw, Action::Unmark]
    );
    assert_eq!(machine.last(), Some(&past("s", Some(Loss::AgentEnded))));
    // The next agent knows of it.
    let mut next = Machine::after(machine.last().cloned());
    assert_eq!(
        next.on(end("s"), at(1)),
        [ended("s", Some(Loss::AgentEnded))]
    );
}

#[test]
fn a_begin_that_fails_anywhere_leaves_nothing_and_may_be_tried_again() {
    for done in [vec![], vec![MARKED], vec![MARKED, SYNCED]] {
        let mut machine = Machine::default();
        machine.on(begin("s"), at(100));
        for event in done {
            machine.on(event, at(100));
        }
        let failed = Action::Answer(Answer::Failed {
            id: id("s"),
            why: "EIO".to_owned(),
        });
        let actions = machine.on(FAILED(), at(101));
        assert_eq!(actions, [Action::Thaw, Action::Unmark, failed]);
        assert_eq!(machine.on(begin("s"), at(102)), [Action::Mark(id("s"))]);
    }
}

#[test]
fn a_freeze_that_takes_the_whole_time_is_undone() {
    let mut machine = Machine::default();
    for event in [begin("s"), MARKED, SYNCED] {
        machine.on(event, at(100));
    }
    let actions = machine.on(Event::Froze, at(110));
    assert_eq!(actions[..2], [Action::Thaw, Action::Unmark]);
    assert!(matches!(
        actions[2..],
        [Action::Answer(Answer::Failed { .. })]
    ));
}

#[test]
fn a_caller_that_is_gone_before_the_answer_lets_go_at_once() {
    let mut machine = frozen();
    let gone = Event::CallerGone { id: id("s") };
    assert_eq!(machine.on(gone, at(101)), [Action::Thaw, Action::Unmark]);
    // Nobody was told, so nobody relies on it.
    assert_eq!(code(&machine.on(end("s"), at(102))), Code::Unknown);
    assert_eq!(machine.on(begin("s"), at(103)), [Action::Mark(id("s"))]);
}

#[test]
fn what_stands_in_the_way_refuses_before_anything_is_done_and_again_before_the_freeze() {
    let obstacle = || Some(Refusal::new(Code::NotNow, "The fast leg is lost", "Wait"));
    let mut machine = Machine::default();
    let asked = Event::Begin {
        id: id("s"),
        obstacle: obstacle(),
    };
    assert_eq!(code(&machine.on(asked, at(1))), Code::NotNow);
    machine.on(begin("s"), at(2));
    machine.on(MARKED, at(2));
    let synced = Event::Synced {
        obstacle: obstacle(),
    };
    let actions = machine.on(synced, at(3));
    assert_eq!(actions[0], Action::Unmark);
    assert_eq!(code(&actions[1..]), Code::NotNow);
    assert_eq!(machine.on(begin("s"), at(4)), [Action::Mark(id("s"))]);
}

#[test]
fn one_at_a_time_and_an_id_is_for_one_moment() {
    let mut machine = frozen();
    assert_eq!(code(&machine.on(begin("t"), at(101))), Code::Busy);
    assert_eq!(code(&machine.on(end("t"), at(101))), Code::Unknown);
    machine.on(end("s"), at(102));
    assert_eq!(code(&machine.on(end("s"), at(102))), Code::Busy);
    machine.on(Event::Probed { still: true }, at(102));
    assert_eq!(code(&machine.on(begin("s"), at(103))), Code::Over);
    assert_eq!(machine.on(begin("t"), at(104)), [Action::Mark(id("t"))]);
    // The one before can still be asked about.
    assert_eq!(machine.on(end("s"), at(105)), [ended("s", None)]);
}

#[test]
fn status_says_what_is_held_and_what_was_held_last() {
    let status = |machine: &Machine| match machine.status(at(104)) {
        Answer::Status {
            open,
            under_way,
            last,
        } => (
            open.map(|open| open.left_millis),
            under_way.is_some(),
            last.is_some(),
        ),
        other => panic!("{other:?}"),
    };
    assert_eq!(status(&Machine::default()), (None, false, false));
    assert_eq!(status(&frozen()), (Some(6_000), false, false));
    let mut machine = probing();
    assert_eq!(status(&machine), (None, true, false));
    machine.on(Event::Probed { still: true }, at(104));
    assert_eq!(status(&machine), (None, false, true));
}
