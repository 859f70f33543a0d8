//! The table.

use std::fmt;

use crate::{
    DURABLE_LATENCY, LOCAL_LATENCY, SLOWED,
    fio::Reads,
    setups::{NETWORK, RAID0, SUPERDISK},
    sickness::Sickness,
};

/// One stack's reads.
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) depth_1: Reads,
    pub(crate) depth_16: Reads,
    /// Read requests that the network disk saw meanwhile.
    pub(crate) durable_reads: u64,
}

/// The fast leg's copy.
pub(crate) struct Rebuild {
    pub(crate) mib_per_second: f64,
    /// Reads without a fast leg.
    pub(crate) degraded: Reads,
    /// Reads while it is copied.
    pub(crate) during: Reads,
    /// The copy went on to the end of those reads.
    pub(crate) overlapped: bool,
}

/// All that was measured.
pub(crate) struct Report {
    pub(crate) kernel: String,
    pub(crate) rows: Vec<Row>,
    /// With slow disks.
    pub(crate) slowed: Vec<Row>,
    pub(crate) sicknesses: Vec<Sickness>,
    pub(crate) rebuild: Rebuild,
    /// What could not be measured, and why.
    pub(crate) missing: Vec<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\nRandom reads of 4 KiB in software emulation, Linux {}; the network disk takes {DURABLE_LATENCY:?} an operation",
            self.kernel
        )?;
        table(&self.rows, "", f)?;
        writeln!(
            f,
            "\nThe same with disks {SLOWED} times as slow, so that they are measured and not the processor: a local disk takes {:?} an operation, the network disk {:?}",
            LOCAL_LATENCY * SLOWED,
            DURABLE_LATENCY * SLOWED
        )?;
        table(&self.slowed, ", slowed", f)?;
        writeln!(f, "\nOne sector of a local disk lost, read twelve times")?;
        for sickness in &self.sicknesses {
            let Sickness {
                name,
                errors,
                healed,
                alive,
            } = sickness;
            writeln!(
                f,
                "{name:16} {errors:2} errors to the reader, {}, {}",
                if *healed {
                    "sector healed"
                } else {
                    "sector not healed"
                },
                if *alive {
                    "fast copy kept"
                } else {
                    "fast copy lost"
                }
            )?;
        }
        let Rebuild {
            mib_per_second,
            degraded,
            during,
            overlapped,
        } = &self.rebuild;
        writeln!(
            f,
            "\nRebuild of the fast leg: {mib_per_second:.0} MiB/s alone. A reader, 1 deep: {:.0} us without it, {:.0} us (p99 {:.0} us) while it is copied{}",
            degraded.mean_us,
            during.mean_us,
            during.p99_us,
            if *overlapped {
                ""
            } else {
                " (which ended before the reads did)"
            }
        )?;
        for missing in &self.missing {
            writeln!(f, "\nNot measured: {missing}")?;
        }
        aims(self, f)
    }
}

/// A row for each disk, whose name ends with `what`.
fn table(rows: &[Row], what: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(
        f,
        "\n| {:20} | {:>9} | {:>9} | {:>9} | {:>14} | {:>9} | {:>15} | {:>14} | {:>14} | {:>13} |",
        "",
        "1 deep/s",
        "mean us",
        "p99 us",
        "processor busy",
        "16 deep/s",
        "16 deep mean us",
        "16 deep p99 us",
        "16 deep busy",
        "network reads"
    )?;
    writeln!(f, "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|")?;
    for Row {
        name,
        depth_1,
        depth_16,
        durable_reads,
    } in rows
    {
        write!(f, "| {:20} |", format!("{name}{what}"))?;
        for (reads, (mean, p99)) in [(depth_1, (9, 9)), (depth_16, (15, 14))] {
            let Reads {
                per_second,
                mean_us,
                p99_us,
                busy,
            } = reads;
            let digits = usize::from(*per_second < 100.0);
            write!(
                f,
                " {per_second:9.digits$} | {mean_us:mean$.0} | {p99_us:p99$.0} | {:12.0} % |",
                busy * 100.0
            )?;
        }
        writeln!(f, " {durable_reads:13} |")?;
    }
    Ok(())
}

/// What was aimed at, and what was reached.
fn aims(report: &Report, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f)?;
    for (rows, what) in [(&report.rows, ""), (&report.slowed, ", slowed")] {
        let row = |name: &str| rows.iter().find(|row| row.name == name);
        let (Some(stripe), Some(whole), Some(network)) =
            (row(RAID0), row(SUPERDISK.name), row(NETWORK))
        else {
            continue;
        };
        for (depth, ours, raw, slow) in [
            (1, whole.depth_1, stripe.depth_1, network.depth_1),
            (16, whole.depth_16, stripe.depth_16, network.depth_16),
        ] {
            let of_raw = ours.per_second / raw.per_second;
            let times = ours.per_second / slow.per_second;
            writeln!(
                f,
                "{depth:2} deep{what}: {:3.0} % of RAID0 (aim 90 %: {}), {times:.1} times the network disk (aim 4: {})",
                of_raw * 100.0,
                said(of_raw >= 0.9),
                said(times >= 4.0)
            )?;
        }
        let reads = whole.durable_reads;
        writeln!(
            f,
            "{reads} reads of the network disk under a healthy super-disk{what} (aim 0: {})",
            said(reads == 0)
        )?;
    }
    Ok(())
}

fn said(reached: bool) -> &'static str {
    if reached { "reached" } else { "NOT reached" }
}
