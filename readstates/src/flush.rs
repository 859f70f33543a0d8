//! Write-behind: brings what is dirty to the store, one write per user at a time.
//!
//! One task looks, several times a second, for users whose time has come, and has up to
//! [`MOST_IN_FLIGHT`] writes under way. A write that fails leaves the user dirty; the cache says when
//! to try again. Nothing here is lost when the task is slow: what is dirty stays in the cache.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{
    sync::{Notify, watch},
    task::{JoinError, JoinSet},
};

use crate::{
    cache::{Cache, Flight, Progress},
    metrics::Metrics,
    store::{Store, chain},
};

/// Writes under way at once: bounds what a slow database has to hold.
const MOST_IN_FLIGHT: usize = 64;
/// Between two looks, when nothing happens.
const LONGEST_TICK: Duration = Duration::from_millis(100);
const SHORTEST_TICK: Duration = Duration::from_millis(5);
/// Between two looks at users whose writes are waited for.
const PROGRESS_TICK: Duration = Duration::from_millis(10);
/// Failures are reported at most this often, with their number.
const REPORT_EVERY: Duration = Duration::from_secs(5);

/// Writes what is dirty.
#[derive(Debug)]
pub struct Flusher {
    cache: Arc<Cache>,
    store: Arc<dyn Store>,
    metrics: Arc<Metrics>,
    wake: Notify,
}

/// What a flush of everything came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Flushed {
    /// Users written.
    pub written: u64,
    /// Users whose write failed; they are still dirty.
    pub failed: u64,
}

impl Flusher {
    pub(crate) fn new(cache: Arc<Cache>, store: Arc<dyn Store>, metrics: Arc<Metrics>) -> Self {
        Self {
            cache,
            store,
            metrics,
            wake: Notify::new(),
        }
    }

    /// Looks again now: somebody was asked to be written early.
    pub fn wake(&self) {
        self.wake.notify_one();
    }

    /// Works until `stop` is true, then ends the writes under way.
    pub async fn run(self: Arc<Self>, interval: Duration, mut stop: watch::Receiver<bool>) {
        let mut ticker = tokio::time::interval((interval / 10).clamp(SHORTEST_TICK, LONGEST_TICK));
        ticker.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut in_flight = JoinSet::new();
        let mut report = Report::default();
        loop {
            let room = MOST_IN_FLIGHT.saturating_sub(in_flight.len());
            for flight in self.cache.begin_flushes(Instant::now(), room) {
                in_flight.spawn(Arc::clone(&self).write(flight));
            }
            // Each arm only wakes the loop; what it took is in `in_flight` or comes again.
            tokio::select! {
                _ = ticker.tick() => {}
                () = self.wake.notified() => {}
                Some(ended) = in_flight.join_next() => report.add(ended),
                // An error means that nobody can ask to stop any more.
                _ = stop.wait_for(|stop| *stop) => break,
            }
        }
        while let Some(ended) = in_flight.join_next().await {
            report.add(ended);
        }
    }

    /// Writes one flight; the error is why not, in words.
    async fn write(self: Arc<Self>, flight: Flight) -> Result<(), String> {
        let started = Instant::now();
        // The task may be aborted: then the user is dirty again, and not in flight for ever.
        let mut landing = Landing {
            flusher: &self,
            flight: &flight,
            landed: false,
        };
        let outcome = self
            .store
            .save(flight.user, flight.bytes.clone(), flight.stamp)
            .await;
        let now = Instant::now();
        self.metrics.flush_seconds.record(now - started);
        match outcome {
            Ok(()) => {
                landing.landed = true;
                self.cache.written(&flight, now);
                self.metrics.flushes.increment(1);
                self.metrics
                    .flushed_bytes
                    .increment(flight.bytes.len() as u64);
                Ok(())
            }
            Err(error) => {
                self.metrics.flush_failures.increment(1);
                Err(chain(&error))
            }
        }
    }

    /// Writes everything that is dirty now, and returns once each user was written or a write of it
    /// has failed.
    pub async fn flush_all(&self) -> Flushed {
        let start = Instant::now();
        let users = self.cache.hurry_all(start);
        let mut flushed = Flushed::default();
        for (user, version) in users {
            loop {
                match self.cache.progress(user, version, start) {
                    Progress::Written => flushed.written += 1,
                    Progress::Failed => flushed.failed += 1,
                    Progress::Waiting => {
                        // A write that was under way may not have had the last changes.
                        self.cache.hurry(user, Instant::now());
                        self.wake();
                        tokio::time::sleep(PROGRESS_TICK).await;
                        continue;
                    }
                }
                break;
            }
        }
        flushed
    }
}

/// Reports a flight as failed unless it has landed.
struct Landing<'a> {
    flusher: &'a Flusher,
    flight: &'a Flight,
    landed: bool,
}

impl Drop for Landing<'_> {
    fn drop(&mut self) {
        if !self.landed {
            self.flusher.cache.failed(self.flight, Instant::now());
        }
    }
}

/// Gathers failures, so that a database that is away is not a log line per user.
#[derive(Debug, Default)]
struct Report {
    failures: u64,
    last: Option<Instant>,
}

impl Report {
    /// Books the end of a write: a task that was aborted counts as neither.
    fn add(&mut self, ended: Result<Result<(), String>, JoinError>) {
        match ended {
            Ok(Err(reason)) => self.failed(&reason),
            Ok(Ok(())) if self.last.take().is_some() => {
                tracing::info!("blocks are written again");
                self.failures = 0;
            }
            Ok(Ok(())) | Err(_) => {}
        }
    }

    fn failed(&mut self, reason: &str) {
        self.failures += 1;
        if self.last.is_none_or(|last| last.elapsed() >= REPORT_EVERY) {
            tracing::warn!(failures = self.failures, "blocks stay dirty: {reason}");
            *self = Self {
                failures: 0,
                last: Some(Instant::now()),
            };
        }
    }
}
