//! What plain md does without the super-disk: the hazards that its order of steps and its settings avoid. These tests check our
//! understanding of md against the running kernel, with mdadm alone.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e_disk::{Rack, Vm};

/// Seconds alone, minutes beside builds: a guest's processor is emulated.
const COPY: Duration = Duration::from_mins(10);
const CREATE_STRIPE: &str = "mdadm --create /dev/md100 --run --metadata=1.2 --level=0 \
    --raid-devices=2 --chunk=512 /dev/nvme0n1 /dev/nvme1n1";
const CREATE_MIRROR: &str = "mdadm --create /dev/md101 --run --metadata=1.2 --level=1 \
    --raid-devices=2 --bitmap=internal --size=128M --write-mostly /dev/vda missing";
const ADD: &str = "mdadm /dev/md101 --add --readwrite /dev/md100";

/// The network disk in slot 0, write-mostly, and RAID0 of both local disks beside it, in sync.
fn assemble_by_hand(vm: &Vm) -> Result<()> {
    vm.run(CREATE_STRIPE)?;
    vm.run(CREATE_MIRROR)?;
    vm.run(ADD)?;
    in_sync(vm)
}

fn in_sync(vm: &Vm) -> Result<()> {
    vm.until("grep -qF '[UU]' /proc/mdstat", COPY)
}

/// Sectors that md's own check finds different, once no bitmap bit is left to heal them by luck.
fn mismatch(vm: &Vm) -> Result<u64> {
    vm.run("sleep 13; echo check >/sys/block/md101/md/sync_action")?;
    vm.until("[ $(cat /sys/block/md101/md/sync_action) = idle ]", COPY)?;
    Ok(vm
        .run("cat /sys/block/md101/md/mismatch_cnt")?
        .trim()
        .parse()?)
}

#[test]
fn both_legs_assembled_after_a_power_cut_let_the_local_disks_overwrite_the_network_disk()
-> Result<()> {
    let write = |letter: &str| {
        format!(
            "tr '\\0' {letter} </dev/zero | \
             dd of=/dev/md101 bs=4k count=1 seek=5000 oflag=direct iflag=fullblock"
        )
    };
    let mut rack = Rack::new("hazard-1")?;
    let vm = rack.boot()?;
    assemble_by_hand(&vm)?;
    vm.run(&format!(
        "{} && sync && blockdev --flushbufs /dev/md101",
        write("A")
    ))?;
    let offset = vm.run("cat /sys/block/md101/md/dev-vda/offset")?;
    let page = offset.trim().parse::<u64>()? * 512 + 5000 * 4096;
    // Idle for a fifth of a second, md would write its superblocks, and flush the local disks with them.
    vm.run("sleep 1; echo 600 >/sys/block/md101/md/safe_mode_delay")?;
    vm.run(&write("B"))?;
    vm.cut_power()?;
    ensure!(rack.durable().peek(page, 1)? == b"B");

    let vm = rack.boot()?;
    vm.run("mdadm --assemble /dev/md100 /dev/nvme0n1 /dev/nvme1n1")?;
    vm.run("mdadm --assemble /dev/md101 /dev/vda /dev/md100")?;
    vm.until("[ $(cat /sys/block/md101/md/sync_action) = idle ]", COPY)?;
    vm.run("sync")?;
    ensure!(
        rack.durable().peek(page, 1)? == b"A",
        "md copied from the network disk: this kernel does better than we think"
    );
    Ok(())
}

#[test]
fn an_added_leg_with_an_old_superblock_inside_is_not_rebuilt() -> Result<()> {
    let mut rack = Rack::new("hazard-2")?;
    let vm = rack.boot()?;
    assemble_by_hand(&vm)?;
    vm.run("dd if=/dev/urandom of=/dev/md101 bs=1M count=64 oflag=direct")?;
    // Dirty bits would heal it by luck.
    vm.run("sleep 13; mdadm --stop /dev/md101; mdadm --stop /dev/md100")?;
    vm.power_off()?;
    rack.local(1).replace()?;

    let vm = rack.boot()?;
    vm.run(CREATE_STRIPE)?;
    vm.run("mdadm --assemble --run /dev/md101 /dev/vda")?;
    let said = vm.ask(ADD)?;
    ensure!(said.stderr.contains("re-added"), "{said}");
    in_sync(&vm)?;
    ensure!(mismatch(&vm)? > 0, "half of the leg is blank");

    // The cure: no superblock inside, so that it is added and not added again.
    vm.run("mdadm /dev/md101 --fail /dev/md100 --remove /dev/md100")?;
    vm.run("mdadm --zero-superblock /dev/md100")?;
    let said = vm.ask(ADD)?;
    ensure!(!said.stderr.contains("re-added"), "{said}");
    in_sync(&vm)?;
    ensure!(mismatch(&vm)? == 0);
    Ok(())
}

/// Shell that waits until the bitmap on the network disk has no marks: how long that takes, a slow guest decides.
const CLEAN: &str = "until mdadm --examine-bitmap /dev/vda | grep -q ' 0 dirty'; do sleep 1; done";

#[test]
fn a_leg_started_alone_after_a_power_cut_has_forgotten_what_its_bitmap_knew() -> Result<()> {
    let mut rack = Rack::new("hazard-3")?;
    let vm = rack.boot()?;
    assemble_by_hand(&vm)?;
    // Never idle for long, a mirror has written "cleared up to now" into the bitmap while it was active.
    vm.run(&format!(
        "sleep 14; {CLEAN}; echo 600 >/sys/block/md101/md/safe_mode_delay"
    ))?;
    let write = |seek: u64| {
        format!("dd if=/dev/urandom of=/dev/md101 bs=4k count=1 seek={seek} oflag=direct")
    };
    vm.run(&write(4000))?;
    vm.run(&format!("sleep 12; {CLEAN}"))?;
    // On the network disk; in the caches of the local ones.
    vm.run(&write(5000))?;
    vm.cut_power()?;
    let snapshot = rack.durable().snapshot("cut")?;

    let start = "mdadm --assemble /dev/md100 /dev/nvme0n1 /dev/nvme1n1; \
                 mdadm --assemble --run /dev/md101 /dev/vda";
    let re_add = "mdadm /dev/md101 --re-add /dev/md100";
    let vm = rack.boot()?;
    vm.run(start)?;
    vm.run(re_add)?;
    in_sync(&vm)?;
    ensure!(
        mismatch(&vm)? > 0,
        "md copied what was under way: this kernel does better than we think"
    );
    vm.cut_power()?;

    // The cure: the bits of the leg that comes back are set again before it does.
    rack.durable().restore(&snapshot)?;
    let vm = rack.boot()?;
    vm.run(start)?;
    vm.run(
        "echo 0-1 >/sys/block/md101/md/bitmap_set_bits; echo idle >/sys/block/md101/md/sync_action",
    )?;
    vm.until("[ $(cat /sys/block/md101/md/resync_start) = none ]", COPY)?;
    vm.run(re_add)?;
    in_sync(&vm)?;
    ensure!(mismatch(&vm)? == 0);
    Ok(())
}

/// Sectors that differ after a power cut, where pages of a file were changed while they were on their way to the disks.
fn differ_after_changes_on_the_way(name: &str, stable_writes: u8) -> Result<u64> {
    let mut rack = Rack::new(name)?;
    let vm = rack.boot()?;
    assemble_by_hand(&vm)?;
    vm.run(&format!(
        "echo {stable_writes} >/sys/block/md101/queue/stable_writes; \
         mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 /dev/md101; mkdir -p /mnt/raw; mount /dev/md101 /mnt/raw; \
         dd if=/dev/zero of=/mnt/raw/pages bs=1M count=4; sync"
    ))?;
    // Small requests to a slow network disk wait in the guest's memory, for longer than the writer takes to change them all;
    // nothing is written but by the one `sync`.
    vm.run(
        "echo 0 >/proc/sys/vm/dirty_writeback_centisecs; echo 4 >/sys/block/vda/queue/max_sectors_kb",
    )?;
    rack.durable().slow_down(Duration::from_millis(100));
    let _writer = vm.begin(
        "until [ -e /run/stop ]; do dd if=/dev/urandom of=/mnt/raw/pages bs=64k count=64 conv=notrunc; done 2>/dev/null",
        COPY,
    )?;
    vm.run("sleep 2; sync; touch /run/stop")?;
    // Until md has cleared all bits of the bitmap: no start copies the pages any more.
    vm.until(
        "[ $(for leg in vda md100; do mdadm --examine-bitmap /dev/$leg; done | grep -c ' 0 dirty') = 2 ]",
        COPY,
    )?;
    vm.cut_power()?;
    rack.durable().slow_down(Duration::ZERO);
    let vm = rack.boot()?;
    vm.run("mdadm --assemble /dev/md100 /dev/nvme0n1 /dev/nvme1n1")?;
    vm.run("mdadm --assemble /dev/md101 /dev/vda /dev/md100")?;
    vm.until("[ $(cat /sys/block/md101/md/sync_action) = idle ]", COPY)?;
    mismatch(&vm)
}

#[test]
fn pages_that_change_while_they_are_written_differ_between_the_legs_unless_writes_are_stable()
-> Result<()> {
    let changing = differ_after_changes_on_the_way("hazard-changing", 0)?;
    ensure!(
        changing > 0,
        "the legs are the same: this kernel does better than we think"
    );
    let stable = differ_after_changes_on_the_way("hazard-stable", 1)?;
    ensure!(stable == 0, "{stable} sectors differ");
    Ok(())
}
