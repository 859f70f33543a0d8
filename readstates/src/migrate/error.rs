//! What can go wrong, with the next step, and the exit status that tells scripts apart.

use std::{io, net::SocketAddr, path::PathBuf};

use crate::{config::ConfigError, offline::NotOpened, store::StoreError};

/// Why it is not done.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    /// A login cannot be read.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A store in memory is another process's.
    #[error(
        "{flag}: a store in memory cannot be reached from outside; give embedded:DIR or cql://…"
    )]
    Memory { flag: &'static str },
    /// There is no store.
    #[error("{flag}: there is no store in {folder:?}")]
    NoStore { flag: &'static str, folder: PathBuf },
    /// A store cannot be opened.
    #[error("{flag}")]
    NotOpened {
        flag: &'static str,
        source: NotOpened,
    },
    /// Reading or writing failed, again and again.
    #[error(
        "failed to {attempt}; given up after {tried_seconds} s. Run it again: it goes on where it was"
    )]
    Store {
        attempt: String,
        /// For how long it was tried.
        tried_seconds: u64,
        source: StoreError,
    },
    /// Source and target are one table.
    #[error("--to: {0} is the table of --store; give another one")]
    Same(String),
    /// The target has rows that are not of the source.
    #[error(
        "--to: the target has rows that are not as the source has them ({example}), and --checkpoint {checkpoint:?} \
         knows of no earlier run: give an empty target. If they are of an earlier run, or of members that run on the \
         target, give --merge: of each user, the newer write stays"
    )]
    NotEmpty {
        /// The first of them.
        example: String,
        /// The file that is not there.
        checkpoint: PathBuf,
    },
    /// The checkpoint is of another move.
    #[error(
        "--checkpoint: {file:?} is of a move from {source_name} to {target_name}, or one of these tables has been made \
         again since; give another file, or delete this one to begin from the start"
    )]
    OtherMove {
        file: PathBuf,
        source_name: String,
        target_name: String,
    },
    /// Another process has it.
    #[error("--checkpoint: {file:?} is in use by another process; stop that, or give another file")]
    InUse { file: PathBuf },
    /// The checkpoint cannot be understood.
    #[error(
        "--checkpoint: {file:?} is no file that this version of readstates has written; give another one, or delete \
         this one to begin from the start"
    )]
    Unreadable {
        file: PathBuf,
        source: serde_json::Error,
    },
    /// The checkpoint cannot be read or written.
    #[error("--checkpoint: failed to {attempt} {file:?}; what was copied stays copied")]
    Checkpoint {
        attempt: &'static str,
        file: PathBuf,
        source: io::Error,
    },
    /// Rows differ, or could not be copied.
    #[error("{problems} problems: {}", first.join("; "))]
    Differs {
        problems: u64,
        /// The first of them.
        first: Vec<String>,
    },
    /// The passes are over.
    #[error(
        "the last of {passes} passes still had to copy {copied} users, more than --until {until}: members change as \
         many meanwhile. Raise --rate, --parallel or --until, or stop the members, and run it again"
    )]
    Behind {
        /// How many passes were made.
        passes: u32,
        /// Users copied in the last one.
        copied: u64,
        /// How many they may be.
        until: u64,
    },
    /// Progress cannot be told.
    #[error("--progress-listen: failed to listen on {address}; give an address that is free")]
    Listen {
        address: SocketAddr,
        source: io::Error,
    },
    /// The work is done, and the report cannot be written.
    #[error("everything was done, but --report: failed to write {file:?}")]
    Report { file: PathBuf, source: io::Error },
}

impl MigrateError {
    /// 3: refused, nothing was changed; 4: rows differ or could not be copied; 5: the passes are over; 1: it failed
    /// otherwise. (2 is wrong usage.)
    #[must_use]
    pub fn exit_status(&self) -> u8 {
        match self {
            Self::NotOpened {
                source: NotOpened::Refused(_),
                ..
            }
            | Self::Same(_)
            | Self::NotEmpty { .. }
            | Self::OtherMove { .. } => 3,
            Self::Differs { .. } => 4,
            Self::Behind { .. } => 5,
            Self::Config(_)
            | Self::Memory { .. }
            | Self::NoStore { .. }
            | Self::NotOpened {
                source: NotOpened::Open(_) | NotOpened::Journal(_) | NotOpened::Away(_),
                ..
            }
            | Self::Store { .. }
            | Self::Unreadable { .. }
            // The process that has it ends: of a pod that was replaced, in a moment.
            | Self::InUse { .. }
            | Self::Checkpoint { .. }
            | Self::Listen { .. }
            | Self::Report { .. } => 1,
        }
    }
}
