//! The agent maintains a running super-disk: it heals, patrols, takes down; and what it leaves behind when it is
//! killed.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e_disk::{
    DURABLE, MIB, PAGE, Rack, Vm, local,
    superdisk::{Files, POD, Superdisk, answers, arrays, mirror},
};

const SECOND: Duration = Duration::from_secs(1);

/// A super-disk in sync, files on it, and the agent beside it.
fn maintained(name: &str, more: &str) -> Result<(Rack, Superdisk, Vm, Files)> {
    let mut rack = Rack::new(name)?;
    let superdisk = Superdisk::default();
    let vm = rack.boot()?;
    superdisk.assemble(&vm)?;
    let files = superdisk.write(&vm, "file", 10)?;
    superdisk.in_sync(&vm)?;
    superdisk.start_agent(&vm, more)?;
    Ok((rack, superdisk, vm, files))
}

#[test]
fn the_network_disk_lost_while_running_stops_the_writes() -> Result<()> {
    let (mut rack, superdisk, vm, files) = maintained("pd-lost", "")?;
    rack.durable().fail(true);
    // The failure shows only when something is written.
    let _write = vm.begin(
        "while :; do dd if=/dev/urandom of=/mnt/data/noise bs=4k count=1 conv=fsync; done 2>/dev/null",
        120 * SECOND,
    )?;
    vm.until(&format!("! {}", answers("readyz")), 30 * SECOND)?;
    // In the background: a process that writes to a frozen filesystem cannot be killed, so no time limit would end it.
    let frozen = "f=/mnt/data/more.$(date +%s); (touch $f >/dev/null 2>&1 </dev/null &); sleep 2; [ ! -e $f ]";
    vm.until(frozen, 30 * SECOND)?;
    // The hook of a backup thaws it: it is frozen again.
    vm.run("/sbin/fsfreeze -u /mnt/data")?;
    vm.until(frozen, 60 * SECOND)?;
    superdisk.has_still(&vm, &files)?;
    let state = vm.run("wget -qO - http://127.0.0.1:9950/state")?;
    ensure!(state.contains(r#""is":"durable-lost""#), "{state}");
    vm.cut_power()?;
    rack.durable().mend();
    let vm = rack.boot()?;
    superdisk.refused(&vm, "", "E_SSD_AHEAD")
}

#[test]
fn a_local_disk_pulled_while_running_costs_speed_and_its_successor_is_filled() -> Result<()> {
    let (rack, superdisk, vm, files) = maintained("pulled", "")?;
    vm.unplug(&local(1))?;
    vm.run("by-id")?;
    let more = superdisk.write(&vm, "more", 4)?;
    superdisk.has(&vm, &files)?;
    vm.until(&answers("readyz"), 10 * SECOND)?;
    rack.local(1).replace()?;
    vm.plug(&local(1))?;
    let name = mirror(&vm)?;
    vm.until(
        &format!("[ $(cat /sys/block/{name}/md/degraded) = 0 ]"),
        150 * SECOND,
    )?;
    superdisk.is_whole(&vm, &[&files, &more])
}

#[test]
fn a_network_disk_that_has_grown_is_used_by_the_agent_while_it_serves() -> Result<()> {
    let mut rack = Rack::empty("grows")?;
    rack.add_local(192 * MIB)?;
    rack.add_local(192 * MIB)?;
    rack.add_network(DURABLE, 192 * MIB)?;
    let superdisk = Superdisk::default();
    let vm = rack.boot()?;
    superdisk.assemble(&vm)?;
    let files = superdisk.write(&vm, "small", 10)?;
    superdisk.in_sync(&vm)?;
    superdisk.tear_down(&vm)?;
    vm.power_off()?;
    rack.durable().grow(384 * MIB)?;

    let vm = rack.boot()?;
    superdisk.assemble(&vm)?;
    superdisk.in_sync(&vm)?;
    // Files are written while it grows.
    let _writes = vm.begin(
        "for n in $(seq 40); do dd if=/dev/urandom of=/mnt/data/during-$n bs=64k count=4 conv=fsync || exit 1; done 2>/dev/null; \
         touch /run/written",
        300 * SECOND,
    )?;
    superdisk.start_agent(&vm, "--grow")?;
    vm.until(
        "[ $(df -m /mnt/data | awk 'END {print $2}') -gt 300 ]",
        120 * SECOND,
    )?;
    vm.until("[ -e /run/written ]", 120 * SECOND)?;
    let during = superdisk.list(&vm, "during")?;
    let large = superdisk.write(&vm, "large", 100)?;
    superdisk.is_whole(&vm, &[&files, &during, &large])?;
    // It has come to its end: nothing is left to grow, and a power cut takes nothing of it back.
    vm.cut_power()?;
    let vm = rack.boot()?;
    superdisk.assemble(&vm)?;
    superdisk.is_whole(&vm, &[&files, &during, &large])
}

#[test]
fn a_filesystem_that_cannot_grow_is_served_as_it_is_and_its_fast_leg_filled() -> Result<()> {
    let mut rack = Rack::empty("cannot-grow")?;
    rack.add_local(192 * MIB)?;
    rack.add_local(192 * MIB)?;
    rack.add_network(DURABLE, 192 * MIB)?;
    let superdisk = Superdisk::default();
    let vm = rack.boot()?;
    superdisk.assemble(&vm)?;
    let files = superdisk.write(&vm, "file", 10)?;
    superdisk.in_sync(&vm)?;
    // With an error noted in it, ext4 is not made larger.
    let name = mirror(&vm)?;
    vm.run(&format!("echo 1 >/sys/fs/ext4/{name}/trigger_fs_error"))?;
    superdisk.tear_down(&vm)?;
    vm.power_off()?;
    rack.durable().grow(384 * MIB)?;
    let vm = rack.boot()?;
    for _ in 0..2 {
        let answer = superdisk.ask(&vm, "assemble", "--grow")?;
        ensure!(
            answer.status == 0 && answer.stderr.contains("serving at the size that it had"),
            "{answer}"
        );
        superdisk.in_sync(&vm)?;
    }
    let mib = vm.run("df -m /mnt/data | awk 'END {print $2}'")?;
    ensure!(mib.trim().parse::<u64>()? < 200, "it has grown: {mib}");
    // The same of the agent, which fills a new fast leg.
    superdisk.start_agent(&vm, "--grow")?;
    vm.unplug(&local(1))?;
    vm.run("by-id")?;
    superdisk.has(&vm, &files)?;
    rack.local(1).replace()?;
    vm.plug(&local(1))?;
    let name = mirror(&vm)?;
    vm.until(
        &format!("[ $(cat /sys/block/{name}/md/degraded) = 0 ]"),
        300 * SECOND,
    )?;
    superdisk.is_whole(&vm, &[&files])
}

#[test]
fn a_full_state_folder_keeps_no_agent_from_the_red_line_and_begins_no_snapshot() -> Result<()> {
    let mut rack = Rack::new("full-folder")?;
    let superdisk = Superdisk::default();
    let vm = rack.boot()?;
    vm.run("mkdir -p /run/superdisk; mount -t tmpfs -o size=64k none /run/superdisk")?;
    superdisk.assemble(&vm)?;
    let files = superdisk.write(&vm, "file", 4)?;
    superdisk.in_sync(&vm)?;
    let fill = "dd if=/dev/zero of=/run/superdisk/filler bs=4k 2>/dev/null; true";
    vm.run(fill)?;
    superdisk.start_agent(&vm, "")?;
    let state = "wget -qO - http://127.0.0.1:9950/state";
    vm.until(
        &format!("{state} | grep -q 'reap. cannot take this .*No space left'"),
        30 * SECOND,
    )?;
    vm.until(
        &format!("{state} | grep -q '\"generation\":[0-9]'"),
        60 * SECOND,
    )?;
    let begin = format!(
        "superdisk snapshot begin --id one --volume-uid {}",
        superdisk.volume
    );
    let answer = vm.ask(&begin)?;
    ensure!(
        answer.status == 1
            && answer.stderr.starts_with("E_SNAPSHOT_FAILED")
            && answer.stderr.contains("No space left"),
        "{answer}"
    );
    let more = superdisk.write(&vm, "more", 2)?;
    // With room in it, all is as it should be.
    vm.run("rm /run/superdisk/filler")?;
    vm.until("[ -e /run/superdisk/*.record.json ]", 60 * SECOND)?;
    vm.until(&format!("! {state} | grep -q 'No space left'"), 30 * SECOND)?;
    vm.run(&begin)?;
    vm.run("sleep 11")?;
    vm.run(&format!(
        "kill -9 $(cat /run/agent.pid); rm /run/superdisk/*.json; {fill}"
    ))?;
    superdisk.start_agent(&vm, "")?;
    rack.durable().fail(true);
    let _write = vm.begin(
        "while :; do dd if=/dev/urandom of=/mnt/data/noise bs=4k count=1 conv=fsync; done 2>/dev/null",
        120 * SECOND,
    )?;
    vm.until(
        &format!("{state} | grep -q '\"is\":\"durable-lost\".*\"frozen\":true'"),
        60 * SECOND,
    )?;
    superdisk.has_still(&vm, &files)?;
    superdisk.has_still(&vm, &more)?;
    vm.cut_power()
}

#[test]
fn a_killed_agent_leaves_a_super_disk_that_the_next_one_minds_or_reap_ends() -> Result<()> {
    let (_rack, superdisk, vm, files) = maintained("reap", "")?;
    vm.run("kill -9 $(cat /run/agent.pid); sleep 1")?;
    superdisk.has(&vm, &files)?;
    superdisk.start_agent(&vm, "")?;
    vm.run("kill -9 $(cat /run/agent.pid); sleep 1")?;
    // Its pod is still there: its agent may come back.
    let pods = "/var/lib/kubelet/pods";
    vm.run(&format!("mkdir -p {pods}/{POD}"))?;
    vm.run("superdisk reap --once")?;
    ensure!(
        !arrays(&vm)?.is_empty(),
        "reap took a super-disk from a pod that is there"
    );
    vm.run(&format!("rmdir {pods}/{POD}; superdisk reap --once"))?;
    ensure!(arrays(&vm)?.is_empty(), "reap left an array");
    superdisk.assemble(&vm)?;
    superdisk.is_whole(&vm, &[&files])
}

#[test]
fn reap_leaves_a_super_disk_whose_disks_answer_nothing() -> Result<()> {
    let (rack, superdisk, vm, files) = maintained("reap-eio", "")?;
    vm.run("kill -9 $(cat /run/agent.pid); sleep 1; umount /mnt/data")?;
    // Once the bitmap is clean, md writes nothing any more: it does not learn that its disks fail.
    vm.run("sync; sleep 13")?;
    vm.run("mkdir -p /var/lib/kubelet/pods")?;
    let running = arrays(&vm)?;
    ensure!(running.len() == 2, "{running:?}");
    let disks = [rack.durable(), rack.local(0), rack.local(1)];
    disks.iter().for_each(|disk| disk.fail(true));
    let reaped = vm.ask("superdisk reap --once --time 5s")?;
    ensure!(
        reaped.status == 1 && reaped.stdout.contains("failed to read whose component"),
        "{reaped}"
    );
    ensure!(arrays(&vm)? == running, "an array was stopped");
    vm.run("ls /run/superdisk/*.record.json")?;
    disks.iter().for_each(|disk| disk.mend());
    vm.run("superdisk reap --once")?;
    ensure!(arrays(&vm)?.is_empty(), "reap left an array");
    superdisk.assemble(&vm)?;
    superdisk.is_whole(&vm, &[&files])
}

#[test]
fn a_terminated_agent_takes_everything_down() -> Result<()> {
    let (mut rack, superdisk, vm, files) = maintained("terminated", "")?;
    vm.run("kill -TERM $(cat /run/agent.pid)")?;
    vm.until("! ls /sys/block | grep -q ^md", 60 * SECOND)?;
    vm.power_off()?;
    let vm = rack.boot()?;
    superdisk.assemble(&vm)?;
    superdisk.is_whole(&vm, &[&files])
}

#[test]
fn the_patrol_heals_what_nobody_reads() -> Result<()> {
    let (rack, superdisk, vm, files) = maintained("patrol", "--patrol-every 1s")?;
    let mut lost = 0;
    for slot in 0..2 {
        // Below the filesystem's first file somewhere: all that the patrol reads is mirrored.
        let disk = rack.local(slot);
        for page in (4096..4096 + 64).step_by(16) {
            disk.lose(page * PAGE..(page + 1) * PAGE);
            lost += 1;
        }
    }
    ensure!(lost == 8);
    for _ in 0..120 {
        if rack.local(0).bad_pages() + rack.local(1).bad_pages() == 0 {
            return superdisk.is_whole(&vm, &[&files]);
        }
        vm.run("sleep 1")?;
    }
    anyhow::bail!(
        "the patrol did not heal them: {}",
        vm.run("cat /run/agent.log")?
    )
}

#[test]
fn an_agent_that_cannot_read_the_headers_says_so_and_tries_again() -> Result<()> {
    let mut rack = Rack::new("no-beat")?;
    let superdisk = Superdisk::default();
    let vm = rack.boot()?;
    superdisk.assemble(&vm)?;
    let files = superdisk.write(&vm, "file", 4)?;
    superdisk.in_sync(&vm)?;
    rack.durable().break_for_good(superdisk.headers(&vm)?);
    superdisk.start_agent(&vm, "")?;
    let silent = "wget -qO - http://127.0.0.1:9950/state | grep -q no-beat";
    vm.until(silent, 300 * SECOND)?;
    superdisk.has(&vm, &files)?;
    rack.durable().mend();
    vm.until(&format!("! {silent}"), 60 * SECOND)?;
    superdisk.is_whole(&vm, &[&files])
}

#[test]
fn an_agent_writes_no_header_to_a_disk_that_came_in_place_of_its_own() -> Result<()> {
    let mut rack = Rack::new("other-disk")?;
    rack.add_network("other", 256 * MIB)?;
    let superdisk = Superdisk::default();
    let vm = rack.boot()?;
    superdisk.assemble(&vm)?;
    let files = superdisk.write(&vm, "file", 4)?;
    superdisk.in_sync(&vm)?;
    let snapshot = rack.durable().snapshot("clone")?;
    superdisk.start_agent(&vm, "")?;
    let said = "wget -qO - http://127.0.0.1:9950/state | grep -q 'the durable device has changed'";
    let beats = "last=$(wget -qO - http://127.0.0.1:9950/metrics | awk '/^superdisk_last_beat/ {print $2}'); \
                 [ $(($(date +%s) - last)) -lt 10 ]";
    let written = || rack.disk("other").bytes_written();
    let before = written();
    let exchange = "ln -sfn $(readlink /dev/disk/by-id/google-other) /dev/disk/by-id/google-data";
    vm.run(exchange)?;
    vm.until(said, 60 * SECOND)?;
    vm.run("sleep 15")?;
    ensure!(written() == before, "a header went to the other disk");
    superdisk.has(&vm, &files)?;
    vm.run("by-id")?;
    vm.until(&format!("{beats} && ! {said}"), 60 * SECOND)?;
    // A clone has headers of its own: the agent that starts beside it reads them.
    vm.run("kill -9 $(cat /run/agent.pid); sleep 1")?;
    rack.disk("other").restore(&snapshot)?;
    vm.run(exchange)?;
    superdisk.start_agent(&vm, "")?;
    vm.until(said, 60 * SECOND)?;
    vm.run("sleep 15")?;
    ensure!(written() == before, "a header went to the clone");
    vm.run("by-id")?;
    vm.until(&format!("{beats} && ! {said}"), 60 * SECOND)?;
    superdisk.is_whole(&vm, &[&files])
}

#[test]
fn an_agent_that_starts_beside_unreadable_headers_writes_them_anew() -> Result<()> {
    let mut rack = Rack::new("anew")?;
    let superdisk = Superdisk::default();
    let vm = rack.boot()?;
    superdisk.assemble(&vm)?;
    let files = superdisk.write(&vm, "file", 4)?;
    superdisk.in_sync(&vm)?;
    rack.durable().lose(superdisk.headers(&vm)?);
    superdisk.start_agent(&vm, "")?;
    // Each beat writes one of both.
    for _ in 0..120 {
        if rack.durable().bad_pages() == 0 {
            break;
        }
        vm.run("sleep 1")?;
    }
    let log = vm.run("cat /run/agent.log")?;
    ensure!(rack.durable().bad_pages() == 0, "{log}");
    vm.cut_power()?;
    let vm = rack.boot()?;
    let printed = superdisk.assemble(&vm)?;
    ensure!(printed.contains("--re-add"), "{printed}");
    superdisk.is_whole(&vm, &[&files])
}

#[test]
fn unreadable_headers_that_no_fast_leg_has_a_copy_of_are_left_to_a_person() -> Result<()> {
    let mut rack = Rack::new("anew-alone")?;
    let superdisk = Superdisk::default();
    let alone = "--fast-leg optional";
    let vm = rack.boot()?;
    superdisk.assemble(&vm)?;
    superdisk.tear_down(&vm)?;
    vm.unplug(&local(1))?;
    vm.run("by-id")?;
    superdisk.ask(&vm, "assemble", alone)?.success()?;
    let files = superdisk.write(&vm, "file", 4)?;
    rack.durable().lose(superdisk.headers(&vm)?);
    superdisk.start_agent(&vm, alone)?;
    let said = "wget -qO - http://127.0.0.1:9950/state | grep -q 'the header could not be read'";
    vm.until(said, 60 * SECOND)?;
    vm.run("kill -TERM $(cat /run/agent.pid)")?;
    vm.until("! ls /sys/block | grep -q ^md", 60 * SECOND)?;
    // The commands of the page about it.
    superdisk.refused(&vm, alone, "E_PD_HEADER_LOST")?;
    let keep = format!("--keep durable {alone}");
    superdisk.ask(&vm, "resolve", &keep)?.success()?;
    superdisk.ask(&vm, "assemble", alone)?.success()?;
    superdisk.has(&vm, &files)?;
    vm.plug(&local(1))?;
    vm.run("by-id")?;
    superdisk.assemble(&vm)?;
    superdisk.is_whole(&vm, &[&files])
}
