//! A store that stops answering.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures::{
    FutureExt, StreamExt,
    future::{BoxFuture, pending},
};
use readstates_api::admin::StoreKind;
use readstates_ring::Stamp;

use crate::store::{MemoryStore, Pages, Scan, Store, StoreError, Stored};

/// A store that stops answering after so many pages or writes: what works on it is dropped then, as if it were killed.
#[derive(Debug, Default)]
pub(super) struct Halting {
    pub(super) inner: MemoryStore,
    pub(super) left: AtomicUsize,
}

impl Halting {
    pub(super) fn after(left: usize) -> Self {
        let left = AtomicUsize::new(left);
        let inner = MemoryStore::default();
        Self { inner, left }
    }

    pub(super) async fn step(&self) {
        let left = self
            .left
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
                left.checked_sub(1)
            });
        if left.is_err() {
            pending::<()>().await;
        }
    }
}

impl Store for Halting {
    fn kind(&self) -> StoreKind {
        self.inner.kind()
    }

    fn load(&self, user: u64) -> BoxFuture<'_, Result<Option<Stored>, StoreError>> {
        self.inner.load(user)
    }

    fn save(
        &self,
        user: u64,
        bytes: Vec<u8>,
        stamp: Stamp,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        let saved = async move {
            self.step().await;
            self.inner.save(user, bytes, stamp).await
        };
        saved.boxed()
    }

    fn check(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.inner.check()
    }
}

impl Scan for Halting {
    fn ranges(&self) -> usize {
        self.inner.ranges()
    }

    fn scan(&self, range: usize) -> Pages<'_> {
        let pages = self.inner.scan(range).then(async |page| {
            self.step().await;
            page
        });
        pages.boxed()
    }
}
