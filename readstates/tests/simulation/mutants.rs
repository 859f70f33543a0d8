//! Rules dropped one at a time, and what of that the simulation notices.
//!
//! The exhaustive search of `readstates-ring` notices each of them (its module has the table). Here it is the
//! service itself that works without a rule. Of R2, R4, R8 and R9 none of two dozen seeds showed anything: the service
//! has a second fence where the state machine alone has one (a transfer has a number of its own, a member waits until
//! it knows the outcome of a swap, and its doors stay closed meanwhile), and what R8 guards against takes two owners
//! and a late write in one order. R5 cannot be dropped here: the world itself knows processes by their incarnations.
//!
//! R16 to R18 take several events in one order, which few seeds have (R18 was found by one of five thousand): their
//! [`scenes`](super::scenes) make them.

use readstates_ring::model::{MUTANTS, Mutant};

use super::{
    runs::{play, run},
    scenes::SCENES,
};

/// Those that the simulation must notice in its first seeds; those of [`SCENES`] it must notice in these.
const SEEN_HERE: [&str; 6] = ["R1", "R3", "R6", "R7", "R10", "R15"];
/// Seeds that are tried with each at most.
const MOST_SEEDS: u64 = 60;

#[test]
fn the_service_does_not_hold_without_the_rules() {
    let seen = |mutant: &Mutant| SEEN_HERE.contains(&mutant.name);
    for mutant in MUTANTS.into_iter().filter(seen) {
        let fails = |seed| Some((seed, run(seed, Some(mutant)).outcome.err()?));
        let Some((seed, why)) = (0..MOST_SEEDS).find_map(fails) else {
            panic!(
                "{} survives: nothing shows that it {}",
                mutant.name, mutant.does
            );
        };
        let why: Vec<&str> = why.lines().take(2).map(str::trim).collect();
        println!("without {}: seed {seed}: {}", mutant.name, why.join(" "));
    }
}

/// Seeds that each scene is played with: no clock is wrong in them.
const PLAYED: [u64; 3] = [1, 2, 4];

#[test]
fn scenes_hold_with_all_rules() {
    for (_, scene) in SCENES {
        for seed in PLAYED {
            let played = play(scene, seed, None);
            let last = played.trace.len().saturating_sub(60);
            let told = played.trace[last..].join("\n");
            match played.outcome {
                Ok(acknowledged) => assert!(acknowledged > 100, "{scene:?}: {acknowledged}"),
                Err(why) => panic!("{scene:?}, seed {seed}: {why}\n{told}"),
            }
        }
    }
}

#[test]
fn scenes_do_not_hold_without_the_rule_that_they_are_about() {
    for (rule, scene) in SCENES {
        let mutant = MUTANTS.into_iter().find(|mutant| mutant.name == rule);
        let mutant = mutant.unwrap();
        for seed in PLAYED {
            let why = play(scene, seed, Some(mutant)).outcome.expect_err(rule);
            assert!(why.contains("Lost"), "without {rule}, seed {seed}: {why}");
            let why: Vec<&str> = why.lines().take(2).map(str::trim).collect();
            println!("without {rule}: {scene:?}, seed {seed}: {}", why.join(" "));
        }
    }
}
