//! Checks right before an action that its premises still hold. Pure.

use crate::{
    action::{Action, Leg},
    inventory::{self, Identity, Inventory},
    lineage,
    model::Seen,
    plan::is_local,
    proof::{Blank, Disposable, Idle, Overruled, Unformatted},
    spec::Spec,
};

/// Whether the premises of an action still hold: the devices are the same, the proofs can be made again, and a mirror
/// that is changed still stands on its durable leg.
pub(super) fn still_holds(
    spec: &Spec,
    now: &Inventory,
    action: &Action,
) -> Result<(), &'static str> {
    let holds = |still: bool, what| if still { Ok(()) } else { Err(what) };
    match action {
        Action::Stop { array, because: _ } => {
            let array = now.arrays.iter().find(|one| one.name == *array);
            let mounted = array.is_some_and(|one| now.mount_of(one).is_some());
            holds(array.is_some() && !mounted, "the array is gone, or mounted")
        }
        Action::Fail {
            array,
            member,
            because: _,
        }
        | Action::Remove { array, member } => {
            let name = now.durable.identity.as_ref().map(|identity| &identity.name);
            holds(name != Some(member), "it would take out the durable leg")?;
            stands(now, array)
        }
        Action::Mark { array, chunks: _ } | Action::SettleMarks { array } => {
            // Or it stands on the fast leg, whose data counts, and the durable leg is about to be given all of it.
            let overruled = Overruled::prove(spec, now);
            overruled.map_or_else(|| stands(now, array), |_| Ok(()))
        }
        Action::ReAdd { array, member: _ }
        | Action::Add { array, member: _ }
        | Action::WriteMostly { array, .. }
        | Action::AddBitmap { array }
        | Action::GrowMirror { array, kib: _ }
        | Action::GrowFilesystem { array, .. }
        | Action::Mount { array, .. } => stands(now, array),
        Action::CreateStripe { devices, .. } => {
            devices.iter().try_for_each(|proof| disposable(now, proof))
        }
        Action::StartStripe { devices, .. } => {
            let mut known = now.local.iter().map(|disk| &disk.identity);
            let all = devices
                .iter()
                .all(|one| known.any(|disk| disk.as_ref() == Some(one)));
            holds(all, "a local device has changed")
        }
        Action::ForgetLineage {
            stripe: proof,
            region: _,
        }
        | Action::ForgetMirror(proof) => {
            let again = Idle::prove(now, proof.array());
            holds(
                again.as_ref() == Some(proof),
                "the stripe is in use, or has changed",
            )
        }
        Action::CreateMirror { durable, .. } => {
            let again = Blank::prove(spec, now);
            holds(
                again.as_ref() == Some(durable),
                "the durable device is not blank any more",
            )
        }
        Action::Watch { durable, seen: _ } | Action::StartMirror { durable, .. } => {
            same_durable(now, durable)
        }
        Action::LimitWait { device, millis: _ } => {
            let mut local = now.local.iter().filter_map(|disk| disk.identity.as_ref());
            let there = local.any(|identity| identity.name == *device);
            holds(there, "the local device is gone")
        }
        Action::ReadThrough { stripe, .. } => {
            let again = Idle::prove(now, stripe.array());
            holds(
                again.as_ref() == Some(stripe),
                "the stripe has changed, or is in use",
            )
        }
        Action::StartMirrorFromFast { durable, .. } | Action::ReAddDurable { durable, .. } => {
            let again = Overruled::prove(spec, now);
            holds(
                again.as_ref() == Some(durable),
                "the legs are other ones now",
            )
        }
        Action::WriteLineage {
            leg,
            region,
            header: _,
        } => match leg {
            Leg::Durable(identity) => {
                same_durable(now, identity)?;
                let content = match &now.durable.content {
                    Seen::Present(content) => Some(content),
                    Seen::Absent | Seen::Unknown(_) => None,
                };
                holds(
                    has_region(content, *region),
                    "the durable device has another layout now",
                )
            }
            Leg::Fast { array, stripe } => {
                let fast = match &now.fast {
                    Seen::Present(fast) if fast.stripe == *stripe => Some(fast),
                    Seen::Present(_) | Seen::Absent | Seen::Unknown(_) => None,
                };
                let runs = now
                    .arrays
                    .iter()
                    .any(|one| one.name == *array && is_local(spec, now, one));
                let same = runs && has_region(fast.map(|fast| &fast.inside), *region);
                holds(same, "the stripe has changed")
            }
        },
        Action::Format { mirror, .. } => {
            let again = Unformatted::prove(spec, now);
            holds(
                again.as_ref() == Some(mirror),
                "the mirror is in use, or holds data now",
            )
        }
        Action::Set { array, .. } => {
            let there = now.arrays.iter().any(|one| one.name == *array);
            holds(there, "the array is gone")
        }
    }
}

fn has_region(content: Option<&inventory::Content>, region: u64) -> bool {
    content.is_some_and(|content| match &content.superblock {
        Seen::Present(found) => lineage::region_at(found) == Some(region),
        Seen::Absent | Seen::Unknown(_) => false,
    })
}

fn disposable(now: &Inventory, proof: &Disposable) -> Result<(), &'static str> {
    let mut again = now
        .local
        .iter()
        .filter_map(|disk| Disposable::prove(now, disk));
    if again.any(|other| other == *proof) {
        Ok(())
    } else {
        Err("the local device is in use, or has changed")
    }
}

fn same_durable(now: &Inventory, identity: &Identity) -> Result<(), &'static str> {
    if now.durable.identity.as_ref() == Some(identity) {
        Ok(())
    } else {
        Err("the durable device has changed")
    }
}

/// Whether this mirror still has the durable leg as a whole member.
fn stands(now: &Inventory, array: &str) -> Result<(), &'static str> {
    let number = now
        .durable
        .identity
        .as_ref()
        .map(|identity| identity.number);
    let mirror = number.and_then(|number| now.array_of(number));
    let member = mirror.and_then(|mirror| mirror.member(number?));
    let whole = member.is_some_and(|member| member.is_whole());
    if whole && mirror.is_some_and(|mirror| mirror.name == array) {
        Ok(())
    } else {
        Err("the mirror no longer stands on the durable leg")
    }
}
