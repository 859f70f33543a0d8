//! A running machine: a shell in the guest, a hand on its plugs, a finger on its switch.

use std::{fs, path::PathBuf, process::Child, sync::Mutex, time::Duration};

use anyhow::{Context as _, Result, bail};

use crate::{
    disk::Disk,
    orders::{Answer, Orders, Pending},
    qemu::{Bus, Drive},
    qmp::Qmp,
};

/// Of a command, unless the test gives another.
const LIMIT: Duration = Duration::from_mins(10);

/// A machine that runs; it is switched off when this is dropped.
#[derive(Debug)]
pub struct Vm {
    pub(crate) qemu: Child,
    pub(crate) orders: Orders,
    pub(crate) qmp: Mutex<Qmp>,
    pub(crate) drives: Vec<(Drive, Disk)>,
    pub(crate) console: PathBuf,
}

impl Vm {
    /// Runs a shell command and gives what it printed.
    ///
    /// # Errors
    /// When it fails, or the machine does.
    pub fn run(&self, command: &str) -> Result<String> {
        self.ask(command)?.success()
    }

    /// Runs a shell command that may fail.
    ///
    /// # Errors
    /// When the machine is gone or hangs.
    pub fn ask(&self, command: &str) -> Result<Answer> {
        self.begin(command, LIMIT)?.wait()
    }

    /// Starts a shell command and goes on.
    ///
    /// # Errors
    /// When the machine is gone.
    pub fn begin(&self, command: &str, limit: Duration) -> Result<Pending> {
        // A list of files or a script is not for the log.
        println!("    # {}", command.lines().next().unwrap_or_default());
        self.orders.give(command, limit)
    }

    /// Repeats a shell condition until it is true.
    ///
    /// # Errors
    /// When it is not within `limit`.
    pub fn until(&self, condition: &str, limit: Duration) -> Result<()> {
        let asked = format!("until {condition}; do usleep 200000; done");
        let answer = self.begin(&asked, limit)?.wait()?;
        if answer.status != 0 {
            let seen = self
                .ask("cat /proc/mdstat; dmesg | tail -n 15; tail -n 30 /run/agent.log")?
                .stdout;
            bail!("not within {limit:?}: {condition}\n{seen}");
        }
        Ok(())
    }

    /// The power goes: nothing of the guest's memory, and of the disks' caches, is left.
    ///
    /// # Errors
    /// When the emulator does not end.
    pub fn cut_power(mut self) -> Result<()> {
        println!("    # (power cut)");
        self.kill()?;
        for (_, disk) in &self.drives {
            disk.cut_power();
        }
        Ok(())
    }

    /// Switches off after everything is on the disks. What is mounted or assembled stays so to the end.
    ///
    /// # Errors
    /// When the guest cannot be told.
    pub fn power_off(mut self) -> Result<()> {
        self.run("sync")?;
        self.kill()?;
        Ok(())
    }

    /// Pulls an NVMe disk out of its slot.
    ///
    /// # Errors
    /// When the guest holds on to it.
    pub fn unplug(&self, name: &str) -> Result<()> {
        println!("    # (pull {name})");
        self.with_qmp(|qmp| qmp.unplug(name))
    }

    /// Puts an NVMe disk that was pulled, or a new one by that name, into its slot again.
    ///
    /// # Errors
    /// When QEMU refuses, or the guest does not see it.
    pub fn plug(&self, name: &str) -> Result<()> {
        println!("    # (plug {name} in)");
        let drive = self
            .drives
            .iter()
            .map(|(drive, _)| drive)
            .find(|drive| drive.name == name && matches!(drive.bus, Bus::Nvme { .. }))
            .with_context(|| format!("the rack has no NVMe disk {name}"))?;
        self.with_qmp(|qmp| qmp.plug(drive))?;
        let link = format!("/dev/disk/by-id/google-{name}");
        self.until(&format!("by-id; [ -b {link} ]"), Duration::from_mins(5))
    }

    /// What the kernel said lately.
    #[must_use]
    pub fn console(&self) -> String {
        let text = fs::read_to_string(&self.console).unwrap_or_default();
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(25)..].join("\n")
    }

    fn with_qmp(&self, act: impl FnOnce(&mut Qmp) -> Result<()>) -> Result<()> {
        match self.qmp.lock() {
            Ok(mut qmp) => act(&mut qmp),
            Err(_) => bail!("an earlier plugging failed half way"),
        }
    }

    fn kill(&mut self) -> Result<()> {
        self.qemu.kill().context("failed to end QEMU")?;
        self.qemu.wait().context("failed to wait for QEMU's end")?;
        Ok(())
    }
}

impl Drop for Vm {
    fn drop(&mut self) {
        // Ended already, mostly; a test that failed leaves it to us.
        let _ = self.kill();
    }
}
