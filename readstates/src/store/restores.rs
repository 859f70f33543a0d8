//! The record of a restore, kept where the blocks are: what was restored, how far it is, whether members have served.
//!
//! A restore must not write into a store from which members serve, and members must not serve from half of a backup.
//! Each says what it begins before it looks for the other, so that of two that begin at once at least one sees the other:
//! ```text
//! restore: no member has served? ─▶ write `begun`  ─▶ a member has served? ─▶ withdraw
//! member:  no restore is half done? ─▶ write `served` ─▶ a restore has begun? ─▶ wait for its end
//! ```

use futures::future::BoxFuture;
use jiff::Timestamp;

use super::StoreError;

/// What a store tells of restores into it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RestoreRecord {
    /// The restore; `None`: none was begun.
    pub begun: Option<BegunRestore>,
    /// When a member first began to serve from this store.
    pub served: Option<Timestamp>,
}

/// A restore that was begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BegunRestore {
    /// For which cluster.
    pub claim: String,
    /// Id of the backup.
    pub backup: String,
    /// When it was begun.
    pub since: Timestamp,
    /// All chunks before this one are written.
    pub chunks: u64,
    /// When everything was there; `None`: it is half done.
    pub finished: Option<Timestamp>,
}

/// Where the record is kept. What was written is seen by every later reader.
pub trait RestoreRecords: Send + Sync {
    /// The record as it is now.
    fn read(&self) -> BoxFuture<'_, Result<RestoreRecord, StoreError>>;

    /// A restore is begun.
    fn begin<'a>(&'a self, begun: &'a BegunRestore) -> BoxFuture<'a, Result<(), StoreError>>;

    /// It was not begun after all.
    fn withdraw(&self) -> BoxFuture<'_, Result<(), StoreError>>;

    /// All chunks before this one are written.
    fn reached(&self, chunks: u64) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Everything is there.
    fn finish(&self, at: Timestamp) -> BoxFuture<'_, Result<(), StoreError>>;
}
