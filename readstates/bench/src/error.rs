//! Why a measurement failed.

use std::{io, path::PathBuf};

use crate::{config::ConfigError, settle::SettleError};

/// Why there is no report, or one that does not hold.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The flags make no sense.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The machine refused threads, sockets or the like.
    #[error("failed to run the load")]
    Run(#[source] io::Error),
    /// Nothing was answered.
    #[error("no operation succeeded ({failures}); is there a member at {urls}?")]
    NothingSucceeded {
        /// What happened instead.
        failures: String,
        /// Where it was tried.
        urls: String,
    },
    /// Not every channel could be filled.
    #[error("no operation succeeded for 30 s; {done} of {wanted} {what} were done ({failures})")]
    Sweep {
        what: &'static str,
        /// What happened instead.
        failures: String,
        /// As many were.
        done: u64,
        /// As many were to be.
        wanted: u64,
    },
    /// The states could not be read at the end.
    #[error("--check")]
    Settle(#[from] SettleError),
    /// The plot could not be written.
    #[error("--plot: failed to write {file:?}")]
    Plot { file: PathBuf, source: io::Error },
    /// Something was lost or doubled.
    #[error(
        "--check: {lost} acknowledged operations are lost, {doubled} doubled, {foreign} were never sent"
    )]
    DoesNotHold {
        lost: u64,
        doubled: u64,
        /// Never sent.
        foreign: u64,
    },
}
