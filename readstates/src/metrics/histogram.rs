//! Numbers that many threads keep: counters, gauges, and histograms of durations.
//!
//! A histogram has four buckets per power of two, from one microsecond to 33 seconds, so a quantile
//! read from it is at most a quarter off. It never grows, whether somebody reads it or not, and a
//! recording is two additions.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// Four buckets for each power of two below 2^25 microseconds; the first four are one microsecond
/// wide each.
const BUCKETS: usize = 4 * 24;

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

/// A number that is what it is now.
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
#[derive(Debug)]
pub struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    /// Those above the last bucket.
    longer: AtomicU64,
    nanos: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            buckets: std::array::from_fn(|_| AtomicU64::new(0)),
            longer: AtomicU64::new(0),
            nanos: AtomicU64::new(0),
        }
    }
}

impl Histogram {
    /// Books one duration.
    pub fn record(&self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let bucket = self.buckets.get(index(nanos / 1000));
        bucket
            .unwrap_or(&self.longer)
            .fetch_add(1, Ordering::Relaxed);
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    /// Books a size: a histogram has either durations or sizes. Up to 32 MiB, in as many bytes as it
    /// has microseconds otherwise.
    pub fn record_bytes(&self, bytes: usize) {
        self.record(Duration::from_micros(bytes as u64));
    }

    /// (Upper bound in seconds, how many were below it), for each bucket; then how many there were in
    /// all, and their sum in seconds.
    pub(super) fn read(&self) -> (Vec<(f64, u64)>, u64, f64) {
        let mut below = 0;
        let bound = |index| upper_bound(index) as f64 / 1e6;
        let buckets: Vec<_> = self
            .buckets
            .iter()
            .enumerate()
            .map(|(index, bucket)| {
                below += bucket.load(Ordering::Relaxed);
                (bound(index), below)
            })
            .collect();
        let all = below + self.longer.load(Ordering::Relaxed);
        (
            buckets,
            all,
            self.nanos.load(Ordering::Relaxed) as f64 / 1e9,
        )
    }

    /// Whether nothing was booked yet.
    pub(super) fn is_empty(&self) -> bool {
        let of = |bucket: &AtomicU64| bucket.load(Ordering::Relaxed);
        self.buckets.iter().all(|bucket| of(bucket) == 0) && of(&self.longer) == 0
    }
}

/// The bucket of a duration in microseconds; beyond the last for what is too long.
fn index(micros: u64) -> usize {
    if micros < 4 {
        return micros as usize;
    }
    // At least 2.
    let power = micros.ilog2();
    // The two bits after the first.
    let quarter = (micros >> (power - 2)) & 3;
    4 * (power as usize - 1) + quarter as usize
}

/// The first microsecond that is not in the bucket any more.
fn upper_bound(index: usize) -> u64 {
    let next = index as u64 + 1;
    if next < 4 {
        return next;
    }
    let power = next / 4 + 1;
    (4 + next % 4) << (power - 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_duration_is_in_the_bucket_whose_bounds_hold_it() {
        let mut lower = 0;
        for bucket in 0..BUCKETS {
            let upper = upper_bound(bucket);
            assert!(
                upper > lower && (upper - lower) * 4 <= lower.max(4),
                "{lower}..{upper}"
            );
            for micros in [lower, (lower + upper) / 2, upper - 1] {
                assert_eq!(index(micros), bucket, "{micros} µs");
            }
            lower = upper;
        }
        assert_eq!(lower, 1 << 25);
        assert_eq!(index(lower), BUCKETS);
        assert!(index(u64::MAX) >= BUCKETS);
    }

    #[test]
    fn what_was_recorded_is_read_as_sums_up_to_each_bound() {
        let histogram = Histogram::default();
        assert!(histogram.is_empty());
        for micros in [0, 1, 100, 100, 60_000_000] {
            histogram.record(Duration::from_micros(micros));
        }
        let (buckets, all, sum) = histogram.read();
        let below = |seconds: f64| buckets.iter().find(|bucket| bucket.0 >= seconds).unwrap().1;
        assert_eq!(below(0.000_001), 1);
        assert_eq!(below(0.000_002), 2);
        assert_eq!(below(0.000_05), 2);
        assert_eq!(below(0.000_112), 4);
        assert_eq!(buckets.last().unwrap().1, 4);
        assert_eq!(all, 5);
        assert!((sum - 60.000_201).abs() < 1e-9, "{sum}");
        assert!(!histogram.is_empty());
    }
}
