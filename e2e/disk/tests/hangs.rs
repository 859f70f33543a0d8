//! A disk that does not answer, in each command: the command ends, or says what it waits for; when the disk answers again,
//! nothing is missing.

use std::time::Duration;

use anyhow::{Context as _, Result};
use e2e_disk::{Disk, Rack, Vm, superdisk::Superdisk};

/// Longer than a read may take (30 s), as often as a command may have to find out.
const SAID: Duration = Duration::from_secs(180);

/// With a super-disk that runs, and what `superdisk` has to be told besides its flags.
const RUNNING: [(&str, &str); 7] = [
    ("status", ""),
    ("patrol", ""),
    ("agent", "--once"),
    ("assemble", ""),
    ("resolve", "--keep durable"),
    ("teardown", "--time 20s"),
    // The one before has stopped it, as far as that went.
    ("assemble", ""),
];

/// With one that is stopped.
const STOPPED: [(&str, &str); 5] = [
    ("status", ""),
    ("agent", "--once"),
    ("resolve", "--keep durable"),
    ("teardown", "--time 20s"),
    ("assemble", ""),
];

/// Runs a command while the disk hangs, until it has ended or said why not; then lets the disk answer, and the command end.
fn hung(vm: &Vm, disk: &Disk, superdisk: &Superdisk, command: &str, more: &str) -> Result<()> {
    // The kernel would reset a local disk, and with that the emulator stands still until it answers.
    vm.run("for n in 0 1; do echo 600000 >/sys/block/nvme${n}n1/queue/io_timeout; done; rm -f /run/hung*")?;
    disk.hang(true);
    let flags = superdisk.flags();
    vm.run(&format!(
        "(superdisk {command} {flags} {more} >/run/hung.log 2>&1 </dev/null; echo $? >/run/hung.end) &"
    ))?;
    let said = "grep -q 'does not answer' /run/hung.log";
    let ended = vm.until(&format!("[ -e /run/hung.end ] || {said}"), SAID);
    ended.with_context(|| vm.run("cat /run/hung.log").unwrap_or_default())?;
    disk.hang(false);
    vm.until("[ -e /run/hung.end ]", SAID)
}

fn each(
    name: &str,
    commands: &[(&str, &str)],
    stopped: bool,
    disk: fn(&Rack) -> Disk,
) -> Result<()> {
    let mut rack = Rack::new(name)?;
    let superdisk = Superdisk::default();
    let vm = rack.boot()?;
    superdisk.assemble(&vm)?;
    let files = superdisk.write(&vm, "file", 4)?;
    superdisk.in_sync(&vm)?;
    let disk = disk(&rack);
    for (command, more) in commands {
        if stopped {
            superdisk.tear_down(&vm)?;
        }
        vm.run("echo 3 >/proc/sys/vm/drop_caches")?;
        hung(&vm, &disk, &superdisk, command, more).with_context(|| {
            format!("superdisk {command} {more}, beside a disk that does not answer")
        })?;
        superdisk.assemble(&vm)?;
        superdisk.in_sync(&vm)?;
        superdisk.has(&vm, &files)?;
    }
    superdisk.is_whole(&vm, &[&files])
}

#[test]
fn every_command_beside_a_running_super_disk_whose_network_disk_hangs_ends_or_says_why_not()
-> Result<()> {
    each("hangs-run-durable", &RUNNING, false, |rack| {
        rack.durable().clone()
    })
}

#[test]
fn every_command_beside_a_running_super_disk_whose_local_disk_hangs_ends_or_says_why_not()
-> Result<()> {
    each("hangs-run-local", &RUNNING, false, |rack| {
        rack.local(1).clone()
    })
}

#[test]
fn every_command_on_a_stopped_super_disk_whose_network_disk_hangs_ends_or_says_why_not()
-> Result<()> {
    each("hangs-stop-durable", &STOPPED, true, |rack| {
        rack.durable().clone()
    })
}

#[test]
fn every_command_on_a_stopped_super_disk_whose_local_disk_hangs_ends_or_says_why_not() -> Result<()>
{
    each("hangs-stop-local", &STOPPED, true, |rack| {
        rack.local(1).clone()
    })
}
