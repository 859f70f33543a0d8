//! Times of a schedule, in the form of a CronJob.

use cronexpr::Crontab;
use jiff::Timestamp;

/// When something is to be done.
#[derive(Clone, Debug)]
pub struct Times(Crontab);

/// How many times are looked through at most: those of six hours, one each minute.
const MOST: usize = 360;

/// Words for schedules, as Kubernetes knows them.
const WORDS: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

impl Times {
    /// Reads five fields or a word, in this time zone.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn parse(schedule: &str, zone: &str) -> Result<Self, String> {
        let known = WORDS.iter().find(|(word, _)| *word == schedule);
        let fields = known.map_or(schedule, |(_, fields)| fields);
        let zoned = format!("{fields} {zone}");
        cronexpr::parse_crontab(&zoned)
            .map(Self)
            .map_err(|error| format!("{schedule:?} in time zone {zone:?}: {error}"))
    }

    /// The last time after the first of these two that has come by the second.
    #[must_use]
    pub fn last_between(&self, after: Timestamp, by: Timestamp) -> Option<Timestamp> {
        let mut last = None;
        let mut from = after;
        for _ in 0..=MOST {
            match self.0.find_next(from) {
                Ok(next) if next.timestamp() <= by => {
                    from = next.timestamp();
                    last = Some(from);
                }
                // There is none, ever, or none yet.
                Ok(_) | Err(_) => break,
            }
        }
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn last(schedule: &str, zone: &str, after: &str, by: &str) -> Option<String> {
        let times = Times::parse(schedule, zone).unwrap();
        let last = times.last_between(at(after), at(by));
        last.map(|last| last.to_string())
    }

    #[test]
    fn the_last_time_that_has_come_is_told_in_the_zone_of_the_schedule() {
        let (day, next) = ("2026-01-10T00:00:00Z", "2026-01-11T00:00:00Z");
        let three = Some("2026-01-10T03:00:00Z".to_owned());
        assert_eq!(last("0 3 * * *", "Etc/UTC", day, next), three);
        let two = Some("2026-01-10T02:00:00Z".to_owned());
        assert_eq!(last("0 3 * * *", "Europe/Berlin", day, next), two);
        let hour = Some("2026-01-10T05:00:00Z".to_owned());
        assert_eq!(
            last("@hourly", "Etc/UTC", day, "2026-01-10T05:59:59Z"),
            hour
        );
        // What was done is not done again, and what has not come is not done yet.
        assert_eq!(
            last("0 3 * * *", "Etc/UTC", "2026-01-10T03:00:00Z", next),
            None
        );
        assert_eq!(
            last("0 3 * * *", "Etc/UTC", day, "2026-01-10T02:59:59Z"),
            None
        );
        // A day that there never is.
        assert_eq!(last("0 0 31 2 *", "Etc/UTC", day, next), None);
    }

    #[test]
    fn an_hour_that_clocks_skip_has_no_time_as_with_cron_jobs_and_one_that_they_repeat_has() {
        let of = |night: &str| {
            let (from, to) = (format!("{night}T00:00:00Z"), format!("{night}T06:00:00Z"));
            last("30 2 * * *", "Europe/Berlin", &from, &to)
        };
        assert_eq!(of("2026-03-29"), None);
        assert!(of("2026-10-25").is_some());
    }

    #[test]
    fn what_is_no_time_is_told() {
        for (schedule, zone) in [
            ("0 25 * * *", "Etc/UTC"),
            ("often", "Etc/UTC"),
            ("0 3 * * *", "Europe/Atlantis"),
        ] {
            let said = Times::parse(schedule, zone).unwrap_err();
            assert!(said.contains(schedule) && said.contains(zone), "{said}");
        }
    }
}
