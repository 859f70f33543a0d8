//! fio in the guest: its JSON and the processor's counters in, four figures out.

use std::time::Duration;

use anyhow::{Context as _, Result};
use e2e_disk::Vm;
use serde::Deserialize;

/// One run; the emulator's own swing is slower than this.
const RUN_S: u64 = 5;
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
    /// Share of the guest's one processor that was not idle: at 1 it is measured, and not the disks.
    pub(crate) busy: f64,
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

/// fio begins and ends with the processor's counters, which it keeps in files of its own.
fn run(vm: &Vm, device: &str, depth: u32, seconds: u64) -> Result<String> {
    let counters = "head -n 1 /proc/stat";
    let command = format!(
        "cd /run && fio --name=r --filename={device} --rw=randread --bs=4k --direct=1 --ioengine=libaio --iodepth={depth} \
         --size={SIZE_MIB}M --time_based --runtime={seconds} --readonly --output-format=json --output=r.json \
         --exec_prerun='{counters}' --exec_postrun='{counters}' >&2 && cat r.prerun.txt r.postrun.txt r.json"
    );
    vm.begin(&command, Duration::from_secs(seconds + 60))?
        .wait()?
        .success()
}

fn parse(printed: &str) -> Result<Reads> {
    let (counters, json) = printed
        .find('{')
        .map_or((printed, ""), |at| printed.split_at(at));
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
        busy: busy(counters).with_context(|| format!("not /proc/stat, twice: {counters}"))?,
    })
}

/// Between the first two lines of all processors, as proc_stat(5) has them: the fourth and the fifth figure are idle.
fn busy(counters: &str) -> Option<f64> {
    let mut lines = counters
        .lines()
        .filter_map(|line| line.strip_prefix("cpu "));
    let mut ticks = || -> Option<(u64, u64)> {
        let figures: Vec<u64> = lines
            .next()?
            .split_whitespace()
            .map(str::parse)
            .collect::<Result<_, _>>()
            .ok()?;
        Some((
            figures.iter().take(8).sum(),
            figures.get(3..5)?.iter().sum(),
        ))
    };
    let (before, idle_before) = ticks()?;
    let (after, idle_after) = ticks()?;
    let all = after.checked_sub(before).filter(|all| *all > 0)?;
    Some(1.0 - idle_after.checked_sub(idle_before)? as f64 / all as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "cpu  100 0 100 700 100 0 0 0 0 0\n";
    const JSON: &str = r#"r: prerun
        {"jobs": [{"read": {"iops": 3000.5, "clat_ns": {"mean": 300000.0, "percentile": {"99.000000": 700000}}}}]}"#;

    #[test]
    fn what_fio_and_the_kernel_print_is_read() {
        let printed = format!("{BEFORE}cpu  150 0 200 740 110 0 0 0 0 0\n{JSON}");
        let read = parse(&printed).unwrap();
        assert_eq!(
            read,
            Reads {
                per_second: 3000.5,
                mean_us: 300.0,
                p99_us: 700.0,
                busy: 0.75,
            }
        );
    }

    #[test]
    fn what_is_missing_is_told() {
        let error = parse(&format!("{BEFORE}{JSON}")).unwrap_err();
        assert!(error.to_string().starts_with("not /proc/stat"), "{error}");
        assert!(parse(&format!("{BEFORE}{BEFORE}{JSON}")).is_err());
        assert!(parse(BEFORE).is_err());
    }
}
