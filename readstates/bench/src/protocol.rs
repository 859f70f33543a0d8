//! How operations become bytes, and bytes answers.

use std::fmt;

use crate::{answer::Answer, operation::Operation};

/// What was at the head of a connection's input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Read {
    /// Not a whole answer yet.
    Incomplete,
    /// An answer of this many bytes.
    Whole {
        length: usize,
        /// The server closes the connection after it.
        last: bool,
    },
}

/// The answer makes no sense; nothing more of this connection can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the answer makes no sense")]
pub struct Unreadable;

/// A protocol of requests that are answered in order.
pub trait Protocol: fmt::Debug + Send + Sync {
    /// Appends the request for these operations.
    fn write(&self, operations: &[Operation], output: &mut Vec<u8>);

    /// Reads the first answer of `input`, to a request for `operations`, and appends the outcome of each.
    ///
    /// # Errors
    /// When it makes no sense.
    fn read(
        &self,
        operations: &[Operation],
        input: &[u8],
        answers: &mut Vec<Answer>,
    ) -> Result<Read, Unreadable>;
}
