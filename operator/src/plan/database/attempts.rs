//! Retry limit and back-off.

use std::time::Duration;

/// Attempts before a person is told. After them attempts go on, but seldom.
pub(super) const BOUND: i32 = 3;
const SELDOM: Duration = Duration::from_mins(30);
/// The first wait between two attempts; each further one is twice as long.
const BACKOFF: Duration = Duration::from_secs(30);

/// Pause after this many failed attempts.
pub(super) fn pause(attempts: i32) -> Duration {
    match attempts {
        ..=0 => Duration::ZERO,
        n if n < BOUND => BACKOFF * 2_u32.pow(u32::try_from(n - 1).unwrap_or(0)),
        _ => SELDOM,
    }
}
