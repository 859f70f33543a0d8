//! What can be told from the seconds of a report: suspects for the slow ones, what the service used, what was stolen.

use std::collections::BTreeMap;

use super::{Report, Second};
use crate::{
    process::{CPU_SECONDS, RESIDENT_BYTES},
    steal::STOLEN_MILLIS,
};

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
