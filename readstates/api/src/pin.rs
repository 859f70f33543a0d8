//! Times of pins as numbers, which binary forms have.

use jiff::Timestamp;

/// The pin at these Unix milliseconds, none for 0; `None` outside of the calendar.
pub(crate) fn at_millis(millis: u64) -> Option<Option<Timestamp>> {
    if millis == 0 {
        return Some(None);
    }
    let seconds = i64::try_from(millis / 1000).ok()?;
    // Below a second. (`Timestamp::from_millisecond` does not take the last one of the calendar.)
    let nanoseconds = (millis % 1000) as i32 * 1_000_000;
    Timestamp::new(seconds, nanoseconds).ok().map(Some)
}

/// There are no pins before 1970.
pub(crate) fn millis(pin: Timestamp) -> u64 {
    u64::try_from(pin.as_millisecond()).unwrap_or(0)
}
