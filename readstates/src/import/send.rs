//! Sends rows to the owners of their users until all are answered.

use std::time::Duration;

use readstates_api::{
    ProblemType,
    batch::v3::{Import, ImportOutcome},
};
use readstates_client::{Client, Error, Imported};
use tokio::time::{Instant, sleep};

use super::{
    ImportError,
    report::Tally,
    window::{BadRow, Row},
};

/// Between two attempts at what was not taken: the first wait, doubled up to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LAST_PAUSE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct Sender {
    client: Client,
    /// How long to go on when nothing at all is taken.
    patience: Duration,
}

/// What came of one attempt.
#[derive(Debug, Default)]
struct Attempt {
    applied: u64,
    ignored: u64,
    bad: Vec<BadRow>,
    again: Vec<Row>,
    /// Some owner is of an earlier release.
    too_old: bool,
}

impl Sender {
    pub(super) fn new(client: Client, patience: Duration) -> Self {
        Self { client, patience }
    }

    /// Sends rows, and those again that were not taken. Counts what became of them; returns those that the service
    /// refuses.
    pub(super) async fn send(
        &self,
        mut rows: Vec<Row>,
        tally: &mut Tally,
    ) -> Result<Vec<BadRow>, ImportError> {
        // New channels of a user in their order: each goes behind those before it, and none has to be moved. Rows of one
        // channel stay in the order of the source.
        rows.sort_by_key(|row| (row.import.user, row.import.channel));
        let mut bad = Vec::new();
        let (mut pause, mut taken_at) = (FIRST_PAUSE, Instant::now());
        while !rows.is_empty() {
            let records: Vec<Import> = rows.iter().map(|row| row.import).collect();
            let Imported {
                outcomes, error, ..
            } = self.client.import(&records).await;
            if let Some(error) = error.as_ref().filter(|error| !error.passes()) {
                return Err(refused(error.clone()));
            }
            let sent = rows.len();
            let attempt = sort(rows, &outcomes);
            tally.applied += attempt.applied;
            tally.ignored += attempt.ignored;
            bad.extend(attempt.bad);
            rows = attempt.again;
            if rows.is_empty() {
                break;
            }
            if rows.len() < sent {
                (pause, taken_at) = (FIRST_PAUSE, Instant::now());
            } else if taken_at.elapsed() >= self.patience {
                return Err(match attempt.too_old {
                    true => ImportError::TooOld,
                    false => ImportError::NotTaken {
                        patience: self.patience,
                        source: error,
                    },
                });
            }
            tracing::debug!(rows = rows.len(), ?pause, "sent again after a pause");
            sleep(pause).await;
            pause = (pause * 2).min(LAST_PAUSE);
        }
        Ok(bad)
    }
}

/// What became of each row.
fn sort(rows: Vec<Row>, outcomes: &[ImportOutcome]) -> Attempt {
    let mut attempt = Attempt::default();
    for (row, outcome) in rows.into_iter().zip(outcomes) {
        match outcome {
            ImportOutcome::Applied => attempt.applied += 1,
            ImportOutcome::Ignored => attempt.ignored += 1,
            ImportOutcome::Bad => {
                let why = "the service says that the record makes no sense";
                attempt.bad.push(BadRow::refused(&row, why));
            }
            ImportOutcome::Full => {
                let why = "the user has the most read states that there may be";
                attempt.bad.push(BadRow::refused(&row, why));
            }
            ImportOutcome::NotTaken | ImportOutcome::Unknown => attempt.again.push(row),
            ImportOutcome::OwnerTooOld => {
                attempt.too_old = true;
                attempt.again.push(row);
            }
        }
    }
    attempt
}

/// The error of a service that would refuse the same again.
fn refused(error: Error) -> ImportError {
    match error.problem() {
        // The only thing that can be wrong with the frame is its version.
        Some(ProblemType::MalformedBody) => ImportError::TooOld,
        Some(_) | None => ImportError::Refused(error),
    }
}

#[cfg(test)]
mod tests {
    use readstates_api::Id;

    use super::*;

    #[test]
    fn each_outcome_leads_to_one_thing() {
        let id = |number| Id::new(number).unwrap();
        let row = |line| Row {
            line: Some(line),
            import: Import {
                user: id(line),
                channel: id(2),
                last_message_id: None,
                mention_count: 0,
                counted_through: None,
                flags: None,
                last_viewed: 0,
                last_pin_timestamp: None,
            },
        };
        let outcomes = [
            ImportOutcome::Applied,
            ImportOutcome::Ignored,
            ImportOutcome::Bad,
            ImportOutcome::NotTaken,
            ImportOutcome::Unknown,
            ImportOutcome::Full,
            ImportOutcome::OwnerTooOld,
        ];
        let attempt = sort((1..=7).map(row).collect(), &outcomes);
        assert_eq!((attempt.applied, attempt.ignored), (1, 1));
        let lines = |rows: &[Row]| rows.iter().map(|row| row.line).collect::<Vec<_>>();
        assert_eq!(lines(&attempt.again), [Some(4), Some(5), Some(7)]);
        assert!(attempt.too_old);
        let bad: Vec<String> = attempt.bad.iter().map(ToString::to_string).collect();
        assert!(bad[0].starts_with("line 3: ") && bad[1].starts_with("line 6: the user has"));
        assert!(!sort(vec![row(1)], &[ImportOutcome::NotTaken]).too_old);
    }
}
