//! Which histories have an order, and which have one only if a dead member took something with it.

use super::*;

const ACK: Action = Action::Ack {
    channel: 1,
    message: 5,
};
const BACK: Action = Action::Manual {
    channel: 1,
    message: 3,
};

fn at(sent: u64, answered: u64, action: Action, answer: Answer) -> Event {
    Event {
        action,
        sent: Duration::from_millis(sent),
        answered: Duration::from_millis(answered),
        answer,
    }
}

fn changed(version: u64) -> Answer {
    let applied = true;
    Answer::Changed { applied, version }
}

fn ignored(version: u64) -> Answer {
    let applied = false;
    Answer::Changed { applied, version }
}

fn shows(states: &[(u64, u64)], version: u64) -> Answer {
    let states = states.iter().copied().collect();
    Answer::States { states, version }
}

fn check(events: &[Event]) -> Order {
    let mut history = History::default();
    for event in events {
        history.add(7, event.clone());
    }
    history.check().remove(&7).unwrap()
}

#[test]
fn operations_at_the_same_time_have_the_order_that_their_answers_show() {
    let order = check(&[
        at(0, 10, ACK, changed(1)),
        at(5, 30, BACK, changed(2)),
        at(6, 25, Action::Read, shows(&[(1, 5)], 1)),
        at(7, 40, Action::Read, shows(&[(1, 3)], 2)),
        at(41, 50, ACK, changed(3)),
        at(51, 60, ACK, ignored(3)),
        at(61, 70, Action::Delete { channel: 1 }, changed(4)),
        at(71, 80, Action::Erase, changed(5)),
        at(81, 90, Action::Erase, ignored(5)),
        at(91, 95, Action::Read, shows(&[], 5)),
    ]);
    assert_eq!(order, Order::Linearizable);
}

#[test]
fn what_has_no_answer_took_place_at_any_time_or_never() {
    let unknown = at(0, 0, ACK, Answer::Unknown);
    let reads = |first: &[(u64, u64)], second: &[(u64, u64)]| {
        check(&[
            unknown.clone(),
            at(10, 20, Action::Read, shows(first, first.len() as u64)),
            at(30, 40, Action::Read, shows(second, second.len() as u64)),
        ])
    };
    assert_eq!(reads(&[], &[]), Order::Linearizable);
    assert_eq!(reads(&[], &[(1, 5)]), Order::Linearizable);
    assert_eq!(reads(&[(1, 5)], &[(1, 5)]), Order::Linearizable);
    assert!(matches!(reads(&[(1, 5)], &[]), Order::Impossible { .. }));
}

#[test]
fn what_is_lost_stale_doubled_or_never_was_has_no_order() {
    let lost = [
        at(0, 10, ACK, changed(1)),
        at(20, 30, Action::Read, shows(&[], 0)),
    ];
    let stale = [
        at(0, 10, ACK, changed(1)),
        at(20, 30, BACK, changed(2)),
        at(40, 50, Action::Read, shows(&[(1, 5)], 1)),
    ];
    // A manual one that was done once more, after the next change.
    let doubled = [
        at(0, 10, BACK, changed(1)),
        at(20, 30, ACK, changed(2)),
        at(40, 50, Action::Read, shows(&[(1, 3)], 3)),
    ];
    let came_back = [
        at(0, 10, ACK, changed(1)),
        at(20, 30, Action::Erase, changed(2)),
        at(40, 50, Action::Read, shows(&[(1, 5)], 2)),
    ];
    let same_version = [at(0, 10, ACK, changed(1)), at(0, 10, BACK, changed(1))];
    for wrong in [&lost[..], &stale, &doubled, &came_back, &same_version] {
        let Order::Impossible { ordered, stuck } = check(wrong) else {
            panic!("{wrong:?}")
        };
        assert_eq!(ordered, wrong.len() - 1);
        assert_eq!(stuck, [wrong[wrong.len() - 1].clone()]);
    }
}

#[test]
fn users_have_nothing_to_do_with_each_other_and_clients_write_apart() {
    let (mut history, mut other) = (History::default(), History::default());
    history.add(1, at(0, 10, ACK, changed(1)));
    other.add(1, at(20, 30, Action::Read, shows(&[(1, 5)], 1)));
    other.add(2, at(20, 30, Action::Read, shows(&[], 0)));
    other.add(2, at(31, 0, ACK, Answer::Unknown));
    history.take(other);
    assert_eq!((history.answered(), history.unknown(2)), (3, 1));
    let orders: Vec<Order> = history.check().into_values().collect();
    assert_eq!(orders, [Order::Linearizable, Order::Linearizable]);
}

/// A member was killed that may have lost what it acknowledged from 100 ms on; it was dead at 200.
const KILLED: Excuse = Excuse {
    from: Duration::from_millis(100),
    until: Duration::from_millis(200),
};

/// The same with what such members may have lost.
fn check_with(excuses: &[Excuse], events: &[Event]) -> Option<Order> {
    let mut history = History::default();
    for event in events {
        history.add(7, event.clone());
    }
    history.check_with(7, excuses)
}

#[test]
fn what_a_killed_member_did_last_may_be_gone_and_nothing_before_it() {
    let lost = |first: u64, second: u64| {
        [
            at(first, first + 10, ACK, changed(1)),
            at(second, second + 10, BACK, changed(2)),
        ]
    };
    let reads = |events: &[Event; 2], states: &[(u64, u64)], version| {
        let [first, second] = events.clone();
        let read = at(300, 310, Action::Read, shows(states, version));
        check_with(&[KILLED], &[first, second, read])
    };
    let last = lost(50, 150);
    assert_eq!(reads(&last, &[(1, 3)], 2), Some(Order::Linearizable));
    assert_eq!(reads(&last, &[(1, 5)], 1), Some(Order::Linearizable));
    let before = reads(&last, &[], 0);
    assert!(
        matches!(before, Some(Order::Impossible { .. })),
        "{before:?}"
    );
    let both = lost(110, 150);
    assert_eq!(reads(&both, &[], 0), Some(Order::Linearizable));
    let written = lost(50, 80);
    assert_eq!(reads(&written, &[(1, 5)], 1), None);
    // What was done after the death was done by another.
    let after = lost(50, 210);
    assert_eq!(reads(&after, &[(1, 5)], 1), None);
}

#[test]
fn a_read_that_shows_a_change_says_when_it_took_place() {
    let unknown = at(0, 0, ACK, Answer::Unknown);
    let shown = |sent| at(sent, sent + 10, Action::Read, shows(&[(1, 5)], 1));
    let gone = at(300, 310, Action::Read, shows(&[], 0));
    let order = |sent| check_with(&[KILLED], &[unknown.clone(), shown(sent), gone.clone()]);
    assert_eq!(order(150), Some(Order::Linearizable));
    let written = order(60);
    assert!(
        matches!(written, Some(Order::Impossible { .. })),
        "{written:?}"
    );
}

#[test]
fn a_death_excuses_one_loss_and_no_version_that_was_told_twice() {
    let lost = at(150, 160, ACK, changed(1));
    let impossible = |event: Event| {
        let order = check_with(&[KILLED], &[lost.clone(), event]);
        assert!(matches!(order, Some(Order::Impossible { .. })), "{order:?}");
    };
    impossible(at(300, 310, BACK, changed(1)));
    // Nobody ever asked for that.
    impossible(at(300, 310, Action::Read, shows(&[(1, 3)], 0)));
    let again = at(300, 310, ACK, changed(70_000));
    let order = check_with(&[KILLED], &[lost.clone(), again.clone()]);
    assert_eq!(order, Some(Order::Linearizable), "it was lost");
    // It can be lost once.
    let stale = at(400, 410, Action::Read, shows(&[], 0));
    let order = check_with(&[KILLED], &[lost, again, stale]);
    assert!(matches!(order, Some(Order::Impossible { .. })), "{order:?}");
}

#[test]
fn a_history_with_too_many_orders_is_not_decided() {
    let mut events: Vec<Event> = (0..24)
        .map(|message| {
            let action = Action::Manual {
                channel: 1 + message % 2,
                message: 1 + message,
            };
            at(0, 0, action, Answer::Unknown)
        })
        .collect();
    // Nobody has read so far: no order explains it.
    events.push(at(1, 2, Action::Read, shows(&[(1, 99)], 1)));
    assert_eq!(check(&events), Order::Undecided);
}
