use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::{RingMember, SLOTS, Succession};

/// 2026-11-21, about.
const NOW: i64 = 1_795_000_000_000_000;
const MOST: usize = 64;

fn process(number: u16) -> Incarnation {
    Incarnation::new(u64::from(number) + 1)
}

fn live(numbers: impl IntoIterator<Item = u16>) -> Vec<Live> {
    let one = |number| Live {
        incarnation: process(number),
        candidate: Candidate {
            name: format!("chat-{number}"),
            ordinal: Some(number),
            zone: Some(["a", "b", "c"][usize::from(number) % 3].to_owned()),
        },
    };
    numbers.into_iter().map(one).collect()
}

fn swap(
    table: &RingTable,
    asked: &[(Slot, Option<Epoch>)],
    to: Incarnation,
    how: Succession,
) -> RingTable {
    let member = RingMember::new("chat", to, "http://chat:7400", None).unwrap();
    table.swap(asked, &member, how, NOW).unwrap()
}

/// The members take what they should, one after the other, until there is nothing left: what is planned
/// for the last of them may change with what the others have taken.
fn taken(mut table: RingTable, live: &[Live], dead: impl Fn(Incarnation) -> bool) -> RingTable {
    loop {
        let before = table.number();
        for member in live {
            let asked = to_take(&table, live, member.incarnation, &dead);
            let how = Succession::TakenOver;
            table = swap(&table, &asked, member.incarnation, how);
        }
        if table.number() == before {
            return table;
        }
    }
}

fn handed(table: &RingTable, batch: &Move) -> RingTable {
    let asked: Vec<_> = batch
        .slots
        .iter()
        .map(|&(slot, epoch)| (slot, Some(epoch)))
        .collect();
    swap(table, &asked, batch.to, Succession::Handed)
}

fn counts(table: &RingTable, live: &[Live]) -> Vec<usize> {
    let owned = |live: &Live| table.owned_by(live.incarnation).count();
    live.iter().map(owned).collect()
}

fn balanced(counts: &[usize]) -> bool {
    let (least, most) = (counts.iter().min(), counts.iter().max());
    most.zip(least)
        .is_some_and(|(most, least)| most - least <= 1)
}

#[test]
fn a_member_that_comes_is_given_its_share_in_batches() {
    let two = live(0..2);
    let mut table = taken(RingTable::default(), &two, |_| false);
    assert_eq!(counts(&table, &two), [512, 512]);
    let three = live(0..3);
    let mut batches = 0;
    while let Some(batch) = next_batch(&table, &three, MOST) {
        assert_eq!(batch.to, process(2));
        table = handed(&table, &batch);
        batches += 1;
    }
    assert_eq!(counts(&table, &three), [342, 341, 341]);
    // 170 and 171 slots, in batches of 64.
    assert_eq!(batches, 6);
}

#[test]
fn one_that_is_alone_keeps_everything() {
    let alone = live([0]);
    let table = taken(RingTable::default(), &alone, |_| false);
    assert_eq!(counts(&table, &alone), [1024]);
    assert_eq!(next_batch(&table, &alone, MOST), None);
    assert_eq!(next_handover(&table, &[], process(0), MOST), None);
    assert_eq!(next_batch(&table, &[], MOST), None);
}

#[test]
fn what_somebody_living_owns_is_never_taken() {
    let two = live(0..2);
    let table = taken(RingTable::default(), &two, |_| false);
    for me in [0, 2] {
        let all = live([0, 2]);
        // Member 1 cannot be given slots, and is not dead either.
        assert_eq!(to_take(&table, &all, process(me), |_| false), []);
    }
    let of_the_dead = to_take(&table, &live([0]), process(0), |owner| owner == process(1));
    assert_eq!(of_the_dead.len(), 512);
}

/// Some of twelve processes.
fn some() -> impl Strategy<Value = BTreeSet<u16>> {
    proptest::collection::btree_set(0_u16..12, 1..9)
}

proptest! {
    #[test]
    fn batches_end_in_balance_and_move_each_slot_once(
        before in some(), now in some(), most in 1_usize..200,
    ) {
        let mut table = taken(RingTable::default(), &live(before), |_| false);
        let now = live(now);
        let is_live = |owner| now.iter().any(|live| live.incarnation == owner);
        // The members that left are dead, and their slots are taken.
        table = taken(table, &now, |owner| !is_live(owner));
        prop_assert_eq!(counts(&table, &now).iter().sum::<usize>(), usize::from(SLOTS));
        let wants = planned(&table, &now);
        let to_move = table
            .configs()
            .zip(&wants)
            .filter(|((_, config), wanted)| config.owner() != **wanted)
            .count();
        let mut moved = BTreeSet::new();
        while let Some(batch) = next_batch(&table, &now, most) {
            prop_assert!((1..=most).contains(&batch.slots.len()));
            prop_assert!(is_live(batch.to) && batch.from != batch.to);
            for (slot, _) in &batch.slots {
                prop_assert_eq!(table.config(*slot).unwrap().owner(), batch.from);
                prop_assert!(moved.insert(*slot), "slot {} moved twice", slot);
            }
            table = handed(&table, &batch);
        }
        prop_assert!(balanced(&counts(&table, &now)), "{:?}", counts(&table, &now));
        prop_assert_eq!(moved.len(), to_move, "no slot more than the plan said at first");
    }

    #[test]
    fn one_that_leaves_hands_everything_to_those_who_stay(
        members in some(), leaving in 0_usize..9, most in 1_usize..200,
    ) {
        let all = live(members);
        let mut table = taken(RingTable::default(), &all, |_| false);
        let leaving = all[leaving % all.len()].incarnation;
        let stay: Vec<Live> = all.into_iter().filter(|live| live.incarnation != leaving).collect();
        let mut moved = BTreeSet::new();
        while let Some(batch) = next_handover(&table, &stay, leaving, most) {
            prop_assert!(batch.from == leaving && batch.to != leaving);
            prop_assert!(batch.slots.iter().all(|(slot, _)| moved.insert(*slot)));
            table = handed(&table, &batch);
        }
        if !stay.is_empty() {
            prop_assert_eq!(table.owned_by(leaving).count(), 0);
            prop_assert!(balanced(&counts(&table, &stay)), "{:?}", counts(&table, &stay));
        }
    }
}
