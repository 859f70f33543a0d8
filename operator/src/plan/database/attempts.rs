//! Retry limit and back-off: of joins, of leaves, and of the long jobs of members.

use std::time::Duration;

use jiff::Timestamp;

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

/// Whether the pause after the last of this many attempts, which began then, is not over.
pub(super) fn pauses(attempts: i32, began: Timestamp, now: Timestamp) -> bool {
    now.duration_since(began).unsigned_abs() < pause(attempts)
}

/// What a failed attempt and the next one are told by.
pub(super) fn failed(attempts: i32, error: Option<&str>) -> String {
    let said = error.map(|error| format!(" ({error})")).unwrap_or_default();
    format!(
        "attempt {attempts} failed{said}; the next one is {} s after it",
        pause(attempts).as_secs()
    )
}
