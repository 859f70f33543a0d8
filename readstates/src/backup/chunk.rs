//! Where chunks of rows begin and end, and their bytes.
//!
//! A chunk ends after a user whose hash says so, once it is long enough. So the same rows are always cut at the same
//! places, and a change of one row changes one chunk, hardly ever its neighbours: the others are stored already.
//!
//! | bytes of a row, little endian | |
//! |---|---|
//! | 8 | user |
//! | 8 | stamp |
//! | 4 | length of the block |
//! | the rest | the block, as the database has it |

use readstates_ring::{Stamp, slot::mix64};

use crate::store::{Row, Stored};

/// Bytes of a row before its block.
const HEAD: usize = 20;

/// Chunks have at least 8 MiB, 8.5 on average with blocks of 500 bytes, and at most 16 and one row.
const LEAST: usize = 8 << 20;
const MOST: usize = 16 << 20;
/// Of the users that come after [`LEAST`], one in so many ends the chunk.
const ONE_IN: u64 = 1024;

/// No chunk is longer: its last row may be a block of 16 MiB.
pub(super) const LONGEST: u64 = 2 * MOST as u64 + HEAD as u64;

/// Where chunks end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cut {
    pub(super) least: usize,
    pub(super) most: usize,
    pub(super) one_in: u64,
}

impl Default for Cut {
    fn default() -> Self {
        Self {
            least: LEAST,
            most: MOST,
            one_in: ONE_IN,
        }
    }
}

/// Rows that are stored together.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Chunk {
    pub(super) rows: Vec<u8>,
    pub(super) users: u64,
    pub(super) highest: Stamp,
}

/// Cuts a sequence of rows into chunks.
#[derive(Debug)]
pub(super) struct Chunker {
    cut: Cut,
    open: Option<Chunk>,
}

impl Chunker {
    pub(super) fn new(cut: Cut) -> Self {
        Self { cut, open: None }
    }

    /// Adds a row; returns the chunk that ends with it.
    pub(super) fn push(&mut self, row: &Row) -> Option<Chunk> {
        let Row { user, stored } = row;
        let Stored { bytes, stamp } = stored;
        let open = self.open.get_or_insert_with(|| Chunk {
            rows: Vec::new(),
            users: 0,
            highest: *stamp,
        });
        open.rows.extend(user.to_le_bytes());
        open.rows.extend(stamp.as_database().to_le_bytes());
        // A database takes no block of 4 GiB.
        open.rows.extend((bytes.len() as u32).to_le_bytes());
        open.rows.extend(bytes);
        open.users += 1;
        open.highest = open.highest.max(*stamp);
        let length = open.rows.len();
        let ends = length >= self.cut.least && mix64(*user).is_multiple_of(self.cut.one_in);
        if ends || length >= self.cut.most {
            return self.open.take();
        }
        None
    }

    /// What is left.
    pub(super) fn finish(self) -> Option<Chunk> {
        self.open
    }
}

/// A row of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Record<'a> {
    pub(super) user: u64,
    pub(super) stamp: Stamp,
    pub(super) block: &'a [u8],
}

/// The bytes of a chunk end in the middle of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the rows end in the middle of one")]
pub struct Misplaced;

/// The rows of a chunk.
pub(super) fn records(mut rows: &[u8]) -> impl Iterator<Item = Result<Record<'_>, Misplaced>> {
    std::iter::from_fn(move || {
        if rows.is_empty() {
            return None;
        }
        let record = record(&mut rows).ok_or(Misplaced);
        if record.is_err() {
            rows = &[];
        }
        Some(record)
    })
}

fn record<'a>(rows: &mut &'a [u8]) -> Option<Record<'a>> {
    let (user, rest) = rows.split_first_chunk()?;
    let (stamp, rest) = rest.split_first_chunk()?;
    let (length, rest) = rest.split_first_chunk()?;
    let (block, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    *rows = rest;
    Some(Record {
        user: u64::from_le_bytes(*user),
        stamp: Stamp::from_database(i64::from_le_bytes(*stamp)),
        block,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const CUT: Cut = Cut {
        least: 2000,
        most: 6000,
        one_in: 8,
    };

    fn row(user: u64, length: usize) -> Row {
        let stored = Stored {
            bytes: vec![user as u8; length],
            stamp: Stamp::from_database(user as i64 * 3),
        };
        Row { user, stored }
    }

    fn chunks(rows: &[Row]) -> Vec<Chunk> {
        let mut chunker = Chunker::new(CUT);
        let mut chunks: Vec<Chunk> = rows.iter().filter_map(|row| chunker.push(row)).collect();
        chunks.extend(chunker.finish());
        chunks
    }

    proptest! {
        #[test]
        fn chunks_hold_the_rows_in_order(lengths in proptest::collection::vec(0_usize..900, 0..60)) {
            let rows: Vec<Row> = (1..).zip(lengths).map(|(user, length)| row(user, length)).collect();
            let chunks = chunks(&rows);
            let found: Vec<Row> = chunks.iter().flat_map(|chunk| records(&chunk.rows)).map(|record| {
                let Record { user, stamp, block } = record.unwrap();
                Row { user, stored: Stored { bytes: block.to_vec(), stamp } }
            }).collect();
            prop_assert_eq!(&found, &rows);
            let users: u64 = chunks.iter().map(|chunk| chunk.users).sum();
            prop_assert_eq!(users, rows.len() as u64);
            let highest = chunks.iter().map(|chunk| chunk.highest).max();
            prop_assert_eq!(highest, rows.iter().map(|row| row.stored.stamp).max());
            for chunk in &chunks {
                prop_assert!(chunk.rows.len() < CUT.most + 900 + HEAD);
            }
        }
    }

    #[test]
    fn a_row_that_changes_or_comes_changes_few_chunks() {
        let rows: Vec<Row> = (1..=4000).map(|user| row(user * 2, 100)).collect();
        let all: BTreeSet<Vec<u8>> = chunks(&rows).into_iter().map(|chunk| chunk.rows).collect();
        assert!(all.len() > 100, "{}", all.len());
        for change in [row(2000, 130), row(2001, 100), row(1, 100)] {
            let mut later = rows.clone();
            match later.binary_search_by_key(&change.user, |row| row.user) {
                Ok(at) => later[at] = change,
                Err(at) => later.insert(at, change),
            }
            let new = chunks(&later)
                .into_iter()
                .filter(|chunk| !all.contains(&chunk.rows));
            assert!((1..=6).contains(&new.count()));
        }
    }

    #[test]
    fn bytes_that_end_early_are_noticed() {
        let chunk = chunks(&[row(1, 5), row(2, 5)]).remove(0);
        let cut = &chunk.rows[..chunk.rows.len() - 1];
        let found: Vec<_> = records(cut).collect();
        assert_eq!(found.len(), 2);
        assert_eq!(found[1], Err(Misplaced));
    }
}
