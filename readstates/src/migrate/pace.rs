//! How fast the source is read: at most as fast as asked, and slower while the source's own clients would feel it.
//!
//! A single user is read twenty times a second, as a member would, and once a second the rate follows from what that
//! took: halved when the source has become slow, raised a little when it has not. What is usual was measured in the
//! first second, at a low rate, and goes down with what is measured later, never up: a source that its clients keep
//! busy is read slowly, too.

use std::{
    num::NonZeroU32,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use crate::store::Store;

/// Rows a second, to begin with.
const FIRST_RATE: f64 = 1000.0;
/// However slow the source is: the work must end one day.
const LEAST_RATE: f64 = 50.0;
const PROBE_EVERY: Duration = Duration::from_millis(50);
/// Probes that are judged together.
const PROBES: usize = 20;
/// Below this a difference is noise.
const SLACK: Duration = Duration::from_millis(1);

/// The rate at which rows are read.
#[derive(Debug)]
pub(super) struct Pace {
    /// Rows a second, as the bits of a float.
    rate: AtomicU64,
    /// When the next rows may be worked on.
    next: Mutex<Instant>,
    /// Rows that were let through.
    admitted: AtomicU64,
    /// A user that was read lately.
    user: AtomicU64,
}

impl Pace {
    /// At most so many rows a second.
    pub(super) fn new(most: Option<NonZeroU32>, governed: bool) -> Self {
        let most = most.map_or(f64::INFINITY, |most| f64::from(most.get()));
        let rate = if governed { most.min(FIRST_RATE) } else { most };
        Self {
            rate: AtomicU64::new(rate.to_bits()),
            next: Mutex::new(Instant::now()),
            admitted: AtomicU64::new(0),
            user: AtomicU64::new(0),
        }
    }

    fn rate(&self) -> f64 {
        f64::from_bits(self.rate.load(Ordering::Relaxed))
    }

    /// Waits until these rows may be worked on.
    pub(super) async fn admit(&self, rows: usize, user: u64) {
        let takes = Duration::from_secs_f64(rows as f64 / self.rate());
        let at = {
            let mut next = self.next.lock();
            let at = (*next).max(Instant::now());
            *next = at + takes;
            at
        };
        self.user.store(user, Ordering::Relaxed);
        self.admitted.fetch_add(rows as u64, Ordering::Relaxed);
        sleep_until(at).await;
    }

    /// Follows the source, for ever.
    pub(super) async fn govern(
        &self,
        source: &dyn Store,
        most: Option<NonZeroU32>,
        back_off_at: f64,
    ) -> std::convert::Infallible {
        let mut governor = Governor::new(most, back_off_at);
        let mut ticker = interval(PROBE_EVERY);
        ticker.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut before = 0;
        loop {
            let begun = Instant::now();
            let mut probes = Vec::with_capacity(PROBES);
            while probes.len() < PROBES {
                ticker.tick().await;
                let asked = Instant::now();
                let loaded = source.load(self.user.load(Ordering::Relaxed)).await;
                probes.push(loaded.ok().map(|_| asked.elapsed()));
            }
            let admitted = self.admitted.load(Ordering::Relaxed);
            let reached = (admitted - before) as f64 / begun.elapsed().as_secs_f64().max(0.001);
            before = admitted;
            let was_slow = governor.is_slow;
            let rate = governor.judge(&mut probes, reached);
            if governor.is_slow && !was_slow {
                tracing::info!(
                    rate,
                    "the source has become slow: rows are read more slowly"
                );
            }
            self.rate.store(rate.to_bits(), Ordering::Relaxed);
        }
    }
}

/// Decides the rate from what single reads took. Pure.
#[derive(Debug)]
struct Governor {
    rate: f64,
    most: f64,
    back_off_at: f64,
    /// What a read takes while little is copied.
    usual: Option<Duration>,
    /// It has been slow before: the rate is raised carefully.
    careful: bool,
    is_slow: bool,
}

impl Governor {
    fn new(most: Option<NonZeroU32>, back_off_at: f64) -> Self {
        let most = most.map_or(f64::INFINITY, |most| f64::from(most.get()));
        Self {
            rate: most.min(FIRST_RATE),
            most,
            back_off_at,
            usual: None,
            careful: false,
            is_slow: false,
        }
    }

    /// The rate from now on. A probe is `None` when it failed; `reached` is the rate that there really was.
    fn judge(&mut self, probes: &mut [Option<Duration>], reached: f64) -> f64 {
        // Failed ones last.
        probes.sort_unstable_by_key(|probe| probe.unwrap_or(Duration::MAX));
        let at = |part: usize| probes.get(probes.len() * part / 20).copied().flatten();
        // The median, and the time of which one in ten is above: the median of a database that stalls now and then does
        // not show it.
        let (median, tail) = (at(10), at(18));
        let limit = |usual: Duration| usual.mul_f64(self.back_off_at) + SLACK;
        self.is_slow = match (self.usual, median, tail) {
            (_, None, _) | (_, _, None) => true,
            (None, Some(_), Some(_)) => false,
            (Some(usual), Some(median), Some(tail)) => {
                median > limit(usual) || tail > limit(usual).mul_f64(3.0)
            }
        };
        self.usual = match (self.usual, median) {
            (Some(usual), Some(median)) => Some(usual.min(median)),
            (usual, median) => usual.or(median),
        };
        self.careful |= self.is_slow;
        let factor = match (self.is_slow, self.careful) {
            (true, _) => 0.5,
            (false, true) => 1.1,
            (false, false) => 2.0,
        };
        // Where something else holds the work back, the rate does not run away: it has to be halved from there one day.
        let ceiling = (reached * 4.0).max(FIRST_RATE);
        self.rate = (self.rate * factor)
            .min(ceiling)
            .max(LEAST_RATE)
            .min(self.most);
        self.rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probes(micros: &[u64]) -> Vec<Option<Duration>> {
        let cycle = micros.iter().cycle().take(PROBES);
        cycle
            .map(|&micros| Some(Duration::from_micros(micros)))
            .collect()
    }

    #[test]
    fn a_source_that_becomes_slow_is_read_more_slowly_and_then_carefully_faster() {
        let mut governor = Governor::new(None, 2.0);
        let mut rate = 0.0;
        for _ in 0..6 {
            rate = governor.judge(&mut probes(&[2000]), f64::MAX);
        }
        assert_eq!(rate, 64_000.0, "doubled while nothing is felt");
        for _ in 0..3 {
            rate = governor.judge(&mut probes(&[7000]), f64::MAX);
        }
        assert_eq!(rate, 8000.0, "halved while it is slow");
        rate = governor.judge(&mut probes(&[2000]), f64::MAX);
        assert!((8799.0..8801.0).contains(&rate), "{rate}");
        // It may take all night.
        for _ in 0..100 {
            rate = governor.judge(&mut probes(&[9000]), f64::MAX);
        }
        assert_eq!(rate, LEAST_RATE);
    }

    #[test]
    fn reads_that_fail_or_stall_now_and_then_count_as_slow() {
        let mut governor = Governor::new(None, 2.0);
        governor.judge(&mut probes(&[2000]), f64::MAX);
        let mut failing = probes(&[2000]);
        for probe in &mut failing[..3] {
            *probe = None;
        }
        let before = governor.rate;
        assert_eq!(governor.judge(&mut failing, f64::MAX), before / 2.0);
        let stalls = [vec![2000; 8], vec![80_000; 2]].concat();
        assert_eq!(governor.judge(&mut probes(&stalls), f64::MAX), before / 4.0);
    }

    #[test]
    fn a_rate_that_was_given_is_never_exceeded_and_one_that_is_not_reached_does_not_grow() {
        let mut governor = Governor::new(NonZeroU32::new(3000), 2.0);
        for _ in 0..6 {
            assert!(governor.judge(&mut probes(&[100]), 3000.0) <= 3000.0);
        }
        let mut governor = Governor::new(NonZeroU32::new(10), 2.0);
        assert_eq!(governor.judge(&mut probes(&[100]), 10.0), 10.0);
        let mut governor = Governor::new(None, 2.0);
        for _ in 0..20 {
            governor.judge(&mut probes(&[100]), 5000.0);
        }
        assert_eq!(governor.rate, 20_000.0);
    }

    #[tokio::test(start_paused = true)]
    async fn rows_are_let_through_at_the_rate() {
        let pace = Pace::new(NonZeroU32::new(1000), false);
        let begun = Instant::now();
        for user in 0..11 {
            pace.admit(100, user).await;
        }
        assert_eq!(begun.elapsed().as_millis(), 1000);
        let unlimited = Pace::new(None, false);
        let begun = Instant::now();
        unlimited.admit(1 << 40, 1).await;
        unlimited.admit(1, 1).await;
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }
}
