//! `assemble`: look, plan, do, and look again, until everything is as it shall be or nothing may be done.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{
    action::{Action, Decision, WaitingOn},
    claim::Record,
    execute::{ExecuteError, Executor, pause, retry},
    inventory::{self, Blocks, Inventory, ObserveError, Tried},
    model::Refusal,
    plan::plan,
    spec::Spec,
    sysfs::kernel_node,
};

/// Rounds of looking and acting before it gives up: a first boot takes eight.
const ROUNDS: usize = 40;
/// How long another run may hold the node: a mkfs of a large network disk is the longest.
const LOCK_TIME: Duration = Duration::from_secs(120);

/// How often it begins anew because another has taken the durable leg: udev gives a device that was written to, to mdadm.
const TAKEN: usize = 5;
/// The time that udev gets for its pending events before an array that it has assembled again is stopped again.
const SETTLES: Duration = Duration::from_millis(500);

/// How it ended.
#[derive(Debug)]
pub enum Outcome {
    /// Everything is as it shall be.
    Done,
    /// The filesystem is mounted; the fast leg is not there.
    Waiting(WaitingOn),
    /// The filesystem is mounted; bringing the fast leg failed, and the agent will try again.
    FastLegFailed(ExecuteError),
    /// The filesystem is mounted, with its fast leg; that or the mirror could not be made larger, for this reason.
    NotGrown(String),
    /// Nothing was changed by the round that refused.
    Refused(Refusal),
    /// What the next round would do; nothing was done.
    Planned(Vec<Action>),
}

/// It failed.
#[derive(Debug, thiserror::Error)]
pub enum AssembleError {
    /// The node could not be looked at.
    #[error(transparent)]
    Observe(#[from] ObserveError),
    /// A step failed.
    #[error(transparent)]
    Execute(#[from] ExecuteError),
    /// The lock could not be had.
    #[error("failed to lock {path}: another run of superdisk may hold it")]
    Lock {
        /// Which file.
        path: PathBuf,
        source: io::Error,
    },
    /// The same step was decided twice.
    #[error("`{0}` was done and changed nothing")]
    NoProgress(String),
    /// md does not go on copying.
    #[error(
        "nothing was copied for {0} s: md gives up where the leg that it copies from cannot be read; the kernel's log \
         names the sector. Run it again, or restore the network disk from a snapshot"
    )]
    Stalled(u64),
    /// It would go on for ever.
    #[error("{ROUNDS} rounds led nowhere; the last began with `{0}`")]
    Endless(String),
}

/// One run at a time on a node: array names are chosen by what is not there.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Waits for other runs to end. The lock ends with its process, however that ends.
    pub fn take(state_dir: &Path) -> Result<Self, AssembleError> {
        let path = state_dir.join("lock");
        let wrap = |source| AssembleError::Lock {
            path: path.clone(),
            source,
        };
        fs::create_dir_all(state_dir).map_err(wrap)?;
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(wrap)?;
        let locked = retry(LOCK_TIME, || file.try_lock());
        locked.map_err(|error| match error {
            TryLockError::Error(source) => wrap(source),
            TryLockError::WouldBlock => wrap(io::ErrorKind::TimedOut.into()),
        })?;
        Ok(Self { _file: file })
    }
}

/// Decides once, and does nothing.
pub fn dry_run(spec: &Spec, root: &Path, blocks: &dyn Blocks) -> Result<Outcome, AssembleError> {
    let inventory = inventory::observe(spec, root, blocks, &Tried::default())?;
    Ok(match plan(spec, &inventory) {
        Decision::Do(actions) => Outcome::Planned(actions),
        Decision::WaitingOn(waiting) => Outcome::Waiting(waiting),
        Decision::Refused(refusal) => Outcome::Refused(refusal),
    })
}

/// Watches a durable leg that may be in use on another node, so that the lock need not be held meanwhile.
pub fn watch(
    spec: &Spec,
    root: &Path,
    blocks: &dyn Blocks,
    executor: &mut Executor<'_>,
    log: &mut dyn FnMut(&str),
) -> Result<Tried, AssembleError> {
    let mut tried = Tried::default();
    let inventory = inventory::observe(spec, root, blocks, &tried)?;
    if let Decision::Do(actions) = plan(spec, &inventory)
        && let [watch @ Action::Watch { .. }] = &actions[..]
    {
        round(&actions, &inventory, spec, executor, &mut tried, log)?;
        tried.note(watch);
    }
    Ok(tried)
}

/// Brings the super-disk up and mounts it. The caller holds the [`Lock`].
pub fn assemble(
    spec: &Spec,
    root: &Path,
    blocks: &dyn Blocks,
    executor: &mut Executor<'_>,
    log: &mut dyn FnMut(&str),
) -> Result<Outcome, AssembleError> {
    assemble_having_tried(spec, root, blocks, executor, Tried::default(), log)
}

/// The same, by one that has tried something before: the agent gives up re-adding that way.
pub fn assemble_having_tried(
    spec: &Spec,
    root: &Path,
    blocks: &dyn Blocks,
    executor: &mut Executor<'_>,
    mut tried: Tried,
    log: &mut dyn FnMut(&str),
) -> Result<Outcome, AssembleError> {
    let (mut before, mut served): (Vec<Action>, bool) = (Vec::new(), false);
    let mut taken = 0;
    for _ in 0..ROUNDS {
        let inventory = inventory::observe(spec, root, blocks, &tried)?;
        let actions = match plan(spec, &inventory) {
            Decision::Do(actions) if actions.is_empty() => return Ok(done(tried)),
            Decision::Do(actions) => actions,
            Decision::WaitingOn(waiting) => return Ok(Outcome::Waiting(waiting)),
            Decision::Refused(refusal) => return Ok(Outcome::Refused(refusal)),
        };
        served = is_mounted(&inventory, spec);
        if actions == before {
            if taken == TAKEN || !may_be_repeated(&actions) {
                return leads_nowhere(&actions, served, AssembleError::NoProgress);
            }
            taken += 1;
            log("  it was assembled again by another program; it is stopped again");
            pause(SETTLES);
        }
        match round(&actions, &inventory, spec, executor, &mut tried, log) {
            Ok(Some(outcome)) => return Ok(outcome),
            Ok(None) => {}
            Err(error) => {
                let now = inventory::observe(spec, root, blocks, &tried)?;
                if taken == TAKEN || !is_held(&now) || is_held(&inventory) {
                    return Err(error.into());
                }
                taken += 1;
                log(&format!(
                    "  {}: another array has it, looking again",
                    chain(&error)
                ));
            }
        }
        before = actions;
    }
    leads_nowhere(&before, served, AssembleError::Endless)
}

/// Nothing is left to do but what was tried and does not go.
fn done(tried: Tried) -> Outcome {
    let not_grown = tried.grow_mirror.or(tried.grow_filesystem);
    not_grown.map_or(Outcome::Done, Outcome::NotGrown)
}

/// Whether these steps may be needed twice. After an array was stopped, udev may still handle an event of an earlier write to
/// one of its components, and assemble it again.
fn may_be_repeated(actions: &[Action]) -> bool {
    matches!(actions.first(), Some(Action::Stop { .. }))
}

/// What comes of steps that lead nowhere: once it is mounted they are about the fast leg, and no reason to fail.
fn leads_nowhere(
    actions: &[Action],
    served: bool,
    failed: fn(String) -> AssembleError,
) -> Result<Outcome, AssembleError> {
    let action = actions.first().map(ToString::to_string).unwrap_or_default();
    if served {
        return Ok(Outcome::FastLegFailed(ExecuteError::Changed {
            action,
            what: "it was done before and led nowhere".to_owned(),
        }));
    }
    Err(failed(action))
}

/// Does one plan's steps; an outcome when a failure is one to live with.
pub fn round(
    actions: &[Action],
    inventory: &Inventory,
    spec: &Spec,
    executor: &mut Executor<'_>,
    tried: &mut Tried,
    log: &mut dyn FnMut(&str),
) -> Result<Option<Outcome>, ExecuteError> {
    for action in actions {
        log(&action.to_string());
        match (executor.execute(action), action) {
            (Ok(said), _) => {
                if !said.is_empty() {
                    log(&format!("  {said}"));
                }
                tried.note(action);
            }
            (Err(error), Action::StartStripe { .. }) if tried.start_fast.is_none() => {
                log(&format!("  {}: the stripe is recreated", chain(&error)));
                tried.start_fast = Some(chain(&error));
                return Ok(None);
            }
            (Err(error), Action::ReAdd { .. }) if tried.re_add.is_none() => {
                log(&format!("  {}: everything is copied", chain(&error)));
                tried.re_add = Some(chain(&error));
                return Ok(None);
            }
            (Err(error), Action::GrowMirror { .. }) if tried.grow_mirror.is_none() => {
                log(&format!("  {}: the mirror keeps its size", chain(&error)));
                tried.grow_mirror = Some(chain(&error));
                return Ok(None);
            }
            // A filesystem with an error in it keeps its size, and serves.
            (Err(error), Action::GrowFilesystem { .. }) if tried.grow_filesystem.is_none() => {
                log(&format!(
                    "  {}: the filesystem keeps its size",
                    chain(&error)
                ));
                tried.grow_filesystem = Some(chain(&error));
                return Ok(None);
            }
            (Err(error), action) => {
                let served = is_mounted(inventory, spec);
                if served && action.is_about_fast_leg() {
                    return Ok(Some(Outcome::FastLegFailed(error)));
                }
                return Err(error);
            }
        }
    }
    Ok(None)
}

/// Whether the durable leg is in an array.
fn is_held(inventory: &Inventory) -> bool {
    let durable = inventory.durable.identity.as_ref();
    durable.is_some_and(|durable| inventory.array_of(durable.number).is_some())
}

fn is_mounted(inventory: &Inventory, spec: &Spec) -> bool {
    let number = inventory
        .durable
        .identity
        .as_ref()
        .map(|identity| identity.number);
    let mirror = number.and_then(|number| inventory.array_of(number));
    mirror.is_some_and(|mirror| {
        let mut mounts = inventory.mounts_of(mirror.number);
        mounts.any(|mount| mount.at == spec.mount)
    })
}

/// What [`crate::reap`] has to know of a super-disk to take it down once its pod is gone.
#[must_use]
pub fn record(spec: &Spec, pod: Option<String>) -> Record {
    Record {
        volume: spec.volume.to_string(),
        pod,
        mount: spec.mount.clone(),
        durable: kernel_node(&spec.durable).unwrap_or_else(|| spec.durable.clone()),
        local: spec.local.clone(),
        local_count: spec.local_count,
    }
}

/// An error and everything that caused it, on one line.
#[must_use]
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_udev_may_have_assembled_again_is_stopped_again_and_nothing_else_is_repeated() {
        let array = || "md127".to_owned();
        let stop = Action::Stop {
            array: array(),
            because: "it holds the durable leg and does not run",
        };
        let grow = Action::GrowMirror {
            array: array(),
            kib: 8,
        };
        assert!(may_be_repeated(&[stop.clone(), grow.clone()]));
        assert!(!may_be_repeated(&[grow, stop]));
        assert!(!may_be_repeated(&[]));
    }
}
