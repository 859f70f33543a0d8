//! Everybody connects at once: how long it takes until all have their read states, as a table.

use std::fmt::Write as _;

use crate::{
    report::{Report, usage},
    summary::Named,
};

/// A row for each run, in order.
#[must_use]
pub fn table(runs: &[Named]) -> String {
    let mut out = "| run | users | s until all are answered | users/s | p50 ms | p99 ms | max ms | refused and asked again | \
                   memory MiB | processor s per 10⁶ |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n"
        .to_owned();
    for Named { name, report } in runs {
        let Report {
            seconds,
            operations,
            operations_per_second,
            latency,
            ..
        } = report;
        let refused: u64 = operations.failed.values().sum();
        let [memory, processor] = usage(report).map_or(["–", "–"].map(str::to_owned), |usage| {
            [
                format!("{:.0}", usage.resident_bytes / f64::from(1 << 20)),
                format!("{:.2}", usage.cpu_seconds_per_million),
            ]
        });
        // Into a string, which takes everything.
        let _ = writeln!(
            out,
            "| {name} | {} | {seconds:.1} | {operations_per_second:.0} | {:.2} | {:.2} | {:.0} | {refused} | {memory} | {processor} |",
            operations.reads, latency.p50, latency.p99, latency.max
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Operations, tests::report};

    #[test]
    fn what_was_refused_is_told_beside_the_time_that_all_took() {
        let failed = [("status 503".to_owned(), 7), ("timeout".to_owned(), 1)];
        let operations = Operations {
            reads: 500,
            failed: failed.into(),
            ..Operations::default()
        };
        let run = Named {
            name: "cold".to_owned(),
            report: Report {
                seconds: 12.34,
                operations,
                operations_per_second: 40.6,
                ..report(&[])
            },
        };
        let table = table(&[run]);
        assert!(table.contains("| cold | 500 | 12.3 | 41 |"), "{table}");
        assert!(table.contains("| 8 |"), "{table}");
    }
}
