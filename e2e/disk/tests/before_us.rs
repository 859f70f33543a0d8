//! The host has assembled what it found, before we came: as udev's rules do on a node without our settings.

use anyhow::{Result, ensure};
use e2e_disk::{
    Rack, Vm,
    superdisk::{Files, REBUILD, Superdisk, arrays, mirror},
};

const EVENTS: &str = "echo 'AUTO +all' >/etc/mdadm.conf; for disk in nvme0n1 nvme1n1 vda; do mdadm -I /dev/$disk; done; \
    for md in /dev/md12?; do mdadm -I $md; done; echo 'AUTO -all' >/etc/mdadm.conf; cat /proc/mdstat";

fn used(name: &str) -> Result<(Rack, Superdisk, Vm, Files)> {
    let mut rack = Rack::new(name)?;
    let superdisk = Superdisk::default();
    let vm = rack.boot()?;
    superdisk.assemble(&vm)?;
    let files = superdisk.write(&vm, "file", 10)?;
    superdisk.in_sync(&vm)?;
    Ok((rack, superdisk, vm, files))
}

#[test]
fn what_the_host_assembled_from_clean_legs_is_taken_over() -> Result<()> {
    let (mut rack, superdisk, vm, files) = used("auto-clean")?;
    superdisk.tear_down(&vm)?;
    vm.power_off()?;
    let vm = rack.boot()?;
    let seen = vm.ask(EVENTS)?.stdout;
    ensure!(seen.contains("raid1"), "the host assembled nothing: {seen}");
    superdisk.assemble(&vm)?;
    superdisk.is_whole(&vm, &[&files])
}

#[test]
fn what_the_host_assembled_from_dirty_legs_does_not_reach_the_network_disk() -> Result<()> {
    let (mut rack, superdisk, vm, files) = used("auto-dirty")?;
    let _noise = vm.begin(
        "while :; do dd if=/dev/urandom of=/mnt/data/noise bs=64k count=64 conv=notrunc; done 2>/dev/null",
        std::time::Duration::from_secs(300),
    )?;
    let synced = superdisk.write(&vm, "synced", 6)?;
    vm.cut_power()?;
    let vm = rack.boot()?;
    let seen = vm.ask(EVENTS)?.stdout;
    ensure!(seen.contains("raid"), "the host assembled nothing: {seen}");
    superdisk.assemble(&vm)?;
    superdisk.is_whole(&vm, &[&files, &synced])
}

#[test]
fn a_network_disk_that_the_host_mixed_after_it_was_put_back_is_not_served() -> Result<()> {
    let (mut rack, superdisk, vm, files) = used("auto-mixed")?;
    let mirror = mirror(&vm)?;
    // md counts no event from here on: the host finds nothing that would keep the legs apart.
    vm.run(&format!(
        "echo 600 >/sys/block/{mirror}/md/safe_mode_delay; dd if=/dev/zero of=/mnt/data/dirty bs=4k count=1 conv=fsync"
    ))?;
    let snapshot = rack.durable().snapshot("before")?;
    superdisk.write(&vm, "after", 10)?;
    superdisk.agent_round(&vm)?;
    vm.cut_power()?;
    rack.durable().restore(&snapshot)?;

    let vm = rack.boot()?;
    let seen = vm.ask(EVENTS)?.stdout;
    ensure!(
        seen.contains("[2/2]"),
        "the host did not assemble both: {seen}"
    );
    vm.until("! grep -q resync /proc/mdstat", REBUILD)?;
    superdisk.refused(&vm, "", "E_PD_OVERWRITTEN")?;
    // As the refusal says: put back once more, and nothing of the host comes first.
    vm.power_off()?;
    rack.durable().restore(&snapshot)?;
    let vm = rack.boot()?;
    superdisk.assemble(&vm)?;
    ensure!(
        vm.ask("ls /mnt/data/after-1")?.status != 0,
        "legs of two times are mixed"
    );
    superdisk.is_whole(&vm, &[&files])
}

#[test]
fn a_lone_network_disk_that_the_host_holds_is_freed() -> Result<()> {
    let (mut rack, superdisk, vm, files) = used("auto-lone")?;
    superdisk.tear_down(&vm)?;
    vm.power_off()?;
    rack.migrate_host()?;
    let vm = rack.boot()?;
    vm.ask(EVENTS)?;
    ensure!(!arrays(&vm)?.is_empty(), "the host holds nothing");
    superdisk.assemble(&vm)?;
    superdisk.is_whole(&vm, &[&files])
}
