//! fio in the guest: its JSON in, three figures out.

use std::time::Duration;

use anyhow::{Context as _, Result};
use e2e_disk::Vm;
use serde::Deserialize;

/// One run; the emulator's own swing is slower than this.
const RUN_S: u64 = 8;
/// A cache that promotes what is read often has seen every block some ten times.
const WARM_UP_S: u64 = 60;
/// What is read: less than any cache holds.
const SIZE_MIB: u64 = 256;

/// What a reader saw.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Reads {
    pub(crate) per_second: f64,
    pub(crate) mean_us: f64,
    pub(crate) p99_us: f64,
}

#[derive(Deserialize)]
struct Output {
    jobs: Vec<Job>,
}

#[derive(Deserialize)]
struct Job {
    read: Direction,
}

#[derive(Deserialize)]
struct Direction {
    iops: f64,
    clat_ns: Latency,
}

#[derive(Deserialize)]
struct Latency {
    mean: f64,
    percentile: std::collections::BTreeMap<String, f64>,
}

/// Random reads of 4 KiB, past the page cache.
pub(crate) fn random_reads(vm: &Vm, device: &str, depth: u32) -> Result<Reads> {
    let printed = run(vm, device, depth, RUN_S)?;
    parse(&printed)
}

pub(crate) fn warm_up(vm: &Vm, device: &str) -> Result<()> {
    run(vm, device, 16, WARM_UP_S).map(drop)
}

/// The run that the emulator disturbed least.
pub(crate) fn best(runs: &[Reads]) -> Reads {
    let more = |a: &&Reads, b: &&Reads| a.per_second.total_cmp(&b.per_second);
    runs.iter().max_by(more).copied().unwrap_or_default()
}

fn run(vm: &Vm, device: &str, depth: u32, seconds: u64) -> Result<String> {
    let command = format!(
        "fio --name=r --filename={device} --rw=randread --bs=4k --direct=1 --ioengine=libaio --iodepth={depth} \
         --size={SIZE_MIB}M --time_based --runtime={seconds} --readonly --output-format=json"
    );
    vm.begin(&command, Duration::from_secs(seconds + 60))?
        .wait()?
        .success()
}

fn parse(printed: &str) -> Result<Reads> {
    let json = printed.find('{').map_or("", |at| &printed[at..]);
    let output: Output =
        serde_json::from_str(json).with_context(|| format!("not fio's JSON: {printed}"))?;
    let read = &output.jobs.first().context("fio ran no job")?.read;
    let p99 = read
        .clat_ns
        .percentile
        .get("99.000000")
        .context("fio gave no percentiles")?;
    Ok(Reads {
        per_second: read.iops,
        mean_us: read.clat_ns.mean / 1000.0,
        p99_us: p99 / 1000.0,
    })
}
