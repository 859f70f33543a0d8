//! Other devices with the durable leg's superblock: what it was copied from, or copies of it. Pure.

use super::{ours::Ours, refusals};
use crate::{
    inventory::{Inventory, LegFound, Twin},
    md::Array,
    model::{Refusal, Seen},
};

/// Refuses a durable leg whose twin runs, since mdadm starts no second array of the same UUID; and one beside a newer
/// disk of the same volume, whose clone it may be. What is meant to be a copy gets a UUID of its own as it is started.
/// Other clones do no harm: mdadm is given one device.
pub(super) fn is_the_one(
    inventory: &Inventory,
    ours: &Ours<'_>,
    is_copy: bool,
) -> Result<(), Refusal> {
    let path = &ours.identity.path;
    if is_copy || inventory.array_of(ours.identity.number).is_some() {
        return Ok(());
    }
    for twin in &inventory.twins {
        if runs(inventory, twin) {
            return Err(refusals::twin_runs(path, &twin.name));
        }
        let newer = match (&twin.lineage, ours.header) {
            (Seen::Present(header), Some(own)) => {
                header.volume == own.volume && header.point > own.point
            }
            // One of them does not say how far it is.
            (Seen::Present(_), None) | (Seen::Unknown(_), _) => true,
            (Seen::Absent, _) => false,
        };
        if newer {
            return Err(refusals::duplicate(path, &twin.name));
        }
    }
    Ok(())
}

fn runs(inventory: &Inventory, twin: &Twin) -> bool {
    let number = twin.number;
    number.is_some_and(|number| inventory.array_of(number).is_some())
}

/// Whether a twin of a durable leg that does not run itself is assembled here.
pub(super) fn one_runs(inventory: &Inventory, ours: &Ours<'_>) -> bool {
    inventory.array_of(ours.identity.number).is_none()
        && inventory.twins.iter().any(|twin| runs(inventory, twin))
}

/// Whether a mirror stands on a twin: it is the twin's, and not one of ours that goes on without its durable leg.
pub(super) fn stands_on_one(inventory: &Inventory, mirror: &Array) -> bool {
    let member = |twin: &Twin| mirror.member(twin.number?);
    let mut members = inventory.twins.iter().filter_map(member);
    mirror.state.is_running() && members.any(|member| member.is_whole())
}

/// Whether a leg is in the mirror of a twin: what it has, that one has too.
pub(super) fn has(inventory: &Inventory, leg: &LegFound) -> bool {
    let stripe = inventory.array_on(leg);
    let mirror = stripe.and_then(|stripe| inventory.array_of(stripe.number));
    mirror.is_some_and(|mirror| stands_on_one(inventory, mirror))
}
