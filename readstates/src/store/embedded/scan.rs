//! Reads all rows of the file, in the order of user ids, as they were when the scan began.

use std::{ops::Bound, sync::Arc};

use futures::{
    StreamExt, TryStreamExt,
    stream::{self},
};
use redb::{ReadOnlyTable, ReadableDatabase};

use super::{EmbeddedStore, Stamp, StoreError, Stored, file::BLOCKS};
use crate::store::scan::{Pages, ROWS_PER_PAGE, Row, Scan};

const ATTEMPT: &str = "read all blocks";

type Table = ReadOnlyTable<u64, (i64, &'static [u8])>;

impl Scan for EmbeddedStore {
    fn ranges(&self) -> usize {
        1
    }

    fn scan(&self, _range: usize) -> Pages<'_> {
        self.from(Bound::Unbounded)
    }

    fn scan_after(&self, _range: usize, after: u64) -> Pages<'_> {
        self.from(Bound::Excluded(after))
    }
}

impl EmbeddedStore {
    /// The rows from this user on.
    fn from(&self, first: Bound<u64>) -> Pages<'_> {
        let file = Arc::clone(&self.file);
        // The transaction lives as long as the table does, and keeps what the scan sees.
        let open = blocking(move || {
            file.with(|database| Ok(database.begin_read()?.open_table(BLOCKS)?))
                .map_err(|error| StoreError::new(ATTEMPT, error))
        });
        let pages = move |table| {
            stream::try_unfold((Arc::new(table), first), |(table, after)| async move {
                let reading = Arc::clone(&table);
                let page = blocking(move || page(&reading, after)).await?;
                let last = page.last().map(|row| row.user);
                Ok(last.map(|last| (page, (table, Bound::Excluded(last)))))
            })
        };
        stream::once(open).map_ok(pages).try_flatten().boxed()
    }
}

fn page(table: &Table, after: Bound<u64>) -> Result<Vec<Row>, StoreError> {
    let read = || -> Result<Vec<Row>, redb::Error> {
        let mut rows = Vec::new();
        for row in table
            .range::<u64>((after, Bound::Unbounded))?
            .take(ROWS_PER_PAGE)
        {
            let (user, stored) = row?;
            let (stamp, bytes) = stored.value();
            rows.push(Row {
                user: user.value(),
                stored: Stored {
                    bytes: bytes.to_vec(),
                    stamp: Stamp::from_database(stamp),
                },
            });
        }
        Ok(rows)
    };
    read().map_err(|error| StoreError::new(ATTEMPT, error))
}

/// Runs what waits for the disk on a thread for that.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| StoreError::new(ATTEMPT, error))?
}
