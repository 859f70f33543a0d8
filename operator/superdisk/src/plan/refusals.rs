//! The sentences: what is wrong, where, and what to do next. One function per situation.

use std::path::Path;

use crate::{
    lineage::Header,
    md::Array,
    model::{Code, Refusal},
    spec::{CopyOf, Spec},
    superblock::Signature,
};

fn refusal(code: Code, message: String, next_step: &str) -> Refusal {
    Refusal {
        code,
        message,
        next_step: next_step.to_owned(),
    }
}

pub(super) fn durable_is_not_there(path: &Path) -> Refusal {
    refusal(
        Code::PdLost,
        format!("The durable device {} is not there", path.display()),
        "Attach the network disk to this node, or correct --durable",
    )
}

pub(super) fn durable_cannot_be_read(path: &Path, why: &str) -> Refusal {
    refusal(
        Code::PdLost,
        format!(
            "The durable device {} cannot be read: {why}",
            path.display()
        ),
        "See to the network disk; nothing is served without it",
    )
}

pub(super) fn durable_is_no_device(path: &Path, what: &str) -> Refusal {
    refusal(
        Code::PdForeign,
        format!(
            "The durable device {} is {what}, not a block device",
            path.display()
        ),
        "Name the device of the network disk with --durable",
    )
}

pub(super) fn durable_is_taken(path: &Path, why: &str) -> Refusal {
    refusal(
        Code::PdForeign,
        format!("The durable device {} {why}", path.display()),
        "Give the super-disk a network disk that nothing else uses",
    )
}

pub(super) fn foreign(path: &Path, signature: Signature) -> Refusal {
    refusal(
        Code::PdForeign,
        format!("The durable device {} holds {signature}", path.display()),
        "Attach the right network disk, or a blank one: a durable leg is never wiped",
    )
}

pub(super) fn unexpectedly_blank(path: &Path, why: &str) -> Refusal {
    refusal(
        Code::PdUnexpectedlyBlank,
        format!(
            "The durable device {} holds no data, but {why}",
            path.display()
        ),
        "Attach the volume's own network disk or restore it; to start over, make a new volume",
    )
}

pub(super) fn damaged_superblock(path: &Path, why: &str) -> Refusal {
    refusal(
        Code::PdNotOurs,
        format!(
            "The durable device {} has a damaged md superblock: {why}",
            path.display()
        ),
        "Restore the network disk from a snapshot, or let an expert look at it",
    )
}

pub(super) fn not_ours(path: &Path, what: &str) -> Refusal {
    refusal(
        Code::PdNotOurs,
        format!("The durable device {} {what}", path.display()),
        "Attach the network disk of this super-disk",
    )
}

pub(super) fn not_in_sync(path: &Path, what: &str) -> Refusal {
    refusal(
        Code::PdNotInSync,
        format!("The durable device {} {what}", path.display()),
        "If `superdisk resolve --keep fast` was interrupted, run it again where the same local devices are; else restore a \
         snapshot",
    )
}

pub(super) fn duplicate(path: &Path, twin: &str) -> Refusal {
    refusal(
        Code::DuplicateUuid,
        format!(
            "The durable device {} and {twin} carry the same volume, and {twin} is newer, or it cannot be told",
            path.display()
        ),
        "Attach the newer one as this volume's disk; or detach it, if the older one shall be served",
    )
}

pub(super) fn twin_runs(path: &Path, twin: &str) -> Refusal {
    refusal(
        Code::DuplicateUuid,
        format!(
            "The durable device {} carries the mirror that runs on {twin}, of which one is the other's clone",
            path.display()
        ),
        "Use another node for one of them, or let the other's pod end first; if this one is a copy that shall become \
         another volume, assemble it under that volume's UID with --copy-of, which gives it an identity of its own",
    )
}

pub(super) fn no_filesystem(path: &Path, what: &str) -> Refusal {
    refusal(
        Code::NoFilesystem,
        format!("The mirror on the durable device {} {what}", path.display()),
        "Correct --fs, or restore the network disk from a snapshot: it is not formatted again",
    )
}

pub(super) fn mirror_without_durable(mirror: &Array, path: &Path) -> Refusal {
    refusal(
        Code::PdLost,
        format!(
            "{} runs without the durable device {}",
            mirror.name,
            path.display()
        ),
        "Stop what uses it and run `superdisk teardown`; with the network disk attached, assemble again: \
         if the fast leg is ahead then, `superdisk resolve` decides",
    )
}

pub(super) fn fast_cannot_be_judged(path: &Path, why: &str) -> Refusal {
    refusal(
        Code::SsdAhead,
        format!(
            "The local devices cannot be judged: {why}. They may hold acknowledged writes that the durable device \
             {} has not",
            path.display()
        ),
        "Let all local devices of the fast leg be there and assemble again, or run `superdisk resolve --keep \
         durable` to give up what only they have",
    )
}

pub(super) fn in_use_elsewhere(path: &Path) -> Refusal {
    refusal(
        Code::PdInUse,
        format!(
            "The durable device {} is in use: while it was watched, something else wrote to its lineage header",
            path.display()
        ),
        "End the other pod, or detach the network disk from the other node, and assemble again",
    )
}

pub(super) fn header_is_lost(path: &Path, why: &str) -> Refusal {
    refusal(
        Code::PdHeaderLost,
        format!(
            "It cannot be told whether another node uses the durable device {}: its lineage header cannot be read: {why}",
            path.display()
        ),
        "Make sure that the network disk is attached to no other node, then run `superdisk resolve --keep durable`: \
         it writes a new header",
    )
}

pub(super) fn overwritten(path: &Path) -> Refusal {
    refusal(
        Code::PdOverwritten,
        format!(
            "The host has put the durable device {} together with local devices of another history, and may have \
             copied old or foreign blocks from them to it",
            path.display()
        ),
        "Turn off the host's assembly of md arrays and restore the network disk from a snapshot again; or, if it is \
         known to be right as it is, run `superdisk resolve --keep durable`",
    )
}

pub(super) fn copy_of_another(path: &Path, header: &Header, consent: Option<&CopyOf>) -> Refusal {
    let (volume, generation) = (&header.volume, header.point.generation);
    let path = path.display();
    let snapshot = header.snapshot.as_ref();
    let snapshot = snapshot.map_or_else(String::new, |id| format!(", snapshot {id}"));
    let message = match consent.filter(|consent| consent.volume == *volume) {
        Some(CopyOf {
            generation: None, ..
        }) => format!(
            "The durable device {path} is the volume {volume}'s, at generation {generation}{snapshot}, or a copy of it. \
             This volume was in use before, and so only a consent that names the generation counts"
        ),
        Some(consent) => format!(
            "The durable device {path} is a copy of the volume {volume} at generation {generation}{snapshot}, and the \
             consent is for {consent}"
        ),
        None => format!(
            "The durable device {path} is the volume {volume}'s, at generation {generation}{snapshot}, or a copy of it"
        ),
    };
    refusal(
        Code::PdNotOurs,
        message,
        &format!(
            "Attach the network disk of this super-disk; or, if this one is a copy that shall become this volume, run \
             `superdisk resolve --keep durable --copy-of {volume}@{generation}`, or annotate its claim with \
             readstates.dev/copy-of: {volume}@{generation}"
        ),
    )
}

pub(super) fn fast_is_ahead(path: &Path, how: &str) -> Refusal {
    refusal(
        Code::SsdAhead,
        format!(
            "The local devices may hold acknowledged writes that the durable device {} has not: {how}",
            path.display()
        ),
        "Run `superdisk resolve --keep durable` to give those writes up (right when other replicas \
         have them), or `superdisk resolve --keep fast` to copy them to the durable leg",
    )
}

pub(super) fn mounted_elsewhere(mirror: &Array, at: &Path) -> Refusal {
    refusal(
        Code::PdForeign,
        format!(
            "{} is mounted at {} by another pod",
            mirror.name,
            at.display()
        ),
        "Let that pod end, or run `superdisk reap` if it is gone",
    )
}

pub(super) fn mount_point_is_taken(at: &Path) -> Refusal {
    refusal(
        Code::PdForeign,
        format!("Something else is mounted at {}", at.display()),
        "Unmount it, or correct --mount",
    )
}

pub(super) fn unknown_member(mirror: &Array, member: &str) -> Refusal {
    refusal(
        Code::PdNotOurs,
        format!(
            "{} has {member} as a member, which is no stripe of the local devices",
            mirror.name
        ),
        "Correct --local, or take that device out of the array",
    )
}

pub(super) fn local_missing(spec: &Spec, found: usize) -> Refusal {
    refusal(
        Code::SsdMissing,
        format!(
            "{found} of {} local devices are there for {}",
            spec.local_count,
            spec.local.join(", ")
        ),
        "Use a node with that many local disks, correct --local and --local-count, or serve from \
         the durable leg alone with --fast-leg optional",
    )
}

pub(super) fn local_busy(path: &Path, why: &str) -> Refusal {
    refusal(
        Code::SsdBusy,
        format!("The local device {} {why}", path.display()),
        "Let --local leave it out; or free it (what a pod left behind `superdisk reap` stops) and, if nobody needs \
         what is on it, wipe it with `blkdiscard --zeroout` and its name",
    )
}

pub(super) fn local_too_small(stripe: &Array, mirror: &Array) -> Refusal {
    refusal(
        Code::SsdMissing,
        format!(
            "The local devices together have {} MiB, and the mirror needs {} MiB and some more",
            stripe.bytes >> 20,
            mirror.component_kib >> 10
        ),
        "Use a node with larger local disks, or more of them",
    )
}

pub(super) fn too_small(path: &Path, stripe_bytes: u64) -> Refusal {
    refusal(
        Code::SsdMissing,
        format!(
            "The local devices, with {} MiB together, or the durable device {} are too small for a \
             filesystem",
            stripe_bytes >> 20,
            path.display()
        ),
        "Use disks of at least 512 MiB",
    )
}
