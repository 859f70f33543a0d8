//! What the log says of writes: gathered, so that a database that is away is not a line per user.

use std::time::{Duration, Instant};

/// Failures are reported at most this often, with their number.
const REPORT_EVERY: Duration = Duration::from_secs(5);

/// The failures since the last line.
#[derive(Debug, Default)]
pub(super) struct Report {
    failures: u64,
    last: Option<Instant>,
}

impl Report {
    pub(super) fn succeeded(&mut self) {
        if self.last.take().is_some() {
            tracing::info!("blocks are written again");
            self.failures = 0;
        }
    }

    pub(super) fn failed(&mut self, reason: &str, now: Instant) {
        self.failures += 1;
        let told = self
            .last
            .is_some_and(|last| now.saturating_duration_since(last) < REPORT_EVERY);
        if !told {
            tracing::warn!(failures = self.failures, "blocks stay dirty: {reason}");
            *self = Self {
                failures: 0,
                last: Some(now),
            };
        }
    }
}
