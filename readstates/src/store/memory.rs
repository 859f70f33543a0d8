//! The store that forgets: the memory of the process. For tests and trials.

use std::collections::HashMap;

use futures::{
    StreamExt,
    future::{BoxFuture, FutureExt, ready},
    stream,
};
use parking_lot::Mutex;
use readstates_api::admin::StoreKind;
use readstates_ring::{Slot, Stamp};

use super::{Pages, Row, Scan, Store, StoreError, Stored, scan::ROWS_PER_PAGE, wins};

/// Ranges of a scan: more than one, so that tests meet several.
const RANGES: usize = 4;

/// Keeps blocks as long as the process lives.
#[derive(Debug, Default)]
pub struct MemoryStore {
    blocks: Mutex<HashMap<u64, Stored>>,
}

impl Store for MemoryStore {
    fn kind(&self) -> StoreKind {
        StoreKind::Memory
    }

    fn load(&self, user: u64) -> BoxFuture<'_, Result<Option<Stored>, StoreError>> {
        ready(Ok(self.blocks.lock().get(&user).cloned())).boxed()
    }

    fn save(
        &self,
        user: u64,
        bytes: Vec<u8>,
        stamp: Stamp,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        let mut blocks = self.blocks.lock();
        let stored = blocks.get(&user);
        if stored.is_none_or(|stored| wins(stamp, &bytes, (stored.stamp, &stored.bytes))) {
            blocks.insert(user, Stored { bytes, stamp });
        }
        ready(Ok(())).boxed()
    }

    fn check(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        ready(Ok(())).boxed()
    }
}

impl Scan for MemoryStore {
    fn ranges(&self) -> usize {
        RANGES
    }

    /// The users first: a block is looked up when its page is asked for.
    fn scan(&self, range: usize) -> Pages<'_> {
        let in_range = |&user: &u64| usize::from(Slot::of_user(user).number()) % RANGES == range;
        let mut users: Vec<u64> = self
            .blocks
            .lock()
            .keys()
            .copied()
            .filter(in_range)
            .collect();
        users.sort_unstable();
        let pages: Vec<Vec<u64>> = users.chunks(ROWS_PER_PAGE).map(<[u64]>::to_vec).collect();
        let page = |users: Vec<u64>| {
            let blocks = self.blocks.lock();
            let row = |user| {
                let stored = blocks.get(&user)?.clone();
                Some(Row { user, stored })
            };
            Ok(users.into_iter().filter_map(row).collect())
        };
        stream::iter(pages).map(page).boxed()
    }
}
