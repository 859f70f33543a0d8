//! Ordinary life of a super-disk: a first boot, reboots, power cuts, growth, an end.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e_disk::{
    DURABLE, MIB, Rack,
    superdisk::{Superdisk, arrays, mirror},
};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_first_boot_ends_mounted_and_whole_and_reads_nothing_from_the_network_disk() -> Result<()> {
    let mut rack = Rack::of_size("first-boot", 640 * MIB)?;
    let superdisk = Superdisk::xfs();
    let vm = rack.boot()?;
    superdisk.assemble(&vm)?;
    let files = superdisk.write(&vm, "first", 40)?;
    superdisk.is_whole(&vm, &[&files])?;
    // Run twice: nothing is done, and nothing is written.
    vm.run("sync; sleep 1")?;
    let before = rack.durable().bytes_written();
    superdisk.assemble(&vm)?;
    ensure!(rack.durable().bytes_written() == before);
    rack.durable().take_counters();
    superdisk.has(&vm, &files)?;
    let counters = rack.durable().take_counters();
    ensure!(counters.reads == 0, "{counters:?}");
    let sector = vm.run(&format!("blkid -p -o value -s TYPE /dev/{}", mirror(&vm)?))?;
    ensure!(sector.trim() == "xfs", "{sector}");

    superdisk.tear_down(&vm)?;
    vm.power_off()?;
    let vm = rack.boot()?;
    superdisk.assemble(&vm)?;
    // By the bitmap, in chunks of 64 MiB: the filesystem's head and journal, not a copy of everything.
    superdisk.in_sync(&vm)?;
    let copied = rack.durable().take_counters().bytes_read;
    ensure!(
        copied < 320 * MIB,
        "{} MiB were read to reboot",
        copied / MIB
    );
    superdisk.is_whole(&vm, &[&files])
}

#[test]
fn a_network_disk_with_sectors_of_4_kib_lives_like_any_other() -> Result<()> {
    let mut rack = Rack::empty("4kn")?;
    for _ in 0..2 {
        rack.add_local(128 * MIB)?;
    }
    rack.add_network_of_sectors(DURABLE, 256 * MIB, 4096)?;
    let superdisk = Superdisk::default();
    let vm = rack.boot()?;
    let sector = vm.run("cat /sys/block/vda/queue/logical_block_size")?;
    ensure!(sector.trim() == "4096", "{sector}");
    superdisk.assemble(&vm)?;
    let files = superdisk.write(&vm, "file", 6)?;
    superdisk.in_sync(&vm)?;
    // Heartbeats go to it by themselves, past all caches.
    superdisk.start_agent(&vm, "")?;
    vm.until(
        "wget -qO - http://127.0.0.1:9950/state | grep -q '\"last_beat\":[0-9]'",
        60 * SECOND,
    )?;
    // md writes that the copy is whole a moment after it says so. Before that, all of it is copied again.
    let mirror = superdisk.mirror(&vm)?;
    let is_whole = format!(
        "leg=$(ls -d /sys/block/{mirror}/md/dev-md*) && ! mdadm --examine /dev/${{leg##*dev-}} | grep -q 'Recovery Offset'"
    );
    vm.until(&is_whole, 60 * SECOND)?;
    vm.cut_power()?;
    let vm = rack.boot()?;
    let printed = superdisk.assemble(&vm)?;
    ensure!(printed.contains("--re-add"), "{printed}");
    superdisk.is_whole(&vm, &[&files])?;
    superdisk.tear_down(&vm)?;
    vm.power_off()?;
    rack.migrate_host()?;
    let vm = rack.boot()?;
    superdisk.assemble(&vm)?;
    superdisk.is_whole(&vm, &[&files])
}

#[test]
fn a_network_disk_of_some_gib_with_small_chunks_catches_up_by_its_bitmap() -> Result<()> {
    let mut rack = Rack::of_size("small-chunks", 3072 * MIB)?;
    let superdisk = Superdisk::xfs();
    let vm = rack.boot()?;
    superdisk.assemble(&vm)?;
    superdisk.in_sync(&vm)?;
    // The smallest chunks whose bits there is room for: the default is 64 MiB.
    let mirror = superdisk.mirror(&vm)?;
    let chunk = vm.run(&format!(
        "mdadm --grow /dev/{mirror} --bitmap=none && for chunk in 64 128 256 512 1024; do \
         mdadm --grow /dev/{mirror} --bitmap=internal --bitmap-chunk=${{chunk}}K && echo $chunk && break; done"
    ))?;
    let chunk = chunk.lines().last().unwrap_or_default().trim().to_owned();
    ensure!(!chunk.is_empty(), "no small chunk was taken");
    // A bitmap that is added begins with every chunk marked.
    vm.run(
        "until marked=$(mdadm --examine-bitmap /dev/disk/by-id/google-data | sed -n 's/.* bits (chunks), \\([0-9]*\\) dirty.*/\\1/p') \
         && [ \"${marked:-100}\" -lt 100 ]; do sleep 1; done",
    )?;
    println!("    # chunks of {chunk} KiB");
    // XFS gives each new folder to the next quarter of the volume.
    vm.run("for n in $(seq 8); do mkdir /mnt/data/$n; done; sync")?;
    let inodes = vm.run("stat -c %i /mnt/data/[1-8] | sort -n")?;
    let last: u64 = inodes.lines().last().unwrap_or_default().trim().parse()?;
    ensure!(last >> LAST_QUARTER == 3, "{inodes}");
    let before = superdisk.write(&vm, "before", 6)?;
    // What the local disks were given and have not kept is on the network disk alone.
    let noise = "while :; do for n in $(seq 8); do dd if=/dev/urandom of=/mnt/data/$n/noise bs=64k count=4; done; done 2>/dev/null";
    let _noise = vm.begin(noise, 300 * SECOND)?;
    let synced = superdisk.write(&vm, "synced", 2)?;
    ensure!(
        rack.local(0).comes_to_hold_unflushed(60 * SECOND),
        "nothing is written without a sync"
    );
    vm.cut_power()?;

    let vm = rack.boot()?;
    rack.durable().take_counters();
    let printed = superdisk.assemble(&vm)?;
    ensure!(printed.contains("--re-add"), "{printed}");
    superdisk.in_sync(&vm)?;
    let copied = rack.durable().take_counters().bytes_read;
    ensure!(copied < 320 * MIB, "{} MiB were read", copied / MIB);
    superdisk.is_whole(&vm, &[&before, &synced])
}

/// Bits of an inode's number below that of its quarter, of 768 MiB in blocks of 4 KiB with eight inodes each.
const LAST_QUARTER: u32 = 21;

#[test]
fn a_power_cut_while_writing_loses_nothing_that_was_synced() -> Result<()> {
    let mut rack = Rack::new("power-cut")?;
    let superdisk = Superdisk::default();
    let vm = rack.boot()?;
    superdisk.assemble(&vm)?;
    let before = superdisk.write(&vm, "before", 8)?;
    superdisk.in_sync(&vm)?;
    // One writer that never syncs, beside one that always does.
    let noise =
        "while :; do dd if=/dev/urandom of=/mnt/data/noise bs=64k count=64; done 2>/dev/null";
    let _noise = vm.begin(noise, 300 * SECOND)?;
    let mut synced = Vec::new();
    for n in 0..6 {
        synced.push(superdisk.write(&vm, &format!("synced-{n}"), 1)?);
    }
    // The sync of the last file emptied the disks' caches, and a slow guest may not have written since.
    ensure!(
        rack.local(0).comes_to_hold_unflushed(60 * SECOND),
        "nothing is written without a sync"
    );
    vm.cut_power()?;

    let vm = rack.boot()?;
    superdisk.assemble(&vm)?;
    superdisk.has(&vm, &before)?;
    let all: Vec<_> = std::iter::once(&before).chain(&synced).collect();
    superdisk.is_whole(&vm, &all)?;
    let lost = rack.local(0).take_counters().lost_pages + rack.local(1).take_counters().lost_pages;
    ensure!(
        lost > 0,
        "the power cut cost the local disks nothing: this tests nothing"
    );
    Ok(())
}

#[test]
fn a_power_cut_during_the_rebuild_starts_it_again() -> Result<()> {
    let mut rack = Rack::new("rebuild-cut")?;
    let superdisk = Superdisk::default();
    let vm = rack.boot()?;
    superdisk.assemble(&vm)?;
    let files = superdisk.write(&vm, "file", 20)?;
    superdisk.in_sync(&vm)?;
    superdisk.tear_down(&vm)?;
    vm.power_off()?;
    rack.migrate_host()?;

    let vm = rack.boot()?;
    rack.durable().slow_down(Duration::from_millis(20));
    superdisk.assemble(&vm)?;
    let state = vm.run(&format!("cat /sys/block/{}/md/sync_action", mirror(&vm)?))?;
    ensure!(state.trim() == "recover", "{state}");
    superdisk.has(&vm, &files)?;
    vm.cut_power()?;
    rack.durable().mend();
    rack.durable().slow_down(Duration::ZERO);

    let vm = rack.boot()?;
    superdisk.assemble(&vm)?;
    superdisk.is_whole(&vm, &[&files])
}

#[test]
fn a_larger_network_disk_is_used_when_it_is_asked_for() -> Result<()> {
    let mut rack = Rack::empty("growth")?;
    rack.add_local(192 * MIB)?;
    rack.add_local(192 * MIB)?;
    rack.add_network(e2e_disk::DURABLE, 192 * MIB)?;
    let superdisk = Superdisk::default();
    let vm = rack.boot()?;
    superdisk.assemble(&vm)?;
    let files = superdisk.write(&vm, "small", 10)?;
    superdisk.in_sync(&vm)?;
    let size = "df -m /mnt/data | awk 'END {print $2}'";
    let small: u64 = vm.run(size)?.trim().parse()?;
    superdisk.tear_down(&vm)?;
    vm.power_off()?;
    rack.durable().grow(384 * MIB)?;

    let vm = rack.boot()?;
    superdisk.assemble(&vm)?;
    ensure!(
        vm.run(size)?.trim().parse::<u64>()? == small,
        "not asked for yet"
    );
    superdisk.in_sync(&vm)?;
    superdisk.ask(&vm, "assemble", "--grow")?.success()?;
    let large: u64 = vm.run(size)?.trim().parse()?;
    ensure!(large > small + 100, "{small} MiB, then {large}");
    let more = superdisk.write(&vm, "large", 100)?;
    superdisk.is_whole(&vm, &[&files, &more])
}

#[test]
fn a_busy_mount_is_not_torn_down_until_it_is_left() -> Result<()> {
    let mut rack = Rack::new("busy")?;
    let superdisk = Superdisk::default();
    let vm = rack.boot()?;
    superdisk.assemble(&vm)?;
    let files = superdisk.write(&vm, "file", 4)?;
    superdisk.in_sync(&vm)?;
    vm.run("cd /mnt/data; sleep 1000 >/dev/null 2>&1 & echo $! >/run/holder")?;
    let answer = superdisk.ask(&vm, "teardown", "--time 5s")?;
    ensure!(answer.status == 1, "{answer}");
    superdisk.has(&vm, &files)?;
    vm.run("kill $(cat /run/holder)")?;
    superdisk.tear_down(&vm)?;
    ensure!(arrays(&vm)?.is_empty());
    superdisk.tear_down(&vm)?;
    superdisk.assemble(&vm)?;
    superdisk.is_whole(&vm, &[&files])
}
