//! The report of a run: one value, written as text, JSON, or a line per second.

mod seconds;
mod text;

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
pub use seconds::{Stolen, Suspect, Usage, stolen, suspects, usage};
use serde::{Deserialize, Serialize};
pub use text::{csv, text};

use crate::{answer::Counts, check::CheckReport, metrics::Sample, windows::Window};

/// Everything about a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// What was measured, in a line.
    pub title: String,
    /// When it began: RFC 3339.
    pub started: String,
    /// What was asked for.
    pub settings: Settings,
    /// How long was measured.
    pub seconds: f64,
    /// Requests that ended.
    pub requests: u64,
    /// Operations by what became of them.
    pub operations: Operations,
    /// Operations that succeeded, per second.
    pub operations_per_second: f64,
    /// Latency of requests.
    pub latency: Latency,
    /// How even the seconds are.
    pub evenness: Evenness,
    /// How the generator fared.
    pub generator: Generator,
    /// What a reader must know before using the figures.
    pub warnings: Vec<String>,
    /// What was found at the end, when that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<CheckReport>,
    /// Every second.
    pub windows: Vec<Second>,
}

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Operations per second; `null`: as many as were answered.
    pub rate: Option<f64>,
    pub connections: usize,
    pub threads: usize,
    /// Requests on a connection at once.
    pub depth: usize,
    /// Operations per request.
    pub per_request: usize,
    pub users: u64,
    /// Channels of each.
    pub channels: u64,
    /// Which users, as it was given.
    pub keys: String,
    /// What was sent, as it was given.
    pub mix: String,
    pub seed: u64,
}

/// Operations by what became of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operations {
    /// Changed something.
    pub applied: u64,
    /// Changed nothing.
    pub ignored: u64,
    /// Read something.
    pub reads: u64,
    /// States in what was read.
    pub states_read: u64,
    /// Failed, by why.
    pub failed: BTreeMap<String, u64>,
}

/// Milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    pub mean: f64,
    /// Half of the requests were faster.
    pub p50: f64,
    /// 90 %.
    pub p90: f64,
    /// 99 %.
    pub p99: f64,
    /// 99.9 %.
    pub p999: f64,
    /// 99.99 %.
    pub p9999: f64,
    /// The slowest.
    pub max: f64,
}

/// How even the seconds are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Evenness {
    /// The median over the seconds of their p99.9, in milliseconds.
    pub median_p999: f64,
    /// The largest of them.
    pub worst_p999: f64,
    /// Seconds whose p99.9 is above twice the median.
    pub seconds_above_twice_median: usize,
}

/// How the generator itself fared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Generator {
    /// Milliseconds by which requests left late though a connection was free, 99 % of them at most.
    pub late_p99: f64,
    /// The most.
    pub late_max: f64,
    /// Requests that were due and waited for a free connection.
    pub waited_for_connection: u64,
    /// Connections that were lost or not made.
    pub lost_connections: u64,
    /// Processor seconds of its threads.
    pub processor_seconds: f64,
    /// Which part of the time its busiest thread worked.
    pub busiest_thread: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// Which, from 0.
    pub second: u64,
    /// Requests that were due in it.
    pub requests: u64,
    /// Their operations that succeeded.
    pub succeeded: u64,
    /// Their operations that failed.
    pub failed: u64,
    /// Latency of these requests.
    pub latency: Latency,
    /// The service's metrics at its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<Sample>,
}

impl Latency {
    /// The percentiles of a histogram of nanoseconds.
    #[must_use]
    pub fn of(histogram: &Histogram<u64>) -> Self {
        let millis = |nanos: u64| round(nanos as f64 / 1e6);
        let at = |quantile| millis(histogram.value_at_quantile(quantile));
        Self {
            mean: round(histogram.mean() / 1e6),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            p9999: at(0.9999),
            max: millis(histogram.max()),
        }
    }
}

/// To 0.1 µs: further digits are no measurement.
fn round(millis: f64) -> f64 {
    (millis * 1e4).round() / 1e4
}

impl Second {
    /// The second of a window.
    #[must_use]
    pub fn of(window: &Window) -> Self {
        Self {
            second: window.second,
            requests: window.requests,
            succeeded: window.counts.succeeded(),
            failed: window.counts.failed(),
            latency: Latency::of(&window.latency),
            metrics: None,
        }
    }
}

impl Operations {
    /// The same, in words.
    #[must_use]
    pub fn of(counts: &Counts) -> Self {
        let Counts {
            applied,
            ignored,
            reads,
            states_read,
            failures,
        } = counts;
        let failed = failures
            .iter()
            .map(|(why, count)| (why.to_string(), *count));
        Self {
            applied: *applied,
            ignored: *ignored,
            reads: *reads,
            states_read: *states_read,
            failed: failed.collect(),
        }
    }
}

impl Evenness {
    /// Of all seconds in which something was answered.
    #[must_use]
    pub fn of(seconds: &[Second]) -> Self {
        let answered = seconds.iter().filter(|second| second.requests > 0);
        let mut tails: Vec<f64> = answered.map(|second| second.latency.p999).collect();
        tails.sort_by(f64::total_cmp);
        let median = tails.get(tails.len() / 2).copied().unwrap_or(0.0);
        Self {
            median_p999: median,
            worst_p999: tails.last().copied().unwrap_or(0.0),
            seconds_above_twice_median: tails.iter().filter(|tail| **tail > 2.0 * median).count(),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
