//! Slots, epochs and who owns what.
//!
//! Comes in: user ids, member names, a clock reading as a number. Goes out: the [`Slot`] of a user,
//! the owner of a slot, the database [`Stamp`] of a write. Never here: IO, a clock, a runtime.
//!
//! ```text
//! user id ──mix64──▶ 64-bit hash ──top 10 bits──▶ Slot ──jump hash──▶ index into the member table
//! ```
//!
//! Everything in this crate is public knowledge: a client that computes the same functions finds the
//! owner of a user without asking (see the test vectors in [`slot`] and [`jump`]).
#![deny(missing_docs, clippy::wildcard_enum_match_arm)]

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
mod ring;
pub mod slot;
mod stamp;

pub use config::{
    Incarnation, MOST_AHEAD_IN_NEED_MICROS, MOST_AHEAD_MICROS, NoIncarnation, Now, SlotConfig,
    Succession, SwapRefused,
};
pub use line::{Line, MOST_LINES};
pub use record::{RingMember, RingTable};
pub use ring::{MAX_MEMBERS, Ring, RingError};
pub use slot::{HASH_NAME, SLOTS, Slot};
pub use stamp::{Epoch, Stamp};
