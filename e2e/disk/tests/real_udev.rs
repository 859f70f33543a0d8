//! Debian's udev runs in the guest, with mdadm's own rules: each component that appears, or that somebody has written to, is
//! given to `mdadm --incremental` beside us.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e_disk::{
    MIB, Rack, Vm, local,
    superdisk::{Superdisk, arrays},
};

const SECOND: Duration = Duration::from_secs(1);
/// As at a start: every disk appears once more.
const ALL_APPEAR: &str = "udevadm control --reload; udevadm trigger --subsystem-match=block --action=add; udevadm settle";

fn with_udev(name: &str) -> Result<Rack> {
    let mut rack = Rack::new(name)?;
    rack.with_udev();
    Ok(rack)
}

/// What udev's rules have assembled before anything of ours ran.
fn assembled(vm: &Vm) -> Result<String> {
    let seen = vm.run("udevadm settle; cat /proc/mdstat")?;
    ensure!(seen.contains("md127"), "udev assembled nothing: {seen}");
    Ok(seen)
}

#[test]
fn a_super_disk_lives_beside_udev_from_its_first_boot_to_a_power_cut_and_a_move() -> Result<()> {
    let mut rack = with_udev("udev-life")?;
    let superdisk = Superdisk::default();
    let vm = rack.boot()?;
    superdisk.assemble(&vm)?;
    let files = superdisk.write(&vm, "file", 6)?;
    superdisk.is_whole(&vm, &[&files])?;
    let _noise = vm.begin(
        "while :; do dd if=/dev/urandom of=/mnt/data/noise bs=64k count=64 conv=notrunc; done 2>/dev/null",
        300 * SECOND,
    )?;
    let synced = superdisk.write(&vm, "synced", 4)?;
    vm.cut_power()?;
    let vm = rack.boot()?;
    assembled(&vm)?;
    superdisk.assemble(&vm)?;
    superdisk.is_whole(&vm, &[&files, &synced])?;
    // What is stopped has been written to: udev may have it again at once.
    superdisk.ask(&vm, "teardown", "")?.success()?;
    vm.run("udevadm settle")?;
    superdisk.assemble(&vm)?;
    superdisk.is_whole(&vm, &[&files, &synced])?;
    vm.power_off()?;
    rack.migrate_host()?;
    let vm = rack.boot()?;
    assembled(&vm)?;
    superdisk.assemble(&vm)?;
    superdisk.is_whole(&vm, &[&files, &synced])
}

#[test]
fn a_local_disk_that_is_pulled_and_put_back_is_filled_beside_udev() -> Result<()> {
    let mut rack = with_udev("udev-pulled")?;
    let superdisk = Superdisk::default();
    let vm = rack.boot()?;
    superdisk.assemble(&vm)?;
    let files = superdisk.write(&vm, "file", 6)?;
    superdisk.in_sync(&vm)?;
    vm.unplug(&local(1))?;
    vm.run("udevadm settle")?;
    let more = superdisk.write(&vm, "more", 2)?;
    // With what it had: udev finds a component that it knows.
    vm.plug(&local(1))?;
    superdisk.agent_round(&vm)?;
    superdisk.in_sync(&vm)?;
    superdisk.is_whole(&vm, &[&files, &more])
}

#[test]
fn a_network_disk_that_is_assembled_by_others_again_and_again_is_ours_in_the_end() -> Result<()> {
    let mut rack = with_udev("udev-again")?;
    let superdisk = Superdisk::default();
    let vm = rack.boot()?;
    superdisk.assemble(&vm)?;
    let files = superdisk.write(&vm, "file", 4)?;
    superdisk.in_sync(&vm)?;
    superdisk.ask(&vm, "teardown", "")?.success()?;
    // As on a busy machine, where events of earlier writes are still to come: udev has it again whenever it was let go.
    let again = vm.begin(
        "disk=$(readlink -f /dev/disk/by-id/google-data); for n in 1 2 3; do \
         while grep -q md127 /proc/mdstat; do usleep 10000; done; mdadm --incremental $disk; done",
        300 * SECOND,
    )?;
    vm.until("grep -q md127 /proc/mdstat", 60 * SECOND)?;
    superdisk.assemble(&vm)?;
    again.wait()?;
    superdisk.is_whole(&vm, &[&files])
}

#[test]
fn the_rule_of_node_setup_keeps_udev_from_super_disks_and_from_nothing_else() -> Result<()> {
    let mut rack = with_udev("udev-rule")?;
    for spare in ["spare-0", "spare-1"] {
        rack.add_network(spare, 64 * MIB)?;
    }
    let superdisk = Superdisk::default();
    let vm = rack.boot()?;
    vm.run("superdisk node-setup --once")?;
    superdisk.assemble(&vm)?;
    let files = superdisk.write(&vm, "file", 4)?;
    superdisk.in_sync(&vm)?;
    superdisk.tear_down(&vm)?;
    vm.run(
        "mdadm --create /dev/md50 --run --level=1 --raid-devices=2 --metadata=1.2 --name=backup \
         /dev/disk/by-id/google-spare-0 /dev/disk/by-id/google-spare-1; udevadm settle; mdadm --stop /dev/md50",
    )?;
    vm.run(ALL_APPEAR)?;
    let seen = vm.run("cat /proc/mdstat")?;
    ensure!(
        arrays(&vm)?.len() == 1 && seen.contains("vdb") && !seen.contains("vda"),
        "not the other array alone: {seen}"
    );
    // Without the rule they are udev's: so it was the rule.
    vm.run("superdisk node-setup --remove")?;
    vm.run(ALL_APPEAR)?;
    let seen = vm.run("cat /proc/mdstat")?;
    ensure!(seen.contains("vda"), "udev assembled nothing: {seen}");
    superdisk.assemble(&vm)?;
    superdisk.ask(&vm, "status", "")?.success()?;
    superdisk.is_whole(&vm, &[&files])
}
