//! Operations of many users: whose each is, what it does, and what is told of it.

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

/// Something about one user.
pub trait OfUser: Copy + Send + Sync {
    fn user(&self) -> u64;
}

/// Operations of many users, in the order in which they are applied.
pub trait Operations: Sync {
    type One: Single;

    fn len(&self) -> usize;

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn user(&self, index: usize) -> u64;

    fn operation(&self, index: usize) -> Self::One;
}

impl<O: Single> Operations for [(u64, O)] {
    type One = O;

    fn len(&self) -> usize {
        <[(u64, O)]>::len(self)
    }

    fn user(&self, index: usize) -> u64 {
        self[index].0
    }

    fn operation(&self, index: usize) -> O {
        self[index].1
    }
}

/// An operation of each of some users, made of what is there for it: no list of operations is needed.
#[derive(Debug, Clone, Copy)]
pub struct Made<'a, T, F> {
    pub of: &'a [T],
    pub operation: F,
}

impl<T: OfUser, O: Single, F: Fn(&T) -> O + Sync> Operations for Made<'_, T, F> {
    type One = O;

    fn len(&self) -> usize {
        self.of.len()
    }

    fn user(&self, index: usize) -> u64 {
        self.of[index].user()
    }

    fn operation(&self, index: usize) -> O {
        (self.operation)(&self.of[index])
    }
}
