//! How far an import is, in a file: replaced at once, so that a kill at any point leaves the one before or the next.
//!
//! Rows are counted in it only once the service has answered all of them, so what is sent again after a kill is at most
//! what was under way; and that changes nothing. The file says what it is about: the source, how it is read, and the
//! service. With anything else it is refused, since rows would be left out.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Write},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{ImportError, buffered::Excerpt, report::Tally, window::Position};

/// The only format there is.
const FORMAT: u32 = 1;

/// What an import is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct About {
    /// File, database or server.
    pub(super) from: String,
    /// How rows are read.
    pub(super) rows: String,
    /// The URLs of the service.
    pub(super) to: String,
    /// How a file begins.
    pub(super) beginning: Option<Excerpt>,
}

/// How far it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ImportState {
    format: u32,
    pub(super) about: About,
    pub(super) position: Option<Position>,
    pub(super) tally: Tally,
    /// Length of the file of bad rows.
    pub(super) bad_rows_bytes: u64,
    pub(super) done: bool,
}

impl ImportState {
    pub(super) fn new(about: About) -> Self {
        Self {
            format: FORMAT,
            about,
            position: None,
            tally: Tally::default(),
            bad_rows_bytes: 0,
            done: false,
        }
    }
}

/// The file, which no other import has.
#[derive(Debug)]
pub(super) struct Checkpoint {
    file: PathBuf,
    /// Held for as long as this is.
    _lock: File,
}

impl Checkpoint {
    /// Takes the file, and reads what is in it.
    pub(super) fn open(file: &Path) -> Result<(Self, Option<ImportState>), ImportError> {
        let failed = |source| ImportError::Checkpoint {
            file: file.to_owned(),
            source,
        };
        // Beside it, since it is replaced.
        let mut options = OpenOptions::new();
        let lock = options.create(true).truncate(false).write(true);
        let lock = lock.open(beside(file, "lock")).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(ImportError::InUse(file.to_owned())),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let state = match fs::read(file) {
            Ok(bytes) => Some(read(&bytes).map_err(|error| failed(io::Error::other(error)))?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed(error)),
        };
        let checkpoint = Self {
            file: file.to_owned(),
            _lock: lock,
        };
        Ok((checkpoint, state))
    }

    /// Puts this in place of what is there.
    pub(super) fn save(&self, state: &ImportState) -> Result<(), ImportError> {
        let saved = self.put(state);
        saved.map_err(|source| ImportError::Checkpoint {
            file: self.file.clone(),
            source,
        })
    }

    fn put(&self, state: &ImportState) -> io::Result<()> {
        let new = beside(&self.file, "new");
        let mut file = File::create(&new)?;
        serde_json::to_writer_pretty(&mut file, state)?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        fs::rename(&new, &self.file)?;
        let folder = self.file.parent().filter(|at| !at.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    }
}

fn beside(file: &Path, end: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".");
    name.push(end);
    name.into()
}

fn read(bytes: &[u8]) -> Result<ImportState, String> {
    let state: ImportState = serde_json::from_slice(bytes)
        .map_err(|error| format!("it is no checkpoint of an import: {error}"))?;
    match state.format {
        FORMAT => Ok(state),
        format => Err(format!(
            "its format is {format}, and this release knows {FORMAT}"
        )),
    }
}

impl ImportState {
    /// Whether it is about this import: `None` if it is, otherwise what differs.
    pub(super) fn differs(&self, from: &str, rows: &str, to: &str) -> Option<String> {
        let About {
            from: had_from,
            rows: had_rows,
            to: had_to,
            beginning: _,
        } = &self.about;
        let pairs = [
            ("is of", had_from.as_str(), from),
            ("reads", had_rows, rows),
            ("goes to", had_to, to),
        ];
        let other = pairs.into_iter().find(|(_, had, has)| had != has);
        other.map(|(what, had, has)| format!("it {what} {had:?}, and this import {what} {has:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> ImportState {
        ImportState::new(About {
            from: "rows.csv".to_owned(),
            rows: "csv".to_owned(),
            to: "http://chat:7400".to_owned(),
            beginning: None,
        })
    }

    #[test]
    fn what_was_saved_is_read_by_the_next_and_by_one_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("checkpoint");
        let (checkpoint, before) = Checkpoint::open(&path).unwrap();
        assert_eq!(before, None);
        let (bytes, lines) = (7, 2);
        let saved = ImportState {
            position: Some(Position::File {
                bytes,
                lines,
                before: None,
            }),
            ..state()
        };
        checkpoint.save(&state()).unwrap();
        checkpoint.save(&saved).unwrap();
        let other = Checkpoint::open(&path).unwrap_err();
        assert!(matches!(other, ImportError::InUse(_)), "{other}");
        drop(checkpoint);
        assert_eq!(Checkpoint::open(&path).unwrap().1, Some(saved));
    }

    #[test]
    fn what_is_no_checkpoint_is_refused_and_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.csv");
        fs::write(&path, "user_id\n").unwrap();
        let refusal = Checkpoint::open(&path).unwrap_err();
        assert!(matches!(refusal, ImportError::Checkpoint { .. }));
        assert_eq!(fs::read(&path).unwrap(), b"user_id\n");
        let mut later = serde_json::to_value(state()).unwrap();
        later["format"] = 2.into();
        fs::write(&path, later.to_string()).unwrap();
        assert!(Checkpoint::open(&path).is_err());
    }

    #[test]
    fn a_checkpoint_of_another_import_says_what_differs() {
        let of = |from, rows, to| state().differs(from, rows, to);
        assert_eq!(of("rows.csv", "csv", "http://chat:7400"), None);
        let other = of("rows.csv", "csv", "http://talk:7400").unwrap();
        assert!(other.contains("goes to \"http://chat:7400\", and this import goes to"));
        assert!(of("old.csv", "csv", "http://chat:7400").is_some());
        assert!(of("rows.csv", "tsv", "http://chat:7400").is_some());
    }
}
