//! The values the other modules pass along: what is asked, what was seen, what is refused.
//!
//! No IO and no decision in here. What could not be read is [`Seen::Unknown`], never taken for absent.

use std::{fmt, path::PathBuf};

use serde::{Serialize, Serializer};
use strum::{IntoStaticStr, VariantArray};

/// What a caller wants to know about a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Device of the durable leg, when one is there already.
    pub durable: Option<PathBuf>,
    /// Devices of the fast leg, or patterns of their names.
    pub local: Vec<String>,
    /// How many local devices the fast leg shall have.
    pub local_count: usize,
}

/// An observation that knows when it does not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen<T> {
    /// It is there, and this is what it looks like.
    Present(T),
    /// It is not there.
    Absent,
    /// It could not be looked at; the text says why.
    Unknown(String),
}

/// Everything that `preflight` looks at before deciding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survey {
    /// The running kernel.
    pub kernel: Kernel,
    /// The durable leg's device; `None` when none was named.
    pub durable: Option<Candidate>,
    /// The devices that the request's names and patterns led to, each once, by name.
    pub local: Vec<Candidate>,
    /// The udev rules by which the node would assemble super-disks by itself; `None` when it would not.
    pub assembling_rules: Option<PathBuf>,
}

/// The running kernel, as far as md is concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// As `uname -r` says it.
    pub release: String,
    /// `PRETTY_NAME` and `ID` of the node's os-release, where there is one.
    pub system: Option<System>,
    /// Whether the kernel has raid0, or how it gets it.
    pub raid0: Seen<Personality>,
    /// The same for raid1.
    pub raid1: Seen<Personality>,
}

/// The node's operating system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct System {
    /// Short name, such as `ubuntu` or `cos`.
    pub id: String,
    /// Name for people.
    pub pretty_name: String,
}

/// Where the kernel gets an md personality from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Personality {
    /// Registered: md can use it now.
    Active,
    /// Part of the kernel image.
    BuiltIn,
    /// A module file that modprobe finds.
    Loadable,
}

impl fmt::Display for Personality {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Active => "active",
            Self::BuiltIn => "built in",
            Self::Loadable => "loadable",
        })
    }
}

/// A path that shall become part of a super-disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// As it was named, or as the pattern found it.
    pub path: PathBuf,
    /// What is behind it.
    pub node: Seen<Node>,
}

/// What a path leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// A block device.
    Block(Device),
    /// Anything else: the text says what.
    NotBlock(String),
}

/// A block device and everything that uses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Kernel name, such as `nvme0n1`.
    pub name: String,
    /// Device number: the identity that paths and links only lead to.
    pub number: DeviceNumber,
    /// Capacity.
    pub bytes: u64,
    /// Whether the kernel refuses to write to it.
    pub read_only: bool,
    /// What uses it; empty when it is free.
    pub uses: Vec<Use>,
}

/// Major and minor number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceNumber {
    /// Which driver.
    pub major: u32,
    /// Which of its devices.
    pub minor: u32,
}

impl fmt::Display for DeviceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

/// A reason why a device cannot be taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Use {
    /// Mounted there.
    Mount(String),
    /// Swap space.
    Swap,
    /// A component of another device, such as `md0` or `dm-3`.
    Holder(String),
    /// It has this partition.
    Partition(String),
    /// It is a partition itself.
    IsPartition,
}

impl fmt::Display for Use {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mount(at) => write!(f, "is mounted at {at}"),
            Self::Swap => f.write_str("is swap space"),
            Self::Holder(name) => write!(f, "is a component of {name}"),
            Self::Partition(name) => write!(f, "has the partition {name}"),
            Self::IsPartition => f.write_str("is a partition, not a whole device"),
        }
    }
}

/// Why a node cannot carry a super-disk. Refusing changes nothing on any disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// For programs; never changes.
    pub code: Code,
    /// What is wrong, with names and numbers.
    pub message: String,
    /// What to do about it.
    pub next_step: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}. {}.", self.code, self.message, self.next_step)
    }
}

/// Stable codes of refusals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantArray)]
pub enum Code {
    /// The kernel cannot be used.
    #[strum(serialize = "E_KERNEL")]
    Kernel,
    /// The kernel has no raid1.
    #[strum(serialize = "E_NO_RAID1")]
    NoRaid1,
    /// The durable leg's device is not there.
    #[strum(serialize = "E_PD_LOST")]
    PdLost,
    /// The durable leg's device holds something that is not ours.
    #[strum(serialize = "E_PD_FOREIGN")]
    PdForeign,
    /// The durable leg carries an array that is no super-disk's.
    #[strum(serialize = "E_PD_NOT_OURS")]
    PdNotOurs,
    /// The durable leg is blank and was not.
    #[strum(serialize = "E_PD_UNEXPECTEDLY_BLANK")]
    PdUnexpectedlyBlank,
    /// The durable leg was being rebuilt itself.
    #[strum(serialize = "E_PD_NOT_INSYNC")]
    PdNotInSync,
    /// The durable leg is in use on another node.
    #[strum(serialize = "E_PD_IN_USE")]
    PdInUse,
    /// The durable leg's header cannot be read, so that it cannot be told whether another node uses it.
    #[strum(serialize = "E_PD_HEADER_LOST")]
    PdHeaderLost,
    /// The host has written to the durable leg, from a fast leg of another history.
    #[strum(serialize = "E_PD_OVERWRITTEN")]
    PdOverwritten,
    /// Two devices carry the durable leg's superblock.
    #[strum(serialize = "E_DUPLICATE_UUID")]
    DuplicateUuid,
    /// The fast leg may hold acknowledged writes that the durable leg has not.
    #[strum(serialize = "E_SSD_AHEAD")]
    SsdAhead,
    /// The durable leg was formatted, and its filesystem is not there.
    #[strum(serialize = "E_NO_FS")]
    NoFilesystem,
    /// There are too few local devices.
    #[strum(serialize = "E_SSD_MISSING")]
    SsdMissing,
    /// A local device is in use.
    #[strum(serialize = "E_SSD_BUSY")]
    SsdBusy,
}

impl Code {
    /// Whether `resolve` may be the answer: the data of one leg is then given up, its copying goes on, or a header that
    /// cannot be read is written anew.
    #[must_use]
    pub fn is_for_a_person(self) -> bool {
        matches!(
            self,
            Self::SsdAhead | Self::PdNotInSync | Self::PdOverwritten | Self::PdHeaderLost
        )
    }

    /// The code as programs read it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}
