//! When the next rows may be sent, so that no more are sent in a second than may be. Pure.

use std::{num::NonZeroU32, time::Duration};

use tokio::time::Instant;

/// Spreads rows over time.
#[derive(Debug)]
pub(super) struct Pace {
    rate: Option<NonZeroU32>,
    free: Instant,
}

impl Pace {
    /// `None`: as fast as can be.
    pub(super) fn new(rate: Option<NonZeroU32>, now: Instant) -> Self {
        Self { rate, free: now }
    }

    /// Takes the turn of so many rows: when they may be sent.
    pub(super) fn turn(&mut self, rows: usize, now: Instant) -> Instant {
        let Some(rate) = self.rate else {
            return now;
        };
        // What was not used is not made up for later: the service is to see no burst.
        let turn = self.free.max(now);
        let rows = u32::try_from(rows).unwrap_or(u32::MAX);
        self.free = turn + Duration::from_secs_f64(f64::from(rows) / f64::from(rate.get()));
        turn
    }

    /// As many rows as make a window of at most a second.
    pub(super) fn window(&self, most: u32) -> usize {
        let rows = self.rate.map_or(most, |rate| rate.get().min(most));
        usize::try_from(rows).unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_take_their_time_and_an_idle_second_is_not_made_up_for() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let mut pace = Pace::new(NonZeroU32::new(100), start);
        assert_eq!(pace.turn(50, start), start);
        assert_eq!(pace.turn(100, start), start + second / 2);
        assert_eq!(pace.turn(1, start + second), start + second * 3 / 2);
        assert_eq!(pace.turn(100, start + 9 * second), start + 9 * second);
        assert_eq!(pace.turn(1, start + 9 * second), start + 10 * second);
        assert_eq!((pace.window(8192), pace.window(10)), (100, 10));
    }

    #[test]
    fn without_a_rate_nothing_waits() {
        let start = Instant::now();
        let mut pace = Pace::new(None, start);
        assert_eq!(pace.turn(1_000_000, start), start);
        assert_eq!(pace.turn(1, start), start);
        assert_eq!(pace.window(8192), 8192);
    }
}
