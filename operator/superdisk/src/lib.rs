//! The disk agent of Readstates: it puts a database on a super-disk, that is RAID0 over local NVMe (the fast
//! leg) mirrored to a network disk (the durable leg).
//!
//! What is decided is decided in pure code, from one look at the node; what is done is one command or one
//! write at a time, and then the node is looked at again.
//!
//! ```text
//!          ┌───────────────────────── look again ─────────────────────────┐
//!          ▼                                                              │
//! Spec ──▶ inventory::observe ──▶ Inventory ──▶ plan::plan ──▶ Do(Vec<Action>) ──▶ execute
//!                                                         ├──▶ WaitingOn
//!                                                         └──▶ Refused
//! ```

pub mod action;
pub mod agent;
pub mod arguments;
pub mod assemble;
pub mod claim;
pub mod command;
pub mod execute;
pub mod flags;
pub mod heal;
pub mod identify;
pub mod inventory;
pub mod lineage;
pub mod log;
pub mod md;
pub mod metrics;
pub mod model;
mod names;
pub mod node_setup;
pub mod patrol;
pub mod plan;
pub mod preflight;
pub mod proof;
pub mod reap;
pub mod report;
pub mod resolve;
mod size;
pub mod snapshot;
pub mod spec;
pub mod status;
pub mod stop;
pub mod superblock;
pub mod sysfs;
pub mod teardown;
pub mod told;
pub mod uevent;
pub mod verdict;
