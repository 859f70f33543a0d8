//! What a read state takes in memory and what it costs to change and read: our cache beside what one would take
//! instead. Each structure is filled and measured in a process of its own, so that its memory is the growth of
//! that process's resident set, allocator and all.
//!
//! Users have 1 to 39 states, 20 on average (or 1 to twice any other number). An update is an acknowledgement: last
//! message, version and counters of one random state of one random user. A read visits all states of a random user.

mod child;
mod structures;

use std::{
    fmt::Write as _,
    fs,
    io::{self, Error},
    path::PathBuf,
    process::{Command, ExitCode, Stdio},
};

use clap::Parser;
use readstates_bench::weight::{Measured, Weight};
use serde::Serialize;
use structures::Kind;

/// Memory and speed of the cache, beside other structures.
#[derive(Debug, Parser)]
struct Flags {
    /// Number of states.
    #[arg(long, default_value_t = 20_000_000)]
    states: u64,

    /// Use a twentieth of the states, and fewer operations.
    #[arg(long)]
    quick: bool,

    /// Measure only this structure, with 20 states per user on average.
    #[arg(long, value_name = "STRUCTURE")]
    only: Option<Kind>,

    /// Also write the results to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Only fill this structure, and print the memory per state as JSON.
    #[arg(long, value_name = "STRUCTURE", conflicts_with_all = ["only", "json", "quick"])]
    weigh: Option<Kind>,

    /// Measure one structure in this process and print the result.
    #[arg(long, hide = true)]
    child: Option<Kind>,

    #[arg(long, hide = true, default_value_t = 20)]
    per_user: u64,

    /// Passed by cargo to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    let flags = Flags::parse();
    let states = if flags.quick {
        flags.states / 20
    } else {
        flags.states
    };
    let done = match (flags.weigh, flags.child) {
        (Some(kind), _) => {
            child::weigh(kind, states, flags.per_user).map(|weight| print(&[weight]))
        }
        (None, Some(kind)) => child::measure(kind, states, flags.per_user, flags.quick)
            .map(|measured| print(&measured)),
        (None, None) => compare(&flags, states),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cache: {error}");
            ExitCode::FAILURE
        }
    }
}

fn print(value: &impl Serialize) {
    // Numbers and names: nothing that JSON cannot say.
    println!("{}", serde_json::to_string(value).unwrap_or_default());
}

fn compare(flags: &Flags, states: u64) -> io::Result<()> {
    let others = Kind::OTHERS.into_iter().map(|kind| (kind, 20));
    let ours = [20, 5, 100]
        .into_iter()
        .map(|per_user| (Kind::Ours, per_user));
    let asked: Vec<_> = match flags.only {
        Some(kind) => vec![(kind, 20)],
        None => ours.chain(others).collect(),
    };
    let mut all = Vec::new();
    for (kind, per_user) in asked {
        eprintln!(
            "measuring {} with {states} states, {per_user} per user",
            kind.name()
        );
        all.push(in_a_child(kind, states, per_user, flags.quick)?);
    }
    if let Some(file) = &flags.json {
        fs::write(file, serde_json::to_string_pretty(&all)?)?;
    }
    print!("{}", table(&all));
    Ok(())
}

#[expect(
    clippy::disallowed_methods,
    reason = "this program again, by its own path: memory is measured by the process"
)]
fn in_a_child(kind: Kind, states: u64, per_user: u64, quick: bool) -> io::Result<Measured> {
    // The child divides the states by itself when in haste.
    let states = if quick { states * 20 } else { states };
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--child", kind.name(), "--states", &states.to_string()]);
    command.args(["--per-user", &per_user.to_string()]);
    if quick {
        command.arg("--quick");
    }
    let output = command.stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(Error::other(format!(
            "{} ended with {}",
            kind.name(),
            output.status
        )));
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// As Markdown. Ratios are of what a structure takes to what ours takes.
fn table(all: &[Measured]) -> String {
    let mut out = String::from(
        "| structure | states per user | bytes per state | × ours | update ns | update p50 | update p99.9 | update max µs | \
         update by two threads | read a user ns | read p50 | read p99.9 | read max µs | read by two threads |\n|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    let ours = all.first().map_or(1.0, |ours| ours.weight.bytes_per_state);
    for measured in all {
        let Measured {
            weight:
                Weight {
                    structure,
                    per_user,
                    states: _,
                    bytes_per_state,
                },
            update,
            read,
        } = measured;
        let _ = write!(
            out,
            "| {structure} | {per_user} | {bytes_per_state:.1} | {:.2} |",
            bytes_per_state / ours
        );
        for speed in [update, read] {
            let _ = write!(
                out,
                " {:.0} | {} | {} | {:.0} | {:.0} |",
                speed.nanos,
                speed.p50,
                speed.p999,
                speed.max as f64 / 1000.0,
                speed.nanos_of_two
            );
        }
        out.push('\n');
    }
    out
}
