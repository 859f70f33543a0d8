//! Write-behind: brings what is dirty to the store, one write per user at a time.
//!
//! One task looks, several times a second, for users whose time has come, and has as many writes under
//! way as the [`Pace`] allows; while the [`Circuit`] is open, one at a time. A write that fails leaves
//! the user dirty; the cache says when to try again. Nothing here is lost when the task is slow: what
//! is dirty stays in the cache.

mod pace;
mod report;
mod turns;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

pub use pace::{Pace, Urgency};
use parking_lot::Mutex;
use report::Report;
use tokio::{
    sync::{Notify, watch},
    task::{JoinError, JoinSet},
};
use turns::{Backlog, Turns};

use crate::{
    cache::{self, Cache, Flight, Progress},
    clock,
    health::{Admission, Circuit},
    lots::Lots,
    metrics::Metrics,
    store::{Store, StoreError, chain},
};

/// Between two looks, when nothing happens. At the shortest one all the time, a look for few users each,
/// writes took a third more of the processor for a tail that could not be told from the other's.
const LONGEST_TICK: Duration = Duration::from_millis(100);
const SHORTEST_TICK: Duration = Duration::from_millis(5);
/// Between two looks at users whose writes are waited for.
const PROGRESS_TICK: Duration = Duration::from_millis(10);

/// Bytes of packed blocks under way to the store at once, but for the last one, which has 14 MiB at most:
/// they are beside the cache's own budget. Of users with 20 states, 500 bytes each, that is more writes
/// than any pace has under way.
const MOST_BYTES_UNDER_WAY: usize = 64 << 20;

/// Writes what is dirty.
#[derive(Debug)]
pub struct Flusher {
    cache: Arc<Cache>,
    store: Arc<dyn Store>,
    metrics: Arc<Metrics>,
    wake: Arc<Notify>,
    circuit: Mutex<Circuit>,
    lots: Lots,
    turns: Turns,
    /// Callers who wait for everything to be written.
    hurried: AtomicUsize,
    /// Bytes of blocks under way to the store.
    bytes_under_way: AtomicUsize,
}

/// What a flush of everything came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Flushed {
    /// Users written.
    pub written: u64,
    /// Users whose write failed, or was not tried because the database is away; they are still dirty.
    pub failed: u64,
}

/// How one write went.
struct Written {
    took: Duration,
    outcome: Result<(), StoreError>,
}

impl Flusher {
    pub(crate) fn new(
        cache: Arc<Cache>,
        store: Arc<dyn Store>,
        metrics: Arc<Metrics>,
        wake: Arc<Notify>,
    ) -> Self {
        Self {
            lots: Lots::of(cache.incarnation()),
            cache,
            store,
            metrics,
            wake,
            circuit: Mutex::default(),
            turns: Turns::default(),
            hurried: AtomicUsize::new(0),
            bytes_under_way: AtomicUsize::new(0),
        }
    }

    /// Looks again now: somebody was asked to be written early.
    pub fn wake(&self) {
        self.wake.notify_one();
    }

    /// Whether writes are held back because the database is away.
    pub(crate) fn is_away(&self) -> bool {
        self.circuit.lock().is_open()
    }

    /// Works until `stop` is true, then ends the writes under way.
    pub async fn run(self: Arc<Self>, interval: Duration, mut stop: watch::Receiver<bool>) {
        let mut ticker = tokio::time::interval((interval / 10).clamp(SHORTEST_TICK, LONGEST_TICK));
        ticker.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut pace = Pace::new(self.store.shards(), clock::now());
        let mut in_flight = JoinSet::new();
        let mut report = Report::default();
        // Whether more may be due than is under way.
        let mut more = true;
        let mut backlog = Backlog::default();
        loop {
            if more {
                more = self.begin(&mut pace, &mut in_flight);
                self.turns.looked(&mut backlog, more, clock::now());
            }
            self.metrics.flushes_in_flight.set(in_flight.len() as f64);
            self.metrics
                .flush_limit
                .set(pace.limit(self.urgency()) as f64);
            // Each arm only wakes the loop; what it took is in `in_flight` or comes again. In order: what
            // waits for the ticker can wait, and there is an end to what is in flight.
            tokio::select! {
                biased;
                // An error means that nobody can ask to stop any more.
                _ = stop.wait_for(|stop| *stop) => break,
                Some(ended) = in_flight.join_next() => {
                    self.book(ended, &mut pace, &mut report);
                    // Those that have ended besides: one look is enough for all.
                    while let Some(ended) = in_flight.try_join_next() {
                        self.book(ended, &mut pace, &mut report);
                    }
                }
                () = self.wake.notified() => more = true,
                _ = ticker.tick() => {
                    pace.shards(self.store.shards());
                    more = true;
                }
            }
        }
        while let Some(ended) = in_flight.join_next().await {
            self.book(ended, &mut pace, &mut report);
        }
    }

    /// Begins as many writes as may be under way, and says whether that many were due.
    fn begin(self: &Arc<Self>, pace: &mut Pace, in_flight: &mut JoinSet<Written>) -> bool {
        let now = clock::now();
        let most = match self.circuit.lock().admits(now) {
            Admission::All => pace.limit(self.urgency()),
            Admission::One => in_flight.len() + 1,
            Admission::None => 0,
        };
        let room = most.saturating_sub(in_flight.len());
        let under_way = self.bytes_under_way.load(Ordering::Relaxed);
        let bytes = MOST_BYTES_UNDER_WAY.saturating_sub(under_way);
        let flights = self.cache.begin_flushes_within(now, room, bytes);
        let begun = cache::bytes_of(&flights);
        let reached = flights.len() == room;
        if room > 0 && reached {
            pace.held_back();
        }
        for flight in flights {
            let size = flight.bytes.len();
            self.bytes_under_way.fetch_add(size, Ordering::Relaxed);
            self.circuit.lock().enter(now);
            in_flight.spawn(Arc::clone(self).write(flight));
        }
        // What the bytes hold back is looked at again when a write has ended.
        reached || begun >= bytes
    }

    fn urgency(&self) -> Urgency {
        if self.hurried.load(Ordering::Relaxed) > 0 || self.cache.under_pressure() {
            Urgency::Urgent
        } else {
            Urgency::Calm
        }
    }

    fn book(&self, ended: Result<Written, JoinError>, pace: &mut Pace, report: &mut Report) {
        // A task that was aborted counts as nothing.
        let Ok(Written { took, outcome }) = ended else {
            return;
        };
        let now = clock::now();
        pace.ended(outcome.is_ok(), took, now);
        self.circuit
            .lock()
            .ended(outcome.is_ok(), now, self.lots.share());
        match outcome {
            Ok(()) => report.succeeded(),
            Err(error) => report.failed(&chain(&error), now),
        }
    }

    /// Writes one flight.
    async fn write(self: Arc<Self>, mut flight: Flight) -> Written {
        if self.turns.end_before_this() {
            std::thread::yield_now();
        }
        let started = clock::now();
        let (user, stamp) = (flight.user, flight.stamp);
        let bytes = std::mem::take(&mut flight.bytes);
        let size = bytes.len() as u64;
        // The task may be aborted: then the user is dirty again, and not in flight for ever.
        let mut landing = Landing {
            flusher: &self,
            flight: &flight,
            size: bytes.len(),
            landed: false,
        };
        let outcome = self.store.save(user, bytes, stamp).await;
        let now = clock::now();
        let took = now - started;
        self.metrics.flush_seconds.record(took);
        if outcome.is_ok() {
            landing.landed = true;
            self.cache.written(&flight, now);
            self.metrics.flushes.increment(1);
            self.metrics.flushed_bytes.increment(size);
        } else {
            self.metrics.flush_failures.increment(1);
        }
        Written { took, outcome }
    }

    /// Writes everything that is dirty now, and returns once each user was written, or a write of it
    /// has failed, or none is tried because the database is away.
    pub async fn flush_all(&self) -> Flushed {
        let start = clock::now();
        let _hurried = Hurried::new(&self.hurried);
        self.circuit.lock().probe_now(start);
        let users = self.cache.hurry_all(start);
        let mut flushed = Flushed::default();
        for (user, version) in users {
            if self.ends_well(user, version, start).await {
                flushed.written += 1;
            } else {
                flushed.failed += 1;
            }
        }
        flushed
    }

    /// Waits for the write of a user, and says whether it succeeded.
    async fn ends_well(&self, user: u64, version: u64, start: Instant) -> bool {
        loop {
            match self.cache.progress(user, version, start) {
                Progress::Written => return true,
                Progress::Failed => return false,
                Progress::Waiting if self.circuit.lock().is_open_since(start) => return false,
                Progress::Waiting => {}
            }
            // A write that was under way may not have had the last changes.
            self.cache.hurry(user, clock::now());
            self.wake();
            tokio::time::sleep(PROGRESS_TICK).await;
        }
    }
}

/// A write under way. When dropped, its bytes are no longer counted, and the flight is reported as failed
/// unless it has landed.
struct Landing<'a> {
    flusher: &'a Flusher,
    flight: &'a Flight,
    /// Bytes of the block.
    size: usize,
    landed: bool,
}

impl Drop for Landing<'_> {
    fn drop(&mut self) {
        let under_way = &self.flusher.bytes_under_way;
        under_way.fetch_sub(self.size, Ordering::Relaxed);
        if !self.landed {
            self.flusher.cache.failed(self.flight, clock::now());
        }
    }
}

/// Somebody waits for everything to be written, until dropped.
struct Hurried<'a>(&'a AtomicUsize);

impl<'a> Hurried<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Hurried<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
