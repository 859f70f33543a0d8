//! Ten billion states and ten million updates a second, on paper: arithmetic from what was measured.

use std::fmt::Write as _;

/// What was measured, of one report.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    /// Bytes of memory a state takes.
    pub bytes_per_state: f64,
    /// Processor seconds that a million acknowledgements take the service, one in each request.
    pub single: f64,
    /// The same in batches of 64.
    pub batched: f64,
}

const STATES: f64 = 1e10;
const UPDATES: f64 = 1e7;
const STATES_PER_USER: f64 = 20.0;
/// What one pod may take: a quarter of a machine of 16 processors and 128 GiB.
const POD_PROCESSORS: f64 = 4.0;
const POD_GIB: f64 = 32.0;
/// The part of a pod that is planned to be used: the rest is for peaks, loads, and a neighbour's users when it goes.
const USED: f64 = 0.6;
/// The generator's request for one acknowledgement with ids of 19 digits, and a member's answer, with their heads.
const SINGLE_BYTES: f64 = 200.0 + 365.0;
/// A record of a batch of 64 and its outcome, and its part of two HTTP heads and two of frames.
const BATCHED_BYTES: f64 = 32.0 + 1.0 + 320.0 / 64.0;
/// A block: its head, and 24 bytes for each state.
const BLOCK_BYTES: f64 = 24.0 + 24.0 * STATES_PER_USER;
/// The default of `flushInterval`, and two that are longer.
const FLUSH_SECONDS: [f64; 3] = [30.0, 300.0, 1800.0];

/// A page with every step.
#[must_use]
pub fn page(measured: Measured) -> String {
    let Measured {
        bytes_per_state,
        single,
        batched,
    } = measured;
    let memory = STATES * bytes_per_state / f64::from(1 << 30);
    let mut out = format!(
        "10¹⁰ states, {STATES_PER_USER} for each of 5 × 10⁸ users, all in memory; 10⁷ acknowledgements a second of users drawn \
         evenly, which is the worst case: real users come again sooner. From this report: {bytes_per_state:.1} bytes a state, \
         {single:.1} processor seconds for a million acknowledgements one by one, {batched:.2} in batches of 64. A pod has \
         {POD_PROCESSORS} processors and {POD_GIB} GiB, of which {:.0} % are used.\n\n\
         | what | arithmetic | comes to |\n|---|---|---|\n",
        USED * 100.0
    );
    let mut line = |what: &str, arithmetic: String, result: String| {
        // Into a string, which takes everything.
        let _ = writeln!(out, "| {what} | {arithmetic} | {result} |");
    };
    let pods_by_memory = (memory / (POD_GIB * USED)).ceil();
    line(
        "memory",
        format!("10¹⁰ × {bytes_per_state:.1} B"),
        format!("{memory:.0} GiB"),
    );
    line(
        "pods for memory",
        format!("{memory:.0} GiB ÷ ({POD_GIB} GiB × {USED})"),
        format!("{pods_by_memory}"),
    );
    for (how, seconds, bytes) in [
        ("one by one", single, SINGLE_BYTES),
        ("in batches of 64", batched, BATCHED_BYTES),
    ] {
        let processors = UPDATES / 1e6 * seconds;
        let pods = (processors / (POD_PROCESSORS * USED)).ceil();
        let gigabits = UPDATES * bytes * 8.0 / 1e9;
        line(
            &format!("processors, {how}"),
            format!("10 × {seconds:.2} s"),
            format!("{processors:.0}"),
        );
        line(
            &format!("pods for these, {how}"),
            format!("{processors:.0} ÷ ({POD_PROCESSORS} × {USED})"),
            format!("{pods}"),
        );
        line(
            &format!("network, {how}"),
            format!(
                "10⁷ × {bytes:.0} B × 8; as much again for every request that is forwarded once"
            ),
            format!(
                "{gigabits:.1} Gbit/s, {:.2} a pod",
                gigabits / pods.max(pods_by_memory)
            ),
        );
    }
    database(line);
    out
}

/// The lines of what the database is written.
fn database(mut line: impl FnMut(&str, String, String)) {
    for seconds in FLUSH_SECONDS {
        let writes = block_writes(seconds);
        line(
            &format!("database writes, a flush every {seconds:.0} s"),
            format!("5 × 10⁸ × (1 − e^−({UPDATES:.0} × {seconds:.0} ÷ 5 × 10⁸)) ÷ {seconds:.0} s"),
            format!(
                "{:.2} million a second, {:.1} GB/s of blocks; {:.1} times fewer than updates",
                writes / 1e6,
                writes * BLOCK_BYTES / 1e9,
                UPDATES / writes
            ),
        );
    }
}

/// Blocks written in a second: users with at least one update in an interval, when updates fall evenly on all, by the
/// interval.
fn block_writes(seconds: f64) -> f64 {
    let users = STATES / STATES_PER_USER;
    users * -(-UPDATES * seconds / users).exp_m1() / seconds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_interval_writes_less_and_never_more_than_there_are_updates() {
        let [short, longer, longest] = FLUSH_SECONDS.map(block_writes);
        assert!(UPDATES > short && short > longer && longer > longest);
        // By hand: 5e8 × (1 − e^−0.6) ÷ 30.
        assert!((short / 7.519_8e6 - 1.0).abs() < 1e-3, "{short}");
        // Every user once in half an hour.
        assert!((longest / (5e8 / 1800.0) - 1.0).abs() < 1e-6, "{longest}");
    }

    #[test]
    fn every_step_is_shown_with_its_numbers() {
        let page = page(Measured {
            bytes_per_state: 28.0,
            single: 12.0,
            batched: 0.9,
        });
        for line in [
            "| memory | 10¹⁰ × 28.0 B | 261 GiB |",
            "| pods for memory | 261 GiB ÷ (32 GiB × 0.6) | 14 |",
            "| processors, one by one | 10 × 12.00 s | 120 |",
            "| pods for these, one by one | 120 ÷ (4 × 0.6) | 50 |",
            "| processors, in batches of 64 | 10 × 0.90 s | 9 |",
            "45.2 Gbit/s, 0.90 a pod",
        ] {
            assert!(page.contains(line), "{line}: {page}");
        }
    }
}
