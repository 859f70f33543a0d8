//! Rules dropped one at a time, and what of that the simulation notices.
//!
//! The exhaustive search of `readstates-ring` notices each of them (its module has the table). Here it is the
//! service itself that works without a rule. What some of them prevent happens in the first random seeds. Others take
//! several events in one order, which few seeds have (R18 was found by one of five thousand): their
//! [`scenes`](super::scenes) make them.
//!
//! A rule is dropped where the service relies on it, which is not always the state machine alone:
//! - R2: the part of a move says no epoch. It says its move, by the number drawn for that move and by the digest of
//!   the parts before it, and each of the two alone refuses a part of another move: both are dropped.
//! - R4: a state machine that opens its slot again says so to nobody, and the gate stays closed: without the rule it
//!   says [`Serve`](readstates_ring::handoff::Action::Serve).
//! - R5: state machines begin before the ring is read, so that no process starts as an owner: without the rule it
//!   starts with an incarnation that follows from its name, and takes what the ring gives to that for its own. The
//!   simulation tells processes apart all the same.
//!
//! R8 and R9 have no second fence; only the order is rare. R11 to R14 are rules of slots with backups: there are several
//! ways not to keep each, and one of them is taken.

use std::collections::BTreeSet;

use readstates_ring::model::{MUTANTS, Mutant, backed};

use super::{
    number,
    runs::{How, play, run},
    scenes::{BACKED_SCENES, BOUNDED_SCENES, SCENES, Scene},
};

/// Those that the simulation must notice in its first seeds; those of [`SCENES`] it must notice in these.
const SEEN_HERE: [&str; 5] = ["R1", "R3", "R6", "R7", "R10"];
/// Seeds that are tried with each at most.
const MOST_SEEDS: u64 = 60;

#[test]
fn each_rule_is_dropped_in_the_seeds_or_in_a_scene() {
    let played = SEEN_HERE.into_iter().chain(SCENES.map(|(rule, ..)| rule));
    let played: BTreeSet<&str> = played.collect();
    assert_eq!(played, MUTANTS.iter().map(|mutant| mutant.name).collect());
}

#[test]
fn the_service_does_not_hold_without_the_rules() {
    let seen = |mutant: &Mutant| SEEN_HERE.contains(&mutant.name);
    for mutant in in_turn(MUTANTS.into_iter().filter(seen)) {
        let fails = |seed| Some((seed, run(seed, How::from(mutant)).outcome.err()?));
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

/// Of how many parts of the rules and their scenes hack/test plays one.
const SAMPLES: u64 = 3;

/// Of everything in this order: what hack/test's sample number chooses, or all.
fn in_turn<T>(all: impl Iterator<Item = T>) -> impl Iterator<Item = T> {
    let chosen = number("READSTATES_TEST_SAMPLE").map(|sample| sample % SAMPLES);
    let all = (0..).zip(all);
    let all = all.filter(move |(at, _)| chosen.is_none_or(|chosen| at % SAMPLES == chosen));
    all.map(|(_, one)| one)
}

/// By rule: a scene, how it is played without the rule, and what the books say then.
fn scenes() -> impl Iterator<Item = (&'static str, Scene, How, &'static str)> {
    let plain = SCENES.into_iter().map(|(rule, scene, broken)| {
        let mutant = MUTANTS.into_iter().find(|mutant| mutant.name == rule);
        (rule, scene, How::from(mutant.unwrap()), broken)
    });
    plain.chain(BACKED_SCENES.map(|(rule, instead, scene, broken)| {
        let mut all = backed::MUTANTS.into_iter();
        let mutant = all.find(|mutant| mutant.name == instead);
        (rule, scene, How::from(mutant.unwrap()), broken)
    }))
}

#[test]
fn scenes_hold_with_all_rules() {
    let mut broken = Vec::new();
    for (_, scene, how, _) in in_turn(scenes()) {
        for seed in PLAYED {
            let how = How {
                without: None,
                ..how
            };
            let played = play(scene, seed, how);
            let last = played.trace.len().saturating_sub(60);
            let told = played.trace[last..].join("\n");
            match played.outcome {
                Ok(held) => assert!(held.acknowledged > 100, "{scene:?}: {held:?}"),
                Err(why) => broken.push(format!("{scene:?}, seed {seed}: {why}\n{told}")),
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn backups_that_are_slow_are_named_seldom_and_those_that_die_are_replaced_at_once() {
    let mut broken = Vec::new();
    let of_scene = |(scene, how)| PLAYED.map(|seed| (scene, how, seed));
    let mut plays: Vec<(Scene, How, u64)> = BOUNDED_SCENES.into_iter().flat_map(of_scene).collect();
    // Half a minute each: of a sample, one has its turn.
    if let Some(sample) = number("READSTATES_TEST_SAMPLE") {
        plays = vec![plays[sample as usize % plays.len()]];
    }
    for (scene, how, seed) in plays {
        let of = format!("{scene:?}, required: {}, seed {seed}", how.required);
        let outcome = play(scene, seed, how).outcome;
        println!("{of}: {outcome:?}");
        match outcome {
            Ok(held) => assert!(held.acknowledged > 100, "{of}: {held:?}"),
            Err(why) => broken.push(format!("{of}: {why}")),
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn scenes_do_not_hold_without_the_rule_that_they_are_about() {
    let mut survived = Vec::new();
    for (rule, scene, how, broken) in in_turn(scenes()) {
        let mut holds = Vec::new();
        for seed in PLAYED {
            let outcome = play(scene, seed, how).outcome;
            let of = format!("without {rule}: {scene:?}, seed {seed}");
            match outcome {
                Err(why) if why.contains(broken) => {
                    let why = why.lines().find(|line| line.contains(broken));
                    println!("{of}: {}", why.unwrap_or_default().trim());
                }
                other => holds.push(format!("{of}: {other:?}")),
            }
        }
        // What else happens in a seed may keep what is missing from doing harm; not in most.
        if 2 * holds.len() > PLAYED.len() {
            survived.append(&mut holds);
        }
    }
    assert!(survived.is_empty(), "{}", survived.join("\n"));
}
