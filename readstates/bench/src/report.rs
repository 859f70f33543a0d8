//! The report of a run: one value, written as text, JSON, or a line per second.

use std::{collections::BTreeMap, fmt::Write as _};

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::{
    answer::Counts,
    check::CheckReport,
    metrics::Sample,
    process::{CPU_SECONDS, RESIDENT_BYTES},
    steal::STOLEN_MILLIS,
    windows::Window,
};

/// Everything about a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// What was measured, in a line.
    pub title: String,
    /// When it began: RFC 3339.
    pub started: String,
    /// What was asked for.
    pub settings: Settings,
    /// How long was measured.
    pub seconds: f64,
    /// Requests that ended.
    pub requests: u64,
    /// Operations by what became of them.
    pub operations: Operations,
    /// Operations that succeeded, per second.
    pub operations_per_second: f64,
    /// Latency of requests.
    pub latency: Latency,
    /// How even the seconds are.
    pub evenness: Evenness,
    /// How the generator fared.
    pub generator: Generator,
    /// What a reader must know before using the figures.
    pub warnings: Vec<String>,
    /// What was found at the end, when that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<CheckReport>,
    /// Every second.
    pub windows: Vec<Second>,
}

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Operations per second; `null`: as many as were answered.
    pub rate: Option<f64>,
    /// Connections.
    pub connections: usize,
    /// Threads.
    pub threads: usize,
    /// Requests on a connection at once.
    pub depth: usize,
    /// Operations per request.
    pub per_request: usize,
    /// Users.
    pub users: u64,
    /// Channels of each.
    pub channels: u64,
    /// Which users, as it was given.
    pub keys: String,
    /// What was sent, as it was given.
    pub mix: String,
    /// The seed.
    pub seed: u64,
}

/// Operations by what became of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operations {
    /// Changed something.
    pub applied: u64,
    /// Changed nothing.
    pub ignored: u64,
    /// Read something.
    pub reads: u64,
    /// States in what was read.
    pub states_read: u64,
    /// Failed, by why.
    pub failed: BTreeMap<String, u64>,
}

/// Milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// The mean.
    pub mean: f64,
    /// Half of the requests were faster.
    pub p50: f64,
    /// 90 %.
    pub p90: f64,
    /// 99 %.
    pub p99: f64,
    /// 99.9 %.
    pub p999: f64,
    /// 99.99 %.
    pub p9999: f64,
    /// The slowest.
    pub max: f64,
}

/// How even the seconds are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Evenness {
    /// The median over the seconds of their p99.9, in milliseconds.
    pub median_p999: f64,
    /// The largest of them.
    pub worst_p999: f64,
    /// Seconds whose p99.9 is above twice the median.
    pub seconds_above_twice_median: usize,
}

/// How the generator itself fared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Generator {
    /// Milliseconds by which requests left late though a connection was free, 99 % of them at most.
    pub late_p99: f64,
    /// The most.
    pub late_max: f64,
    /// Requests that were due and waited for a free connection.
    pub waited_for_connection: u64,
    /// Connections that were lost or not made.
    pub lost_connections: u64,
    /// Processor seconds of its threads.
    pub processor_seconds: f64,
    /// Which part of the time its busiest thread worked.
    pub busiest_thread: f64,
}

/// One second.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// Which, from 0.
    pub second: u64,
    /// Requests that were due in it.
    pub requests: u64,
    /// Their operations that succeeded.
    pub succeeded: u64,
    /// Their operations that failed.
    pub failed: u64,
    /// Latency of these requests.
    pub latency: Latency,
    /// The service's metrics at its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<Sample>,
}

impl Latency {
    /// The percentiles of a histogram of nanoseconds.
    #[must_use]
    pub fn of(histogram: &Histogram<u64>) -> Self {
        let millis = |nanos: u64| round(nanos as f64 / 1e6);
        let at = |quantile| millis(histogram.value_at_quantile(quantile));
        Self {
            mean: round(histogram.mean() / 1e6),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            p9999: at(0.9999),
            max: millis(histogram.max()),
        }
    }
}

/// To 0.1 µs: further digits are no measurement.
fn round(millis: f64) -> f64 {
    (millis * 1e4).round() / 1e4
}

impl Second {
    /// The second of a window.
    #[must_use]
    pub fn of(window: &Window) -> Self {
        Self {
            second: window.second,
            requests: window.requests,
            succeeded: window.counts.succeeded(),
            failed: window.counts.failed(),
            latency: Latency::of(&window.latency),
            metrics: None,
        }
    }
}

impl Operations {
    /// The same, in words.
    #[must_use]
    pub fn of(counts: &Counts) -> Self {
        let Counts {
            applied,
            ignored,
            reads,
            states_read,
            failures,
        } = counts;
        let failed = failures
            .iter()
            .map(|(why, count)| (why.to_string(), *count));
        Self {
            applied: *applied,
            ignored: *ignored,
            reads: *reads,
            states_read: *states_read,
            failed: failed.collect(),
        }
    }
}

impl Evenness {
    /// Of all seconds in which something was answered.
    #[must_use]
    pub fn of(seconds: &[Second]) -> Self {
        let answered = seconds.iter().filter(|second| second.requests > 0);
        let mut tails: Vec<f64> = answered.map(|second| second.latency.p999).collect();
        tails.sort_by(f64::total_cmp);
        let median = tails.get(tails.len() / 2).copied().unwrap_or(0.0);
        Self {
            median_p999: median,
            worst_p999: tails.last().copied().unwrap_or(0.0),
            seconds_above_twice_median: tails.iter().filter(|tail| **tail > 2.0 * median).count(),
        }
    }
}

/// A metric in slow seconds and in the others.
#[derive(Debug, Clone, PartialEq)]
pub struct Suspect {
    /// The metric; of a counter its growth within a second.
    pub name: String,
    /// Its mean in the seconds above twice the median.
    pub slow: f64,
    /// Its mean in the others.
    pub others: f64,
}

/// What the service did more of in the seconds whose p99.9 was above twice the median; most conspicuous first.
/// Nothing when there were none, or no metrics.
#[must_use]
pub fn suspects(report: &Report) -> Vec<Suspect> {
    let limit = 2.0 * report.evenness.median_p999;
    let mut sums: BTreeMap<&str, [(f64, u32); 2]> = BTreeMap::new();
    for pair in report.windows.windows(2) {
        let (Some(before), Some(after)) = (&pair[0].metrics, &pair[1].metrics) else {
            continue;
        };
        let slow = usize::from(pair[1].latency.p999 > limit);
        for (name, value) in after {
            let counts = ["_total", "_sum", "_count"]
                .iter()
                .any(|end| name.ends_with(end));
            let value = match counts {
                true => value - before.get(name).copied().unwrap_or(0.0),
                false => *value,
            };
            let sum = &mut sums.entry(name).or_default()[slow];
            *sum = (sum.0 + value, sum.1 + 1);
        }
    }
    let mean = |(sum, count): (f64, u32)| sum / f64::from(count);
    let both = sums
        .into_iter()
        .filter(|(_, [others, slow])| others.1 > 0 && slow.1 > 0);
    let mut suspects: Vec<Suspect> = both
        .map(|(name, [others, slow])| Suspect {
            name: name.to_owned(),
            slow: mean(slow),
            others: mean(others),
        })
        // A tenth more is chance.
        .filter(|suspect| suspect.slow > 1.1 * suspect.others)
        .collect();
    let ratio = |suspect: &Suspect| suspect.slow / suspect.others.max(1e-9);
    suspects.sort_by(|a, b| ratio(b).total_cmp(&ratio(a)));
    suspects
}

/// What the service's processes took, where they were watched.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Usage {
    /// Processor seconds of a million operations that succeeded.
    pub cpu_seconds_per_million: f64,
    /// The most memory they had, in bytes.
    pub resident_bytes: f64,
}

/// From the end of the first second that was sampled to the end of the last; `None` when there are not two, or
/// nothing was done between them.
#[must_use]
pub fn usage(report: &Report) -> Option<Usage> {
    let sampled = || {
        report.windows.iter().filter_map(|second| {
            let sample = second.metrics.as_ref()?;
            let (cpu, resident) = (sample.get(CPU_SECONDS)?, sample.get(RESIDENT_BYTES)?);
            Some((second.second, *cpu, *resident))
        })
    };
    let (first, before, _) = sampled().next()?;
    let (last, after, _) = sampled().next_back()?;
    let between = report
        .windows
        .iter()
        .filter(|second| second.second > first && second.second <= last);
    let done: u64 = between.map(|second| second.succeeded).sum();
    (done > 0).then(|| Usage {
        cpu_seconds_per_million: (after - before) / done as f64 * 1e6,
        resident_bytes: sampled().map(|(_, _, bytes)| bytes).fold(0.0, f64::max),
    })
}

/// Processor time that was kept from the machine, by seconds: milliseconds, of all processors together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stolen {
    /// All of it.
    pub total: f64,
    /// The most in one second.
    pub worst: f64,
    /// The mean of the seconds whose p99.9 was above twice the median; 0 when there are none.
    pub slow: f64,
    /// The mean of the others.
    pub others: f64,
}

/// Of every second that was sampled at its begin and its end; `None` when none was.
#[must_use]
pub fn stolen(report: &Report) -> Option<Stolen> {
    let at = |second: &Second| second.metrics.as_ref()?.get(STOLEN_MILLIS).copied();
    let limit = 2.0 * report.evenness.median_p999;
    let pairs = report.windows.windows(2).filter_map(|pair| {
        let stolen = at(&pair[1])? - at(&pair[0])?;
        Some((stolen, pair[1].latency.p999 > limit))
    });
    let (slow, others): (Vec<_>, Vec<_>) = pairs.partition(|(_, slow)| *slow);
    // An empty `sum()` would be printed as -0.0.
    let sum = |seconds: &[(f64, bool)]| seconds.iter().fold(0.0, |sum, (stolen, _)| sum + stolen);
    let mean = |seconds: &[(f64, bool)]| sum(seconds) / (seconds.len().max(1) as f64);
    let worst = slow.iter().chain(&others).map(|(stolen, _)| *stolen);
    Some(Stolen {
        worst: worst.reduce(f64::max)?,
        total: sum(&slow) + sum(&others),
        slow: mean(&slow),
        others: mean(&others),
    })
}

/// The report for people.
#[must_use]
pub fn text(report: &Report) -> String {
    let mut out = String::new();
    // Into a string, which takes everything.
    let _ = write_text(report, &mut out);
    out
}

fn write_text(report: &Report, out: &mut String) -> std::fmt::Result {
    let Report {
        title,
        seconds,
        requests,
        operations,
        latency,
        evenness,
        ..
    } = report;
    writeln!(out, "{title}")?;
    writeln!(
        out,
        "  {:.0} operations/s over {seconds:.0} s ({requests} requests)",
        report.operations_per_second
    )?;
    let Operations {
        applied,
        ignored,
        reads,
        states_read,
        failed,
    } = operations;
    writeln!(
        out,
        "  applied {applied}, ignored {ignored}, reads {reads} ({states_read} states)"
    )?;
    for (why, count) in failed {
        writeln!(out, "  failed: {why} {count}")?;
    }
    let Latency {
        mean,
        p50,
        p90,
        p99,
        p999,
        p9999,
        max,
    } = latency;
    writeln!(
        out,
        "  latency in ms: mean {mean:.3}, p50 {p50:.3}, p90 {p90:.3}, p99 {p99:.3}, p99.9 {p999:.3}, \
         p99.99 {p9999:.3}, max {max:.3}"
    )?;
    let Evenness {
        median_p999,
        worst_p999,
        seconds_above_twice_median,
    } = evenness;
    writeln!(
        out,
        "  p99.9 by the second: median {median_p999:.3} ms, worst {worst_p999:.3} ms, \
         {seconds_above_twice_median} of {} above twice the median",
        report.windows.len()
    )?;
    if let Some(usage) = usage(report) {
        let Usage {
            cpu_seconds_per_million,
            resident_bytes,
        } = usage;
        let mib = resident_bytes / f64::from(1 << 20);
        writeln!(
            out,
            "  the service: {cpu_seconds_per_million:.2} processor seconds per million operations, {mib:.0} MiB at most"
        )?;
    }
    for suspect in suspects(report).iter().take(5) {
        let Suspect { name, slow, others } = suspect;
        writeln!(
            out,
            "    in those {name} was {slow:.1} per second, in the others {others:.1}"
        )?;
    }
    if let Some(check) = &report.check {
        write_check(check, out)?;
    }
    for warning in &report.warnings {
        writeln!(out, "  note: {warning}")?;
    }
    Ok(())
}

fn write_check(check: &CheckReport, out: &mut String) -> std::fmt::Result {
    let CheckReport {
        users,
        sent,
        acknowledged,
        unknown,
        lost,
        doubled,
        foreign,
        examples,
    } = check;
    writeln!(
        out,
        "  checked {users} users: of {sent} operations {acknowledged} acknowledged, {unknown} unknown; \
         {lost} lost, {doubled} doubled, {foreign} never sent"
    )?;
    for example in examples {
        writeln!(out, "    {example}")?;
    }
    Ok(())
}

/// A line per second, with a head; metrics are columns of their own.
#[must_use]
pub fn csv(report: &Report) -> String {
    let sampled = report
        .windows
        .iter()
        .filter_map(|second| second.metrics.as_ref());
    let names: std::collections::BTreeSet<&String> = sampled.flat_map(BTreeMap::keys).collect();
    let mut out =
        "second,requests,succeeded,failed,p50_ms,p99_ms,p999_ms,p9999_ms,max_ms".to_owned();
    for name in &names {
        let _ = write!(out, ",{name}");
    }
    out.push('\n');
    for second in &report.windows {
        let Second {
            second: number,
            requests,
            succeeded,
            failed,
            latency,
            metrics,
        } = second;
        let Latency {
            p50,
            p99,
            p999,
            p9999,
            max,
            ..
        } = latency;
        let _ = write!(
            out,
            "{number},{requests},{succeeded},{failed},{p50},{p99},{p999},{p9999},{max}"
        );
        for name in &names {
            let value = metrics.as_ref().and_then(|metrics| metrics.get(*name));
            let _ = match value {
                Some(value) => write!(out, ",{value}"),
                None => write!(out, ","),
            };
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
pub(crate) mod tests;
