//! The mirror of a durable leg that is ours: start it, open it, mount it; then see to the fast leg.

use strum::VariantArray;

use super::{
    fast, free_name, is_optional, local, ours::Ours, questions, refusals, restored,
    without_fast_leg,
};
use crate::{
    action::{Action, Decision, Update},
    inventory::Inventory,
    lineage::{Header, State},
    md::{Array, ArrayState, Knob, MAX_READ_ERRORS},
    model::{Refusal, Seen},
    proof::Unformatted,
    spec::Spec,
    superblock::Uuid,
};

/// From here on the filesystem is laid out by the stripe, in bytes: the log of a small xfs does not fit then.
const STRIPED: u64 = 16 << 30;

/// What a filesystem may leave unused of its device, in bytes: less than one allocation group.
const FILESYSTEM_SLACK: u64 = 16 << 20;

/// Plans for a durable leg that is ours.
pub(super) fn serve(
    spec: &Spec,
    inventory: &Inventory,
    ours: &Ours<'_>,
) -> Result<Decision, Refusal> {
    let is_served = questions::is_served(spec, inventory, ours);
    if let Some(watch) = questions::ask(spec, inventory, ours)? {
        fast_leg_may_come(spec, inventory)?;
        return Ok(Decision::Do(vec![watch]));
    }
    if let Some(forget) = restored::forget(spec, inventory, ours).filter(|_| !is_served) {
        fast_leg_may_come(spec, inventory)?;
        return Ok(Decision::Do(vec![forget]));
    }
    let Some(mirror) = inventory.array_of(ours.identity.number) else {
        return start(spec, inventory, ours).map(Decision::Do);
    };
    match &mirror.state {
        ArrayState::Inactive => {
            return Ok(stop(mirror, "it holds the durable leg and does not run"));
        }
        ArrayState::Running | ArrayState::ReadAuto | ArrayState::ReadOnly => {}
        ArrayState::Broken | ArrayState::Other(_) => {
            return Err(refusals::mirror_without_durable(
                mirror,
                &ours.identity.path,
            ));
        }
    }
    durable_member(mirror, ours)?;
    let fast = fast::member(spec, inventory, mirror, ours)?;
    if let Some(away) = fast::put_out(inventory, mirror, ours, &fast) {
        return Ok(Decision::Do(away));
    }
    if !inventory
        .mounts_of(mirror.number)
        .any(|mount| mount.at == spec.mount)
    {
        return open(spec, inventory, mirror, ours, &fast);
    }
    let mut steps = settings(spec, mirror, ours);
    steps.extend(grow_filesystem(spec, inventory, mirror, ours));
    if !steps.is_empty() {
        return Ok(Decision::Do(steps));
    }
    let steps = fast::attach(spec, inventory, mirror, ours, &fast);
    Ok(steps.map_or_else(without_fast_leg, Decision::Do))
}

pub(super) fn stop(array: &Array, because: &'static str) -> Decision {
    Decision::Do(vec![Action::Stop {
        array: array.name.clone(),
        because,
    }])
}

/// Nothing runs: open a new generation, and start the mirror from the durable leg alone. In this order, for what
/// starts has forgotten whether the fast leg was in when the generation before ended.
fn start(spec: &Spec, inventory: &Inventory, ours: &Ours<'_>) -> Result<Vec<Action>, Refusal> {
    may_begin(spec, inventory)?;
    let is_bitmap_lost = has_lost_bitmap(ours);
    let update = if is_bitmap_lost {
        Update::NoBitmap
    } else if ours.superblock.bad_block_log > 0 {
        Update::NoBadBlockLog
    } else {
        Update::Nothing
    };
    let opened = ours.header.and_then(|header| {
        if is_bitmap_lost {
            // Nothing tells what a fast leg has missed, and the bitmap that is made next does not either.
            let is_used = header.state != State::Creating;
            return is_used.then(|| header.forgetting(inventory.random, inventory.boot));
        }
        let known = !questions::was_out_at_the_end(header, ours.superblock);
        opened(inventory, header, known)
    });
    let mut steps: Vec<Action> = opened
        .map(|header| ours.write(header))
        .into_iter()
        .collect();
    steps.push(Action::StartMirror {
        durable: ours.identity.clone(),
        array: free_name(inventory),
        update,
    });
    Ok(steps)
}

/// Whether md would not start it for its bitmap.
fn has_lost_bitmap(ours: &Ours<'_>) -> bool {
    let is_read = matches!(ours.content.bitmap, Seen::Present(_))
        && !matches!(ours.content.marked, Seen::Unknown(_));
    ours.superblock.bitmap_at().is_some() && !is_read
}

/// The header of a new generation, where one is due. What is not formatted yet gets it with its filesystem. `known`:
/// its bitmap tells all that the fast leg of the generation before can have missed. On a disk that names a snapshot that
/// is never so: it was put back, or the power went while the snapshot was taken, and which of both nothing tells.
fn opened(inventory: &Inventory, header: &Header, known: bool) -> Option<Header> {
    let is_snapshot = header.snapshot.is_some();
    let due = match header.state {
        State::Creating => false,
        State::Clean => true,
        State::InUse => is_snapshot || header.boot != inventory.boot,
    };
    due.then(|| {
        if known && !is_snapshot {
            header.opened(inventory.random, inventory.boot)
        } else {
            header.forgetting(inventory.random, inventory.boot)
        }
    })
}

/// Whether a mirror that is not mounted yet could be, and get its fast leg.
pub(super) fn may_begin(spec: &Spec, inventory: &Inventory) -> Result<(), Refusal> {
    mount_point_is_free(spec, inventory)?;
    fast_leg_may_come(spec, inventory)
}

fn mount_point_is_free(spec: &Spec, inventory: &Inventory) -> Result<(), Refusal> {
    let mut mounts = inventory.mounts.iter();
    match mounts.any(|mount| mount.at == spec.mount) {
        true => Err(refusals::mount_point_is_taken(&spec.mount)),
        false => Ok(()),
    }
}

/// Refuses to begin without a fast leg, unless that is asked for: it would be the wrong node.
fn fast_leg_may_come(spec: &Spec, inventory: &Inventory) -> Result<(), Refusal> {
    match local::is_there(spec, inventory) {
        Err(refusal) if is_optional(spec, &refusal) => Ok(()),
        result => result,
    }
}

/// The durable leg must be a whole member of its mirror.
fn durable_member(mirror: &Array, ours: &Ours<'_>) -> Result<(), Refusal> {
    let path = &ours.identity.path;
    match mirror.member(ours.identity.number) {
        Some(member) if member.flags.faulty => Err(refusals::mirror_without_durable(mirror, path)),
        Some(member) if member.flags.in_sync => Ok(()),
        Some(_) => Err(refusals::not_in_sync(path, "is being rebuilt")),
        None => Err(refusals::mirror_without_durable(mirror, path)),
    }
}

/// The mirror runs: everything up to the mount.
fn open(
    spec: &Spec,
    inventory: &Inventory,
    mirror: &Array,
    ours: &Ours<'_>,
    fast: &fast::Leg<'_>,
) -> Result<Decision, Refusal> {
    if let Some(mount) = inventory.mount_of(mirror) {
        return Err(refusals::mounted_elsewhere(mirror, &mount.at));
    }
    may_begin(spec, inventory)?;
    if ours.superblock.bad_block_log > 0 {
        return Ok(stop(
            mirror,
            "its durable leg has a bad-block log, which hides lost writes",
        ));
    }
    let Some(header) = ours.header else {
        return Ok(Decision::Do(vec![
            ours.write(first_header(spec, inventory, ours)),
        ]));
    };
    let mut steps = settings(spec, mirror, ours);
    if header.state == State::Creating {
        let Some(proof) = Unformatted::prove(spec, inventory) else {
            return Err(refusals::unexpectedly_blank(
                &ours.identity.path,
                "it is in use",
            ));
        };
        steps.push(Action::Format {
            mirror: proof,
            kind: spec.filesystem,
            label: spec.volume.label(),
            width: (mirror.bytes >= STRIPED).then_some(spec.local_count),
        });
    }
    // It was started without us: only a fast leg that is in tells whether it was in before.
    let known = header.fast == Uuid::default() || matches!(fast, fast::Leg::In(..));
    let next = match header.state {
        State::Creating => Some(header.opened(inventory.random, inventory.boot)),
        State::InUse | State::Clean => opened(inventory, header, known),
    };
    steps.extend(next.map(|header| ours.write(header)));
    steps.push(Action::Mount {
        array: mirror.name.clone(),
        at: spec.mount.clone(),
        kind: spec.filesystem,
    });
    Ok(Decision::Do(steps))
}

/// A durable leg without a header: new, or from before its header was lost. The session is random, so that no
/// fast leg is taken for a relative.
fn first_header(spec: &Spec, inventory: &Inventory, ours: &Ours<'_>) -> Header {
    let first = Header::first(spec.volume.clone(), inventory.random, inventory.boot);
    if ours.filesystem.is_some() {
        first.next_in(State::Clean)
    } else {
        first
    }
}

/// What does not outlast a start of the mirror.
fn settings(spec: &Spec, mirror: &Array, ours: &Ours<'_>) -> Vec<Action> {
    let mut steps = Vec::new();
    let durable = mirror.member(ours.identity.number);
    if let Some(member) = durable
        && !member.flags.write_mostly
    {
        steps.push(Action::WriteMostly {
            array: mirror.name.clone(),
            member: member.name.clone(),
            on: true,
        });
    }
    for &knob in Knob::VARIANTS {
        let value = match knob {
            Knob::MaxReadErrors => MAX_READ_ERRORS,
            Knob::SyncSpeedMin => spec.policy.rebuild_min_kib,
            Knob::SyncSpeedMax => spec.policy.rebuild_max_kib,
            Knob::Backlog | Knob::Rotational => 0,
            Knob::StableWrites => 1,
        };
        if mirror.knob(knob).is_some_and(|found| found != value) {
            steps.push(Action::Set {
                array: mirror.name.clone(),
                knob,
                value,
            });
        }
    }
    steps
}

/// The filesystem can only grow while it is mounted.
fn grow_filesystem(
    spec: &Spec,
    inventory: &Inventory,
    mirror: &Array,
    ours: &Ours<'_>,
) -> Option<Action> {
    let smaller = ours
        .filesystem
        .is_some_and(|filesystem| filesystem.bytes.saturating_add(FILESYSTEM_SLACK) < mirror.bytes);
    let tried = inventory.tried.grown || inventory.tried.grow_filesystem.is_some();
    (spec.policy.grow && smaller && !tried).then(|| Action::GrowFilesystem {
        array: mirror.name.clone(),
        at: spec.mount.clone(),
        kind: spec.filesystem,
    })
}
