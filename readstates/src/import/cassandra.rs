//! Rows of a table in Cassandra or ScyllaDB, in the order of tokens.
//!
//! All rows of a partition have one token, so the place to go on from is a token, and its rows are read again.

use scylla::response::PagingState;
use tokio::sync::mpsc;

use super::{
    ImportError, Progression,
    values::{Texts, import_of},
    window::{BadRow, Position, Row, Window},
};
use crate::{
    rows::{Columns, FIELDS, Field, Places},
    store::{CqlLogin, CqlTarget, ForeignRow, ForeignScan, ForeignTable},
};

/// Windows that are read ahead of the one that is sent.
const AHEAD: usize = 2;
/// Ranges of tokens, one after the other: a query for all of them would not be answered in time by a coordinator that
/// finds few rows.
const RANGES: usize = 256;

#[derive(Debug)]
pub(super) struct CqlSource {
    pub(super) target: CqlTarget,
    pub(super) table: String,
    pub(super) columns: Columns,
    pub(super) login: CqlLogin,
}

/// Rows that gather for a window.
struct Gathering {
    columns: Columns,
    /// Where the fields are among the columns that are read.
    places: Places,
    most: usize,
    rows: Vec<Row>,
    bad: Vec<BadRow>,
    bytes: u64,
}

impl CqlSource {
    /// Finds the table and its columns, and reads windows of so many rows.
    pub(super) async fn start(
        self,
        from: Option<&Position>,
        most: usize,
    ) -> Result<mpsc::Receiver<Progression>, ImportError> {
        let Self {
            target,
            table,
            columns,
            login,
        } = self;
        let table = ForeignTable::open(&target, &table, login).await?;
        let there = table.columns();
        let among = columns.among(&there)?;
        let (read, places) = wanted(&there, &among);
        let read: Vec<&str> = read.iter().map(String::as_str).collect();
        let scan = table.scan(&read).await?;
        let token = match from {
            Some(Position::Cql { token }) => *token,
            Some(Position::File { .. } | Position::Redis { .. }) | None => i64::MIN,
        };
        let mut gathering = Gathering {
            columns,
            places,
            most,
            rows: Vec::new(),
            bad: Vec::new(),
            bytes: 0,
        };
        let (sender, receiver) = mpsc::channel(AHEAD);
        // Ends with the receiver, or with the runtime.
        tokio::spawn(async move {
            let ended = gathering.all(&scan, token, &sender).await;
            // The receiver may be gone.
            let _ = sender.send(ended.map(|()| None)).await;
        });
        Ok(receiver)
    }
}

/// The columns to read, each once, and where the fields are among them.
fn wanted(there: &[&str], among: &Places) -> (Vec<String>, Places) {
    let mut read: Vec<String> = Vec::new();
    let places = among.map(|place| {
        let name = there[place?];
        let known = read.iter().position(|column| column == name);
        Some(known.unwrap_or_else(|| {
            read.push(name.to_owned());
            read.len() - 1
        }))
    });
    (read, places)
}

impl Gathering {
    async fn all(
        &mut self,
        scan: &ForeignScan,
        from: i64,
        sender: &mpsc::Sender<Progression>,
    ) -> Result<(), ImportError> {
        for (first, last) in ranges(from) {
            let mut next = Some(PagingState::start());
            while let Some(state) = next {
                let (page, after) = scan.page((first, last), state).await?;
                for row in page {
                    let token = row.token;
                    self.add(&row);
                    if self.is_full() && !self.send(token, sender).await {
                        return Ok(());
                    }
                }
                next = after;
            }
        }
        self.send(i64::MAX, sender).await;
        Ok(())
    }

    fn add(&mut self, row: &ForeignRow) {
        let values = &row.values;
        self.bytes += values
            .iter()
            .flatten()
            .map(|text| text.len() as u64)
            .sum::<u64>();
        let mut texts: Texts<'_> = [const { None }; FIELDS];
        for field in Field::ALL {
            let place = self.places[field.place()];
            let text = place.and_then(|place| values.get(place)?.as_deref());
            texts[field.place()] = text.map(Into::into);
        }
        match import_of(&texts, &self.columns) {
            Ok(import) => self.rows.push(Row { line: None, import }),
            Err(reason) => {
                let shown = shown(&texts, &self.columns);
                self.bad.push(BadRow::new(None, reason, &shown));
            }
        }
    }

    fn is_full(&self) -> bool {
        self.rows.len() + self.bad.len() >= self.most
    }

    /// Hands over what there is, of partitions up to this token. False: the import has ended.
    async fn send(&mut self, token: i64, sender: &mpsc::Sender<Progression>) -> bool {
        let window = Window {
            rows: std::mem::take(&mut self.rows),
            bad: std::mem::take(&mut self.bad),
            bytes: std::mem::take(&mut self.bytes),
            position: Position::Cql { token },
        };
        sender.send(Ok(Some(window))).await.is_ok()
    }
}

/// A row as a person finds it again.
fn shown(texts: &Texts<'_>, columns: &Columns) -> String {
    let mut shown = Vec::new();
    for field in Field::ALL {
        if let Some(text) = &texts[field.place()] {
            shown.push(format!("{} {text}", columns.name(field)));
        }
    }
    shown.join(", ")
}

/// The ranges from a token on, each with its first and last one.
fn ranges(from: i64) -> impl Iterator<Item = (i64, i64)> {
    let width = (1_i128 << 64) / RANGES as i128;
    (0..RANGES as i128).filter_map(move |range| {
        let first = i128::from(i64::MIN) + range * width;
        // Within 64 bits.
        let (first, last) = (first as i64, (first + width - 1) as i64);
        (last >= from).then_some((first.max(from), last))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_go_on_from_a_token_to_the_last_one() {
        let all: Vec<_> = ranges(i64::MIN).collect();
        assert_eq!((all.len(), all[0].0), (256, i64::MIN));
        assert!(all.windows(2).all(|pair| pair[0].1 + 1 == pair[1].0));
        assert_eq!(all[255].1, i64::MAX);
        let rest: Vec<_> = ranges(5).collect();
        assert_eq!((rest.len(), rest[0].0), (128, 5));
        assert_eq!(ranges(i64::MAX).collect::<Vec<_>>(), [(i64::MAX, i64::MAX)]);
    }

    fn gathering(columns: &str, there: &[&str]) -> (Gathering, Vec<String>) {
        let columns: Columns = columns.parse().unwrap();
        let (read, places) = wanted(there, &columns.among(there).unwrap());
        let gathering = Gathering {
            columns,
            places,
            most: 2,
            rows: Vec::new(),
            bad: Vec::new(),
            bytes: 0,
        };
        (gathering, read)
    }

    #[test]
    fn columns_are_read_once_and_rows_become_read_states_or_are_told() {
        let there = ["channel", "id", "pings", "seen", "user_id"];
        let (mut gathering, read) = gathering(
            "channel=channel,message=seen,counted=seen,mentions=pings",
            &there,
        );
        assert_eq!(read, ["user_id", "channel", "seen", "pings"]);
        let row = |values: [Option<&str>; 4]| ForeignRow {
            token: 1,
            values: values.map(|text| text.map(str::to_owned)).to_vec(),
        };
        gathering.add(&row([Some("1"), Some("2"), Some("3"), None]));
        assert!(!gathering.is_full());
        gathering.add(&row([Some("1"), Some("-2"), None, Some("4")]));
        assert!(gathering.is_full());
        let import = gathering.rows[0].import;
        assert_eq!((import.user.get(), import.channel.get()), (1, 2));
        assert_eq!(
            (import.last_message_id, import.mention_count),
            (import.counted_through, 0)
        );
        let bad = gathering.bad[0].to_string();
        assert!(
            bad.starts_with("user_id 1, channel -2, pings 4: channel is \"-2\""),
            "{bad}"
        );
    }

    #[tokio::test]
    async fn a_window_ends_at_a_token_and_what_is_left_at_the_last_one() {
        let there = ["user_id", "channel_id", "last_message_id"];
        let (mut gathering, _) = gathering("", &there);
        let (sender, mut receiver) = mpsc::channel(2);
        let values = ["1", "2", "3"].map(|text| Some(text.to_owned())).to_vec();
        gathering.add(&ForeignRow { token: 7, values });
        assert!(gathering.send(7, &sender).await);
        let window = receiver.recv().await.unwrap().unwrap().unwrap();
        assert_eq!((window.rows.len(), window.bytes), (1, 3));
        assert_eq!(window.position, Position::Cql { token: 7 });
        drop(receiver);
        assert!(!gathering.send(8, &sender).await);
    }
}
