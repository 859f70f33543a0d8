//! Every transition with an operator that dies after its first, second, … write of any turn, or whose decision is
//! carried out long after it was made, when the world has changed: the end is the same, and what must never happen (see
//! `Sim::check` and the assertions of the world) did not.

use super::sim::{Sim, spec, two_and_two};

/// Asks for something, or does something to the world.
type Step = fn(&mut Sim);

/// A change to a database of two racks with two nodes each: a request, or an event.
struct Change {
    what: &'static str,
    begin: Step,
    /// A second step, this many turns later.
    then: Option<(usize, Step)>,
}

/// Of how many parts of the changes hack/test runs one.
const SAMPLES: usize = 9;

/// Turns in which something may go wrong, which is longer than any of the changes takes.
const TURNS: usize = 60;

fn delete(spec: &str) -> String {
    format!("{spec}  reclaim: Delete\n")
}

fn grow(sim: &mut Sim) {
    sim.respec(&delete(&spec(2, &[3, 2])));
}

fn shrink(sim: &mut Sim) {
    sim.respec(&delete(&spec(2, &[2, 1])));
}

fn take_back(sim: &mut Sim) {
    sim.respec(&delete(&two_and_two()));
}

fn roll(sim: &mut Sim) {
    sim.also("  image: next\n");
}

fn roll_back(sim: &mut Sim) {
    sim.respec(&delete(&two_and_two()));
}

fn roll_and_add_a_rack(sim: &mut Sim) {
    sim.respec(&format!("{}  image: next\n", delete(&spec(2, &[2, 2, 1]))));
}

fn shrink_too(sim: &mut Sim) {
    sim.respec(&format!("{}  image: next\n", delete(&spec(2, &[2, 1]))));
}

fn lose_a_disk(sim: &mut Sim) {
    sim.lose_disk("chat-db-a-1");
}

fn lose_another_disk(sim: &mut Sim) {
    sim.lose_disk("chat-db-b-0");
}

fn lose_a_rack(sim: &mut Sim) {
    sim.may_be_down = 2;
    sim.lose_disk("chat-db-a-0");
    sim.lose_disk("chat-db-a-1");
}

fn a_week_passes(sim: &mut Sim) {
    sim.clock += jiff::SignedDuration::from_hours(7 * 24);
}

/// From here on the simulation plays what schema Jobs do to the keyspace, which has two copies of everything.
fn raise(sim: &mut Sim) {
    sim.keyspace = Some(2);
    sim.run();
    sim.respec(&delete(&spec(3, &[2, 2])));
}

fn lower(sim: &mut Sim) {
    sim.keyspace = Some(2);
    sim.run();
    sim.respec(&delete(&spec(1, &[2, 2])));
}

fn take_back_and_lose_a_disk(sim: &mut Sim) {
    take_back(sim);
    lose_another_disk(sim);
}

fn changes() -> Vec<Change> {
    let change = |what, begin, then| Change { what, begin, then };
    vec![
        change("grow", grow, None),
        change("shrink", shrink, None),
        change("roll", roll, None),
        change(
            "roll, taken back when the first has restarted",
            roll,
            Some((8, roll_back)),
        ),
        change(
            "roll, and a disk is lost meanwhile",
            roll,
            Some((9, lose_a_disk)),
        ),
        change(
            "roll, taken back while snapshots are taken",
            roll,
            Some((4, roll_back)),
        ),
        change(
            "roll, and add a rack meanwhile",
            roll,
            Some((9, roll_and_add_a_rack)),
        ),
        change("replace", lose_a_disk, None),
        change("replace two of a rack", lose_a_rack, None),
        change("shrink, taken back at once", shrink, Some((1, take_back))),
        change(
            "shrink, taken back when it is told",
            shrink,
            Some((2, take_back)),
        ),
        change(
            "shrink, taken back when it is done",
            shrink,
            Some((4, take_back)),
        ),
        change("grow, taken back", grow, Some((2, take_back))),
        change("roll, and shrink meanwhile", roll, Some((2, shrink_too))),
        change("shrink, and roll meanwhile", shrink, Some((2, roll))),
        change(
            "grow, and a disk is lost meanwhile",
            grow,
            Some((2, lose_a_disk)),
        ),
        change(
            "grow, and a disk of a later rack is lost meanwhile",
            grow,
            Some((2, lose_another_disk)),
        ),
        change(
            "grow, taken back when a disk is lost",
            grow,
            Some((2, take_back_and_lose_a_disk)),
        ),
        change("repair by schedule", a_week_passes, None),
        change(
            "repair by schedule, and a disk is lost meanwhile",
            a_week_passes,
            Some((3, lose_a_disk)),
        ),
        change(
            "repair by schedule, and grow meanwhile",
            a_week_passes,
            Some((2, grow)),
        ),
        change(
            "replace, and shrink meanwhile",
            lose_a_disk,
            Some((4, shrink)),
        ),
        change("one more copy", raise, None),
        change("one more copy, taken back", raise, Some((4, take_back))),
        change(
            "one more copy, and a disk is lost meanwhile",
            raise,
            Some((5, lose_a_disk)),
        ),
        change("one copy less", lower, None),
        change("one copy less, taken back", lower, Some((3, take_back))),
    ]
}

/// All changes, or those that hack/test's sample number chooses.
fn changes_in_turn() -> impl Iterator<Item = Change> {
    let sample = std::env::var("READSTATES_TEST_SAMPLE").ok();
    let sample: Option<usize> = sample.map(|number| number.parse().unwrap());
    let is_chosen = move |&(at, _): &(usize, Change)| {
        sample.is_none_or(|number| at % SAMPLES == number % SAMPLES)
    };
    let chosen = changes().into_iter().enumerate().filter(is_chosen);
    chosen.map(|(_, change)| change)
}

impl Change {
    /// What is asked before this turn.
    fn ask(&self, sim: &mut Sim, at: usize) {
        if at == 0 {
            (self.begin)(sim);
        }
        if let Some((when, then)) = self.then
            && at == when
        {
            then(sim);
        }
    }

    /// Every state of a calm course, before the operator looks; and its end.
    fn course(&self) -> (Vec<Sim>, Sim) {
        let mut sim = Sim::up(&delete(&two_and_two()));
        let mut states = Vec::new();
        for at in 0..TURNS {
            self.ask(&mut sim, at);
            states.push(sim.clone());
            sim.turn(usize::MAX);
            if at > self.then.map_or(0, |(when, _)| when) && sim.rests() {
                break;
            }
        }
        sim.run();
        (states, sim)
    }

    /// From this state before turn `at`, calmly to the end.
    fn on(&self, mut sim: Sim, at: usize) -> Sim {
        let asked = self.then.map_or(0, |(when, _)| when + 1);
        for at in at..asked {
            self.ask(&mut sim, at);
            sim.turn(usize::MAX);
        }
        sim.run();
        sim
    }
}

fn assert_same(sim: &Sim, calm: &Sim, place: &str) {
    assert_eq!(sim.members(), calm.members(), "{place}: {:?}", sim.log);
    assert_eq!(sim.told(), calm.told(), "{place}: {:?}", sim.log);
    assert_eq!(sim.waits(), calm.waits(), "{place}: {:?}", sim.log);
    assert_eq!(sim.repaired(), calm.repaired(), "{place}: {:?}", sim.log);
    assert_eq!(sim.images(), calm.images(), "{place}: {:?}", sim.steps);
    let copies = |sim: &Sim| {
        let recorded = sim.replication.as_ref();
        let recorded = recorded.map(|it| (it.keyspace, it.complete, it.stage));
        (sim.keyspace, recorded)
    };
    assert_eq!(copies(sim), copies(calm), "{place}: {:?}", sim.log);
    // Of one copy there is nothing to compare.
    let equal = sim.unequal.is_empty() || sim.keyspace == Some(1);
    assert!(equal, "{place}: {:?}", sim.log);
    // Snapshots are kept by record, or not at all. Whether there is anything to go back to depends on how far it came.
    let kept = sim.upgrade.iter().map(|upgrade| upgrade.snapshot.as_str());
    assert!(
        sim.snapshots().into_iter().eq(kept),
        "{place}: {:?} {:?}",
        sim.upgrade,
        sim.steps
    );
}

#[test]
fn an_operator_that_dies_between_any_two_writes_ends_where_it_would_have() {
    for change in changes_in_turn() {
        let (states, calm) = change.course();
        for (at, state) in states.iter().enumerate() {
            for writes in 0..state.decide().writes() {
                let mut sim = state.clone();
                sim.turn(writes);
                let sim = change.on(sim, at + 1);
                let place = format!("{}, turn {at}, {writes} writes", change.what);
                assert_same(&sim, &calm, &place);
            }
        }
    }
}

#[test]
fn an_operator_that_dies_again_and_again_ends_where_it_would_have() {
    for change in changes_in_turn() {
        let (states, calm) = change.course();
        for writes in 0..5 {
            let mut sim = states[0].clone();
            for at in 0..2 * states.len() {
                if at > 0 {
                    change.ask(&mut sim, at);
                }
                sim.turn(if at % 2 == 0 { writes } else { usize::MAX });
            }
            sim.run();
            assert_same(&sim, &calm, &format!("{}, {writes} writes", change.what));
        }
    }
}

/// Nothing may rest on a write that comes after others: it may be long until an operator gets so far twice.
#[test]
fn operators_that_die_at_every_write_end_where_one_would_have() {
    for change in changes_in_turn() {
        let (_, calm) = change.course();
        let mut sim = Sim::up(&delete(&two_and_two()));
        for at in 0..=change.then.map_or(0, |(when, _)| when) {
            change.ask(&mut sim, at);
            sim.deadly_turn();
        }
        sim.run_by(Sim::deadly_turn);
        assert_same(&sim, &calm, change.what);
    }
}

/// Two operators at once, one of which is slow: it has looked and decided, and is held up until the other one has
/// done a good deal.
#[test]
fn what_an_operator_decided_long_ago_does_no_harm() {
    for change in changes_in_turn() {
        let (states, calm) = change.course();
        for (decided_in, state) in states.iter().enumerate() {
            let late = state.decide();
            for (at, state) in states.iter().enumerate().skip(decided_in + 1).step_by(2) {
                let mut sim = state.clone();
                sim.carry_out(late.clone(), usize::MAX);
                sim.turn(usize::MAX);
                let sim = change.on(sim, at + 1);
                let place = format!(
                    "{}, decided in turn {decided_in}, done in {at}",
                    change.what
                );
                assert_same(&sim, &calm, &place);
            }
        }
    }
}
