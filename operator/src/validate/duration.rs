//! Durations as the CRD takes them: `30s`, `1m30s`, `1500ms`, `2h`, `7d`.

use std::time::Duration;

/// Shortest and longest flush interval.
const RANGE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(10));

/// Reads a flush interval. `None` when it is not a duration, or out of range.
#[must_use]
pub(super) fn parse(text: &str) -> Option<Duration> {
    within(text, RANGE)
}

/// Reads a duration. `None` when it is not one, or below the first or above the second of these.
#[must_use]
pub(super) fn within(text: &str, range: (Duration, Duration)) -> Option<Duration> {
    if text.is_empty() {
        return None;
    }
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: u32 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let (unit, after) = [
            ("ms", Duration::from_millis(1)),
            ("s", Duration::from_secs(1)),
            ("m", Duration::from_mins(1)),
            ("h", Duration::from_hours(1)),
            ("d", Duration::from_hours(24)),
        ]
        .into_iter()
        .find_map(|(suffix, unit)| Some((unit, rest.strip_prefix(suffix)?)))?;
        total = total.checked_add(unit.checked_mul(number)?)?;
        rest = after;
    }
    (range.0..=range.1).contains(&total).then_some(total)
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
            "1 s",
            "99999999999s",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
