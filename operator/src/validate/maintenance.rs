//! `spec.maintenance` as values: windows in seconds of a week, and when the next one opens.

use std::time::Duration;

use jiff::civil::Weekday;
use readstates_operator_api::{Day, MaintenanceSpec, WindowSpec};

use super::{Checker, duration};
use crate::spec::{DAY, Maintenance, MaintenanceWindow};

/// Bounds of how long a window is open.
const OPEN: (Duration, Duration) = (Duration::from_mins(10), Duration::from_hours(24));
/// Bounds of the time between two restarts.
const PACE: (Duration, Duration) = (Duration::ZERO, Duration::from_hours(24));

impl Checker {
    pub(super) fn maintenance(&mut self, spec: Option<&MaintenanceSpec>) -> Maintenance {
        let Some(MaintenanceSpec { windows, pace }) = spec else {
            return Maintenance::default();
        };
        let mut all = Vec::new();
        for (at, window) in windows.iter().flatten().enumerate() {
            let field = format!("spec.maintenance.windows[{at}]");
            all.extend(self.window(&field, window));
        }
        let pace = match pace
            .as_deref()
            .map(|text| (text, duration::within(text, PACE)))
        {
            None => Duration::ZERO,
            Some((_, Some(pace))) => pace,
            Some((text, None)) => {
                let words = format!("{text:?} is not a duration from 0s to 24h");
                self.wrong("spec.maintenance.pace", words);
                Duration::ZERO
            }
        };
        Maintenance {
            windows: all,
            pace,
            opened: None,
        }
    }

    fn window(&mut self, field: &str, spec: &WindowSpec) -> Vec<MaintenanceWindow> {
        let WindowSpec {
            days,
            start,
            duration,
        } = spec;
        let begins = time_of_day(start);
        if begins.is_none() {
            let words = format!("{start:?} is not a time of day, such as 02:30");
            self.wrong(format!("{field}.start"), words);
        }
        let open = duration::within(duration, OPEN);
        if open.is_none() {
            let words = format!("{duration:?} is not a duration from 10m to 24h");
            self.wrong(format!("{field}.duration"), words);
        }
        let (Some(begins), Some(open)) = (begins, open) else {
            return Vec::new();
        };
        let open = i64::try_from(open.as_secs()).unwrap_or(DAY);
        let every_day = || ALL.to_vec();
        let days = days.clone().unwrap_or_else(every_day);
        let window = |day| MaintenanceWindow {
            begins: i64::from(weekday(day).to_monday_zero_offset()) * DAY + begins,
            open,
        };
        days.into_iter().map(window).collect()
    }
}

const ALL: [Day; 7] = [
    Day::Monday,
    Day::Tuesday,
    Day::Wednesday,
    Day::Thursday,
    Day::Friday,
    Day::Saturday,
    Day::Sunday,
];

fn weekday(day: Day) -> Weekday {
    match day {
        Day::Monday => Weekday::Monday,
        Day::Tuesday => Weekday::Tuesday,
        Day::Wednesday => Weekday::Wednesday,
        Day::Thursday => Weekday::Thursday,
        Day::Friday => Weekday::Friday,
        Day::Saturday => Weekday::Saturday,
        Day::Sunday => Weekday::Sunday,
    }
}

/// Seconds since midnight of `HH:MM`.
fn time_of_day(text: &str) -> Option<i64> {
    let (hours, minutes) = text.split_once(':')?;
    let two = |part: &str| part.len() == 2 && part.bytes().all(|b| b.is_ascii_digit());
    if !two(hours) || !two(minutes) {
        return None;
    }
    let (hours, minutes): (i64, i64) = (hours.parse().ok()?, minutes.parse().ok()?);
    (hours < 24 && minutes < 60).then_some(hours * 3600 + minutes * 60)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::fixtures::{CASSANDRA, try_cluster};

    fn maintenance(text: &str) -> Maintenance {
        let spec = CASSANDRA.replace("replicas: 3", &format!("maintenance: {text}"));
        try_cluster(&spec).unwrap().maintenance
    }

    /// When it opens, by the clock of a week that begins on Monday, 2026-11-23.
    fn opens(maintenance: &Maintenance, now: &str) -> Option<String> {
        let now: Timestamp = format!("2026-11-{now}:00Z").parse().unwrap();
        maintenance.opens(now).map(|at| at.to_string())
    }

    #[test]
    fn without_windows_it_is_always_time() {
        assert_eq!(opens(&Maintenance::default(), "24T12:00"), None);
        assert_eq!(opens(&maintenance("{ pace: 10m }"), "24T12:00"), None);
        assert_eq!(maintenance("{ pace: 1h30m }").pace, Duration::from_mins(90));
    }

    #[test]
    fn a_window_is_open_from_its_start_for_its_duration() {
        let nights = maintenance("{ windows: [{ start: '02:30', duration: 1h }] }");
        assert_eq!(opens(&nights, "24T02:29").unwrap(), "2026-11-24T02:30:00Z");
        assert_eq!(opens(&nights, "24T02:30"), None);
        assert_eq!(opens(&nights, "24T03:29"), None);
        assert_eq!(opens(&nights, "24T03:30").unwrap(), "2026-11-25T02:30:00Z");
    }

    #[test]
    fn a_window_that_begins_on_sunday_evening_is_open_on_monday_morning() {
        let sundays =
            maintenance("{ windows: [{ days: [Sunday], start: '22:00', duration: 6h }] }");
        assert_eq!(opens(&sundays, "23T03:59"), None);
        assert_eq!(opens(&sundays, "23T04:00").unwrap(), "2026-11-29T22:00:00Z");
        assert_eq!(opens(&sundays, "29T21:59").unwrap(), "2026-11-29T22:00:00Z");
        assert_eq!(opens(&sundays, "29T23:00"), None);
    }

    #[test]
    fn the_next_of_several_windows_is_told() {
        let some = maintenance(
            "{ windows: [{ days: [Saturday, Wednesday], start: '01:00', duration: 2h }, { days: [Monday], start: \
             '05:00', duration: 10m }] }",
        );
        assert_eq!(opens(&some, "23T05:10").unwrap(), "2026-11-25T01:00:00Z");
        assert_eq!(opens(&some, "25T03:00").unwrap(), "2026-11-28T01:00:00Z");
        assert_eq!(opens(&some, "28T03:00").unwrap(), "2026-11-30T05:00:00Z");
    }

    #[test]
    fn a_window_can_be_opened_for_once() {
        let mut nights = maintenance("{ windows: [{ start: '02:30', duration: 1h }] }");
        nights.open_until(Some(&"2026-11-24T13:00:00Z".to_owned()));
        assert_eq!(opens(&nights, "24T12:59"), None);
        assert_eq!(opens(&nights, "24T13:00").unwrap(), "2026-11-25T02:30:00Z");
        assert_eq!(nights.unreadable(), None);
        nights.open_until(Some(&"tonight".to_owned()));
        assert!(opens(&nights, "24T12:59").is_some());
        assert_eq!(nights.unreadable(), Some("tonight"));
    }

    #[test]
    fn what_is_no_window_is_refused_by_its_field() {
        let spec = |text: &str| CASSANDRA.replace("replicas: 3", &format!("maintenance: {text}"));
        for (text, field) in [
            ("{ pace: 25h }", "spec.maintenance.pace"),
            (
                "{ windows: [{ start: '24:00', duration: 1h }] }",
                "windows[0].start",
            ),
            (
                "{ windows: [{ start: '2:00', duration: 1h }] }",
                "windows[0].start",
            ),
            (
                "{ windows: [{ start: '02:00', duration: 5m }] }",
                "windows[0].duration",
            ),
            (
                "{ windows: [{ start: '02:00', duration: 25h }] }",
                "windows[0].duration",
            ),
        ] {
            let said = try_cluster(&spec(text)).unwrap_err().to_string();
            assert!(said.contains(field), "{text}: {said}");
        }
    }
}
