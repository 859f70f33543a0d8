//! A store that does what a database does on a bad day.

use std::sync::{
    Arc,
    atomic::{AtomicU8, AtomicUsize, Ordering},
};

use futures::future::{BoxFuture, FutureExt};
use readstates::store::{MemoryStore, Store, StoreError, Stored};
use readstates_api::admin::StoreKind;
use readstates_ring::Stamp;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mood {
    Healthy,
    /// Nothing is read or written.
    Away,
    /// Writes arrive, and their answers are lost.
    WritesWithoutAnswer,
}

/// A memory store with moods.
#[derive(Debug, Default)]
pub struct FaultyStore {
    inner: MemoryStore,
    mood: AtomicU8,
    pub loads: AtomicUsize,
    pub saves: AtomicUsize,
}

impl FaultyStore {
    pub fn new() -> Arc<Self> {
        Arc::new(Self::default())
    }

    pub fn set(&self, mood: Mood) {
        self.mood.store(mood as u8, Ordering::SeqCst);
    }

    fn is(&self, mood: Mood) -> bool {
        self.mood.load(Ordering::SeqCst) == mood as u8
    }
}

impl Store for FaultyStore {
    fn kind(&self) -> StoreKind {
        StoreKind::Memory
    }

    fn load(&self, user: u64) -> BoxFuture<'_, Result<Option<Stored>, StoreError>> {
        async move {
            self.loads.fetch_add(1, Ordering::SeqCst);
            // Gives the others time to ask for the same user.
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            if self.is(Mood::Away) {
                return Err(StoreError::new("load a block", "the database is away"));
            }
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
            self.saves.fetch_add(1, Ordering::SeqCst);
            if self.is(Mood::Away) {
                return Err(StoreError::new("write a block", "the database is away"));
            }
            self.inner.save(user, bytes, stamp).await?;
            if self.is(Mood::WritesWithoutAnswer) {
                return Err(StoreError::new("write a block", "no answer"));
            }
            Ok(())
        }
        .boxed()
    }

    fn check(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        async move {
            if self.is(Mood::Away) {
                return Err(StoreError::new("read", "the database is away"));
            }
            Ok(())
        }
        .boxed()
    }
}
