//! Maintenance windows in seconds of a week, and when the next one opens.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp, tz::TimeZone};

const WEEK: i64 = 7 * 24 * 3600;
/// Seconds of a day.
pub(crate) const DAY: i64 = 24 * 3600;

/// When pods that serve may be restarted, and how fast.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Maintenance {
    /// None: always.
    pub(crate) windows: Vec<MaintenanceWindow>,
    /// Least time between two restarts of one tier.
    pub pace: Duration,
    /// Until when restarts may begin whatever the windows say; or a text that is no time.
    pub(crate) opened: Option<Result<Timestamp, String>>,
}

/// A window: seconds from Monday 00:00 UTC to its beginning, and how long it is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MaintenanceWindow {
    pub(crate) begins: i64,
    pub(crate) open: i64,
}

impl Maintenance {
    /// Has restarts begin until then, whatever the windows say.
    pub(crate) fn open_until(&mut self, until: Option<&String>) {
        self.opened = until.map(|text| text.trim().parse().map_err(|_| text.clone()));
    }

    /// The value given for the end of the opened window, if it is not a time.
    #[must_use]
    pub fn unreadable(&self) -> Option<&str> {
        self.opened.as_ref()?.as_ref().err().map(String::as_str)
    }

    /// When restarts may begin; `None`: now.
    #[must_use]
    pub fn opens(&self, now: Timestamp) -> Option<Timestamp> {
        let opened = |until: &Result<Timestamp, String>| matches!(until, Ok(until) if now < *until);
        if self.windows.is_empty() || self.opened.as_ref().is_some_and(opened) {
            return None;
        }
        let civil = now.to_zoned(TimeZone::UTC);
        let day = i64::from(civil.weekday().to_monday_zero_offset());
        let time = civil.time();
        let seconds = i64::from(time.hour()) * 3600
            + i64::from(time.minute()) * 60
            + i64::from(time.second());
        let of_week = day * DAY + seconds;
        let since = |window: &MaintenanceWindow| (of_week - window.begins).rem_euclid(WEEK);
        if self.windows.iter().any(|w| since(w) < w.open) {
            return None;
        }
        let wait = self.windows.iter().map(|w| WEEK - since(w)).min()?;
        let whole = Timestamp::from_second(now.as_second()).unwrap_or(now);
        whole.checked_add(SignedDuration::from_secs(wait)).ok()
    }
}
