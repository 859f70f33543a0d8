use super::{
    budgets::{ALL, MOVES, WIDE},
    *,
};

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

#[test]
fn nothing_acknowledged_is_lost_in_narrow_worlds_that_go_deeper() {
    for (name, budget) in ALL.into_iter().filter(|(_, budget)| *budget != WIDE) {
        let found = holds(budget, STATES / 5);
        println!("{name}: {} states, to depth {}", found.states, found.depth);
    }
}

#[test]
fn moves_alone_hold_to_the_end() {
    assert_eq!(holds(MOVES, STATES).verdict, Verdict::Complete);
}

/// Each rule in a world in which the search, as deep as it has to go, finds no violation when the rule is kept: so what
/// it finds is the fault of the dropped rule.
#[test]
fn every_rule_is_needed() {
    for mutant in MUTANTS {
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
}
