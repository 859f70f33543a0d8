//! A user's block outside of the cache: on its way to another member.

use std::time::Duration;

/// A user on the way to another member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exported {
    pub user: u64,
    /// The packed block, see [`crate::codec`].
    pub bytes: Vec<u8>,
    /// Whether the block is as it was loaded from another owner's write: its next change begins an era.
    pub taken_over: bool,
    /// For how long the user is dirty, when it is.
    pub dirty_for: Option<Duration>,
}
