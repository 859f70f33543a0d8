//! The rows of the other store, beside those of a page.
//!
//! ```text
//! source  ──page──▶ │ 3 │ 7 │ 9 │           two stores of one kind: both are read in one order, once
//! target  ──rows──▶ │ 3 │ 8 │ 9 │ …         7 is missing there, 8 is there alone
//! ```
//! Stores of different kinds are read in different orders: there, each row of a page is looked up in the other.

use std::collections::VecDeque;

use futures::{StreamExt, TryStreamExt, stream};

use super::end::End;
use crate::store::{Pages, Position, Row, Scan, Store, StoreError, Stored};

/// Look-ups at once.
const LOOK_UPS: usize = 64;

/// A row of a page, and what the other store has of that user.
pub(super) type Pair = (Row, Option<Stored>);

/// Rows of the other store.
pub(super) enum Beside<'a> {
    /// Read in the same order.
    Merged(Merged<'a>),
    /// Looked up.
    LookedUp(&'a dyn Store),
}

/// The rows of a range of the other store, read as far as is needed.
pub(super) struct Merged<'a> {
    scan: &'a dyn Scan,
    pages: Pages<'a>,
    waiting: VecDeque<Row>,
    last: Option<Position>,
}

impl<'a> Beside<'a> {
    /// Of `other`, beside a range of `of` from a user on.
    pub(super) fn open(of: &End, other: &'a End, range: usize, after: Option<u64>) -> Self {
        if of.is_alike(other) {
            Self::Merged(Merged {
                scan: &*other.scan,
                pages: pages(&*other.scan, range, after),
                waiting: VecDeque::new(),
                last: None,
            })
        } else {
            Self::LookedUp(&*other.store)
        }
    }

    /// What the other store has of each user of a page, and the users who come before the end of the page and are only
    /// there.
    pub(super) async fn pair(
        &mut self,
        page: Vec<Row>,
    ) -> Result<(Vec<Pair>, Vec<u64>), StoreError> {
        match self {
            Self::Merged(merged) => merged.pair(page).await,
            Self::LookedUp(store) => {
                let store: &dyn Store = *store;
                let looked = stream::iter(page).map(|row: Row| async move {
                    let stored = store.load(row.user).await?;
                    Ok((row, stored))
                });
                Ok((looked.buffered(LOOK_UPS).try_collect().await?, Vec::new()))
            }
        }
    }

    /// Some users of the rest of the range who are only there; none at its end.
    pub(super) async fn rest(&mut self) -> Result<Vec<u64>, StoreError> {
        match self {
            Self::Merged(merged) => {
                merged.fill().await?;
                Ok(merged.waiting.drain(..).map(|row| row.user).collect())
            }
            Self::LookedUp(_) => Ok(Vec::new()),
        }
    }
}

impl Merged<'_> {
    async fn pair(&mut self, page: Vec<Row>) -> Result<(Vec<Pair>, Vec<u64>), StoreError> {
        let (mut pairs, mut alone) = (Vec::with_capacity(page.len()), Vec::new());
        for row in page {
            let at = self.scan.position(row.user);
            let stored = loop {
                match self.next_until(at).await? {
                    Some(theirs) if theirs.user == row.user => break Some(theirs.stored),
                    Some(theirs) => alone.push(theirs.user),
                    None => break None,
                }
            };
            pairs.push((row, stored));
        }
        Ok((pairs, alone))
    }

    /// The next row, if it stands no later than this.
    async fn next_until(&mut self, last: Position) -> Result<Option<Row>, StoreError> {
        self.fill().await?;
        let scan = self.scan;
        let is_due = |row: &Row| scan.position(row.user) <= last;
        Ok(self
            .waiting
            .front()
            .is_some_and(is_due)
            .then(|| self.waiting.pop_front())
            .flatten())
    }

    /// Reads on when no row waits.
    async fn fill(&mut self) -> Result<(), StoreError> {
        while self.waiting.is_empty() {
            let Some(page) = self.pages.try_next().await? else {
                break;
            };
            in_order(self.scan, &mut self.last, &page)?;
            self.waiting.extend(page);
        }
        Ok(())
    }
}

/// The rows of a range, from its begin or after a user.
pub(super) fn pages(scan: &dyn Scan, range: usize, after: Option<u64>) -> Pages<'_> {
    match after {
        None => scan.scan(range),
        Some(after) => scan.scan_after(range, after),
    }
}

/// Refuses rows that are out of order: two stores could not be compared, and a checkpoint would skip rows.
pub(super) fn in_order(
    scan: &dyn Scan,
    last: &mut Option<Position>,
    page: &[Row],
) -> Result<(), StoreError> {
    for row in page {
        let at = scan.position(row.user);
        if last.is_some_and(|last| at <= last) {
            let user = row.user;
            let why = format!(
                "user {user} is out of order: the database must use Murmur3Partitioner, the default of Cassandra and \
                 ScyllaDB"
            );
            return Err(StoreError::new(
                "read rows in the order of their tokens",
                why,
            ));
        }
        *last = Some(at);
    }
    Ok(())
}
