//! The words in which [`decide`](super::decide) answers. Values only.

use std::fmt;

use serde::Serialize;
use strum::{IntoStaticStr, VariantNames};

use super::memory::Seconds;
use crate::{lineage::BrokenSlots, md::Knob};

/// What [`decide`](super::decide) answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// How the super-disk is.
    pub condition: Condition,
    /// What else a person should know, most important first.
    pub notices: Vec<Notice>,
    /// What to do now, in this order.
    pub steps: Vec<Step>,
}

/// How the super-disk is, in one of six words and what goes with it.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, Serialize, VariantNames)]
#[serde(tag = "is", rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Condition {
    /// No array of ours runs.
    NotAssembled,
    /// The red line.
    DurableLost {
        /// What is wrong with the durable leg.
        why: DurableLoss,
        /// Whether writes are stopped.
        frozen: bool,
    },
    /// Both legs count as in sync and md copies between them, in a direction we did not choose.
    WrongWay,
    /// Both legs in sync.
    Healthy,
    /// The fast leg is being filled from the durable one.
    Rebuilding,
    /// Reads come from the durable leg.
    FastLost {
        /// What the repair waits for.
        waiting_on: WaitingOn,
    },
}

impl Condition {
    /// The word alone, for labels.
    #[must_use]
    pub fn word(&self) -> &'static str {
        self.into()
    }
}

/// What is wrong with a durable leg.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DurableLoss {
    /// It is no member of the mirror any more.
    Removed,
    /// md gave it up.
    Faulty,
    /// Its device left the kernel.
    Gone,
    /// It is a member that is not in sync: it was itself being rebuilt.
    NotInSync,
    /// A write to it failed.
    WriteError,
    /// So many sectors of it miss what was written.
    BadSectors(u64),
    /// Nothing any more: it was lost, and is whole again. Whether what is written now lasts, nobody has decided.
    Returned,
}

impl fmt::Display for DurableLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Removed => f.write_str("it is no longer in the mirror"),
            Self::Faulty => f.write_str("md gave it up after an error"),
            Self::Gone => f.write_str("its device is gone"),
            Self::NotInSync => f.write_str("it is not in sync"),
            Self::WriteError => f.write_str("a write to it failed"),
            Self::BadSectors(sectors) => write!(f, "{sectors} of its sectors miss writes"),
            Self::Returned => f.write_str("it was lost, and is in sync again"),
        }
    }
}

/// Why the fast leg is not being repaired at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, Serialize, VariantNames)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum WaitingOn {
    /// Nothing: the next step is under way.
    Step,
    /// Too few local devices are there and free.
    LocalDevices {
        /// That many are.
        found: usize,
        /// That many there must be.
        wanted: usize,
    },
    /// A pause between two attempts, until then.
    Pause(Seconds),
    /// The network disk cannot be read at this sector of the mirror or after it, and the copy has stopped there.
    DurableUnreadable {
        /// Where the copy stopped, in sectors of 512 bytes.
        sector: u64,
    },
    /// All attempts of a day failed; again then. The node wants to be replaced.
    GivenUp(Seconds),
}

impl WaitingOn {
    /// The word alone, for labels.
    #[must_use]
    pub fn word(self) -> &'static str {
        self.into()
    }
}

/// Something worth saying that is not the condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Notice {
    /// Nothing is mounted where the super-disk belongs.
    NotMounted,
    /// Something else is.
    ForeignMount,
    /// It is mounted for reading only.
    ReadOnly,
    /// The durable leg has this place; a repair by hand would copy from the lowest. 0 is right.
    DurableSlot(u32),
    /// So many sectors of the fast leg cannot be healed; they are read from the durable leg.
    FastBadSectors(u64),
    /// A member of the fast array left the kernel before md noticed.
    MembersGone(usize),
    /// The lineage header was not written for this long: a network disk that is put back in time could not be told from
    /// this one.
    NoBeat(Seconds),
    /// Legs of which one of both slots for the lineage header cannot be written: a sector is broken, and one more would
    /// leave the leg without a header.
    BrokenSlots(BrokenSlots),
    /// md may acknowledge this many writes before the durable leg has them: a snapshot of it taken now is not complete.
    WriteBehind(u64),
    /// The last check found the legs to differ, without a read error.
    Mismatch(u64),
}

/// One thing to do. Each can be repeated: the next look decides whether it is needed again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Stop all writes to the filesystem, now.
    Freeze,
    /// Take the fast leg out of use.
    FailFastLeg,
    /// Let the mirror forget the failed fast leg.
    RemoveFastLeg,
    /// Stop a fast array that cannot be read any more.
    StopStripe,
    /// Give the fast leg back, copying what changed meanwhile.
    ReAddFastLeg,
    /// Give a fast leg back, or a new one, copying everything.
    RebuildFastLeg,
    /// Use the space by which the durable leg has grown, and copy everything to the fast leg after that.
    Grow,
    /// Let md try to write bad sectors of the fast leg again.
    ClearWriteError,
    /// Set a setting of the mirror.
    Set(Setting),
    /// Compare the legs from one sector to another.
    StartCheck {
        /// First sector.
        from: u64,
        /// The sector after the last; `None` up to the end.
        to: Option<u64>,
    },
    /// A window of the check is done: stop there.
    EndCheckWindow,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Freeze => f.write_str("freeze the filesystem"),
            Self::FailFastLeg => f.write_str("take the fast leg out of use"),
            Self::RemoveFastLeg => f.write_str("remove the fast leg from the mirror"),
            Self::StopStripe => f.write_str("stop the fast array"),
            Self::ReAddFastLeg => f.write_str("add the fast leg back, copying what changed"),
            Self::RebuildFastLeg => f.write_str("rebuild the fast leg, copying everything"),
            Self::Grow => f.write_str("use the space by which the durable leg has grown"),
            Self::ClearWriteError => f.write_str("let bad sectors of the fast leg be tried again"),
            Self::Set(setting) => write!(f, "set {} to {}", setting.path(), setting.value()),
            Self::StartCheck { from, to: None } => write!(f, "check from sector {from} to the end"),
            Self::StartCheck { from, to: Some(to) } => write!(f, "check sectors {from} to {to}"),
            Self::EndCheckWindow => f.write_str("end this part of the check"),
        }
    }
}

/// A setting of the mirror, and what it shall be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// One that is a number.
    Knob(Knob, u64),
    /// Let copies go to the end.
    SyncToTheEnd,
    /// Let md read the durable leg only for want of another.
    DurableWriteMostly,
    /// Let md read the fast leg.
    FastNotWriteMostly,
}

impl Setting {
    /// Below the mirror's folder; `{durable}` and `{fast}` stand for the members' names.
    #[must_use]
    pub fn path(self) -> &'static str {
        match self {
            Self::Knob(knob, _) => knob.file(),
            Self::SyncToTheEnd => "md/sync_max",
            Self::DurableWriteMostly => "md/dev-{durable}/state",
            Self::FastNotWriteMostly => "md/dev-{fast}/state",
        }
    }

    /// What to write there.
    #[must_use]
    pub fn value(self) -> String {
        match self {
            Self::Knob(_, number) => number.to_string(),
            Self::SyncToTheEnd => "max".to_owned(),
            Self::DurableWriteMostly => "writemostly".to_owned(),
            Self::FastNotWriteMostly => "-writemostly".to_owned(),
        }
    }
}
