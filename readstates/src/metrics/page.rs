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
        self.write_families(text);
        let family = "readstates_handshake_failures_total";
        let help =
            "Connections whose other end did not prove in time that it may connect, by port.";
        text.family(family, help, "counter");
        for port in [Port::Admin, Port::Members] {
            let count = self.unproven[port as usize].get();
            text.sample(family, &[("port", port.name())], count as f64);
        }
        if let Some(Flushing { interval, mode }) = self.flushing.get() {
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
        requests::write(text, &self.requests);
        let name = "readstates_refusals_total";
        text.family(name, "Requests refused, by type of problem.", "counter");
        for (problem, counter) in ProblemType::ALL.iter().zip(&self.refusals) {
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
