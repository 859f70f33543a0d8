//! Results for programs: JSON in a file, written only when everything is done. So a file that is there tells of success,
//! and in a pod the last words of a process that failed take its place.

use std::{fs, path::Path};

use jiff::Timestamp;
use serde::Serialize;

use super::{BackupError, BackupId, list::Listed};
use crate::config::ReportArgs;

/// A backup that was made.
#[derive(Debug, Serialize)]
pub(super) struct CreateReport {
    #[serde(flatten)]
    pub(super) backup: Listed,
    /// Chunks that were not there before, and the bytes of their objects.
    pub(super) new_chunks: usize,
    pub(super) new_stored_bytes: u64,
}

/// A backup that was read, and is sound.
#[derive(Debug, Serialize)]
pub(super) struct VerifyReport<'a> {
    pub(super) id: &'a BackupId,
    pub(super) users: u64,
    pub(super) chunks: usize,
    /// Bytes of all rows.
    pub(super) bytes: u64,
}

/// A backup that was restored.
#[derive(Debug, Serialize)]
pub(super) struct RestoreReport<'a> {
    pub(super) id: &'a BackupId,
    /// Hosts and keyspace, or the folder, that it is a backup of; absent when its manifest is not there any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) source: Option<&'a str>,
    /// When the backup was complete; absent like `source`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) finished: Option<Timestamp>,
    /// Users of it that were restored; absent like `source`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) users: Option<u64>,
    /// When the restore was done.
    pub(super) restored: Timestamp,
    pub(super) dry_run: bool,
}

/// What was deleted or, in a dry run, would be.
#[derive(Debug, Serialize)]
pub(super) struct PruneReport {
    pub(super) dry_run: bool,
    pub(super) deleted_backups: usize,
    pub(super) deleted_chunks: usize,
    /// Bytes of their objects.
    pub(super) deleted_stored_bytes: u64,
    pub(super) kept_backups: usize,
}

/// Writes a report where one is asked for.
pub(crate) fn write(args: &ReportArgs, report: &impl Serialize) -> Result<(), BackupError> {
    let ReportArgs { report: file } = args;
    file.as_deref().map_or(Ok(()), |file| put(file, report))
}

/// In place: /dev/termination-log cannot be replaced by another file.
fn put(file: &Path, report: &impl Serialize) -> Result<(), BackupError> {
    // Numbers, strings and lists: nothing that JSON cannot say.
    let text = serde_json::to_string(report).unwrap_or_default() + "\n";
    fs::write(file, text).map_err(|source| BackupError::Report {
        file: file.to_owned(),
        source,
    })
}
