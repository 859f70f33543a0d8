//! Claims against rows in memory; two that claim at once, in every order of their steps.

use std::{
    cell::{Cell, RefCell},
    future::poll_fn,
    pin::pin,
    task::{Context, Poll, Waker},
};

use super::*;

/// Rows in memory. Every step lets the other claimant go first, if it is its turn.
#[derive(Default)]
struct Memory {
    rows: RefCell<Vec<Row>>,
    clock: Cell<i64>,
}

async fn step() {
    let mut waited = false;
    poll_fn(|_| match std::mem::replace(&mut waited, true) {
        true => Poll::Ready(()),
        false => Poll::Pending,
    })
    .await;
}

impl Memory {
    fn now(&self) -> i64 {
        self.clock.set(self.clock.get() + 1);
        self.clock.get()
    }

    fn proven(&self) -> Vec<String> {
        let rows = self.rows.borrow();
        let proven = rows.iter().filter(|row| row.proven);
        proven.map(|row| row.owner.clone()).collect()
    }
}

impl Rows for Memory {
    async fn read(&self) -> Result<Vec<Row>, SchemaError> {
        step().await;
        Ok(self.rows.borrow().clone())
    }

    async fn write(&self, claim: &Claim) -> Result<(), SchemaError> {
        step().await;
        let written = self.now();
        let mut rows = self.rows.borrow_mut();
        rows.retain(|row| row.owner != claim.name.as_str());
        rows.push(Row {
            owner: claim.name.to_string(),
            holder: claim.holder.clone(),
            since: "2026-11-24T00:00:00Z".to_owned(),
            proven: false,
            written,
        });
        Ok(())
    }

    async fn prove(&self, name: &ClaimName) -> Result<(), SchemaError> {
        step().await;
        let written = self.now();
        let mut rows = self.rows.borrow_mut();
        for row in rows.iter_mut().filter(|row| row.owner == name.as_str()) {
            (row.proven, row.written) = (true, written);
        }
        Ok(())
    }

    async fn remove(&self, owner: &str, written: i64) -> Result<(), SchemaError> {
        step().await;
        let mut rows = self.rows.borrow_mut();
        rows.retain(|row| row.owner != owner || row.written > written);
        Ok(())
    }
}

fn name(text: &str) -> ClaimName {
    text.parse().unwrap()
}

fn claim(owner: &str, take_over: TakeOver) -> Claim {
    Claim {
        name: name(owner),
        holder: format!("ReadStateCluster talk/{owner}"),
        take_over,
    }
}

/// Runs two claims, whose steps come in the order of the bits of `schedule`, and what is left of one at the end.
fn both(memory: &Memory, claims: [&Claim; 2], schedule: u32) -> [Result<Taken, SchemaError>; 2] {
    let mut first = pin!(take(memory, "ks", claims[0]));
    let mut second = pin!(take(memory, "ks", claims[1]));
    let mut context = Context::from_waker(Waker::noop());
    let (mut of_first, mut of_second) = (None, None);
    let mut bits = (0..32)
        .map(|bit| schedule >> bit & 1 == 0)
        .chain([true, false].into_iter().cycle());
    while of_first.is_none() || of_second.is_none() {
        let (turn, left) = (
            bits.next().unwrap(),
            (of_first.is_none(), of_second.is_none()),
        );
        if left.0 && (turn || !left.1) {
            if let Poll::Ready(outcome) = first.as_mut().poll(&mut context) {
                of_first = Some(outcome);
            }
        } else if let Poll::Ready(outcome) = second.as_mut().poll(&mut context) {
            of_second = Some(outcome);
        }
    }
    [of_first.unwrap(), of_second.unwrap()]
}

fn alone(memory: &Memory, claim: &Claim) -> Result<Taken, Box<SchemaError>> {
    let mut taking = pin!(take(memory, "ks", claim));
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(outcome) = taking.as_mut().poll(&mut context) {
            return outcome.map_err(Box::new);
        }
    }
}

#[test]
fn the_first_cluster_has_the_keyspace_and_a_second_is_refused_by_name() {
    let memory = Memory::default();
    let (blue, green) = (
        claim("blue", TakeOver::Never),
        claim("green", TakeOver::Never),
    );
    assert_eq!(alone(&memory, &blue).unwrap(), Taken::New);
    assert_eq!(alone(&memory, &blue).unwrap(), Taken::Held);
    let refusal = alone(&memory, &green).unwrap_err().to_string();
    for part in [
        "blue",
        "ReadStateCluster talk/blue",
        "since 2026-11-24",
        "--take-over-claim blue",
    ] {
        assert!(refusal.contains(part), "{refusal}");
    }
    // What Kubernetes shows of it is cut off after 400 characters.
    assert!(refusal.len() < 360, "{}: {refusal}", refusal.len());
    assert_eq!(memory.proven(), ["blue"]);
}

#[test]
fn of_two_that_claim_at_once_never_both_have_the_keyspace() {
    let (blue, green) = (
        claim("blue", TakeOver::Never),
        claim("green", TakeOver::Never),
    );
    let (mut by_one, mut by_none) = (0, 0);
    for schedule in 0..1 << 14 {
        let memory = Memory::default();
        let outcomes = both(&memory, [&blue, &green], schedule);
        let taken = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
        assert!(taken <= 1, "{schedule:b}: {outcomes:?}");
        assert_eq!(memory.proven().len(), taken, "{schedule:b}");
        by_one += usize::from(taken == 1);
        by_none += usize::from(taken == 0);
        // Neither is left over to stand in the way of the next attempt.
        let (again, _) = (alone(&memory, &blue), alone(&memory, &green));
        assert!(again.is_ok() || taken == 1, "{schedule:b}: {again:?}");
    }
    assert!(
        by_one > 0 && by_none > 0,
        "{by_one} {by_none}: all orders are one"
    );
}

#[test]
fn a_claim_is_taken_over_from_the_one_that_was_named_and_from_no_other() {
    let memory = Memory::default();
    alone(&memory, &claim("old", TakeOver::Never)).unwrap();
    let wrong = claim("new", TakeOver::From(name("older")));
    alone(&memory, &wrong).unwrap_err();
    assert_eq!(memory.proven(), ["old"]);

    let right = claim("new", TakeOver::From(name("old")));
    let taken = alone(&memory, &right).unwrap();
    assert!(matches!(&taken, Taken::Over(from) if from[0].owner == "old"));
    assert_eq!(memory.proven(), ["new"]);
    assert_eq!(alone(&memory, &right).unwrap(), Taken::Held);
    // The old one does not come back by itself.
    alone(&memory, &claim("old", TakeOver::Never)).unwrap_err();
}

#[test]
fn a_cluster_that_runs_the_database_has_the_keyspace_whoever_claimed_it() {
    let memory = Memory::default();
    alone(&memory, &claim("stray", TakeOver::Never)).unwrap();
    alone(&memory, &claim("home", TakeOver::Anybody)).unwrap();
    assert_eq!(memory.proven(), ["home"]);
}

#[test]
fn a_claim_that_was_given_up_half_way_is_completed_by_its_own_and_keeps_others_out() {
    let memory = Memory::default();
    let blue = claim("blue", TakeOver::Never);
    // Killed between its write and its look.
    memory.rows.borrow_mut().push(Row {
        owner: "blue".to_owned(),
        holder: blue.holder.clone(),
        since: String::new(),
        proven: false,
        written: 0,
    });
    alone(&memory, &claim("green", TakeOver::Never)).unwrap_err();
    assert_eq!(alone(&memory, &blue).unwrap(), Taken::New);
    assert_eq!(memory.proven(), ["blue"]);
}

#[test]
fn a_member_works_on_a_keyspace_of_its_own_or_of_nobody() {
    let row = |owner: &str, proven| Row {
        owner: owner.to_owned(),
        holder: "h".to_owned(),
        since: "s".to_owned(),
        proven,
        written: 1,
    };
    let me = name("me");
    let sight = |rows: &[Row]| judge(rows, Some(&me));
    assert_eq!(sight(&[]), Sight::Nobodys);
    assert_eq!(sight(&[row("me", true)]), Sight::Ours);
    assert_eq!(sight(&[row("me", true), row("it", false)]), Sight::Ours);
    let others = Sight::Others(row("it", true).others());
    assert_eq!(sight(&[row("it", true)]), others);
    assert_eq!(
        sight(&[row("it", false)]),
        others,
        "one that is being taken"
    );
    assert_eq!(
        sight(&[row("it", true), row("me", true)]),
        others,
        "edited by hand"
    );
    // One that was given no claim has no business in a keyspace that is claimed.
    assert_eq!(judge(&[row("it", true)], None), others);
    assert_eq!(judge(&[], None), Sight::Nobodys);
}

#[test]
fn a_name_is_short_and_plain() {
    for bad in ["", "a b", "a'b", &"x".repeat(65)] {
        assert!(bad.parse::<ClaimName>().is_err(), "{bad}");
    }
    let uid = "8f4b3a52-58f0-4c0b-9a52-0d6a1c9b3f10";
    assert_eq!(name(uid).to_string(), uid);
}
