//! The protocols under search, from the command line.
//!
//! `cargo run --release -p readstates-ring --features model --example model -- [STATES] [SWAPS] [CRASHES] [LAPSES] [WRITES] [RESTORES] [LATE]`
//!
//! looks at up to STATES worlds (100,000,000 when not given; about 60 bytes of memory each, and more
//! for those still to be looked at), and then lets every rule be dropped once, in the world that shows it soonest.
//!
//! `… --example model -- backed [STATES] [WALKS] [SEED]`
//!
//! does the same with owners that have backups: up to STATES worlds breadth first, and WALKS random walks of 100 steps
//! from SEED on; then every fault, in the world that shows it.

#![expect(
    clippy::disallowed_methods,
    reason = "a program for people: it tells how long it took"
)]

use std::{process::ExitCode, time::Instant};

use readstates_ring::model::{
    Budget, Found, MUTANTS, Searched, Verdict, World,
    backed::{self, Limits},
    search, walk,
};

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1).peekable();
    let is_backed = words.next_if(|word| word == "backed").is_some();
    let numbers = words.map(|word| {
        word.parse::<usize>().unwrap_or_else(|_| {
            eprintln!("model: {word:?} is no number; see the head of examples/model.rs");
            std::process::exit(2)
        })
    });
    let is_good = match is_backed {
        true => backed(numbers),
        false => handed(numbers),
    };
    match is_good {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// Hand-offs and take-overs, without backups.
fn handed(mut numbers: impl Iterator<Item = usize>) -> bool {
    let most = numbers.next().unwrap_or(100_000_000);
    let mut small = |default: u8| numbers.next().map_or(default, |number| number.min(9) as u8);
    let budget = Budget {
        members: 3,
        operations: 2,
        swaps: small(3),
        crashes: small(1),
        lapses: small(1),
        writes: small(3),
        restores: small(1),
        late_writes: small(1),
    };
    println!("all rules kept, {budget:?}");
    let found = run(&World::new(budget), most);
    println!("{}", sentence(&found));
    let mut good = !matches!(found.verdict, Verdict::Violated { .. });
    for mutant in MUTANTS {
        let found = mutant.with(|| run(&World::new(mutant.budget()), most.min(20_000_000)));
        println!(
            "without {} ({}): {}",
            mutant.name,
            mutant.does,
            sentence(&found)
        );
        good &= matches!(found.verdict, Verdict::Violated { .. });
    }
    good
}

/// Owners with backups.
fn backed(mut numbers: impl Iterator<Item = usize>) -> bool {
    let most = numbers.next().unwrap_or(100_000_000);
    let walks = numbers.next().unwrap_or(1_000_000);
    let seed = numbers.next().unwrap_or(1) as u64;
    println!("owners with backups, {:?}", Limits::WIDE);
    let breadth = run(&backed::BackedWorld::new(Limits::WIDE), most);
    println!("{}", sentence(&breadth));
    println!("{walks} walks, {:?}", Limits::LONG);
    let walked = walk(&backed::BackedWorld::new(Limits::LONG), seed, walks, 100);
    println!("{}", sentence(&walked));
    let found = [breadth, walked];
    let mut good = !found
        .iter()
        .any(|found| matches!(found.verdict, Verdict::Violated { .. }));
    for mutant in backed::MUTANTS {
        let found = mutant.search(most.min(20_000_000));
        println!("{} ({}): {}", mutant.name, mutant.does, sentence(&found));
        good &= matches!(found.verdict, Verdict::Violated { .. });
    }
    good
}

fn run<W: Searched>(start: &W, most: usize) -> Found {
    let started = Instant::now();
    search(start, most, |states, depth| {
        let seconds = started.elapsed().as_secs();
        eprintln!(
            "  {} million states, depth {depth}, {seconds} s",
            states / 1_000_000
        );
    })
}

fn sentence(found: &Found) -> String {
    let Found {
        states,
        transitions,
        depth,
        verdict,
    } = found;
    let size = format!("{states} states, {transitions} transitions, depth {depth}");
    match verdict {
        Verdict::Complete => format!("holds everywhere: {size}"),
        Verdict::Bounded => format!("holds as far as looked: {size}"),
        Verdict::Violated { what, steps } => {
            format!("VIOLATED: {what}; {size}\n    {}", steps.join("\n    "))
        }
    }
}
