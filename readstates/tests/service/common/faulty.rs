//! A store that does what a database does on a bad day.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
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
    /// Nothing is read or written, and that shows only after the time limit.
    Silent,
}

/// The time limits of a store that does not answer.
pub const LOAD_TIMEOUT: Duration = Duration::from_secs(2);
pub const SAVE_TIMEOUT: Duration = Duration::from_secs(5);

/// A memory store with moods.
#[derive(Debug)]
pub struct FaultyStore {
    inner: MemoryStore,
    mood: AtomicU8,
    load_millis: AtomicU64,
    save_millis: AtomicU64,
    pub loads: AtomicUsize,
    pub saves: AtomicUsize,
    pub loads_at_once: AtOnce,
    pub saves_at_once: AtOnce,
}

/// How many calls are under way, and the most there were.
#[derive(Debug, Default)]
pub struct AtOnce {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl AtOnce {
    fn enter(&self) -> Left<'_> {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        Left(self)
    }

    pub fn most(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }
}

struct Left<'a>(&'a AtOnce);

impl Drop for Left<'_> {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::SeqCst);
    }
}

impl FaultyStore {
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            inner: MemoryStore::default(),
            mood: AtomicU8::new(Mood::Healthy as u8),
            // Gives the others time to ask for the same user.
            load_millis: AtomicU64::new(5),
            save_millis: AtomicU64::new(0),
            loads: AtomicUsize::new(0),
            saves: AtomicUsize::new(0),
            loads_at_once: AtOnce::default(),
            saves_at_once: AtOnce::default(),
        })
    }

    pub fn set(&self, mood: Mood) {
        self.mood.store(mood as u8, Ordering::SeqCst);
    }

    /// What a load and a save take.
    pub fn slow(&self, load: Duration, save: Duration) {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap();
        self.load_millis.store(millis(load), Ordering::SeqCst);
        self.save_millis.store(millis(save), Ordering::SeqCst);
    }

    /// Loads and saves that were asked for.
    pub fn calls(&self) -> usize {
        self.loads.load(Ordering::SeqCst) + self.saves.load(Ordering::SeqCst)
    }

    fn is(&self, mood: Mood) -> bool {
        self.mood.load(Ordering::SeqCst) == mood as u8
    }

    /// Takes its time, and fails where the mood is so.
    async fn answer(
        &self,
        attempt: &'static str,
        takes: &AtomicU64,
        timeout: Duration,
    ) -> Result<(), StoreError> {
        let takes = takes.load(Ordering::SeqCst);
        if takes > 0 {
            tokio::time::sleep(Duration::from_millis(takes)).await;
        }
        if self.is(Mood::Silent) {
            tokio::time::sleep(timeout).await;
            return Err(StoreError::new(attempt, "the time limit is over"));
        }
        if self.is(Mood::Away) {
            return Err(StoreError::new(attempt, "the database is away"));
        }
        Ok(())
    }
}

impl Store for FaultyStore {
    fn kind(&self) -> StoreKind {
        StoreKind::Memory
    }

    fn load(&self, user: u64) -> BoxFuture<'_, Result<Option<Stored>, StoreError>> {
        async move {
            self.loads.fetch_add(1, Ordering::SeqCst);
            let _left = self.loads_at_once.enter();
            self.answer("load a block", &self.load_millis, LOAD_TIMEOUT)
                .await?;
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
            let _left = self.saves_at_once.enter();
            self.answer("write a block", &self.save_millis, SAVE_TIMEOUT)
                .await?;
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
            if self.is(Mood::Away) || self.is(Mood::Silent) {
                return Err(StoreError::new("read", "the database is away"));
            }
            Ok(())
        }
        .boxed()
    }
}
