use super::*;
use crate::model::{Found, Verdict, search, walk};

/// What each of these tests looks at; `hack/model --backed` looks at as much as one likes.
const STATES: usize = 100_000;

const WORLDS: [(&str, Limits); 15] = [
    ("promotion", Limits::PROMOTION),
    ("writes", Limits::WRITES),
    ("more writes", Limits::MORE_WRITES),
    ("beats", Limits::BEATS),
    ("deposed", Limits::DEPOSED),
    ("a crash", Limits::CRASH),
    ("lapses", Limits::LAPSES),
    ("seeding", Limits::SEEDING),
    ("promoted twice", Limits::PROMOTED_TWICE),
    ("promoted and moved", Limits::PROMOTED_AND_MOVED),
    ("a move", Limits::MOVE),
    ("a late write", Limits::LATE_WRITE),
    ("late writes", Limits::LATE_WRITES),
    ("a crash without backup", Limits::CRASH_ALONE),
    ("writes without backup", Limits::WRITES_ALONE),
];

/// Of how many parts of the worlds hack/test searches one.
const SAMPLES: u64 = 3;

fn sample() -> Option<u64> {
    let sample = std::env::var("READSTATES_TEST_SAMPLE").ok();
    sample.map(|number| number.parse().unwrap())
}

#[track_caller]
fn holds(name: &str, found: &Found) {
    let Found { states, depth, .. } = found;
    println!("{name}: {states}, to depth {depth}: {:?}", found.verdict);
    let violated = matches!(found.verdict, Verdict::Violated { .. });
    assert!(!violated, "{name}: {found:#?}");
}

#[test]
fn with_a_backup_nothing_acknowledged_is_lost_whatever_happens() {
    let found = search(&BackedWorld::new(Limits::WIDE), STATES, |_, _| {});
    holds("everything, a little", &found);
}

#[test]
fn nothing_acknowledged_is_lost_in_narrow_worlds_with_backups() {
    let chosen = sample().map(|number| number % SAMPLES);
    for (at, (name, limits)) in (0..).zip(WORLDS) {
        if chosen.is_some_and(|chosen| at % SAMPLES != chosen) {
            continue;
        }
        holds(name, &search(&BackedWorld::new(limits), STATES, |_, _| {}));
    }
    let found = search(&BackedWorld::new(Limits::PROMOTION), STATES, |_, _| {});
    assert_eq!(found.verdict, Verdict::Complete);
}

/// Half of the walks are those of every run.
#[test]
fn nothing_acknowledged_is_lost_on_long_random_walks() {
    for start in [
        Start::Alone,
        Start::Backed,
        Start::Changed,
        Start::Promoted,
        Start::LateWrite,
        Start::LateWrites,
    ] {
        let world = BackedWorld::new(Limits {
            start,
            ..Limits::LONG
        });
        for seed in [0, sample().unwrap_or(0) + 1] {
            let found = walk(&world, seed, 5_000, 100);
            holds(&format!("{start:?}, seed {seed}"), &found);
        }
    }
}

fn are_needed(mutants: &[Mutant]) {
    for mutant in mutants {
        let name = mutant.name;
        let found = mutant.search(STATES);
        let Found { states, depth, .. } = found;
        assert!(
            matches!(found.verdict, Verdict::Violated { .. }),
            "{name} survives: nothing shows that it {}",
            mutant.does
        );
        println!("| {name} | {depth} | {states} |");
        // What it finds is the fault of the mutant: as it is, the protocol holds there.
        let world = BackedWorld::new(mutant.limits);
        holds(name, &search(&world, states + states / 10, |_, _| {}));
    }
}

#[test]
fn every_rule_of_answers_and_promotions_is_needed() {
    are_needed(&MUTANTS[..MUTANTS.len() / 2]);
}

#[test]
fn every_rule_of_journals_and_blocks_is_needed() {
    are_needed(&MUTANTS[MUTANTS.len() / 2..]);
}
