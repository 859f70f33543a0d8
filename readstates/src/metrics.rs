//! What the service says about itself: `readstates_*`, in Prometheus text.
//!
//! Each member registers with a recorder of its own, so that several can live in one process. Totals
//! that the cache keeps anyway are read when somebody asks, not counted twice.

use std::time::{Duration, Instant};

use metrics::{Counter, Gauge, Histogram, Key, Label, Level, Metadata, Recorder, SharedString};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle, PrometheusRecorder};

use crate::{block::Outcome, cache::Totals};

/// Upper bounds of the latency buckets, in seconds: from memory speed to a database timeout.
const BUCKETS: [f64; 14] = [
    0.000_1, 0.000_25, 0.000_5, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5, 10.0,
];

const METADATA: Metadata<'static> = Metadata::new(module_path!(), Level::INFO, None);

/// The metrics of one member.
pub struct Metrics {
    recorder: PrometheusRecorder,
    handle: PrometheusHandle,
    /// Users loaded from the store, and those who had no block.
    pub loads: Counter,
    /// Loads that failed.
    pub load_failures: Counter,
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
    /// Requests being handled.
    pub in_flight: Gauge,
    cache: CacheGauges,
}

struct CacheGauges {
    users: Gauge,
    states: Gauge,
    capacity_states: Gauge,
    dirty_users: Gauge,
    dirty_states: Gauge,
    bytes: Gauge,
    needed_bytes: Gauge,
    tail_bytes: Gauge,
    dirty_bytes: Gauge,
    oldest_dirty_seconds: Gauge,
    evictions: Counter,
    store_healthy: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Registers everything, at zero.
    #[must_use]
    pub fn new() -> Self {
        let recorder = PrometheusBuilder::new()
            .set_buckets(&BUCKETS)
            // Fails for an empty list only.
            .unwrap_or_else(|_| PrometheusBuilder::new())
            .build_recorder();
        let register = Register(&recorder);
        Self {
            handle: recorder.handle(),
            loads: register.counter("readstates_loads_total", "Users loaded from the store."),
            load_failures: register.counter("readstates_load_failures_total", "Loads that failed."),
            load_seconds: register.histogram(
                "readstates_load_seconds",
                "Time the store took to load a block.",
            ),
            load_refusals: register.counter(
                "readstates_load_refusals_total",
                "Requests and operations refused because too much waits for loads, or the store is away.",
            ),
            loading_users: register.gauge(
                "readstates_loading_users",
                "Users who are being loaded, or wait for it.",
            ),
            loading_operations: register.gauge(
                "readstates_loading_operations",
                "Requests and operations that wait for users to be loaded.",
            ),
            loading_bytes: register.gauge(
                "readstates_loading_bytes",
                "Memory of what waits for users to be loaded, about.",
            ),
            loads_away: register.gauge(
                "readstates_loads_away",
                "1 while loads are refused, but for a probe, because the store is away.",
            ),
            hits: register.counter(
                "readstates_cache_hits_total",
                "Requests for users who were cached.",
            ),
            misses: register.counter(
                "readstates_cache_misses_total",
                "Requests for users who had to be loaded.",
            ),
            flushes: register.counter("readstates_flushes_total", "Blocks written to the store."),
            flush_failures: register.counter(
                "readstates_flush_failures_total",
                "Writes of blocks that failed; the users stay dirty.",
            ),
            flush_seconds: register.histogram(
                "readstates_flush_seconds",
                "Time the store took to write a block.",
            ),
            flushes_in_flight: register.gauge(
                "readstates_flushes_in_flight",
                "Writes of blocks under way.",
            ),
            flush_limit: register.gauge(
                "readstates_flush_limit",
                "Writes of blocks that may be under way; it adapts to the store.",
            ),
            flushes_away: register.gauge(
                "readstates_flushes_away",
                "1 while writes are held back, but for a probe, because the store is away.",
            ),
            flushed_bytes: register.counter(
                "readstates_flushed_bytes_total",
                "Bytes of the blocks written.",
            ),
            applied: register.counter(
                "readstates_operations_applied_total",
                "Operations that changed something.",
            ),
            ignored: register.counter(
                "readstates_operations_ignored_total",
                "Operations that changed nothing, because it was known already.",
            ),
            forwards: register.counter(
                "readstates_forwards_total",
                "Requests passed on to their owner.",
            ),
            forward_failures: register.counter(
                "readstates_forward_failures_total",
                "Requests that could not be passed on, or whose owner did not answer in time.",
            ),
            in_flight: register.gauge("readstates_requests_in_flight", "Requests being handled."),
            cache: CacheGauges::register(&register),
            recorder,
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

    /// Books one request: `route` as in the API's paths, `status` as answered.
    pub fn request(&self, route: &str, method: &str, status: u16, took: Duration) {
        let labels = vec![
            Label::new("route", route.to_owned()),
            Label::new("method", method.to_owned()),
        ];
        let key = Key::from_parts("readstates_request_seconds", labels.clone());
        self.recorder
            .register_histogram(&key, &METADATA)
            .record(took);
        let mut labels = labels;
        labels.push(Label::new("status", status.to_string()));
        let key = Key::from_parts("readstates_requests_total", labels);
        self.recorder.register_counter(&key, &METADATA).increment(1);
    }

    /// All metrics, as Prometheus reads them.
    #[must_use]
    pub fn render(&self, totals: &Totals, capacity_states: u64, store_healthy: bool) -> String {
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
        self.cache.users.set(users as f64);
        self.cache.states.set(states as f64);
        self.cache.capacity_states.set(capacity_states as f64);
        self.cache.dirty_users.set(dirty_users as f64);
        self.cache.dirty_states.set(dirty_states as f64);
        self.cache.bytes.set(bytes as f64);
        self.cache.needed_bytes.set(bytes_needed as f64);
        self.cache.tail_bytes.set(bytes_of_tails as f64);
        self.cache.dirty_bytes.set(dirty_bytes as f64);
        self.cache.oldest_dirty_seconds.set(oldest.as_secs_f64());
        self.cache.evictions.absolute(evictions);
        self.cache
            .store_healthy
            .set(if store_healthy { 1.0 } else { 0.0 });
        self.handle.run_upkeep();
        self.handle.render()
    }
}

impl CacheGauges {
    fn register(register: &Register<'_>) -> Self {
        Self {
            users: register.gauge("readstates_cached_users", "Users in the cache."),
            states: register.gauge(
                "readstates_cached_states",
                "Read states in the cache; a user without any counts as one.",
            ),
            capacity_states: register.gauge(
                "readstates_capacity_states",
                "Read states the cache keeps at most.",
            ),
            dirty_users: register.gauge(
                "readstates_dirty_users",
                "Users with changes that are not written.",
            ),
            dirty_states: register.gauge(
                "readstates_dirty_states",
                "Read states of users who are dirty.",
            ),
            bytes: register.gauge(
                "readstates_cache_bytes",
                "Memory of the cache: blocks and what is idle between them, tables, dirty users.",
            ),
            needed_bytes: register.gauge(
                "readstates_cache_needed_bytes",
                "Memory of the cache without what is idle: what its bound is about.",
            ),
            tail_bytes: register.gauge(
                "readstates_cache_tail_bytes",
                "Memory of what does not fit the 24 bytes of a state: mentions, pins, deletions.",
            ),
            dirty_bytes: register.gauge(
                "readstates_dirty_bytes",
                "Memory of the blocks of users who are dirty.",
            ),
            oldest_dirty_seconds: register.gauge(
                "readstates_oldest_dirty_seconds",
                "Age of the oldest change that is not written; 0 when there is none.",
            ),
            evictions: register.counter(
                "readstates_evictions_total",
                "Users evicted from the cache.",
            ),
            store_healthy: register.gauge(
                "readstates_store_healthy",
                "1 when the store answered when last asked.",
            ),
        }
    }
}

struct Register<'a>(&'a PrometheusRecorder);

impl Register<'_> {
    fn counter(&self, name: &'static str, help: &'static str) -> Counter {
        self.0
            .describe_counter(name.into(), None, SharedString::const_str(help));
        self.0
            .register_counter(&Key::from_static_name(name), &METADATA)
    }

    fn gauge(&self, name: &'static str, help: &'static str) -> Gauge {
        self.0
            .describe_gauge(name.into(), None, SharedString::const_str(help));
        self.0
            .register_gauge(&Key::from_static_name(name), &METADATA)
    }

    fn histogram(&self, name: &'static str, help: &'static str) -> Histogram {
        self.0
            .describe_histogram(name.into(), None, SharedString::const_str(help));
        self.0
            .register_histogram(&Key::from_static_name(name), &METADATA)
    }
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}
