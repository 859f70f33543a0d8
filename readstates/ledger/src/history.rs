//! A history of concurrent operations on single users, and whether it is linearizable. Pure.
//!
//! Every operation seems to take place at one moment between its question and its answer (Herlihy and Wing); one
//! without an answer takes place at any moment after its question, or never. A member that was killed may have taken
//! something with it: then a user is once again what it was at a moment of the [`Excuse`].

mod search;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, time::Duration};

use search::Search;

use crate::excuse::Excuse;

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

    /// How many operations have an answer.
    #[must_use]
    pub fn answered(&self) -> usize {
        self.events.values().map(|events| answered(events)).sum()
    }

    /// The same of one user.
    pub(crate) fn answered_of(&self, user: u64) -> usize {
        self.events.get(&user).map_or(0, |events| answered(events))
    }

    /// The users that were asked about.
    pub fn users(&self) -> impl Iterator<Item = u64> + '_ {
        self.events.keys().copied()
    }

    /// Looks for an order of each user's operations. Users begin with nothing.
    #[must_use]
    pub fn check(&self) -> BTreeMap<u64, Order> {
        let each = self.events.iter();
        each.map(|(&user, events)| (user, Search::new(events, Vec::new()).run()))
            .collect()
    }

    /// The same of one user of whom members that were killed may have lost something; `None` when none of them can have.
    pub(crate) fn check_with(&self, user: u64, excuses: &[Excuse]) -> Option<Order> {
        let events = self.events.get(&user)?;
        let concerns = |excuse: &Excuse| {
            let mut changes = events.iter().filter(|event| event.action != Action::Read);
            changes.any(|change| excuse.covers(change.sent, change.latest()))
        };
        let losses: Vec<Excuse> = excuses.iter().copied().filter(concerns).collect();
        (!losses.is_empty()).then(|| Search::new(events, losses).run())
    }
}

impl Event {
    /// When it has taken place at the latest.
    fn latest(&self) -> Duration {
        match self.answer {
            Answer::Unknown => Duration::MAX,
            Answer::Changed { .. } | Answer::States { .. } | Answer::Done => self.answered,
        }
    }
}

fn answered(events: &[Event]) -> usize {
    let answered = events.iter().filter(|it| it.answer != Answer::Unknown);
    answered.count()
}
