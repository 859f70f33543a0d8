//! What came of an import: counts, and a result for people and programs.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

use super::window::BadRow;

/// Bad rows that are told one by one.
const MOST_TOLD: usize = 20;

/// What became of rows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Tally {
    /// All that were read.
    pub(super) rows: u64,
    /// Those that changed something; in a dry run, those that make sense.
    pub(super) applied: u64,
    /// Those of which the service knew as much or more.
    pub(super) ignored: u64,
    pub(super) bad: u64,
    /// The first bad ones, as text.
    pub(super) first_bad: Vec<String>,
}

impl Tally {
    pub(super) fn add_bad(&mut self, row: &BadRow) {
        self.bad += 1;
        if self.first_bad.len() < MOST_TOLD {
            self.first_bad.push(row.to_string());
        }
    }
}

#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) source: String,
    pub(super) dry_run: bool,
    /// Whether a checkpoint was gone on from.
    pub(super) resumed: bool,
    #[serde(flatten)]
    pub(super) tally: Tally,
    pub(super) seconds: f64,
}

impl Report {
    pub(super) fn new(source: String, dry_run: bool) -> Self {
        Self {
            source,
            dry_run,
            resumed: false,
            tally: Tally::default(),
            seconds: 0.0,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            source,
            dry_run,
            resumed,
            tally,
            seconds,
        } = self;
        let Tally {
            rows,
            applied,
            ignored,
            bad,
            first_bad: _,
        } = tally;
        if *dry_run {
            return write!(
                f,
                "would send {applied} of {rows} rows of {source}; {bad} are bad; nothing was sent"
            );
        }
        let took = Duration::from_secs_f64(seconds.max(0.0));
        let since = if *resumed { " since it went on" } else { "" };
        write!(
            f,
            "imported {rows} rows of {source}: {applied} applied, {ignored} ignored (known already or deleted), {bad} \
             bad; {took:.1?}{since}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_has_the_counts_for_people_and_programs() {
        let mut report = Report::new("rows.csv".to_owned(), false);
        report.tally = Tally {
            rows: 10,
            applied: 7,
            ignored: 2,
            ..Tally::default()
        };
        let bad = BadRow::new(Some(3), "user_id is missing".to_owned(), ",2,3");
        report.tally.add_bad(&bad);
        report.seconds = 1.25;
        let text = report.to_string();
        assert!(
            text.starts_with("imported 10 rows of rows.csv: 7 applied, 2 ignored"),
            "{text}"
        );
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(
            (&json["bad"], &json["first_bad"][0]),
            (&1.into(), &"line 3: user_id is missing".into())
        );
        assert_eq!(
            (&json["rows"], &json["dry_run"]),
            (&10.into(), &false.into())
        );
    }
}
