//! One walk on a real kernel.

use anyhow::{Context as _, Result, ensure};
use rand::{SeedableRng as _, rngs::StdRng};

use super::{
    Report,
    draw::{self, LOCAL_SIZE},
    state::State,
    step::{Keep, LOCALS, Step, Volume},
    truth::Truth,
};
use crate::{
    disk::{Disk, PAGE},
    rack::{DURABLE, MIB, Rack, local},
    superdisk::{Files, Superdisk},
    vm::Vm,
};

const OTHER: &str = "other";
const DURABLE_SIZE: u64 = 256 * MIB;
/// How often both volumes are asked for at the end: one may have to wait for a decision about the other.
const LAST_TRIES: usize = 3;
/// As udev's rules do it, device by device.
const HOST_ASSEMBLES: &str = "for d in /dev/nvme?n1 /dev/vd?; do [ -b $d ] && mdadm --incremental $d; done 2>/dev/null; true";

/// Walks so many steps from a seed, and looks at what is there at the end.
///
/// # Errors
/// When the disk machine itself cannot be had. What the super-disk does wrong is in the report.
pub fn walk(seed: u64, steps: usize) -> Result<Report> {
    let mut walk = Walk::new(seed)?;
    walk.report.walks = 1;
    if let Err(error) = walk.go(steps) {
        let path: Vec<String> = walk.path.iter().map(ToString::to_string).collect();
        let finding = format!("seed {seed}: {error:#}\n  after: {}", path.join("; "));
        walk.report.findings.push(finding);
    }
    for truth in &walk.truths {
        walk.report.given_up += truth.given_up;
        walk.report.destroyed += truth.destroyed;
    }
    Ok(walk.report)
}

pub(super) struct Walk {
    rng: StdRng,
    rack: Rack,
    vm: Option<Vm>,
    pub(super) superdisks: [Superdisk; 2],
    pub(super) state: State,
    pub(super) truths: [Truth<Files>; 2],
    path: Vec<Step>,
    pub(super) report: Report,
}

impl Walk {
    fn new(seed: u64) -> Result<Self> {
        let mut rack = Rack::empty(&format!("walk-{seed}"))?;
        for _ in 0..LOCALS {
            rack.add_local(LOCAL_SIZE)?;
        }
        rack.add_network(DURABLE, DURABLE_SIZE)?;
        rack.add_network(OTHER, DURABLE_SIZE)?;
        let first = Superdisk::default();
        let second = Superdisk {
            volume: "b-7e0d2c1f-another".to_owned(),
            durable: OTHER.to_owned(),
            mount: "/mnt/other",
            ..first.clone()
        };
        Ok(Self {
            rng: StdRng::seed_from_u64(seed),
            rack,
            vm: None,
            superdisks: [first, second],
            state: State::default(),
            truths: [Truth::default(), Truth::default()],
            path: Vec::new(),
            report: Report::default(),
        })
    }

    fn go(&mut self, steps: usize) -> Result<()> {
        self.take(Step::Boot)?;
        self.take(Step::Assemble(Volume::A))?;
        self.take(Step::Write(Volume::A))?;
        for _ in 0..steps {
            let step = draw::step(&mut self.rng, &self.state);
            self.take(self.informed(step))?;
        }
        self.come_back()
    }

    /// A person keeps the local disks' content only when that is what was written last: the other choice throws away what
    /// the network disk has, and that is then no loss of ours.
    fn informed(&self, step: Step) -> Step {
        match step {
            Step::Resolve(volume, Keep::Fast) if !self.truths[volume.index()].is_split() => {
                Step::Resolve(volume, Keep::Durable)
            }
            step => step,
        }
    }

    /// Does a step, and checks what can be checked at once.
    fn take(&mut self, step: Step) -> Result<()> {
        println!("== {step}");
        self.path.push(step);
        self.report.steps += 1;
        self.state.is_disturbed |= step.disturbs();
        match step {
            Step::Boot => {
                self.vm = Some(self.rack.boot()?);
                self.state.is_on = true;
            }
            Step::PowerOff => {
                self.machine_taken()?.power_off()?;
                self.state.is_off_now();
            }
            Step::CutPower => {
                self.machine_taken()?.cut_power()?;
                self.state.is_off_now();
            }
            Step::Assemble(volume) => self.assemble(volume)?,
            Step::TearDown(volume) => self.tear_down(volume)?,
            Step::Round(volume) => self.round(volume)?,
            Step::Write(volume) => self.write(volume)?,
            Step::Resolve(volume, keep) => self.resolve(volume, keep)?,
            Step::FailDurable(volume) => {
                self.durable(volume).fail(true);
                self.state.hurt();
                let mounted = self.state.volume(volume).is_mounted;
                self.state.volume_mut(volume).durable_fails = true;
                if mounted {
                    self.truths[volume.index()].split();
                }
            }
            Step::MendDurable(volume) => {
                self.durable(volume).mend();
                self.state.volume_mut(volume).durable_fails = false;
            }
            Step::LosePages { slot, page, count } => {
                let bytes = page * PAGE..(page + count) * PAGE;
                self.rack.local(slot).lose(bytes);
                self.local_damaged();
            }
            Step::BreakPage { slot, page } => {
                let bytes = page * PAGE..(page + 1) * PAGE;
                self.rack.local(slot).break_for_good(bytes);
                self.state.has_broken_pages[slot] = true;
                self.local_damaged();
            }
            Step::FailLocal(slot) => {
                self.rack.local(slot).fail(true);
                self.state.local_fails[slot] = true;
                self.local_damaged();
            }
            Step::MendLocal(slot) => {
                self.rack.local(slot).mend();
                self.state.local_fails[slot] = false;
                self.state.has_broken_pages[slot] = false;
            }
            Step::Pull(slot) => {
                self.machine()?.unplug(&local(slot))?;
                self.machine()?.run("by-id")?;
                self.state.is_pulled[slot] = true;
                self.local_damaged();
            }
            Step::Plug(slot) => {
                self.machine()?.plug(&local(slot))?;
                self.state.is_pulled[slot] = false;
            }
            Step::Replace(slot) => {
                self.rack.local(slot).replace()?;
                self.local_damaged();
            }
            Step::HostAssembles => {
                self.machine()?.run(HOST_ASSEMBLES)?;
            }
        }
        Ok(())
    }

    pub(super) fn machine(&self) -> Result<&Vm> {
        self.vm.as_ref().context("the machine is off")
    }

    fn machine_taken(&mut self) -> Result<Vm> {
        self.vm.take().context("the machine is off")
    }

    fn durable(&self, volume: Volume) -> &Disk {
        self.rack.disk(&self.superdisks[volume.index()].durable)
    }

    /// A local disk lost something, or went away under what is mounted. While a volume's only copy is on local disks,
    /// that may have been it.
    fn local_damaged(&mut self) {
        self.state.hurt();
        for truth in &mut self.truths {
            truth.local_damaged();
        }
    }

    /// All disks are mended and the machine is started again: both volumes are there, whole.
    fn come_back(&mut self) -> Result<()> {
        if self.state.is_on {
            self.take(Step::CutPower)?;
        }
        for volume in Volume::ALL {
            if self.state.volume(volume).durable_fails {
                self.take(Step::MendDurable(volume))?;
            }
        }
        for slot in 0..LOCALS {
            self.rack.local(slot).mend();
            self.state.local_fails[slot] = false;
            self.state.has_broken_pages[slot] = false;
        }
        self.take(Step::Boot)?;
        for _ in 0..LAST_TRIES {
            for volume in Volume::ALL {
                self.try_to_come_back(volume)?;
            }
        }
        for volume in Volume::ALL {
            ensure!(
                self.state.volume(volume).is_mounted,
                "{volume} does not come back"
            );
        }
        let vm = self.machine()?;
        for volume in Volume::ALL {
            let files: Vec<&Files> = self.truths[volume.index()].must_be_there().collect();
            self.superdisks[volume.index()]
                .is_whole(vm, &files)
                .with_context(|| format!("{volume} is not whole"))?;
        }
        Ok(())
    }

    fn try_to_come_back(&mut self, volume: Volume) -> Result<()> {
        if self.state.volume(volume).is_mounted {
            return Ok(());
        }
        self.take(Step::Assemble(volume))?;
        if self.state.volume(volume).is_ahead {
            let truth = &self.truths[volume.index()];
            let keep = match truth.is_split() && !truth.is_damaged() {
                true => Keep::Fast,
                false => Keep::Durable,
            };
            self.take(Step::Resolve(volume, keep))?;
            self.take(Step::Assemble(volume))?;
        }
        Ok(())
    }
}
