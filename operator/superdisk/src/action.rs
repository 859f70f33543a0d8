//! What can be done to a node, one command or one write each, so that being killed between two of them is all
//! that can happen. Pure: [`crate::execute`] does them.

use std::{fmt, path::PathBuf};

use crate::{
    command::{Line, Program},
    inventory::{Identity, Knob},
    lineage::Header,
    model::Refusal,
    proof::{Blank, Disposable, Idle, Overruled, Unformatted},
    spec::FilesystemKind,
    superblock::Uuid,
};

/// What the planner comes to.
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
        /// Why.
        because: &'static str,
    },
    /// Marks the fast leg faulty.
    Fail {
        /// The mirror.
        array: String,
        /// The stripe.
        member: String,
        /// Why.
        because: &'static str,
    },
    /// Takes a faulty fast leg out of the mirror.
    Remove {
        /// The mirror.
        array: String,
        /// The member; `detached` for one whose device is gone.
        member: String,
    },
    /// Forgets what array a local device was in.
    ForgetArray(Disposable),
    /// Forgets whatever else a local device held.
    ForgetSignatures(Disposable),
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
        /// The devices.
        devices: Vec<Identity>,
    },
    /// Erases the header of a stripe: it would speak for what is copied over it.
    ForgetLineage {
        /// The stripe.
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
    /// Starts the mirror from the durable leg alone.
    StartMirror {
        /// The durable leg.
        durable: Identity,
        /// Name to start it under.
        array: String,
        /// What to change in its superblock on the way.
        update: Update,
    },
    /// Starts the mirror from the fast leg alone: only when its owner has decided that the fast leg counts.
    StartMirrorFromFast {
        /// The stripe.
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
        /// The member.
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
        /// What.
        header: Header,
    },
    /// Makes the filesystem.
    Format {
        /// Where.
        mirror: Unformatted,
        /// Which.
        kind: FilesystemKind,
        /// Its label.
        label: String,
        /// How many local devices a stripe has.
        width: usize,
    },
    /// Changes a setting of an array.
    Set {
        /// The array.
        array: String,
        /// The setting.
        knob: Knob,
        /// Its value.
        value: u64,
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
        /// Which filesystem.
        kind: FilesystemKind,
    },
    /// Mounts the filesystem.
    Mount {
        /// The mirror.
        array: String,
        /// Where.
        at: PathBuf,
        /// Which filesystem.
        kind: FilesystemKind,
    },
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
        /// UUID of the stripe.
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
    /// Another name: the disk is a copy of another volume's.
    Name(String),
    /// Another UUID: the disk is a copy of another volume's.
    Array(Uuid),
}

impl Action {
    /// The command that does it; `None` for what is done without a program.
    #[must_use]
    pub fn line(&self) -> Option<Line> {
        let line = |program: Program, arguments: Vec<String>| Some(Line { program, arguments });
        match self {
            Self::Stop { array, because: _ } => {
                line(Program::Mdadm, vec!["--stop".into(), dev(array)])
            }
            Self::Fail {
                array,
                member,
                because: _,
            } => line(
                Program::Mdadm,
                vec!["--manage".into(), dev(array), "--fail".into(), dev(member)],
            ),
            Self::Remove { array, member } => line(
                Program::Mdadm,
                vec![
                    "--manage".into(),
                    dev(array),
                    "--remove".into(),
                    member_argument(member),
                ],
            ),
            Self::ForgetArray(device) => line(
                Program::Mdadm,
                vec!["--zero-superblock".into(), node(device.device())],
            ),
            Self::ForgetSignatures(device) => {
                line(Program::Wipefs, vec!["--all".into(), node(device.device())])
            }
            Self::CreateStripe {
                array,
                name,
                devices,
            } => line(Program::Mdadm, create_stripe(array, name, devices)),
            Self::StartStripe { array, devices } => {
                let mut arguments = assemble(array);
                arguments.extend(devices.iter().map(node));
                line(Program::Mdadm, arguments)
            }
            Self::ForgetMirror(stripe) => line(
                Program::Mdadm,
                vec!["--zero-superblock".into(), dev(stripe.array())],
            ),
            Self::CreateMirror {
                durable,
                array,
                name,
                kib,
            } => line(Program::Mdadm, create_mirror(durable, array, name, *kib)),
            Self::StartMirror {
                durable,
                array,
                update,
            } => line(Program::Mdadm, start_mirror(durable, array, update)),
            Self::StartMirrorFromFast {
                stripe,
                array,
                durable: _,
            } => {
                let mut arguments = assemble(array);
                arguments.push(dev(stripe));
                line(Program::Mdadm, arguments)
            }
            Self::ReAddDurable { array, durable } => line(
                Program::Mdadm,
                vec![
                    "--manage".into(),
                    dev(array),
                    "--re-add".into(),
                    node(durable.device()),
                ],
            ),
            Self::ReAdd { array, member } => line(
                Program::Mdadm,
                vec![
                    "--manage".into(),
                    dev(array),
                    "--re-add".into(),
                    dev(member),
                ],
            ),
            Self::Add { array, member } => line(
                Program::Mdadm,
                // --readwrite takes back a write-mostly that --add would else take over from nowhere.
                vec![
                    "--manage".into(),
                    dev(array),
                    "--add".into(),
                    "--readwrite".into(),
                    dev(member),
                ],
            ),
            Self::Format {
                mirror,
                kind,
                label,
                width,
            } => Some(format(mirror, *kind, label, *width)),
            Self::GrowMirror { array, kib } => line(
                Program::Mdadm,
                // Without a fast leg there is nothing to be made equal.
                vec![
                    "--grow".into(),
                    dev(array),
                    format!("--size={kib}K"),
                    "--assume-clean".into(),
                ],
            ),
            Self::GrowFilesystem { array, at, kind } => match kind {
                FilesystemKind::Xfs => line(Program::XfsGrowfs, vec![at.display().to_string()]),
                FilesystemKind::Ext4 => line(Program::Resize2fs, vec![dev(array)]),
            },
            Self::WriteMostly { .. }
            | Self::ForgetLineage { .. }
            | Self::WriteLineage { .. }
            | Self::Set { .. }
            | Self::Mount { .. } => None,
        }
    }

    /// Whether it is only about the fast leg: when it fails, the durable leg can serve without.
    #[must_use]
    pub fn is_about_fast_leg(&self) -> bool {
        match self {
            Self::Fail { .. }
            | Self::Remove { .. }
            | Self::ForgetArray(_)
            | Self::ForgetSignatures(_)
            | Self::CreateStripe { .. }
            | Self::StartStripe { .. }
            | Self::ForgetLineage { .. }
            | Self::ForgetMirror(_)
            | Self::ReAdd { .. }
            | Self::Add { .. } => true,
            Self::WriteLineage { leg, .. } => match leg {
                Leg::Fast { .. } => true,
                Leg::Durable(_) => false,
            },
            Self::Stop { .. }
            | Self::CreateMirror { .. }
            | Self::StartMirror { .. }
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

impl fmt::Display for Action {
    /// The command as it could be typed, and why where that is not plain.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line() {
            write!(f, "{line}")?;
        }
        match self {
            Self::Stop { because, .. } | Self::Fail { because, .. } => write!(f, "  # {because}"),
            Self::WriteMostly { array, member, on } => {
                let word = if *on { "writemostly" } else { "-writemostly" };
                write!(f, "echo {word} > /sys/block/{array}/md/dev-{member}/state")
            }
            Self::WriteLineage {
                leg,
                region,
                header,
            } => {
                let node = match leg {
                    Leg::Durable(identity) => node(identity),
                    Leg::Fast { array, stripe: _ } => dev(array),
                };
                let at = region + (header.slot() * crate::lineage::SLOT_BYTES) as u64;
                let state = match header.state {
                    crate::lineage::State::Creating => "creating",
                    crate::lineage::State::InUse => "in use",
                    crate::lineage::State::Clean => "clean",
                };
                let point = header.point;
                let (generation, beat) = (point.generation, point.beat);
                write!(
                    f,
                    "write lineage to {node} at {at}  # generation {generation}, beat {beat}, {state}"
                )
            }
            Self::ForgetLineage { stripe, region } => {
                write!(f, "erase lineage of {} at {region}", dev(stripe.array()))
            }
            Self::Set { array, knob, value } => {
                write!(f, "echo {value} > /sys/block/{array}/{}", knob.file())
            }
            Self::Mount { array, at, kind } => {
                write!(
                    f,
                    "mount -t {kind} -o noatime {} {}",
                    dev(array),
                    at.display()
                )
            }
            Self::Remove { .. }
            | Self::ForgetArray(_)
            | Self::ForgetSignatures(_)
            | Self::CreateStripe { .. }
            | Self::StartStripe { .. }
            | Self::ForgetMirror(_)
            | Self::CreateMirror { .. }
            | Self::StartMirror { .. }
            | Self::StartMirrorFromFast { .. }
            | Self::ReAddDurable { .. }
            | Self::ReAdd { .. }
            | Self::Add { .. }
            | Self::Format { .. }
            | Self::GrowMirror { .. }
            | Self::GrowFilesystem { .. } => Ok(()),
        }
    }
}

fn dev(name: &str) -> String {
    format!("/dev/{name}")
}

/// `detached` is a word to mdadm, not a node.
fn member_argument(member: &str) -> String {
    if member == "detached" {
        member.to_owned()
    } else {
        dev(member)
    }
}

fn node(identity: &Identity) -> String {
    identity.path.display().to_string()
}

fn assemble(array: &str) -> Vec<String> {
    vec![
        "--assemble".into(),
        "--config=none".into(),
        "--run".into(),
        dev(array),
    ]
}

fn create_stripe(array: &str, name: &str, devices: &[Disposable]) -> Vec<String> {
    let mut arguments: Vec<String> = vec![
        "--create".into(),
        dev(array),
        "--config=none".into(),
        "--run".into(),
        "--metadata=1.2".into(),
        "--level=0".into(),
        format!("--raid-devices={}", devices.len()),
        // Larger than any read of a database, so that none is split.
        "--chunk=512".into(),
        "--homehost=any".into(),
        format!("--name={name}"),
    ];
    if devices.len() == 1 {
        arguments.push("--force".into());
    }
    arguments.extend(devices.iter().map(|device| node(device.device())));
    arguments
}

fn create_mirror(durable: &Blank, array: &str, name: &str, kib: u64) -> Vec<String> {
    vec![
        "--create".into(),
        dev(array),
        "--config=none".into(),
        "--run".into(),
        "--metadata=1.2".into(),
        "--level=1".into(),
        "--raid-devices=2".into(),
        "--bitmap=internal".into(),
        format!("--size={kib}K"),
        "--homehost=any".into(),
        format!("--name={name}"),
        // It holds for all devices that follow: there is none but this one.
        "--write-mostly".into(),
        node(durable.device()),
        "missing".into(),
    ]
}

fn start_mirror(durable: &Identity, array: &str, update: &Update) -> Vec<String> {
    let mut arguments = assemble(array);
    match update {
        Update::Nothing => {}
        Update::NoBadBlockLog => arguments.push("--update=no-bbl".into()),
        Update::Name(name) => arguments.extend([
            "--update=name".into(),
            format!("--name={name}"),
            "--homehost=any".into(),
        ]),
        Update::Array(uuid) => {
            arguments.extend(["--update=uuid".into(), format!("--uuid={uuid}")]);
        }
    }
    arguments.push(node(durable));
    arguments
}

/// Sectors of 4096 bytes: the mirror's go from 512 to 4096 when such a fast leg joins, and a filesystem made
/// for 512 then fails. The stripe is told, since the durable leg's device does not show it.
fn format(mirror: &Unformatted, kind: FilesystemKind, label: &str, width: usize) -> Line {
    let array = dev(mirror.array());
    match kind {
        FilesystemKind::Xfs => Line {
            program: Program::MkfsXfs,
            // -f: an mkfs that was killed has left something. -K: a trim of a network disk takes long.
            arguments: ["-q", "-f", "-K", "-s", "size=4096", "-d"]
                .map(str::to_owned)
                .into_iter()
                .chain([
                    format!("su=512k,sw={width}"),
                    "-L".into(),
                    label.into(),
                    array,
                ])
                .collect(),
        },
        FilesystemKind::Ext4 => Line {
            program: Program::MkfsExt4,
            arguments: ["-q", "-F", "-b", "4096", "-E"]
                .map(str::to_owned)
                .into_iter()
                .chain([
                    format!("nodiscard,stride=128,stripe_width={}", 128 * width),
                    "-L".into(),
                    label.into(),
                    array,
                ])
                .collect(),
        },
    }
}
