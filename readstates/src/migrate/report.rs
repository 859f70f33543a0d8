//! The result for programs: JSON in a file, written only when everything is done.

use std::fs;

use serde::Serialize;

use super::{MigrateError, checkpoint::PassDone};
use crate::config::ReportArgs;

/// What was done.
#[derive(Debug, Serialize)]
pub(super) struct Report<'a> {
    pub(super) source: &'a str,
    pub(super) target: &'a str,
    /// Nothing was written.
    pub(super) dry_run: bool,
    /// The passes of this run, oldest first.
    pub(super) passes: &'a [PassDone],
}

/// Writes a report where one is asked for. In place: /dev/termination-log cannot be replaced by another file.
pub(super) fn write(args: &ReportArgs, report: &Report<'_>) -> Result<(), MigrateError> {
    let ReportArgs { report: file } = args;
    let Some(file) = file else { return Ok(()) };
    // Numbers, strings and lists: nothing that JSON cannot say.
    let text = serde_json::to_string(report).unwrap_or_default() + "\n";
    fs::write(file, text).map_err(|source| MigrateError::Report {
        file: file.clone(),
        source,
    })
}
