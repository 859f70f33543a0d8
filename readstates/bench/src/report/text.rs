//! A report as text for people, and as a line per second.

use std::{collections::BTreeMap, fmt::Write as _};

use super::{Evenness, Latency, Operations, Report, Second, Suspect, Usage, suspects, usage};
use crate::check::CheckReport;

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
    write_usage(report, out)?;
    if let Some(check) = &report.check {
        write_check(check, out)?;
    }
    for warning in &report.warnings {
        writeln!(out, "  note: {warning}")?;
    }
    Ok(())
}

fn write_usage(report: &Report, out: &mut String) -> std::fmt::Result {
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
