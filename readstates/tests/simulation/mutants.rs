//! Rules dropped one at a time, and what of that the simulation notices.
//!
//! The exhaustive search of `readstates-ring` notices each of them (its module has the table). Here it is the
//! service itself that works without a rule. Of R2, R4, R8 and R9 none of two dozen seeds showed anything: the service
//! has a second fence where the state machine alone has one (a transfer has a number of its own, a member waits until
//! it knows the outcome of a swap, and its doors stay closed meanwhile), and what R8 guards against takes two owners
//! and a late write in one order. R16 takes a thief whose epoch is no lower than the owner's, which a test of
//! `ownership_in_paused_time` makes: sixty seeds showed none. R17 takes a restore and a death in the same seconds, which few
//! seeds have; tests of `ownership_in_paused_time` make them. R18 was found by one of five
//! thousand seeds, and has a test of its own there. R5 cannot be dropped here: the world itself knows processes
//! by their incarnations.

use readstates_ring::model::{MUTANTS, Mutant};

use super::runs::run;

/// Those that the simulation must notice.
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
