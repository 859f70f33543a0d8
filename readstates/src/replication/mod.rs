//! What an owner has acknowledged and the database lacks, in the memory of another member.
//!
//! The protocol is in [`readstates_ring::replication`], as functions without IO; here are its bytes, its tasks and its
//! bounds.
//!
//! ```text
//!  cache ─▶ Owner: lanes ─▶ frames ──(members' port)──▶ Holding: journals, bounded in bytes
//!  answer ─▶ Owner::settled ◀──────── acknowledgements ────────┘        │ promoted
//!  loads ◀──────────────────────────────────── Replicas::replayed ◀─────┘
//! ```

mod holding;
mod lane;
mod owner;
mod replay;
mod replicas;
mod rests;
mod room;
mod seeds;
mod send;
#[cfg(test)]
mod tests;
mod time;
mod wire;

pub(crate) use holding::Heard;
pub(crate) use owner::Settled;
pub(crate) use replicas::{Handed, Kept, NotAdmitted, Replicas};
pub(crate) use seeds::{Seeds, Sow};
pub(crate) use send::{Carry, keep_sending};
pub(crate) use time::Time;
pub(crate) use wire::{Changed, SEMANTICS, Said};
