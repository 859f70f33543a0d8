//! When each request is to be sent: decided before the run, whatever the service does.
//!
//! Comes in: the pace, and which of how many threads asks. Goes out: for the n-th request of the thread
//! the nanosecond, counted from the start, at which it is due. A request that cannot be sent then keeps
//! its time, and its latency counts from there: an answer that is late cannot thin out the load or
//! hide the wait of those behind it (coordinated omission).

/// Nanoseconds since the start of a run.
pub type Nanos = u64;

/// Nanoseconds of a second.
pub const SECOND: Nanos = 1_000_000_000;

/// How requests follow each other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// This many requests per second over all threads, evenly spaced (open loop).
    Rate(f64),
    /// The next one when an answer has come (closed loop): for capacity, not for latency.
    Saturate,
}

/// What a thread may send at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// A request that was or is due at this time.
    Due(Nanos),
    /// Nothing before this time.
    At(Nanos),
    /// Nothing any more.
    Over,
}

/// The arrivals of one thread.
#[derive(Debug, Clone)]
pub struct Schedule {
    pace: Pace,
    end: Nanos,
    thread: u64,
    threads: u64,
    taken: u64,
}

impl Schedule {
    /// The arrivals of thread `thread` of `threads`, until `end`.
    #[must_use]
    pub fn new(pace: Pace, end: Nanos, thread: u64, threads: u64) -> Self {
        Self {
            pace,
            end,
            thread,
            threads,
            taken: 0,
        }
    }

    /// What may be sent now.
    #[must_use]
    pub fn next(&self, now: Nanos) -> Next {
        let at = match self.pace {
            // Exact to the nanosecond for 100 days: a float holds integers up to 2^53.
            Pace::Rate(rate) => {
                let arrivals_before = (self.taken * self.threads + self.thread) as f64;
                (arrivals_before * SECOND as f64 / rate) as Nanos
            }
            Pace::Saturate => now,
        };
        match at {
            at if at >= self.end => Next::Over,
            at if at <= now => Next::Due(at),
            at => Next::At(at),
        }
    }

    /// Books the request that [`Schedule::next`] named as sent.
    pub fn take(&mut self) {
        self.taken += 1;
    }

    /// Whether requests are due at times of their own.
    #[must_use]
    pub fn is_planned(&self) -> bool {
        match self.pace {
            Pace::Rate(_) => true,
            Pace::Saturate => false,
        }
    }

    /// When the last request may be due.
    #[must_use]
    pub fn end(&self) -> Nanos {
        self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When the requests of one thread are due, however late it asks.
    fn arrivals(schedule: &mut Schedule, now: Nanos) -> Vec<Nanos> {
        let mut times = Vec::new();
        while let Next::Due(at) = schedule.next(now) {
            times.push(at);
            schedule.take();
        }
        times
    }

    #[test]
    fn a_stall_does_not_move_the_times_at_which_requests_were_due() {
        let mut schedule = Schedule::new(Pace::Rate(10.0), SECOND, 0, 1);
        assert_eq!(schedule.next(0), Next::Due(0));
        schedule.take();
        assert_eq!(schedule.next(50_000_000), Next::At(100_000_000));
        // No call for half a second: five requests are due, each at its own time.
        let missed = arrivals(&mut schedule, 500_000_000);
        let planned: Vec<Nanos> = (1..=5).map(|n| n * 100_000_000).collect();
        assert_eq!(missed, planned);
    }

    #[test]
    fn threads_share_the_rate_and_miss_or_double_no_arrival() {
        let mut shared: Vec<Nanos> = (0..3)
            .flat_map(|thread| {
                arrivals(
                    &mut Schedule::new(Pace::Rate(700.0), SECOND, thread, 3),
                    SECOND,
                )
            })
            .collect();
        shared.sort_unstable();
        let alone = arrivals(&mut Schedule::new(Pace::Rate(700.0), SECOND, 0, 1), SECOND);
        assert_eq!(alone.len(), 700);
        assert_eq!(shared, alone);
    }

    #[test]
    fn a_saturating_thread_sends_at_once_until_the_end() {
        let schedule = Schedule::new(Pace::Saturate, 5, 0, 1);
        assert_eq!(schedule.next(3), Next::Due(3));
        assert_eq!(schedule.next(5), Next::Over);
    }
}
