//! Why an operation was not done: a change that was refused, a user who could not be loaded.

use crate::cache::Refused;

/// Why the owner did not do what it was asked to. Nothing changed, except where it says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotDone {
    /// The change was refused.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The user could not be loaded.
    #[error(transparent)]
    NotLoaded(#[from] LoadError),
    /// The task that would have done it ended before it told the outcome.
    #[error("it is not known whether this was done")]
    Unknown,
}

/// Why a user is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The store does not give the block, or not in time.
    #[error("the user is not cached, and the database does not give the block")]
    StoreAway,
    /// Too many loads are under way, or too much waits for them.
    #[error("too many users are being loaded")]
    TooManyLoads,
    /// The user's slot is not served here any more, or not since the load began.
    #[error("the user moves to another member")]
    Moved,
    /// The store holds a block of a later epoch than the slot's.
    #[error("the ring is older than what the database holds for the user")]
    RingWentBack,
    /// What the store holds is no block this version can read.
    #[error("what the database holds for the user cannot be read")]
    Unreadable,
}
