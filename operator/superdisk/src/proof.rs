//! Leave to destroy something, given only by looking at it. Pure.
//!
//! Each proof has private fields and one constructor that checks what was seen, so that a destructive
//! [`Action`](crate::action::Action) cannot be made of anything else. The executor looks again and proves
//! again right before the act; a proof that is not the same then stops it.

use crate::{
    inventory::{Content, Data, Disk, Fast, Identity, Inventory},
    lineage::{self, Header, Relation, State},
    model::{Device, Node, Seen},
    spec::{STRIPE_PREFIX, Spec},
    superblock::{Role, Superblock, Uuid},
    verdict::{Verdict, verdict},
};

/// A durable leg's device that nothing was ever written to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blank(Identity);

impl Blank {
    /// The device is unused, its beginning and end are zeros, and nothing tells of data that was once on it.
    #[must_use]
    pub fn prove(spec: &Spec, inventory: &Inventory) -> Option<Self> {
        let disk = &inventory.durable;
        let unused = free_device(disk)?.uses.is_empty();
        let blank = disk.is_blank();
        let new = !spec.policy.used_before && !remembered(spec, inventory);
        (unused && blank && new).then(|| disk.identity.clone().map(Self))?
    }

    #[must_use]
    pub fn device(&self) -> &Identity {
        &self.0
    }
}

/// Whether a fast leg knows a mirror of this volume: then its durable leg was in use, however blank it is. What else
/// lies inside is what an earlier volume has left there.
#[must_use]
pub fn remembered(spec: &Spec, inventory: &Inventory) -> bool {
    inventory.legs.iter().any(|leg| match &leg.inside {
        Seen::Present(inside) => {
            let named = matches!(
                &inside.superblock,
                Seen::Present(found) if found.short_name() == spec.volume.mirror_name()
            );
            named
                || matches!(&inside.lineage, Seen::Present(header) if header.volume == spec.volume)
        }
        // A leg of ours that cannot be read may remember it.
        Seen::Absent | Seen::Unknown(_) => leg.name == spec.volume.stripe_name(),
    })
}

/// Whether a superblock on a local device is that of a part of a fast leg.
#[must_use]
pub fn is_fast_leg(found: &Superblock) -> bool {
    found.level == 0 && found.short_name().starts_with(STRIPE_PREFIX)
}

/// A running mirror of this volume that holds no data yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unformatted {
    array: String,
    durable: Identity,
}

impl Unformatted {
    /// The durable leg says that it is being created: nothing was ever mounted from it.
    #[must_use]
    pub fn prove(spec: &Spec, inventory: &Inventory) -> Option<Self> {
        let disk = &inventory.durable;
        let (Seen::Present(content), Some(identity)) = (&disk.content, &disk.identity) else {
            return None;
        };
        let Seen::Present(header) = &content.lineage else {
            return None;
        };
        let creating = header.volume == spec.volume && header.state == State::Creating;
        let array = inventory.array_of(identity.number)?;
        let unmounted = inventory.mounts_of(array.number).next().is_none();
        (creating && unmounted && !spec.policy.used_before).then(|| Self {
            array: array.name.clone(),
            durable: identity.clone(),
        })
    }

    /// Name of the mirror.
    #[must_use]
    pub fn array(&self) -> &str {
        &self.array
    }

    /// Device of its durable leg.
    #[must_use]
    pub fn durable(&self) -> &Identity {
        &self.durable
    }
}

/// A durable leg's device that may be called new: of our array, without a header, with nothing in it.
#[must_use]
pub fn is_unused_mirror(spec: &Spec, content: &Content) -> bool {
    content.lineage == Seen::Absent
        && content.data == Seen::Present(Data::Blank)
        && !spec.policy.used_before
}

/// A local device whose content may be thrown away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disposable(Identity);

impl Disposable {
    /// It is one of the local devices, it is not the durable leg, nothing is built upon it or mounted from it, and it
    /// was read and is blank or a part of a fast leg. That no data is only in that leg has been decided by then.
    #[must_use]
    pub fn prove(inventory: &Inventory, disk: &Disk) -> Option<Self> {
        let device = free_device(disk)?;
        let identity = disk.identity.clone()?;
        let durable = inventory.durable.identity.as_ref()?;
        let local = inventory
            .local
            .iter()
            .any(|one| one.identity == disk.identity);
        let other = durable.number != identity.number && !same_disk(durable, &identity);
        let nobodys = disk.is_blank()
            || matches!(
                &disk.content,
                Seen::Present(content)
                    if matches!(&content.superblock, Seen::Present(found) if is_fast_leg(found))
            );
        (local && other && nobodys && device.uses.is_empty()).then_some(Self(identity))
    }

    #[must_use]
    pub fn device(&self) -> &Identity {
        &self.0
    }
}

/// Two paths to one disk, as multipath makes them.
fn same_disk(one: &Identity, other: &Identity) -> bool {
    one.wwid.is_some() && one.wwid == other.wwid
}

/// A running stripe of only our local devices that no array has as a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Idle {
    array: String,
    stripe: Uuid,
}

impl Idle {
    /// It runs, every member is a local device, and nothing holds it or is mounted from it.
    #[must_use]
    pub fn prove(inventory: &Inventory, name: &str) -> Option<Self> {
        let array = inventory.arrays.iter().find(|array| array.name == name)?;
        let Seen::Present(fast) = &inventory.fast else {
            return None;
        };
        let ours = array.members.iter().all(|member| {
            let is = |disk: &Disk| {
                let number = disk.identity.as_ref().map(|identity| identity.number);
                number.map(Seen::Present) == Some(member.number.clone())
            };
            inventory.local.iter().any(is)
        });
        let unused = array.holders.is_empty()
            && inventory.array_of(array.number).is_none()
            && inventory.mounts_of(array.number).next().is_none()
            && !inventory
                .node_mounts
                .iter()
                .any(|mount| mount.number == array.number);
        let striped = array.level == "raid0" && array.state.is_running();
        (striped && ours && unused && !array.members.is_empty()).then(|| Self {
            array: array.name.clone(),
            stripe: fast.stripe,
        })
    }

    /// Name of the stripe.
    #[must_use]
    pub fn array(&self) -> &str {
        &self.array
    }
}

/// A durable leg whose owner has decided that the fast leg's data counts, and that fast leg.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overruled {
    durable: Identity,
    fast: Uuid,
}

impl Overruled {
    /// Both legs are this volume's and of one mirror, the fast leg is not itself half a copy, and the owner was asked about
    /// this one: it alone is ahead, or the durable leg was being filled from it. That its owner has decided so is for
    /// [`crate::resolve`] to know.
    #[must_use]
    pub fn prove(spec: &Spec, inventory: &Inventory) -> Option<Self> {
        let (Seen::Present(content), Seen::Present(fast)) =
            (&inventory.durable.content, &inventory.fast)
        else {
            return None;
        };
        let (Seen::Present(own), Seen::Present(inside)) =
            (&content.superblock, &fast.inside.superblock)
        else {
            return None;
        };
        let Seen::Present(header) = &fast.inside.lineage else {
            // The volume's name is on the stripe, or it would not have been read.
            return None;
        };
        let ours = header.volume == spec.volume && header.fast == fast.stripe;
        let whole = inside.recovery_offset.is_none() && inside.role() == Role::Slot(1);
        let same = own.array == inside.array && own.size == inside.size;
        let is_durable_whole = own.recovery_offset.is_none() && own.role() == Role::Slot(0);
        let asked_about = if is_durable_whole {
            is_only_one_ahead(spec, inventory, content, fast)
        } else {
            matches!(&content.lineage, Seen::Present(durable) if names(durable, header))
        };
        let identity = inventory.durable.identity.clone()?;
        (ours && whole && same && asked_about).then_some(Self {
            durable: identity,
            fast: fast.stripe,
        })
    }

    #[must_use]
    pub fn device(&self) -> &Identity {
        &self.durable
    }
}

/// Whether a durable leg says that it belongs to the fast leg with this header: before it is filled from one, it does.
#[must_use]
pub fn names(durable: &Header, fast: &Header) -> bool {
    let is_related = match lineage::relation(durable, fast) {
        Relation::Same | Relation::Parent => true,
        Relation::FastIsNewer | Relation::Apart => false,
    };
    durable.fast == fast.fast && is_related
}

/// Whether this fast leg took writes without the durable leg, and no other one in sight did, or may have.
fn is_only_one_ahead(spec: &Spec, inventory: &Inventory, durable: &Content, fast: &Fast) -> bool {
    let is_ahead = |stripe: Uuid, inside: &Content| {
        let verdict = verdict(&spec.volume, durable, stripe, inside);
        matches!(verdict, Verdict::Ahead(_))
    };
    let is_admitted =
        |stripe: Uuid| matches!(&durable.lineage, Seen::Present(header) if header.fast == stripe);
    let mut others = inventory
        .legs
        .iter()
        .filter(|leg| leg.stripe != fast.stripe);
    let any = others.any(|leg| match &leg.inside {
        Seen::Present(inside) => is_ahead(leg.stripe, inside),
        Seen::Absent | Seen::Unknown(_) => is_admitted(leg.stripe),
    });
    is_ahead(fast.stripe, &fast.inside) && !any
}

/// The device, if it is a block device that can be written to.
fn free_device(disk: &Disk) -> Option<&Device> {
    match &disk.node {
        Seen::Present(Node::Block(device)) if !device.read_only => Some(device),
        Seen::Present(Node::Block(_) | Node::NotBlock(_)) | Seen::Absent | Seen::Unknown(_) => None,
    }
}
