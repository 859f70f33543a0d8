//! What a new cluster begins with.

use super::BackupPlace;

/// What a new cluster begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestoreWish {
    /// The one of the `ReadStateBackup` of this name.
    Backup(String),
    /// One in this place.
    Place(Box<RestoreSource>),
    /// Copies of the volumes of a database, from the VolumeSnapshots of the backup of this name.
    Volumes(String),
    /// The table that the `ReadStateMigration` of this name moves here.
    Move(String),
}

/// A backup and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoreSource {
    /// Where it is.
    pub place: BackupPlace,
    /// Its id, or `latest`.
    pub snapshot: String,
}
