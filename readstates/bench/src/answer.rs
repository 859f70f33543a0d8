//! The outcome of an operation that was sent.

use std::{collections::BTreeMap, fmt};

/// The outcome of one operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// It changed something.
    Applied,
    /// It changed nothing: known already.
    Ignored,
    /// It read this many states.
    Read {
        /// States in the answer.
        states: u32,
    },
    /// It was refused, or nothing is known of it.
    Failed(Failure),
}

/// Why an operation has no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Failure {
    /// An HTTP status that is no success.
    Status(u16),
    /// In a batch or a mention: not taken, try later.
    NotTaken,
    /// In a batch or a mention: it is not known whether it was applied.
    OutcomeUnknown,
    /// In a batch: the record was called bad.
    BadRecord,
    /// An error of a Redis server.
    Redis,
    /// The answer made no sense; the connection was closed.
    Unreadable,
    /// No answer in time; the connection was closed.
    Timeout,
    /// The connection was lost before the answer.
    ConnectionLost,
    /// Due, and never sent: no connection was free until the end.
    Unsent,
}

impl Failure {
    /// Whether the service answered, quickly as it may be, and its time says nothing about operations
    /// that succeed.
    #[must_use]
    pub fn answered(self) -> bool {
        match self {
            Self::Status(_) | Self::NotTaken | Self::OutcomeUnknown | Self::BadRecord => true,
            Self::Redis => true,
            Self::Unreadable | Self::Timeout | Self::ConnectionLost | Self::Unsent => false,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Status(status) => return write!(f, "status {status}"),
            Self::NotTaken => "not taken",
            Self::OutcomeUnknown => "outcome unknown",
            Self::BadRecord => "bad record",
            Self::Redis => "Redis error",
            Self::Unreadable => "unreadable answer",
            Self::Timeout => "timeout",
            Self::ConnectionLost => "connection lost",
            Self::Unsent => "never sent",
        })
    }
}

/// Operations by outcome.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Changed something.
    pub applied: u64,
    /// Changed nothing.
    pub ignored: u64,
    /// Read something.
    pub reads: u64,
    /// States in what was read.
    pub states_read: u64,
    /// Failed, by why.
    pub failures: BTreeMap<Failure, u64>,
}

impl Counts {
    /// Books one operation.
    pub fn add(&mut self, answer: Answer) {
        match answer {
            Answer::Applied => self.applied += 1,
            Answer::Ignored => self.ignored += 1,
            Answer::Read { states } => {
                self.reads += 1;
                self.states_read += u64::from(states);
            }
            Answer::Failed(failure) => *self.failures.entry(failure).or_default() += 1,
        }
    }

    /// Books what another has booked.
    pub fn merge(&mut self, other: &Self) {
        let Self {
            applied,
            ignored,
            reads,
            states_read,
            failures,
        } = other;
        self.applied += applied;
        self.ignored += ignored;
        self.reads += reads;
        self.states_read += states_read;
        for (failure, count) in failures {
            *self.failures.entry(*failure).or_default() += count;
        }
    }

    /// Operations that succeeded.
    #[must_use]
    pub fn succeeded(&self) -> u64 {
        self.applied + self.ignored + self.reads
    }

    /// Operations that failed.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.failures.values().sum()
    }
}
