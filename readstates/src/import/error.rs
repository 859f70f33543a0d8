//! What can go wrong, with the next step, and the exit status that tells scripts apart.

use std::{io, path::PathBuf, time::Duration};

use super::csv::ReadError;
use crate::rows::NoColumn;
use crate::{
    backup::BackupError,
    config::{ConfigError, ServiceError},
    store::StoreError,
};

/// Why it is not done.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// A combination of flags makes no sense.
    #[error("{0}")]
    Flags(String),
    /// The service cannot be asked.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// The file has other columns.
    #[error("--from: {0}")]
    Columns(#[from] NoColumn),
    /// The source cannot be read.
    #[error("--from: {name}")]
    Read { name: String, source: ReadError },
    /// The login of a CQL database cannot be read.
    #[error(transparent)]
    Login(#[from] ConfigError),
    /// The password of Redis cannot be read.
    #[error("--redis-password-file: failed to read {file:?}")]
    Password { file: PathBuf, source: io::Error },
    /// The database cannot be read.
    #[error("--from")]
    Database(#[from] StoreError),
    /// Redis cannot be read.
    #[error("--from: failed to read from Redis")]
    Redis(#[from] redis::RedisError),
    /// What reads the source is gone.
    #[error("--from: what reads it has failed and told no reason; run this again, and report it")]
    Reader,
    /// A checkpoint was made with another input.
    #[error(
        "--from: {name} is not the input of the checkpoint as far as that was read; give that one, or another \
         --checkpoint to start over"
    )]
    OtherInput { name: String },
    /// The input ends before the place of the checkpoint.
    #[error(
        "--from: {name} has less than the {bytes} bytes that the checkpoint has seen; give the same input, or another \
         --checkpoint to start over"
    )]
    Shorter { name: String, bytes: u64 },
    /// The checkpoint cannot be read or written.
    #[error("--checkpoint: {file:?}")]
    Checkpoint { file: PathBuf, source: io::Error },
    /// The checkpoint is another process's.
    #[error("--checkpoint: another import is at work with {0:?}")]
    InUse(PathBuf),
    /// The checkpoint is of another import.
    #[error(
        "--checkpoint: {file:?} is of another import: {differs}; give another file to start over"
    )]
    OtherImport { file: PathBuf, differs: String },
    /// Bad rows cannot be written down.
    #[error("--bad-rows: failed to write {file:?}")]
    BadRowsFile { file: PathBuf, source: io::Error },
    /// There are more bad rows than may be.
    #[error(
        "{bad} rows are bad, and --max-bad-rows allows {allowed}: {}{}",
        first.join("; "),
        if *bad > first.len() as u64 { "; …" } else { "" }
    )]
    BadRows {
        bad: u64,
        /// How many there may be.
        allowed: u64,
        /// The first of them.
        first: Vec<String>,
    },
    /// The service admits no caller, or not this one.
    #[error("the service refuses the import; its caller needs the verbs write and import")]
    Refused(#[source] readstates_client::Error),
    /// A member is of a release without imports.
    #[error(
        "a member of the service is of a release that cannot import; upgrade all members, and run this again"
    )]
    TooOld,
    /// The service takes nothing.
    #[error(
        "the service took no row for {patience:?}; see why, and run this again{}",
        if source.is_none() { ": it is over a limit, or its database is away" } else { "" }
    )]
    NotTaken {
        /// How long it was tried.
        patience: Duration,
        source: Option<readstates_client::Error>,
    },
    /// The work is done, and the report cannot be written.
    #[error(transparent)]
    Report(BackupError),
}

impl ImportError {
    /// 3: refused, and nothing more is sent; 4: rows are bad; 1: it failed otherwise, and goes on when it is run again
    /// with its checkpoint. (2 is wrong usage.)
    #[must_use]
    pub fn exit_status(&self) -> u8 {
        match self {
            Self::Flags(_) => 2,
            Self::Columns(_)
            | Self::OtherInput { .. }
            | Self::Shorter { .. }
            | Self::InUse(_)
            | Self::OtherImport { .. }
            | Self::Refused(_)
            | Self::TooOld => 3,
            Self::BadRows { .. }
            | Self::Read {
                source: ReadError::Endless { .. },
                ..
            } => 4,
            Self::Service(_)
            | Self::Login(_)
            | Self::Password { .. }
            | Self::Database(_)
            | Self::Redis(_)
            | Self::Reader
            | Self::Read {
                source: ReadError::Io(_),
                ..
            }
            | Self::Checkpoint { .. }
            | Self::BadRowsFile { .. }
            | Self::NotTaken { .. }
            | Self::Report(_) => 1,
        }
    }
}
