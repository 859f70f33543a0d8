//! A node does more than one thing: two volumes share a pattern of local disks, and the node itself has mounted one.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e_disk::{
    MIB, Rack, local,
    superdisk::{REBUILD, Superdisk},
};

/// Four local disks and two network disks, each of which a volume has.
fn two_volumes(name: &str) -> Result<(Rack, Superdisk, Superdisk)> {
    let mut rack = Rack::new(name)?;
    rack.add_local(128 * MIB)?;
    rack.add_local(128 * MIB)?;
    rack.add_network("other", 256 * MIB)?;
    let first = Superdisk::default();
    let second = Superdisk {
        volume: "b-7e0d2c1f-another".to_owned(),
        durable: "other".to_owned(),
        mount: "/mnt/other",
        ..first.clone()
    };
    Ok((rack, first, second))
}

#[test]
fn two_volumes_of_a_node_share_a_pattern_and_each_keeps_its_own() -> Result<()> {
    let (mut rack, first, second) = two_volumes("beside-two")?;
    let vm = rack.boot()?;
    first.assemble(&vm)?;
    second.assemble(&vm)?;
    let of_first = first.write(&vm, "first", 4)?;
    let of_second = second.write(&vm, "second", 4)?;
    first.is_whole(&vm, &[&of_first])?;
    second.is_whole(&vm, &[&of_second])?;
    // The end of one is not the end of the other, whichever was first.
    first.ask(&vm, "teardown", "")?.success()?;
    second.is_whole(&vm, &[&of_second])?;
    vm.cut_power()?;
    let vm = rack.boot()?;
    second.assemble(&vm)?;
    first.assemble(&vm)?;
    first.is_whole(&vm, &[&of_first])?;
    second.is_whole(&vm, &[&of_second])
}

#[test]
fn a_local_disk_that_a_volume_has_replaced_and_that_comes_back_is_free_for_another() -> Result<()> {
    let (mut rack, first, second) = two_volumes("beside-back")?;
    let vm = rack.boot()?;
    first.assemble(&vm)?;
    first.start_agent(&vm, "")?;
    let files = first.write(&vm, "first", 4)?;
    first.in_sync(&vm)?;
    vm.unplug(&local(1))?;
    vm.run("by-id")?;
    let more = first.write(&vm, "more", 2)?;
    let mirror = first.mirror(&vm)?;
    vm.until(
        &format!("[ $(cat /sys/block/{mirror}/md/degraded) = 0 ]"),
        REBUILD,
    )?;
    first.in_sync(&vm)?;
    // Half of a fast leg, whose other half is in the one that runs.
    vm.plug(&local(1))?;
    second.assemble(&vm)?;
    let of_second = second.write(&vm, "second", 2)?;
    second.is_whole(&vm, &[&of_second])?;
    first.is_whole(&vm, &[&files, &more])
}

#[test]
fn a_decision_that_takes_long_keeps_no_other_volume_from_its_disk() -> Result<()> {
    let (mut rack, first, second) = two_volumes("beside-long")?;
    let vm = rack.boot()?;
    first.assemble(&vm)?;
    let before = first.write(&vm, "before", 2)?;
    first.in_sync(&vm)?;
    vm.run("sleep 1")?;
    rack.durable().fail(true);
    let after = first.write(&vm, "after", 4)?;
    first.goes_on_alone(&vm)?;
    vm.power_off()?;
    rack.durable().mend();
    let vm = rack.boot()?;
    first.refused(&vm, "", "E_SSD_AHEAD")?;
    rack.durable().slow_down(Duration::from_millis(200));
    first.begin_to_keep_fast(&vm)?;
    second.assemble(&vm)?;
    let of_second = second.write(&vm, "second", 2)?;
    vm.run("pidof superdisk")
        .context("it was not long enough")?;
    rack.durable().slow_down(Duration::ZERO);
    vm.until("! pidof superdisk", REBUILD)?;
    first.assemble(&vm)?;
    first.is_whole(&vm, &[&before, &after])?;
    second.is_whole(&vm, &[&of_second])
}

#[test]
fn a_local_disk_that_the_node_alone_has_mounted_is_not_taken() -> Result<()> {
    let mut rack = Rack::new("beside-mount")?;
    let superdisk = Superdisk::default();
    let vm = rack.boot()?;
    vm.run("/sbin/mke2fs -q -F /dev/nvme0n1 && mkdir -p /mnt/by-hand /mnt/data /host/proc && mount /dev/nvme0n1 /mnt/by-hand")?;
    // As a pod has it: mounts of its own, and the node's list of them at /host/proc.
    vm.run("mount --bind /proc /host/proc")?;
    let in_pod = |host: &str| {
        format!(
            "unshare -m sh -c \"umount /mnt/by-hand; {host} superdisk assemble {}\"",
            superdisk.flags()
        )
    };
    let answer = vm.ask(&in_pod(""))?;
    ensure!(
        answer.status == 3 && answer.stderr.contains("is mounted at /mnt/by-hand"),
        "{answer}"
    );
    // A list that is there and cannot be read is not an empty one.
    let answer = vm.ask(&in_pod(
        "mount -t tmpfs none /host/proc; mkdir -p /host/proc/1/mountinfo;",
    ))?;
    ensure!(
        answer.status == 1 && answer.stderr.contains("/host/proc/1/mountinfo"),
        "{answer}"
    );
    Ok(())
}
