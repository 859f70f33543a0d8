//! The power goes after every single step of `assemble`; and `assemble` is killed there and run again.

use anyhow::{Result, ensure};
use e2e_disk::{DURABLE, MIB, Rack, superdisk::Superdisk};

/// Above the number of steps that any assembly takes.
const MANY: usize = 40;
/// Status of a run that `--stop-after` ended, as if by SIGKILL.
const KILLED: i32 = 137;

#[test]
fn a_power_cut_after_any_odd_step_of_a_first_boot_is_made_good_by_the_next() -> Result<()> {
    first_boots_cut(Rack::new("cut-first-odd")?, 1)
}

#[test]
fn a_power_cut_after_any_even_step_of_a_first_boot_is_made_good_by_the_next() -> Result<()> {
    first_boots_cut(Rack::new("cut-first-even")?, 2)
}

#[test]
fn a_power_cut_after_any_odd_step_of_a_move_is_made_good_by_the_next() -> Result<()> {
    moves_cut(Rack::new("cut-move-odd")?, 1)
}

#[test]
fn a_power_cut_after_any_even_step_of_a_move_is_made_good_by_the_next() -> Result<()> {
    moves_cut(Rack::new("cut-move-even")?, 2)
}

/// Each boot begins with what the cut before it left, finishes it, makes all disks blank again, and is cut
/// two steps later: from `first` on, every other step.
fn first_boots_cut(mut rack: Rack, first: usize) -> Result<()> {
    let superdisk = Superdisk::default();
    for step in (first..MANY).step_by(2) {
        let vm = rack.boot()?;
        superdisk.assemble(&vm)?;
        let files = superdisk.write(&vm, "file", 2)?;
        superdisk.has(&vm, &files)?;
        superdisk.tear_down(&vm)?;
        vm.run("for disk in vda nvme0n1 nvme1n1; do dd if=/dev/zero of=/dev/$disk bs=1M 2>/dev/null; done; sync")?;
        let done = superdisk.ask(&vm, "assemble", &format!("--stop-after {step}"))?;
        if done.status == 0 {
            ensure!(step > 5, "a first boot of {step} steps?");
            let files = superdisk.write(&vm, "file", 2)?;
            return superdisk.is_whole(&vm, &[&files]);
        }
        ensure!(done.status == KILLED, "{done}");
        vm.cut_power()?;
    }
    anyhow::bail!("{MANY} steps were not enough")
}

/// The same for a super-disk that comes to a host with blank local disks: the steps of a full copy.
fn moves_cut(mut rack: Rack, first: usize) -> Result<()> {
    let superdisk = Superdisk::default();
    let vm = rack.boot()?;
    superdisk.assemble(&vm)?;
    let files = superdisk.write(&vm, "file", 10)?;
    vm.cut_power()?;
    for step in (first..MANY).step_by(2) {
        let vm = rack.boot()?;
        superdisk.assemble(&vm)?;
        superdisk.has(&vm, &files)?;
        superdisk.tear_down(&vm)?;
        vm.run("for disk in nvme0n1 nvme1n1; do dd if=/dev/zero of=/dev/$disk bs=1M 2>/dev/null; done; sync")?;
        let done = superdisk.ask(&vm, "assemble", &format!("--stop-after {step}"))?;
        if done.status == 0 {
            ensure!(step > 3, "a move of {step} steps?");
            return superdisk.is_whole(&vm, &[&files]);
        }
        ensure!(done.status == KILLED, "{done}");
        vm.cut_power()?;
    }
    anyhow::bail!("{MANY} steps were not enough")
}

#[test]
fn a_power_cut_after_any_odd_step_of_growth_is_made_good_by_the_next() -> Result<()> {
    growth_cut("cut-growth-odd", 1)
}

#[test]
fn a_power_cut_after_any_even_step_of_growth_is_made_good_by_the_next() -> Result<()> {
    growth_cut("cut-growth-even", 2)
}

/// Each boot begins with what the cut before it left on a network disk that has grown since, serves, and is cut two steps
/// further on the way to the new size.
fn growth_cut(name: &str, first: usize) -> Result<()> {
    let mut rack = Rack::empty(name)?;
    for _ in 0..2 {
        rack.add_local(320 * MIB)?;
    }
    let mut size = 192 * MIB;
    rack.add_network(DURABLE, size)?;
    let superdisk = Superdisk::default();
    let vm = rack.boot()?;
    superdisk.assemble(&vm)?;
    let mut written = vec![superdisk.write(&vm, "file", 10)?];
    superdisk.in_sync(&vm)?;
    vm.cut_power()?;
    for step in (first..MANY).step_by(2) {
        size += 32 * MIB;
        rack.durable().grow(size)?;
        let vm = rack.boot()?;
        superdisk.assemble(&vm)?;
        for files in &written {
            superdisk.has(&vm, files)?;
        }
        superdisk.in_sync(&vm)?;
        let done = superdisk.ask(&vm, "assemble", &format!("--grow --stop-after {step}"))?;
        // It is mounted all the while.
        written.push(superdisk.write(&vm, &format!("step-{step}"), 2)?);
        if done.status == 0 {
            ensure!(step > 3, "growth of {step} steps?");
            let mib: u64 = vm
                .run("df -m /mnt/data | awk 'END {print $2}'")?
                .trim()
                .parse()?;
            ensure!(mib > 192, "it has {mib} MiB");
            let written: Vec<_> = written.iter().collect();
            return superdisk.is_whole(&vm, &written);
        }
        ensure!(done.status == KILLED, "{done}");
        vm.cut_power()?;
    }
    anyhow::bail!("{MANY} steps were not enough")
}

#[test]
fn assemble_killed_after_any_step_goes_on_when_it_is_run_again() -> Result<()> {
    let mut rack = Rack::new("killed")?;
    let superdisk = Superdisk::default();
    let vm = rack.boot()?;
    // A first boot, one step further a run.
    let runs = one_step_further_a_run(&superdisk, &vm)?;
    ensure!(runs > 5, "a first boot of {runs} steps?");
    let files = superdisk.write(&vm, "file", 10)?;
    superdisk.is_whole(&vm, &[&files])?;
    // Clean legs, the same.
    superdisk.tear_down(&vm)?;
    one_step_further_a_run(&superdisk, &vm)?;
    superdisk.is_whole(&vm, &[&files])
}

fn one_step_further_a_run(superdisk: &Superdisk, vm: &e2e_disk::Vm) -> Result<usize> {
    for run in 1..MANY {
        // One more each time: a step that finds nothing to change is done again.
        let done = superdisk.ask(vm, "assemble", &format!("--stop-after {run}"))?;
        if done.status == 0 {
            return Ok(run);
        }
        ensure!(done.status == KILLED, "{done}");
    }
    anyhow::bail!("{MANY} runs were not enough")
}
