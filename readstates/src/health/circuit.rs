//! Circuit breaker of the database: one that is away is asked by one probe at a time, not by every
//! request.
//!
//! Pure: the clock and the dice are arguments.
//!
//! ```text
//!            MOST_FAILURES one after the other           probe failed: a longer wait
//!  Closed ───────────────────────────────────▶ Open ◀──────────────────────────┐
//!    ▲                                          │ the wait is over, one asks    │
//!    └─────────── anything succeeded ───────────┴──────────────▶ Probing ───────┘
//! ```

use std::time::{Duration, Instant};

/// Failures one after the other that say that the database is away: more than a node that restarts
/// or a block that cannot be written causes, fewer than a storm.
const MOST_FAILURES: u32 = 16;
/// The first wait for a probe, doubled with each that fails up to the last; each is shortened by up to
/// a half at random, so that members do not probe in step.
const FIRST_WAIT: Duration = Duration::from_millis(250);
const LAST_WAIT: Duration = Duration::from_secs(5);
/// A probe that has not ended by then is given up: above every time limit of a store.
const PROBE_PATIENCE: Duration = Duration::from_secs(10);

/// One way to the database: its loads, or its writes.
#[derive(Debug)]
pub struct Circuit {
    state: CircuitState,
    last_failure: Option<Instant>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CircuitState {
    /// Every request is let through; `failures` since the last success.
    Closed { failures: u32 },
    /// No request is let through before `until`; then one probe.
    Open { until: Instant, waited: Duration },
    /// One probe is under way, until `until` at most.
    Probing { until: Instant, waited: Duration },
}

/// Whether to ask now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// As many as the limits allow.
    All,
    /// One, to see whether the database is back.
    One,
    /// None.
    None,
}

impl Default for Circuit {
    fn default() -> Self {
        Self {
            state: CircuitState::Closed { failures: 0 },
            last_failure: None,
        }
    }
}

impl Circuit {
    /// How many requests may go to the database at `now`.
    #[must_use]
    pub fn admits(&self, now: Instant) -> Admission {
        match self.state {
            CircuitState::Closed { .. } => Admission::All,
            CircuitState::Open { until, .. } | CircuitState::Probing { until, .. }
                if now >= until =>
            {
                Admission::One
            }
            CircuitState::Open { .. } | CircuitState::Probing { .. } => Admission::None,
        }
    }

    /// Lets a request through at `now`, or not. One that was let through must end in [`Circuit::ended`].
    pub fn enter(&mut self, now: Instant) -> bool {
        match (self.admits(now), self.state) {
            (Admission::All, _) => true,
            (Admission::None, _) | (Admission::One, CircuitState::Closed { .. }) => false,
            (
                Admission::One,
                CircuitState::Open { waited, .. } | CircuitState::Probing { waited, .. },
            ) => {
                let until = now + PROBE_PATIENCE;
                self.state = CircuitState::Probing { until, waited };
                true
            }
        }
    }

    /// Books the end of a request that was let through; `dice` is from 0 to 1.
    pub fn ended(&mut self, succeeded: bool, now: Instant, dice: f64) {
        if succeeded {
            self.state = CircuitState::Closed { failures: 0 };
            return;
        }
        self.last_failure = Some(now);
        let open = |waited: Duration| {
            let shortened = waited.mul_f64(1.0 - dice.clamp(0.0, 1.0) / 2.0);
            let until = now + shortened;
            CircuitState::Open { until, waited }
        };
        self.state = match self.state {
            CircuitState::Closed { failures } if failures + 1 < MOST_FAILURES => {
                CircuitState::Closed {
                    failures: failures + 1,
                }
            }
            CircuitState::Closed { .. } => open(FIRST_WAIT),
            CircuitState::Probing { waited, .. } => open((waited * 2).min(LAST_WAIT)),
            // It was let through before the circuit opened: tells nothing new.
            CircuitState::Open { .. } => self.state,
        };
    }

    /// Lets a probe through now, for a caller that waits for the database.
    pub fn probe_now(&mut self, now: Instant) {
        if let CircuitState::Open { until, waited } = self.state {
            let until = until.min(now);
            self.state = CircuitState::Open { until, waited };
        }
    }

    /// Whether the database is away as far as is known.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !matches!(self.state, CircuitState::Closed { .. })
    }

    /// Whether the database is away, and was found so at `since` or later.
    #[must_use]
    pub fn is_open_since(&self, since: Instant) -> bool {
        self.is_open() && self.last_failure.is_some_and(|last| last >= since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(now: Instant) -> Circuit {
        let mut circuit = Circuit::default();
        for _ in 0..MOST_FAILURES {
            assert!(circuit.enter(now));
            circuit.ended(false, now, 0.0);
        }
        circuit
    }

    #[test]
    fn failures_amid_successes_stop_nobody() {
        let (mut circuit, now) = (Circuit::default(), Instant::now());
        for attempt in 0..1000 {
            assert!(circuit.enter(now));
            circuit.ended(attempt % MOST_FAILURES == 0, now, 0.0);
        }
        assert!(!circuit.is_open());
    }

    #[test]
    fn a_dead_database_is_asked_ever_more_rarely_and_by_one_at_a_time() {
        let start = Instant::now();
        let mut circuit = opened(start);
        let (mut probes, mut now) = (Vec::new(), start);
        while now < start + Duration::from_secs(600) {
            if circuit.enter(now) {
                assert!(!circuit.enter(now), "one at a time");
                probes.push(now);
                circuit.ended(false, now, 0.0);
            }
            now += Duration::from_millis(50);
        }
        assert_eq!(probes[0] - start, FIRST_WAIT);
        assert_eq!(probes[1] - probes[0], FIRST_WAIT * 2);
        assert!(
            (120..=125).contains(&probes.len()),
            "{} in ten minutes",
            probes.len()
        );
    }

    #[test]
    fn the_first_success_lets_everybody_in_and_forgets_the_failures() {
        let start = Instant::now();
        let mut circuit = opened(start);
        let later = start + FIRST_WAIT;
        assert!(circuit.enter(later));
        circuit.ended(true, later, 0.0);
        assert_eq!(circuit.admits(later), Admission::All);
        circuit.ended(false, later, 0.0);
        assert!(!circuit.is_open());
    }

    #[test]
    fn the_dice_shorten_a_wait_by_a_half_at_most() {
        let start = Instant::now();
        for (dice, wait) in [(0.0, FIRST_WAIT), (1.0, FIRST_WAIT / 2)] {
            let mut circuit = Circuit::default();
            for _ in 0..MOST_FAILURES {
                circuit.ended(false, start, dice);
            }
            assert_eq!(
                circuit.admits(start + wait - Duration::from_millis(1)),
                Admission::None
            );
            assert_eq!(circuit.admits(start + wait), Admission::One);
        }
    }

    #[test]
    fn a_probe_that_never_ends_is_followed_by_another() {
        let start = Instant::now();
        let mut circuit = opened(start);
        assert!(circuit.enter(start + FIRST_WAIT));
        assert!(!circuit.enter(start + FIRST_WAIT + PROBE_PATIENCE / 2));
        assert!(circuit.enter(start + FIRST_WAIT + PROBE_PATIENCE));
    }

    #[test]
    fn who_waits_for_the_database_may_probe_at_once() {
        let start = Instant::now();
        let mut circuit = opened(start);
        assert_eq!(circuit.admits(start), Admission::None);
        circuit.probe_now(start);
        assert!(circuit.enter(start));
        circuit.probe_now(start);
        assert!(!circuit.enter(start), "one is under way");
        circuit.ended(false, start + FIRST_WAIT, 0.0);
        assert!(circuit.is_open_since(start + FIRST_WAIT));
        assert!(!circuit.is_open_since(start + FIRST_WAIT * 2));
    }
}
