//! Write-behind: brings what is dirty to the store, one write per user at a time.
//!
//! One task looks, several times a second, for users whose time has come, and has as many writes under
//! way as the [`Pace`] allows, of which `Places` keeps account. While the [`Circuits`] say that the store or
//! a part of it is away, that is asked by one write at a time. A write that fails leaves
//! the user dirty; the cache says when to try again. Nothing here is lost when the task is slow: what
//! is dirty stays in the cache.

mod pace;
mod places;
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
use places::{Places, Ticket};
use report::Report;
use tokio::{
    sync::{Notify, watch},
    task::{JoinError, JoinSet},
};
use turns::{Backlog, Turns};

use crate::{
    cache::{self, BlockWrite, Cache, Flushing, Progress, Room, Turn},
    clock,
    health::{Admission, Circuits},
    metrics::Metrics,
    random::Random,
    store::{Store, StoreError, chain},
};

/// Between two looks, when nothing happens. At the shortest one all the time, a look for few users each,
/// writes took a third more of the processor for a tail that could not be told from the other's.
const LONGEST_TICK: Duration = Duration::from_millis(100);
const SHORTEST_TICK: Duration = Duration::from_millis(5);
/// Between two looks at users whose writes are waited for.
const PROGRESS_TICK: Duration = Duration::from_millis(10);

/// Bytes of packed blocks under way to the store at once, except the last one, which has 14 MiB at most; and
/// as many again of stalled writes. They are beside the cache's own budget. Of users with 20 states,
/// 500 bytes each, that is more writes than any pace has under way.
const MOST_BYTES: usize = 64 << 20;

/// Writes what is dirty.
#[derive(Debug)]
pub struct Flusher {
    cache: Arc<Cache>,
    store: Arc<dyn Store>,
    metrics: Arc<Metrics>,
    wake: Arc<Notify>,
    circuits: Mutex<Circuits>,
    random: Random,
    turns: Turns,
    /// Callers who wait for everything to be written.
    flushing_all: AtomicUsize,
}

/// The result of a flush of everything.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Flushed {
    pub written: u64,
    /// Users whose write failed, or was not tried because the database is away; they are still dirty.
    pub failed: u64,
}

/// How one write went.
struct Written {
    ticket: Ticket,
    took: Duration,
    outcome: Result<(), StoreError>,
}

/// What the task that writes knows.
struct Work {
    pace: Pace,
    places: Places,
    in_flight: JoinSet<Written>,
    report: Report,
}

impl Work {
    fn new(shards: usize, now: Instant) -> Self {
        Self {
            pace: Pace::new(shards, now),
            places: Places::default(),
            in_flight: JoinSet::new(),
            report: Report::default(),
        }
    }
}

impl Flusher {
    pub(crate) fn new(
        cache: Arc<Cache>,
        store: Arc<dyn Store>,
        metrics: Arc<Metrics>,
        wake: Arc<Notify>,
    ) -> Self {
        Self {
            random: Random::of(cache.incarnation()),
            cache,
            store,
            metrics,
            wake,
            circuits: Mutex::default(),
            turns: Turns::default(),
            flushing_all: AtomicUsize::new(0),
        }
    }

    /// Looks again now: a user was brought forward.
    pub fn wake(&self) {
        self.wake.notify_one();
    }

    /// Whether writes are held back because the database is away.
    pub(crate) fn is_away(&self) -> bool {
        self.circuits.lock().is_open()
    }

    /// Parts of the database that take no writes.
    pub(crate) fn parts_away(&self) -> usize {
        self.circuits.lock().open_parts()
    }

    /// Works until `stop` is true, then ends the writes under way.
    pub async fn run(self: Arc<Self>, flushing: Flushing, mut stop: watch::Receiver<bool>) {
        let tick = (flushing.delay() / 10).clamp(SHORTEST_TICK, LONGEST_TICK);
        let mut ticker = tokio::time::interval(tick);
        ticker.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut work = Work::new(self.store.shards(), clock::now());
        // Whether more may be due than is under way.
        let mut more = true;
        let mut backlog = Backlog::default();
        loop {
            self.look_for_stalls(&mut work);
            if more {
                more = self.begin(&mut work);
                self.turns.looked(&mut backlog, more, clock::now());
            }
            self.metrics.flushes_in_flight.set(work.places.len() as f64);
            self.metrics
                .flush_limit
                .set(work.pace.limit(self.urgency()) as f64);
            // Each arm only wakes the loop; what it took is in `in_flight` or comes again. In order: what
            // waits for the ticker can wait, and there is an end to what is in flight.
            tokio::select! {
                biased;
                // An error means that the sender is gone, which is as good as a stop.
                _ = stop.wait_for(|stop| *stop) => break,
                Some(ended) = work.in_flight.join_next() => {
                    self.book(ended, &mut work);
                    // Those that have ended besides: one look is enough for all.
                    while let Some(ended) = work.in_flight.try_join_next() {
                        self.book(ended, &mut work);
                    }
                }
                () = self.wake.notified() => more = true,
                _ = ticker.tick() => {
                    work.pace.shards(self.store.shards());
                    more = true;
                }
            }
        }
        while let Some(ended) = work.in_flight.join_next().await {
            self.book(ended, &mut work);
        }
    }

    /// Begins writes up to the limits, and says whether a limit was reached.
    fn begin(self: &Arc<Self>, work: &mut Work) -> bool {
        let now = clock::now();
        let urgency = self.urgency();
        let Work { pace, places, .. } = work;
        let mut room = places.room(pace.limit(urgency), pace.ceiling(), MOST_BYTES, urgency);
        match self.circuits.lock().admits_any(now) {
            Admission::All => {}
            Admission::One => room = Room::of(1),
            Admission::None => room = Room::of(0),
        }
        // Taken under a stripe's lock, and mostly free: callers that look for progress hold it briefly.
        let enters = |user| self.circuits.lock().enter(self.store.part(user), now);
        let writes = self.cache.begin_flushes_in(now, room, enters);
        let begun = cache::bytes_of(&writes);
        let mut reached = writes.len() == room.all;
        if room.all > 0 && reached {
            pace.held_back();
        }
        for (turn, most) in [(Turn::Early, room.early), (Turn::Again, room.again)] {
            let begun = writes.iter().filter(|write| write.turn == turn).count();
            reached |= begun > 0 && begun == most;
        }
        for write in writes {
            let part = self.store.part(write.user);
            let ticket = places.begin(part, write.turn, write.bytes.len(), now);
            if write.turn == Turn::Early {
                self.metrics.early_flushes.increment(1);
            }
            let write = Arc::clone(self).write(write, ticket);
            work.in_flight.spawn(write);
        }
        // What the bytes limit holds back is looked at again when a write has ended.
        reached || begun >= room.bytes
    }

    fn urgency(&self) -> Urgency {
        if self.flushing_all.load(Ordering::Relaxed) > 0 || self.cache.under_pressure() {
            Urgency::Urgent
        } else {
            Urgency::Calm
        }
    }

    /// Writes that do not end while others do give up their places, and their parts are asked less.
    fn look_for_stalls(&self, work: &mut Work) {
        let now = clock::now();
        for part in work.places.stalled(work.pace.usual(), now) {
            self.metrics.stalled_flushes.increment(1);
            let share = self.random.share();
            self.circuits.lock().stalled(part, now, share);
        }
    }

    fn book(&self, ended: Result<Written, JoinError>, work: &mut Work) {
        // A task that was aborted counts as nothing: the process ends.
        let Ok(Written {
            ticket,
            took,
            outcome,
        }) = ended
        else {
            return;
        };
        let (now, usual) = (clock::now(), work.pace.usual());
        let succeeded = outcome.is_ok();
        if let Some(place) = work.places.ended(ticket, succeeded, usual, now) {
            let share = self.random.share();
            let mut circuits = self.circuits.lock();
            // A part that is known to be away says nothing about how much the others take.
            let of_others = place.held && !circuits.part_is_open(place.part);
            if of_others || circuits.is_open() {
                work.pace.ended(succeeded, took, now);
            }
            // What stalled was booked when it did: others went well then.
            if succeeded || place.held {
                circuits.ended(place.part, succeeded, now, share);
            }
        }
        match outcome {
            Ok(()) => work.report.succeeded(),
            Err(error) => work.report.failed(&chain(&error), now),
        }
    }

    async fn write(self: Arc<Self>, mut write: BlockWrite, ticket: Ticket) -> Written {
        if self.turns.end_before_this() {
            std::thread::yield_now();
        }
        let started = clock::now();
        let (user, stamp) = (write.user, write.stamp);
        let bytes = std::mem::take(&mut write.bytes);
        let size = bytes.len() as u64;
        // The task may be aborted: then the user is dirty again, and not in flight for ever.
        let mut landing = Landing {
            flusher: &self,
            write: &write,
            landed: false,
        };
        let outcome = self.store.save(user, bytes, stamp).await;
        let now = clock::now();
        let took = now - started;
        self.metrics.flush_seconds.record(took);
        if outcome.is_ok() {
            landing.landed = true;
            self.cache.written(&write, now);
            self.metrics.flushes.increment(1);
            self.metrics.flushed_bytes.increment(size);
            self.metrics.block_bytes.record_bytes(size as usize);
        } else {
            self.metrics.flush_failures.increment(1);
        }
        Written {
            ticket,
            took,
            outcome,
        }
    }

    /// Writes everything that is dirty now, and returns once each user was written, or a write of it
    /// has failed, or none is tried because the database is away.
    pub async fn flush_all(&self) -> Flushed {
        let start = clock::now();
        let _counted = FlushAll::new(&self.flushing_all);
        self.circuits.lock().probe_now(start);
        let users = self.cache.bring_all_forward(start);
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
        let part = self.store.part(user);
        loop {
            match self.cache.progress(user, version, start) {
                Progress::Written => return true,
                Progress::Failed => return false,
                Progress::Waiting if self.circuits.lock().is_open_since(part, start) => {
                    return false;
                }
                Progress::Waiting => {}
            }
            // A write that was under way may not have had the last changes.
            self.cache.bring_forward(user, clock::now());
            self.wake();
            tokio::time::sleep(PROGRESS_TICK).await;
        }
    }
}

/// A write under way. When dropped, it is reported as failed unless it has landed.
struct Landing<'a> {
    flusher: &'a Flusher,
    write: &'a BlockWrite,
    landed: bool,
}

impl Drop for Landing<'_> {
    fn drop(&mut self) {
        if !self.landed {
            self.flusher.cache.failed(self.write, clock::now());
        }
    }
}

/// A caller waits for everything to be written, until this is dropped.
struct FlushAll<'a>(&'a AtomicUsize);

impl<'a> FlushAll<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for FlushAll<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
