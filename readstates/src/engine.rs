//! The owner's side of every operation: the cache, what loads it and what writes it.
//!
//! Comes in: operations on users this member owns. Goes out: answers. A user who is cached is served
//! from memory; one who is not is loaded first, and the request waits for that alone.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{sync::watch, task::JoinHandle};

use crate::{
    block::{Block, Operation, Outcome},
    cache::{Cache, Process, Refused, Touch},
    flush::{Flushed, Flusher},
    load::{LoadError, Loader},
    metrics::Metrics,
    store::Store,
};

/// How often a request loads its user before it gives up: each time but the first the user was
/// evicted between the load and the use.
const MOST_LOADS: usize = 3;
/// Between two rounds of writing everything, at the end, when some of the last round failed.
const DRAIN_RETRY: Duration = Duration::from_millis(200);

/// Why the owner did not do what it was asked to. Nothing changed, except where it says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotDone {
    /// The change was refused.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The user could not be loaded.
    #[error(transparent)]
    NotLoaded(#[from] LoadError),
    /// The task that would have done it ended before it said what became of it.
    #[error("it is not known whether this was done")]
    Unknown,
}

/// The cache with its loader and its flusher.
#[derive(Debug)]
pub struct Engine {
    cache: Arc<Cache>,
    loader: Arc<Loader>,
    flusher: Arc<Flusher>,
    metrics: Arc<Metrics>,
    stop: watch::Sender<bool>,
}

impl Engine {
    /// An engine on this store, and the task that writes behind it. The task ends after
    /// [`Engine::stop`].
    #[must_use]
    pub fn start(
        process: Process,
        capacity_states: u64,
        flush_interval: Duration,
        store: Arc<dyn Store>,
        metrics: Arc<Metrics>,
    ) -> (Arc<Self>, JoinHandle<()>) {
        let cache = Arc::new(Cache::new(process, capacity_states, flush_interval));
        let loader = Loader::new(Arc::clone(&cache), Arc::clone(&store), Arc::clone(&metrics));
        let flusher = Arc::new(Flusher::new(
            Arc::clone(&cache),
            store,
            Arc::clone(&metrics),
        ));
        let (stop, stopped) = watch::channel(false);
        let task = tokio::spawn(Arc::clone(&flusher).run(flush_interval, stopped));
        let loader = Arc::new(loader);
        (
            Arc::new(Self {
                cache,
                loader,
                flusher,
                metrics,
                stop,
            }),
            task,
        )
    }

    /// The cache.
    #[must_use]
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Shows a user's block to `view`.
    ///
    /// # Errors
    /// When the user is not cached and cannot be loaded.
    pub async fn read<T: Send + 'static>(
        &self,
        user: u64,
        view: impl Fn(&Block) -> T + Send + 'static,
    ) -> Result<T, NotDone> {
        if let Some(seen) = self.cache.read(user, &view) {
            self.metrics.hits.increment(1);
            return Ok(seen);
        }
        self.metrics.misses.increment(1);
        for _ in 0..MOST_LOADS {
            self.loader.load(user, Touch::Online).await?;
            if let Some(seen) = self.cache.read(user, &view) {
                return Ok(seen);
            }
        }
        Err(LoadError::TooManyLoads.into())
    }

    /// Applies operations, all or none, to a user, and shows the result to `view`.
    ///
    /// # Errors
    /// When the change is refused, or the user is not cached and cannot be loaded.
    pub async fn change<T: Send + 'static>(
        &self,
        user: u64,
        operations: &[Operation],
        touch: Touch,
        view: impl Fn(&Block, &[Outcome]) -> T + Send + 'static,
    ) -> Result<T, NotDone> {
        if let Some(done) = self.try_change(user, operations, touch, &view)? {
            self.metrics.hits.increment(1);
            return Ok(done);
        }
        self.metrics.misses.increment(1);
        for _ in 0..MOST_LOADS {
            self.loader.load(user, touch).await?;
            if let Some(done) = self.try_change(user, operations, touch, &view)? {
                return Ok(done);
            }
        }
        Err(LoadError::TooManyLoads.into())
    }

    /// Applies operations of many users, each on its own: one outcome or refusal per operation, in
    /// their order. Operations of one user are applied in the order in which they are given.
    ///
    /// Users who are cached are served first, at once; the others are loaded, as many at a time as may
    /// be, while the caller waits.
    pub async fn change_many(
        &self,
        operations: &[(u64, Operation)],
        touch: Touch,
    ) -> Vec<Result<Outcome, NotDone>> {
        let mut results = Vec::with_capacity(operations.len());
        for &(user, operation) in operations {
            let one = |_: &Block, outcomes: &[Outcome]| outcomes[0];
            results.push(self.change(user, &[operation], touch, one).await);
        }
        results
    }

    fn try_change<T>(
        &self,
        user: u64,
        operations: &[Operation],
        touch: Touch,
        view: impl Fn(&Block, &[Outcome]) -> T,
    ) -> Result<Option<T>, NotDone> {
        let counted = |block: &Block, outcomes: &[Outcome]| {
            let applied = outcomes
                .iter()
                .filter(|&&outcome| outcome == Outcome::Applied)
                .count();
            self.metrics.applied.increment(applied as u64);
            self.metrics
                .ignored
                .increment((outcomes.len() - applied) as u64);
            view(block, outcomes)
        };
        match self
            .cache
            .change(user, operations, touch, Instant::now(), counted)
        {
            None => Ok(None),
            Some(Ok(done)) => Ok(Some(done)),
            Some(Err(refused)) => {
                // What makes room is written as soon as can be.
                self.flusher.wake();
                Err(refused.into())
            }
        }
    }

    /// Asks that a user be written as soon as can be.
    pub fn hurry(&self, user: u64) {
        self.cache.hurry(user, Instant::now());
        self.flusher.wake();
    }

    /// Changes the capacity and evicts down to it, as far as what is dirty allows.
    pub fn set_capacity(&self, states: u64) {
        self.cache.set_capacity(states);
        if self.cache.make_room(None, Instant::now()) {
            self.flusher.wake();
        }
    }

    /// Writes everything that is dirty now.
    pub async fn flush_all(&self) -> Flushed {
        self.flusher.flush_all().await
    }

    /// Takes no more changes; reads go on.
    pub fn seal(&self) {
        self.cache.seal();
    }

    /// Writes until nothing is dirty. Never ends while the store does not take what is dirty.
    pub async fn drain(&self) {
        while self.cache.dirty_users() > 0 {
            if self.flush_all().await.failed > 0 {
                tokio::time::sleep(DRAIN_RETRY).await;
            }
        }
    }

    /// Ends the task that writes, once its writes under way have ended.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }
}
