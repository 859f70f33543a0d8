//! The time by which everything here is due.

use std::time::Instant;

/// Unix time in microseconds: what epochs are minted from.
#[must_use]
pub fn unix_micros() -> i64 {
    jiff::Timestamp::now().as_microsecond()
}

/// Now, by the clock of the runtime: a test that pauses that clock pauses all of the service.
#[must_use]
pub fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
