//! What a member that is killed may take with it.

use std::time::Duration;

/// A time in which operations that a member acknowledged may be lost: its last flush interval before it was killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Excuse {
    /// From here, counted from the beginning of the load.
    pub from: Duration,
    /// To here.
    pub until: Duration,
}

impl Excuse {
    /// Whether it may concern an operation: the member did it some time between question and answer.
    pub(crate) fn covers(&self, sent: Duration, answered: Duration) -> bool {
        sent <= self.until && self.from <= answered
    }
}
