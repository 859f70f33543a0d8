//! Checks before anything is mounted, taken or overwritten: whether the local disks are ahead, to which volume a disk
//! belongs, whether another node uses it, and whether a bitmap can be trusted.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e_disk::{
    MIB, PAGE, Rack, Vm, local,
    superdisk::{Files, Superdisk},
};

const SECOND: Duration = Duration::from_secs(1);
/// Of a local disk, for each operation.
const SLOW: Duration = Duration::from_millis(400);

/// The network disk fails under writes, and the machine goes down with writes on the fast leg only.
fn ahead(name: &str) -> Result<(Rack, Superdisk, Files)> {
    ahead_in(Rack::new(name)?)
}

fn ahead_in(mut rack: Rack) -> Result<(Rack, Superdisk, Files)> {
    let superdisk = Superdisk::default();
    let vm = rack.boot()?;
    superdisk.assemble(&vm)?;
    let files = lose_durable(&rack, &superdisk, &vm)?;
    vm.power_off()?;
    rack.durable().mend();
    Ok((rack, superdisk, files))
}

/// Files that are acknowledged and on the fast leg alone.
fn lose_durable(rack: &Rack, superdisk: &Superdisk, vm: &Vm) -> Result<Files> {
    superdisk.write(vm, "before", 2)?;
    superdisk.in_sync(vm)?;
    vm.run("sleep 1")?;
    rack.durable().fail(true);
    let files = superdisk.write(vm, "after", 4)?;
    superdisk.goes_on_alone(vm)?;
    Ok(files)
}

fn other(superdisk: &Superdisk) -> Superdisk {
    Superdisk {
        volume: "b-7e0d2c1f-another".to_owned(),
        durable: "other".to_owned(),
        ..superdisk.clone()
    }
}

#[test]
fn local_disks_that_are_ahead_are_seen_past_bad_sectors_and_when_one_is_late() -> Result<()> {
    let (mut rack, superdisk, after) = ahead("asked-bad-page")?;
    // In a gap that nothing uses; then where its superblock is.
    rack.local(0).break_for_good(160 << 10..164 << 10);
    let vm = rack.boot()?;
    superdisk.refused(&vm, "", "E_SSD_AHEAD")?;
    superdisk.refused(&vm, "--fast-leg optional", "E_SSD_AHEAD")?;
    vm.unplug(&local(1))?;
    vm.run("by-id")?;
    superdisk.refused(&vm, "--fast-leg optional", "E_SSD_AHEAD")?;
    vm.power_off()?;
    rack.local(0).break_for_good(4 << 10..8 << 10);
    let vm = rack.boot()?;
    superdisk.refused(&vm, "--fast-leg optional", "E_SSD_AHEAD")?;
    vm.power_off()?;
    rack.local(0).mend();
    let vm = rack.boot()?;
    superdisk.ask(&vm, "resolve", "--keep fast")?.success()?;
    superdisk.assemble(&vm)?;
    superdisk.is_whole(&vm, &[&after])
}

#[test]
fn local_disks_that_are_ahead_are_seen_behind_others_and_before_a_copy_is_adopted() -> Result<()> {
    let mut rack = Rack::new("asked-others")?;
    rack.add_local(128 * MIB)?;
    let superdisk = Superdisk::default();
    let vm = rack.boot()?;
    // Something has the first of three: the fast leg is on the others.
    vm.run("mkfs.ext4 -q -F /dev/nvme0n1 2>/dev/null || /sbin/mke2fs -q -F /dev/nvme0n1; mkdir -p /mnt/x; mount -o ro /dev/nvme0n1 /mnt/x")?;
    superdisk.assemble(&vm)?;
    let after = lose_durable(&rack, &superdisk, &vm)?;
    vm.power_off()?;
    rack.durable().mend();
    rack.local(0).replace()?;
    let vm = rack.boot()?;
    superdisk.refused(&vm, "", "E_SSD_AHEAD")?;
    // The claim was deleted and recreated over the same disk.
    let anew = Superdisk {
        volume: "made-anew".to_owned(),
        ..superdisk.clone()
    };
    anew.refused(&vm, "", "E_PD_NOT_OURS")?;
    let copy = format!("--copy-of {}", superdisk.volume);
    anew.refused(&vm, &copy, "E_SSD_AHEAD")?;
    superdisk.ask(&vm, "resolve", "--keep fast")?.success()?;
    superdisk.assemble(&vm)?;
    superdisk.is_whole(&vm, &[&after])
}

#[test]
fn local_disks_that_are_ahead_are_waited_for_when_they_are_late_and_others_would_do() -> Result<()>
{
    let mut rack = Rack::new("asked-late")?;
    for _ in 0..2 {
        rack.add_local(128 * MIB)?;
    }
    let (mut rack, superdisk, after) = ahead_in(rack)?;
    let vm = rack.boot()?;
    for slot in 0..2 {
        vm.unplug(&local(slot))?;
    }
    vm.run("by-id")?;
    superdisk.refused(&vm, "", "E_SSD_AHEAD")?;
    superdisk.refused(&vm, "--fast-leg optional", "E_SSD_AHEAD")?;
    let answer = superdisk.ask(&vm, "resolve", "--keep fast")?;
    ensure!(
        answer.status == 3 && answer.stderr.starts_with("E_SSD_MISSING "),
        "{answer}"
    );
    for slot in 0..2 {
        vm.plug(&local(slot))?;
    }
    superdisk.refused(&vm, "", "E_SSD_AHEAD")?;
    superdisk.ask(&vm, "resolve", "--keep fast")?.success()?;
    superdisk.assemble(&vm)?;
    superdisk.is_whole(&vm, &[&after])
}

#[test]
fn local_disks_that_are_ahead_are_seen_after_the_host_has_started_one_leg_alone() -> Result<()> {
    let (mut rack, superdisk, after) = ahead("asked-host")?;
    let vm = rack.boot()?;
    vm.run("mdadm --assemble --config=none --run /dev/md126 /dev/vda")?;
    superdisk.refused(&vm, "", "E_SSD_AHEAD")?;
    vm.power_off()?;
    let vm = rack.boot()?;
    vm.run(
        "mdadm --assemble --config=none --run /dev/md125 /dev/nvme0n1 /dev/nvme1n1 && \
         mdadm --assemble --config=none --run /dev/md126 /dev/md125",
    )?;
    superdisk.refused(&vm, "", "E_SSD_AHEAD")?;
    superdisk.ask(&vm, "resolve", "--keep durable")?.success()?;
    superdisk.assemble(&vm)?;
    ensure!(superdisk.has(&vm, &after).is_err(), "given up means gone");
    superdisk.is_whole(&vm, &[])
}

#[test]
fn local_disks_that_wait_for_a_decision_are_not_another_volumes_to_take() -> Result<()> {
    let (mut rack, superdisk, after) = ahead("asked-pending")?;
    rack.add_network("other", 256 * MIB)?;
    let other = other(&superdisk);
    let vm = rack.boot()?;
    other.refused(&vm, "", "E_SSD_BUSY")?;
    superdisk.refused(&vm, "", "E_SSD_AHEAD")?;
    superdisk.ask(&vm, "resolve", "--keep fast")?.success()?;
    superdisk.assemble(&vm)?;
    superdisk.is_whole(&vm, &[&after])?;
    superdisk.tear_down(&vm)?;
    // Now its network disk has it all, and a new volume begins on used disks.
    other.assemble(&vm)?;
    let files = other.write(&vm, "other", 2)?;
    other.is_whole(&vm, &[&files])?;
    other.tear_down(&vm)?;
    superdisk.assemble(&vm)?;
    superdisk.is_whole(&vm, &[&after])
}

#[test]
fn what_is_on_a_local_disk_is_not_taken_unless_it_is_a_fast_leg() -> Result<()> {
    let mut rack = Rack::new("asked-whose")?;
    rack.add_network("other", 256 * MIB)?;
    let superdisk = Superdisk::default();
    let vm = rack.boot()?;
    superdisk.assemble(&vm)?;
    superdisk.in_sync(&vm)?;
    superdisk.tear_down(&vm)?;
    let other = other(&superdisk);
    // Another volume's network disk, as a pattern that is too wide would find it.
    vm.run("dd if=/dev/vda of=/dev/nvme1n1 bs=1M count=120 2>/dev/null; sync")?;
    other.refused(&vm, "", "E_SSD_BUSY")?;
    vm.run(
        "dd if=/dev/zero of=/dev/nvme1n1 bs=1M 2>/dev/null; sync; /sbin/mke2fs -q -F /dev/nvme1n1",
    )?;
    other.refused(&vm, "", "E_SSD_BUSY")?;
    // The advice of the refusal.
    vm.run("blkdiscard --zeroout /dev/nvme1n1 || dd if=/dev/zero of=/dev/nvme1n1 bs=1M 2>/dev/null; sync")?;
    other.assemble(&vm)?;
    let files = other.write(&vm, "file", 2)?;
    other.is_whole(&vm, &[&files])
}

#[test]
fn a_network_disk_that_another_node_uses_is_refused() -> Result<()> {
    let mut rack = Rack::new("asked-two-nodes")?;
    let superdisk = Superdisk::default();
    let first = rack.boot()?;
    superdisk.assemble(&first)?;
    superdisk.in_sync(&first)?;
    let files = superdisk.write(&first, "file", 4)?;
    superdisk.start_agent(&first, "")?;
    let second = rack.boot()?;
    let answer = superdisk.ask(&second, "assemble", "")?;
    ensure!(
        answer.status == 3 && answer.stderr.starts_with("E_PD_IN_USE"),
        "{answer}"
    );
    second.power_off()?;
    superdisk.has(&first, &files)
}

/// The longest that a beat of the agent was late, in seconds, is kept in a file.
const KEEP_OLDEST: &str = "oldest=0; while :; do \
     last=$(wget -qO - http://127.0.0.1:9950/metrics | awk '/^superdisk_last_beat/ {print $2}'); \
     age=$(($(date +%s) - ${last:-$(date +%s)})); [ $age -le $oldest ] || oldest=$age; echo $oldest >/run/oldest; sleep 1; \
     done >/dev/null 2>&1 &";

#[test]
fn a_network_disk_is_refused_to_another_node_while_its_agent_is_woken_and_while_it_rebuilds()
-> Result<()> {
    let mut rack = Rack::new("asked-woken")?;
    rack.add_local(128 * MIB)?;
    rack.add_local(128 * MIB)?;
    let superdisk = Superdisk::default();
    // Each node has local disks of its own.
    let has_only = |vm: &Vm, others: &str| {
        vm.run(&format!(
            "for n in {others}; do echo 1 >/sys/block/nvme${{n}}n1/device/device/remove; done; by-id"
        ))
    };
    let first = rack.boot()?;
    has_only(&first, "2 3")?;
    superdisk.assemble(&first)?;
    superdisk.in_sync(&first)?;
    let files = superdisk.write(&first, "file", 4)?;
    superdisk.start_agent(&first, "")?;
    first.run("while :; do echo change >/sys/block/vda/uevent; sleep 7; done >/dev/null 2>&1 &")?;
    first.run(KEEP_OLDEST)?;
    let second = rack.boot()?;
    has_only(&second, "0 1")?;
    let refused = || {
        let answer = superdisk.ask(&second, "assemble", "")?;
        ensure!(
            answer.status == 3 && answer.stderr.starts_with("E_PD_IN_USE"),
            "{answer}"
        );
        anyhow::Ok(())
    };
    for _ in 0..3 {
        refused()?;
    }
    first.unplug(&local(1))?;
    first.run("by-id")?;
    superdisk.has(&first, &files)?;
    rack.local(1).replace()?;
    // What is done about the fast leg takes longer than another node watches.
    for slot in 0..2 {
        rack.local(slot).slow_down(SLOW);
    }
    first.plug(&local(1))?;
    first.until("grep -q -- --create /run/agent.log", 120 * SECOND)?;
    refused()?;
    for slot in 0..2 {
        rack.local(slot).slow_down(Duration::ZERO);
    }
    superdisk.in_sync(&first)?;
    second.power_off()?;
    let oldest: u64 = first.run("cat /run/oldest")?.trim().parse()?;
    ensure!(oldest < 25, "a beat was {oldest} s old");
    superdisk.is_whole(&first, &[&files])
}

#[test]
fn a_network_disk_whose_headers_cannot_be_read_waits_for_a_person() -> Result<()> {
    let mut rack = Rack::new("asked-headers")?;
    let superdisk = Superdisk::default();
    let vm = rack.boot()?;
    superdisk.assemble(&vm)?;
    superdisk.in_sync(&vm)?;
    let files = superdisk.write(&vm, "file", 4)?;
    let headers = superdisk.headers(&vm)?;
    vm.cut_power()?;
    // The other one still speaks.
    rack.durable().lose(headers.start..headers.start + PAGE);
    let vm = rack.boot()?;
    superdisk.assemble(&vm)?;
    superdisk.is_whole(&vm, &[&files])?;
    vm.cut_power()?;
    rack.durable().lose(headers);
    let vm = rack.boot()?;
    superdisk.refused(&vm, "", "E_PD_HEADER_LOST")?;
    superdisk.refused(&vm, "--fast-leg optional", "E_PD_HEADER_LOST")?;
    let answer = superdisk.ask(&vm, "resolve", "--keep fast")?;
    ensure!(
        answer.status == 3 && answer.stderr.starts_with("E_PD_HEADER_LOST"),
        "{answer}"
    );
    superdisk.ask(&vm, "resolve", "--keep durable")?.success()?;
    superdisk.assemble(&vm)?;
    superdisk.is_whole(&vm, &[&files])
}

#[test]
fn a_local_disk_that_was_away_and_lost_its_cache_is_not_believed() -> Result<()> {
    let mut rack = Rack::new("asked-cache")?;
    let superdisk = Superdisk::default();
    let vm = rack.boot()?;
    superdisk.assemble(&vm)?;
    superdisk.in_sync(&vm)?;
    let files = superdisk.write(&vm, "file", 4)?;
    vm.run("sleep 13")?;
    // Acknowledged by the local disk, and only in its cache.
    vm.run("for n in 1 2 3 4; do dd if=/dev/urandom of=/mnt/data/file-$n bs=1M count=1 conv=notrunc oflag=direct 2>/dev/null; done")?;
    vm.unplug(&local(1))?;
    rack.local(1).cut_power();
    vm.run("sleep 13; by-id")?;
    vm.plug(&local(1))?;
    vm.run("sleep 13")?;
    superdisk.assemble(&vm)?;
    superdisk.in_sync(&vm)?;
    ensure!(superdisk.has(&vm, &files).is_err(), "they were rewritten");
    superdisk.is_whole(&vm, &[])
}

/// A super-disk of one local disk that has dropped out under writes. The agent fills a second one, slowly, and has come past
/// all that was written when it is killed. The first is back then, and the second is out.
fn replaced_half_way(name: &str) -> Result<(Rack, Superdisk, Vm, Files)> {
    let mut rack = Rack::new(name)?;
    let superdisk = Superdisk {
        locals: 1,
        ..Superdisk::default()
    };
    let vm = rack.boot()?;
    superdisk.assemble(&vm)?;
    superdisk.write(&vm, "file", 8)?;
    superdisk.in_sync(&vm)?;
    let mirror = superdisk.mirror(&vm)?;
    // Chunks that are not all dirty anyway; a bitmap that is added begins with every chunk marked.
    vm.run(&format!(
        "mdadm --grow /dev/{mirror} --bitmap=none && mdadm --grow /dev/{mirror} --bitmap=internal --bitmap-chunk=64K"
    ))?;
    vm.run(
        "until mdadm --examine-bitmap /dev/disk/by-id/google-data | grep -Eq ' [0-9]{1,2} dirty'; do sleep 1; done",
    )?;
    // Never idle, md counts no event: by its count the first disk is not too old.
    vm.run(&format!(
        "echo 600 >/sys/block/{mirror}/md/safe_mode_delay; dd if=/dev/zero of=/mnt/data/busy bs=4k count=1 conv=fsync \
         2>/dev/null; sync; sleep 13"
    ))?;
    let first = vm.run(&format!(
        "basename $(readlink /sys/block/{mirror}/md/rd1/block)"
    ))?;
    vm.unplug(&local(0))?;
    vm.run("by-id")?;
    // In place of what was there, and beside it.
    vm.run("for n in 1 2 3 4; do dd if=/dev/urandom of=/mnt/data/file-$n bs=1M count=1 conv=notrunc,fsync 2>/dev/null; done")?;
    superdisk.write(&vm, "more", 4)?;
    superdisk.start_agent(&vm, "--rebuild-min 1 --rebuild-max 1")?;
    let md = format!("/sys/block/{mirror}/md");
    vm.until(
        &format!("[ $(cat {md}/sync_action) = recover ]"),
        120 * SECOND,
    )?;
    // In sectors: past three quarters of 127 MiB, and md has written its bits down.
    vm.until(
        &format!("[ $(awk '{{print $1 + 0}}' {md}/sync_completed) -gt 190000 ]"),
        600 * SECOND,
    )?;
    vm.run(&format!(
        "kill -9 $(cat /run/agent.pid); for limit in min max; do echo 10 >{md}/sync_speed_$limit; done"
    ))?;
    vm.run(&format!("[ $(cat {md}/degraded) = 1 ]"))
        .context("it is filled already")?;
    let files = superdisk.list(&vm, "file")?;
    // As long as what is left of the first stripe is there, mdadm starts no other of its UUID.
    vm.run(&format!("mdadm --stop /dev/{}", first.trim()))?;
    vm.plug(&local(0))?;
    vm.unplug(&local(1))?;
    vm.run("by-id")?;
    Ok((rack, superdisk, vm, files))
}

#[test]
fn a_local_disk_whose_place_another_has_taken_is_not_believed_when_that_one_is_lost() -> Result<()>
{
    let (_rack, superdisk, vm, files) = replaced_half_way("asked-replaced")?;
    is_copied_anew(&superdisk, &vm, &files)
}

#[test]
fn a_local_disk_whose_place_another_has_taken_is_not_believed_after_a_power_cut() -> Result<()> {
    let (mut rack, superdisk, vm, files) = replaced_half_way("asked-replaced-cut")?;
    vm.cut_power()?;
    rack.local(1).replace()?;
    let vm = rack.boot()?;
    is_copied_anew(&superdisk, &vm, &files)
}

fn is_copied_anew(superdisk: &Superdisk, vm: &Vm, files: &Files) -> Result<()> {
    let printed = superdisk.assemble(vm)?;
    superdisk.is_whole(vm, &[files])?;
    ensure!(
        !printed.contains("--re-add"),
        "not everything is copied: {printed}"
    );
    Ok(())
}

#[test]
fn an_entry_that_is_older_than_its_claim_begins_no_volume() -> Result<()> {
    let mut rack = Rack::new("asked-entry")?;
    let vm = rack.boot()?;
    let identify = |pod: &str| {
        format!(
            "POD_UID={pod} superdisk identify --entry /run/entry --device /dev/vda --to /run/{pod}.json"
        )
    };
    let written = |volume: &str, pod: &str| {
        format!("echo '{{\"volume\":\"{volume}\",\"pod\":\"{pod}\"}}' >/run/entry")
    };
    // The claim was recreated, and the operator has not seen it yet.
    vm.run(&written("gone", "pod-1"))?;
    vm.run(&format!("{} >/run/log 2>&1 &", identify("pod-2")))?;
    vm.until("grep -q 'waiting for the operator' /run/log", 30 * SECOND)?;
    vm.run("sleep 3; [ ! -e /run/pod-2.json ]")?;
    vm.run(&written("anew", "pod-2"))?;
    vm.until("[ -e /run/pod-2.json ]", 30 * SECOND)?;
    let superdisk = Superdisk {
        volume: "anew".to_owned(),
        ..Superdisk::default()
    };
    let by_file = format!(
        "mkdir -p {at}; superdisk assemble --disk /run/pod-2.json --local '/dev/disk/by-id/google-local-nvme-ssd-*' \
         --local-count 2 --mount {at} --fs ext4",
        at = superdisk.mount
    );
    vm.run(&by_file)?;
    let files = superdisk.write(&vm, "file", 2)?;
    superdisk.tear_down(&vm)?;
    // The next pod needs no operator: the disk says that the entry is right.
    vm.run(&identify("pod-3"))?;
    vm.run("grep -q anew /run/pod-3.json")?;
    // Nor does it believe an entry that the disk does not bear out.
    vm.run(&written("gone", "pod-1"))?;
    vm.run(&format!("{} >/run/log 2>&1 &", identify("pod-4")))?;
    vm.until("grep -q \"the volume anew's\" /run/log", 30 * SECOND)?;
    vm.run("[ ! -e /run/pod-4.json ]")?;
    superdisk.assemble(&vm)?;
    superdisk.is_whole(&vm, &[&files])
}
