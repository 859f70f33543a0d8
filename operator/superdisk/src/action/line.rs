//! The commands that do what is done by a program: each argument, and why it is there.

use super::{Action, Update};
use crate::{
    command::{Line, Program},
    inventory::Identity,
    proof::{Blank, Disposable, Unformatted},
    spec::FilesystemKind,
};

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
            Self::AddBitmap { array } => line(
                Program::Mdadm,
                vec!["--grow".into(), dev(array), "--bitmap=internal".into()],
            ),
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
            Self::Watch { .. }
            | Self::Mark { .. }
            | Self::SettleMarks { .. }
            | Self::WriteMostly { .. }
            | Self::ForgetLineage { .. }
            | Self::WriteLineage { .. }
            | Self::Set { .. }
            | Self::LimitWait { .. }
            | Self::ReadThrough { .. }
            | Self::Mount { .. } => None,
        }
    }
}

pub(super) fn dev(name: &str) -> String {
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

pub(super) fn node(identity: &Identity) -> String {
    identity.path.display().to_string()
}

/// With the format named: mdadm looks for all others otherwise, and finds none on a disk whose first page cannot be read.
fn assemble(array: &str) -> Vec<String> {
    vec![
        "--assemble".into(),
        "--config=none".into(),
        "--metadata=1.2".into(),
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
        Update::NoBitmap => arguments.push("--update=no-bitmap".into()),
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
fn format(mirror: &Unformatted, kind: FilesystemKind, label: &str, width: Option<usize>) -> Line {
    let (program, fixed, stripe) = match kind {
        FilesystemKind::Xfs => (
            Program::MkfsXfs,
            // -f: an mkfs that was killed has left something. -K: a trim of a network disk takes long.
            "-q -f -K -s size=4096",
            width.map(|width| format!("-d su=512k,sw={width}")),
        ),
        FilesystemKind::Ext4 => (
            Program::MkfsExt4,
            "-q -F -b 4096 -E nodiscard",
            width.map(|width| format!("-E stride=128,stripe_width={}", 128 * width)),
        ),
    };
    let stripe = stripe.unwrap_or_default();
    let words = fixed.split(' ').chain(stripe.split_whitespace());
    let array = dev(mirror.array());
    Line {
        program,
        arguments: words
            .chain(["-L", label, &array])
            .map(str::to_owned)
            .collect(),
    }
}
