//! Where blocks are kept: one trait, three stores, and two of them as one.
//!
//! A store maps a user to the bytes of its block and to the [`Stamp`] of the write that put them
//! there. A write with a lower stamp than the stored one is accepted and has no effect: that is how
//! CQL timestamps work, and it is the fence against the late write of a process that has been
//! replaced. Of two writes with one stamp, the one with the greater bytes stays, as in CQL: which one
//! arrived first never matters. Stores know nothing of what the bytes mean.

mod cql;
mod embedded;
mod memory;
mod moving;
mod restores;
mod scan;

use std::fmt;

pub use cql::{
    Claim, ClaimName, CqlLogin, CqlRestores, CqlStore, CqlTarget, CqlTls, Credentials, Other,
    Replication, SUPERUSER, SchemaError, SchemaWish, SessionError, TABLE_OPTIONS, TakeOver,
    TlsFile, TlsFileError, TlsRefusal, apply_schema, apply_schema_with_roles,
};
pub(crate) use cql::{ForeignRow, ForeignScan, ForeignTable, bare, bracketed};
pub use embedded::{EmbeddedStore, OpenError};
use futures::future::BoxFuture;
pub use memory::MemoryStore;
pub use moving::MovingStore;
use readstates_api::admin::StoreKind;
use readstates_ring::Stamp;
pub use restores::{BegunRestore, RestoreRecord, RestoreRecords};
pub use scan::{Pages, Position, Row, Scan};

/// Whether a write takes the place of what is stored: by stamp, then by bytes, the longer of two that
/// begin alike being the greater. Stores that keep no timestamps themselves ask this.
fn wins(stamp: Stamp, bytes: &[u8], stored: (Stamp, &[u8])) -> bool {
    (stamp, bytes) > stored
}

/// A part of a database that can be ill while others are well: the users whose blocks lie on the same
/// replicas. Numbered below [`PARTS`]; where there are more sets of replicas, some share a number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Part(u8);

/// How many parts are told apart.
pub const PARTS: usize = 64;

impl Part {
    /// The part with this number, or the one that shares it.
    #[must_use]
    pub fn new(number: u64) -> Self {
        // Below 64.
        Self((number % PARTS as u64) as u8)
    }

    /// Its number, below [`PARTS`].
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// The bytes of a block and the stamp of their write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    pub bytes: Vec<u8>,
    /// The stamp it was written with.
    pub stamp: Stamp,
}

/// A store did not do what it was asked to.
#[derive(Debug, thiserror::Error)]
#[error("failed to {attempt}")]
pub struct StoreError {
    attempt: &'static str,
    source: Box<dyn std::error::Error + Send + Sync>,
}

impl StoreError {
    /// The error of an attempt, such as "load a block", with its cause.
    pub fn new(
        attempt: &'static str,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self {
            attempt,
            source: source.into(),
        }
    }
}

/// Keeps blocks. Every call is bounded in time by the store itself and may be repeated.
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// Which kind of store this is.
    fn kind(&self) -> StoreKind;

    /// The last write of a user's block; `None` when there never was one.
    fn load(&self, user: u64) -> BoxFuture<'_, Result<Option<Stored>, StoreError>>;

    /// Writes a user's block. After `Ok` the bytes survive what the store survives, unless the store
    /// holds a write with a higher stamp. After `Err` it is not known whether they were written.
    fn save(
        &self,
        user: u64,
        bytes: Vec<u8>,
        stamp: Stamp,
    ) -> BoxFuture<'_, Result<(), StoreError>>;

    /// How many shards of the database work side by side, as far as is known: limits on what it is
    /// asked for at once are per shard.
    fn shards(&self) -> usize {
        1
    }

    /// The part of the database that keeps a user's block, as far as is known. Cheap: asked before each
    /// load and each write. A store that is well or ill as a whole has one part.
    fn part(&self, user: u64) -> Part {
        let _ = user;
        Part::default()
    }

    /// Bytes of memory that the store keeps for itself.
    fn memory(&self) -> u64 {
        0
    }

    /// Whether the store reads and writes now, in general: a part of it may not.
    fn check(&self) -> BoxFuture<'_, Result<(), StoreError>>;
}

/// An error and its causes on one line, for logs and answers.
#[must_use]
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        // Some errors print their source themselves.
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}
