//! `snapshot begin|end|status`: a moment at which the durable leg alone is a complete copy, held until its snapshot was
//! cut.
//!
//! The durable leg is such a copy at any moment, as a disk after a power cut is. What a hook adds is a name: a header
//! with the snapshot's ID and a generation of its own lies on the disk only while the filesystem takes no writes, so
//! that the copy can be told from every other state of the volume, and a leg that went on from one that did not.
//!
//! ```text
//!   begin ─▶ header: ID, generation + 1 ─▶ sync ─▶ freeze ─▶ answer        end ─▶ still frozen? ─▶ header: generation + 1 ─▶ thaw
//!                                                    └──── 10 s at most, then thawed: not proven ────┘
//! ```
//!
//! [`machine`] decides, [`obstacle`] says when not, [`wire`] is what the agent and its callers say to each other,
//! [`cli`] is a caller. What is decided is done by [`crate::agent`].

pub mod cli;
pub mod machine;
pub mod obstacle;
pub mod wire;

pub use crate::lineage::{BadSnapshotId, SnapshotId};
