//! Numbers that many threads keep: counters, gauges, and histograms of durations.
//!
//! A histogram has three buckets per power of ten, from ten microseconds to ten seconds, and one up to thirty: the cost
//! of a scrape grows with the buckets, and objectives (5 ms, 100 ms) are among their bounds. It never grows, read or
//! not, and a recording is two additions.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// Upper bounds, in microseconds. Those of sizes are as many bytes.
const BOUNDS: [u64; 20] = [
    10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000,
    500_000, 1_000_000, 2_000_000, 5_000_000, 10_000_000, 30_000_000,
];

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Counts up.
    pub fn increment(&self, by: u64) {
        self.0.fetch_add(by, Ordering::Relaxed);
    }

    /// How much it is.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A number that goes up and down.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    /// Makes it this.
    pub fn set(&self, value: f64) {
        self.0.store(value.to_bits(), Ordering::Relaxed);
    }

    /// What it is.
    #[must_use]
    pub fn get(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }
}

/// How long something took, how often.
#[derive(Debug, Default)]
pub struct Histogram {
    /// By [`BOUNDS`].
    buckets: [AtomicU64; BOUNDS.len()],
    /// Those above the last bound.
    longer: AtomicU64,
    nanos: AtomicU64,
}

/// What a histogram holds, at about one moment.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reading {
    /// Upper bound in seconds, and how many were not above it.
    pub(crate) buckets: [(f64, u64); BOUNDS.len()],
    /// How many there were in all.
    pub(crate) count: u64,
    /// Of all of them, in seconds.
    pub(crate) sum: f64,
}

impl Histogram {
    /// Books one duration.
    pub fn record(&self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let bucket = self.buckets.get(index(nanos));
        bucket
            .unwrap_or(&self.longer)
            .fetch_add(1, Ordering::Relaxed);
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    /// Books a size: a histogram has either durations or sizes. Up to 30 MB, in as many bytes as it has microseconds
    /// otherwise.
    pub fn record_bytes(&self, bytes: usize) {
        self.record(Duration::from_micros(bytes as u64));
    }

    pub(crate) fn read(&self) -> Reading {
        let mut below = 0;
        let buckets = std::array::from_fn(|index| {
            below += self.buckets[index].load(Ordering::Relaxed);
            (BOUNDS[index] as f64 / 1e6, below)
        });
        Reading {
            buckets,
            count: below + self.longer.load(Ordering::Relaxed),
            sum: self.nanos.load(Ordering::Relaxed) as f64 / 1e9,
        }
    }
}

/// The bucket of a duration; beyond the last for what is too long. A bound belongs to the bucket below it.
fn index(nanos: u64) -> usize {
    BOUNDS.partition_point(|bound| bound * 1000 < nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_duration_is_in_the_bucket_whose_bounds_hold_it() {
        let mut lower = 0;
        for (bucket, upper) in BOUNDS.into_iter().enumerate() {
            assert!(upper > lower && upper <= (lower * 3).max(10), "{upper}");
            for nanos in [lower * 1000 + 1, (lower + upper) * 500, upper * 1000] {
                assert_eq!(index(nanos), bucket, "{nanos} ns");
            }
            lower = upper;
        }
        assert_eq!(index(0), 0);
        assert_eq!(index(lower * 1000 + 1), BOUNDS.len());
        assert_eq!(index(u64::MAX), BOUNDS.len());
    }

    #[test]
    fn what_was_recorded_is_read_as_sums_up_to_each_bound() {
        let histogram = Histogram::default();
        for micros in [0, 10, 11, 100, 60_000_000] {
            histogram.record(Duration::from_micros(micros));
        }
        let Reading {
            buckets,
            count,
            sum,
        } = histogram.read();
        let below = |seconds: f64| buckets.iter().find(|bucket| bucket.0 >= seconds).unwrap().1;
        assert_eq!(below(0.000_010), 2);
        assert_eq!(below(0.000_020), 3);
        assert_eq!(below(0.000_050), 3);
        assert_eq!(below(0.000_100), 4);
        assert_eq!(buckets.last().unwrap(), &(30.0, 4));
        assert_eq!(count, 5);
        assert!((sum - 60.000_121).abs() < 1e-9, "{sum}");
    }
}
