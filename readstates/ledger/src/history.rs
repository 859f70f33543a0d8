//! A history of concurrent operations on single users, and whether it is linearizable. Pure.
//!
//! Every operation seems to take place at one moment between its question and its answer (Herlihy and Wing); one
//! without an answer takes place at any moment after its question, or never. The search is that of Wing and Gong with
//! what was seen before remembered (Lowe): one user at a time, since users have nothing to do with each other. The
//! versions of the answers leave it few choices.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::Duration,
};

/// So many steps a search takes at most until it gives up, for one user.
const MOST_STEPS: usize = 400_000;

/// What is asked about a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// The user has read up to this message.
    Ack { channel: u64, message: u64 },
    /// The position goes to this message, in either direction; no mentions are left.
    Manual { channel: u64, message: u64 },
    /// The read state of a channel goes.
    Delete { channel: u64 },
    /// Everything of the user goes.
    Erase,
    /// All states are read.
    Read,
}

/// What is known of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// A change was done, or nothing needed to change; the user has this version.
    Changed {
        /// Whether it changed anything.
        applied: bool,
        /// The version after it.
        version: u64,
    },
    /// All states, as channel and last message, and the user's version.
    States {
        /// By channel.
        states: BTreeMap<u64, u64>,
        version: u64,
    },
    /// It was done, and no more is told.
    Done,
    /// It may have been done, or be done yet.
    Unknown,
}

/// One operation. A refused one, with nothing done, is not part of the history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub action: Action,
    pub sent: Duration,
    /// When the answer came; meaningless if the answer is unknown.
    pub answered: Duration,
    pub answer: Answer,
}

/// What happened, by user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History {
    events: BTreeMap<u64, Vec<Event>>,
}

/// The result of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// There is an order.
    Linearizable,
    /// There is no order. The longest partial order found has `ordered` operations, and none of those that could come
    /// next, `stuck`, would get the answer that it got.
    Impossible {
        /// How many operations have an order.
        ordered: usize,
        /// What could come next.
        stuck: Vec<Event>,
    },
    /// There are too many to try.
    Undecided,
}

/// What the operations so far make of a user.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct State {
    last: BTreeMap<u64, u64>,
    /// At least.
    version: u64,
}

impl History {
    /// Writes an operation down.
    pub fn add(&mut self, user: u64, event: Event) {
        self.events.entry(user).or_default().push(event);
    }

    /// Takes what another client wrote.
    pub fn take(&mut self, other: Self) {
        for (user, events) in other.events {
            self.events.entry(user).or_default().extend(events);
        }
    }

    /// The operations of a user without an answer.
    #[must_use]
    pub fn unknown(&self, user: u64) -> usize {
        let events = self.events.get(&user).map_or(&[][..], Vec::as_slice);
        let unknown = events.iter().filter(|it| it.answer == Answer::Unknown);
        unknown.count()
    }

    /// When a user was asked about first, and when the last answer came.
    #[must_use]
    pub fn life(&self, user: u64) -> Option<(Duration, Duration)> {
        let events = self.events.get(&user)?;
        let first = events.iter().map(|event| event.sent).min()?;
        let last = events
            .iter()
            .map(|event| event.answered.max(event.sent))
            .max()?;
        Some((first, last))
    }

    /// How many operations have an answer.
    #[must_use]
    pub fn answered(&self) -> usize {
        let all = self.events.values().flatten();
        all.filter(|it| it.answer != Answer::Unknown).count()
    }

    /// Looks for an order of each user's operations. Users begin with nothing.
    #[must_use]
    pub fn check(&self) -> BTreeMap<u64, Order> {
        let each = self.events.iter();
        each.map(|(&user, events)| (user, Search::new(events).run()))
            .collect()
    }
}

/// What has an order: one bit for each operation.
type Done = Vec<u64>;

struct Search<'a> {
    /// In the order in which they were asked.
    events: Vec<&'a Event>,
    tried: HashMap<Done, HashSet<State>>,
    steps: usize,
    /// The longest beginning, and how many of those with an answer it has.
    best: (usize, Done),
}

impl<'a> Search<'a> {
    fn new(events: &'a [Event]) -> Self {
        let mut events: Vec<&Event> = events.iter().collect();
        events.sort_by_key(|event| event.sent);
        let words = events.len().div_ceil(64);
        Self {
            events,
            tried: HashMap::new(),
            steps: 0,
            best: (0, vec![0; words]),
        }
    }

    fn run(mut self) -> Order {
        let mut done = self.best.1.clone();
        let known = self.events.iter().filter(|it| it.answer != Answer::Unknown);
        let left = known.count();
        match self.go_on(&mut done, &State::default(), left, 0) {
            Some(true) => Order::Linearizable,
            None => Order::Undecided,
            Some(false) => {
                let (ordered, done) = self.best.clone();
                let next = self.next(&done);
                Order::Impossible {
                    ordered,
                    stuck: next.into_iter().map(|it| self.events[it].clone()).collect(),
                }
            }
        }
    }

    /// Whether those that are left have an order after those that are done; `None` when that was not found out.
    fn go_on(&mut self, done: &mut Done, state: &State, left: usize, depth: usize) -> Option<bool> {
        if left == 0 {
            return Some(true);
        }
        self.steps += 1;
        if self.steps > MOST_STEPS {
            return None;
        }
        if depth > self.best.0 {
            self.best = (depth, done.clone());
        }
        if !self
            .tried
            .entry(done.clone())
            .or_default()
            .insert(state.clone())
        {
            return Some(false);
        }
        for index in self.next(done) {
            let event = self.events[index];
            let Some(after) = state.after(event) else {
                continue;
            };
            let known = usize::from(event.answer != Answer::Unknown);
            done[index / 64] |= 1 << (index % 64);
            let found = self.go_on(done, &after, left - known, depth + 1);
            done[index / 64] &= !(1 << (index % 64));
            if found != Some(false) {
                return found;
            }
        }
        Some(false)
    }

    /// Those that can be next: nothing that is left was answered before they were asked. The lowest version first, and
    /// what has no answer last.
    fn next(&self, done: &Done) -> Vec<usize> {
        let is_left = |index: &usize| done[index / 64] >> (index % 64) & 1 == 0;
        let left: Vec<usize> = (0..self.events.len()).filter(is_left).collect();
        let known = left
            .iter()
            .filter(|&&index| self.events[index].answer != Answer::Unknown);
        let first_answer = known.map(|&index| self.events[index].answered).min();
        let may =
            |index: &usize| first_answer.is_none_or(|first| self.events[*index].sent <= first);
        let mut next: Vec<usize> = left.into_iter().filter(may).collect();
        next.sort_by_key(|&index| self.events[index].answer.order());
        next
    }
}

impl Answer {
    fn order(&self) -> (u64, bool) {
        match *self {
            Self::Changed { applied, version } => (version, !applied),
            Self::States { version, .. } => (version, true),
            Self::Done => (u64::MAX, false),
            Self::Unknown => (u64::MAX, true),
        }
    }
}

impl State {
    /// The state after an operation; `None` when it would have been answered otherwise.
    fn after(&self, event: &Event) -> Option<Self> {
        let mut next = self.clone();
        let changed = next.change(event.action);
        match &event.answer {
            Answer::Done | Answer::Unknown => next.version += u64::from(changed),
            Answer::Changed { applied, version } => {
                // Whether there was anything to erase is not told by the states alone: deletions are remembered.
                let fits = *applied == changed || (event.action == Action::Erase && !changed);
                let grows = *version >= self.version + u64::from(*applied);
                if !fits || !grows {
                    return None;
                }
                next.version = *version;
            }
            Answer::States { states, version } => {
                if *states != self.last || *version < self.version {
                    return None;
                }
                next.version = *version;
            }
        }
        Some(next)
    }

    /// Does it; whether it changes anything.
    fn change(&mut self, action: Action) -> bool {
        match action {
            Action::Ack { channel, message } => {
                let is_later = self.last.get(&channel).is_none_or(|&last| last < message);
                if is_later {
                    self.last.insert(channel, message);
                }
                is_later
            }
            Action::Manual { channel, message } => {
                self.last.insert(channel, message) != Some(message)
            }
            Action::Delete { channel } => self.last.remove(&channel).is_some(),
            Action::Erase => {
                let any = !self.last.is_empty();
                self.last.clear();
                any
            }
            Action::Read => false,
        }
    }
}

#[cfg(test)]
mod tests {
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
}
