//! What can go wrong, with the exit status that tells scripts apart.

use std::io;

use super::BackupError;

/// Why it is not done.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The store or the backup cannot be read, or not all of it; or the report cannot be written.
    #[error(transparent)]
    Source(#[from] BackupError),
    /// There is nothing to export.
    #[error("give --store or --backups")]
    NoSource,
    /// Rows cannot be written.
    #[error("failed to write the rows to {name}")]
    Output { name: String, source: io::Error },
}

impl ExportError {
    /// As those of backups: 3 refused, 4 something is damaged, 1 it failed otherwise.
    #[must_use]
    pub fn exit_status(&self) -> u8 {
        match self {
            Self::Source(error) => error.exit_status(),
            Self::NoSource | Self::Output { .. } => 1,
        }
    }
}
