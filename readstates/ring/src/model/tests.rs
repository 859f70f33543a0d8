use super::*;

/// What every run of the tests looks at. `cargo run --release --example model --features model` looks
/// at as much as one likes.
const STATES: usize = 2_000_000;

fn assert_holds(budget: Budget, most: usize) -> Found {
    let found = search(&World::new(budget), most, |_, _| {});
    assert!(
        !matches!(found.verdict, Verdict::Violated { .. }),
        "{found:#?}"
    );
    found
}

/// Wide: everything may happen, a little.
const WIDE: Budget = Budget {
    members: 3,
    operations: 2,
    swaps: 2,
    crashes: 1,
    lapses: 1,
    writes: 2,
    restores: 0,
};

/// Narrow ones go deeper: each leaves out what it does not need.
const MOVES: Budget = Budget {
    members: 2,
    operations: 1,
    swaps: 2,
    crashes: 0,
    lapses: 0,
    writes: 0,
    restores: 0,
};
const CRASH: Budget = Budget {
    operations: 2,
    crashes: 1,
    writes: 2,
    ..MOVES
};
const LAPSE: Budget = Budget {
    crashes: 0,
    lapses: 1,
    ..CRASH
};
/// With one operation they go deeper yet.
const CRASH_OF_ONE: Budget = Budget {
    operations: 1,
    ..CRASH
};
const LAPSE_OF_ONE: Budget = Budget {
    operations: 1,
    ..LAPSE
};
const CRASHES: Budget = Budget {
    members: 3,
    operations: 1,
    swaps: 2,
    crashes: 2,
    lapses: 0,
    writes: 3,
    restores: 0,
};
/// The store of the ring is restored: the owner is gone, somebody takes the slot, and the ring forgets that.
///
/// No lease runs out besides: an origin that has asked for a swap and reads that another one took the slot drops what it
/// has in this world, where the service writes it first (`Sending::run`).
const RESTORED: Budget = Budget {
    members: 3,
    operations: 1,
    swaps: 2,
    crashes: 1,
    lapses: 0,
    writes: 0,
    restores: 1,
};

/// The store forgets that a slot was handed on, and the destination's lease runs out.
const RESTORED_AND_CUT_OFF: Budget = Budget {
    members: 2,
    operations: 1,
    swaps: 2,
    crashes: 0,
    lapses: 1,
    writes: 1,
    restores: 1,
};
/// The destination crashes instead, and its last write lands late.
const RESTORED_AND_CRASHED: Budget = Budget {
    crashes: 1,
    lapses: 0,
    writes: 2,
    ..RESTORED_AND_CUT_OFF
};

#[test]
fn nothing_acknowledged_is_lost_whatever_happens() {
    assert_holds(WIDE, STATES);
}

#[test]
fn nothing_acknowledged_is_lost_when_the_ring_is_restored() {
    for budget in [RESTORED, RESTORED_AND_CUT_OFF, RESTORED_AND_CRASHED] {
        let found = assert_holds(budget, STATES / 6);
        println!("{} states, to depth {}", found.states, found.depth);
    }
}

#[test]
fn moves_alone_hold_to_the_end() {
    assert_eq!(assert_holds(MOVES, STATES).verdict, Verdict::Complete);
}

#[test]
fn every_rule_is_needed() {
    let searched = |mutant: &Mutant| !SHOWN_ELSEWHERE.contains(&mutant.name);
    for mutant in MUTANTS.into_iter().filter(searched) {
        let found = mutant.with(|| {
            let budgets: &[Budget] = match mutant.name {
                "R15" => &[RESTORED],
                "R17" => &[RESTORED_AND_CUT_OFF, RESTORED_AND_CRASHED],
                _ => &[MOVES, CRASH_OF_ONE, LAPSE_OF_ONE, CRASH, LAPSE, CRASHES],
            };
            budgets
                .iter()
                .copied()
                .map(|budget| search(&World::new(budget), STATES, |_, _| {}))
                .find(|found| matches!(found.verdict, Verdict::Violated { .. }))
        });
        let found = found.unwrap_or_else(|| {
            panic!(
                "{} survives: nothing shows that it {}",
                mutant.name, mutant.does
            )
        });
        println!(
            "{}: died at depth {}, after {} states",
            mutant.name, found.depth, found.states
        );
    }
}
