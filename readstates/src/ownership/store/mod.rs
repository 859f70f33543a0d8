//! The store of the ring and of the members' presences: one trait, three stores.
//!
//! The **ring** is one record that changes by compare-and-swap alone. A member that swaps has read it with
//! [`RingStore::get`] and hands along the version that it read: of two concurrent swaps, one gets
//! [`Swapped::Conflict`]. What [`RingStore::watch`] yields is for looking owners up; it may lag, skip,
//! repeat and even go back, so consumers go by epochs.
//!
//! **Presence** is what each process says of itself every few seconds. `renewals` grows each time: a
//! member that sees the same number for long enough, by its own clock, takes the process for dead.
//! `gone` is the last word of a process that acknowledges nothing more. Each process has a presence
//! of its own, under its incarnation; the name is for people. So no process ever writes another's.

mod file;
mod kubernetes;
mod measured;
mod memory;

use std::{fmt, sync::Arc};

pub use file::FileRing;
use futures::{future::BoxFuture, stream::BoxStream};
pub use kubernetes::KubernetesRing;
pub(super) use measured::Measured;
pub use memory::MemoryRing;
use readstates_ring::{Incarnation, Line, RingMember, RingTable};
use serde::{Deserialize, Serialize};

/// Which state of the ring was read. Opaque: only equality means something.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Version(String);

/// The ring as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Versioned {
    pub table: Arc<RingTable>,
    /// What to hand to [`RingStore::compare_and_swap`].
    pub version: Version,
}

/// The known outcome of a swap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Swapped {
    /// The ring is now this.
    Taken(Versioned),
    /// The ring is not what was expected, and is what it was.
    Conflict,
}

/// What a process says of itself.
///
/// Unknown fields are ignored: a member that cannot read a newer process's presence must not take it
/// for dead.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Presence {
    pub name: String,
    pub incarnation: Incarnation,
    /// Where clients reach it.
    pub url: String,
    /// The base URL of its port for other members. A process of a release before that port has none; so has one that
    /// is alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub members: Option<String>,
    /// The URL at which it answers its operator, if others can reach that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admin: Option<String>,
    /// Its zone, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Its ordinal, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ordinal: Option<u16>,
    /// Whether it wants to own nothing any more.
    pub draining: bool,
    /// Whether it is over: everything is sealed and written, and nothing is acknowledged any more. Its
    /// slots may be taken at once.
    pub gone: bool,
    /// Grows by one each time the process says this.
    pub renewals: u64,
    /// Its Unix time when it said this, in microseconds. A process of a release before does not tell it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unix_micros: Option<i64>,
    /// The line of the ring that it read last and agrees with; [`Line::NONE`] before that. A process of a release before
    /// does not tell it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<Line>,
    /// The highest epoch of a slot that it knows: a ring whose epochs are all lower was restored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<i64>,
    /// Whether its clock is wrong, so that it takes no slots.
    #[serde(default, skip_serializing_if = "is_false")]
    pub clock_wrong: bool,
    /// The highest version of the ring's record that it reads. A process of a release before does not tell it, and need
    /// not read rings that name backups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reads: Option<u32>,
    /// It can be a backup, of owners whose operations have the meaning of this number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicates: Option<u16>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// The ring or the presences could not be read or written.
#[derive(Debug, thiserror::Error)]
#[error("failed to {attempt}")]
pub struct RingStoreError {
    attempt: &'static str,
    source: Box<dyn std::error::Error + Send + Sync>,
}

impl RingStoreError {
    /// The error of an attempt, such as "read the ring", with its cause.
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

/// Keeps one ring and the presences of its processes. Every call is bounded in time by the store itself,
/// may be repeated, and may be dropped halfway: then its outcome is not known.
pub trait RingStore: fmt::Debug + Send + Sync + 'static {
    /// The ring, at least as new as it was when the call began; `None` when there never was one.
    fn get(&self) -> BoxFuture<'_, Result<Option<Versioned>, RingStoreError>>;

    /// Puts `next` in the place of the version that was read (`None`: of no ring at all). After `Err`
    /// it is not known whether that happened, or may yet happen: read until the ring tells, by the
    /// epochs.
    fn compare_and_swap(
        &self,
        expected: Option<Version>,
        next: RingTable,
    ) -> BoxFuture<'_, Result<Swapped, RingStoreError>>;

    /// The ring, now and whenever it changed, as long as the store is kept. May lag, skip, repeat and go
    /// back. Does not fail: what cannot be read is asked for again, and logged.
    fn watch(&self) -> BoxStream<'static, Arc<RingTable>>;

    /// Puts this presence in the place of what the same process said before. One that lands late, after its caller was
    /// told that it failed, does not replace a later one: the last word of a process that dies counts.
    fn renew(&self, presence: Presence) -> BoxFuture<'_, Result<(), RingStoreError>>;

    /// All presences, at least as new as when the call began; by name, then by incarnation. Those of
    /// processes that ended long ago are among them until they are forgotten.
    fn presences(&self) -> BoxFuture<'_, Result<Vec<Presence>, RingStoreError>>;

    /// Removes the presence of a process that has ended and owns nothing; does nothing when it is not
    /// there. The caller knows that it has ended: from its last word, or from how long it was silent.
    fn forget(&self, incarnation: Incarnation) -> BoxFuture<'_, Result<(), RingStoreError>>;

    /// How far the store's own clock is ahead of this process's, in microseconds, as its last answer told; `None`
    /// where it has no other clock, or does not tell.
    fn clock_ahead(&self) -> Option<i64> {
        None
    }
}

/// By name, then by incarnation.
fn in_order(presences: &mut [Presence]) {
    presences.sort_by(|a, b| (&a.name, a.incarnation).cmp(&(&b.name, b.incarnation)));
}

impl Presence {
    /// How the ring lists this process.
    ///
    /// # Errors
    /// When the name, the URL or the zone is malformed.
    pub fn member(&self) -> Result<RingMember, readstates_ring::record::RecordError> {
        RingMember::new(
            self.name.clone(),
            self.incarnation,
            self.url.clone(),
            self.zone.clone(),
        )
    }
}
