//! When a user with changes that are not written is written.

use std::time::Duration;

/// After the first change, before a user is written early: what comes in a burst is one write.
const EARLY: Duration = Duration::from_secs(1);

/// Whether a user waits for its interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum FlushMode {
    /// A user is written one second after its first change if the store has capacity, at the latest after its interval.
    #[default]
    Adaptive,
    /// A user is written after its interval.
    Interval,
}

/// How soon changes are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flushing {
    /// From the first change to the write, give or take a tenth.
    pub interval: Duration,
    /// Whether that is waited for.
    pub mode: FlushMode,
}

impl Flushing {
    /// How long after its first change a user may be written.
    #[must_use]
    pub fn delay(self) -> Duration {
        match self.mode {
            FlushMode::Adaptive => self.interval.min(EARLY),
            FlushMode::Interval => self.interval,
        }
    }
}

impl From<Duration> for Flushing {
    /// When the interval is over.
    fn from(interval: Duration) -> Self {
        Self {
            interval,
            mode: FlushMode::Interval,
        }
    }
}
