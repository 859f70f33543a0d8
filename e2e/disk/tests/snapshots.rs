//! Snapshots of a running super-disk: held, ended, given up; put back in place; and copies beside their source.

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use e2e_disk::{
    Answer, MIB, Rack, Snapshot, Vm,
    superdisk::{Files, Superdisk, mirror, mismatch},
};

const SECOND: Duration = Duration::from_secs(1);
/// The agent thaws after 10 s; a machine without acceleration takes some more.
const HELD_AT_MOST: Duration = Duration::from_secs(60);

/// A super-disk in sync, files on it, and the agent beside it.
fn maintained(rack: &mut Rack) -> Result<(Superdisk, Vm, Files)> {
    let superdisk = Superdisk::default();
    let vm = rack.boot()?;
    superdisk.assemble(&vm)?;
    let files = superdisk.write(&vm, "before", 6)?;
    superdisk.in_sync(&vm)?;
    start_agent(&superdisk, &vm)?;
    Ok((superdisk, vm, files))
}

fn start_agent(superdisk: &Superdisk, vm: &Vm) -> Result<()> {
    superdisk.start_agent(vm, "")?;
    // Its first plan, which writes headers, is done when there is a header to count on.
    vm.until(
        "wget -qO - http://127.0.0.1:9950/state | grep -q '\"generation\":[0-9]'",
        60 * SECOND,
    )
}

fn snapshot(superdisk: &Superdisk, vm: &Vm, what: &str) -> Result<Answer> {
    vm.ask(&format!(
        "superdisk snapshot {what} --volume-uid {} --output json",
        superdisk.volume
    ))
}

/// Begins a snapshot; its generation.
fn begin(superdisk: &Superdisk, vm: &Vm, id: &str) -> Result<u64> {
    let said = snapshot(superdisk, vm, &format!("begin --id {id}"))?.success()?;
    let said: serde_json::Value = serde_json::from_str(said.trim())?;
    said["generation"]
        .as_u64()
        .with_context(|| format!("no generation in {said}"))
}

/// Snapshots that are begun until one is in time: a machine that does other things may need ten seconds from a begin to its end.
const ATTEMPTS: usize = 8;

/// A snapshot that is proven, its generation, and its network disk as it was meanwhile. As the refusal of one that took too long
/// says, another is begun with another ID. `is_held`: what is seen meanwhile, which must be true of one that is proven.
fn proven(
    rack: &Rack,
    superdisk: &Superdisk,
    vm: &Vm,
    is_held: impl Fn(&str, u64) -> Result<bool>,
) -> Result<(String, u64, Snapshot)> {
    for number in 1..=ATTEMPTS {
        let id = format!("nightly-{number}");
        let generation = begin(superdisk, vm, &id)?;
        let held = is_held(&id, generation)?;
        let taken = rack.durable().snapshot(&id)?;
        let ended = snapshot(superdisk, vm, &format!("end --id {id}"))?;
        if ended.status == 0 {
            ensure!(held, "{id} was not held, and counts as proven");
            return Ok((id, generation, taken));
        }
        is_not_proven(&ended, "time-over")?;
    }
    bail!("of {ATTEMPTS} snapshots each took more than 10 s")
}

/// What ends a snapshot before its time is over must be told by this word.
fn ends_early(
    superdisk: &Superdisk,
    vm: &Vm,
    name: &str,
    word: &str,
    disturb: impl Fn() -> Result<()>,
) -> Result<()> {
    for number in 1..=ATTEMPTS {
        let id = format!("{name}-{number}");
        begin(superdisk, vm, &id)?;
        disturb()?;
        let ended = snapshot(superdisk, vm, &format!("end --id {id}"))?;
        vm.until(takes_writes(), HELD_AT_MOST)?;
        if is_not_proven(&ended, "time-over").is_err() {
            return is_not_proven(&ended, word);
        }
    }
    bail!("the time of {ATTEMPTS} snapshots was over before anything else ended them")
}

/// Seconds since the machine started.
fn uptime(vm: &Vm) -> Result<f64> {
    Ok(vm.run("cut -d' ' -f1 /proc/uptime")?.trim().parse()?)
}

/// A shell condition: a write comes to its end. In the background, for a process that writes to a frozen filesystem
/// cannot be killed.
fn takes_writes() -> &'static str {
    "f=/mnt/data/probe.$(date +%s); (touch $f >/dev/null 2>&1 </dev/null &); sleep 2; [ -e $f ]"
}

/// Whether an end was refused its proof, with this word.
fn is_not_proven(answer: &Answer, word: &str) -> Result<()> {
    ensure!(
        answer.status == 1
            && answer.stderr.starts_with("E_SNAPSHOT_NOT_PROVEN ")
            && answer.stdout.contains(word),
        "{answer}"
    );
    Ok(())
}

#[test]
fn a_network_disk_that_is_put_back_to_a_snapshot_is_believed_without_a_single_beat() -> Result<()> {
    let mut rack = Rack::new("snapshot-held")?;
    let (superdisk, vm, files) = maintained(&mut rack)?;
    let (id, _, taken) = proven(&rack, &superdisk, &vm, |id, generation| {
        let again = begin(&superdisk, &vm, id);
        Ok(again.is_ok_and(|again| again == generation) && vm.ask(takes_writes())?.status != 0)
    })?;
    snapshot(&superdisk, &vm, &format!("end --id {id}"))?.success()?;
    // At once: by the next beat it could be told from that.
    superdisk.write(&vm, "after", 1)?;
    vm.cut_power()?;
    rack.durable().restore(&taken)?;

    let vm = rack.boot()?;
    let printed = superdisk.assemble(&vm)?;
    ensure!(
        printed.contains("--add --readwrite") && !printed.contains("--re-add"),
        "not everything is copied: {printed}"
    );
    ensure!(
        vm.ask("ls /mnt/data/after-1")?.status != 0,
        "legs of two times are mixed"
    );
    superdisk.is_whole(&vm, &[&files])
}

#[test]
fn a_snapshot_whose_end_does_not_come_is_thawed_and_not_proven() -> Result<()> {
    let mut rack = Rack::new("snapshot-late")?;
    let (superdisk, vm, files) = maintained(&mut rack)?;
    begin(&superdisk, &vm, "late")?;
    vm.until(takes_writes(), HELD_AT_MOST)?;
    is_not_proven(&snapshot(&superdisk, &vm, "end --id late")?, "time-over")?;
    // Another program thaws it before the snapshot's time is over.
    ends_early(&superdisk, &vm, "touched", "thawed", || {
        // The agent may have been faster.
        vm.ask("/sbin/fsfreeze -u /mnt/data").map(drop)
    })?;
    // By the end of its agent, which the next one makes up for.
    ends_early(&superdisk, &vm, "killed", "agent-ended", || {
        vm.run("kill -9 $(cat /run/agent.pid); sleep 1")?;
        start_agent(&superdisk, &vm)?;
        vm.until(takes_writes(), HELD_AT_MOST)
    })?;
    superdisk.is_whole(&vm, &[&files])
}

#[test]
fn the_red_line_holds_what_a_snapshot_has_frozen() -> Result<()> {
    let mut rack = Rack::new("snapshot-red-line")?;
    let (superdisk, vm, files) = maintained(&mut rack)?;
    let mirror = mirror(&vm)?;
    let began = uptime(&vm)?;
    begin(&superdisk, &vm, "unlucky")?;
    rack.durable().fail(true);
    // md notices by a write, and the filesystem makes none: its last page is written as it is.
    vm.run(&format!(
        "last=$(($(cat /sys/block/{mirror}/size) / 8 - 1)); dd if=/dev/{mirror} of=/dev/{mirror} bs=4k count=1 skip=$last \
         seek=$last oflag=direct conv=notrunc 2>/dev/null"
    ))?;
    vm.until(
        "! wget -qO /dev/null http://127.0.0.1:9950/readyz 2>/dev/null",
        30 * SECOND,
    )?;
    // On a machine that does other things, the agent may have thawed before.
    let in_time = uptime(&vm)? - began < 10.0;
    vm.run("sleep 12")?;
    ensure!(
        vm.ask(takes_writes())?.status != 0,
        "it takes writes on the fast leg alone"
    );
    let ended = snapshot(&superdisk, &vm, "end --id unlucky")?;
    if in_time || is_not_proven(&ended, "time-over").is_err() {
        is_not_proven(&ended, "durable-lost")?;
    }
    ensure!(
        vm.ask(takes_writes())?.status != 0,
        "the end of a snapshot has thawed the red line"
    );
    let refused = snapshot(&superdisk, &vm, "begin --id more")?;
    ensure!(
        refused.status == 3 && refused.stderr.starts_with("E_SNAPSHOT_DURABLE_LOST "),
        "{refused}"
    );
    superdisk.has_still(&vm, &files)
}

/// `superdisk COMMAND` for the copy, which is mounted beside its source.
fn copy(vm: &Vm, command: &str, more: &str) -> Result<Answer> {
    vm.ask(&format!(
        "mkdir -p /mnt/copy; superdisk {command} --durable /dev/disk/by-id/google-copy --local \
         '/dev/disk/by-id/google-local-nvme-ssd-*' --local-count 1 --volume-uid a-copy-of-it --mount /mnt/copy --fs \
         ext4 {more}"
    ))
}

#[test]
fn a_copy_is_taken_over_beside_its_running_source_with_consent_to_its_generation_alone()
-> Result<()> {
    let mut rack = Rack::new("snapshot-copy")?;
    let size = rack.durable().size();
    let (superdisk, vm, files) = maintained(&mut rack)?;
    let (id, generation, taken) = proven(&rack, &superdisk, &vm, |_, _| Ok(true))?;
    let more = superdisk.write(&vm, "after", 2)?;
    vm.run("kill -TERM $(cat /run/agent.pid)")?;
    vm.until("! ls /sys/block | grep -q ^md", 60 * SECOND)?;
    vm.power_off()?;
    rack.add_network("copy", size)?.restore(&taken)?;
    // Larger than both of the source's together.
    rack.add_local(320 * MIB)?;

    let vm = rack.boot()?;
    superdisk.assemble(&vm)?;
    superdisk.in_sync(&vm)?;
    let consent = |generation: u64| format!("--copy-of {}@{generation}", superdisk.volume);
    for (more, words) in [
        (String::new(), &*format!("snapshot {id}")),
        (consent(generation + 1), "the consent is for"),
    ] {
        let refused = copy(&vm, "assemble", &more)?;
        ensure!(
            refused.status == 3
                && refused.stderr.starts_with("E_PD_NOT_OURS ")
                && refused.stderr.contains(words),
            "{refused}"
        );
    }
    // Killed after each of its first steps, and begun again.
    for step in 1..6 {
        let killed = format!("{} --stop-after {step}", consent(generation));
        copy(&vm, "assemble", &killed)?;
    }
    copy(&vm, "assemble", &consent(generation))?.success()?;
    // The consent is used up, and stays harmless.
    copy(&vm, "assemble", &consent(generation))?.success()?;
    ensure!(vm.ask("ls /mnt/copy/after-1")?.status != 0);
    vm.run(
        "cd /mnt/copy && for n in $(seq 6); do cmp before-$n /mnt/data/before-$n || exit 1; done",
    )?;
    superdisk.has(&vm, &files)?;
    superdisk.has(&vm, &more)?;
    for mount in ["/mnt/data", "/mnt/copy"] {
        let mirror = vm.run(&format!(
            "grep ' {mount} ' /proc/mounts | cut -d' ' -f1 | cut -d/ -f3"
        ))?;
        let mirror = mirror.trim();
        vm.until(
            &format!("[ $(cat /sys/block/{mirror}/md/degraded) = 0 ]"),
            600 * SECOND,
        )?;
        let found = mismatch(&vm, mirror)?;
        ensure!(
            found == 0,
            "{mount}: md's check finds {found} sectors different"
        );
    }
    Ok(())
}

#[test]
fn a_leg_that_went_on_alone_is_given_up_when_the_operator_says_that_the_disk_was_put_back()
-> Result<()> {
    let mut rack = Rack::new("snapshot-restored")?;
    let (superdisk, vm, files) = maintained(&mut rack)?;
    let (_, generation, taken) = proven(&rack, &superdisk, &vm, |_, _| Ok(true))?;
    vm.run("kill -9 $(cat /run/agent.pid); sleep 1")?;
    rack.durable().fail(true);
    superdisk.write(&vm, "alone", 2)?;
    vm.run("sync; sleep 1")?;
    vm.cut_power()?;
    rack.durable().mend();
    rack.durable().restore(&taken)?;

    let vm = rack.boot()?;
    superdisk.refused(&vm, "", "E_SSD_AHEAD")?;
    superdisk.refused(
        &vm,
        &format!("--restored {}", generation - 1),
        "E_SSD_AHEAD",
    )?;
    let restored = format!("--restored {generation}");
    superdisk.ask(&vm, "assemble", &restored)?.success()?;
    ensure!(vm.ask("ls /mnt/data/alone-1")?.status != 0);
    superdisk.is_whole(&vm, &[&files])?;
    // Once: what the next generation writes is not forgotten again.
    superdisk.tear_down(&vm)?;
    let printed = superdisk.ask(&vm, "assemble", &restored)?.success()?;
    ensure!(printed.contains("--re-add"), "{printed}");
    superdisk.is_whole(&vm, &[&files])
}

#[test]
fn a_leg_that_went_on_alone_is_kept_whole_over_a_disk_that_was_put_back() -> Result<()> {
    let mut rack = Rack::new("snapshot-overruled")?;
    let (superdisk, vm, files) = maintained(&mut rack)?;
    let mirror = mirror(&vm)?;
    // Chunks that are not all dirty anyway.
    vm.run(&format!(
        "mdadm --grow /dev/{mirror} --bitmap=none && mdadm --grow /dev/{mirror} --bitmap=internal --bitmap-chunk=64K"
    ))?;
    let (_, _, taken) = proven(&rack, &superdisk, &vm, |_, _| Ok(true))?;
    // Both legs have these, and no bit tells of them any more.
    let both = superdisk.write(&vm, "both", 4)?;
    vm.run("sleep 13")?;
    vm.run("kill -9 $(cat /run/agent.pid); sleep 1")?;
    rack.durable().fail(true);
    let alone = superdisk.write(&vm, "alone", 2)?;
    vm.run("sync; sleep 1")?;
    vm.cut_power()?;
    rack.durable().mend();
    rack.durable().restore(&taken)?;

    let vm = rack.boot()?;
    superdisk.refused(&vm, "", "E_SSD_AHEAD")?;
    superdisk.ask(&vm, "resolve", "--keep fast")?.success()?;
    superdisk.assemble(&vm)?;
    superdisk.is_whole(&vm, &[&files, &both, &alone])
}
