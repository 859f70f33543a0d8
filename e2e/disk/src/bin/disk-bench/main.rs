//! Compares a super-disk with the usual alternatives, in the disk machine, and prints one table.
//!
//! A machine in software emulation is slow by a factor that changes from hour to hour: what is compared is measured in
//! turns, and the best of several short runs counts. The figures tell alternatives apart, and say nothing about a
//! cloud's disks.

mod fio;
mod setups;
mod sickness;
mod table;

use std::{process::ExitCode, time::Duration};

use anyhow::Result;
use e2e_disk::{DURABLE, MIB, Rack, Vm};

use crate::{
    fio::{Reads, best},
    setups::{BCACHE, DMCACHE, SUPERDISK, Stack, WHOLE_AND_LEGS},
    sickness::Sickness,
    table::{Rebuild, Report, Row},
};

/// Of a network disk, per operation.
const DURABLE_LATENCY: Duration = Duration::from_micros(1500);
/// The emulated processor is slow, the disks are not, and sixteen reads at a time are its measure: once more with all disks
/// so much slower that it idles.
const SLOWED: u32 = 200;
/// Of a local disk, per operation, before it is slowed.
const LOCAL_LATENCY: Duration = Duration::from_micros(100);
const LOCAL_SIZE: u64 = 384 * MIB;
const DURABLE_SIZE: u64 = 768 * MIB;
/// Runs of which the best counts.
const ROUNDS: usize = 5;

fn main() -> ExitCode {
    match measure() {
        Ok(report) => {
            print!("{report}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn measure() -> Result<Report> {
    let mut report = superdisk()?;
    for stack in [DMCACHE, BCACHE] {
        // A kernel or an lvm without one of them is no reason to show nothing.
        match cache(&stack) {
            Ok((rows, sickness)) => {
                report.rows.extend(rows);
                report.sicknesses.push(sickness);
            }
            Err(error) => report.missing.push(format!("{}: {error:#}", stack.name)),
        }
    }
    Ok(report)
}

fn machine(name: &str) -> Result<(Rack, Vm)> {
    let mut rack = Rack::empty(name)?;
    rack.with_fio();
    rack.add_local(LOCAL_SIZE)?;
    rack.add_local(LOCAL_SIZE)?;
    rack.add_network(DURABLE, DURABLE_SIZE)?;
    let vm = rack.boot()?;
    Ok((rack, vm))
}

/// RAID0, the super-disk that is made of it and the network disk, and the network disk: all in one machine.
fn superdisk() -> Result<Report> {
    let (rack, vm) = machine("bench-superdisk")?;
    setups::superdisk(&vm)?;
    rack.durable().slow_down(DURABLE_LATENCY);
    let rows = measure_whole_and_legs(&rack, &vm)?;
    let sickness = sickness::of(&rack, &vm, &SUPERDISK)?;
    let rebuild = rebuild(&vm)?;
    rack.durable().slow_down(DURABLE_LATENCY * SLOWED);
    for slot in 0..2 {
        rack.local(slot).slow_down(LOCAL_LATENCY * SLOWED);
    }
    Ok(Report {
        kernel: vm.run("uname -r")?.trim().to_owned(),
        rows,
        slowed: measure_whole_and_legs(&rack, &vm)?,
        sicknesses: vec![sickness],
        missing: Vec::new(),
        rebuild,
    })
}

/// Each in its turn, so that what disturbs the emulator disturbs all of them.
fn measure_whole_and_legs(rack: &Rack, vm: &Vm) -> Result<Vec<Row>> {
    let mut runs: [[Vec<Reads>; WHOLE_AND_LEGS.len()]; 2] = Default::default();
    let mut durable_reads = [0; WHOLE_AND_LEGS.len()];
    for _ in 0..ROUNDS {
        for (depth, runs) in [1, 16].into_iter().zip(&mut runs) {
            for (at, (_, device)) in WHOLE_AND_LEGS.iter().enumerate() {
                rack.durable().take_counters();
                runs[at].push(fio::random_reads(vm, device, depth)?);
                durable_reads[at] += rack.durable().take_counters().reads;
            }
        }
    }
    let row = |(at, (name, _)): (usize, &(&str, &str))| Row {
        name: (*name).to_owned(),
        depth_1: best(&runs[0][at]),
        depth_16: best(&runs[1][at]),
        durable_reads: durable_reads[at],
    };
    Ok(WHOLE_AND_LEGS.iter().enumerate().map(row).collect())
}

/// A cache in front of the network disk, before and after it has learned what is read.
fn cache(stack: &Stack) -> Result<(Vec<Row>, Sickness)> {
    let (rack, vm) = machine(stack.machine)?;
    (stack.assemble)(&vm)?;
    rack.durable().slow_down(DURABLE_LATENCY);
    let mut rows = Vec::new();
    for state in ["cold", "warm"] {
        rack.durable().take_counters();
        let depth_1 = fio::random_reads(&vm, stack.device, 1)?;
        let depth_16 = fio::random_reads(&vm, stack.device, 16)?;
        rows.push(Row {
            name: format!("{} {state}", stack.name),
            depth_1,
            depth_16,
            durable_reads: rack.durable().take_counters().reads,
        });
        if state == "cold" {
            fio::warm_up(&vm, stack.device)?;
        }
    }
    let sickness = sickness::of(&rack, &vm, stack)?;
    Ok((rows, sickness))
}

/// Read performance while the fast leg is rebuilt at full speed.
fn rebuild(vm: &Vm) -> Result<Rebuild> {
    setups::lose_fast_leg(vm)?;
    let quiet = fio::random_reads(vm, "/dev/md101", 1)?;
    setups::add_fast_leg(vm)?;
    let busy = fio::random_reads(vm, "/dev/md101", 1)?;
    let still =
        vm.run("cat /sys/block/md101/md/sync_speed; cat /sys/block/md101/md/sync_action")?;
    let overlapped = still.contains("recover");
    setups::in_sync(vm)?;
    // Alone, for the rate.
    setups::lose_fast_leg(vm)?;
    setups::add_fast_leg(vm)?;
    let started = std::time::Instant::now();
    setups::in_sync(vm)?;
    let kib: f64 = vm
        .run("cat /sys/block/md101/md/component_size")?
        .trim()
        .parse()?;
    Ok(Rebuild {
        mib_per_second: kib / 1024.0 / started.elapsed().as_secs_f64(),
        degraded: quiet,
        during: busy,
        overlapped,
    })
}
