//! The disk machine: a virtual machine whose disks fail when they are told to, for tests of the super-disk.
//!
//! A test makes a [`Rack`] of disks, boots a machine on it, gives orders to its shell, breaks disks, cuts
//! the power, swaps disks and boots again. Kernel and programs are Debian's (`hack/disk-machine build`),
//! the disks' content and faults come from our own NBD server, and nothing of it needs root or leaves a
//! temporary folder.
//!
//! ```text
//!  test ── Rack ─┬─ Disk ── nbd::Server ── unix socket ──┐ nvme, virtio-blk
//!                └─ boot() ── Vm ─┬─ qemu ◀──────────────┘
//!                                 ├─ Qmp      plug, unplug
//!                                 └─ Orders   a shell in the guest (src/bin/guest.rs), by virtio-serial
//! ```

pub mod protocol;

mod disk;
mod nbd;
mod orders;
mod qemu;
mod qmp;
mod rack;
pub mod superdisk;
mod vm;
pub mod walk;

pub use disk::{Counters, Disk, PAGE, Snapshot, WriteCache};
pub use orders::Answer;
pub use qemu::{Bus, Kernel, Node};
pub use rack::{DURABLE, MIB, Rack, local};
pub use vm::Vm;
