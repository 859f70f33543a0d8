//! The source of a thread's operations, which is also told their outcomes.

use crate::{
    answer::Answer,
    check::Ledger,
    keys::{Keys, Random},
    operation::{Kind, Mix, Operation},
};

/// A source of operations.
pub trait Source: Send {
    /// Appends the operations of the next request; `false`, and nothing, when there are none.
    fn next(&mut self, operations: &mut Vec<Operation>) -> bool;

    /// Is told the outcome of a request that [`Source::next`] made.
    fn answered(&mut self, operations: &[Operation], answers: &[Answer]);

    /// Whether there are operations to send again, whatever the schedule says.
    fn owes(&self) -> bool {
        false
    }

    /// The record of what it sent, if it keeps one.
    fn ledger(&self) -> Option<&Ledger> {
        None
    }
}

/// Message ids that grow: those of a later run are larger.
#[derive(Debug, Clone)]
pub struct Messages {
    next: u64,
    step: u64,
}

impl Messages {
    /// Ids from the snowflake of `now`, in milliseconds since 2015, every `threads`-th for each thread.
    #[must_use]
    pub fn new(now: u64, thread: u64, threads: u64) -> Self {
        Self {
            next: (now << 22) + thread,
            step: threads,
        }
    }

    pub fn id(&mut self) -> u64 {
        let id = self.next;
        self.next += self.step;
        id
    }
}

/// Operations by chance, in the proportion of a mix.
#[derive(Debug)]
pub struct Mixed {
    /// The users.
    pub keys: Keys,
    /// The proportion.
    pub mix: Mix,
    /// Chance.
    pub random: Random,
    /// Message ids.
    pub messages: Messages,
    /// Operations per request.
    pub per_request: usize,
}

impl Source for Mixed {
    fn next(&mut self, operations: &mut Vec<Operation>) -> bool {
        for _ in 0..self.per_request {
            let (user, channel) = self.keys.draw(&mut self.random);
            operations.push(Operation {
                kind: self.mix.draw(&mut self.random),
                user,
                channel,
                message: self.messages.id(),
            });
        }
        true
    }

    fn answered(&mut self, _operations: &[Operation], _answers: &[Answer]) {}
}

/// What is done once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sweep {
    /// Every channel of every user is acknowledged.
    Fill,
    /// Every user reads all states, like a client that connects.
    Connect,
}

impl Sweep {
    /// How many operations that is.
    #[must_use]
    pub fn operations(self, keys: &Keys) -> u64 {
        match self {
            Self::Fill => keys.pairs(),
            Self::Connect => keys.users().0,
        }
    }

    fn operation(self, number: u64, keys: &Keys, messages: &mut Messages) -> Operation {
        let (kind, number) = match self {
            Self::Fill => (Kind::Ack, number),
            Self::Connect => (Kind::Read, number * keys.channels()),
        };
        let (user, channel) = keys.pair(number);
        Operation {
            kind,
            user,
            channel,
            message: messages.id(),
        }
    }
}

/// All operations of a sweep once: a thread takes every `threads`-th request of them. What is refused is sent again.
#[derive(Debug)]
pub struct Once {
    sweep: Sweep,
    keys: Keys,
    messages: Messages,
    per_request: u64,
    next: u64,
    step: u64,
    again: Vec<Operation>,
}

impl Once {
    /// What thread `thread` of `threads` does.
    #[must_use]
    pub fn new(
        sweep: Sweep,
        keys: Keys,
        messages: Messages,
        per_request: usize,
        thread: u64,
        threads: u64,
    ) -> Self {
        let per_request = per_request as u64;
        Self {
            sweep,
            keys,
            messages,
            per_request,
            next: thread * per_request,
            step: threads * per_request,
            again: Vec::new(),
        }
    }
}

impl Source for Once {
    fn next(&mut self, operations: &mut Vec<Operation>) -> bool {
        let all = self.sweep.operations(&self.keys);
        if self.next < all {
            let end = (self.next + self.per_request).min(all);
            for number in self.next..end {
                let operation = self.sweep.operation(number, &self.keys, &mut self.messages);
                operations.push(operation);
            }
            self.next += self.step;
            return true;
        }
        let again = self.again.len().min(self.per_request as usize);
        operations.extend(self.again.drain(..again));
        again > 0
    }

    fn answered(&mut self, operations: &[Operation], answers: &[Answer]) {
        for (operation, answer) in operations.iter().zip(answers) {
            if matches!(answer, Answer::Failed(_)) {
                self.again.push(*operation);
            }
        }
    }

    fn owes(&self) -> bool {
        !self.again.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{answer::Failure, keys::Distribution};

    #[test]
    fn filling_names_every_channel_once_and_what_failed_again() {
        let keys = Keys::new(5, 3, Distribution::Uniform, 1);
        let mut filled = BTreeSet::new();
        for thread in 0..2 {
            let messages = Messages::new(1, thread, 2);
            let mut fill = Once::new(Sweep::Fill, keys.clone(), messages, 4, thread, 2);
            let mut failed = false;
            let mut operations = Vec::new();
            while fill.next(&mut operations) {
                let answer = if failed {
                    Answer::Applied
                } else {
                    Answer::Failed(Failure::NotTaken)
                };
                fill.answered(&operations, &vec![answer; operations.len()]);
                for operation in operations.drain(..) {
                    let new = filled.insert((operation.user, operation.channel));
                    assert!(new || failed, "only what failed is sent again");
                }
                failed = true;
            }
            assert!(!fill.owes());
        }
        assert_eq!(filled.len(), 15);
    }

    #[test]
    fn everybody_connects_once() {
        let keys = Keys::new(5, 3, Distribution::Uniform, 1);
        let mut connected = BTreeSet::new();
        for thread in 0..2 {
            let messages = Messages::new(1, thread, 2);
            let mut connect = Once::new(Sweep::Connect, keys.clone(), messages, 1, thread, 2);
            let mut operations = Vec::new();
            while connect.next(&mut operations) {
                connect.answered(&operations, &[Answer::Read { states: 3 }]);
                for operation in operations.drain(..) {
                    assert_eq!(operation.kind, Kind::Read);
                    assert!(connected.insert(operation.user));
                }
            }
        }
        assert_eq!(connected.len(), 5);
    }
}
