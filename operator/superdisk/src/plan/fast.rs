//! The fast leg: judge it, put it out where it is wrong, make it, start it, give it to the mirror.

use super::{
    free_name,
    local::{self, is_local},
    ours::Ours,
    questions, refusals,
};
use crate::{
    action::{self, Action},
    inventory::{Content, Disk, Fast, Inventory},
    lineage::{self, Header, Relation},
    md::{Array, ArrayState, Member},
    model::{DeviceNumber, Refusal, Seen},
    proof::{Disposable, Idle},
    size,
    spec::Spec,
    superblock::{Superblock, Uuid},
    verdict::{Verdict, verdict},
};

/// The fast leg's place in a running mirror.
pub(super) enum Leg<'a> {
    /// It has none.
    Out,
    /// It is there, and md has given it up.
    Failed(&'a Member),
    /// It is there; the stripe is this array.
    In(&'a Member, &'a Array),
}

/// The stripe, or what has to be done for one.
pub(super) enum Stripe<'a> {
    /// It runs, and nothing has it.
    Idle(&'a Array),
    /// It does not.
    Steps(Vec<Action>),
}

/// The array that a member is.
pub(super) fn stripe_of<'a>(inventory: &'a Inventory, member: &Member) -> Option<&'a Array> {
    let is = |array: &&Array| member.number == Seen::Present(array.number);
    inventory.arrays.iter().find(is)
}

/// What a running mirror has besides the durable leg.
pub(super) fn member<'a>(
    spec: &Spec,
    inventory: &'a Inventory,
    mirror: &'a Array,
    ours: &Ours<'_>,
) -> Result<Leg<'a>, Refusal> {
    let durable = Seen::Present(ours.identity.number);
    let mut others = mirror
        .members
        .iter()
        .filter(|member| member.number != durable);
    let Some(member) = others.next() else {
        return Ok(Leg::Out);
    };
    if member.flags.faulty || !member.is_present() {
        return Ok(Leg::Failed(member));
    }
    match stripe_of(inventory, member) {
        // Of one that has lost all its devices, nothing tells which they were; but it is in our mirror.
        Some(stripe) if is_local(spec, inventory, stripe) || has_lost_all_devices(stripe) => {
            Ok(Leg::In(member, stripe))
        }
        Some(_) | None => Err(refusals::unknown_member(mirror, &member.name)),
    }
}

/// Takes a fast leg out that must not be in: hazards come before everything else, mounted or not.
pub(super) fn put_out(
    inventory: &Inventory,
    mirror: &Array,
    ours: &Ours<'_>,
    leg: &Leg<'_>,
) -> Option<Vec<Action>> {
    let (member, because) = match leg {
        Leg::Out => return None,
        Leg::Failed(member) => return Some(vec![remove(mirror, member)]),
        Leg::In(member, _) if mirror.is_resyncing() => (
            member,
            "md is about to copy the fast leg over the durable one",
        ),
        Leg::In(member, stripe) if has_lost_a_device(stripe) => {
            (member, "the stripe has lost a device")
        }
        Leg::In(member, _) => (member, unrelated(inventory, ours)?),
    };
    let fail = Action::Fail {
        array: mirror.name.clone(),
        member: member.name.clone(),
        because,
    };
    Some(vec![fail, remove(mirror, member)])
}

/// A stripe notices only at the next read or write that a device is gone, or was, and another is in its place.
fn has_lost_a_device(stripe: &Array) -> bool {
    stripe.state == ArrayState::Broken || stripe.members.iter().any(is_gone)
}

fn has_lost_all_devices(stripe: &Array) -> bool {
    stripe.level == "raid0" && !stripe.members.is_empty() && stripe.members.iter().all(is_gone)
}

fn is_gone(member: &Member) -> bool {
    member.number == Seen::Absent
}

fn remove(mirror: &Array, member: &Member) -> Action {
    let name = match member.number {
        Seen::Present(_) | Seen::Unknown(_) => member.name.clone(),
        Seen::Absent => "detached".to_owned(),
    };
    Action::Remove {
        array: mirror.name.clone(),
        member: name,
    }
}

/// Why a fast leg that is in the mirror does not belong there: the host may have put it there before us.
fn unrelated(inventory: &Inventory, ours: &Ours<'_>) -> Option<&'static str> {
    let (Some(durable), Seen::Present(fast)) = (ours.header, &inventory.fast) else {
        // A header that cannot be read is no reason to give up a leg that md takes for good.
        return matches!(ours.content.lineage, Seen::Absent)
            .then_some("the durable leg has no header");
    };
    let admitted = questions::is_admitted(inventory, durable, fast.stripe);
    match &fast.inside.lineage {
        Seen::Present(header) if header.volume == durable.volume && header.fast == fast.stripe => {
            match lineage::relation(durable, header) {
                Relation::Same | Relation::Parent => None,
                Relation::Apart if admitted => None,
                Relation::Apart => Some("the durable leg was used without it"),
                Relation::FastIsNewer => Some("the durable leg went back in time"),
            }
        }
        Seen::Present(_) | Seen::Absent if admitted => None,
        Seen::Present(_) | Seen::Absent => Some("its header does not say that it belongs here"),
        Seen::Unknown(_) => None,
    }
}

/// What brings a fast leg to a mounted mirror; empty when it is there.
pub(super) fn attach(
    spec: &Spec,
    inventory: &Inventory,
    mirror: &Array,
    ours: &Ours<'_>,
    leg: &Leg<'_>,
) -> Result<Vec<Action>, Refusal> {
    let Some(header) = ours.header else {
        return Ok(Vec::new());
    };
    let limits = limit_waits(spec, inventory);
    if let Leg::In(member, stripe) = leg {
        if !limits.is_empty() {
            return Ok(limits);
        }
        return Ok(keep(spec, inventory, mirror, ours, header, member, stripe));
    }
    // First the bitmap, then the leg: without a bitmap, each start copies the whole leg again.
    if ours.superblock.bitmap_at().is_none() {
        return Ok(vec![Action::AddBitmap {
            array: mirror.name.clone(),
        }]);
    }
    let stripe = match prepare(spec, inventory)? {
        Stripe::Idle(stripe) => stripe,
        Stripe::Steps(steps) => {
            let noted = note_replaced(inventory, ours, header, &steps);
            return Ok([limits, noted, steps].concat());
        }
    };
    if !limits.is_empty() {
        return Ok(limits);
    }
    if let Some(kib) = ours.growth(spec, inventory, mirror, stripe.bytes) {
        return Ok(vec![Action::GrowMirror {
            array: mirror.name.clone(),
            kib,
        }]);
    }
    let Seen::Present(fast) = &inventory.fast else {
        return Ok(Vec::new());
    };
    if !size::has_room(stripe.bytes, mirror.component_kib) {
        return Err(refusals::local_too_small(stripe, mirror));
    }
    let re_add = match verdict(&spec.volume, ours.content, fast.stripe, &fast.inside) {
        Verdict::ReAdd => {
            inventory.tried.re_add.is_none()
                && !questions::left_in_this_life(inventory, header, fast.stripe)
        }
        Verdict::Full(_) => false,
        Verdict::Ahead(how) => return Err(refusals::fast_is_ahead(&ours.identity.path, &how)),
    };
    let mut steps = Vec::new();
    let admitted = if header.admits(fast.stripe) {
        header.clone()
    } else {
        header.taking(fast.stripe, inventory.random, inventory.here())
    };
    let admit = (admitted != *header).then(|| ours.write(admitted.clone()));
    if re_add {
        steps.extend(admit);
        if fast.inside.lineage != Seen::Present(admitted.clone()) {
            let region = region(&fast.inside);
            steps.extend(region.map(|region| write_fast(stripe, fast, region, admitted)));
        }
        if let Seen::Present(chunks) = &fast.inside.marked
            && !chunks.is_empty()
        {
            steps.push(Action::Mark {
                array: mirror.name.clone(),
                chunks: chunks.clone(),
            });
            steps.push(Action::SettleMarks {
                array: mirror.name.clone(),
            });
        }
        steps.push(Action::ReAdd {
            array: mirror.name.clone(),
            member: stripe.name.clone(),
        });
        return Ok(steps);
    }
    let Some(idle) = Idle::prove(inventory, &stripe.name) else {
        return Ok(Vec::new());
    };
    // The header first: a mirror that is forgotten no longer says where the header lies.
    steps.extend(region(&fast.inside).map(|region| Action::ForgetLineage {
        stripe: idle.clone(),
        region,
    }));
    if fast.inside.superblock != Seen::Absent {
        steps.push(Action::ForgetMirror(idle));
    }
    steps.extend(admit);
    steps.push(Action::Add {
        array: mirror.name.clone(),
        member: stripe.name.clone(),
    });
    Ok(steps)
}

/// Writes down, before devices are taken for a stripe, which stripes they were parts of. When another part of such a stripe
/// is found later, this tells that the rest is gone.
fn note_replaced(
    inventory: &Inventory,
    ours: &Ours<'_>,
    header: &Header,
    steps: &[Action],
) -> Vec<Action> {
    let taken = steps.iter().flat_map(|step| match step {
        Action::CreateStripe { devices, .. } => devices.as_slice(),
        _ => &[],
    });
    let taken: Vec<DeviceNumber> = taken.map(|proof| proof.device().number).collect();
    let legs = inventory.legs.iter();
    let replaced: Vec<Uuid> = legs
        .filter(|leg| leg.devices.iter().any(|device| taken.contains(device)))
        .map(|leg| leg.stripe)
        .collect();
    let next = header.replacing(&replaced);
    next.map(|header| ours.write(header)).into_iter().collect()
}

/// What the kernel is to wait at most for a local disk: its own 30 s are a read of the database each time. Long enough
/// for a trim of all of it.
const WAIT_MILLIS: u64 = 10_000;

/// Lets no local device keep its readers waiting for longer. Once: a kernel may not take it.
fn limit_waits(spec: &Spec, inventory: &Inventory) -> Vec<Action> {
    if inventory.tried.waits_limited {
        return Vec::new();
    }
    let chosen = inventory.chosen(spec.local_count).into_iter();
    let slow = chosen.filter(|disk| disk.wait_millis.is_some_and(|wait| wait > WAIT_MILLIS));
    slow.filter_map(|disk| {
        Some(Action::LimitWait {
            device: disk.identity.as_ref()?.name.clone(),
            millis: WAIT_MILLIS,
        })
    })
    .collect()
}

/// Keeps a fast leg that is in.
fn keep(
    spec: &Spec,
    inventory: &Inventory,
    mirror: &Array,
    ours: &Ours<'_>,
    header: &Header,
    member: &Member,
    stripe: &Array,
) -> Vec<Action> {
    let mut steps = Vec::new();
    if member.flags.write_mostly {
        steps.push(Action::WriteMostly {
            array: mirror.name.clone(),
            member: member.name.clone(),
            on: false,
        });
    }
    if ours.growth(spec, inventory, mirror, stripe.bytes).is_some() {
        // It joins again once the mirror has grown: md would take the new part for equal on both legs.
        steps.push(Action::Fail {
            array: mirror.name.clone(),
            member: member.name.clone(),
            because: "the mirror grows without it",
        });
        steps.push(remove(mirror, member));
        return steps;
    }
    let Seen::Present(fast) = &inventory.fast else {
        return steps;
    };
    let Some(region) = region(&fast.inside) else {
        return steps;
    };
    let current = matches!(
        &fast.inside.lineage,
        Seen::Present(known) if known.point.session == header.point.session && known.fast == fast.stripe
    );
    if !header.admits(fast.stripe) {
        let admitted = header.taking(fast.stripe, inventory.random, inventory.here());
        steps.push(ours.write(admitted.clone()));
        steps.push(write_fast(stripe, fast, region, admitted));
    } else if !current {
        steps.push(write_fast(stripe, fast, region, header.clone()));
    }
    steps
}

fn region(inside: &Content) -> Option<u64> {
    let found: &Superblock = match &inside.superblock {
        Seen::Present(found) => found,
        Seen::Absent | Seen::Unknown(_) => return None,
    };
    lineage::region_at(found)
}

fn write_fast(stripe: &Array, fast: &Fast, region: u64, header: Header) -> Action {
    Action::WriteLineage {
        leg: action::Leg::Fast {
            array: stripe.name.clone(),
            stripe: fast.stripe,
        },
        region,
        header,
    }
}

/// Comes to a stripe of the local devices that runs and that nothing has.
pub(super) fn prepare<'a>(spec: &Spec, inventory: &'a Inventory) -> Result<Stripe<'a>, Refusal> {
    local::is_there(spec, inventory)?;
    let chosen = inventory.chosen(spec.local_count);
    if let (Seen::Unknown(why), Some(disk)) = (&inventory.fast, chosen.first()) {
        // Nothing that can be done to the stripe writes there: recreated, it would be found like that again.
        let why = format!("belongs to a fast leg that cannot be read at its beginning: {why}");
        return Err(refusals::local_busy(&disk.path, &why));
    }
    let numbers = chosen.iter().filter_map(|disk| disk.identity.as_ref());
    let on_them = numbers
        .into_iter()
        .filter_map(|one| inventory.array_of(one.number));
    let mut arrays: Vec<&Array> = on_them.collect();
    arrays.dedup_by_key(|array| &array.name);
    let whole = matches!(inventory.fast, Seen::Present(_));
    if let [array] = arrays[..]
        && whole
        && array.state.is_running()
        && Idle::prove(inventory, &array.name).is_some()
    {
        return Ok(Stripe::Idle(array));
    }
    if let Some(array) = arrays.first() {
        let because = match array.state {
            ArrayState::Inactive => "it holds local devices and does not run",
            ArrayState::Broken => "it has lost a device",
            ArrayState::Running
            | ArrayState::ReadAuto
            | ArrayState::ReadOnly
            | ArrayState::Other(_) => "it is not the stripe of all local devices",
        };
        return Ok(Stripe::Steps(vec![Action::Stop {
            array: array.name.clone(),
            because,
        }]));
    }
    if whole && inventory.tried.start_fast.is_none() {
        let devices = chosen.iter().filter_map(|disk| disk.identity.clone());
        return Ok(Stripe::Steps(vec![Action::StartStripe {
            array: free_name(inventory),
            devices: devices.collect(),
        }]));
    }
    create(spec, inventory, &chosen).map(Stripe::Steps)
}

/// Whatever the local devices held is on the durable leg too: they are blank, or had parts of fast legs.
fn create(spec: &Spec, inventory: &Inventory, chosen: &[&Disk]) -> Result<Vec<Action>, Refusal> {
    let mut devices = Vec::new();
    for disk in chosen {
        let proof = Disposable::prove(inventory, disk);
        let why = match &disk.content {
            Seen::Unknown(why) => format!("cannot be read: {why}"),
            Seen::Present(_) | Seen::Absent => "is in use".to_owned(),
        };
        devices.push(proof.ok_or_else(|| refusals::local_busy(&disk.path, &why))?);
    }
    Ok(vec![Action::CreateStripe {
        array: free_name(inventory),
        name: spec.volume.stripe_name(),
        devices,
    }])
}
