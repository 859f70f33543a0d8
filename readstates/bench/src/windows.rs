//! Latencies by the second in which requests were *due*.
//!
//! A window is closed when its second is over and every request that was due in it has ended, so that
//! a late answer is booked where the wait began. Requests due before the warm-up is over are not booked.

use std::collections::VecDeque;

use hdrhistogram::Histogram;

use crate::{
    answer::{Answer, Counts},
    schedule::{Nanos, SECOND},
};

/// The longest latency that is told apart, an hour; longer ones count as this.
const LONGEST: u64 = 3600 * SECOND;
/// Latencies are kept to this many nanoseconds, or to three digits where that is coarser.
const FINEST: u64 = 100;

/// A histogram of nanoseconds.
#[must_use]
pub fn histogram() -> Histogram<u64> {
    // Fails only for bounds and digits that make no sense.
    #[expect(clippy::expect_used, reason = "constants that make sense")]
    Histogram::new_with_bounds(FINEST, LONGEST, 3).expect("bounds that make sense")
}

/// One second of a run.
#[derive(Debug, Clone)]
pub struct Window {
    /// Which second after the warm-up, from 0.
    pub second: u64,
    /// Nanoseconds per request that succeeded in part at least, from the time it was due. Of a request
    /// without an answer, the time until it was given up: it would have taken at least that.
    pub latency: Histogram<u64>,
    /// Requests that ended.
    pub requests: u64,
    /// Operations of these requests.
    pub counts: Counts,
}

impl Window {
    /// An empty second.
    #[must_use]
    pub fn new(second: u64) -> Self {
        Self {
            second,
            latency: histogram(),
            requests: 0,
            counts: Counts::default(),
        }
    }

    /// Books a request.
    pub fn add(&mut self, latency: Nanos, answers: &[Answer]) {
        self.requests += 1;
        for answer in answers {
            self.counts.add(*answer);
        }
        let refused = |answer: &Answer| matches!(answer, Answer::Failed(why) if why.answered());
        if !answers.iter().all(refused) {
            self.latency.saturating_record(latency);
        }
    }

    /// Books what another thread has booked for the same second.
    pub fn merge(&mut self, other: &Self) {
        // Of equal bounds, always.
        let _ = self.latency.add(&other.latency);
        self.requests += other.requests;
        self.counts.merge(&other.counts);
    }
}

/// The seconds of one thread.
#[derive(Debug)]
pub struct Windows {
    warmup: Nanos,
    open: VecDeque<Open>,
    /// The second of the first open window.
    first: u64,
}

#[derive(Debug)]
struct Open {
    window: Window,
    in_flight: u64,
}

impl Windows {
    /// Nothing booked; what is due in the first `warmup` nanoseconds never is.
    #[must_use]
    pub fn new(warmup: Nanos) -> Self {
        Self {
            warmup,
            open: VecDeque::new(),
            first: 0,
        }
    }

    /// A request that was due at `due` was sent. Requests begin in the order of these times.
    pub fn begin(&mut self, due: Nanos) {
        if let Some(open) = self.at(due) {
            open.in_flight += 1;
        }
    }

    /// A request that had begun has ended.
    pub fn end(&mut self, due: Nanos, latency: Nanos, answers: &[Answer]) {
        if let Some(open) = self.at(due) {
            open.in_flight -= 1;
            open.window.add(latency, answers);
        }
    }

    /// Hands out the windows that are complete when nothing more is due before `until`.
    pub fn close(&mut self, until: Nanos) -> Vec<Window> {
        self.reach(until);
        let mut closed = Vec::new();
        while let Some(front) = self.open.front() {
            let end = self.warmup + (self.first + 1) * SECOND;
            if front.in_flight > 0 || end > until {
                break;
            }
            self.first += 1;
            closed.extend(self.open.pop_front().map(|open| open.window));
        }
        closed
    }

    /// Hands out what is left at the end of a run, when every request has ended. The last window may be
    /// shorter than a second.
    pub fn finish(mut self, end: Nanos) -> Vec<Window> {
        self.reach(end);
        self.open.into_iter().map(|open| open.window).collect()
    }

    /// Opens every window that begins before `until`: seconds without a request are windows too.
    fn reach(&mut self, until: Nanos) {
        if let Some(last) = until.checked_sub(1) {
            self.at(last);
        }
    }

    fn at(&mut self, due: Nanos) -> Option<&mut Open> {
        let second = due.checked_sub(self.warmup)? / SECOND;
        while self.first + self.open.len() as u64 <= second {
            let window = Window::new(self.first + self.open.len() as u64);
            self.open.push_back(Open {
                window,
                in_flight: 0,
            });
        }
        let index = second.checked_sub(self.first)?;
        self.open.get_mut(usize::try_from(index).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::Failure;

    const HALF: Nanos = SECOND / 2;

    #[test]
    fn a_late_answer_is_booked_in_the_second_in_which_its_request_was_due() {
        let mut windows = Windows::new(0);
        windows.begin(HALF);
        windows.begin(SECOND + HALF);
        windows.end(SECOND + HALF, 1000, &[Answer::Applied]);
        assert!(
            windows.close(3 * SECOND).is_empty(),
            "the first is not complete"
        );
        windows.end(HALF, 3 * SECOND, &[Answer::Applied]);
        let closed = windows.close(3 * SECOND);
        let slowest: Vec<u64> = closed
            .iter()
            .map(|window| window.latency.max() / SECOND)
            .collect();
        assert_eq!(slowest, [3, 0, 0]);
        assert_eq!(closed.iter().map(|window| window.requests).sum::<u64>(), 2);
    }

    #[test]
    fn warm_up_is_not_booked() {
        let mut windows = Windows::new(2 * SECOND);
        windows.begin(HALF);
        windows.end(HALF, 7, &[Answer::Applied]);
        windows.begin(2 * SECOND);
        windows.end(2 * SECOND, 7, &[Answer::Applied]);
        let closed = windows.close(3 * SECOND);
        assert_eq!(closed.len(), 1);
        assert_eq!((closed[0].second, closed[0].requests), (0, 1));
        // Two and a half seconds after the warm-up: the last window is half a second.
        assert_eq!(windows.finish(4 * SECOND + HALF).len(), 2);
    }

    #[test]
    fn a_refusal_is_counted_but_its_speed_does_not_flatter_the_latency() {
        let mut window = Window::new(0);
        window.add(10, &[Answer::Failed(Failure::Status(503))]);
        window.add(SECOND, &[Answer::Failed(Failure::Timeout)]);
        window.add(
            SECOND,
            &[Answer::Applied, Answer::Failed(Failure::NotTaken)],
        );
        assert_eq!((window.requests, window.latency.len()), (3, 2));
        assert!(window.latency.min() > SECOND / 2);
        assert_eq!((window.counts.succeeded(), window.counts.failed()), (1, 3));
    }
}
