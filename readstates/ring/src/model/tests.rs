use strum::VariantArray as _;

use super::{
    budgets::{ALL, MOVES, WIDE},
    *,
};
use crate::mutant::Rule;

/// What every run of the tests looks at. `cargo run --release --example model --features model` looks
/// at as much as one likes.
const STATES: usize = 2_000_000;

fn holds(budget: Budget, most: usize) -> Found {
    let found = search(&World::new(budget), most, |_, _| {});
    assert!(
        !matches!(found.verdict, Verdict::Violated { .. }),
        "{budget:?}: {found:#?}"
    );
    found
}

#[test]
fn nothing_acknowledged_is_lost_whatever_happens() {
    holds(WIDE, STATES);
}

/// Of how many parts of the narrow worlds hack/test searches one.
const SAMPLES: usize = 3;

/// hack/test's sample number; `None`: everything.
fn sample() -> Option<usize> {
    let sample = std::env::var("READSTATES_TEST_SAMPLE").ok();
    sample.map(|number| number.parse().unwrap())
}

#[test]
fn nothing_acknowledged_is_lost_in_narrow_worlds_that_go_deeper() {
    let narrow = ALL.into_iter().filter(|(_, budget)| *budget != WIDE);
    for (at, (name, budget)) in narrow.enumerate() {
        if sample().is_some_and(|number| at % SAMPLES != number % SAMPLES) {
            continue;
        }
        let found = holds(budget, STATES / 5);
        println!("{name}: {} states, to depth {}", found.states, found.depth);
    }
}

#[test]
fn moves_alone_hold_to_the_end() {
    assert_eq!(holds(MOVES, STATES).verdict, Verdict::Complete);
}

#[test]
fn every_rule_has_a_mutant() {
    for rule in Rule::VARIANTS {
        let has_mutant = MUTANTS.iter().any(|mutant| mutant.rule == *rule);
        assert!(has_mutant, "{rule:?} has none");
    }
}

/// Rules whose loss takes a search of minutes to show.
const SEARCHED_LONG: [&str; 4] = ["R8", "R16", "R17", "R18"];

#[test]
fn every_rule_is_needed() {
    for mutant in MUTANTS {
        if !SEARCHED_LONG.contains(&mutant.name) {
            is_needed(mutant);
        }
    }
}

/// All of them, or the one that hack/test's sample number chooses.
#[test]
fn every_rule_that_is_searched_long_is_needed() {
    let chosen = sample().map(|number| SEARCHED_LONG[number % SEARCHED_LONG.len()]);
    for name in SEARCHED_LONG {
        if chosen.is_none_or(|chosen| chosen == name) {
            let mutant = MUTANTS.into_iter().find(|mutant| mutant.name == name);
            is_needed(mutant.unwrap());
        }
    }
}

/// The rule in a world in which the search, as deep as it has to go, finds no violation when the rule is kept: so what
/// it finds is the fault of the dropped rule.
fn is_needed(mutant: Mutant) {
    let Mutant { name, does, .. } = mutant;
    let budget = mutant.budget();
    let found = mutant.with(|| search(&World::new(budget), STATES, |_, _| {}));
    let Found { states, depth, .. } = found;
    assert!(
        matches!(found.verdict, Verdict::Violated { .. }),
        "{name} survives: nothing shows that it {does}"
    );
    holds(budget, states + states / 10);
    println!("{name}: died at depth {depth}, after {states} states");
}
