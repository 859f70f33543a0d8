//! Reads everything that a store keeps, in pages: for backups, not for requests.

use std::fmt;

use futures::stream::BoxStream;

use super::{StoreError, Stored};

/// Rows of a page. A page of large blocks is large: a row may have 16 MiB, and most have half a kilobyte.
pub(super) const ROWS_PER_PAGE: usize = 256;

/// A user and its last write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The user.
    pub user: u64,
    /// Its block.
    pub stored: Stored,
}

/// Rows of a range, in pages.
pub type Pages<'a> = BoxStream<'a, Result<Vec<Row>, StoreError>>;

/// Reads all rows. They are cut into ranges that can be read side by side: every user is in one of them.
pub trait Scan: fmt::Debug + Send + Sync {
    /// How many ranges there are; the same for all stores of one kind.
    fn ranges(&self) -> usize;

    /// The rows of a range, numbered from 0, in an order that is the same each time. A row that is written meanwhile
    /// is read as it was before or as it is then.
    fn scan(&self, range: usize) -> Pages<'_>;
}
