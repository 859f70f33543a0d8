//! A lineage header has two slots on each leg. One of them loses what it had, or breaks: `assemble` uses the other one and
//! asks no question, and the agent says so and writes the lost one again where it can.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e_disk::{
    PAGE, Rack, Vm,
    superdisk::{Files, Place, Superdisk, answers},
};

const SECOND: Duration = Duration::from_secs(1);

/// A super-disk in sync, files on it, and the agent beside it.
fn maintained(name: &str) -> Result<(Rack, Superdisk, Vm, Files)> {
    let mut rack = Rack::new(name)?;
    let superdisk = Superdisk::default();
    let vm = rack.boot()?;
    superdisk.assemble(&vm)?;
    let files = superdisk.write(&vm, "file", 4)?;
    superdisk.in_sync(&vm)?;
    superdisk.start_agent(&vm, "")?;
    Ok((rack, superdisk, vm, files))
}

fn durable_slots(superdisk: &Superdisk, vm: &Vm) -> Result<[Place; 2]> {
    let both = superdisk.headers(vm)?;
    let slot = |at| (superdisk.durable.clone(), at..at + PAGE);
    Ok([slot(both.start), slot(both.start + PAGE)])
}

/// The power is cut, and the pod starts again: nothing is asked, and the files are there.
fn start_again(rack: &mut Rack, superdisk: &Superdisk, vm: Vm, files: &Files) -> Result<Vm> {
    vm.cut_power()?;
    let vm = rack.boot()?;
    superdisk.assemble(&vm)?;
    superdisk.start_agent(&vm, "")?;
    superdisk.has(&vm, files)?;
    Ok(vm)
}

/// Each heartbeat writes one of both.
fn is_written_anew(rack: &Rack, vm: &Vm, (disk, _): &Place) -> Result<()> {
    for _ in 0..120 {
        if rack.disk(disk).bad_pages() == 0 {
            return Ok(());
        }
        vm.run("sleep 1")?;
    }
    anyhow::bail!(
        "{disk} keeps its bad sector: {}",
        vm.run("cat /run/agent.log")?
    )
}

/// A shell condition: the agent's metrics say whether a slot of that leg is broken.
fn says(leg: &str, broken: bool) -> String {
    let line = format!(
        "superdisk_header_slot_broken{{leg=\"{leg}\"}} {}",
        u8::from(broken)
    );
    format!("wget -qO - http://127.0.0.1:9950/metrics | grep -qxF '{line}'")
}

/// Sectors that have lost their content: one while the agent runs, then each of both while nothing does.
fn lose(
    rack: &mut Rack,
    superdisk: &Superdisk,
    vm: Vm,
    files: &Files,
    slots: &[Place],
) -> Result<Vm> {
    let lose = |rack: &Rack, (disk, bytes): &Place| rack.disk(disk).lose(bytes.clone());
    lose(rack, &slots[0]);
    is_written_anew(rack, &vm, &slots[0])?;
    let mut vm = vm;
    for slot in slots {
        // Until both slots have headers of this start.
        vm.run("sleep 21")?;
        lose(rack, slot);
        vm = start_again(rack, superdisk, vm, files)?;
        is_written_anew(rack, &vm, slot)?;
        superdisk.in_sync(&vm)?;
    }
    Ok(vm)
}

fn kick_fast_leg(superdisk: &Superdisk, vm: &Vm) -> Result<()> {
    let mirror = superdisk.mirror(vm)?;
    vm.run(&format!(
        "leg=$(ls -d /sys/block/{mirror}/md/dev-md*); leg=${{leg##*dev-}}; mdadm /dev/{mirror} --fail /dev/$leg"
    ))?;
    vm.until(
        &format!("[ $(cat /sys/block/{mirror}/md/degraded) = 1 ]"),
        10 * SECOND,
    )
}

/// Sectors that can be neither read nor written, each in turn.
fn break_for_good(
    rack: &mut Rack,
    superdisk: &Superdisk,
    vm: Vm,
    files: &Files,
    (leg, slots): (&str, &[Place]),
) -> Result<Vm> {
    let mut vm = vm;
    for (disk, bytes) in slots {
        rack.disk(disk).break_for_good(bytes.clone());
        vm.until(&says(leg, true), 60 * SECOND)?;
        vm.until(&answers("readyz"), 10 * SECOND)?;
        let drawn = superdisk.ask(&vm, "status", "")?.success()?;
        ensure!(
            drawn.contains("HEALTHY") && drawn.contains("cannot be written"),
            "{drawn}"
        );
        if leg == "fast" {
            // A full copy begins with a fast leg that says nothing: the slot that cannot be erased does not either.
            kick_fast_leg(superdisk, &vm)?;
            superdisk.in_sync(&vm)?;
        }
        vm = start_again(rack, superdisk, vm, files)?;
        superdisk.in_sync(&vm)?;
        vm.until(&says(leg, true), 60 * SECOND)?;
        let state = vm.run("wget -qO - http://127.0.0.1:9950/state")?;
        ensure!(
            state.contains(r#""refusal":null"#) && state.contains(r#""last_error":null"#),
            "{state}"
        );
        rack.disk(disk).mend();
        vm.until(&says(leg, false), 60 * SECOND)?;
    }
    Ok(vm)
}

#[test]
fn a_header_that_one_place_of_the_network_disk_has_lost_is_written_anew() -> Result<()> {
    let (mut rack, superdisk, vm, files) = maintained("slot-lost")?;
    let slots = durable_slots(&superdisk, &vm)?;
    let vm = lose(&mut rack, &superdisk, vm, &files, &slots)?;
    superdisk.is_whole(&vm, &[&files])
}

#[test]
fn a_slot_of_the_network_disk_that_takes_no_header_is_said_and_does_without() -> Result<()> {
    let (mut rack, superdisk, vm, files) = maintained("slot-broken")?;
    let slots = durable_slots(&superdisk, &vm)?;
    let vm = break_for_good(&mut rack, &superdisk, vm, &files, ("durable", &slots))?;
    superdisk.is_whole(&vm, &[&files])
}

#[test]
fn a_header_that_one_place_of_the_local_disks_has_lost_is_written_anew() -> Result<()> {
    let (mut rack, superdisk, vm, files) = maintained("slot-local-lost")?;
    let slots = superdisk.fast_leg(&vm)?.headers();
    let vm = lose(&mut rack, &superdisk, vm, &files, &slots)?;
    superdisk.is_whole(&vm, &[&files])
}

#[test]
fn a_slot_of_the_local_disks_that_takes_no_header_is_said_and_does_without() -> Result<()> {
    let (mut rack, superdisk, vm, files) = maintained("slot-local-broken")?;
    let slots = superdisk.fast_leg(&vm)?.headers();
    let vm = break_for_good(&mut rack, &superdisk, vm, &files, ("fast", &slots))?;
    superdisk.is_whole(&vm, &[&files])
}
