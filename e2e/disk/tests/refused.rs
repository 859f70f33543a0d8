//! Refusals: each by its code, with nothing written to any disk.

use anyhow::{Result, ensure};
use e2e_disk::{
    MIB, Rack,
    superdisk::{Files, Superdisk, mirror},
};

#[test]
fn network_disks_that_are_not_ours_are_left_alone() -> Result<()> {
    let mut rack = Rack::new("foreign")?;
    let superdisk = Superdisk::default();
    let vm = rack.boot()?;
    let durable = "/dev/disk/by-id/google-data";
    vm.run(&format!("/sbin/mke2fs -q -F {durable}"))?;
    superdisk.refused(&vm, "", "E_PD_FOREIGN")?;
    vm.run(&format!(
        "wipefs -qa {durable}; dd if=/dev/zero of={durable} bs=1M count=4 conv=notrunc"
    ))?;
    vm.run(&format!(
        "mdadm --create /dev/md50 --run --metadata=1.2 --level=1 --force --raid-devices=1 --name=other {durable} && \
         mdadm --stop /dev/md50"
    ))?;
    superdisk.refused(&vm, "", "E_PD_NOT_OURS")?;
    // Blank again, but the claim says that it was used.
    vm.run(&format!(
        "mdadm --zero-superblock {durable}; dd if=/dev/zero of={durable} bs=1M || true"
    ))?;
    superdisk.refused(&vm, "--used-before", "E_PD_UNEXPECTEDLY_BLANK")?;
    superdisk.assemble(&vm)?;
    let files = superdisk.write(&vm, "file", 2)?;
    superdisk.is_whole(&vm, &[&files])
}

#[test]
fn a_leg_that_was_itself_being_rebuilt_is_not_the_truth() -> Result<()> {
    let mut rack = Rack::new("not-in-sync")?;
    let superdisk = Superdisk::default();
    let vm = rack.boot()?;
    superdisk.assemble(&vm)?;
    superdisk.in_sync(&vm)?;
    let mirror = mirror(&vm)?;
    // An administrator adds the network disk to the local one by hand, and the power fails.
    vm.run(&format!(
        "umount /mnt/data; mdadm /dev/{mirror} --fail /dev/vda --remove /dev/vda && mdadm --zero-superblock /dev/vda && \
         echo 100 >/sys/block/{mirror}/md/sync_speed_max && mdadm /dev/{mirror} --add --write-mostly /dev/vda; sleep 2"
    ))?;
    vm.cut_power()?;
    let vm = rack.boot()?;
    superdisk.refused(&vm, "", "E_PD_NOT_INSYNC")
}

#[test]
fn a_clone_beside_its_source_keeps_neither_from_its_pod() -> Result<()> {
    let mut rack = Rack::new("twice")?;
    let superdisk = Superdisk::default();
    let vm = rack.boot()?;
    superdisk.assemble(&vm)?;
    superdisk.in_sync(&vm)?;
    let files = superdisk.write(&vm, "file", 2)?;
    superdisk.tear_down(&vm)?;
    vm.power_off()?;
    let snapshot = rack.durable().snapshot("clone")?;
    rack.add_network("clone", 256 * MIB)?.restore(&snapshot)?;
    let vm = rack.boot()?;
    let copy = Superdisk {
        volume: "a-clone-of-it".to_owned(),
        durable: "clone".to_owned(),
        ..superdisk.clone()
    };
    let copy_of = format!("--copy-of {}", superdisk.volume);
    superdisk.assemble(&vm)?;
    let later = superdisk.write(&vm, "later", 2)?;
    superdisk.is_whole(&vm, &[&files, &later])?;
    // It may become a volume of its own beside its source, but neither at its mount nor with its local disks: that is
    // said before it is given a name of its own, so that it stays a copy.
    for (mount, code) in [("/mnt/data", "E_PD_FOREIGN "), ("/mnt/copy", "E_SSD_BUSY ")] {
        let beside = Superdisk {
            mount,
            ..copy.clone()
        };
        let answer = beside.ask(&vm, "assemble", &copy_of)?;
        ensure!(
            answer.status == 3 && answer.stderr.starts_with(code),
            "not refused with {code} before anything else: {answer}"
        );
    }
    superdisk.tear_down(&vm)?;
    // Under its source's name it would bring back old data.
    let mixed_up = Superdisk {
        durable: "clone".to_owned(),
        ..superdisk.clone()
    };
    mixed_up.refused(&vm, "", "E_DUPLICATE_UUID")?;
    copy.refused(&vm, "", "E_PD_NOT_OURS")?;
    copy.ask(&vm, "assemble", &copy_of)?.success()?;
    copy.is_whole(&vm, &[&files])?;
    copy.tear_down(&vm)?;
    superdisk.assemble(&vm)?;
    superdisk.is_whole(&vm, &[&files, &later])
}

#[test]
fn too_few_or_taken_local_disks_are_refused_unless_they_are_optional() -> Result<()> {
    let mut rack = Rack::new("too-few")?;
    let superdisk = Superdisk::default();
    let three = Superdisk {
        locals: 3,
        ..superdisk.clone()
    };
    let vm = rack.boot()?;
    three.refused(&vm, "", "E_SSD_MISSING")?;
    vm.run(
        "/sbin/mke2fs -q -F /dev/nvme0n1 && mkdir -p /mnt/other && mount -o ro /dev/nvme0n1 /mnt/other",
    )?;
    superdisk.refused(&vm, "", "E_SSD_BUSY")?;
    vm.run("umount /mnt/other")?;
    superdisk.refused(&vm, "", "E_SSD_BUSY")?;
    vm.run("dd if=/dev/zero of=/dev/nvme0n1 bs=1M 2>/dev/null; sync")?;
    superdisk.assemble(&vm)?;
    let files = superdisk.write(&vm, "file", 2)?;
    superdisk.in_sync(&vm)?;
    superdisk.tear_down(&vm)?;
    vm.unplug(&e2e_disk::local(1))?;
    vm.run("by-id")?;
    superdisk.refused(&vm, "", "E_SSD_MISSING")?;
    superdisk
        .ask(&vm, "assemble", "--fast-leg optional")?
        .success()?;
    superdisk.has(&vm, &files)?;
    // It comes back, or another in its place.
    vm.plug(&e2e_disk::local(1))?;
    superdisk.assemble(&vm)?;
    superdisk.is_whole(&vm, &[&files])
}

#[test]
fn a_network_disk_that_looks_like_local_nvme_is_known_by_its_model() -> Result<()> {
    let mut rack = Rack::new("model")?;
    let superdisk = Superdisk::default();
    let vm = rack.boot()?;
    for model in [
        "nvme_card-pd",
        "Amazon Elastic Block Store",
        "MSFT NVMe Accelerator v1.0",
    ] {
        vm.run(&format!(
            "echo '{model}' >/run/model && mount --bind /run/model /sys/block/nvme1n1/device/model"
        ))?;
        superdisk.refused(&vm, "", "E_SSD_BUSY")?;
        vm.run("umount /sys/block/nvme1n1/device/model")?;
    }
    superdisk.assemble(&vm)?;
    superdisk.is_whole(&vm, &[])
}

#[test]
fn a_kernel_without_raid1_is_refused_by_name() -> Result<()> {
    let mut rack = Rack::new("no-raid1")?;
    let superdisk = Superdisk::default();
    rack.kernel_arguments("readstates.hide=raid1");
    let vm = rack.boot()?;
    superdisk.refused(&vm, "", "E_NO_RAID1")
}

#[test]
fn a_kernel_that_is_known_to_corrupt_mirrors_is_refused() -> Result<()> {
    let mut rack = Rack::new("bad-kernel")?;
    let superdisk = Superdisk::default();
    let vm = rack.boot()?;
    vm.run("echo 6.9.7-1-amd64 >/run/osrelease && mount --bind /run/osrelease /proc/sys/kernel/osrelease")?;
    superdisk.refused(&vm, "", "E_KERNEL")
}

/// The network disk is lost under writes; the machine goes down with writes on the fast leg only.
fn fast_leg_ahead(name: &str) -> Result<(Rack, Superdisk, Files, Files)> {
    let mut rack = Rack::new(name)?;
    let superdisk = Superdisk::default();
    let vm = rack.boot()?;
    superdisk.assemble(&vm)?;
    let before = superdisk.write(&vm, "before", 4)?;
    superdisk.in_sync(&vm)?;
    vm.run("sleep 1")?;
    rack.durable().fail(true);
    // Acknowledged, and on the fast leg alone: no agent runs that would freeze the filesystem.
    let after = superdisk.write(&vm, "after", 4)?;
    superdisk.goes_on_alone(&vm)?;
    vm.power_off()?;
    rack.durable().mend();
    Ok((rack, superdisk, before, after))
}

#[test]
fn a_fast_leg_that_knows_more_is_not_overwritten_before_somebody_decides() -> Result<()> {
    let (mut rack, superdisk, before, after) = fast_leg_ahead("ahead-fast")?;
    let vm = rack.boot()?;
    superdisk.refused(&vm, "", "E_SSD_AHEAD")?;
    superdisk.ask(&vm, "resolve", "--keep fast")?.success()?;
    superdisk.assemble(&vm)?;
    superdisk.is_whole(&vm, &[&before, &after])?;
    // From now on the network disk has it all.
    superdisk.tear_down(&vm)?;
    vm.power_off()?;
    rack.migrate_host()?;
    let vm = rack.boot()?;
    superdisk.assemble(&vm)?;
    superdisk.is_whole(&vm, &[&before, &after])
}

#[test]
fn a_fast_leg_that_knows_more_can_be_given_up() -> Result<()> {
    let (mut rack, superdisk, before, _) = fast_leg_ahead("ahead-durable")?;
    let vm = rack.boot()?;
    superdisk.refused(&vm, "", "E_SSD_AHEAD")?;
    superdisk.ask(&vm, "resolve", "--keep durable")?.success()?;
    superdisk.assemble(&vm)?;
    ensure!(
        vm.ask("ls /mnt/data/after-1")?.status != 0,
        "given up means gone"
    );
    superdisk.is_whole(&vm, &[&before])
}

#[test]
fn a_mirror_without_its_network_disk_is_not_served() -> Result<()> {
    let mut rack = Rack::new("lost")?;
    let superdisk = Superdisk::default();
    let vm = rack.boot()?;
    superdisk.assemble(&vm)?;
    superdisk.in_sync(&vm)?;
    let name = mirror(&vm)?;
    vm.run(&format!(
        "umount /mnt/data; mdadm /dev/{name} --fail /dev/vda"
    ))?;
    superdisk.refused(&vm, "", "E_PD_LOST")
}
