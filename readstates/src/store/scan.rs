//! Reads everything that a store keeps, in pages: for backups and moves, not for requests.

use std::fmt;

use futures::{StreamExt, TryStreamExt, stream::BoxStream};

use super::{StoreError, Stored};

/// Rows of a page. A page of large blocks is large: a row may have 16 MiB, and most have half a kilobyte.
pub(super) const ROWS_PER_PAGE: usize = 256;

/// A user and its last write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub user: u64,
    pub stored: Stored,
}

/// Where a user stands in the order in which a range is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    token: i64,
    user: u64,
}

impl Position {
    /// By a number that the store derives from the user, then by the user.
    #[must_use]
    pub fn new(token: i64, user: u64) -> Self {
        Self { token, user }
    }

    /// The number that comes first.
    #[must_use]
    pub fn token(self) -> i64 {
        self.token
    }
}

/// Rows of a range, in pages; a page may be empty.
pub type Pages<'a> = BoxStream<'a, Result<Vec<Row>, StoreError>>;

/// Reads all rows. They are cut into ranges that can be read side by side: every user is in one of them.
pub trait Scan: fmt::Debug + Send + Sync {
    /// How many ranges there are; the same for all stores of one kind.
    fn ranges(&self) -> usize;

    /// The rows of a range, numbered from 0, in an order that is the same each time. A row that is written meanwhile
    /// is read as it was before or as it is then.
    fn scan(&self, range: usize) -> Pages<'_>;

    /// Where a user stands: positions grow from row to row of a range. The same for all stores of one kind.
    fn position(&self, user: u64) -> Position {
        Position::new(0, user)
    }

    /// The rows of a range that come after this user, who stands in it and need not have a row.
    fn scan_after(&self, range: usize, after: u64) -> Pages<'_> {
        let after = self.position(after);
        let rest = move |mut page: Vec<Row>| {
            page.retain(|row| self.position(row.user) > after);
            page
        };
        self.scan(range).map_ok(rest).boxed()
    }

    /// About which part of a range comes before a user, from 0 to 1; `None` where that is not known.
    fn share(&self, range: usize, user: u64) -> Option<f64> {
        let _ = (range, user);
        None
    }
}
