//! Classifies the durable leg's device: new, ours, a copy of another volume's, or refused.

use super::{ours::Ours, refusals, twins};
use crate::{
    action::{Action, Leg, Update},
    inventory::{Content, Data, Identity, Inventory},
    lineage::{self, Header, State},
    model::{Device, Node, Refusal, Seen, Use},
    proof::{self, Blank},
    spec::{CopyOf, MIRROR_PREFIX, Spec},
    superblock::{Filesystem, Role, Superblock},
};

/// A durable leg that something can be done with.
pub(super) enum Durable<'a> {
    /// Never used.
    New(Blank),
    /// Another volume's, attached under this one's name: a snapshot or a clone.
    Copy(Ours<'a>),
    /// This volume's.
    Ours(Ours<'a>),
}

/// Looks at nothing but the durable leg, and at what the fast leg remembers of it.
pub(super) fn classify<'a>(spec: &Spec, inventory: &'a Inventory) -> Result<Durable<'a>, Refusal> {
    let disk = &inventory.durable;
    let path = &disk.path;
    let (device, identity) = match (&disk.node, &disk.identity) {
        (Seen::Present(Node::Block(device)), Some(identity)) => (device, identity),
        (Seen::Present(Node::NotBlock(what)), _) => {
            return Err(refusals::durable_is_no_device(path, what));
        }
        (Seen::Unknown(why), _) => return Err(refusals::durable_cannot_be_read(path, why)),
        (Seen::Absent, _) | (Seen::Present(Node::Block(_)), None) => {
            return Err(refusals::durable_is_not_there(path));
        }
    };
    if let Some(why) = taken(device, inventory) {
        return Err(refusals::durable_is_taken(path, &why));
    }
    let content = match &disk.content {
        Seen::Present(content) => content,
        Seen::Absent => return Err(refusals::durable_is_not_there(path)),
        Seen::Unknown(why) => return Err(refusals::durable_cannot_be_read(path, why)),
    };
    let superblock = match &content.superblock {
        Seen::Present(superblock) => superblock,
        Seen::Unknown(why) => return Err(refusals::damaged_superblock(path, why)),
        Seen::Absent => return unmarked(spec, inventory, content).map(Durable::New),
    };
    let ours = super_disk(spec, identity, content, superblock)?;
    let other_volume = ours
        .header
        .is_some_and(|header| header.volume != spec.volume);
    let other_name = superblock.short_name() != spec.volume.mirror_name();
    if other_volume || other_name {
        return match ours.header {
            // A copy cannot be told from the wrong disk: the spec has to say that it is a copy.
            Some(header) if other_volume && !is_consented(spec, header) => Err(
                refusals::copy_of_another(path, header, spec.copy_of.as_ref()),
            ),
            Some(_) => {
                twins::is_the_one(inventory, &ours, true)?;
                Ok(Durable::Copy(ours))
            }
            // Nothing but its name says whose it is, and that is not ours.
            None => Err(refusals::not_ours(
                path,
                &format!(
                    "carries the mirror {}, with no header of ours",
                    superblock.name
                ),
            )),
        };
    }
    twins::is_the_one(inventory, &ours, false)?;
    Ok(Durable::Ours(ours))
}

/// Whether its owner says that it is a copy of what its header says: of that volume, and of that moment where it is
/// named. A consent to any moment stays with the claim for ever: once the volume has been in use it would let the other
/// volume's own disk in.
fn is_consented(spec: &Spec, header: &Header) -> bool {
    spec.copy_of.as_ref().is_some_and(|copy| {
        let CopyOf { volume, generation } = copy;
        let is_of_that_moment = match generation {
            Some(generation) => *generation == header.point.generation,
            None => !spec.policy.used_before,
        };
        *volume == header.volume && is_of_that_moment
    })
}

/// No superblock: it is new, or it is not what it should be.
fn unmarked(spec: &Spec, inventory: &Inventory, content: &Content) -> Result<Blank, Refusal> {
    let path = &inventory.durable.path;
    if let Some(signature) = content.foreign {
        return Err(refusals::foreign(path, signature));
    }
    if spec.policy.used_before {
        return Err(refusals::unexpectedly_blank(
            path,
            "the volume was in use before",
        ));
    }
    if proof::remembered(spec, inventory) {
        return Err(refusals::unexpectedly_blank(
            path,
            "the local devices still mirror a volume of this name",
        ));
    }
    Blank::prove(spec, inventory)
        .ok_or_else(|| refusals::durable_is_taken(path, "is a component of another array"))
}

/// Checks everything about a durable leg that has a superblock but whose volume it is.
fn super_disk<'a>(
    spec: &Spec,
    identity: &'a Identity,
    content: &'a Content,
    superblock: &'a Superblock,
) -> Result<Ours<'a>, Refusal> {
    let path = &identity.path;
    let named = superblock.short_name().starts_with(MIRROR_PREFIX);
    if superblock.level != 1 || superblock.raid_disks != 2 || !named {
        let what = format!(
            "carries the array {} of level {} with {} members",
            superblock.name, superblock.level, superblock.raid_disks
        );
        return Err(refusals::not_ours(path, &what));
    }
    match superblock.role() {
        Role::Slot(0) if superblock.recovery_offset.is_none() => {}
        Role::Slot(0) => return Err(refusals::not_in_sync(path, "was being rebuilt itself")),
        Role::Spare | Role::Faulty => {
            return Err(refusals::not_in_sync(
                path,
                "is not a whole member of its mirror",
            ));
        }
        Role::Slot(slot) | Role::Other(slot) => {
            let what =
                format!("is in slot {slot} of its mirror, where a repair would overwrite it");
            return Err(refusals::not_ours(path, &what));
        }
    }
    let Some(region) = lineage::region_at(superblock) else {
        let what = "carries a mirror without room for a header of ours";
        return Err(refusals::not_ours(path, what));
    };
    let header = match &content.lineage {
        Seen::Present(header) => Some(header),
        Seen::Absent | Seen::Unknown(_) => None,
    };
    let filesystem = data(spec, content, header, path)?;
    Ok(Ours {
        identity,
        content,
        superblock,
        region,
        header,
        filesystem,
    })
}

/// The filesystem, or `None` where one may be made.
fn data(
    spec: &Spec,
    content: &Content,
    header: Option<&Header>,
    path: &std::path::Path,
) -> Result<Option<Filesystem>, Refusal> {
    let creating = header.is_some_and(|header| header.state == State::Creating);
    if creating && !spec.policy.used_before {
        return Ok(None);
    }
    if creating {
        return Err(refusals::unexpectedly_blank(
            path,
            "the volume was in use before",
        ));
    }
    match &content.data {
        Seen::Present(Data::Filesystem(found)) if found.kind != spec.filesystem => {
            let what = format!("holds {} and not {}", found.kind, spec.filesystem);
            Err(refusals::no_filesystem(path, &what))
        }
        Seen::Present(Data::Filesystem(found)) if found.unfinished => {
            let what = format!("holds an {} whose making did not end", found.kind);
            Err(refusals::no_filesystem(path, &what))
        }
        Seen::Present(Data::Filesystem(found)) => Ok(Some(*found)),
        Seen::Present(Data::Blank) if proof::is_unused_mirror(spec, content) => Ok(None),
        Seen::Present(Data::Blank) => Err(refusals::no_filesystem(path, "holds only zeros")),
        Seen::Present(Data::Other(found)) => {
            Err(refusals::no_filesystem(path, &format!("holds {found}")))
        }
        Seen::Absent => Err(refusals::no_filesystem(path, "ends before its data begins")),
        Seen::Unknown(why) => Err(refusals::durable_cannot_be_read(path, why)),
    }
}

/// Why the durable leg's device cannot be taken; being in an array is looked at later.
fn taken(device: &Device, inventory: &Inventory) -> Option<String> {
    if device.bytes == 0 {
        return Some("has no capacity".to_owned());
    }
    if device.read_only {
        return Some("is read-only".to_owned());
    }
    let mut others = device.uses.iter().filter(|reason| match reason {
        Use::Holder(name) => !inventory.arrays.iter().any(|array| array.name == *name),
        Use::Mount(_) | Use::Swap | Use::Partition(_) | Use::IsPartition => true,
    });
    others.next().map(ToString::to_string)
}

/// Gives a copy of another volume's disk an identity of its own. The UUID comes first: with `--update=uuid` alone mdadm
/// starts an array whose UUID another one has that runs, and so a copy may stand beside its source. The header comes
/// last: until then a run that is killed leaves a copy, and the next one does all of it again.
pub(super) fn adopt_copy(
    spec: &Spec,
    inventory: &Inventory,
    copy: &Ours<'_>,
) -> Result<Vec<Action>, Refusal> {
    if let Some(watch) = super::questions::ask(spec, inventory, copy)? {
        return Ok(vec![watch]);
    }
    if let Some(array) = inventory.array_of(copy.identity.number) {
        if inventory.mount_of(array).is_some() {
            return Err(refusals::not_ours(
                &copy.identity.path,
                "carries another volume, and that is mounted",
            ));
        }
        return Ok(vec![Action::Stop {
            array: array.name.clone(),
            because: "it carries another volume's name",
        }]);
    }
    let Some(header) = copy.header else {
        return Err(refusals::not_ours(
            &copy.identity.path,
            "has no header of ours",
        ));
    };
    let array = super::free_name(inventory);
    let start = |update| Action::StartMirror {
        durable: copy.identity.clone(),
        array: array.clone(),
        update,
    };
    let stop = || Action::Stop {
        array: array.clone(),
        because: "it was only started to be changed",
    };
    Ok(vec![
        start(Update::Array(inventory.random)),
        stop(),
        start(Update::Name(spec.volume.mirror_name())),
        stop(),
        Action::WriteLineage {
            leg: Leg::Durable(copy.identity.clone()),
            region: copy.region,
            header: header.copied(spec.volume.clone(), inventory.random, inventory.boot),
        },
    ])
}
