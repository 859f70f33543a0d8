//! A random walk: faults and commands over two volumes that share the local disks of one machine, drawn from a seed.
//!
//! ```text
//! seed ─▶ draw (what can happen now) ─▶ Step ─▶ run (machine, disks, commands) ─▶ truth (what must be there)
//! ```
//! A walk ends with all disks mended and the machine started again: each volume must come back, with both components in
//! sync and every file that was acknowledged, but for those that a person gave up by `resolve`, and those whose only copy
//! the walk itself has destroyed.

mod command;
mod draw;
mod report;
mod run;
mod state;
mod step;
mod truth;

pub use report::Report;
pub use run::walk;
pub use step::{Keep, Step, Volume};
