//! The time by which everything here is due.

use std::time::Instant;

/// The clock that epochs are minted from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum UnixClock {
    /// The system's.
    #[default]
    System,
    /// The clock of the runtime, which a test can pause: it showed so many microseconds of Unix time at
    /// that moment.
    Runtime {
        /// The moment.
        at: Instant,
        /// What it showed.
        micros: i64,
    },
}

impl UnixClock {
    /// Unix time in microseconds.
    #[must_use]
    pub fn micros(self) -> i64 {
        match self {
            Self::System => jiff::Timestamp::now().as_microsecond(),
            Self::Runtime { at, micros } => {
                let since = now().saturating_duration_since(at).as_micros();
                micros.saturating_add(i64::try_from(since).unwrap_or(i64::MAX))
            }
        }
    }
}

/// Now, by the clock of the runtime: a test that pauses that clock pauses all of the service.
#[must_use]
pub fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
