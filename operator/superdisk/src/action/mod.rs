//! Actions on a node, one command or one write each, so that a kill can only fall between two of them. Pure:
//! [`crate::execute`] carries them out.

mod line;
mod show;
mod tried;

use std::path::PathBuf;

pub(crate) use show::ranges;

use crate::{
    inventory::Identity,
    lineage::{Header, Point},
    md::Knob,
    model::Refusal,
    proof::{Blank, Disposable, Idle, Overruled, Unformatted},
    spec::FilesystemKind,
    superblock::Uuid,
};

/// The planner's decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Do these in order, then look again. Empty: everything is as it shall be.
    Do(Vec<Action>),
    /// Nothing can be done before something else happens.
    WaitingOn(WaitingOn),
    /// Nothing may be done.
    Refused(Refusal),
}

/// What has to happen first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitingOn {
    /// The filesystem is served from the durable leg alone; this keeps the fast leg away.
    FastLeg(Refusal),
}

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Stops an array that nothing is mounted from, and waits until it is gone.
    Stop {
        /// Its name.
        array: String,
        because: &'static str,
    },
    /// Marks the fast leg faulty.
    Fail {
        /// The mirror.
        array: String,
        /// The stripe.
        member: String,
        because: &'static str,
    },
    /// Takes a faulty fast leg out of the mirror.
    Remove {
        /// The mirror.
        array: String,
        /// The member; `detached` for one whose device is gone.
        member: String,
    },
    /// Makes a stripe of local devices.
    CreateStripe {
        /// Name to make it under, such as `md100`.
        array: String,
        /// The array's own name.
        name: String,
        /// The devices, in order.
        devices: Vec<Disposable>,
    },
    /// Starts the stripe that local devices hold.
    StartStripe {
        /// Name to start it under.
        array: String,
        devices: Vec<Identity>,
    },
    /// Erases the header of a stripe: it would speak for what is copied over it.
    ForgetLineage {
        stripe: Idle,
        /// Where the two slots lie, in bytes.
        region: u64,
    },
    /// Forgets what mirror a stripe was in: `--add` would silently re-add it otherwise.
    ForgetMirror(Idle),
    /// Makes a mirror of a durable leg that was never used, and no fast leg yet.
    CreateMirror {
        /// The durable leg.
        durable: Blank,
        /// Name to make it under, such as `md101`.
        array: String,
        /// The array's own name.
        name: String,
        /// Its capacity.
        kib: u64,
    },
    /// Waits for longer than an agent's header takes from beat to beat: where it goes on, another node is on it.
    Watch {
        /// The durable leg.
        durable: Identity,
        /// What its header said.
        seen: Point,
    },
    /// Starts the mirror from the durable leg alone.
    StartMirror {
        /// The durable leg.
        durable: Identity,
        /// Name to start it under.
        array: String,
        /// What to change in its superblock on the way.
        update: Update,
    },
    /// Lets the kernel give a request to a local device up sooner than after its half a minute: md waits with it.
    LimitWait {
        /// Kernel name of the device.
        device: String,
        /// How long it may take.
        millis: u64,
    },
    /// Reads all that the fast leg would give to the durable leg: what cannot be read is found before the durable leg
    /// is touched.
    ReadThrough {
        stripe: Idle,
        /// What is read.
        through: Through,
    },
    /// Starts the mirror from the fast leg alone: only when its owner has decided that the fast leg counts.
    StartMirrorFromFast {
        stripe: String,
        /// Name to start it under.
        array: String,
        /// The durable leg that is overruled.
        durable: Overruled,
    },
    /// Gives the durable leg what it missed, by the fast leg's bitmap.
    ReAddDurable {
        /// The mirror that runs on the fast leg.
        array: String,
        /// The durable leg that is overruled.
        durable: Overruled,
    },
    /// Marks again what a leg's own bitmap says was under way: started from one leg, a mirror forgets what the
    /// bitmap of before a power cut knew (`md_bitmap_load` in drivers/md/md-bitmap.c keeps the bits only when
    /// some write has failed since they were last cleared).
    Mark {
        /// The mirror, which runs without that leg.
        array: String,
        /// Chunks, as ranges with both ends included; some at least.
        chunks: Vec<(u64, u64)>,
    },
    /// Lets md see that there is no leg to copy to yet. Marking has told md that a copy is due; with both legs in, md
    /// might copy over the durable leg.
    SettleMarks {
        /// The mirror.
        array: String,
    },
    /// Gives the fast leg back what it missed, by the bitmap.
    ReAdd {
        /// The mirror.
        array: String,
        /// The stripe.
        member: String,
    },
    /// Copies the durable leg to the fast leg.
    Add {
        /// The mirror.
        array: String,
        /// The stripe, forgotten to have been in a mirror.
        member: String,
    },
    /// Marks a member as one to be read only when no other can be, or as one to be read.
    WriteMostly {
        /// The mirror.
        array: String,
        member: String,
        /// Which of both.
        on: bool,
    },
    /// Writes our header to a leg.
    WriteLineage {
        /// Which leg's device: a durable leg, or the stripe's node.
        leg: Leg,
        /// Where the two slots lie, in bytes.
        region: u64,
        header: Header,
    },
    /// Makes the filesystem.
    Format {
        mirror: Unformatted,
        kind: FilesystemKind,
        label: String,
        /// How many local devices the stripe has, where the filesystem shall know.
        width: Option<usize>,
    },
    /// Changes a setting of an array.
    Set {
        array: String,
        /// The setting.
        knob: Knob,
        value: u64,
    },
    /// Gives a mirror a bitmap that has none.
    AddBitmap {
        /// The mirror.
        array: String,
    },
    /// Lets the mirror use more of its legs.
    GrowMirror {
        /// The mirror.
        array: String,
        /// Its capacity.
        kib: u64,
    },
    /// Lets the mounted filesystem use more of the mirror.
    GrowFilesystem {
        /// The mirror.
        array: String,
        /// Where it is mounted.
        at: PathBuf,
        kind: FilesystemKind,
    },
    /// Mounts the filesystem.
    Mount {
        /// The mirror.
        array: String,
        at: PathBuf,
        kind: FilesystemKind,
    },
}

/// Parts of a mirror's data, as they lie on the stripe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Through {
    /// Where data begins on the stripe, in bytes.
    pub fast: u64,
    /// Parts of it, from one byte up to another.
    pub parts: Vec<(u64, u64)>,
}

/// A device that carries our header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leg {
    /// The durable leg.
    Durable(Identity),
    /// The fast leg: the stripe of this name, with this UUID.
    Fast {
        /// Its name.
        array: String,
        stripe: Uuid,
    },
}

/// A change to the superblock of the durable leg.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Update {
    /// None.
    Nothing,
    /// No bad-block log any more: it hides writes that the durable leg has lost.
    NoBadBlockLog,
    /// No bitmap any more: it cannot be read, and md starts no mirror with such a one.
    NoBitmap,
    /// Another name: the disk is a copy of another volume's.
    Name(String),
    /// Another UUID: the disk is a copy of another volume's.
    Array(Uuid),
}

impl Action {
    /// Whether it is only about the fast leg: when it fails, the durable leg can serve without.
    #[must_use]
    pub fn is_about_fast_leg(&self) -> bool {
        match self {
            Self::Fail { .. }
            | Self::Remove { .. }
            | Self::CreateStripe { .. }
            | Self::StartStripe { .. }
            | Self::ForgetLineage { .. }
            | Self::ForgetMirror(_)
            | Self::Mark { .. }
            | Self::SettleMarks { .. }
            | Self::ReAdd { .. }
            | Self::LimitWait { .. }
            | Self::AddBitmap { .. }
            | Self::Add { .. } => true,
            Self::WriteLineage { leg, .. } => match leg {
                Leg::Fast { .. } => true,
                Leg::Durable(_) => false,
            },
            Self::Stop { .. }
            | Self::Watch { .. }
            | Self::CreateMirror { .. }
            | Self::StartMirror { .. }
            | Self::ReadThrough { .. }
            | Self::StartMirrorFromFast { .. }
            | Self::ReAddDurable { .. }
            | Self::WriteMostly { .. }
            | Self::Format { .. }
            | Self::Set { .. }
            | Self::GrowMirror { .. }
            | Self::GrowFilesystem { .. }
            | Self::Mount { .. } => false,
        }
    }
}
