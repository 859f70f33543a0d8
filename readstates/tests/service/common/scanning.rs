//! What every store that can be read as a whole must do.

use std::collections::HashMap;

use futures::{StreamExt, TryStreamExt, stream};
use readstates::store::{Row, Scan, Store, Stored};

use super::conformance::stamp;

/// More than some pages of each range that a small store has.
const USERS: u64 = 3000;

/// Everything in a store, range by range.
async fn rows(store: &impl Scan) -> Vec<Row> {
    by_range(store).await.concat()
}

async fn by_range(store: &impl Scan) -> Vec<Vec<Row>> {
    let ranges = stream::iter(0..store.ranges()).map(|range| store.scan(range).try_concat());
    ranges.buffered(8).try_collect().await.unwrap()
}

/// Rows are in the order of their positions, and a scan goes on after any user, also after one without a row.
async fn goes_on(store: &impl Scan) {
    let ranges = by_range(store).await;
    let mut checked = 0;
    for (range, rows) in ranges.iter().enumerate() {
        let in_order = |pair: &[Row]| store.position(pair[0].user) < store.position(pair[1].user);
        assert!(rows.windows(2).all(in_order), "range {range}");
        let shares: Option<Vec<f64>> = rows
            .iter()
            .map(|row| store.share(range, row.user))
            .collect();
        assert!(
            shares.is_none_or(|shares| shares.is_sorted()),
            "range {range}"
        );
        if rows.len() < 2 || checked > 8 {
            continue;
        }
        checked += 1;
        let middle = rows.len() / 2;
        for at in [0, middle, rows.len() - 1] {
            let rest: Vec<Row> = store
                .scan_after(range, rows[at].user)
                .try_concat()
                .await
                .unwrap();
            assert_eq!(rest, rows[at + 1..], "range {range} after {at}");
        }
    }
    assert!(checked > 0, "no range has two rows");
}

/// The store may have rows of others, which do not change meanwhile.
pub async fn scans(store: &(impl Store + Scan)) {
    let first = rand::random_range(1..u64::MAX / 2);
    let users: Vec<u64> = (first..first + USERS)
        .chain([u64::MAX, u64::MAX - 1])
        .collect();
    let written = jiff::Timestamp::now().as_microsecond();
    let block = |user: u64, generation: u64| Stored {
        bytes: [user.to_be_bytes(), generation.to_be_bytes()].concat(),
        stamp: stamp(written + generation as i64),
    };
    let save = async |user: u64, generation| {
        let Stored { bytes, stamp } = block(user, generation);
        store.save(user, bytes, stamp).await.unwrap();
    };
    stream::iter(&users)
        .for_each_concurrent(64, |&user| save(user, 0))
        .await;

    let all = rows(store).await;
    assert_eq!(rows(store).await, all, "the same order each time");
    let mut seen: HashMap<u64, Stored> = HashMap::new();
    for Row { user, stored } in all {
        assert!(seen.insert(user, stored).is_none(), "user {user} twice");
    }
    for &user in &users {
        assert_eq!(seen.get(&user), Some(&block(user, 0)), "user {user}");
    }

    goes_on(store).await;

    save(first, 1).await;
    let all = rows(store).await;
    let found = all.iter().find(|row| row.user == first).unwrap();
    assert_eq!(found.stored, block(first, 1), "the last write");
}
