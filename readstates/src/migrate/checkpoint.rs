//! The file that records how far the work is.
//!
//! It is replaced as a whole, by a rename, and says no more than what is done: rows up to a position are in the target
//! before the file says so. A file and not a table: it needs no rights in a database and leaves nothing there, and works
//! for each kind of store. Nothing that was copied depends on it: without it, the work begins from the start.

use std::{
    fs::{self, File, TryLockError},
    io::{self, Write},
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{MigrateError, compare::Tally, end::EndName};

/// The only format there is.
const FORMAT: u32 = 1;

/// What is in the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Content {
    format: u32,
    source: EndName,
    target: EndName,
    /// The copying pass that is not over.
    pub(super) copying: Option<PassState>,
    /// The verification that is not over.
    pub(super) verifying: Option<PassState>,
    /// Passes that are over, oldest first.
    pub(super) passes: Vec<PassDone>,
}

/// A pass that is not over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PassState {
    pub(super) begun: Timestamp,
    /// How far each range is.
    pub(super) ranges: Vec<Reached>,
    pub(super) tally: Tally,
}

/// How far a range is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Reached {
    /// Not begun.
    Begin,
    /// Up to this user, in the order of the range.
    After(u64),
    /// To its end.
    End,
}

/// A pass that is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PassDone {
    pub(super) verifying: bool,
    pub(super) begun: Timestamp,
    pub(super) ended: Timestamp,
    pub(super) tally: Tally,
}

impl PassState {
    pub(super) fn new(ranges: usize) -> Self {
        Self {
            begun: Timestamp::now(),
            ranges: vec![Reached::Begin; ranges],
            tally: Tally::default(),
        }
    }
}

/// The file, which no other process has while this is there.
#[derive(Debug)]
pub(super) struct CheckpointFile {
    path: PathBuf,
    /// Locked for as long as it is open. Another file than the one that is replaced.
    _lock: File,
}

impl CheckpointFile {
    /// Opens the file of a move; what is in it, if it is there.
    pub(super) fn open(path: &Path) -> Result<(Self, Option<Content>), MigrateError> {
        let failed = |source| MigrateError::Checkpoint {
            attempt: "lock",
            file: path.to_owned(),
            source,
        };
        let lock = beside(path, "lock");
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(lock);
        let lock = lock.map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let file = path.to_owned();
                return Err(MigrateError::InUse { file });
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let file = Self {
            path: path.to_owned(),
            _lock: lock,
        };
        let content = Self::peek(path)?;
        Ok((file, content))
    }

    /// What is in the file, if it is there; it stays as it is, and another process may have it.
    pub(super) fn peek(path: &Path) -> Result<Option<Content>, MigrateError> {
        let text = match fs::read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => {
                return Err(MigrateError::Checkpoint {
                    attempt: "read",
                    file: path.to_owned(),
                    source,
                });
            }
        };
        let content = parse(&text).map_err(|source| MigrateError::Unreadable {
            file: path.to_owned(),
            source,
        })?;
        Ok(Some(content))
    }

    /// Puts it in place: whole, and on the disk.
    pub(super) fn put(&self, content: &Content) -> Result<(), MigrateError> {
        // Numbers, strings and lists: nothing that JSON cannot say.
        let text = serde_json::to_string(content).unwrap_or_default() + "\n";
        self.replace(text.as_bytes())
            .map_err(|source| MigrateError::Checkpoint {
                attempt: "write",
                file: self.path.clone(),
                source,
            })
    }

    fn replace(&self, text: &[u8]) -> io::Result<()> {
        let new = beside(&self.path, "new");
        let mut file = File::create(&new)?;
        file.write_all(text)?;
        file.sync_all()?;
        fs::rename(&new, &self.path)?;
        let folder = self.path.parent().filter(|folder| *folder != Path::new(""));
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    }
}

impl Content {
    pub(super) fn new(source: EndName, target: EndName) -> Self {
        Self {
            format: FORMAT,
            source,
            target,
            copying: None,
            verifying: None,
            passes: Vec::new(),
        }
    }

    /// Refuses what is of another move. The hosts by which a database is reached may be others than before.
    pub(super) fn is_of(
        &self,
        file: &Path,
        source: &EndName,
        target: &EndName,
    ) -> Result<(), MigrateError> {
        if (&self.source.id, &self.target.id) == (&source.id, &target.id) {
            return Ok(());
        }
        Err(MigrateError::OtherMove {
            file: file.to_owned(),
            source_name: self.source.name.clone(),
            target_name: self.target.name.clone(),
        })
    }
}

fn parse(text: &[u8]) -> Result<Content, serde_json::Error> {
    #[derive(Deserialize)]
    struct Format {
        format: u32,
    }
    let Format { format } = serde_json::from_slice(text)?;
    if format != FORMAT {
        let unknown = format!("format {format} is unknown");
        return Err(serde::de::Error::custom(unknown));
    }
    serde_json::from_slice(text)
}

/// The path with one more ending.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(id: &str) -> EndName {
        EndName {
            name: format!("cql://{id}/x"),
            id: id.into(),
        }
    }

    #[test]
    fn what_was_put_is_read_again_by_one_process_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("move.json");
        let (file, found) = CheckpointFile::open(&path).unwrap();
        assert_eq!(found, None);
        let mut content = Content::new(name("a"), name("b"));
        let mut state = PassState::new(3);
        state.ranges = vec![Reached::End, Reached::After(u64::MAX), Reached::Begin];
        content.copying = Some(state);
        file.put(&content).unwrap();
        let refused = CheckpointFile::open(&path).unwrap_err();
        assert!(matches!(refused, MigrateError::InUse { .. }), "{refused}");
        // A Job tries again: what had it may be the pod before, which is still ending.
        assert_eq!(refused.exit_status(), 1);
        drop(file);
        let (file, found) = CheckpointFile::open(&path).unwrap();
        assert_eq!(found, Some(content.clone()));
        // A kill in the middle of a write leaves the one before.
        fs::write(folder.path().join("move.json.new"), "{\"form").unwrap();
        drop(file);
        assert_eq!(CheckpointFile::open(&path).unwrap().1, Some(content));
    }

    #[test]
    fn a_file_of_another_move_or_program_is_refused_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("move.json");
        let content = Content::new(name("a"), name("b"));
        assert!(content.is_of(&path, &name("a"), &name("b")).is_ok());
        for (source, target) in [("b", "a"), ("a", "c"), ("c", "b")] {
            let refused = content
                .is_of(&path, &name(source), &name(target))
                .unwrap_err();
            assert_eq!(refused.exit_status(), 3, "{refused}");
        }
        for text in [
            "",
            "{}",
            "[1]",
            "{\"format\":2}",
            "{\"format\":1}",
            "users,channels",
        ] {
            fs::write(&path, text).unwrap();
            let refused = CheckpointFile::open(&path).unwrap_err();
            assert!(
                matches!(refused, MigrateError::Unreadable { .. }),
                "{text}: {refused}"
            );
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
    }

    #[test]
    fn a_disk_that_takes_nothing_is_told_with_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let (file, _) = CheckpointFile::open(&folder.path().join("move.json")).unwrap();
        drop(folder);
        let failed = file.put(&Content::new(name("a"), name("b"))).unwrap_err();
        assert!(failed.to_string().contains("move.json"), "{failed}");
        assert_eq!(failed.exit_status(), 1);
    }
}
