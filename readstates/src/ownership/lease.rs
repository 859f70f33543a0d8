//! The lease of this process: until when it may acknowledge.
//!
//! The holder counts some seconds from when its renewal was *sent*; a member that waits for the lease to
//! run out counts longer, from when it saw the last renewal. Neither looks at the other's clock.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

use rustix::time::{ClockId, clock_gettime};

use crate::clock;

/// The clock by which a lease runs out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LeaseClock {
    /// `CLOCK_BOOTTIME`: goes on while the machine sleeps.
    #[default]
    Boottime,
    /// The clock of the runtime, which a test can pause.
    Runtime,
}

impl LeaseClock {
    /// The time since a moment that stays the same: this one, or the start of the machine.
    pub(super) fn read(self, origin: Instant) -> Duration {
        match self {
            Self::Boottime => {
                let time = clock_gettime(ClockId::Boottime);
                Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
            }
            Self::Runtime => clock::now().saturating_duration_since(origin),
        }
    }
}

/// Nanoseconds by a [`LeaseClock`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Reading(u64);

#[derive(Debug)]
pub(super) struct Lease {
    clock: LeaseClock,
    origin: Instant,
    /// Valid before this reading.
    until: AtomicU64,
    /// It is never valid again.
    over: AtomicBool,
}

impl Lease {
    /// A lease that was never renewed.
    pub(super) fn new(clock: LeaseClock) -> Self {
        Self {
            clock,
            origin: clock::now(),
            until: AtomicU64::new(0),
            over: AtomicBool::new(false),
        }
    }

    pub(super) fn now(&self) -> Reading {
        let since = self.clock.read(self.origin);
        // A machine is up for less than 584 years.
        Reading(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    }

    pub(super) fn is_valid(&self) -> bool {
        self.now().0 < self.until.load(Ordering::Acquire)
    }

    /// A renewal that was sent then has succeeded.
    pub(super) fn extend(&self, sent: Reading, held: Duration) {
        let held = u64::try_from(held.as_nanos()).unwrap_or(u64::MAX);
        let until = sent.0.saturating_add(held);
        self.until.fetch_max(until, Ordering::AcqRel);
        // A renewal that was under way when it was given up changes nothing.
        if self.over.load(Ordering::SeqCst) {
            self.until.store(0, Ordering::Release);
        }
    }

    /// How long it is still valid.
    pub(super) fn left(&self) -> Duration {
        let until = self.until.load(Ordering::Acquire);
        Duration::from_nanos(until.saturating_sub(self.now().0))
    }

    /// Nothing is acknowledged from now on, whatever is renewed.
    pub(super) fn give_up(&self) {
        self.over.store(true, Ordering::SeqCst);
        self.until.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELD: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn a_lease_counts_from_when_its_renewal_was_sent() {
        let lease = Lease::new(LeaseClock::Runtime);
        assert!(!lease.is_valid());
        let sent = lease.now();
        tokio::time::advance(Duration::from_secs(4)).await;
        lease.extend(sent, HELD);
        assert_eq!(lease.left(), Duration::from_secs(6));
        tokio::time::advance(Duration::from_millis(5999)).await;
        assert!(lease.is_valid());
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(!lease.is_valid());
    }

    #[test]
    fn the_machines_clock_goes_forward() {
        let lease = Lease::new(LeaseClock::Boottime);
        let sent = lease.now();
        lease.extend(sent, HELD);
        assert!(lease.is_valid() && lease.now() >= sent);
        lease.give_up();
        assert!(!lease.is_valid());
        lease.extend(sent, HELD);
        assert!(!lease.is_valid(), "it was given up for good");
    }
}
