//! Reads all rows of the table by ranges of tokens, in the order of tokens, each with the time of its write.

use std::{ops::ControlFlow, time::Duration};

use futures::{StreamExt, TryStreamExt, stream};
use readstates_ring::Stamp;
use scylla::{
    response::PagingState,
    routing::partitioner::{Murmur3Partitioner, Partitioner},
    statement::prepared::PreparedStatement,
};

use super::{CqlStore, StoreError, Stored};
use crate::store::scan::{Pages, Position, Row, Scan};

/// Ranges of equal width. Always as many, so that a later backup cuts its chunks at the same places.
const RANGES: usize = 256;
/// A page that fails is asked for so many times more, each time after a longer pause. The driver has tried other nodes
/// by then.
const MOST_REPEATS: u32 = 4;
const FIRST_PAUSE: Duration = Duration::from_secs(1);

impl Scan for CqlStore {
    fn ranges(&self) -> usize {
        RANGES
    }

    fn scan(&self, range: usize) -> Pages<'_> {
        self.between(tokens(range))
    }

    /// By token, then by the bytes of the key: the order in which the database keeps its rows.
    fn position(&self, user: u64) -> Position {
        Position::new(token(user), user)
    }

    fn scan_after(&self, range: usize, after: u64) -> Pages<'_> {
        let (_, last) = tokens(range);
        let after = self.position(after);
        // Others may have the same token.
        let rest = move |mut page: Vec<Row>| {
            page.retain(|row| self.position(row.user) > after);
            page
        };
        self.between((after.token(), last)).map_ok(rest).boxed()
    }

    fn share(&self, range: usize, user: u64) -> Option<f64> {
        Some(share(range, user))
    }
}

impl CqlStore {
    /// The rows between two tokens, both included.
    fn between(&self, tokens: (i64, i64)) -> Pages<'_> {
        let prepare = async { self.connection()?.prepare_scan().await };
        let pages = move |statement| {
            let start = (statement, Some(PagingState::start()));
            stream::try_unfold(start, move |(statement, next)| async move {
                let Some(from) = next else { return Ok(None) };
                let (page, next) = self.page(&statement, tokens, from).await?;
                Ok(Some((page, (statement, next))))
            })
        };
        stream::once(prepare).map_ok(pages).try_flatten().boxed()
    }

    /// One page, and where the next one begins.
    async fn page(
        &self,
        statement: &PreparedStatement,
        tokens: (i64, i64),
        from: PagingState,
    ) -> Result<(Vec<Row>, Option<PagingState>), StoreError> {
        let mut pause = FIRST_PAUSE;
        for _ in 0..MOST_REPEATS {
            // Asked for each time: the keyspace may have become another cluster's.
            let connection = self.connection()?;
            match connection.scan_page(statement, tokens, from.clone()).await {
                Ok(page) => return Ok(page),
                Err(error) => tracing::debug!("a page is read again: {}", super::chain(&error)),
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
        self.connection()?.scan_page(statement, tokens, from).await
    }
}

impl super::connect::Connection {
    async fn scan_page(
        &self,
        statement: &PreparedStatement,
        tokens: (i64, i64),
        from: PagingState,
    ) -> Result<(Vec<Row>, Option<PagingState>), StoreError> {
        let failed = |source: Box<dyn std::error::Error + Send + Sync>| {
            StoreError::new("read a page of blocks", source)
        };
        let page = self.session().execute_single_page(statement, tokens, from);
        let (result, state) = page.await.map_err(|error| failed(error.into()))?;
        let result = result
            .into_rows_result()
            .map_err(|error| failed(error.into()))?;
        let found = result
            .rows::<(i64, Option<Vec<u8>>, Option<i64>)>()
            .map_err(|error| failed(error.into()))?;
        let mut rows = Vec::with_capacity(result.rows_num());
        for row in found {
            let (user, bytes, written) = row.map_err(|error| failed(error.into()))?;
            // A row without a block is none: see `load`.
            if let Some((bytes, written)) = bytes.zip(written) {
                let stamp = Stamp::from_database(written);
                let (user, stored) = (user.cast_unsigned(), Stored { bytes, stamp });
                rows.push(Row { user, stored });
            }
        }
        let next = match state.into_paging_control_flow() {
            ControlFlow::Continue(next) => Some(next),
            ControlFlow::Break(()) => None,
        };
        Ok((rows, next))
    }
}

/// The first and the last token of a range.
fn tokens(range: usize) -> (i64, i64) {
    let width = 1_i128 << 64 >> RANGES.trailing_zeros();
    let first = i128::from(i64::MIN) + range as i128 * width;
    // Within 64 bits, for a range that there is.
    (first as i64, (first + width - 1) as i64)
}

/// The token of a user's row, as both engines' default partitioner makes it.
fn token(user: u64) -> i64 {
    Murmur3Partitioner.hash_one(&user.to_be_bytes()).value()
}

/// Which part of a range's tokens comes before a user's.
fn share(range: usize, user: u64) -> f64 {
    let (first, last) = tokens(range);
    let at = token(user).clamp(first, last);
    at.abs_diff(first) as f64 / last.abs_diff(first) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_in_one_range_and_its_share_of_that_grows_with_the_position() {
        let range_of = |user| {
            let found: Vec<usize> = (0..RANGES)
                .filter(|&range| {
                    let (first, last) = tokens(range);
                    (first..=last).contains(&token(user))
                })
                .collect();
            assert_eq!(found.len(), 1, "{user} is in {found:?}");
            found[0]
        };
        let mut first: Vec<u64> = (0..4000).filter(|&user| range_of(user) == 0).collect();
        first.sort_unstable_by_key(|&user| token(user));
        let shares: Vec<f64> = first.iter().map(|&user| share(0, user)).collect();
        assert!(shares.len() > 5 && shares.is_sorted(), "{shares:?}");
        assert!(shares.iter().all(|share| (0.0..=1.0).contains(share)));
    }

    #[test]
    fn ranges_cover_all_tokens_and_none_twice() {
        assert_eq!(tokens(0).0, i64::MIN);
        assert_eq!(tokens(RANGES - 1).1, i64::MAX);
        for range in 1..RANGES {
            assert_eq!(tokens(range).0, tokens(range - 1).1 + 1);
        }
    }
}
