//! What the service says about itself: `readstates_*`, in Prometheus text. `METRICS.md` beside the
//! sources lists them all, and a test holds it to that.
//!
//! Each member has its own, so that several can live in one process. Everything is counted in place,
//! in memory that never grows; totals that the cache and the limits keep anyway are read at each
//! scrape, not counted twice.

mod families;
mod page;
pub(crate) mod process;
mod requests;

use std::{sync::OnceLock, time::Duration};

pub(crate) use families::families;
use http::StatusCode;
use readstates_api::ProblemType;
pub use readstates_metrics::{Counter, Gauge, Histogram, Text};
use requests::Requests;
use strum::EnumCount;

use crate::{
    block::Outcome,
    cache::{Flushing, Totals},
    operation::{Operation, Port},
};

families! {
    /// The metrics of one member. The others are written by `write_own`.
    pub struct Metrics {
        counter loads = "readstates_loads_total", "Users loaded from the store.";
        counter load_refusals = "readstates_load_refusals_total",
            "Requests and operations refused because too much waits for loads, or the store is away.";
        counter load_failures = "readstates_load_failures_total", "Loads that failed.";
        counter unreadable_blocks = "readstates_unreadable_blocks_total",
            "Loads of a block that this version cannot read; the log names the user.";
        counter hits = "readstates_cache_hits_total", "Requests for users who were cached.";
        counter misses = "readstates_cache_misses_total",
            "Requests for users who had to be loaded.";
        counter flushes = "readstates_flushes_total", "Blocks written to the store.";
        counter flush_failures = "readstates_flush_failures_total",
            "Writes of blocks that failed; the users stay dirty.";
        counter flushed_bytes = "readstates_flushed_bytes_total", "Bytes of the blocks written.";
        counter early_flushes = "readstates_flushes_early_total",
            "Blocks whose write began before the flush interval was over.";
        counter stalled_flushes = "readstates_flushes_stalled_total",
            "Writes of blocks that had not ended long after others had, and gave up their place.";
        counter stalled_loads = "readstates_loads_stalled_total",
            "Loads that had not ended long after others had, and gave up their place.";
        counter coalesced_loads = "readstates_loads_coalesced_total",
            "Requests and operations that joined a load under way.";
        counter regressed_blocks = "readstates_regressed_blocks_total",
            "Blocks loaded that were written at a later epoch than the ring's.";
        counter applied = "readstates_operations_applied_total",
            "Operations that changed something.";
        counter ignored = "readstates_operations_ignored_total",
            "Operations that changed nothing, because it was known already.";
        counter forwards = "readstates_forwards_total", "Requests passed on to their owner.";
        counter forward_frames = "readstates_forward_frames_total",
            "Frames in which requests about one user were passed on together.";
        counter forward_failures = "readstates_forward_failures_total",
            "Requests that could not be passed on, or whose owner did not answer in time.";
        gauge loading_users = "readstates_loading_users",
            "Users who are being loaded, or wait for it.";
        gauge loading_operations = "readstates_loading_operations",
            "Requests and operations that wait for users to be loaded.";
        gauge loading_bytes = "readstates_loading_bytes",
            "Memory of what waits for users to be loaded, about.";
        gauge loads_away = "readstates_loads_away",
            "1 while loads are refused, but for a probe, because the store is away.";
        gauge parts_away = "readstates_store_parts_away",
            "Parts of the database, of 64, that are asked by one probe at a time because they do not answer.";
        gauge store_memory = "readstates_store_memory_bytes",
            "Memory that the embedded store caches pages of its file in, beside the cache of blocks.";
        gauge flushes_in_flight = "readstates_flushes_in_flight", "Writes of blocks under way.";
        gauge flush_limit = "readstates_flush_limit",
            "Writes of blocks that may be under way; it adapts to the store.";
        gauge flushes_away = "readstates_flushes_away",
            "1 while writes are held back, but for a probe, because the store is away.";
        seconds load_seconds = "readstates_load_seconds", "Time the store took to load a block.";
        seconds flush_seconds = "readstates_flush_seconds", "Time the store took to write a block.";
        bytes block_bytes = "readstates_block_bytes", "Size of a block that was written.";
    } and {
        /// How soon changes are written; set once.
        pub flushing: OnceLock<Flushing> = OnceLock::new();
        /// By port: connections whose other end did not prove what it is.
        unproven: [Counter; Port::COUNT] = Default::default();
        requests: Box<[Requests]> = each(Operation::ALL);
        /// By type of problem.
        refusals: Box<[Counter]> = each(ProblemType::ALL);
    }
}

impl Metrics {
    /// Everything at zero.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
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

    pub(crate) fn request(&self, operation: Operation, status: StatusCode, took: Duration) {
        // In the order of `ALL`, which is the order of the variants.
        self.requests[operation as usize].answered(status, took);
    }

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
