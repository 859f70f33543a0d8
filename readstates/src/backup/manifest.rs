//! A backup: when it was made, of what, and its chunks.

use jiff::Timestamp;
use readstates_ring::Stamp;
use serde::{Deserialize, Serialize};

use super::BackupId;

/// The only format there is.
pub(super) const FORMAT: u32 = 1;

/// A backup.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Manifest {
    /// Always [`FORMAT`].
    pub(super) format: u32,
    pub(super) id: BackupId,
    /// The store: hosts and keyspace, or a folder.
    pub(super) source: String,
    pub(super) finished: Timestamp,
    pub(super) users: u64,
    /// The highest stamp of a row, as the database has it; absent when there are no rows.
    pub(super) highest_stamp: Option<i64>,
    /// In the order of ranges, and of rows within each.
    pub(super) chunks: Vec<ChunkEntry>,
}

/// A chunk of a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ChunkEntry {
    /// The SHA-256 of its rows, keyed where there is a key.
    pub(super) name: String,
    pub(super) users: u64,
    /// Length of its rows.
    pub(super) bytes: u64,
    /// Length of the object.
    pub(super) stored: u64,
}

impl Manifest {
    pub(super) fn highest(&self) -> Option<Stamp> {
        self.highest_stamp.map(Stamp::from_database)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.chunks.iter().map(|chunk| chunk.bytes).sum()
    }

    pub(super) fn stored(&self) -> u64 {
        self.chunks.iter().map(|chunk| chunk.stored).sum()
    }
}
