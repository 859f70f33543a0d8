//! One operation of one user out of many: what it does, and what is told of it.

use crate::block::{BlockRef, Operation, Outcome, State};

/// One operation of one user, among those of others.
pub trait Single: Copy + Send + Sync + 'static {
    /// What is told of it.
    type Seen: Copy + Send + 'static;

    /// The change that it makes; none for a read.
    fn change(&self) -> Option<&Operation>;

    /// Looks at the user's block right after it. `outcome`: that of the change, if it is one.
    fn see(&self, block: BlockRef<'_>, outcome: Option<Outcome>) -> Self::Seen;

    /// The outcome of the change, if it was one.
    fn outcome(seen: &Self::Seen) -> Option<Outcome>;
}

/// A change of which the outcome alone is told.
impl Single for Operation {
    type Seen = Outcome;

    fn change(&self) -> Option<&Operation> {
        Some(self)
    }

    fn see(&self, _: BlockRef<'_>, outcome: Option<Outcome>) -> Outcome {
        outcome.unwrap_or(Outcome::Ignored)
    }

    fn outcome(seen: &Outcome) -> Option<Outcome> {
        Some(*seen)
    }
}

/// A change or a read of one channel, of which the read state after it is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WithState {
    pub channel: u64,
    /// The change; none for a read.
    pub change: Option<Operation>,
}

/// The read state of a channel after an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateSeen {
    /// The outcome of the change; none after a read.
    pub outcome: Option<Outcome>,
    /// The user's version.
    pub version: u64,
    /// The read state, if there is one.
    pub state: Option<State>,
}

impl Single for WithState {
    type Seen = StateSeen;

    fn change(&self) -> Option<&Operation> {
        self.change.as_ref()
    }

    fn see(&self, block: BlockRef<'_>, outcome: Option<Outcome>) -> StateSeen {
        StateSeen {
            outcome,
            version: block.version(),
            state: block.state(self.channel),
        }
    }

    fn outcome(seen: &StateSeen) -> Option<Outcome> {
        seen.outcome
    }
}
