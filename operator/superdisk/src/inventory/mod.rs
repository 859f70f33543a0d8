//! Everything the planner knows: what sysfs, superblocks, bitmap headers, lineage headers and mounts say.
//!
//! Types only; [`observe`] fills them. What could not be read is [`Seen::Unknown`], never taken for absent.

mod disks;
mod observe;
mod patience;

use std::path::PathBuf;

pub use disks::{Blocks, Devices, header_on};
pub use observe::{ObserveError, observe};
pub use patience::silent;
#[cfg(test)]
pub(crate) use {disks::read_direct, patience::read_within};

use crate::{
    lineage::{Header, Machine, Point},
    md::Array,
    model::{DeviceNumber, Kernel, Node, Seen},
    superblock::{Bitmap, Filesystem, Signature, Superblock, Uuid},
};

/// One look at a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inventory {
    /// The running kernel.
    pub kernel: Kernel,
    pub boot: Uuid,
    /// What tells this machine from others; `None` where its firmware does not say.
    pub machine: Option<u64>,
    /// Random, drawn for this inventory, so that plans need no randomness of their own.
    pub random: Uuid,
    /// The durable leg's device.
    pub durable: Disk,
    /// The devices that the fast leg may have, each once: those that it shall have come first ([`Self::chosen`]).
    pub local: Vec<Disk>,
    /// The fast leg of this volume, if all devices of one are there: one of `legs`.
    pub fast: Seen<Fast>,
    /// Every fast leg, whole or not, of this volume or another, that any local device carries a part of.
    pub legs: Vec<LegFound>,
    /// Every md array of this node, by name.
    pub arrays: Vec<Array>,
    /// Other devices that carry the durable leg's superblock too, by kernel name.
    pub twins: Vec<Twin>,
    /// The mounts that this process sees.
    pub mounts: Vec<Mount>,
    /// Mounts of the node itself, where its processes are seen.
    pub node_mounts: Vec<Mount>,
    /// What this run has learned by trying.
    pub tried: Tried,
}

/// What cannot be seen before it is tried: set by the executor's failures, forgotten with the process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tried {
    /// Starting the stripe failed: what mdadm said.
    pub start_fast: Option<String>,
    /// Re-adding the fast leg was refused: what mdadm said.
    pub re_add: Option<String>,
    /// What the durable leg's header said before it was watched for longer than the pause between two beats.
    pub watched: Option<Point>,
    /// The mirror could not be made larger: what mdadm said.
    pub grow_mirror: Option<String>,
    /// The filesystem was told to grow: what is on disk of it lags behind.
    pub grown: bool,
    /// The filesystem could not be made larger: what its program said.
    pub grow_filesystem: Option<String>,
    /// The kernel was told to wait less for local devices, and may not have taken it.
    pub waits_limited: bool,
    /// All that the fast leg would give to the durable leg could be read.
    pub read_through: bool,
}

/// A device by what stays the same: checked again right before anything is written to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The path that led to it.
    pub path: PathBuf,
    /// Kernel name.
    pub name: String,
    pub number: DeviceNumber,
    /// Capacity.
    pub bytes: u64,
    /// Serial number, where it has one.
    pub serial: Option<String>,
    /// World-wide name, where it has one.
    pub wwid: Option<String>,
    /// Grows with each disk that the kernel finds: a different disk under an old name has a different number.
    pub sequence: Option<u64>,
}

/// A device of one of the legs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// As it was named, or as the pattern found it.
    pub path: PathBuf,
    /// What is behind it, and what uses it.
    pub node: Seen<Node>,
    /// Its identity; `None` when it is no block device.
    pub identity: Option<Identity>,
    /// What its maker calls it, where the kernel says so.
    pub model: Option<String>,
    /// How long the kernel waits for an answer of it, in milliseconds, where it says so.
    pub wait_millis: Option<u64>,
    /// What is on it.
    pub content: Seen<Content>,
}

impl Disk {
    /// Whether it is there, was read, and holds nothing but zeros where it was read.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        let Seen::Present(content) = &self.content else {
            return false;
        };
        content.superblock == Seen::Absent && content.foreign.is_none()
    }
}

/// What is on a device, or inside of a stripe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// The superblock of version 1.2; unknown when it is damaged.
    pub superblock: Seen<Superblock>,
    /// The bitmap's header.
    pub bitmap: Seen<Bitmap>,
    /// The chunks that its bitmap says were under way, as ranges with both ends included.
    pub marked: Seen<Vec<(u64, u64)>>,
    /// Our own header; unknown when it is damaged.
    pub lineage: Seen<Header>,
    /// What makes it not blank, besides a superblock of version 1.2. Its beginning and its end are read, a
    /// MiB each.
    pub foreign: Option<Signature>,
    /// What is where the data begins; absent without a superblock.
    pub data: Seen<Data>,
}

/// What is in the data area of a mirror's member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// Its first and its last MiB are zeros.
    Blank,
    Filesystem(Filesystem),
    /// Something else.
    Other(Signature),
}

/// What the local devices hold together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fast {
    pub stripe: Uuid,
    /// What is inside, read through the devices: the stripe need not run.
    pub inside: Content,
}

/// A fast leg as its devices tell of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LegFound {
    pub stripe: Uuid,
    /// Its name, which is made of its volume's.
    pub name: String,
    /// How many devices it has.
    pub wanted: usize,
    /// Those that are there.
    pub devices: Vec<DeviceNumber>,
    /// What is inside, as far as the devices that are there can be read.
    pub inside: Seen<Content>,
}

impl LegFound {
    /// Whether all of its devices are there.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.devices.len() == self.wanted
    }
}

/// A device with the durable leg's superblock that is not the durable leg's: a clone of it, or what it is a clone of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Twin {
    /// Kernel name.
    pub name: String,
    /// Device number, where the kernel tells it.
    pub number: Option<DeviceNumber>,
    /// What it says of its history.
    pub lineage: Seen<Header>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// What is mounted.
    pub number: DeviceNumber,
    pub at: PathBuf,
}

impl Inventory {
    /// The local devices that make up the fast leg, or shall: `local` begins with them.
    #[must_use]
    pub fn chosen(&self, count: usize) -> Vec<&Disk> {
        chosen(&self.local, count)
    }

    /// This machine with the local devices that are in sight, whatever they hold.
    #[must_use]
    pub fn here(&self) -> Option<Machine> {
        let there = self.local.iter().filter(|disk| disk.identity.is_some());
        Some(Machine {
            id: self.machine?,
            devices: u32::try_from(there.count()).ok()?,
        })
    }

    /// The array that has this device as a member, running or not.
    #[must_use]
    pub fn array_of(&self, number: DeviceNumber) -> Option<&Array> {
        let has = |array: &&Array| array.member(number).is_some();
        self.arrays.iter().find(has)
    }

    /// The array that a leg is now, running or not.
    #[must_use]
    pub fn array_on(&self, leg: &LegFound) -> Option<&Array> {
        let mut devices = leg.devices.iter();
        devices.find_map(|number| self.array_of(*number))
    }

    /// Where a filesystem of this array is mounted, by this process or by the node.
    #[must_use]
    pub fn mount_of(&self, array: &Array) -> Option<&Mount> {
        let mut mounts = self.mounts.iter().chain(&self.node_mounts);
        mounts.find(|mount| mount.number == array.number)
    }

    /// Where a device is mounted, as this process sees it.
    pub fn mounts_of(&self, number: DeviceNumber) -> impl Iterator<Item = &Mount> {
        self.mounts
            .iter()
            .filter(move |mount| mount.number == number)
    }
}

fn chosen(local: &[Disk], count: usize) -> Vec<&Disk> {
    let there = local.iter().filter(|disk| disk.identity.is_some());
    there.take(count).collect()
}
