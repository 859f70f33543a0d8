//! Questions asked before anything is mounted, served, attached, adopted or recreated. Each stands in one place, and
//! unknown never counts as no.
//!
//! | question | where | bad answer |
//! |---|---|---|
//! | Is this the volume's own disk? | [`super::durable::classify`] | `E_PD_NOT_OURS` |
//! | Is it the disk itself, and not a clone beside it? | [`twins::is_the_one`] | `E_DUPLICATE_UUID` |
//! | Has the host written to it? | [`is_untouched`] | `E_PD_OVERWRITTEN` |
//! | May a fast leg be ahead, or one that is late? | [`is_not_ahead`] | `E_SSD_AHEAD` |
//! | Is another node on it? | [`is_alone`] | `E_PD_IN_USE`, `E_PD_HEADER_LOST` |
//! | Whose is a local device? | [`local::is_there`] | `E_SSD_BUSY` |
//! | May the bitmap be trusted? | [`left_in_this_life`], [`was_out_at_the_end`] | a full copy |

use super::{is_optional, local, ours::Ours, refusals, restored, twins};
use crate::{
    action::Action,
    inventory::{Disk, Inventory, LegFound},
    lineage::{self, Header, Relation, State},
    md::Array,
    model::{Refusal, Seen},
    spec::Spec,
    superblock::{Role, Superblock, Uuid},
    verdict::{Verdict, verdict},
};

/// Asks what has to be known before the durable leg is served; with something to do first, where only time tells.
///
/// What is mounted where it shall be was asked about before that, and its durable leg is in use since.
pub(super) fn ask(
    spec: &Spec,
    inventory: &Inventory,
    ours: &Ours<'_>,
) -> Result<Option<Action>, Refusal> {
    if is_served(spec, inventory, ours) {
        return Ok(None);
    }
    is_untouched(inventory, ours)?;
    is_not_ahead(spec, inventory, ours)?;
    is_alone(inventory, ours)
}

pub(super) fn is_served(spec: &Spec, inventory: &Inventory, ours: &Ours<'_>) -> bool {
    let array = inventory.array_of(ours.identity.number);
    array.is_some_and(|array| {
        let mut mounts = inventory.mounts_of(array.number);
        mounts.any(|mount| mount.at == spec.mount)
    })
}

/// Whether a leg is in the mirror that the durable leg is in: md found them to agree then.
pub(super) fn is_in_mirror(inventory: &Inventory, leg: &LegFound, ours: &Ours<'_>) -> bool {
    let mirror = inventory.array_of(ours.identity.number);
    let stripe = inventory.array_on(leg);
    mirror.zip(stripe).is_some_and(|(mirror, stripe)| {
        let member = mirror.member(stripe.number);
        mirror.state.is_running() && member.is_some_and(|member| !member.flags.faulty)
    })
}

/// Refuses what a fast leg has, or may have, and the durable leg has not: all legs are asked, not only the one that
/// would be used.
pub(super) fn is_not_ahead(
    spec: &Spec,
    inventory: &Inventory,
    ours: &Ours<'_>,
) -> Result<(), Refusal> {
    // Its operator has answered.
    if restored::is_due(spec, ours) {
        return Ok(());
    }
    let path = &ours.identity.path;
    // A copy's fast leg is the other volume's.
    let volume = ours.header.map_or(&spec.volume, |header| &header.volume);
    let out = inventory
        .legs
        .iter()
        .filter(|leg| !is_in_mirror(inventory, leg, ours) && !twins::has(inventory, leg));
    let mut judged = Vec::new();
    for leg in out {
        let Seen::Present(inside) = &leg.inside else {
            continue;
        };
        // What a damaged superblock said, nothing tells.
        if !matches!(inside.superblock, Seen::Unknown(_)) {
            judged.push(leg.stripe);
        }
        match verdict(volume, ours.content, leg.stripe, inside) {
            Verdict::Ahead(how) => return Err(refusals::fast_is_ahead(path, &how)),
            Verdict::ReAdd | Verdict::Full(_) => {}
        }
    }
    let is_there = local::is_there(spec, inventory);
    if let Some(why) = cannot_be_judged(inventory, ours, &judged) {
        // Without its local devices it would not be started anyway, and they may only be late.
        return match is_there {
            Err(refusal) if !is_optional(spec, &refusal) => Err(refusal),
            Ok(()) | Err(_) => Err(refusals::fast_cannot_be_judged(path, &why)),
        };
    }
    // Too few local devices are refused, or put up with, for themselves.
    match may_be_late(inventory, ours).filter(|_| is_there.is_ok()) {
        Some(why) => Err(refusals::fast_cannot_be_judged(path, &why)),
        None => Ok(()),
    }
}

/// Why a fast leg of which nothing is in sight may only be late: this machine has fewer local devices than it had with that
/// leg. On another machine, and where others are in their places, they are gone for good.
fn may_be_late(inventory: &Inventory, ours: &Ours<'_>) -> Option<String> {
    let in_use = |header: &&Header| header.state == State::InUse && header.fast != Uuid::default();
    let header = ours.header.filter(in_use)?;
    let (had, has) = header.machine.zip(inventory.here())?;
    let mut legs = inventory.legs.iter();
    let is_in_sight = legs.any(|leg| leg.stripe == header.fast);
    let is_late = had.id == has.id && has.devices < had.devices && !is_in_sight;
    is_late.then(|| {
        format!(
            "{} of the {} that this machine had with the fast leg are there, and nothing of that leg is",
            has.devices, had.devices
        )
    })
}

/// Why it cannot be ruled out that the fast leg of the durable leg's last life is ahead, while some of it, or something
/// unreadable, is in sight. After a clean end it was not ahead: the durable leg says so itself.
fn cannot_be_judged(inventory: &Inventory, ours: &Ours<'_>, judged: &[Uuid]) -> Option<String> {
    let admitted = match &ours.content.lineage {
        Seen::Present(header) if header.state != State::InUse => return None,
        Seen::Present(header) if header.fast == Uuid::default() => return None,
        Seen::Present(header) => Some(header.fast),
        // It was never opened.
        Seen::Absent => return None,
        Seen::Unknown(_) => None,
    };
    if admitted.is_some_and(|stripe| judged.contains(&stripe)) {
        return None;
    }
    let leg = inventory.legs.iter().find(|leg| {
        admitted.is_none_or(|stripe| leg.stripe == stripe)
            && !judged.contains(&leg.stripe)
            && !is_in_mirror(inventory, leg, ours)
            && !twins::has(inventory, leg)
    });
    if let Some(leg) = leg {
        let (found, wanted) = (leg.devices.len(), leg.wanted);
        let damage = match &leg.inside {
            Seen::Present(inside) => match &inside.superblock {
                Seen::Unknown(why) => Some(format!("its superblock is damaged: {why}")),
                Seen::Present(_) | Seen::Absent => None,
            },
            Seen::Unknown(why) => Some(format!("its superblock cannot be read: {why}")),
            Seen::Absent => None,
        };
        let damage = damage.filter(|_| leg.is_whole());
        return Some(
            damage.unwrap_or_else(|| format!("{found} of its {wanted} devices are there")),
        );
    }
    if admitted.is_some_and(|stripe| is_in(inventory, ours, stripe)) {
        return None;
    }
    let unread = inventory.local.iter().find_map(unread)?;
    Some(unread)
}

fn is_in(inventory: &Inventory, ours: &Ours<'_>, stripe: Uuid) -> bool {
    let mut legs = inventory.legs.iter();
    legs.any(|leg| leg.stripe == stripe && is_in_mirror(inventory, leg, ours))
}

/// Why it cannot be said what a local device carries, when it cannot.
fn unread(disk: &Disk) -> Option<String> {
    let path = disk.path.display();
    match &disk.content {
        Seen::Unknown(why) => Some(format!("{path} cannot be read: {why}")),
        Seen::Present(content) => match &content.superblock {
            Seen::Unknown(why) => Some(format!("{path} has a damaged md superblock: {why}")),
            Seen::Present(_) | Seen::Absent => None,
        },
        Seen::Absent => None,
    }
}

/// Refuses a durable leg that counts on while it is watched: another node is on it. One of another boot that was not
/// ended in order is watched first; so is one whose twin runs here, for they may be one disk that came by two ways.
///
/// A header that cannot be read does not tell either, and watching would not help: who counts there is not seen.
pub(super) fn is_alone(inventory: &Inventory, ours: &Ours<'_>) -> Result<Option<Action>, Refusal> {
    let header = match &ours.content.lineage {
        Seen::Present(header) => header,
        // It was never opened.
        Seen::Absent => return Ok(None),
        Seen::Unknown(why) => {
            return Err(refusals::header_is_lost(&ours.identity.path, why));
        }
    };
    let beside = twins::one_runs(inventory, ours);
    if header.state != State::InUse || (header.boot == inventory.boot && !beside) {
        return Ok(None);
    }
    match inventory.tried.watched {
        None => Ok(Some(Action::Watch {
            durable: ours.identity.clone(),
            seen: header.point,
        })),
        Some(point) if point == header.point => Ok(None),
        Some(_) => Err(refusals::in_use_elsewhere(&ours.identity.path)),
    }
}

/// Refuses a durable leg that the host has assembled with a fast leg of another history: md has copied what was dirty
/// from that leg to this one, and what it copied cannot be known.
fn is_untouched(inventory: &Inventory, ours: &Ours<'_>) -> Result<(), Refusal> {
    let Some(durable) = ours.header else {
        return Ok(());
    };
    let with = inventory
        .legs
        .iter()
        .filter(|leg| is_in_mirror(inventory, leg, ours));
    for leg in with {
        if is_admitted(inventory, durable, leg.stripe) && !is_of_later_generation(durable, leg) {
            continue;
        }
        let unknown = |why: &str| {
            // md may have copied from it whatever it had.
            let why = format!("the history of a leg that the host has added cannot be read: {why}");
            refusals::fast_cannot_be_judged(&ours.identity.path, &why)
        };
        let header = match &leg.inside {
            Seen::Present(inside) => match &inside.lineage {
                Seen::Present(header) => header,
                Seen::Unknown(why) => return Err(unknown(why)),
                Seen::Absent => continue,
            },
            Seen::Unknown(why) => return Err(unknown(why)),
            Seen::Absent => continue,
        };
        if header.volume != durable.volume {
            continue;
        }
        match lineage::relation(durable, header) {
            Relation::Same | Relation::Parent => {}
            Relation::FastIsNewer | Relation::Apart => {
                return Err(refusals::overwritten(&ours.identity.path));
            }
        }
    }
    Ok(())
}

/// Whether a leg has seen a start or a snapshot that the durable leg has not: that one was put back in this boot. Beats
/// do not tell, for the agent may write one between both looks.
fn is_of_later_generation(durable: &Header, leg: &LegFound) -> bool {
    let Seen::Present(inside) = &leg.inside else {
        return false;
    };
    let Seen::Present(header) = &inside.lineage else {
        return false;
    };
    header.volume == durable.volume && header.point.generation > durable.point.generation
}

/// In this boot, and after it had been forgotten to have been in a mirror: only we can have added it.
pub(super) fn is_admitted(inventory: &Inventory, durable: &Header, stripe: Uuid) -> bool {
    durable.fast == stripe && durable.state == State::InUse && durable.boot == inventory.boot
}

/// Whether a leg that is out was in, in this boot: what it acknowledged and never flushed, no bitmap knows once it
/// has been away, for md clears bits while it is.
pub(super) fn left_in_this_life(inventory: &Inventory, durable: &Header, stripe: Uuid) -> bool {
    is_admitted(inventory, durable, stripe)
}

/// Whether the fast leg that the durable leg had admitted was out when the durable leg was last written to: the same,
/// in an earlier boot. To be asked before the mirror is started from the durable leg alone, which forgets it.
pub(super) fn was_out_at_the_end(durable: &Header, superblock: &Superblock) -> bool {
    let in_it = superblock.roles.contains(&Role::Slot(1));
    durable.fast != Uuid::default() && !in_it
}

/// A mirror of this volume that runs without the durable leg, and whether a filesystem of it is mounted.
pub(super) fn without_durable<'a>(
    spec: &Spec,
    inventory: &'a Inventory,
) -> Option<(&'a Array, bool)> {
    let number = inventory.durable.identity.as_ref()?.number;
    let own = match &inventory.durable.content {
        Seen::Present(content) => match &content.superblock {
            Seen::Present(own) => Some(own.array),
            Seen::Absent | Seen::Unknown(_) => None,
        },
        Seen::Absent | Seen::Unknown(_) => None,
    };
    let lone = inventory.legs.iter().find_map(|leg| {
        let stripe = inventory.array_on(leg)?;
        let array = inventory.array_of(stripe.number)?;
        let same = match &leg.inside {
            Seen::Present(inside) => match &inside.superblock {
                Seen::Present(found) => Some(found.array) == own,
                Seen::Absent | Seen::Unknown(_) => false,
            },
            Seen::Absent | Seen::Unknown(_) => false,
        };
        let ours = same || leg.name == spec.volume.stripe_name();
        let without = array.state.is_running()
            && array.level == "raid1"
            && !twins::stands_on_one(inventory, array);
        (ours && without && array.member(number).is_none()).then_some(array)
    })?;
    Some((lone, inventory.mount_of(lone).is_some()))
}
