//! Commands that a walk gives to the program, and how each may end:
//!
//! - a refusal changes no disk, and mounts nothing; a failure needs a disk that is sick, or was;
//! - while nothing but the power has failed, every command succeeds, and nobody is asked to decide;
//! - what was acknowledged is there after each assembly and each round of the agent, and both legs agree wherever md says that
//!   they are in sync.

use anyhow::{Context as _, Result, bail, ensure};

use super::{
    run::Walk,
    step::{Keep, Volume},
};
use crate::superdisk::{arrays, mismatch};

/// Files of 1 MiB in one batch.
const BATCH: usize = 2;

/// How the program ended.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Ending {
    Done,
    /// With a code.
    Refused(String),
    Failed,
}

impl Walk {
    /// Asks the program; what it ends with is judged: done, refused without a change, or failed while a disk is sick.
    fn ask(&mut self, volume: Volume, command: &str, more: &str) -> Result<Ending> {
        let vm = self.machine()?;
        let superdisk = &self.superdisks[volume.index()];
        // Other writes would be taken for the program's.
        let is_quiet = arrays(vm)?.is_empty();
        let written = || -> u64 { vm.drives.iter().map(|(_, disk)| disk.bytes_written()).sum() };
        let is_mounted = || anyhow::Ok(vm.ask(&superdisk.is_mounted())?.status == 0);
        let was_mounted = is_mounted()?;
        let before = written();
        let answer = superdisk.ask(vm, command, more)?;
        let changed = written() - before;
        let said = match answer.status {
            0 => Ending::Done,
            3 => Ending::Refused(code_of(&answer.stderr)?),
            1 => Ending::Failed,
            _ => bail!("{answer}"),
        };
        match &said {
            Ending::Refused(code) if is_quiet => ensure!(
                changed == 0,
                "{code}: {changed} bytes were written before it refused"
            ),
            Ending::Failed => ensure!(
                self.state.is_sick() || self.state.volume(volume).is_hurt,
                "failed though every disk is well: {answer}"
            ),
            Ending::Done | Ending::Refused(_) => {}
        }
        ensure!(
            said == Ending::Done || self.state.is_disturbed,
            "not done though nothing but the power has failed: {answer}"
        );
        ensure!(
            mount_fits(command, &said, was_mounted, is_mounted()?),
            "mounted or not, against what it says: {answer}"
        );
        self.report.answered(&match &said {
            Ending::Done => format!("{command}: done"),
            Ending::Failed => format!("{command}: failed"),
            Ending::Refused(code) => format!("{command}: {code}"),
        });
        Ok(said)
    }

    pub(super) fn assemble(&mut self, volume: Volume) -> Result<()> {
        let was_mounted = self.state.volume(volume).is_mounted;
        let durable_fails = self.state.volume(volume).durable_fails;
        let answer = self.ask(volume, "assemble", "")?;
        let state = self.state.volume_mut(volume);
        state.is_ahead = answer == Ending::Refused("E_SSD_AHEAD".to_owned());
        if answer != Ending::Done {
            return Ok(());
        }
        ensure!(
            was_mounted || !durable_fails,
            "{volume} is served without its network disk"
        );
        state.is_mounted = true;
        if was_mounted {
            return Ok(());
        }
        let is_sick = self.state.is_sick();
        self.state.volume_mut(volume).is_hurt = is_sick;
        self.has_everything(volume)
            .with_context(|| format!("{volume} was assembled"))?;
        self.truths[volume.index()].is_served();
        Ok(())
    }

    /// Every file that must be there is, as far as the disks let it be read.
    fn has_everything(&self, volume: Volume) -> Result<()> {
        let (vm, superdisk) = (self.machine()?, &self.superdisks[volume.index()]);
        for files in self.truths[volume.index()].must_be_there() {
            superdisk.has(vm, files)?;
        }
        Ok(())
    }

    /// Both legs hold the same, where md says that they do: one that does not has served what nobody wrote, or will.
    fn legs_agree(&self, volume: Volume) -> Result<()> {
        let (vm, superdisk) = (self.machine()?, &self.superdisks[volume.index()]);
        let mirror = superdisk.mirror(vm)?;
        let is_whole = format!(
            "cd /sys/block/{mirror}/md && [ $(cat degraded) = 0 ] && [ $(cat sync_action) = idle ]"
        );
        if vm.ask(&is_whole)?.status != 0 {
            return Ok(());
        }
        let different = mismatch(vm, &mirror)?;
        ensure!(
            different == 0,
            "md's check finds {different} sectors different"
        );
        Ok(())
    }

    pub(super) fn tear_down(&mut self, volume: Volume) -> Result<()> {
        if self.ask(volume, "teardown", "")? == Ending::Done {
            self.state.volume_mut(volume).is_mounted = false;
        }
        Ok(())
    }

    pub(super) fn round(&mut self, volume: Volume) -> Result<()> {
        self.ask(volume, "agent", "--once")?;
        let split = self.truths[volume.index()].is_split();
        let state = self.state.volume_mut(volume);
        state.may_be_frozen |= split;
        if split || state.is_hurt || self.state.is_sick() {
            return Ok(());
        }
        self.has_everything(volume)
            .and_then(|()| self.legs_agree(volume))
            .with_context(|| format!("{volume} after a round of the agent"))
    }

    pub(super) fn write(&mut self, volume: Volume) -> Result<()> {
        let superdisk = &self.superdisks[volume.index()];
        self.report.written += 1;
        let prefix = format!("file{}", self.report.written);
        match superdisk.write(self.machine()?, &prefix, BATCH) {
            Ok(files) => self.truths[volume.index()].wrote(files),
            Err(error) if !self.state.volume(volume).is_hurt => {
                return Err(error.context(format!("{volume} takes no writes")));
            }
            Err(_) => self.report.answered("write: failed"),
        }
        Ok(())
    }

    pub(super) fn resolve(&mut self, volume: Volume, keep: Keep) -> Result<()> {
        let more = format!("--keep {}", keep.word());
        if self.ask(volume, "resolve", &more)? == Ending::Done {
            self.state.volume_mut(volume).is_ahead = false;
            let truth = &mut self.truths[volume.index()];
            match keep {
                Keep::Durable => truth.kept_durable(),
                Keep::Fast => truth.is_served(),
            }
        }
        Ok(())
    }
}

/// Whether what is mounted fits an answer.
fn mount_fits(command: &str, said: &Ending, was: bool, is: bool) -> bool {
    match (command, said) {
        ("assemble", Ending::Done) => is,
        ("teardown", Ending::Done) => !is,
        (_, Ending::Refused(_)) => is == was,
        (_, Ending::Done | Ending::Failed) => true,
    }
}

/// The first word of what a refusal says.
fn code_of(stderr: &str) -> Result<String> {
    let code = stderr.split_whitespace().next().unwrap_or_default();
    ensure!(code.starts_with("E_"), "refused without a code: {stderr}");
    Ok(code.to_owned())
}
