//! What can go wrong, with the next step, and the exit status that tells scripts apart.

use std::{io, path::PathBuf};

use super::{BackupId, OnceRefusal, chunk::Misplaced, seal::SealError};
use crate::{
    config::{ConfigError, StoreConfig},
    journal::JournalError,
    offline::NotOpened,
    store::StoreError,
};

/// Why it is not done.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The login cannot be read.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The key cannot be used.
    #[error(
        "--encryption-key-file: {file:?} has no key: give a file of exactly 32 bytes, made with \
         `head -c 32 /dev/urandom > FILE`"
    )]
    Key {
        file: PathBuf,
        /// The cause, when it cannot be read.
        source: Option<io::Error>,
    },
    /// The CAs of the store cannot be used.
    #[error(
        "--backups-ca-file: {file:?} has no certificates that can be used: give the CAs as PEM"
    )]
    Ca {
        file: PathBuf,
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The folder of the backups is not there.
    #[error("--backups: there is no folder {0:?}; `readstates backup create` makes it")]
    NoFolder(PathBuf),
    /// An object cannot be read, written, listed or deleted.
    #[error("failed to {attempt}")]
    Objects {
        attempt: String,
        source: object_store::Error,
    },
    /// An object is not what was written.
    #[error("object {object}")]
    Sealed {
        object: String,
        /// What is wrong with it.
        source: SealError,
    },
    /// The backups of the place have another key.
    #[error(
        "--encryption-key-file: the backups here have another key, or none, and one that is added with this could not be \
         listed and pruned together with them: give their key, or another place. Object {object}"
    )]
    OtherKey {
        object: String,
        /// Why it cannot be read with this one.
        source: SealError,
    },
    /// A manifest cannot be understood.
    #[error("object {object} is no manifest that this version of readstates knows")]
    Manifest {
        object: String,
        source: serde_json::Error,
    },
    /// There is no such backup.
    #[error("there is no backup {0}; `readstates backup list` shows those that there are")]
    NoBackup(String),
    /// The store cannot be opened.
    #[error("--store")]
    NotOpened(#[from] NotOpened),
    /// There is no store.
    #[error("--store: there is no store in {0:?}; give the folder that `readstates serve` has")]
    NoStore(PathBuf),
    /// A store in memory is another process's.
    #[error(
        "--store: a store in memory cannot be reached from outside; give embedded:DIR or cql://…"
    )]
    Memory,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Rows of a chunk cannot be told apart.
    #[error("chunk {chunk}")]
    Chunk { chunk: String, source: Misplaced },
    /// The system gives no random bytes.
    #[error("failed to get random bytes from the system")]
    Random,
    /// A thread for compression ended.
    #[error("failed to pack or unpack a chunk")]
    Packing(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Another process is at work that must not be meanwhile.
    #[error(
        "{marker} is at work on these backups: wait until it has ended. If it was killed, its mark does not count any \
         more after an hour"
    )]
    Busy {
        /// Its mark.
        marker: String,
    },
    /// This process was away for so long that others may not have counted it any more.
    #[error(
        "this process was suspended for too long, and others may have deleted what it needs; run it again"
    )]
    Suspended,
    /// The destination has rows.
    #[error(
        "the destination is not empty ({rows} rows were seen, {others} of them not from this backup): give an empty \
         one, or --overwrite to write over it, or --user ID to restore one user"
    )]
    NotEmpty {
        /// Rows seen.
        rows: u64,
        /// Those that this restore has not written.
        others: u64,
    },
    /// The store is not one that a restore is recorded in.
    #[error(
        "--once: a restore is recorded in a CQL database only; for {0}, make sure that the store is empty and restore \
         without --once"
    )]
    NoRecord(StoreConfig),
    /// A restore that is done once must not be done here.
    #[error(transparent)]
    Once(#[from] OnceRefusal),
    /// The rows in the end are not those of the backup.
    #[error(
        "the backup has {wanted} users, and {rows} are there after all were written: run it again, everything is \
         written again then"
    )]
    Incomplete {
        /// Users of the backup.
        wanted: u64,
        /// Rows that are there.
        rows: u64,
    },
    /// What was restored is not there.
    #[error(
        "user {user} was written and is not there: something newer hides it, such as a row that was deleted within the last \
         minute or by a clock that is ahead. Wait a minute, and run it again"
    )]
    Hidden { user: u64 },
    /// Stamps are too far ahead.
    #[error(
        "the highest stamp known is {hours} hours ahead of this machine's clock, and no member would serve above it: \
         set the clock"
    )]
    ClockBehind {
        /// By how much.
        hours: i64,
    },
    /// The user is not in the backup.
    #[error("user {user} is not in backup {backup}")]
    NoUser { user: u64, backup: BackupId },
    /// What was read is damaged; the rest is done.
    #[error("{problems} problems: {}", first.join("; "))]
    Damaged {
        problems: u64,
        /// The first of them.
        first: Vec<String>,
    },
    /// The work is done, and the report cannot be written.
    #[error("everything was done, but --report: failed to write {file:?}")]
    Report { file: PathBuf, source: io::Error },
    /// Manifests cannot be read.
    #[error("{unreadable} backups cannot be read: the list says why")]
    Unreadable { unreadable: usize },
}

impl BackupError {
    pub(super) fn objects(attempt: impl Into<String>) -> impl FnOnce(object_store::Error) -> Self {
        let attempt = attempt.into();
        |source| Self::Objects { attempt, source }
    }

    /// 3: refused, nothing was changed; 4: something is damaged; 1: it failed otherwise. (2 is wrong usage.)
    #[must_use]
    pub fn exit_status(&self) -> u8 {
        match self {
            Self::NotEmpty { .. }
            | Self::Busy { .. }
            | Self::ClockBehind { .. }
            | Self::Once(_)
            | Self::NoRecord(_)
            | Self::OtherKey { .. }
            | Self::NoUser { .. } => 3,
            Self::Damaged { .. }
            | Self::Unreadable { .. }
            | Self::NotOpened(NotOpened::Journal(JournalError::Damaged { .. }))
            | Self::Sealed {
                source:
                    SealError::Missing
                    | SealError::Unknown
                    | SealError::Checksum
                    | SealError::Decryption
                    | SealError::OtherContent
                    | SealError::Compression,
                ..
            }
            | Self::Manifest { .. }
            | Self::Chunk { .. } => 4,
            // A Job tries again: the table may have been made by then.
            Self::NotOpened(_)
            | Self::Config(_)
            | Self::Key { .. }
            | Self::Ca { .. }
            | Self::NoFolder(_)
            | Self::Objects { .. }
            | Self::NoBackup(_)
            | Self::Sealed {
                source: SealError::NoKey | SealError::NotEncrypted,
                ..
            }
            | Self::NoStore(_)
            | Self::Memory
            | Self::Store(_)
            | Self::Random
            | Self::Packing(_)
            | Self::Report { .. }
            | Self::Incomplete { .. }
            | Self::Hidden { .. }
            | Self::Suspended => 1,
        }
    }
}

/// Problems that do not end the work: counted, and the first ones kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Damage {
    pub(super) problems: u64,
    pub(super) first: Vec<String>,
}

/// Problems that are told one by one.
const MOST_TOLD: usize = 20;

impl Damage {
    pub(crate) fn add(&mut self, problem: impl FnOnce() -> String) {
        self.problems += 1;
        if self.first.len() < MOST_TOLD {
            self.first.push(problem());
        }
    }

    pub(super) fn merge(&mut self, other: Self) {
        let Self { problems, first } = other;
        self.problems += problems;
        let room = MOST_TOLD - self.first.len();
        self.first.extend(first.into_iter().take(room));
    }

    pub(crate) fn result(&self) -> Result<(), BackupError> {
        match self.problems {
            0 => Ok(()),
            problems => Err(BackupError::Damaged {
                problems,
                first: self.first.clone(),
            }),
        }
    }
}
