//! Several reports as one page of Markdown: tables with ratios, and what must be known to read them.

use std::fmt::Write as _;

use crate::report::{Latency, Report, Suspect, Usage, suspects, usage};

/// A report and what it is called in tables.
#[derive(Debug, Clone)]
pub struct Named {
    pub name: String,
    pub report: Report,
}

/// A table of runs; ratios are of operations per second to those of the run called `base`, where there is one.
#[must_use]
pub fn load_table(runs: &[Named], base: &str) -> String {
    let rate = |run: &Named| run.report.operations_per_second;
    let base_rate = runs.iter().find(|run| run.name == base).map(rate);
    let mut out = format!(
        "| run | operations/s | × {base} | requests/s | p50 ms | p99 ms | p99.9 ms | p99.99 ms | max ms | failed | \
         processor s per 10⁶ | memory MiB | generator s per 10⁶ |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n"
    );
    for run in runs {
        let Named { name, report } = run;
        let Latency {
            p50,
            p99,
            p999,
            p9999,
            max,
            ..
        } = report.latency;
        let ratio =
            base_rate.map_or_else(|| "–".to_owned(), |base| format!("{:.2}", rate(run) / base));
        let requests = report.requests as f64 / report.seconds;
        let failed: u64 = report.operations.failed.values().sum();
        let operations = rate(run) * report.seconds;
        let cost = report.generator.processor_seconds / operations * 1e6;
        let [service, memory] = match usage(report) {
            Some(Usage {
                cpu_seconds_per_million,
                resident_bytes,
            }) => [
                format!("{cpu_seconds_per_million:.2}"),
                format!("{:.0}", resident_bytes / f64::from(1 << 20)),
            ],
            None => ["–", "–"].map(str::to_owned),
        };
        // Into a string, which takes everything.
        let _ = writeln!(
            out,
            "| {name} | {:.0} | {ratio} | {requests:.0} | {p50:.3} | {p99:.3} | {p999:.3} | {p9999:.3} | {max:.2} | \
             {failed} | {service} | {memory} | {cost:.2} |",
            rate(run)
        );
    }
    let noted: Vec<_> = runs
        .iter()
        .filter(|run| !run.report.warnings.is_empty())
        .collect();
    if !noted.is_empty() {
        out.push_str("\nWhat the generator says of them:\n");
    }
    for run in noted {
        for warning in &run.report.warnings {
            let _ = writeln!(out, "- {}: {warning}", run.name);
        }
    }
    out
}

/// What a long run says about evenness, and what went on in seconds that were slow.
#[must_use]
pub fn tail_section(report: &Report) -> String {
    let evenness = report.evenness;
    let seconds = report.windows.len();
    let mut out = format!(
        "{}, {seconds} s. p99.9 of the seconds: median {:.3} ms, worst {:.3} ms; {} of {seconds} seconds above twice \
         the median.\n",
        report.title,
        evenness.median_p999,
        evenness.worst_p999,
        evenness.seconds_above_twice_median
    );
    let suspects = suspects(report);
    match (evenness.seconds_above_twice_median, suspects.is_empty()) {
        (0, _) => {}
        (_, true) => out.push_str("\nNo metric of the service was higher in those seconds.\n"),
        (_, false) => {
            out.push_str("\n| metric, higher in slow seconds | slow | others |\n|---|--:|--:|\n");
            for suspect in suspects {
                let Suspect { name, slow, others } = suspect;
                let _ = writeln!(out, "| `{name}` | {slow:.1} | {others:.1} |");
            }
        }
    }
    let first_and_last = report
        .windows
        .iter()
        .find_map(|second| second.metrics.as_ref());
    let last = report
        .windows
        .iter()
        .rev()
        .find_map(|second| second.metrics.as_ref());
    if let (Some(first), Some(last)) = (first_and_last, last) {
        out.push_str("\n| metric | first second | last second |\n|---|--:|--:|\n");
        for (name, value) in last {
            let before = first.get(name).copied().unwrap_or(0.0);
            if before != *value {
                let _ = writeln!(out, "| `{name}` | {before:.0} | {value:.0} |");
            }
        }
    }
    out
}

/// The cost of authentication and encryption: runs at the same rate beside the one with neither; empty when one of
/// each pair is missing. `pairs`: (with it, without it).
#[must_use]
pub fn cost_table(runs: &[Named], pairs: &[(&str, &str)]) -> String {
    let find = |name: &str| runs.iter().find(|run| run.name == name);
    let mut out = String::new();
    for (with, without) in pairs {
        let (Some(with), Some(without)) = (find(with), find(without)) else {
            continue;
        };
        if out.is_empty() {
            out.push_str("| run | beside | p50 | p99 | processor |\n|---|---|--:|--:|--:|\n");
        }
        let of = |part: fn(&Report) -> Option<f64>| {
            let ratio = part(&with.report).zip(part(&without.report));
            ratio.map_or_else(
                || "–".to_owned(),
                |(with, without)| format!("{:+.1} %", (with / without - 1.0) * 100.0),
            )
        };
        let (p50, p99) = (
            of(|report| Some(report.latency.p50)),
            of(|report| Some(report.latency.p99)),
        );
        let processor = of(|report| usage(report).map(|usage| usage.cpu_seconds_per_million));
        out.push_str(&format!(
            "| {} | {} | {p50} | {p99} | {processor} |\n",
            with.name, without.name
        ));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::report;

    #[test]
    fn rates_are_told_as_ratios_to_the_base() {
        let run = |name: &str, rate| Named {
            name: name.to_owned(),
            report: Report {
                operations_per_second: rate,
                ..report(&[])
            },
        };
        let table = load_table(&[run("redis", 50.0), run("ours", 125.0)], "redis");
        assert!(table.contains("| ours | 125 | 2.50 |"), "{table}");
        assert!(table.contains("- ours: Told."), "{table}");
        assert!(load_table(&[run("ours", 1.0)], "redis").contains("| ours | 1 | – |"));
    }

    #[test]
    fn slow_seconds_are_told_with_what_went_on_in_them() {
        let section = tail_section(&report(&[4, 7]));
        assert!(section.contains("2 of 10 seconds above"), "{section}");
        assert!(
            section.contains("| `flushes_total` | 90.0 | 3.0 |"),
            "{section}"
        );
        let even = tail_section(&report(&[]));
        assert!(
            even.contains("0 of 10 seconds above") && !even.contains("slow seconds"),
            "{even}"
        );
    }
}
