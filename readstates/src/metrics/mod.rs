//! What the service says about itself: `readstates_*`, in Prometheus text. `METRICS.md` beside the
//! sources lists them all, and a test holds it to that.
//!
//! Each member has its own, so that several can live in one process. Everything is counted in place,
//! in memory that never grows; totals that the cache and the limits keep anyway are read at each
//! scrape, not counted twice.

pub(crate) mod process;

use std::{
    sync::OnceLock,
    time::{Duration, Instant},
};

use http::StatusCode;
use readstates_api::ProblemType;
pub use readstates_metrics::{Counter, Gauge, Histogram, Text};

use crate::{
    block::Outcome,
    cache::{FlushMode, Flushing, Totals},
    http::{Class, Operation, Port},
};

/// The statuses that the service answers with; the last stands for any other.
const STATUSES: [(u16, &str); 21] = [
    (200, "200"),
    (202, "202"),
    (204, "204"),
    (304, "304"),
    (400, "400"),
    (401, "401"),
    (403, "403"),
    (404, "404"),
    (405, "405"),
    (409, "409"),
    (412, "412"),
    (413, "413"),
    (415, "415"),
    (421, "421"),
    (429, "429"),
    (431, "431"),
    (500, "500"),
    (502, "502"),
    (503, "503"),
    (504, "504"),
    (0, "other"),
];

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

/// The requests for one operation.
#[derive(Debug, Default)]
struct Requests {
    seconds: Histogram,
    /// By status.
    answered: [Counter; STATUSES.len()],
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
        let requests = &self.requests[operation as usize];
        requests.seconds.record(took);
        let place = STATUSES
            .iter()
            .position(|&(number, _)| number == status.as_u16());
        requests.answered[place.unwrap_or(STATUSES.len() - 1)].increment(1);
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
        write_totals(text, totals, capacity_states);
        text.gauge(
            "readstates_store_healthy",
            "1 when the store answered when last asked.",
            f64::from(u8::from(store_healthy)),
        );
    }

    fn write_own(&self, text: &mut Text) {
        let Self {
            loads,
            load_failures,
            unreadable_blocks,
            load_seconds,
            load_refusals,
            loading_users,
            loading_operations,
            loading_bytes,
            loads_away,
            hits,
            misses,
            flushes,
            flush_failures,
            flush_seconds,
            flushes_in_flight,
            flush_limit,
            flushes_away,
            early_flushes,
            stalled_flushes,
            stalled_loads,
            regressed_blocks,
            coalesced_loads,
            block_bytes,
            flushing,
            parts_away,
            store_memory,
            flushed_bytes,
            applied,
            ignored,
            forwards,
            forward_failures,
            unproven,
            requests,
            refusals,
        } = self;
        let counters = [
            (
                "readstates_loads_total",
                "Users loaded from the store.",
                loads,
            ),
            (
                "readstates_load_refusals_total",
                "Requests and operations refused because too much waits for loads, or the store is away.",
                load_refusals,
            ),
            (
                "readstates_load_failures_total",
                "Loads that failed.",
                load_failures,
            ),
            (
                "readstates_unreadable_blocks_total",
                "Loads of a block that this version cannot read; the log names the user.",
                unreadable_blocks,
            ),
            (
                "readstates_cache_hits_total",
                "Requests for users who were cached.",
                hits,
            ),
            (
                "readstates_cache_misses_total",
                "Requests for users who had to be loaded.",
                misses,
            ),
            (
                "readstates_flushes_total",
                "Blocks written to the store.",
                flushes,
            ),
            (
                "readstates_flush_failures_total",
                "Writes of blocks that failed; the users stay dirty.",
                flush_failures,
            ),
            (
                "readstates_flushed_bytes_total",
                "Bytes of the blocks written.",
                flushed_bytes,
            ),
            (
                "readstates_flushes_early_total",
                "Blocks whose write began before the flush interval was over.",
                early_flushes,
            ),
            (
                "readstates_flushes_stalled_total",
                "Writes of blocks that had not ended long after others had, and gave up their place.",
                stalled_flushes,
            ),
            (
                "readstates_loads_stalled_total",
                "Loads that had not ended long after others had, and gave up their place.",
                stalled_loads,
            ),
            (
                "readstates_loads_coalesced_total",
                "Requests and operations that joined a load under way.",
                coalesced_loads,
            ),
            (
                "readstates_regressed_blocks_total",
                "Blocks loaded that were written at a later epoch than the ring's.",
                regressed_blocks,
            ),
            (
                "readstates_operations_applied_total",
                "Operations that changed something.",
                applied,
            ),
            (
                "readstates_operations_ignored_total",
                "Operations that changed nothing, because it was known already.",
                ignored,
            ),
            (
                "readstates_forwards_total",
                "Requests passed on to their owner.",
                forwards,
            ),
            (
                "readstates_forward_failures_total",
                "Requests that could not be passed on, or whose owner did not answer in time.",
                forward_failures,
            ),
        ];
        for (name, help, counter) in counters {
            text.counter(name, help, counter.get());
        }
        let family = "readstates_handshake_failures_total";
        let help =
            "Connections whose other end did not prove in time that it may connect, by port.";
        text.family(family, help, "counter");
        for port in [Port::Admin, Port::Members] {
            let count = unproven[port as usize].get();
            text.sample(family, &[("port", port.name())], count as f64);
        }
        let gauges = [
            (
                "readstates_loading_users",
                "Users who are being loaded, or wait for it.",
                loading_users,
            ),
            (
                "readstates_loading_operations",
                "Requests and operations that wait for users to be loaded.",
                loading_operations,
            ),
            (
                "readstates_loading_bytes",
                "Memory of what waits for users to be loaded, about.",
                loading_bytes,
            ),
            (
                "readstates_loads_away",
                "1 while loads are refused, but for a probe, because the store is away.",
                loads_away,
            ),
            (
                "readstates_store_parts_away",
                "Parts of the database, of 64, that are asked by one probe at a time because they do not answer.",
                parts_away,
            ),
            (
                "readstates_store_memory_bytes",
                "Memory that the embedded store caches pages of its file in, beside the cache of blocks.",
                store_memory,
            ),
            (
                "readstates_flushes_in_flight",
                "Writes of blocks under way.",
                flushes_in_flight,
            ),
            (
                "readstates_flush_limit",
                "Writes of blocks that may be under way; it adapts to the store.",
                flush_limit,
            ),
            (
                "readstates_flushes_away",
                "1 while writes are held back, but for a probe, because the store is away.",
                flushes_away,
            ),
        ];
        for (name, help, gauge) in gauges {
            text.gauge(name, help, gauge.get());
        }
        let histograms = [
            (
                "readstates_load_seconds",
                "Time the store took to load a block.",
                load_seconds,
            ),
            (
                "readstates_flush_seconds",
                "Time the store took to write a block.",
                flush_seconds,
            ),
        ];
        for (name, help, histogram) in histograms {
            text.family(name, help, "histogram");
            text.histogram(name, &[], histogram);
        }
        if let Some(Flushing { interval, mode }) = flushing.get() {
            text.gauge(
                "readstates_flush_interval_seconds",
                "How long after its first change a user is written at the latest.",
                interval.as_secs_f64(),
            );
            let name = "readstates_flush_mode";
            let help = "1 for the mode that says whether users are written before the flush interval is over.";
            text.family(name, help, "gauge");
            for (of, label) in [
                (FlushMode::Adaptive, "adaptive"),
                (FlushMode::Interval, "interval"),
            ] {
                let is = f64::from(u8::from(*mode == of));
                text.sample(name, &[("mode", label)], is);
            }
        }
        let name = "readstates_block_bytes";
        text.family(name, "Size of a block that was written.", "histogram");
        text.histogram_of_bytes(name, block_bytes);
        write_requests(text, requests);
        let name = "readstates_refusals_total";
        text.family(name, "Requests refused, by type of problem.", "counter");
        for (problem, counter) in ProblemType::ALL.iter().zip(refusals) {
            text.sample(name, &[("type", problem.name())], counter.get() as f64);
        }
    }
}

/// One of something for each of all.
fn each<T: Default, A>(all: &[A]) -> Box<[T]> {
    all.iter().map(|_| T::default()).collect()
}

/// Of an operation about users these are there from the start, beside its success: what alerts are about.
const FROM_THE_START: [&str; 4] = ["429", "500", "503", "504"];

/// Whether it is about users: what is measured of those is there before the first of them.
fn about_users(operation: Operation) -> bool {
    match operation.class() {
        Class::Reads | Class::Changes | Class::Batches | Class::Mentions => true,
        Class::RingWaiters | Class::Open => false,
    }
}

/// Whether a counter is shown that counts nothing yet. Most of them never count anything.
fn from_the_start(operation: Operation, status: &str) -> bool {
    let success = match operation {
        Operation::DeleteUser => "204",
        _ => "200",
    };
    about_users(operation) && (status == success || FROM_THE_START.contains(&status))
}

fn write_requests(text: &mut Text, requests: &[Requests]) {
    let name = "readstates_request_seconds";
    let help = "Time from a request's head to its answer.";
    text.family(name, help, "histogram");
    // The other routes are polled by machines; their latency is not an objective.
    let users = |(operation, _): &(&Operation, _)| about_users(**operation);
    for (operation, requests) in Operation::ALL.iter().zip(requests).filter(users) {
        let labels = [("route", operation.route()), ("method", operation.method())];
        text.histogram(name, &labels, &requests.seconds);
    }
    let name = "readstates_requests_total";
    text.family(name, "Requests answered, by status.", "counter");
    for (operation, requests) in Operation::ALL.iter().zip(requests) {
        for (&(_, status), counter) in STATUSES.iter().zip(&requests.answered) {
            let labels = [
                ("route", operation.route()),
                ("method", operation.method()),
                ("status", status),
            ];
            if counter.get() > 0 || from_the_start(*operation, status) {
                text.sample(name, &labels, counter.get() as f64);
            }
        }
    }
}

fn write_totals(text: &mut Text, totals: &Totals, capacity_states: u64) {
    let Totals {
        users,
        states,
        bytes,
        bytes_needed,
        bytes_of_tails,
        dirty_users,
        dirty_states,
        dirty_bytes,
        evictions,
        oldest_dirty,
    } = *totals;
    let oldest = oldest_dirty.map_or(Duration::ZERO, |since: Instant| since.elapsed());
    let gauges = [
        (
            "readstates_cached_users",
            "Users in the cache.",
            users as f64,
        ),
        (
            "readstates_cached_states",
            "Read states in the cache; a user without any counts as one.",
            states as f64,
        ),
        (
            "readstates_capacity_states",
            "Read states the cache keeps at most.",
            capacity_states as f64,
        ),
        (
            "readstates_dirty_users",
            "Users with changes that are not written.",
            dirty_users as f64,
        ),
        (
            "readstates_dirty_states",
            "Read states of users who are dirty.",
            dirty_states as f64,
        ),
        (
            "readstates_cache_bytes",
            "Memory of the cache: blocks and what is idle between them, tables, dirty users.",
            bytes as f64,
        ),
        (
            "readstates_cache_needed_bytes",
            "Memory of the cache without what is idle: what its bound is about.",
            bytes_needed as f64,
        ),
        (
            "readstates_cache_tail_bytes",
            "Memory of what does not fit the 24 bytes of a state: mentions, pins, deletions.",
            bytes_of_tails as f64,
        ),
        (
            "readstates_dirty_bytes",
            "Memory of the blocks of users who are dirty.",
            dirty_bytes as f64,
        ),
        (
            "readstates_oldest_dirty_seconds",
            "Age of the oldest change that is not written; 0 when there is none.",
            oldest.as_secs_f64(),
        ),
    ];
    for (name, help, value) in gauges {
        text.gauge(name, help, value);
    }
    text.counter(
        "readstates_evictions_total",
        "Users evicted from the cache.",
        evictions,
    );
}
