//! Durations as the CRD takes them: `30s`, `1m30s`, `1500ms`, `2h`, `7d`.

use std::time::Duration;

use readstates_operator_api::FLUSH_INTERVAL;

/// Reads a flush interval. `None` when it is not a duration, or out of range.
#[must_use]
pub(super) fn parse(text: &str) -> Option<Duration> {
    within(text, FLUSH_INTERVAL)
}

/// Reads a duration. `None` when it is not one, or below the first or above the second of these.
#[must_use]
pub(super) fn within(text: &str, range: (Duration, Duration)) -> Option<Duration> {
    // Of what humantime reads only what the CRD's patterns are made of: not `1 hour`, `0.5h` or `0`.
    let is_digit = |c: char| c.is_ascii_digit();
    let known = |c: char| is_digit(c) || "dhms".contains(c);
    let small = |number: &str| number.is_empty() || number.parse::<u32>().is_ok();
    if !text.chars().all(known) || text.ends_with(is_digit) {
        return None;
    }
    if !text.split(|c| !is_digit(c)).all(small) {
        return None;
    }
    let duration = humantime::parse_duration(text).ok()?;
    (range.0..=range.1).contains(&duration).then_some(duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_from_a_second_to_ten_minutes_are_read() {
        assert_eq!(parse("30s"), Some(Duration::from_secs(30)));
        assert_eq!(parse("1m30s"), Some(Duration::from_secs(90)));
        assert_eq!(parse("1500ms"), Some(Duration::from_millis(1500)));
        assert_eq!(parse("10m"), Some(Duration::from_mins(10)));
    }

    #[test]
    fn hours_are_read_where_the_range_allows_them() {
        let day = (Duration::ZERO, Duration::from_hours(24));
        assert_eq!(within("1h30m", day), Some(Duration::from_mins(90)));
        assert_eq!(within("0s", day), Some(Duration::ZERO));
        assert_eq!(within("24h1s", day), None);
        assert_eq!(within("", day), None);
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "30",
            "s",
            "999ms",
            "11m",
            "1h",
            "-1s",
            "0",
            "1 s",
            "1.5s",
            "1min",
            "2s5",
            "99999999999s",
            "18446744073709551615s1000ms",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
