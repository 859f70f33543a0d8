//! What can happen in a walk.

use std::fmt;

/// Local disks in the machine: enough for both volumes.
pub(super) const LOCALS: usize = 4;

/// One of the two volumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Volume {
    /// The one on the network disk `data`.
    A,
    /// The one on the network disk `other`.
    B,
}

impl Volume {
    /// Both.
    pub const ALL: [Self; 2] = [Self::A, Self::B];

    /// 0 or 1.
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self == Self::B)
    }
}

/// Which component a person keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// The network disk's: what only the local disks have is given up.
    Durable,
    /// The local disks'.
    Fast,
}

impl Keep {
    /// As `--keep` takes it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Durable => "durable",
            Self::Fast => "fast",
        }
    }
}

/// One thing that happens. A local disk is named by its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The machine is switched on.
    Boot,
    /// It is switched off after a `sync`; nothing is unmounted.
    PowerOff,
    /// The power goes.
    CutPower,
    /// `superdisk assemble`.
    Assemble(Volume),
    /// `superdisk teardown`.
    TearDown(Volume),
    /// `superdisk agent --once`.
    Round(Volume),
    /// Files are written and synced.
    Write(Volume),
    /// `superdisk resolve --keep …`: a person's word.
    Resolve(Volume, Keep),
    /// The network disk answers everything with an error.
    FailDurable(Volume),
    /// It works again.
    MendDurable(Volume),
    /// Pages of a local disk are lost until they are written.
    LosePages {
        /// Of the local disk.
        slot: usize,
        /// The first one.
        page: u64,
        count: u64,
    },
    /// A page of a local disk can be neither read nor written.
    BreakPage {
        /// Of the local disk.
        slot: usize,
        page: u64,
    },
    /// A local disk answers everything with an error.
    FailLocal(usize),
    /// It works again, and its pages can be read.
    MendLocal(usize),
    /// A local disk is pulled out of the running machine.
    Pull(usize),
    /// It is put in again.
    Plug(usize),
    /// A blank disk takes the place of a local one.
    Replace(usize),
    /// The host assembles what it finds, as udev's rules do.
    HostAssembles,
}

impl Step {
    /// Whether it does something to a disk that no power cut does, or lets another touch what is ours.
    pub(super) fn disturbs(self) -> bool {
        match self {
            Self::Boot
            | Self::PowerOff
            | Self::CutPower
            | Self::Assemble(_)
            | Self::TearDown(_)
            | Self::Round(_)
            | Self::Write(_)
            | Self::Resolve(..)
            | Self::MendDurable(_)
            | Self::MendLocal(_) => false,
            Self::FailDurable(_)
            | Self::LosePages { .. }
            | Self::BreakPage { .. }
            | Self::FailLocal(_)
            | Self::Pull(_)
            | Self::Plug(_)
            | Self::Replace(_)
            | Self::HostAssembles => true,
        }
    }
}

impl fmt::Display for Volume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::A => "A",
            Self::B => "B",
        })
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Boot => f.write_str("boot"),
            Self::PowerOff => f.write_str("power off"),
            Self::CutPower => f.write_str("cut the power"),
            Self::Assemble(volume) => write!(f, "assemble {volume}"),
            Self::TearDown(volume) => write!(f, "tear down {volume}"),
            Self::Round(volume) => write!(f, "one round of the agent of {volume}"),
            Self::Write(volume) => write!(f, "write to {volume}"),
            Self::Resolve(volume, keep) => write!(f, "resolve {volume}, keep {}", keep.word()),
            Self::FailDurable(volume) => write!(f, "the network disk of {volume} fails"),
            Self::MendDurable(volume) => write!(f, "the network disk of {volume} works again"),
            Self::LosePages { slot, page, count } => {
                write!(f, "local disk {slot} loses {count} pages from {page} on")
            }
            Self::BreakPage { slot, page } => write!(f, "page {page} of local disk {slot} breaks"),
            Self::FailLocal(slot) => write!(f, "local disk {slot} fails"),
            Self::MendLocal(slot) => write!(f, "local disk {slot} works again"),
            Self::Pull(slot) => write!(f, "local disk {slot} is pulled out"),
            Self::Plug(slot) => write!(f, "local disk {slot} is put in again"),
            Self::Replace(slot) => write!(f, "local disk {slot} is replaced by a blank one"),
            Self::HostAssembles => f.write_str("the host assembles what it finds"),
        }
    }
}
