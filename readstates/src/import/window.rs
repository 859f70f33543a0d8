//! Rows that are sent together, and where the next ones begin.

use readstates_api::batch::v3::Import;
use serde::{Deserialize, Serialize};

use super::buffered::Excerpt;

/// A row that makes sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Row {
    /// The line of a file in which it begins, from 1.
    pub(super) line: Option<u64>,
    pub(super) import: Import,
}

/// A row that makes none, or that the service refuses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct BadRow {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) line: Option<u64>,
    pub(super) reason: String,
    /// What is there, as far as it is text and not long.
    pub(super) row: String,
}

/// How far a source is read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Position {
    /// Bytes and line ends of a file.
    File {
        bytes: u64,
        lines: u64,
        /// What is before them; `None`: a checkpoint of an earlier release does not say.
        #[serde(default)]
        before: Option<Excerpt>,
    },
    /// All partitions of a table before this token.
    Cql { token: i64 },
    /// A cursor of SCAN: what it has gone over is done.
    Redis {
        cursor: u64,
        /// The `run_id` of the process whose cursor it is; `None`: it is not known.
        #[serde(default)]
        process: Option<String>,
    },
}

/// Some rows in the order of their source.
#[derive(Debug)]
pub(super) struct Window {
    pub(super) rows: Vec<Row>,
    pub(super) bad: Vec<BadRow>,
    /// Bytes that were read for them.
    pub(super) bytes: u64,
    /// After them.
    pub(super) position: Position,
}

/// The longest text of a bad row that is kept.
const MOST_SHOWN: usize = 1024;

impl BadRow {
    pub(super) fn new(line: Option<u64>, reason: String, row: &str) -> Self {
        let row = match row.char_indices().nth(MOST_SHOWN) {
            Some((end, _)) => format!("{}…", &row[..end]),
            None => row.to_owned(),
        };
        Self { line, reason, row }
    }

    /// One that the service refuses.
    pub(super) fn refused(row: &Row, reason: &str) -> Self {
        let Import { user, channel, .. } = row.import;
        Self {
            line: row.line,
            reason: reason.to_owned(),
            row: format!("user {user}, channel {channel}"),
        }
    }
}

impl std::fmt::Display for BadRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { line, reason, row } = self;
        match line {
            Some(line) => write!(f, "line {line}: {reason}"),
            None => write!(f, "{row}: {reason}"),
        }
    }
}
