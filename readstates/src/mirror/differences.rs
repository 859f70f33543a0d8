//! The file of differences: a JSON object on each line, with ids and counts and nothing else of a request.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
    sync::Arc,
};

use jiff::Timestamp;
use parking_lot::Mutex;
use readstates_api::Id;
use serde::Serialize;

use super::{compare::Difference, shape::Position};

/// The file stays below this; what is left out is counted all the same.
const MAX_BYTES: u64 = 256 << 20;

/// Where differences are written down, if they are.
#[derive(Debug, Clone)]
pub(super) struct Differences {
    open: Option<Arc<Mutex<Open>>>,
}

#[derive(Debug)]
struct Open {
    file: File,
    bytes: u64,
}

#[derive(Serialize)]
struct Line<'a> {
    at: Timestamp,
    route: &'a str,
    user: Id,
    channel: Id,
    kind: &'static str,
    old: Option<Written>,
    ours: Option<Written>,
}

#[derive(Serialize)]
struct Written {
    message: Option<Id>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mentions: Option<u64>,
}

impl From<Position> for Written {
    fn from(Position { message, mentions }: Position) -> Self {
        Self { message, mentions }
    }
}

impl Differences {
    /// Goes on behind what is there. A new file is for its owner alone, since it says who reads what.
    pub(super) fn open(file: Option<&Path>) -> io::Result<Self> {
        let Some(file) = file else {
            return Ok(Self { open: None });
        };
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(file)?;
        let bytes = file.metadata()?.len();
        let open = Some(Arc::new(Mutex::new(Open { file, bytes })));
        Ok(Self { open })
    }

    /// Writes differences of a user down; returns how many were left out. It blocks.
    pub(super) fn write(&self, route: &str, user: Id, found: &[Difference]) -> u64 {
        let Some(open) = &self.open else {
            return 0;
        };
        let (at, mut left_out, mut open) = (Timestamp::now(), 0, open.lock());
        for difference in found {
            let line = Line {
                at,
                route,
                user,
                channel: difference.channel,
                kind: difference.kind.name(),
                old: difference.old.map(Written::from),
                ours: difference.ours.map(Written::from),
            };
            // Numbers, strings and dates: nothing that JSON cannot say.
            let mut line = serde_json::to_vec(&line).unwrap_or_default();
            line.push(b'\n');
            let after = open.bytes + line.len() as u64;
            if after > MAX_BYTES || open.file.write_all(&line).is_err() {
                left_out += 1;
            } else {
                open.bytes = after;
            }
        }
        left_out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mirror::compare::Kind;

    #[test]
    fn a_file_goes_on_and_is_for_its_owner_alone() {
        use std::os::unix::fs::PermissionsExt as _;

        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("differences.ndjson");
        let id = |number| Id::new(number).unwrap();
        let difference = Difference {
            channel: id(10),
            kind: Kind::Message,
            old: Some(Position {
                message: Some(id(100)),
                mentions: Some(2),
            }),
            ours: Some(Position {
                message: None,
                mentions: None,
            }),
        };
        for _ in 0..2 {
            let differences = Differences::open(Some(&file)).unwrap();
            assert_eq!(differences.write("GET /x", id(42), &[difference]), 0);
        }
        let text = std::fs::read_to_string(&file).unwrap();
        let lines: Vec<serde_json::Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(lines.len(), 2);
        let expected = serde_json::json!({
            "at": lines[0]["at"], "route": "GET /x", "user": "42", "channel": "10", "kind": "message",
            "old": {"message": "100", "mentions": 2}, "ours": {"message": null},
        });
        assert_eq!(lines[0], expected);
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0);
    }

    #[test]
    fn a_file_that_is_full_takes_no_more_and_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("differences.ndjson");
        File::create(&file)
            .unwrap()
            .set_len(MAX_BYTES - 10)
            .unwrap();
        let differences = Differences::open(Some(&file)).unwrap();
        let id = Id::new(1).unwrap();
        let difference = Difference {
            channel: id,
            kind: Kind::Extra,
            old: None,
            ours: None,
        };
        assert_eq!(differences.write("GET /x", id, &[difference; 3]), 3);
        assert_eq!(std::fs::metadata(&file).unwrap().len(), MAX_BYTES - 10);
    }
}
