//! What a constant load saw while slots moved between members, and how much moved.

use std::fmt::Write as _;

use crate::{
    report::{Report, Second},
    summary::Named,
};

/// A table of runs of the same load.
#[must_use]
pub fn table(runs: &[Named]) -> String {
    let mut out = String::from(
        "| run | p50 ms | p99 ms | p99.9 ms | max ms | failed | users loaded from the store | states moved | states \
         moved/s in the seconds in which any did |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    for Named { name, report } in runs {
        let latency = report.latency;
        let failed: u64 = report.operations.failed.values().sum();
        let loads: f64 = growth(report, "readstates_loads_total").iter().sum();
        // One side of a move is always asked: the one that leaves in the end is not.
        let sent = growth(report, "readstates_handoff_blocks_total");
        let received = growth(report, "readstates_handoff_received_blocks_total");
        let moved: Vec<f64> = sent
            .iter()
            .zip(&received)
            .map(|(sent, received)| sent.max(*received) * report.settings.channels as f64)
            .collect();
        let states: f64 = moved.iter().sum();
        let seconds = moved.iter().filter(|states| **states > 0.0).count();
        let rate = states / seconds.max(1) as f64;
        // Into a string, which takes everything.
        let _ = writeln!(
            out,
            "| {name} | {:.3} | {:.3} | {:.3} | {:.2} | {failed} | {loads:.0} | {states:.0} | {rate:.0} |",
            latency.p50, latency.p99, latency.p999, latency.max
        );
    }
    out
}

/// How much a counter grew from second to second; 0 where it was not asked, or another sum of members answered.
fn growth(report: &Report, counter: &str) -> Vec<f64> {
    let value = |second: &Second| second.metrics.as_ref()?.get(counter).copied();
    let pairs = report.windows.windows(2);
    pairs
        .map(|pair| match (value(&pair[0]), value(&pair[1])) {
            (Some(before), Some(after)) => (after - before).max(0.0),
            (_, _) => 0.0,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::report;

    #[test]
    fn what_moved_is_told_by_the_side_that_saw_more_of_it() {
        let mut report = report(&[]);
        report.settings.channels = 20;
        for second in &mut report.windows {
            let blocks = [0.0, 0.0, 50.0, 150.0, 150.0][(second.second as usize).min(4)];
            let metrics = second.metrics.get_or_insert_default();
            metrics.insert("readstates_handoff_blocks_total".into(), blocks);
            metrics.insert("readstates_handoff_received_blocks_total".into(), 7.0);
            metrics.insert("readstates_loads_total".into(), second.second as f64);
        }
        let name = "three-to-four".to_owned();
        let table = table(&[Named { name, report }]);
        assert!(table.ends_with("| 0 | 9 | 3000 | 1500 |\n"), "{table}");
    }
}
