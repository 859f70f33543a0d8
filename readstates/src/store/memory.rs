//! The store that forgets: the memory of the process. For tests and trials.

use std::collections::HashMap;

use futures::future::{BoxFuture, FutureExt, ready};
use parking_lot::Mutex;
use readstates_api::admin::StoreKind;
use readstates_ring::Stamp;

use super::{Store, StoreError, Stored, wins};

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
