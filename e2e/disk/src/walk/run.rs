//! One walk on a real kernel.

use anyhow::{Context as _, Result, bail, ensure};
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
/// Files of 1 MiB in one batch.
const BATCH: usize = 2;
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

struct Walk {
    rng: StdRng,
    rack: Rack,
    vm: Option<Vm>,
    superdisks: [Superdisk; 2],
    state: State,
    truths: [Truth<Files>; 2],
    path: Vec<Step>,
    report: Report,
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

    fn machine(&self) -> Result<&Vm> {
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

    /// Asks the program; what it ends with is judged: done, refused without a change, or failed while a disk is sick.
    fn ask(&mut self, volume: Volume, command: &str, more: &str) -> Result<Answer> {
        let vm = self.machine()?;
        let superdisk = &self.superdisks[volume.index()];
        // Other writes would be taken for the program's.
        let is_quiet = crate::superdisk::arrays(vm)?.is_empty();
        let written = || -> u64 { vm.drives.iter().map(|(_, disk)| disk.bytes_written()).sum() };
        let before = written();
        let answer = superdisk.ask(vm, command, more)?;
        let changed = written() - before;
        let said = match answer.status {
            0 => Answer::Done,
            3 => Answer::Refused(code_of(&answer.stderr)?),
            1 => Answer::Failed,
            _ => bail!("{answer}"),
        };
        match &said {
            Answer::Refused(code) if is_quiet => ensure!(
                changed == 0,
                "{code}: {changed} bytes were written before it refused"
            ),
            Answer::Failed => ensure!(
                self.state.is_sick() || self.state.volume(volume).is_hurt,
                "failed though every disk is well: {answer}"
            ),
            Answer::Done | Answer::Refused(_) => {}
        }
        self.report.answered(&match &said {
            Answer::Done => format!("{command}: done"),
            Answer::Failed => format!("{command}: failed"),
            Answer::Refused(code) => format!("{command}: {code}"),
        });
        Ok(said)
    }

    fn assemble(&mut self, volume: Volume) -> Result<()> {
        let was_mounted = self.state.volume(volume).is_mounted;
        let durable_fails = self.state.volume(volume).durable_fails;
        let answer = self.ask(volume, "assemble", "")?;
        let state = self.state.volume_mut(volume);
        state.is_ahead = answer == Answer::Refused("E_SSD_AHEAD".to_owned());
        if answer != Answer::Done {
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

    fn tear_down(&mut self, volume: Volume) -> Result<()> {
        if self.ask(volume, "teardown", "")? == Answer::Done {
            self.state.volume_mut(volume).is_mounted = false;
        }
        Ok(())
    }

    fn round(&mut self, volume: Volume) -> Result<()> {
        self.ask(volume, "agent", "--once")?;
        let split = self.truths[volume.index()].is_split();
        self.state.volume_mut(volume).may_be_frozen |= split;
        Ok(())
    }

    fn write(&mut self, volume: Volume) -> Result<()> {
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

    fn resolve(&mut self, volume: Volume, keep: Keep) -> Result<()> {
        let more = format!("--keep {}", keep.word());
        if self.ask(volume, "resolve", &more)? == Answer::Done {
            self.state.volume_mut(volume).is_ahead = false;
            let truth = &mut self.truths[volume.index()];
            match keep {
                Keep::Durable => truth.kept_durable(),
                Keep::Fast => truth.is_served(),
            }
        }
        Ok(())
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

/// How the program ended.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Answer {
    Done,
    /// With a code.
    Refused(String),
    Failed,
}

/// The first word of what a refusal says.
fn code_of(stderr: &str) -> Result<String> {
    let code = stderr.split_whitespace().next().unwrap_or_default();
    ensure!(code.starts_with("E_"), "refused without a code: {stderr}");
    Ok(code.to_owned())
}
