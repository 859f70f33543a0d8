//! The network disk comes to a host with other local disks: blank, older, or another volume's.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e_disk::{MIB, PAGE, Rack, Snapshot, Vm, local, superdisk::Superdisk};

/// Takes the local disks of a host that is switched off; blank ones are in their place then.
fn take_locals(rack: &Rack, label: &str) -> Result<Vec<Snapshot>> {
    let taken = (0..2).map(|slot| Ok(rack.local(slot).snapshot(label)?));
    let taken = taken.collect::<Result<Vec<_>>>()?;
    rack.migrate_host()?;
    Ok(taken)
}

fn put_locals(rack: &Rack, taken: &[Snapshot]) -> Result<()> {
    for (slot, snapshot) in taken.iter().enumerate() {
        rack.local(slot).restore(snapshot)?;
    }
    Ok(())
}

/// A first boot with files on it, in sync, and switched off in order.
fn used_rack(name: &str) -> Result<(Rack, Superdisk, e2e_disk::superdisk::Files)> {
    let mut rack = Rack::new(name)?;
    let superdisk = Superdisk::default();
    let vm = rack.boot()?;
    superdisk.assemble(&vm)?;
    let files = superdisk.write(&vm, "a", 20)?;
    superdisk.in_sync(&vm)?;
    superdisk.tear_down(&vm)?;
    vm.power_off()?;
    Ok((rack, superdisk, files))
}

/// Another file instead of an old one: what a stale leg would bring back.
fn rewrite(superdisk: &Superdisk, vm: &Vm) -> Result<e2e_disk::superdisk::Files> {
    vm.run("rm /mnt/data/a-7 && sync")?;
    superdisk.write(vm, "b", 20)
}

#[test]
fn a_host_with_blank_local_disks_gets_a_full_copy() -> Result<()> {
    let (mut rack, superdisk, files) = used_rack("migrated")?;
    rack.migrate_host()?;
    let vm = rack.boot()?;
    superdisk.assemble(&vm)?;
    superdisk.has(&vm, &files)?;
    superdisk.is_whole(&vm, &[&files])?;
    rack.durable().take_counters();
    superdisk.has(&vm, &files)?;
    ensure!(rack.durable().take_counters().reads == 0);
    Ok(())
}

#[test]
fn a_power_cut_with_all_local_disks_gone_for_good_needs_nobody() -> Result<()> {
    let mut rack = Rack::new("gone-for-good")?;
    for _ in 0..2 {
        rack.add_local(128 * MIB)?;
    }
    let superdisk = Superdisk::default();
    let vm = rack.boot()?;
    superdisk.assemble(&vm)?;
    let mut written = vec![superdisk.write(&vm, "first", 4)?];
    superdisk.in_sync(&vm)?;
    vm.cut_power()?;
    // The machine keeps its UUID; its cloud has started it again elsewhere, with blank disks.
    rack.migrate_host()?;
    let vm = rack.boot()?;
    superdisk.assemble(&vm)?;
    superdisk.in_sync(&vm)?;
    written.push(superdisk.write(&vm, "second", 4)?);
    vm.cut_power()?;
    // Another one, with fewer local disks.
    rack.migrate_host()?;
    rack.another_machine();
    for slot in 2..4 {
        rack.remove(&local(slot));
    }
    let vm = rack.boot()?;
    superdisk.assemble(&vm)?;
    let written: Vec<_> = written.iter().collect();
    superdisk.is_whole(&vm, &written)
}

#[test]
fn one_blank_local_disk_among_old_ones_is_a_full_copy_too() -> Result<()> {
    let (mut rack, superdisk, files) = used_rack("one-blank")?;
    rack.local(1).replace()?;
    let vm = rack.boot()?;
    superdisk.assemble(&vm)?;
    superdisk.is_whole(&vm, &[&files])
}

#[test]
fn back_on_an_old_host_after_a_time_without_local_disks_only_what_changed_is_copied() -> Result<()>
{
    let (mut rack, superdisk, _) = used_rack("aba-alone")?;
    let old = take_locals(&rack, "old")?;
    let vm = rack.boot()?;
    // On host B no local disk may be had.
    vm.run("for n in 0 1; do echo 1 >/sys/block/nvme${n}n1/device/device/remove; done; by-id")?;
    superdisk
        .ask(&vm, "assemble", "--fast-leg optional")?
        .success()?;
    let files = rewrite(&superdisk, &vm)?;
    superdisk.tear_down(&vm)?;
    vm.power_off()?;

    put_locals(&rack, &old)?;
    let vm = rack.boot()?;
    superdisk.assemble(&vm)?;
    ensure!(
        vm.ask("ls /mnt/data/a-7")?.status != 0,
        "a file is back from the dead"
    );
    superdisk.is_whole(&vm, &[&files])
}

#[test]
fn back_on_an_old_host_after_a_time_with_others_its_stale_leg_is_not_believed() -> Result<()> {
    let (mut rack, superdisk, _) = used_rack("aba-both")?;
    let old = take_locals(&rack, "old")?;
    let vm = rack.boot()?;
    superdisk.assemble(&vm)?;
    superdisk.in_sync(&vm)?;
    let files = rewrite(&superdisk, &vm)?;
    vm.run("sleep 13")?;
    superdisk.tear_down(&vm)?;
    vm.power_off()?;

    put_locals(&rack, &old)?;
    let vm = rack.boot()?;
    superdisk.assemble(&vm)?;
    ensure!(
        vm.ask("ls /mnt/data/a-7")?.status != 0,
        "a file is back from the dead"
    );
    superdisk.is_whole(&vm, &[&files])
}

#[test]
fn keeping_the_fast_leg_that_was_cut_off_goes_on_with_that_leg_alone() -> Result<()> {
    let (mut rack, superdisk, _) = used_rack("aba-kept")?;
    let first = take_locals(&rack, "first")?;
    rack.another_machine();
    let vm = rack.boot()?;
    superdisk.assemble(&vm)?;
    superdisk.in_sync(&vm)?;
    vm.run("sleep 1")?;
    rack.durable().fail(true);
    let files = rewrite(&superdisk, &vm)?;
    superdisk.goes_on_alone(&vm)?;
    vm.power_off()?;
    rack.durable().mend();

    let vm = rack.boot()?;
    superdisk.refused(&vm, "", "E_SSD_AHEAD")?;
    rack.durable().slow_down(Duration::from_millis(200));
    superdisk.begin_to_keep_fast(&vm)?;
    vm.run("sleep 3; pidof superdisk")?;
    vm.cut_power()?;
    rack.durable().slow_down(Duration::ZERO);

    // The pod comes to the machine before, which has a whole fast leg of that time.
    let second = take_locals(&rack, "second")?;
    put_locals(&rack, &first)?;
    let vm = rack.boot()?;
    superdisk.refused(&vm, "", "E_PD_NOT_INSYNC")?;
    let before = rack.durable().bytes_written();
    let answer = superdisk.ask(&vm, "resolve", "--keep fast")?;
    ensure!(
        answer.status == 3 && answer.stderr.starts_with("E_SSD_MISSING "),
        "{answer}"
    );
    ensure!(
        rack.durable().bytes_written() == before,
        "it was written to"
    );
    vm.power_off()?;

    put_locals(&rack, &second)?;
    let vm = rack.boot()?;
    superdisk.ask(&vm, "resolve", "--keep fast")?.success()?;
    superdisk.assemble(&vm)?;
    ensure!(
        vm.ask("ls /mnt/data/a-7")?.status != 0,
        "a file is back from the dead"
    );
    superdisk.is_whole(&vm, &[&files])
}

#[test]
fn a_network_disk_from_a_snapshot_is_believed_and_the_newer_local_disks_are_not() -> Result<()> {
    let mut rack = Rack::new("snapshot")?;
    let superdisk = Superdisk::default();
    let vm = rack.boot()?;
    superdisk.assemble(&vm)?;
    superdisk.in_sync(&vm)?;
    // Chunks that are not all dirty anyway: what a bitmap does not know then stays different.
    let mirror = superdisk.mirror(&vm)?;
    vm.run(&format!(
        "mdadm --grow /dev/{mirror} --bitmap=none && mdadm --grow /dev/{mirror} --bitmap=internal --bitmap-chunk=64K"
    ))?;
    let files = superdisk.write(&vm, "before", 10)?;
    vm.run("/sbin/fsfreeze -f /mnt/data")?;
    let snapshot = rack.durable().snapshot("snapshot")?;
    vm.run("/sbin/fsfreeze -u /mnt/data")?;
    // The agent counts on, so that a leg that has gone on can be told from one that has not.
    superdisk.agent_round(&vm)?;
    superdisk.write(&vm, "after", 30)?;
    vm.cut_power()?;
    rack.durable().restore(&snapshot)?;

    let vm = rack.boot()?;
    let printed = superdisk.assemble(&vm)?;
    ensure!(
        !printed.contains("--re-add"),
        "not everything is copied: {printed}"
    );
    ensure!(
        vm.ask("ls /mnt/data/after-1")?.status != 0,
        "legs of two times are mixed"
    );
    superdisk.is_whole(&vm, &[&files])
}

#[test]
fn a_copy_of_a_volume_becomes_a_volume_of_its_own() -> Result<()> {
    let (mut rack, superdisk, files) = used_rack("clone")?;
    let clone = Superdisk {
        volume: "a-clone-of-it".to_owned(),
        ..superdisk.clone()
    };
    let vm = rack.boot()?;
    // It could as well be the wrong disk: a person has to confirm that it is a copy.
    clone.refused(&vm, "", "E_PD_NOT_OURS")?;
    let copy_of = format!("--keep durable --copy-of {}", superdisk.volume);
    clone.ask(&vm, "resolve", &copy_of)?.success()?;
    clone.assemble(&vm)?;
    clone.is_whole(&vm, &[&files])?;
    clone.tear_down(&vm)?;
    // The original's pod has no business here any more.
    vm.power_off()?;
    let vm = rack.boot()?;
    clone.assemble(&vm)?;
    clone.is_whole(&vm, &[&files])
}

#[test]
fn local_disks_that_hold_something_else_are_taken_when_somebody_has_wiped_them() -> Result<()> {
    let mut rack = Rack::new("used-locals")?;
    let superdisk = Superdisk::default();
    let vm = rack.boot()?;
    vm.run("/sbin/mke2fs -q -F /dev/nvme0n1; mdadm --create /dev/md50 --run --level=0 --force --raid-devices=1 /dev/nvme1n1; mdadm --stop /dev/md50")?;
    superdisk.refused(&vm, "", "E_SSD_BUSY")?;
    vm.run("for n in 0 1; do dd if=/dev/zero of=/dev/nvme${n}n1 bs=1M 2>/dev/null; done; sync")?;
    superdisk.assemble(&vm)?;
    let files = superdisk.write(&vm, "file", 4)?;
    superdisk.is_whole(&vm, &[&files])?;
    ensure!(rack.local(0).size() == 128 * MIB && PAGE == 4096);
    Ok(())
}
