//! Claim on a super-disk of this node: a lock that lives as long as the process that holds it, and a record of the pod
//! and its arrays that outlives it, for [`crate::reap`].
//!
//! Both are files of the state folder, named after the volume. It is a folder in memory: a reboot empties it as it
//! ends all arrays.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// What the record says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    pub volume: String,
    /// The pod that it was assembled for; `None` when that was not given.
    pub pod: Option<String>,
    /// Where it is mounted.
    pub mount: PathBuf,
    /// Device of the durable leg, as it was named.
    pub durable: PathBuf,
    /// Devices of the fast leg, as they were named.
    pub local: Vec<String>,
    /// How many there are.
    pub local_count: usize,
}

/// A lock that is held until this value is dropped, or the process ends, however it ends.
#[derive(Debug)]
pub struct Claim {
    _lock: File,
}

/// Why a super-disk could not be claimed.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// Another process holds it.
    #[error("another process holds the volume {0} on this node")]
    Taken(String),
    /// The state folder cannot be used.
    #[error("failed to write {path}")]
    Io {
        /// Which file.
        path: PathBuf,
        source: io::Error,
    },
}

impl Claim {
    /// Takes the lock of a volume, at once or not at all.
    pub fn take(folder: &Path, volume: &str) -> Result<Self, ClaimError> {
        let path = lock_path(folder, volume);
        let failed = |source: io::Error| ClaimError::Io {
            path: path.clone(),
            source,
        };
        fs::create_dir_all(folder).map_err(failed)?;
        let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let lock = rustix::fs::open(&path, flags, mode).map_err(|error| failed(error.into()))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { _lock: lock.into() }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(ClaimError::Taken(volume.to_owned())),
            Err(error) => Err(failed(error.into())),
        }
    }
}

fn lock_path(folder: &Path, volume: &str) -> PathBuf {
    folder.join(format!("{volume}.lock"))
}

/// Files of one volume in the state folder, each a JSON object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateFolder {
    folder: PathBuf,
    volume: String,
}

impl StateFolder {
    /// Of this volume.
    #[must_use]
    pub fn new(folder: &Path, volume: &str) -> Self {
        Self {
            folder: folder.to_owned(),
            volume: volume.to_owned(),
        }
    }

    /// `kind` is such as `record`, `memory`, `patrol`, `snapshot`. A file that is not there, or is not to be understood, is as
    /// good as none: it was of another version, and only remembers.
    #[must_use]
    pub fn load<T: DeserializeOwned>(&self, kind: &str) -> Option<T> {
        let text = fs::read_to_string(self.path(kind)).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// Keeps the record of the pod that uses the volume from now on. Where it cannot be written, none stays: an earlier pod's
    /// would let [`crate::reap`] take the super-disk down as soon as that one is gone.
    pub fn keep_record(&self, record: &Record) -> Result<(), ClaimError> {
        if self.load("record").as_ref() == Some(record) {
            return Ok(());
        }
        self.save("record", record).inspect_err(|_| {
            // The caller says what is wrong with the folder.
            let _ = self.forget_record();
        })
    }

    /// Replaces the file as a whole.
    pub fn save<T: Serialize>(&self, kind: &str, value: &T) -> Result<(), ClaimError> {
        let path = self.path(kind);
        let beside = path.with_extension("new");
        let written = || {
            fs::create_dir_all(&self.folder)?;
            let text = serde_json::to_string(value)?;
            fs::write(&beside, text)?;
            fs::rename(&beside, &path)
        };
        let written = written().inspect_err(|_| {
            // In a full folder, half a file is in the way.
            let _ = fs::remove_file(&beside);
        });
        written.map_err(|source| ClaimError::Io {
            path: path.clone(),
            source,
        })
    }

    /// Removes the record: whichever pod it named, it is not the one that uses the volume now.
    pub fn forget_record(&self) -> io::Result<()> {
        match fs::remove_file(self.path("record")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Removes all files of the volume but its lock, which others may be waiting for.
    pub fn forget(&self) -> io::Result<()> {
        let prefix = format!("{}.", self.volume);
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let ours = name.strip_prefix(&prefix);
            if ours.is_some_and(|kind| KINDS.contains(&kind)) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    fn path(&self, kind: &str) -> PathBuf {
        self.folder.join(format!("{}.{kind}.json", self.volume))
    }
}

/// What is remembered of a volume.
const KINDS: [&str; 5] = [
    "record.json",
    "memory.json",
    "patrol.json",
    "snapshot.json",
    "sock",
];

/// A record that cannot be read or understood.
#[derive(Debug)]
pub struct Unread {
    /// As its name says.
    pub volume: String,
    pub path: PathBuf,
    pub source: io::Error,
}

/// The records of all volumes, by file name. No folder, no records.
pub fn records(folder: &Path) -> io::Result<Vec<Result<Record, Unread>>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some(volume) = name.strip_suffix(".record.json") {
            found.push((entry.path(), volume.to_owned()));
        }
    }
    found.sort();
    let read = |(path, volume): (PathBuf, String)| {
        let text = fs::read_to_string(&path);
        match text.and_then(|text| Ok(serde_json::from_str(&text)?)) {
            // Its agent has ended meanwhile.
            Err(source) if source.kind() == io::ErrorKind::NotFound => None,
            Err(source) => Some(Err(Unread {
                volume,
                path,
                source,
            })),
            Ok(record) => Some(Ok(record)),
        }
    };
    Ok(found.into_iter().filter_map(read).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(folder: &Path) -> Vec<Record> {
        let all = records(folder).unwrap();
        all.into_iter().map(Result::unwrap).collect()
    }

    fn record(volume: &str) -> Record {
        Record {
            volume: volume.to_owned(),
            pod: Some("8d5b".to_owned()),
            mount: "/data".into(),
            durable: "/dev/sdb".into(),
            local: vec!["/dev/nvme*".to_owned()],
            local_count: 2,
        }
    }

    #[test]
    fn one_process_minds_a_volume_and_others_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("superdisk");
        let first = Claim::take(&state, "a").unwrap();
        Claim::take(&state, "b").unwrap();
        let second = Claim::take(&state, "a").unwrap_err();
        assert_eq!(
            second.to_string(),
            "another process holds the volume a on this node"
        );
        drop(first);
        Claim::take(&state, "a").unwrap();
    }

    #[test]
    fn what_is_remembered_is_found_again_and_forgotten_by_volume() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read(&folder.path().join("none")), []);
        let (one, two) = ("a", "a.b");
        for volume in [two, one] {
            let state = StateFolder::new(folder.path(), volume);
            state.save("record", &record(volume)).unwrap();
            state.save("memory", &1).unwrap();
        }
        assert_eq!(read(folder.path()), [record(two), record(one)]);
        StateFolder::new(folder.path(), one).forget().unwrap();
        assert_eq!(read(folder.path()), [record(two)]);
        let kept: Option<u8> = StateFolder::new(folder.path(), two).load("memory");
        assert_eq!(kept, Some(1));
    }

    #[test]
    fn a_record_can_be_forgotten_alone_and_twice() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateFolder::new(folder.path(), "a");
        state.save("record", &record("a")).unwrap();
        state.save("patrol", &1).unwrap();
        state.forget_record().unwrap();
        state.forget_record().unwrap();
        assert_eq!(read(folder.path()), []);
        assert_eq!(state.load::<u8>("patrol"), Some(1));
    }

    #[test]
    fn a_record_that_cannot_be_written_leaves_none_of_an_earlier_pod() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateFolder::new(folder.path(), "a");
        let later = Record {
            pod: Some("9e6c".to_owned()),
            ..record("a")
        };
        state.keep_record(&record("a")).unwrap();
        // Nobody can write where a folder is.
        fs::create_dir(folder.path().join("a.record.new")).unwrap();
        state.keep_record(&record("a")).unwrap();
        assert_eq!(read(folder.path()), [record("a")]);
        let error = state.keep_record(&later).unwrap_err();
        assert!(error.to_string().contains("a.record.json"), "{error}");
        assert_eq!(read(folder.path()), []);
        fs::remove_dir(folder.path().join("a.record.new")).unwrap();
        state.keep_record(&later).unwrap();
        assert_eq!(read(folder.path()), [later]);
    }

    #[test]
    fn a_record_that_cannot_be_read_hides_no_other_one() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateFolder::new(folder.path(), "b");
        state.save("record", &record("b")).unwrap();
        fs::write(folder.path().join("a.record.json"), "{\"volume\":").unwrap();
        fs::create_dir(folder.path().join("c.record.json")).unwrap();
        let found = records(folder.path()).unwrap();
        let found: Vec<_> = found
            .into_iter()
            .map(|one| one.map_err(|unread| unread.volume))
            .collect();
        let unread = |volume: &str| Err(volume.to_owned());
        assert_eq!(found, [unread("a"), Ok(record("b")), unread("c")]);
    }

    #[test]
    fn a_file_that_is_not_understood_is_as_good_as_none() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateFolder::new(folder.path(), "a");
        state.save("memory", &"text").unwrap();
        assert_eq!(state.load::<u8>("memory"), None);
        assert_eq!(state.load::<String>("memory").as_deref(), Some("text"));
    }
}
