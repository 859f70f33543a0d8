//! The running super-disk, as far as the agent needs to know: the mirror, its two legs, the fast array, the mount.
//!
//! Values only. [`super::observe`] fills them from sysfs and mountinfo alone: nothing in here needs an answer from
//! a disk, because a disk that hangs must not keep the agent from seeing that it does.

use serde::Serialize;

use crate::md::{Flags, SyncAction};

/// One look at a running super-disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Facts {
    /// The RAID1; `None` when no array is ours.
    pub mirror: Option<Mirror>,
    /// The RAID0 of the local devices, in the mirror or not; `None` when none runs.
    pub stripe: Option<Stripe>,
    /// Local devices that `--local` leads to and that nothing else uses.
    pub local_found: usize,
    /// What is mounted where the super-disk belongs.
    pub mount: Option<Mount>,
}

/// The RAID1 of both legs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mirror {
    /// Kernel name, such as `md101`. Never an identity: it is looked up in every round.
    pub name: String,
    /// Capacity.
    pub bytes: u64,
    /// What the array is doing besides serving.
    pub sync: Sync,
    /// The network disk; `None` when it was removed from the array.
    pub durable: Option<Leg>,
    /// The array of local devices; `None` when it was removed from the array or never added.
    pub fast: Option<Leg>,
    /// Sectors that the last check found to differ, in units of whole requests.
    pub mismatch_sectors: u64,
    /// Settings that md forgets at every start.
    pub knobs: Knobs,
}

/// What md is doing in the background.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Sync {
    /// Which of its jobs.
    pub action: SyncAction,
    /// Sectors done and sectors to do, where md says so.
    pub progress: Option<(u64, u64)>,
    /// Present speed; 0 when nothing runs.
    pub kib_per_second: u64,
}

/// A member of the mirror.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Leg {
    /// Kernel name, such as `sdb` or `md100`.
    pub device: String,
    /// What md thinks of it.
    pub flags: Flags,
    /// Whether the device behind it is still in the kernel: an unplugged one stays a member until it is written to.
    pub present: bool,
    /// Capacity of the device; 0 when it is gone.
    pub bytes: u64,
    /// Which place it has; `None` for a spare or a faulty one.
    pub slot: Option<u16>,
    /// Sectors of its data that are filled, counted from the first; `None` when all are.
    pub filled_sectors: Option<u64>,
    /// Sectors whose read error md mended by writing them again, since the array was started.
    pub healed_sectors: u64,
    /// Sectors in the bad-block log: read from the other leg.
    pub bad_sectors: u64,
    /// Completed requests since the device appeared.
    pub traffic: Traffic,
}

impl Leg {
    /// Whether reads and writes may go to all of it.
    #[must_use]
    pub fn in_sync(&self) -> bool {
        self.flags.in_sync && !self.flags.faulty && self.present
    }
}

/// Requests of a block device, from `/sys/class/block/*/stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Traffic {
    /// Completed reads.
    pub reads: u64,
    /// Time they took together, in milliseconds.
    pub read_ms: u64,
    /// Completed writes.
    pub writes: u64,
    /// Time they took together, in milliseconds.
    pub write_ms: u64,
}

/// Settings of the mirror that are set again after every start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Knobs {
    /// `md/max_read_errors`.
    pub max_read_errors: u64,
    /// `md/sync_speed_min`, KiB/s.
    pub sync_speed_min: u64,
    /// `md/sync_speed_max`, KiB/s.
    pub sync_speed_max: u64,
    /// `queue/rotational`, which md takes over from the network disk.
    pub rotational: bool,
    /// `bitmap/backlog`: writes that may be acknowledged before the durable leg has them. 0, always.
    pub backlog: u64,
    /// Whether `md/sync_max` ends a copy before the end: left behind by a check that was cut short.
    pub sync_ends_early: bool,
}

/// The RAID0 of the local devices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Stripe {
    /// Kernel name, such as `md100`.
    pub name: String,
    /// Capacity.
    pub bytes: u64,
    /// md saw a member fail and refuses all IO. It notices only when there is IO.
    pub broken: bool,
    /// In order of slots.
    pub members: Vec<Member>,
}

impl Stripe {
    /// Whether all of it can be read, as far as can be told without reading.
    #[must_use]
    pub fn whole(&self) -> bool {
        !self.broken && self.members.iter().all(|member| member.present)
    }
}

/// A local device in the RAID0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Member {
    /// Kernel name, such as `nvme0n1`.
    pub device: String,
    /// Capacity; 0 when it is gone.
    pub bytes: u64,
    /// Whether the device is still in the kernel.
    pub present: bool,
}

/// What is mounted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mount {
    /// The mirror's kernel name, or whatever else is mounted there.
    pub device: String,
    /// Type of the filesystem.
    pub filesystem: String,
    /// Mounted for reading only.
    pub read_only: bool,
}
