//! What the service says about itself: `readstates_*`, in Prometheus text. `METRICS.md` beside the
//! sources lists them all, and a test holds it to that.
//!
//! Each member has its own, so that several can live in one process. Everything is counted in place,
//! in memory that never grows; totals that the cache and the limits keep anyway are read at each
//! scrape, not counted twice.

mod page;
pub(crate) mod process;
mod requests;

use std::{sync::OnceLock, time::Duration};

use http::StatusCode;
use readstates_api::ProblemType;
pub use readstates_metrics::{Counter, Gauge, Histogram, Text};
use requests::Requests;

use crate::{
    block::Outcome,
    cache::{Flushing, Totals},
    http::{Operation, Port},
};

/// The metrics of one member.
#[derive(Debug)]
pub struct Metrics {
    /// Users loaded from the store, also those that had no block.
    pub loads: Counter,
    /// Loads that failed.
    pub load_failures: Counter,
    /// Blocks of the store that cannot be read.
    pub unreadable_blocks: Counter,
    /// Time of a load.
    pub load_seconds: Histogram,
    /// What was not taken on to wait for a load, because a limit was reached or the store is away.
    pub load_refusals: Counter,
    /// Users who are being loaded, or wait for it.
    pub loading_users: Gauge,
    /// Requests and operations that wait for them.
    pub loading_operations: Gauge,
    /// Their bytes, about.
    pub loading_bytes: Gauge,
    /// 1 while loads are refused because the store is away.
    pub loads_away: Gauge,
    /// Requests for users who were cached.
    pub hits: Counter,
    /// Requests for users who had to be loaded.
    pub misses: Counter,
    /// Blocks written.
    pub flushes: Counter,
    /// Writes that failed.
    pub flush_failures: Counter,
    /// Time of a write.
    pub flush_seconds: Histogram,
    /// Writes under way.
    pub flushes_in_flight: Gauge,
    /// Writes that may be under way.
    pub flush_limit: Gauge,
    /// 1 while writes are held back because the store is away.
    pub flushes_away: Gauge,
    /// Writes begun before the user's interval was over.
    pub early_flushes: Counter,
    /// Writes that had not ended long after others had.
    pub stalled_flushes: Counter,
    /// Loads that had not ended long after others had.
    pub stalled_loads: Counter,
    /// Blocks that were written at a later epoch than the ring's.
    pub regressed_blocks: Counter,
    /// Requests and operations that joined a load that was under way.
    pub coalesced_loads: Counter,
    /// Bytes of a block that was written.
    pub block_bytes: Histogram,
    /// How soon changes are written; set once.
    pub flushing: OnceLock<Flushing>,
    /// Parts of the store that are asked by one probe at a time.
    pub parts_away: Gauge,
    /// Bytes of memory that the store keeps for itself.
    pub store_memory: Gauge,
    /// Bytes written.
    pub flushed_bytes: Counter,
    /// Operations that changed something.
    pub applied: Counter,
    /// Operations that changed nothing.
    pub ignored: Counter,
    /// Requests passed on to their owner.
    pub forwards: Counter,
    /// Requests that could not be passed on.
    pub forward_failures: Counter,
    /// By port: connections whose other end did not prove what it is.
    unproven: [Counter; Port::ALL.len()],
    /// By operation.
    requests: Box<[Requests]>,
    /// By type of problem.
    refusals: Box<[Counter]>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Everything at zero.
    #[must_use]
    pub fn new() -> Self {
        Self {
            loads: Counter::default(),
            load_failures: Counter::default(),
            unreadable_blocks: Counter::default(),
            load_seconds: Histogram::default(),
            load_refusals: Counter::default(),
            loading_users: Gauge::default(),
            loading_operations: Gauge::default(),
            loading_bytes: Gauge::default(),
            loads_away: Gauge::default(),
            hits: Counter::default(),
            misses: Counter::default(),
            flushes: Counter::default(),
            flush_failures: Counter::default(),
            flush_seconds: Histogram::default(),
            flushes_in_flight: Gauge::default(),
            flush_limit: Gauge::default(),
            flushes_away: Gauge::default(),
            early_flushes: Counter::default(),
            stalled_flushes: Counter::default(),
            stalled_loads: Counter::default(),
            regressed_blocks: Counter::default(),
            coalesced_loads: Counter::default(),
            block_bytes: Histogram::default(),
            flushing: OnceLock::new(),
            parts_away: Gauge::default(),
            store_memory: Gauge::default(),
            flushed_bytes: Counter::default(),
            applied: Counter::default(),
            ignored: Counter::default(),
            forwards: Counter::default(),
            forward_failures: Counter::default(),
            unproven: Default::default(),
            requests: each(Operation::ALL),
            refusals: each(ProblemType::ALL),
        }
    }

    /// Books what became of operations.
    pub fn outcomes(&self, outcomes: &[Outcome]) {
        let applied = outcomes
            .iter()
            .filter(|&&outcome| outcome == Outcome::Applied)
            .count() as u64;
        self.applied.increment(applied);
        self.ignored.increment(outcomes.len() as u64 - applied);
    }

    /// Books one request.
    pub(crate) fn request(&self, operation: Operation, status: StatusCode, took: Duration) {
        // In the order of `ALL`, which is the order of the variants.
        self.requests[operation as usize].answered(status, took);
    }

    /// Books one refusal.
    pub(crate) fn refused(&self, problem: ProblemType) {
        self.refusals[problem as usize].increment(1);
    }

    /// Books a connection whose other end did not prove what it is.
    pub(crate) fn unproven(&self, port: Port) {
        self.unproven[port as usize].increment(1);
    }

    /// All of it, as Prometheus reads it.
    #[must_use]
    pub fn render(&self, totals: &Totals, capacity_states: u64, store_healthy: bool) -> String {
        let mut text = Text::default();
        self.write(&mut text, totals, capacity_states, store_healthy);
        text.finish()
    }

    /// Writes what is counted here, what the cache knows, and whether the store answers.
    pub(crate) fn write(
        &self,
        text: &mut Text,
        totals: &Totals,
        capacity_states: u64,
        store_healthy: bool,
    ) {
        self.write_own(text);
        page::write_totals(text, totals, capacity_states);
        text.gauge(
            "readstates_store_healthy",
            "1 when the store answered when last asked.",
            f64::from(u8::from(store_healthy)),
        );
    }
}

/// One of something for each of all.
fn each<T: Default, A>(all: &[A]) -> Box<[T]> {
    all.iter().map(|_| T::default()).collect()
}
