//! `resolve --keep durable|fast`: the owner of the data decides between two legs of which the fast one has taken
//! writes alone. Deciding what that means is pure; nothing but this can overwrite a durable leg.
//!
//! ```text
//!   keep durable   forget what the local devices hold: the next assemble copies the durable leg to them
//!   keep fast      start the stripe ─▶ start the mirror from it alone ─▶ name it in the durable leg's header
//!                  ─▶ give the durable leg what it missed ─▶ wait ─▶ write its header ─▶ stop both: the next assemble
//!                  starts from the durable leg
//! ```
//!
//! Interrupted, only that very fast leg may be gone on with: another one of the volume, on the node before or beside it,
//! would be copied over what is half there.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::{
    action::{Action, Decision, Leg, Through},
    assemble::{AssembleError, Lock, chain},
    execute::Executor,
    inventory::{self, Blocks, Inventory, Tried},
    lineage::{self, Header, State},
    md::{Array, SyncAction},
    model::{Code, Refusal, Seen},
    plan::{adoption, beyond, free_name, is_alone, is_local, plan},
    proof::{Idle, Overruled, names},
    spec::Spec,
    superblock::SECTOR,
};

/// Which leg's data is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Keep {
    /// The durable leg's: what only the fast leg has is given up.
    Durable,
    /// The fast leg's: the durable leg is given what it missed.
    Fast,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResolveStep {
    /// These, then look again.
    Do(Vec<Action>),
    /// md copies; sectors done and to be done.
    Wait(Option<(u64, u64)>),
    /// There is nothing to decide, or it has been done.
    Done,
}

/// What to do next.
pub fn step(spec: &Spec, inventory: &Inventory, keep: Keep) -> Result<ResolveStep, Refusal> {
    match keep {
        Keep::Durable => keep_durable(spec, inventory),
        Keep::Fast => keep_fast(spec, inventory),
    }
}

/// Why `assemble` refuses, when it does.
fn refusal(spec: &Spec, inventory: &Inventory) -> Option<Refusal> {
    match plan(spec, inventory) {
        Decision::Refused(refusal) => Some(refusal),
        Decision::Do(_) | Decision::WaitingOn(_) => None,
    }
}

/// What the durable leg says of its history is made to have nothing to do with any fast leg: the next assemble copies
/// everything to the local devices, those that come back later included.
fn keep_durable(spec: &Spec, inventory: &Inventory) -> Result<ResolveStep, Refusal> {
    if spec.copy_of.is_some() && refusal(spec, inventory).is_none() {
        let steps = adoption(spec, inventory)?;
        return Ok(steps.map_or(ResolveStep::Done, ResolveStep::Do));
    }
    match refusal(spec, inventory) {
        None => return Ok(ResolveStep::Done),
        Some(refusal)
            if matches!(
                refusal.code,
                Code::SsdAhead | Code::PdOverwritten | Code::PdHeaderLost
            ) => {}
        Some(refusal) => return Err(refusal),
    }
    if let Some(array) = in_the_way(spec, inventory) {
        return Ok(ResolveStep::Do(vec![stop(array)]));
    }
    let content = match &inventory.durable.content {
        Seen::Present(content) => content,
        Seen::Absent | Seen::Unknown(_) => return Ok(ResolveStep::Done),
    };
    let header = match &content.lineage {
        Seen::Present(header) => header.clone(),
        // Both copies are lost: the lineage starts over.
        Seen::Absent | Seen::Unknown(_) => {
            Header::first(spec.volume.clone(), inventory.random, inventory.boot)
        }
    };
    // Beyond any leg in sight: one that went on while the durable leg was put back has a later generation.
    let header = Header {
        state: State::Clean,
        ..beyond(inventory, &header, 0)
    };
    let write = write(inventory, header);
    Ok(write.map_or(ResolveStep::Done, |write| ResolveStep::Do(vec![write])))
}

/// What has to be stopped before the next assemble: mirrors before the stripes that they stand on.
fn in_the_way<'a>(spec: &Spec, inventory: &'a Inventory) -> Option<&'a Array> {
    let stripe = stripe(spec, inventory);
    let on_fast = stripe.and_then(|stripe| inventory.array_of(stripe.number));
    let durable = inventory.durable.identity.as_ref();
    let on_durable = durable.and_then(|one| inventory.array_of(one.number));
    on_durable.or(on_fast).or(stripe)
}

fn stop(array: &Array) -> Action {
    Action::Stop {
        array: array.name.clone(),
        because: "its data is decided about",
    }
}

/// The running stripe of the local devices.
fn stripe<'a>(spec: &Spec, inventory: &'a Inventory) -> Option<&'a Array> {
    let mut arrays = inventory.arrays.iter();
    arrays.find(|array| array.level == "raid0" && is_local(spec, inventory, array))
}

fn keep_fast(spec: &Spec, inventory: &Inventory) -> Result<ResolveStep, Refusal> {
    let stripe = stripe(spec, inventory);
    let mirror = stripe.and_then(|stripe| inventory.array_of(stripe.number));
    let Some((stripe, mirror)) = stripe.zip(mirror) else {
        return start(spec, inventory, stripe);
    };
    if inventory.mount_of(mirror).is_some() {
        return Ok(ResolveStep::Done);
    }
    let number = inventory.durable.identity.as_ref().map(|one| one.number);
    let durable = number.and_then(|number| mirror.member(number));
    match durable {
        Some(member) if member.is_whole() && is_named(inventory) => {
            Ok(finish(inventory, mirror, stripe))
        }
        // It was put together by the host: there is nothing to decide, or this is not the answer.
        Some(member) if member.is_whole() => {
            refusal(spec, inventory).map_or(Ok(ResolveStep::Done), Err)
        }
        Some(member) if member.flags.faulty => Ok(ResolveStep::Do(vec![stop(mirror)])),
        Some(_) => Ok(ResolveStep::Wait(mirror.sync_progress)),
        None => {
            let mut steps = if is_named(inventory) {
                Vec::new()
            } else {
                take_over(inventory, mirror)
            };
            steps.push(Action::ReAddDurable {
                array: mirror.name.clone(),
                durable: overruled(spec, inventory)?,
            });
            Ok(ResolveStep::Do(steps))
        }
    }
}

fn overruled(spec: &Spec, inventory: &Inventory) -> Result<Overruled, Refusal> {
    Overruled::prove(spec, inventory).ok_or_else(|| Refusal {
        code: Code::SsdMissing,
        message:
            "The local devices do not hold, whole, the one fast leg that went on without the durable device"
                .to_owned(),
        next_step: "Run it where all local devices of that fast leg are; else keep the durable leg, or restore it from a \
                    snapshot"
            .to_owned(),
    })
}

/// Whether the durable leg's header says that it belongs to the fast leg.
fn is_named(inventory: &Inventory) -> bool {
    let known = headers(inventory).and_then(|(durable, fast)| durable.zip(fast));
    known.is_some_and(|(durable, fast)| names(durable, fast))
}

/// Makes a durable leg this fast leg's that was put back in time, or that does not say what it is. No bitmap knows what
/// lies between them, so everything is marked to be copied. The header comes after that: once it is written, the marks
/// are what tells.
fn take_over(inventory: &Inventory, mirror: &Array) -> Vec<Action> {
    let Seen::Present(fast) = &inventory.fast else {
        return Vec::new();
    };
    let array = mirror.name.clone();
    let mut steps = Vec::new();
    if let Seen::Present(bitmap) = &fast.inside.bitmap
        && let Some(last) = bitmap.chunks.checked_sub(1)
    {
        steps.push(Action::Mark {
            array: array.clone(),
            chunks: vec![(0, last)],
        });
        steps.push(Action::SettleMarks { array });
    }
    if let Some((durable, Some(fast))) = headers(inventory) {
        steps.extend(write(inventory, fast.for_durable(durable)));
    }
    steps
}

/// Nothing mirrors yet: begin only when there is something to decide.
fn start(
    spec: &Spec,
    inventory: &Inventory,
    stripe: Option<&Array>,
) -> Result<ResolveStep, Refusal> {
    match refusal(spec, inventory) {
        None => return Ok(ResolveStep::Done),
        Some(refusal) if matches!(refusal.code, Code::SsdAhead | Code::PdNotInSync) => {}
        Some(refusal) => return Err(refusal),
    }
    let durable = overruled(spec, inventory)?;
    let chosen = inventory.chosen(spec.local_count);
    if let Some(read) = stripe.and_then(|stripe| read_through(inventory, stripe)) {
        return Ok(ResolveStep::Do(vec![read]));
    }
    Ok(ResolveStep::Do(vec![match stripe {
        Some(stripe) => Action::StartMirrorFromFast {
            stripe: stripe.name.clone(),
            array: free_name(inventory),
            durable,
        },
        None => Action::StartStripe {
            array: free_name(inventory),
            devices: chosen
                .iter()
                .filter_map(|disk| disk.identity.clone())
                .collect(),
        },
    }]))
}

/// Reads what would be copied, unless that is done: md gives up half way where the fast leg cannot be read, and what
/// it has copied by then cannot be taken back.
fn read_through(inventory: &Inventory, stripe: &Array) -> Option<Action> {
    let Seen::Present(fast) = &inventory.fast else {
        return None;
    };
    let Seen::Present(inside) = &fast.inside.superblock else {
        return None;
    };
    if inventory.tried.read_through {
        return None;
    }
    let end = inside.size * SECTOR;
    let parts = match (&fast.inside.marked, &fast.inside.bitmap) {
        (Seen::Present(marked), Seen::Present(bitmap)) if is_named(inventory) => {
            let of = |&(first, last): &(u64, u64)| {
                let size = bitmap.chunk_bytes;
                ((first * size).min(end), ((last + 1) * size).min(end))
            };
            marked.iter().map(of).collect()
        }
        // What was written is not known: all of it may be.
        (_, _) => vec![(0, end)],
    };
    Some(Action::ReadThrough {
        stripe: Idle::prove(inventory, &stripe.name)?,
        through: Through {
            fast: inside.data_offset * SECTOR,
            parts,
        },
    })
}

/// Both legs are whole and alike: the durable leg gets a header that says so, and everything is stopped.
fn finish(inventory: &Inventory, mirror: &Array, stripe: &Array) -> ResolveStep {
    match mirror.sync {
        Some(SyncAction::Idle) => {}
        Some(
            SyncAction::Resync
            | SyncAction::Recover
            | SyncAction::Check
            | SyncAction::Repair
            | SyncAction::Reshape
            | SyncAction::Frozen,
        )
        | None => {
            return ResolveStep::Wait(mirror.sync_progress);
        }
    }
    let mut steps: Vec<Action> = header(inventory).into_iter().collect();
    steps.extend([stop(mirror), stop(stripe)]);
    ResolveStep::Do(steps)
}

/// The fast leg's header, one beat on: the durable leg holds what the fast leg holds.
fn header(inventory: &Inventory) -> Option<Action> {
    let (durable, fast) = headers(inventory)?;
    let newest = durable
        .into_iter()
        .chain(fast)
        .max_by_key(|one| one.point)?;
    write(inventory, newest.next_in(State::Clean))
}

/// What both legs say of their history.
fn headers(inventory: &Inventory) -> Option<(Option<&Header>, Option<&Header>)> {
    let (Seen::Present(content), Seen::Present(fast)) =
        (&inventory.durable.content, &inventory.fast)
    else {
        return None;
    };
    let [durable, fast] = [&content.lineage, &fast.inside.lineage].map(|seen| match seen {
        Seen::Present(header) => Some(header),
        Seen::Absent | Seen::Unknown(_) => None,
    });
    Some((durable, fast))
}

/// Writes a header to the durable leg.
fn write(inventory: &Inventory, header: Header) -> Option<Action> {
    let Seen::Present(content) = &inventory.durable.content else {
        return None;
    };
    let Seen::Present(superblock) = &content.superblock else {
        return None;
    };
    Some(Action::WriteLineage {
        leg: Leg::Durable(inventory.durable.identity.clone()?),
        region: lineage::region_at(superblock)?,
        header,
    })
}

/// How it ended.
#[derive(Debug)]
pub enum Resolved {
    /// The next assemble serves the data that was to be kept.
    Done,
    /// There was nothing to decide.
    Nothing,
    /// It may not be done.
    Refused(Refusal),
}

/// Steps before it gives up: keeping the fast leg takes six.
const STEPS: usize = 20;
/// Looks without progress after which a copy counts as stopped: md reports progress every few seconds.
const PATIENCE: u64 = 120;
/// Between two looks at a copy that md makes.
const PAUSE: std::time::Duration = std::time::Duration::from_secs(1);

/// The node, while it is needed: others wait for it, and md's copy takes hours.
#[derive(Debug)]
pub struct Turn<'a> {
    state_dir: &'a Path,
    lock: Option<Lock>,
}

impl<'a> Turn<'a> {
    /// Waits for its turn.
    ///
    /// # Errors
    /// When it does not come.
    pub fn take(state_dir: &'a Path) -> Result<Self, AssembleError> {
        let lock = Some(Lock::take(state_dir)?);
        Ok(Self { state_dir, lock })
    }

    /// Lets others have it; true when it was taken.
    fn let_go(&mut self) -> bool {
        self.lock.take().is_some()
    }

    /// Has it again; false when it had it all the time.
    fn take_again(&mut self) -> Result<bool, AssembleError> {
        let away = self.lock.is_none();
        if away {
            self.lock = Some(Lock::take(self.state_dir)?);
        }
        Ok(away)
    }
}

/// Does it, and waits for md's copy, which takes as long as it takes as long as it goes on. It has its turn on the node
/// again when it is done.
pub fn resolve(
    spec: &Spec,
    root: &Path,
    blocks: &dyn Blocks,
    keep: Keep,
    executor: &mut Executor<'_>,
    turn: &mut Turn<'_>,
    log: &mut dyn FnMut(&str),
) -> Result<Resolved, AssembleError> {
    let resolved = until_done(spec, root, blocks, keep, executor, turn, log);
    turn.take_again()?;
    resolved
}

fn until_done(
    spec: &Spec,
    root: &Path,
    blocks: &dyn Blocks,
    keep: Keep,
    executor: &mut Executor<'_>,
    turn: &mut Turn<'_>,
    log: &mut dyn FnMut(&str),
) -> Result<Resolved, AssembleError> {
    let (mut did, mut tried) = (Vec::new(), Tried::default());
    let mut copy = Copy::default();
    while did.len() < STEPS {
        let inventory = inventory::observe(spec, root, blocks, &tried)?;
        if did.is_empty() {
            match is_alone(spec, &inventory) {
                Ok(None) => {}
                Ok(Some(watch)) => {
                    turn.let_go();
                    log(&watch.to_string());
                    executor.execute(&watch)?;
                    tried.note(&watch);
                    continue;
                }
                Err(refusal) => return Ok(Resolved::Refused(refusal)),
            }
        }
        let actions = match step(spec, &inventory, keep) {
            Err(refusal) => return Ok(Resolved::Refused(refusal)),
            Ok(ResolveStep::Done) if did.is_empty() => return Ok(Resolved::Nothing),
            Ok(ResolveStep::Done) => return Ok(Resolved::Done),
            Ok(ResolveStep::Wait(progress)) => {
                turn.let_go();
                if let Some(line) = copy.goes_on(progress)? {
                    log(&line);
                }
                crate::execute::pause(PAUSE);
                continue;
            }
            Ok(ResolveStep::Do(actions)) => actions,
        };
        // What was decided while others had the node is decided again.
        if turn.take_again()? {
            continue;
        }
        for action in actions {
            log(&action.to_string());
            let said = executor
                .execute(&action)
                .inspect_err(|error| log(&chain(error)))?;
            if !said.is_empty() {
                log(&format!("  {said}"));
            }
            tried.note(&action);
            did.push(action);
        }
    }
    let first = did.first().map(ToString::to_string);
    Err(AssembleError::Endless(first.unwrap_or_default()))
}

/// How far md's copy is, from look to look.
#[derive(Debug, Default)]
struct Copy {
    last: Option<(u64, u64)>,
    still: u64,
}

impl Copy {
    /// A line when it has gone on.
    fn goes_on(&mut self, progress: Option<(u64, u64)>) -> Result<Option<String>, AssembleError> {
        if progress != self.last {
            (self.last, self.still) = (progress, 0);
            return Ok(progress.map(|(done, all)| format!("  {done} of {all} sectors")));
        }
        self.still += 1;
        if self.still >= PATIENCE {
            return Err(AssembleError::Stalled(self.still * PAUSE.as_secs()));
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_that_does_not_go_on_is_said_to_have_stopped() {
        let mut copy = Copy::default();
        let first = copy.goes_on(Some((8, 100))).unwrap();
        assert_eq!(first.as_deref(), Some("  8 of 100 sectors"));
        for _ in 1..PATIENCE {
            assert_eq!(copy.goes_on(Some((8, 100))).unwrap(), None);
        }
        assert!(copy.goes_on(Some((9, 100))).unwrap().is_some());
        let mut last = Ok(None);
        for _ in 0..PATIENCE {
            last = copy.goes_on(Some((9, 100)));
        }
        assert!(matches!(last, Err(AssembleError::Stalled(_))));
    }

    #[test]
    fn others_have_the_node_while_md_copies() {
        let folder = tempfile::tempdir().unwrap();
        let mut turn = Turn::take(folder.path()).unwrap();
        assert!(!turn.take_again().unwrap());
        assert!(turn.let_go());
        drop(Lock::take(folder.path()).unwrap());
        assert!(turn.take_again().unwrap());
    }
}
