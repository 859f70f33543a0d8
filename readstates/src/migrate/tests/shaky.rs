//! A store that stops answering, fails for a while, or is written while it is read.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use futures::{
    FutureExt, StreamExt,
    future::{BoxFuture, pending},
};
use parking_lot::Mutex;
use readstates_api::admin::StoreKind;
use readstates_ring::Stamp;

use crate::store::{MemoryStore, Pages, Scan, Store, StoreError, Stored};

/// Pages and writes of all stores that share it, until none answers any more: what works on them is dropped then, as
/// if it were killed.
#[derive(Debug)]
pub(super) struct Steps {
    left: AtomicUsize,
    pub(super) writes: AtomicUsize,
    pub(super) pages: AtomicUsize,
}

impl Steps {
    pub(super) fn left(steps: usize) -> Arc<Self> {
        Arc::new(Self {
            left: AtomicUsize::new(steps),
            writes: AtomicUsize::new(0),
            pages: AtomicUsize::new(0),
        })
    }

    async fn step(&self) {
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

type Hook = Box<dyn FnMut(&MemoryStore) + Send>;

pub(super) struct Shaky {
    pub(super) inner: MemoryStore,
    steps: Arc<Steps>,
    /// So many calls fail from now on.
    pub(super) failing: AtomicUsize,
    /// Called after each page that was read.
    hook: Mutex<Option<Hook>>,
}

impl Shaky {
    pub(super) fn on(steps: &Arc<Steps>) -> Arc<Self> {
        Arc::new(Self {
            inner: MemoryStore::default(),
            steps: Arc::clone(steps),
            failing: AtomicUsize::new(0),
            hook: Mutex::new(None),
        })
    }

    pub(super) fn after_each_page(&self, hook: impl FnMut(&MemoryStore) + Send + 'static) {
        *self.hook.lock() = Some(Box::new(hook));
    }

    fn answer(&self) -> Result<(), StoreError> {
        let failing = &self.failing;
        let left = failing.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
            left.checked_sub(1)
        });
        match left {
            Ok(_) => Err(StoreError::new("ask the store", "it is away")),
            Err(_) => Ok(()),
        }
    }
}

impl fmt::Debug for Shaky {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shaky").finish_non_exhaustive()
    }
}

impl Store for Shaky {
    fn kind(&self) -> StoreKind {
        self.inner.kind()
    }

    fn load(&self, user: u64) -> BoxFuture<'_, Result<Option<Stored>, StoreError>> {
        async move {
            self.answer()?;
            self.inner.load(user).await
        }
        .boxed()
    }

    fn save(
        &self,
        user: u64,
        bytes: Vec<u8>,
        stamp: Stamp,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        async move {
            self.answer()?;
            self.steps.step().await;
            self.steps.writes.fetch_add(1, Ordering::SeqCst);
            self.inner.save(user, bytes, stamp).await
        }
        .boxed()
    }

    fn check(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.inner.check()
    }
}

impl Scan for Shaky {
    fn ranges(&self) -> usize {
        self.inner.ranges()
    }

    fn scan(&self, range: usize) -> Pages<'_> {
        let pages = self.inner.scan(range).then(async |page| {
            self.answer()?;
            self.steps.step().await;
            self.steps.pages.fetch_add(1, Ordering::SeqCst);
            if let Some(hook) = &mut *self.hook.lock() {
                hook(&self.inner);
            }
            page
        });
        pages.boxed()
    }
}
