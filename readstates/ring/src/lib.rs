//! Slots, epochs and who owns what.
//!
//! Comes in: user ids, member names, a clock reading as a number. Goes out: the [`Slot`] of a user,
//! the owner of a slot, the database [`Stamp`] of a write. Never here: IO, a clock, a runtime.
//!
//! ```text
//! user id ──mix64──▶ 64-bit hash ──top 10 bits──▶ Slot ──RingTable──▶ index into the member table
//! ```
//!
//! The slot of a user is public knowledge: a client that computes the same function and has a copy of the table finds
//! the owner without asking (see the test vectors in [`slot`]). The table is the authority. Jump hash ([`jump`]) only
//! tells the [`planner`] where slots belong that are free to move.
#![deny(missing_docs, clippy::wildcard_enum_match_arm)]

mod by_slot;
mod config;
pub mod fence;
pub mod handoff;
pub mod jump;
mod line;
#[cfg(any(test, feature = "model"))]
pub mod model;
pub mod moves;
pub mod mutant;
pub mod planner;
pub mod record;
pub mod replication;
pub mod slot;
mod stamp;

pub use by_slot::BySlot;
pub use config::{
    Incarnation, MOST_AHEAD_IN_NEED_MICROS, MOST_AHEAD_MICROS, NoIncarnation, Now, SlotConfig,
    Succession, SwapRefused,
};
pub use line::{Line, MOST_LINES};
pub use record::{MAX_MEMBERS, RingMember, RingTable};
pub use slot::{HASH_NAME, SLOTS, Slot};
pub use stamp::{Epoch, Stamp};
