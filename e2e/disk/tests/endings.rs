//! Everything ends, or says why it goes on: a disk that does not answer, a copy that cannot be made, a decision that would
//! stop half way.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e_disk::{
    MIB, PAGE, Rack,
    superdisk::{POD, REBUILD, Superdisk, answers, arrays, mirror},
};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_copy_that_the_network_disk_stops_is_said_and_serves_on() -> Result<()> {
    let mut rack = Rack::new("ends-copy")?;
    let superdisk = Superdisk::default();
    let vm = rack.boot()?;
    superdisk.assemble(&vm)?;
    let files = superdisk.write(&vm, "file", 4)?;
    superdisk.in_sync(&vm)?;
    superdisk.tear_down(&vm)?;
    vm.power_off()?;
    rack.migrate_host()?;
    // Free space to the filesystem; a copy reads it all the same.
    rack.durable().break_for_good(200 * MIB..200 * MIB + PAGE);
    let vm = rack.boot()?;
    superdisk.assemble(&vm)?;
    superdisk.start_agent(&vm, "")?;
    let state = "wget -qO - http://127.0.0.1:9950/state";
    vm.until(
        &format!("{state} | grep -q durable-unreadable"),
        150 * SECOND,
    )?;
    let metrics = vm.run("wget -qO - http://127.0.0.1:9950/metrics")?;
    ensure!(
        metrics.contains("superdisk_waiting_on{on=\"durable-unreadable\"} 1"),
        "{metrics}"
    );
    superdisk.has(&vm, &files)?;
    // The disk is repaired, and the copy starts from the beginning.
    vm.run("kill -9 $(cat /run/agent.pid)")?;
    rack.durable().mend();
    let mirror = mirror(&vm)?;
    vm.run(&format!(
        "stripe=$(ls -d /sys/block/{mirror}/md/dev-md*); stripe=${{stripe##*dev-}}; \
         mdadm /dev/{mirror} --fail /dev/$stripe && sleep 1 && mdadm /dev/{mirror} --remove /dev/$stripe"
    ))?;
    superdisk.assemble(&vm)?;
    superdisk.is_whole(&vm, &[&files])
}

#[test]
fn a_local_disk_that_does_not_answer_keeps_nobody_from_the_network_disk() -> Result<()> {
    let mut rack = Rack::new("ends-hang")?;
    let superdisk = Superdisk::default();
    let vm = rack.boot()?;
    superdisk.assemble(&vm)?;
    let files = superdisk.write(&vm, "file", 4)?;
    superdisk.in_sync(&vm)?;
    superdisk.tear_down(&vm)?;
    // The kernel would reset the disk, and with that the emulator stands still until it answers.
    vm.run("for n in 0 1; do echo 600000 >/sys/block/nvme${n}n1/queue/io_timeout; done")?;
    rack.local(0).hang(true);
    vm.run(&format!(
        "superdisk assemble {} >/run/assemble.log 2>&1 &",
        superdisk.flags()
    ))?;
    vm.until("grep -q ' /mnt/data ' /proc/mounts", 100 * SECOND)?;
    superdisk.has(&vm, &files)?;
    vm.until("grep -q 'does not answer' /run/assemble.log", 60 * SECOND)?;
    rack.local(0).hang(false);
    vm.until("! pidof superdisk >/dev/null", 60 * SECOND)?;
    superdisk.assemble(&vm)?;
    superdisk.is_whole(&vm, &[&files])
}

#[test]
fn keeping_the_fast_leg_is_tried_on_it_before_the_network_disk_is_touched() -> Result<()> {
    let mut rack = Rack::new("ends-resolve")?;
    let superdisk = Superdisk::default();
    let vm = rack.boot()?;
    superdisk.assemble(&vm)?;
    let files = superdisk.write(&vm, "before", 2)?;
    superdisk.in_sync(&vm)?;
    vm.run("sleep 1")?;
    rack.durable().fail(true);
    superdisk.write(&vm, "after", 4)?;
    superdisk.goes_on_alone(&vm)?;
    vm.power_off()?;
    rack.durable().mend();
    let vm = rack.boot()?;
    superdisk.refused(&vm, "", "E_SSD_AHEAD")?;
    // Some of it lies in what was written alone.
    for at in (8..120).step_by(8) {
        rack.local(1).lose(at * MIB..at * MIB + PAGE);
    }
    let before = rack.durable().bytes_written();
    let answer = superdisk.ask(&vm, "resolve", "--keep fast")?;
    ensure!(
        answer.status == 1 && answer.stderr.contains("cannot be read"),
        "{answer}"
    );
    ensure!(
        rack.durable().bytes_written() == before,
        "the network disk was written to"
    );
    // Nothing has changed: the other answer still stands.
    superdisk.ask(&vm, "resolve", "--keep durable")?.success()?;
    superdisk.assemble(&vm)?;
    superdisk.is_whole(&vm, &[&files])
}

#[test]
fn who_looks_at_a_network_disk_that_does_not_answer_gets_an_answer() -> Result<()> {
    let mut rack = Rack::new("ends-silent")?;
    let superdisk = Superdisk::default();
    let vm = rack.boot()?;
    superdisk.assemble(&vm)?;
    let files = superdisk.write(&vm, "file", 4)?;
    superdisk.in_sync(&vm)?;
    superdisk.start_agent(&vm, "")?;
    rack.durable().hang(true);
    let write = vm.begin(
        "dd if=/dev/zero of=/mnt/data/slow bs=4k count=1 conv=fsync",
        REBUILD,
    )?;
    // Longer than a look of the agent may take: a heartbeat hangs, and nothing else.
    vm.run("sleep 75")?;
    for path in ["livez", "metrics", "state"] {
        vm.until(&answers(path), 20 * SECOND)?;
    }
    superdisk.ask(&vm, "status", "")?.success()?;
    superdisk.has(&vm, &files)?;
    rack.durable().hang(false);
    write.wait()?.success()?;
    vm.run("kill -TERM $(cat /run/agent.pid)")?;
    vm.until("! ls /sys/block | grep -q ^md", 120 * SECOND)?;

    rack.durable().hang(true);
    vm.run(&format!(
        "superdisk assemble {} >/run/assemble.log 2>&1 &",
        superdisk.flags()
    ))?;
    vm.until(
        "grep -q '^E_PD_LOST .*does not answer' /run/assemble.log",
        180 * SECOND,
    )?;
    // Its read cannot be ended before that.
    rack.durable().hang(false);
    vm.until("! pidof superdisk >/dev/null", 60 * SECOND)?;
    superdisk.assemble(&vm)?;
    superdisk.is_whole(&vm, &[&files])
}

/// The folder that the kubelet has as long as there is the pod.
fn pod_folder() -> String {
    format!("/var/lib/kubelet/pods/{POD}")
}

#[test]
fn reap_ends_what_assemble_has_left_of_a_pod_that_is_gone_before_its_agent_ran() -> Result<()> {
    let mut rack = Rack::new("ends-early")?;
    let superdisk = Superdisk::default();
    let vm = rack.boot()?;
    let folder = pod_folder();
    let of_pod = format!("--pod {POD}");
    // A first boot, one step further a time, each of which is ended.
    for step in 1.. {
        vm.run(&format!("mkdir -p {folder}"))?;
        let more = format!("{of_pod} --stop-after {step}");
        let done = superdisk.ask(&vm, "assemble", &more)?;
        let running = arrays(&vm)?;
        vm.run("superdisk reap --once")?;
        ensure!(arrays(&vm)? == running, "reap ended it beside its pod");
        vm.run(&format!("rmdir {folder}; superdisk reap --once"))?;
        ensure!(arrays(&vm)?.is_empty(), "reap left an array");
        if done.status == 0 {
            ensure!(step > 3, "a first boot of {step} steps?");
            break;
        }
        ensure!(done.status == 137 && step < 40, "{done}");
    }
    superdisk.ask(&vm, "assemble", &of_pod)?.success()?;
    let files = superdisk.write(&vm, "file", 4)?;
    vm.run("superdisk reap --once")?;
    ensure!(arrays(&vm)?.is_empty(), "reap left an array");
    superdisk.assemble(&vm)?;
    superdisk.is_whole(&vm, &[&files])?;
    // Nobody has said which pod it is for now.
    vm.run("superdisk reap --once")?;
    superdisk.has(&vm, &files)
}

#[test]
fn an_agent_that_ends_thaws_what_somebody_else_has_frozen() -> Result<()> {
    let mut rack = Rack::new("ends-frozen")?;
    let superdisk = Superdisk::default();
    let vm = rack.boot()?;
    superdisk.assemble(&vm)?;
    let files = superdisk.write(&vm, "file", 4)?;
    superdisk.in_sync(&vm)?;
    superdisk.start_agent(&vm, "")?;
    vm.run("/sbin/fsfreeze -f /mnt/data; kill -TERM $(cat /run/agent.pid)")?;
    vm.until("! ls /sys/block | grep -q ^md", 60 * SECOND)?;
    // And so does the command of the same name, without an agent.
    superdisk.assemble(&vm)?;
    vm.run("/sbin/fsfreeze -f /mnt/data")?;
    superdisk.tear_down(&vm)?;
    superdisk.assemble(&vm)?;
    superdisk.is_whole(&vm, &[&files])
}

#[test]
fn a_network_disk_that_is_given_back_by_hand_counts_as_lost_until_the_pod_ends() -> Result<()> {
    let mut rack = Rack::new("ends-returned")?;
    let superdisk = Superdisk::default();
    let vm = rack.boot()?;
    superdisk.assemble(&vm)?;
    let files = superdisk.write(&vm, "file", 4)?;
    superdisk.in_sync(&vm)?;
    superdisk.start_agent(&vm, "")?;
    rack.durable().fail(true);
    vm.run(
        "(while :; do dd if=/dev/urandom of=/mnt/data/noise bs=4k count=1 conv=fsync; done) >/dev/null 2>&1 & \
         echo $! >/run/writer.pid",
    )?;
    let state = "wget -qO - http://127.0.0.1:9950/state";
    vm.until(
        &format!("{state} | grep -q '\"is\":\"durable-lost\".*\"frozen\":true'"),
        60 * SECOND,
    )?;
    rack.durable().mend();
    let name = mirror(&vm)?;
    // md lets go of it once its last requests have come back.
    vm.until(&format!("mdadm /dev/{name} --remove /dev/vda"), 30 * SECOND)?;
    vm.run(&format!(
        "mdadm /dev/{name} --re-add --write-mostly /dev/vda"
    ))?;
    superdisk.in_sync(&vm)?;
    vm.until(
        &format!(
            "{state} | grep -q '\"is\":\"durable-lost\",\"why\":\"returned\",\"frozen\":true'"
        ),
        30 * SECOND,
    )?;
    vm.run("wget -qO - http://127.0.0.1:9950/metrics | grep -qx 'superdisk_frozen 1'")?;
    ensure!(vm.ask(&answers("readyz"))?.status != 0, "it is ready");
    let drawn = superdisk.ask(&vm, "status", "")?.success()?;
    ensure!(
        drawn.contains("Writes stay stopped until this pod ends"),
        "{drawn}"
    );
    vm.run("kill -9 $(cat /run/writer.pid); kill -TERM $(cat /run/agent.pid)")?;
    vm.until("! ls /sys/block | grep -q ^md", 60 * SECOND)?;
    superdisk.assemble(&vm)?;
    superdisk.is_whole(&vm, &[&files])
}
