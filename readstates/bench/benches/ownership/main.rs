//! What it costs that users are owned: to find a user's owner, beside what one would take instead; to go
//! through the door of its slot; to pass a request on; to mention tens of thousands of users of many members.
//!
//! Everything is in this process. What hand-offs cost is measured with members of their own processes: see
//! `hack/bench --only scaling`.

mod doors;
mod forwarding;
mod lookups;
mod mention;
mod rings;
mod singles;
mod world;

use std::process::ExitCode;

use clap::Parser;

/// Members among which users are looked up.
const LOOKUPS: [u16; 4] = [3, 16, 64, 1024];
/// Members over which a mention goes.
const MENTIONS: [u16; 2] = [16, 1];

/// The cost of ownership, as Markdown.
#[derive(Debug, Parser)]
struct Flags {
    /// Fewer rounds.
    #[arg(long)]
    quick: bool,

    /// Measure only how look-ups and mentions scale with the members, for these numbers of members.
    #[arg(long, value_delimiter = ',', value_name = "N,...")]
    members: Vec<u16>,

    /// Passed by cargo to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    let flags = Flags::parse();
    match run(&flags) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ownership: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(flags: &Flags) -> Result<(), Box<dyn std::error::Error>> {
    let rounds = if flags.quick { 3 } else { 7 };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let growth = !flags.members.is_empty();
    let (lookups, mentions) = match growth {
        true => (&flags.members[..], &flags.members[..]),
        false => (&LOOKUPS[..], &MENTIONS[..]),
    };
    println!("### Finding a user's owner\n");
    println!("{}", lookups::compare(&runtime, rounds, lookups)?);
    if !growth {
        println!("### The door of a slot\n");
        println!("{}", doors::compare(&runtime, rounds)?);
        println!("### From one member to another\n");
        println!("{}", forwarding::measure(&runtime, rounds)?);
        println!("### Forwarding small requests\n");
        println!("{}", singles::measure(&runtime, rounds)?);
    }
    println!("### A mention of 30,000 users\n");
    println!("{}", mention::measure(&runtime, rounds, mentions)?);
    Ok(())
}

/// The one in the middle.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
