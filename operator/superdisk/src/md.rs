//! The md arrays of a node as the kernel describes them. `assemble` and the agent use the same types.
//!
//! [`read`] fills them from sysfs alone. Nothing here reads from a disk, so a disk that hangs does not block the agent.
//! See Documentation/admin-guide/md.rst of Linux.

pub mod read;

use std::path::PathBuf;

use serde::Serialize;
use strum::VariantArray;

use crate::model::{DeviceNumber, Seen};

/// Mended reads before md throws a leg out; the agent decides instead. It counts for all local devices together, and
/// Linux 6.12 throws out at 20.
pub const MAX_READ_ERRORS: u64 = 1_000_000;

/// An md array as the kernel has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Array {
    /// Kernel name, such as `md127`.
    pub name: String,
    pub number: DeviceNumber,
    /// `raid0`, `raid1`, or what else it says; empty while it is inactive.
    pub level: String,
    /// What it is doing.
    pub state: ArrayState,
    /// Number of slots, whether they have a member or not.
    pub raid_disks: u64,
    /// Capacity in bytes.
    pub bytes: u64,
    /// Kibibytes that it uses of each member; 0 for stripes.
    pub component_kib: u64,
    /// What it is copying; `None` for a word that no kernel we know uses.
    pub sync: Option<SyncAction>,
    /// Sectors done and to be done, while it copies.
    pub sync_progress: Option<(u64, u64)>,
    /// How fast it copies; 0 when it does not.
    pub sync_kib_per_second: u64,
    /// Whether copies end before the end: left behind by a check that was cut short.
    pub sync_ends_early: bool,
    /// Sectors that the last check found to differ, in units of whole requests.
    pub mismatch_sectors: u64,
    /// The members are not known to agree: a copy between them is due, whichever has the right data.
    pub unclean: bool,
    /// Members in the order of their slots; those without a slot come last.
    pub members: Vec<Member>,
    /// Devices built upon it.
    pub holders: Vec<String>,
    /// The settings that this kernel has.
    pub knobs: Vec<(Knob, u64)>,
}

/// `md/array_state`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArrayState {
    /// No members, or members and no array: it takes no requests.
    Inactive,
    /// It takes requests.
    Running,
    /// It takes reads, and becomes writable with the first write.
    ReadAuto,
    /// It takes reads.
    ReadOnly,
    /// A stripe that has lost a member: every request fails.
    Broken,
    /// Anything else, or it could not be read.
    Other(String),
}

impl ArrayState {
    #[must_use]
    pub fn from_word(word: &str) -> Self {
        match word {
            "clear" | "inactive" => Self::Inactive,
            "clean" | "active" | "active-idle" | "write-pending" => Self::Running,
            "read-auto" => Self::ReadAuto,
            "readonly" => Self::ReadOnly,
            "broken" => Self::Broken,
            other => Self::Other(other.to_owned()),
        }
    }

    /// Whether it takes reads.
    #[must_use]
    pub fn is_running(&self) -> bool {
        match self {
            Self::Running | Self::ReadAuto | Self::ReadOnly => true,
            Self::Inactive | Self::Broken | Self::Other(_) => false,
        }
    }
}

/// The words of `md/sync_action`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SyncAction {
    /// Nothing.
    Idle,
    /// Copies onto a leg that is not in sync: always durable to fast, as we start it.
    Recover,
    /// Copies between legs that both count as in sync, from the first that is not write-mostly: the
    /// wrong direction for us.
    Resync,
    /// Reads both legs and counts differences.
    Check,
    /// Reads both legs and overwrites differences.
    Repair,
    /// Grows or changes shape.
    Reshape,
    /// Told not to start anything.
    Frozen,
}

impl SyncAction {
    /// `None` for a word that no kernel we know uses.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Some(match word {
            "idle" => Self::Idle,
            "recover" => Self::Recover,
            "resync" => Self::Resync,
            "check" => Self::Check,
            "repair" => Self::Repair,
            "reshape" => Self::Reshape,
            "frozen" => Self::Frozen,
            _ => return None,
        })
    }
}

/// The words of `md/dev-*/state` that we act on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the kernel's own set of independent flags"
)]
pub struct Flags {
    /// `faulty`: md gave it up.
    pub faulty: bool,
    pub in_sync: bool,
    pub write_mostly: bool,
    /// `write_error`: a write failed; ranges in the bad-block log are not written again until it is cleared.
    pub write_error: bool,
}

impl Flags {
    /// From `in_sync,write_mostly`; words that mean nothing to us are passed over.
    #[must_use]
    pub fn from_words(words: &str) -> Self {
        let words = words.trim();
        let has = |word| words.split(',').any(|one| one == word);
        Self {
            faulty: is_given_up(words),
            in_sync: has("in_sync"),
            write_mostly: has("write_mostly"),
            write_error: has("write_error"),
        }
    }
}

/// Whether the `state` of an array's member says that md gave it up. One that is `faulty,blocked` may only have bad blocks
/// that are not in its superblock yet: md says no more until it has written that.
fn is_given_up(state: &str) -> bool {
    let has = |flag| state.split(',').any(|word| word == flag);
    has("faulty") && !has("blocked")
}

/// A member of a running array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Name in the array's folder, without `dev-`; it is the kernel name.
    pub name: String,
    /// Device number; unknown once the device has gone from under it.
    pub number: Seen<DeviceNumber>,
    /// Its slot, when it has one.
    pub slot: Option<u16>,
    /// What md thinks of it.
    pub flags: Flags,
    /// Sectors of its data that are filled, counted from the first; `None` when all are.
    pub filled_sectors: Option<u64>,
    /// Sectors that were read wrongly and mended since the array was started.
    pub errors: u64,
    /// Sectors that are known to be bad; unknown when the list could not be read.
    pub bad_sectors: Seen<u64>,
}

/// A setting that does not outlast the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, VariantArray)]
pub enum Knob {
    /// Mended reads in an hour before a member is thrown out. It counts for all local devices together.
    MaxReadErrors,
    /// Rate that a rebuild keeps to, in KiB/s.
    SyncSpeedMin,
    /// Rate that a rebuild never exceeds, in KiB/s.
    SyncSpeedMax,
    /// Writes that may be acknowledged before the durable leg has them. It must be none.
    Backlog,
    /// Whether seeks are slow: taken over from the durable leg's device.
    Rotational,
    /// Whether filesystems that are mounted from now on leave a page as it is while it is written. Each leg's disk reads the
    /// page at a time of its own: one that has changed meanwhile is not the same on both if the power fails before it is
    /// written again. See md(4), "scrubbing and mismatches".
    StableWrites,
}

impl Knob {
    /// Its file below `/sys/block/NAME`.
    #[must_use]
    pub fn file(self) -> &'static str {
        match self {
            Self::MaxReadErrors => "md/max_read_errors",
            Self::SyncSpeedMin => "md/sync_speed_min",
            Self::SyncSpeedMax => "md/sync_speed_max",
            Self::Backlog => "md/bitmap/backlog",
            Self::Rotational => "queue/rotational",
            Self::StableWrites => "queue/stable_writes",
        }
    }
}

impl Member {
    /// Whether the device behind it is still in the kernel: an unplugged one stays a member until it is written to.
    #[must_use]
    pub fn is_present(&self) -> bool {
        self.number != Seen::Absent
    }

    /// Whether reads and writes may go to all of it, as far as md knows.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.flags.in_sync && !self.flags.faulty
    }
}

impl Array {
    /// Whether md copies, or is about to copy, between legs that both count as whole.
    #[must_use]
    pub fn is_resyncing(&self) -> bool {
        match self.sync {
            Some(SyncAction::Resync) => true,
            Some(
                SyncAction::Idle
                | SyncAction::Recover
                | SyncAction::Check
                | SyncAction::Repair
                | SyncAction::Reshape
                | SyncAction::Frozen,
            )
            | None => self.unclean,
        }
    }

    /// The member that is this device.
    #[must_use]
    pub fn member(&self, number: DeviceNumber) -> Option<&Member> {
        let is = |member: &&Member| member.number == Seen::Present(number);
        self.members.iter().find(is)
    }

    /// A setting, where this kernel has it.
    #[must_use]
    pub fn knob(&self, knob: Knob) -> Option<u64> {
        let found = self.knobs.iter().find(|(one, _)| *one == knob);
        found.map(|(_, value)| *value)
    }

    /// Its device node.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/dev/{}", self.name))
    }
}
