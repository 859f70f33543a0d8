//! The names and the help texts of what [`Metrics`] counts and what the cache knows.

use std::time::{Duration, Instant};

use readstates_api::ProblemType;
use readstates_metrics::Text;

use super::{Metrics, requests};
use crate::{
    cache::{FlushMode, Flushing, Totals},
    http::Port,
};

impl Metrics {
    pub(super) fn write_own(&self, text: &mut Text) {
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
        requests::write(text, requests);
        let name = "readstates_refusals_total";
        text.family(name, "Requests refused, by type of problem.", "counter");
        for (problem, counter) in ProblemType::ALL.iter().zip(refusals) {
            text.sample(name, &[("type", problem.name())], counter.get() as f64);
        }
    }
}

pub(super) fn write_totals(text: &mut Text, totals: &Totals, capacity_states: u64) {
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
