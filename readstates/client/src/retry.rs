//! When to try again, and how often: pauses and the budget of retries. Pure but for its counter.

use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::Duration,
};

/// Tokens are counted in thousandths.
const TOKEN: i64 = 1000;
/// Pauses double this often at most; far beyond that they are the longest in any case.
const MOST_DOUBLINGS: u32 = 16;

/// What retries may come to over all calls of a client: a reserve that calls refill and retries take
/// from. When every call fails, retries come to a fixed part of the calls.
#[derive(Debug)]
pub(crate) struct Budget {
    tokens: AtomicI64,
    most: i64,
    per_call: i64,
}

impl Budget {
    pub(crate) fn new(reserve: u32, per_call: f64) -> Self {
        let most = i64::from(reserve) * TOKEN;
        Self {
            tokens: AtomicI64::new(most),
            most,
            // A fraction of a token per call; more than the reserve is the reserve.
            per_call: ((per_call * TOKEN as f64) as i64).min(most),
        }
    }

    /// A call begins.
    pub(crate) fn called(&self) {
        let refill =
            |tokens: i64| (tokens < self.most).then(|| (tokens + self.per_call).min(self.most));
        // Refused only when it is full already.
        let _ = self
            .tokens
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, refill);
    }

    /// Takes what one retry costs, if it is there.
    pub(crate) fn retry(&self) -> bool {
        let take = |tokens: i64| (tokens >= TOKEN).then_some(tokens - TOKEN);
        self.tokens
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
            .is_ok()
    }
}

/// How long to wait after `failed` attempts in a row (at least 1): `first` doubled for each further one, up
/// to `longest`, half of it by lot (`lot` in 0..1); never less than what the member asked for, and then up
/// to half longer, so that calls that were refused together do not come back together.
pub(crate) fn pause(
    failed: u32,
    first: Duration,
    longest: Duration,
    retry_after: Option<Duration>,
    lot: f64,
) -> Duration {
    let doublings = failed.saturating_sub(1).min(MOST_DOUBLINGS);
    let full = first.saturating_mul(1 << doublings).min(longest);
    let drawn = full.mul_f64(0.5 + lot / 2.0);
    match retry_after {
        Some(asked) => drawn.max(asked.mul_f64(1.0 + lot / 2.0)),
        None => drawn,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Duration = Duration::from_millis(20);
    const LONGEST: Duration = Duration::from_secs(2);

    #[test]
    fn pauses_double_up_to_the_longest_and_half_of_each_is_drawn() {
        let of = |failed, lot| pause(failed, FIRST, LONGEST, None, lot);
        assert_eq!(of(1, 0.0), FIRST / 2);
        assert_eq!(of(1, 1.0), FIRST);
        assert_eq!(of(4, 1.0), 8 * FIRST);
        assert_eq!(of(60, 1.0), LONGEST);
        assert_eq!(of(60, 0.0), LONGEST / 2);
    }

    #[test]
    fn a_member_that_names_a_time_is_not_asked_before() {
        let second = Duration::from_secs(1);
        let of = |lot| pause(1, FIRST, LONGEST, Some(second), lot);
        assert_eq!(of(0.0), second);
        assert_eq!(of(1.0), second * 3 / 2);
    }

    #[test]
    fn retries_take_the_reserve_and_then_a_part_of_the_calls() {
        let budget = Budget::new(10, 0.2);
        let reserve = (0..100).filter(|_| budget.retry()).count();
        assert_eq!(reserve, 10);
        let earned = (0..100)
            .filter(|_| {
                budget.called();
                budget.retry()
            })
            .count();
        assert_eq!(earned, 20);
        (0..1000).for_each(|_| budget.called());
        assert_eq!(
            (0..100).filter(|_| budget.retry()).count(),
            10,
            "no more than the reserve"
        );
    }
}
