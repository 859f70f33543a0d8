//! The same steady load on several servers: how flat each answers, second by second, and in those seconds in which a
//! garbage collector worked.

use std::fmt::Write as _;

use crate::{
    plot::{Chart, Series},
    report::{Latency, Report, Second, Stolen, Usage, stolen, usage},
    summary::Named,
    weight::OURS,
};

/// What Go servers count.
const COLLECTIONS: &str = "go_gc_cycles_total";

/// Two tables: of all seconds, and of those with a collection beside the others.
#[must_use]
pub fn section(runs: &[Named]) -> String {
    format!("{}\n{}", all_seconds(runs), with_collections(runs))
}

fn all_seconds(runs: &[Named]) -> String {
    let mut out = String::from(
        "| server | operations/s | p50 ms | p99.9 ms, median of the seconds | worst | p99.99 ms, median of the seconds | \
         worst p99.99 | max ms | seconds above twice the median | stolen from the machine in these, ms a second | stolen in the others, ms a second | \
         processor µs an operation | × ours | memory MiB | × ours |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    let ours = runs.iter().find(|run| run.name == OURS);
    let ours = ours.and_then(|run| usage(&run.report));
    for Named { name, report } in runs {
        let p9999 = by_second(report, |latency| latency.p9999);
        let [cpu, memory] = match usage(report) {
            Some(Usage {
                cpu_seconds_per_million: cpu,
                resident_bytes: memory,
            }) => {
                let ratio = |value: f64, of_ours: fn(&Usage) -> f64| match &ours {
                    Some(ours) => format!("{:.2}", value / of_ours(ours)),
                    None => "–".to_owned(),
                };
                let cpu_ratio = ratio(cpu, |ours| ours.cpu_seconds_per_million);
                let memory_ratio = ratio(memory, |ours| ours.resident_bytes);
                let mib = memory / f64::from(1 << 20);
                [
                    format!("{cpu:.2} | {cpu_ratio}"),
                    format!("{mib:.0} | {memory_ratio}"),
                ]
            }
            None => ["– | –", "– | –"].map(str::to_owned),
        };
        let stolen = stolen(report).map_or_else(
            || "– | –".to_owned(),
            |Stolen { slow, others, .. }| format!("{slow:.1} | {others:.1}"),
        );
        let evenness = report.evenness;
        // Into a string, which takes everything.
        let _ = writeln!(
            out,
            "| {name} | {:.0} | {:.3} | {:.3} | {:.3} | {:.3} | {:.3} | {:.2} | {} | {stolen} | {cpu} | {memory} |",
            report.operations_per_second,
            report.latency.p50,
            evenness.median_p999,
            evenness.worst_p999,
            median(p9999.clone()),
            p9999.iter().copied().fold(0.0, f64::max),
            report.latency.max,
            evenness.seconds_above_twice_median,
        );
    }
    out
}

fn with_collections(runs: &[Named]) -> String {
    let mut out = String::from(
        "| server | collections | seconds with one | p99.9 ms in these, median | max ms in these | p99.9 ms in the \
         others, median | max ms in the others |\n|---|--:|--:|--:|--:|--:|--:|\n",
    );
    for Named { name, report } in runs {
        let Some((count, with, without)) = collections(report) else {
            continue;
        };
        let tail = |seconds: &[&Second]| median(seconds.iter().map(|it| it.latency.p999).collect());
        let max = |seconds: &[&Second]| seconds.iter().map(|it| it.latency.max).fold(0.0, f64::max);
        let _ = writeln!(
            out,
            "| {name} | {count} | {} | {:.3} | {:.2} | {:.3} | {:.2} |",
            with.len(),
            tail(&with),
            max(&with),
            tail(&without),
            max(&without)
        );
    }
    out
}

/// How many collections ended, the seconds in which or before whose begin one did, and the others: a collection of a
/// large heap takes more than a second. `None` without a collector.
fn collections(report: &Report) -> Option<(u64, Vec<&Second>, Vec<&Second>)> {
    let count = |second: &Second| second.metrics.as_ref()?.get(COLLECTIONS).copied();
    let counts: Vec<f64> = report.windows.iter().filter_map(count).collect();
    let (first, last) = (counts.first()?, counts.last()?);
    let ended = |place: usize| {
        let pair = (
            place
                .checked_sub(1)
                .and_then(|it| report.windows.get(it))
                .and_then(count),
            report.windows.get(place).and_then(count),
        );
        matches!(pair, (Some(before), Some(after)) if after > before)
    };
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for (place, second) in report.windows.iter().enumerate() {
        match ended(place) || ended(place + 1) {
            true => with.push(second),
            false => without.push(second),
        }
    }
    Some(((last - first) as u64, with, without))
}

fn by_second(report: &Report, value: fn(&Latency) -> f64) -> Vec<f64> {
    report
        .windows
        .iter()
        .filter(|second| second.requests > 0)
        .map(|second| value(&second.latency))
        .collect()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// By file name: one chart for each tail, a line for each server.
#[must_use]
pub fn charts(runs: &[Named], machine: &str) -> [(&'static str, Chart); 3] {
    let chart = |what: &str, value: fn(&Latency) -> f64| Chart {
        title: format!("{what} of every second, at the same steady load"),
        subtitle: machine.to_owned(),
        x: "seconds".into(),
        y: format!("{what}, ms"),
        series: runs
            .iter()
            .map(|Named { name, report }| Series {
                name: name.clone(),
                points: report
                    .windows
                    .iter()
                    .map(|second| (second.second as f64, value(&second.latency)))
                    .collect(),
            })
            .collect(),
        marks: Vec::new(),
    };
    [
        ("flat-p999", chart("p99.9", |latency| latency.p999)),
        ("flat-p9999", chart("p99.99", |latency| latency.p9999)),
        ("flat-max", chart("max", |latency| latency.max)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::{report, robbed};

    /// Of ten seconds those of 4 and 7 are slow; a collection ends in 4.
    fn go() -> Named {
        let mut report = report(&[4, 7]);
        for second in &mut report.windows {
            let collections = f64::from(u8::from(second.second >= 4));
            let metrics = second.metrics.get_or_insert_default();
            metrics.insert(COLLECTIONS.to_owned(), collections);
        }
        let name = "go-list".to_owned();
        Named { name, report }
    }

    #[test]
    fn seconds_with_a_collection_are_told_beside_the_others() {
        let ours = Named {
            name: "ours".into(),
            report: report(&[]),
        };
        let section = section(&[ours, go()]);
        let second = section.split("\n\n").nth(1).unwrap();
        let rows: Vec<&str> = second.lines().skip(2).collect();
        // Second 3, in which it may have begun, and second 4.
        assert_eq!(rows.len(), 1, "ours has no collector: {rows:?}");
        assert!(rows[0].starts_with("| go-list | 1 | 2 | 5.0"), "{rows:?}");
        assert!(rows[0].contains("| 1.0"), "{rows:?}");
        assert!(section.contains("| ours | 1 | 0.000 | 1.0"), "{section}");
    }

    #[test]
    fn what_was_stolen_stands_behind_the_slow_seconds() {
        let named = |report| Named {
            name: "ours".into(),
            report,
        };
        let table = all_seconds(&[named(robbed(20.0))]);
        assert!(table.contains("| 0 | 0.0 | 20.0 |"), "{table}");
        assert!(all_seconds(&[named(report(&[]))]).contains("| 0 | – | – |"));
    }

    #[test]
    fn every_server_is_a_line_in_every_chart() {
        let charts = charts(&[go()], "here");
        assert_eq!(
            charts.each_ref().map(|(name, _)| *name),
            ["flat-p999", "flat-p9999", "flat-max"]
        );
        for (_, chart) in charts {
            assert_eq!((chart.series.len(), chart.series[0].points.len()), (1, 10));
        }
    }
}
