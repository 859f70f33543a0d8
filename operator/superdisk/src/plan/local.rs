//! The local devices: whether those that the fast leg shall have are there, and ours to take. Pure.

use super::refusals;
use crate::{
    inventory::{Content, Disk, Inventory, LegFound},
    md::{Array, ArrayState, Member},
    model::{Node, Refusal, Seen, Use},
    proof,
    spec::{STRIPE_PREFIX, Spec},
    superblock::{Role, Superblock},
};

/// Whether an array is built of our local devices only; one that has lost all of them is not.
pub(crate) fn is_local(spec: &Spec, inventory: &Inventory, array: &Array) -> bool {
    let chosen = inventory.chosen(spec.local_count);
    let ours = |member: &Member| {
        let numbers = chosen.iter().filter_map(|disk| disk.identity.as_ref());
        numbers
            .into_iter()
            .any(|identity| member.number == Seen::Present(identity.number))
    };
    let gone = |member: &Member| member.number == Seen::Absent;
    array.members.iter().any(ours)
        && array
            .members
            .iter()
            .all(|member| ours(member) || gone(member))
}

/// Refuses local devices that are too few, or that are not ours to use.
pub(super) fn is_there(spec: &Spec, inventory: &Inventory) -> Result<(), Refusal> {
    let chosen = inventory.chosen(spec.local_count);
    if chosen.len() < spec.local_count {
        return Err(refusals::local_missing(spec, chosen.len()));
    }
    for disk in chosen {
        let taken = busy(spec, inventory, disk);
        if let Some(why) = taken.or_else(|| whose(spec, inventory, disk)) {
            return Err(refusals::local_busy(&disk.path, &why));
        }
    }
    Ok(())
}

/// What else uses a local device, as the end of a sentence.
fn busy(spec: &Spec, inventory: &Inventory, disk: &Disk) -> Option<String> {
    let Seen::Present(Node::Block(device)) = &disk.node else {
        return Some("is no block device".to_owned());
    };
    let durable = inventory.durable.identity.as_ref();
    if durable.is_some_and(|durable| durable.number == device.number) {
        return Some("is the durable device".to_owned());
    }
    if device.read_only {
        return Some("is read-only".to_owned());
    }
    let mut others = device.uses.iter().filter(|reason| match reason {
        Use::Holder(name) => {
            let array = inventory.arrays.iter().find(|array| array.name == *name);
            !array.is_some_and(|array| may_stop(spec, inventory, array))
        }
        Use::Mount(_) | Use::Swap | Use::Partition(_) | Use::IsPartition => true,
    });
    others.next().map(ToString::to_string)
}

/// Whether an array on local devices is ours, is a stripe that its own super-disk has left, or does not even run.
fn may_stop(spec: &Spec, inventory: &Inventory, array: &Array) -> bool {
    let chosen = inventory.chosen(spec.local_count);
    let names = |wanted: &dyn Fn(&str) -> bool| {
        chosen.iter().any(|disk| match &disk.content {
            Seen::Present(content) => {
                matches!(&content.superblock, Seen::Present(found) if wanted(found.short_name()))
            }
            Seen::Absent | Seen::Unknown(_) => false,
        })
    };
    let own = spec.volume.stripe_name();
    let left = array.holders.is_empty() && inventory.mount_of(array).is_none();
    let ours =
        names(&|name| name == own) || (left && names(&|name| name.starts_with(STRIPE_PREFIX)));
    array.state == ArrayState::Inactive || (ours && is_local(spec, inventory, array))
}

/// Whose a local device is, when it is not ours to take: the end of a sentence.
fn whose(spec: &Spec, inventory: &Inventory, disk: &Disk) -> Option<String> {
    if let Some(model) = disk.model.as_deref().filter(|model| is_network(model)) {
        return Some(format!("is a network disk ({model})"));
    }
    let content = match &disk.content {
        Seen::Present(content) => content,
        // It is not taken either: that is for the proof to say, once the durable leg serves.
        Seen::Absent | Seen::Unknown(_) => return None,
    };
    if let Some(what) = not_a_fast_leg(content) {
        return Some(what);
    }
    let number = disk.identity.as_ref()?.number;
    let own = spec.volume.stripe_name();
    let mut legs = inventory.legs.iter();
    let leg = legs.find(|leg| leg.devices.contains(&number))?;
    if leg.name == own {
        return None;
    }
    let why = match &leg.inside {
        Seen::Present(inside) => match &inside.superblock {
            Seen::Present(found) if took_writes_alone(found) => {
                let what = "holds the fast leg of another volume, which took writes that its network disk does not have";
                return Some(what.to_owned());
            }
            Seen::Present(_) | Seen::Absent => return None,
            Seen::Unknown(why) => format!("its superblock is damaged: {why}"),
        },
        Seen::Absent | Seen::Unknown(_) => {
            format!("{} of {} devices are there", leg.devices.len(), leg.wanted)
        }
    };
    (!is_replaced(inventory, leg)).then(|| {
        format!(
            "holds a part of the fast leg of another volume, of which it cannot be said whether its network disk \
             has it all ({why})"
        )
    })
}

/// Whether a volume lists this stripe as replaced, in the header on its present fast leg: the rest of the stripe is gone,
/// so the part that is here is useless.
fn is_replaced(inventory: &Inventory, left: &LegFound) -> bool {
    let mut legs = inventory.legs.iter();
    legs.any(|leg| match &leg.inside {
        Seen::Present(inside) => matches!(
            &inside.lineage,
            Seen::Present(header) if header.fast == leg.stripe && header.replaced.contains(&left.stripe)
        ),
        Seen::Absent | Seen::Unknown(_) => false,
    })
}

fn not_a_fast_leg(content: &Content) -> Option<String> {
    match &content.superblock {
        Seen::Present(found) if found.level == 1 => Some(format!(
            "carries the mirror {}, which may be the only copy of its data",
            found.name
        )),
        Seen::Present(found) if !proof::is_fast_leg(found) => {
            Some(format!("carries the array {}", found.name))
        }
        Seen::Unknown(why) => Some(format!("has a damaged md superblock: {why}")),
        Seen::Present(_) => None,
        Seen::Absent => content
            .foreign
            .map(|signature| format!("holds {signature}")),
    }
}

/// Whether a fast leg says of itself that its mirror went on without a durable leg.
fn took_writes_alone(inside: &Superblock) -> bool {
    let whole = inside.recovery_offset.is_none() && inside.role() == Role::Slot(1);
    whole && !inside.roles.contains(&Role::Slot(0))
}

/// How clouds call network disks that look like local NVMe.
const NETWORK_DISKS: [&str; 4] = [
    "nvme_card-pd",
    "PersistentDisk",
    "Amazon Elastic Block Store",
    "MSFT NVMe Accelerator",
];

fn is_network(model: &str) -> bool {
    let model = model.trim();
    NETWORK_DISKS.iter().any(|known| model.starts_with(known))
}
