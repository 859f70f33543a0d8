//! What a walk knows of its machine: which steps are possible, and what may fail now.

use super::step::{LOCALS, Step, Volume};

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct VolumeState {
    pub(super) is_mounted: bool,
    /// Its network disk fails.
    pub(super) durable_fails: bool,
    /// A disk has failed since it was mounted: the filesystem may refuse.
    pub(super) is_hurt: bool,
    /// The agent has looked at it without its network disk, and may have frozen it.
    pub(super) may_be_frozen: bool,
    /// It was refused last because the local disks are ahead, or cannot be judged.
    pub(super) is_ahead: bool,
}

/// Of all.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    pub(super) is_on: bool,
    /// Something beside power cuts has happened to a disk, or an array was touched by another: until then nothing may be
    /// refused, and nothing may fail.
    pub(super) is_disturbed: bool,
    pub(super) volumes: [VolumeState; 2],
    pub(super) local_fails: [bool; LOCALS],
    pub(super) is_pulled: [bool; LOCALS],
    pub(super) has_broken_pages: [bool; LOCALS],
}

impl State {
    pub(super) fn volume(&self, volume: Volume) -> &VolumeState {
        &self.volumes[volume.index()]
    }

    pub(super) fn volume_mut(&mut self, volume: Volume) -> &mut VolumeState {
        &mut self.volumes[volume.index()]
    }

    /// Whether any disk is sick: commands may fail then, and say so.
    pub(super) fn is_sick(&self) -> bool {
        self.volumes.iter().any(|volume| volume.durable_fails)
            || self.local_fails.contains(&true)
            || self.is_pulled.contains(&true)
            || self.has_broken_pages.contains(&true)
    }

    /// Whether the step can be done now.
    pub(super) fn allows(&self, step: Step) -> bool {
        let frozen = self.volumes.iter().any(|volume| volume.may_be_frozen);
        match step {
            Step::Boot | Step::Replace(_) => !self.is_on,
            // A `sync` of a frozen filesystem never ends.
            Step::PowerOff => self.is_on && !frozen,
            Step::CutPower | Step::HostAssembles => self.is_on,
            Step::Assemble(volume) => self.is_on && !self.volume(volume).may_be_frozen,
            Step::TearDown(volume) | Step::Write(volume) => {
                let volume = self.volume(volume);
                self.is_on && volume.is_mounted && !volume.may_be_frozen
            }
            Step::Round(volume) => self.is_on && self.volume(volume).is_mounted,
            Step::Resolve(volume, _) => {
                let volume = self.volume(volume);
                self.is_on && volume.is_ahead && !volume.is_mounted
            }
            Step::FailDurable(volume) => !self.volume(volume).durable_fails,
            Step::MendDurable(volume) => self.volume(volume).durable_fails,
            Step::LosePages { slot, .. } | Step::BreakPage { slot, .. } => !self.is_pulled[slot],
            Step::FailLocal(slot) => !self.local_fails[slot] && !self.is_pulled[slot],
            Step::MendLocal(slot) => self.local_fails[slot] || self.has_broken_pages[slot],
            Step::Pull(slot) => self.is_on && !self.is_pulled[slot],
            Step::Plug(slot) => self.is_on && self.is_pulled[slot],
        }
    }

    /// A disk has failed under whatever is mounted.
    pub(super) fn hurt(&mut self) {
        for volume in self.volumes.iter_mut().filter(|volume| volume.is_mounted) {
            volume.is_hurt = true;
        }
    }

    /// The machine is off: nothing is mounted, and what was pulled is in its slot at the next start.
    pub(super) fn is_off_now(&mut self) {
        self.is_on = false;
        self.is_pulled = [false; LOCALS];
        for volume in &mut self.volumes {
            *volume = VolumeState {
                durable_fails: volume.durable_fails,
                ..VolumeState::default()
            };
        }
    }
}
