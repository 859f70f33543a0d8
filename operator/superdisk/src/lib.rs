//! The disk agent of Readstates: it will put a database on a super-disk, that is RAID0 over local NVMe
//! (the fast leg) mirrored to a network disk (the durable leg).
//!
//! Today it answers one question, `superdisk preflight`: could this node carry one? What it reads is
//! sysfs, procfs and device nodes; what it decides it decides in [`preflight`], which is pure; it changes
//! nothing on any disk.
//!
//! ```text
//! Request ──▶ sysfs::observe ──▶ Inventory ──▶ preflight::decide ──▶ Vec<Refusal> ──▶ report
//! ```

pub mod model;
pub mod preflight;
pub mod report;
pub mod sysfs;
