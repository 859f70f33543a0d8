//! Some members in one process, real engines and real ownership, in a world that a seed rules: messages that are
//! late, lost, doubled and out of order, links that break in one direction or both, writes that land late or never,
//! watches that lag and go back, clocks that differ by seconds and by days, a ring store that is away, slow, out of reach
//! for one member, restored from seconds ago or deleted, members that stop for a while, leave, die and come back without a memory,
//! and two rebalancers that do not know of each other. Time is the runtime's, paused: a minute takes a
//! moment.
//!
//! What must hold whatever happens:
//! - every acknowledged change is there at the end, exactly once, in the caches and in the database; only a member
//!   that dies takes something with it: what it has in memory at that moment and the database has not;
//! - no version of a user is handed out twice, and none is told after a later one;
//! - what several clients ask about a user at once, acknowledgements that go back, deletions and erasures among it,
//!   has an order that explains every answer and what the database has at the end;
//! - at one epoch of a slot one process acknowledges, and never one while the ring names another for a later epoch.
//!
//! ```text
//! hack/simulate --seeds 5000                # from 0 on
//! hack/simulate --from 1234 --seeds 1       # that one again, with everything that happened
//! hack/simulate --backups                   # slots have backups
//! hack/simulate --without R4                # without a rule: it must fail
//! ```
//! An ordinary test run takes the first seeds. hack/test takes an eighth of them and as many of a sample of its own:
//! `READSTATES_TEST_SAMPLE`.
//! A seed rules everything: the random numbers of members follow from their incarnations.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]
#![allow(
    clippy::disallowed_methods,
    reason = "progress of a long run is told by the clock of who looks"
)]

mod clients;
mod compare;
mod database;
mod events;
mod historians;
mod late;
mod mutants;
mod network;
mod process;
mod ring;
mod runs;
mod scenes;
mod world;

use std::env;

use compare::Held;
use readstates_ring::model::{MUTANTS, backed};
use runs::{How, Runs, run};
use scenes::BACKED_SCENES;

/// Seeds of an ordinary test run.
const SEEDS: u64 = 200;
/// The same of worlds in which slots have backups: each takes several times as long.
const BACKED_SEEDS: u64 = 16;
/// Of so many seeds one may have a history of which it was not found out whether it has an order.
const SEEDS_OF_ONE_UNDECIDED: u64 = 20;
/// Failures that are shown; the rest would say the same.
const SHOWN: usize = 5;
/// Lines of a trace that a failure shows; `SIMULATION_TRACE` names a file for all of them.
const TRACE_SHOWN: usize = 60;

fn number(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text} is no number")),
    )
}

/// Seeds that are named; or the first ones, of which a sample leaves an eighth and adds as many others.
fn seeds_to_run(ordinary: u64) -> Vec<u64> {
    let (from, count) = (number("SIMULATION_FROM"), number("SIMULATION_SEEDS"));
    match (from, count, number("READSTATES_TEST_SAMPLE")) {
        (Some(from), count, _) => (from..from + count.unwrap_or(1)).collect(),
        (None, None, Some(sample)) => {
            let eighth = ordinary / 8;
            let sampled = ordinary + sample * eighth;
            (0..eighth).chain(sampled..sampled + eighth).collect()
        }
        (None, count, _) => (0..count.unwrap_or(ordinary)).collect(),
    }
}

/// What the environment says of how to run: `SIMULATION_BACKED`, and `SIMULATION_WITHOUT` a rule.
fn how() -> How {
    let backed = env::var_os("SIMULATION_BACKED").is_some();
    let Ok(name) = env::var("SIMULATION_WITHOUT") else {
        return How {
            backed,
            ..How::default()
        };
    };
    if let Some(mutant) = MUTANTS.into_iter().find(|mutant| mutant.name == name) {
        let how = How::from(mutant);
        return How { backed, ..how };
    }
    let of_rule = BACKED_SCENES.into_iter().find(|(rule, ..)| *rule == name);
    let name = of_rule.map_or(name.as_str(), |(_, instead, ..)| instead);
    match backed::MUTANTS
        .into_iter()
        .find(|mutant| mutant.name == name)
    {
        Some(mutant) => How::from(mutant),
        None => {
            panic!("{name} is no rule: R1 to R18, or what a mutant of slots with backups is called")
        }
    }
}

#[test]
fn nothing_acknowledged_is_lost_or_doubled_whatever_the_world_does() {
    hold(&seeds_to_run(SEEDS), how());
}

#[test]
fn nothing_that_a_backup_has_is_lost_or_doubled_with_its_owner() {
    hold(&seeds_to_run(BACKED_SEEDS), How::BACKED);
}

fn hold(seeds: &[u64], how: How) {
    let (from, count) = (seeds[0], seeds.len() as u64);
    let runs = Runs::all(seeds, how);
    let Held {
        acknowledged,
        undecided,
    } = runs.held;
    println!(
        "{acknowledged} changes were acknowledged in {count} seeds; of {undecided} histories it was not found out whether \
         they have an order"
    );
    let shown = runs.failed.iter().take(SHOWN);
    let shown: Vec<String> = shown
        .map(|(seed, why)| format!("seed {seed}: {why}"))
        .collect();
    // The first one that failed, or the first one.
    let seed = runs.failed.first().map_or(from, |&(seed, _)| seed);
    let again = run(seed, how);
    if let Ok(file) = env::var("SIMULATION_TRACE") {
        std::fs::write(file, again.trace.join("\n")).unwrap();
    }
    if runs.failed.is_empty() {
        assert!(
            acknowledged > count * 100,
            "the clients did next to nothing"
        );
        assert!(
            undecided <= 1 + count / SEEDS_OF_ONE_UNDECIDED,
            "too many histories are not decided"
        );
        return;
    }
    let backed = match how.backed {
        true => "SIMULATION_BACKED=1 ",
        false => "",
    };
    let skipped = again.trace.len().saturating_sub(TRACE_SHOWN);
    panic!(
        "the end of seed {seed}:\n{}\n{} of {count} seeds failed:\n{}\nreplay: {backed}SIMULATION_FROM={seed} \
         SIMULATION_TRACE=/tmp/trace cargo nextest run -p readstates --test simulation nothing_acknowledged",
        again.trace[skipped..].join("\n"),
        runs.failed.len(),
        shown.join("\n"),
    );
}

/// Four seeds, or that of them which a sample chooses.
fn is_the_same_every_time(how: How) {
    let sample = number("READSTATES_TEST_SAMPLE");
    let seeds = sample.map_or(1..5, |sample| {
        let seed = 1 + sample % 4;
        seed..seed + 1
    });
    for seed in seeds {
        let (first, second) = (run(seed, how), run(seed, how));
        let mut both = first.trace.iter().zip(&second.trace);
        if let Some(place) = both.position(|(a, b)| a != b) {
            let from = place.saturating_sub(TRACE_SHOWN / 4);
            panic!(
                "seed {seed}: {:#?}, {:#?}",
                &first.trace[from..=place],
                &second.trace[place]
            );
        }
        assert_eq!(first.fingerprint, second.fingerprint, "seed {seed}");
        let other = run(seed + 100, how);
        assert_ne!(first.fingerprint, other.fingerprint, "seed {seed}");
    }
}

#[test]
fn a_seed_is_the_same_every_time() {
    is_the_same_every_time(How::default());
}

#[test]
fn a_seed_with_backups_is_the_same_every_time() {
    is_the_same_every_time(How::BACKED);
}
