//! What states take in memory, structure by structure: measured in several programs, shown in one table and plot.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::plot::Bar;

/// What a state takes in one structure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Weight {
    pub structure: String,
    /// States of each user, on average.
    pub per_user: u64,
    /// States that it holds.
    pub states: u64,
    /// Growth of the resident set by the states that it holds.
    pub bytes_per_state: f64,
}

/// A structure in a process of its own: what it takes, and what an operation on it does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Memory. A bounded cache may hold fewer states than it was given.
    #[serde(flatten)]
    pub weight: Weight,
    /// An acknowledgement of a random state.
    pub update: Speed,
    /// A visit of all states of a random user.
    pub read: Speed,
}

/// Nanoseconds. Percentiles hold two looks at the clock each; the means do not.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Speed {
    /// Per operation, one thread.
    pub nanos: f64,
    /// Half of them were faster.
    pub p50: u64,
    /// 99.9 %.
    pub p999: u64,
    /// The slowest.
    pub max: u64,
    /// Wall time by operations of both, two threads.
    pub nanos_of_two: f64,
}

/// How memory and time of one structure change with the number of states, fewest first.
#[must_use]
pub fn growth_table(all: &[Measured]) -> String {
    let mut sorted: Vec<&Measured> = all.iter().collect();
    sorted.sort_by_key(|measured| measured.weight.states);
    let mut out = String::from(
        "| million states | bytes per state | update ns | update p50 | update p99.9 | read a user ns | read p50 | read p99.9 |\n\
         |--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    for Measured {
        weight,
        update,
        read,
    } in sorted
    {
        // Into a string, which takes everything.
        let _ = writeln!(
            out,
            "| {:.1} | {:.1} | {:.0} | {} | {} | {:.0} | {} | {} |",
            weight.states as f64 / 1e6,
            weight.bytes_per_state,
            update.nanos,
            update.p50,
            update.p999,
            read.nanos,
            read.p50,
            read.p999
        );
    }
    out
}

/// The structure that others are compared with.
pub const OURS: &str = "ours";

/// As a table in the order of size; ratios are to ours of about as many states and users of the same size.
#[must_use]
pub fn table(weights: &[Weight]) -> String {
    let mut out = String::from(
        "| structure | million states | states per user | bytes per state | × ours |\n|---|---|---|--:|--:|\n",
    );
    for weight in sorted(weights) {
        let Weight {
            structure,
            per_user,
            states,
            bytes_per_state,
        } = weight;
        let ratio = match ours_like(weights, weight) {
            Some(ours) => format!("{:.2}", bytes_per_state / ours.bytes_per_state),
            None => "–".to_owned(),
        };
        // Into a string, which takes everything.
        let _ = writeln!(
            out,
            "| {structure} | {:.1} | {per_user} | {bytes_per_state:.1} | {ratio} |",
            *states as f64 / 1e6
        );
    }
    out
}

fn sorted(weights: &[Weight]) -> Vec<&Weight> {
    let mut sorted: Vec<&Weight> = weights.iter().collect();
    sorted.sort_by(|a, b| a.bytes_per_state.total_cmp(&b.bytes_per_state));
    sorted
}

/// A bounded structure may hold a few less than was asked for.
fn ours_like<'a>(weights: &'a [Weight], other: &Weight) -> Option<&'a Weight> {
    let near = |ours: &&Weight| {
        ours.structure == OURS
            && ours.per_user == other.per_user
            && (ours.states as f64 / other.states as f64 - 1.0).abs() < 0.1
    };
    weights.iter().find(near)
}

/// Bars of what was measured with the most states, and 20 for each user.
#[must_use]
pub fn bars(weights: &[Weight]) -> Vec<Bar> {
    let usual = || weights.iter().filter(|weight| weight.per_user == 20);
    let most = usual().map(|weight| weight.states).max().unwrap_or(0) as f64;
    let largest = usual().filter(|weight| weight.states as f64 > 0.9 * most);
    let largest: Vec<Weight> = largest.cloned().collect();
    let bar = |weight: &Weight| Bar {
        name: weight.structure.clone(),
        value: weight.bytes_per_state,
    };
    sorted(&largest).into_iter().map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weight(structure: &str, states: u64, bytes_per_state: f64) -> Weight {
        Weight {
            structure: structure.to_owned(),
            per_user: 20,
            states,
            bytes_per_state,
        }
    }

    #[test]
    fn growth_is_told_from_the_fewest_states_on() {
        let speed = Speed {
            nanos: 1500.4,
            p50: 1,
            p999: 2,
            max: 3,
            nanos_of_two: 4.0,
        };
        let measured = |states| Measured {
            weight: weight(OURS, states, 27.0),
            update: speed,
            read: speed,
        };
        let json = serde_json::to_string(&measured(20)).unwrap();
        assert_eq!(
            serde_json::from_str::<Measured>(&json).unwrap(),
            measured(20)
        );
        let table = growth_table(&[measured(20_000_001), measured(300_000)]);
        let rows: Vec<&str> = table.lines().skip(2).collect();
        assert!(
            rows[0].starts_with("| 0.3 | 27.0 | 1500 | 1 | 2 |"),
            "{table}"
        );
        assert!(rows[1].starts_with("| 20.0 | "), "{table}");
    }

    #[test]
    fn ratios_are_to_ours_of_about_as_many_states() {
        let weights = [
            weight("other", 990_000, 60.0),
            weight(OURS, 1_000_007, 30.0),
            weight(OURS, 100_000, 40.0),
            weight("other", 500_000, 90.0),
        ];
        let table = table(&weights);
        let lines: Vec<&str> = table.lines().skip(2).collect();
        assert_eq!(
            lines,
            [
                "| ours | 1.0 | 20 | 30.0 | 1.00 |",
                "| ours | 0.1 | 20 | 40.0 | 1.00 |",
                "| other | 1.0 | 20 | 60.0 | 2.00 |",
                "| other | 0.5 | 20 | 90.0 | – |",
            ]
        );
        let bars: Vec<String> = bars(&weights).into_iter().map(|bar| bar.name).collect();
        assert_eq!(bars, [OURS, "other"], "only those of the most states");
    }
}
