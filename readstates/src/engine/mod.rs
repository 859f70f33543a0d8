//! The owner's side of every operation: the cache, what loads it and what writes it.
//!
//! Comes in: operations on users this member owns. Goes out: answers. A user who is cached is served
//! from memory; one who is not is loaded first, and the request waits for that alone, behind those
//! that came before it.

mod many;
#[cfg(test)]
mod property;
mod settled;
mod written;

use std::{convert::Infallible, sync::Arc, time::Duration};

pub use settled::Rests;
use tokio::{
    sync::{Notify, watch},
    task::JoinHandle,
    time::{sleep, timeout},
};
pub use written::Change;

pub use crate::refused::NotDone;
use crate::{
    block::{BlockRef, Operation, Outcome, Precondition},
    cache::{Cache, Flushing, Process, Refused, SlotSet, Totals, Touch},
    clock,
    flush::{Flushed, Flusher},
    journal::Journal,
    load::{Changer, Loader, Reader},
    metrics::Metrics,
    store::Store,
};

/// Between two rounds of writing everything, at the end, when some of the last round failed: doubled
/// up to the last.
const FIRST_DRAIN_RETRY: Duration = Duration::from_millis(100);
const LAST_DRAIN_RETRY: Duration = Duration::from_millis(250);
/// Between two rounds of writing everything while changes are taken: each may write all that changed
/// since the last.
const WRITE_AGAIN: Duration = Duration::from_secs(1);
/// The longest round: then the next begins, with what became dirty meanwhile.
const LONGEST_ROUND: Duration = Duration::from_secs(5);

/// The cache with its loader and its flusher.
#[derive(Debug)]
pub struct Engine {
    cache: Arc<Cache>,
    loader: Arc<Loader>,
    flusher: Arc<Flusher>,
    metrics: Arc<Metrics>,
    journal: Option<Arc<Journal>>,
    stop: watch::Sender<bool>,
}

impl Engine {
    /// An engine on this store, and the task that writes behind it. The task ends after
    /// [`Engine::stop`].
    #[must_use]
    pub fn start(
        process: Process,
        capacity_states: u64,
        flushing: impl Into<Flushing>,
        store: Arc<dyn Store>,
        metrics: Arc<Metrics>,
    ) -> (Arc<Self>, JoinHandle<()>) {
        Self::start_with_journal(
            process,
            capacity_states,
            flushing.into(),
            store,
            metrics,
            None,
        )
    }

    /// As [`Engine::start`]; with a journal, changes are appended to that before they are acknowledged (see
    /// [`Engine::settled`]).
    #[must_use]
    pub fn start_with_journal(
        process: Process,
        capacity_states: u64,
        flushing: Flushing,
        store: Arc<dyn Store>,
        metrics: Arc<Metrics>,
        journal: Option<Arc<Journal>>,
    ) -> (Arc<Self>, JoinHandle<()>) {
        // Told by the first engine of a process: there is one.
        let _ = metrics.flushing.set(flushing);
        let cache = Cache::with_journal(process, capacity_states, flushing, journal.clone());
        let cache = Arc::new(cache);
        let wake = Arc::new(Notify::new());
        let loader = Loader::new(
            Arc::clone(&cache),
            Arc::clone(&store),
            Arc::clone(&metrics),
            Arc::clone(&wake),
        );
        let flusher = Arc::new(Flusher::new(
            Arc::clone(&cache),
            store,
            Arc::clone(&metrics),
            wake,
        ));
        let (stop, stopped) = watch::channel(false);
        if let Some(journal) = journal.clone() {
            let (cache, flusher) = (Arc::clone(&cache), Arc::clone(&flusher));
            // Detached: it ends with the engine's stop.
            drop(tokio::spawn(settled::keep_short(
                journal,
                cache,
                flusher,
                stopped.clone(),
            )));
        }
        let task = tokio::spawn(Arc::clone(&flusher).run(flushing, stopped));
        let engine = Self {
            cache,
            loader,
            flusher,
            metrics,
            journal,
            stop,
        };
        (Arc::new(engine), task)
    }

    #[must_use]
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// What is in the cache now. What waits for loads, and whether the database is away, goes to the
    /// metrics at the same time.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let loading = self.loader.loading();
        let metrics = &self.metrics;
        metrics.loading_users.set(loading.users as f64);
        metrics.loading_operations.set(loading.waiters as f64);
        metrics.loading_bytes.set(loading.bytes as f64);
        let as_gauge = |away: bool| if away { 1.0 } else { 0.0 };
        metrics.loads_away.set(as_gauge(self.loader.is_away()));
        metrics.flushes_away.set(as_gauge(self.flusher.is_away()));
        let parts = self.flusher.parts_away().max(self.loader.parts_away());
        metrics.parts_away.set(parts as f64);
        metrics.store_memory.set(self.loader.store_memory() as f64);
        self.cache.totals()
    }

    /// Shows a user's block to `view`.
    ///
    /// # Errors
    /// When the user is not cached and cannot be loaded.
    pub async fn read<T: Send + 'static>(
        &self,
        user: u64,
        view: impl Fn(BlockRef<'_>) -> T + Send + 'static,
    ) -> Result<T, NotDone> {
        if let Some(seen) = self.cache.read(user, &view) {
            self.metrics.hits.increment(1);
            return Ok(seen);
        }
        self.metrics.misses.increment(1);
        self.loader
            .wait_for(user, Touch::Online, |answer| Reader { view, answer })
            .await
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
        view: impl Fn(BlockRef<'_>, &[Outcome]) -> T + Send + 'static,
    ) -> Result<T, NotDone> {
        self.change_if(user, None, operations, touch, view).await
    }

    /// As [`Engine::change`], if this holds of the user right before: nothing comes between.
    ///
    /// # Errors
    /// Also when it does not hold.
    pub async fn change_if<T: Send + 'static>(
        &self,
        user: u64,
        precondition: Option<Precondition>,
        operations: &[Operation],
        touch: Touch,
        view: impl Fn(BlockRef<'_>, &[Outcome]) -> T + Send + 'static,
    ) -> Result<T, NotDone> {
        let here = self.try_change(user, precondition.as_ref(), operations, touch, &view);
        if let Some(done) = here? {
            self.metrics.hits.increment(1);
            return Ok(done);
        }
        self.metrics.misses.increment(1);
        self.loader
            .wait_for(user, touch, |answer| Changer {
                precondition,
                operations: operations.into(),
                touch,
                view,
                answer,
            })
            .await
    }

    fn try_change<T>(
        &self,
        user: u64,
        precondition: Option<&Precondition>,
        operations: &[Operation],
        touch: Touch,
        view: impl Fn(BlockRef<'_>, &[Outcome]) -> T,
    ) -> Result<Option<T>, NotDone> {
        let counted = |block: BlockRef<'_>, outcomes: &[Outcome]| {
            self.metrics.outcomes(outcomes);
            view(block, outcomes)
        };
        let done = self.cache.visit(user, clock::now(), |landed| {
            landed.change_if(precondition, operations, touch, counted)
        });
        match done.flatten() {
            None => Ok(None),
            Some(Ok(done)) => Ok(Some(done)),
            Some(Err(refused @ Refused::VersionMoved)) => Err(refused.into()),
            Some(Err(refused)) => {
                // What makes room is written as soon as can be.
                self.flusher.wake();
                Err(refused.into())
            }
        }
    }

    /// Changes the capacity, and evicts down to it as far as what is dirty allows. When that takes
    /// more than some milliseconds, a thread of its own goes on, which gives the memory back too.
    pub fn set_capacity(&self, states: u64) {
        self.cache.set_capacity(states);
        if self.cache.make_room(None, clock::now()) {
            self.flusher.wake();
        }
        let (cache, flusher) = (Arc::clone(&self.cache), Arc::clone(&self.flusher));
        // Detached: it ends by itself, and each load makes room as well.
        drop(tokio::task::spawn_blocking(move || {
            let mut shrink = cache.shrink();
            while shrink.step(clock::now()) {}
            if shrink.brought_forward() {
                flusher.wake();
            }
        }));
    }

    /// Asks that everything that is dirty be written as soon as can be.
    pub(crate) fn bring_all_forward(&self) {
        self.cache.bring_all_forward(clock::now());
        self.flusher.wake();
    }

    /// Writes everything that is dirty now.
    pub async fn flush_all(&self) -> Flushed {
        self.flusher.flush_all().await
    }

    /// Refuses everything that waits for users of these slots to be loaded, where no more are loaded (see
    /// [`Cache::pause`]).
    pub fn abandon_loads(&self, slots: &SlotSet) {
        self.loader.abandon(slots);
    }

    /// Takes no more changes; reads go on.
    pub fn seal(&self) {
        self.cache.seal();
    }

    /// Writes what is dirty, round after round, until it is dropped.
    pub async fn keep_writing(&self) -> Infallible {
        loop {
            // A user whose slot is about to be released may never be written here.
            let round = timeout(LONGEST_ROUND, self.flush_all()).await;
            let flushed = round.unwrap_or_default();
            tracing::debug!(flushed.written, flushed.failed, "written while stopping");
            sleep(WRITE_AGAIN).await;
        }
    }

    /// Writes until nothing is dirty. Never ends while the store does not take what is dirty.
    pub async fn drain(&self) {
        let mut wait = FIRST_DRAIN_RETRY;
        while self.cache.dirty_users() > 0 {
            let Flushed { written, failed } = self.flush_all().await;
            // Those of closed slots are neither: they go with their slots.
            if failed > 0 || written == 0 {
                sleep(wait).await;
                wait = (wait * 2).min(LAST_DRAIN_RETRY);
            }
        }
    }

    /// Ends the task that writes, once its writes under way have ended.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }
}
