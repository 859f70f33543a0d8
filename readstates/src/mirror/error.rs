//! What can go wrong, and the exit status that tells scripts apart.

use std::{io, net::SocketAddr, path::PathBuf, time::Duration};

use super::routes::RoutesError;
use crate::config::ServiceError;

/// Why it did not start, or how it stopped.
#[derive(Debug, thiserror::Error)]
pub enum MirrorError {
    /// The old system has another kind of URL.
    #[error("--old: {0:?} is not http://HOST[:PORT] or https://HOST[:PORT]")]
    Old(String),
    /// The CAs of the old system cannot be read.
    #[error("--old-ca-file: failed to read {}", file.display())]
    CaFile { file: PathBuf, source: io::Error },
    /// There is no client for the old system.
    #[error("--old, --old-ca-file: failed to set up the HTTP client")]
    Client(#[from] reqwest::Error),
    /// The service cannot be asked.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// The routes cannot be used.
    #[error("--routes {}", file.display())]
    Routes {
        file: PathBuf,
        /// What is wrong in it.
        source: RoutesError,
    },
    /// Without reads nothing is compared and nobody can be served.
    #[error("--serve: no route of {} reads; add one with `does: read`", file.display())]
    NothingToServe {
        /// The file of the routes.
        file: PathBuf,
    },
    /// Differences cannot be written down.
    #[error("--differences: failed to open {}", file.display())]
    Differences { file: PathBuf, source: io::Error },
    /// An address cannot be listened on.
    #[error("{flag}: failed to listen on {address}; give an address that is free")]
    Listen {
        flag: &'static str,
        /// What it is.
        address: SocketAddr,
        source: io::Error,
    },
    /// Signals cannot be waited for.
    #[error("failed to take over the signals")]
    Signals(#[source] io::Error),
    /// It was told to stop, and to stop at once.
    #[error("stopped by a second signal; {0} writes had not reached the service")]
    Hurried(usize),
    /// The time for a stop was over.
    #[error(
        "{writes} writes did not reach the service within {within:?}; the old system has them, or may have them: compare again, \
         or import once more"
    )]
    Left {
        writes: usize,
        /// How long it was tried.
        within: Duration,
    },
}

impl MirrorError {
    /// 3: the routes are refused; 4: writes did not reach the service before the end; 1: it failed otherwise. (2 is
    /// wrong usage.)
    #[must_use]
    pub fn exit_status(&self) -> u8 {
        match self {
            Self::Old(_) => 2,
            Self::Routes { .. } | Self::NothingToServe { .. } => 3,
            Self::Hurried(_) | Self::Left { .. } => 4,
            Self::CaFile { .. }
            | Self::Client(_)
            | Self::Service(_)
            | Self::Differences { .. }
            | Self::Listen { .. }
            | Self::Signals(_) => 1,
        }
    }
}
