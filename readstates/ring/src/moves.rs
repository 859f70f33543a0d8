//! What should move now: the plan, cut into batches that one member hands to one other.
//!
//! Comes in: the ring, and who can own slots (live, and not draining). Goes out: the next batch for
//! balance, for a member that leaves, or for one that takes slots without an owner. The same ring and the
//! same members always give the same answer; where members see different ones, the swap decides.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};

use crate::{
    Epoch, Incarnation, RingTable, SlotConfig,
    planner::{Candidate, plan},
    replication,
    slot::Slot,
};

/// A process that can be given slots: live, and not draining.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Live {
    /// The process.
    pub incarnation: Incarnation,
    /// What the plan goes by.
    pub candidate: Candidate,
}

/// Slots that one member should hand to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move {
    /// Their owner.
    pub from: Incarnation,
    /// Who should be next.
    pub to: Incarnation,
    /// In order, with the epochs at which they are owned.
    pub slots: Vec<(Slot, Epoch)>,
}

/// Who should own each slot, in order; empty when no member can.
#[must_use]
pub fn planned(table: &RingTable, live: &[Live]) -> Vec<Incarnation> {
    let places: HashMap<Incarnation, u16> =
        live.iter().map(|live| live.incarnation).zip(0..).collect();
    let place = |config: SlotConfig| places.get(&config.owner()).copied();
    let owned: Vec<Option<u16>> = Slot::all()
        .map(|slot| table.config(slot).and_then(place))
        .collect();
    let candidates: Vec<Candidate> = live.iter().map(|live| live.candidate.clone()).collect();
    let planned = plan(&owned, &candidates);
    let owner = |&place: &u16| live[usize::from(place)].incarnation;
    planned.iter().map(owner).collect()
}

/// The next batch, of `most` slots at most, that brings the live members nearer to balance; `None`
/// when they are balanced. It is for the pair of members with most to move, so that few moves do much.
#[must_use]
pub fn next_batch(table: &RingTable, live: &[Live], most: usize) -> Option<Move> {
    let gives = |owner| live.iter().any(|live| live.incarnation == owner);
    largest(table, live, gives, most)
}

/// The next batch, of `most` slots at most, that a member which leaves should hand on; `None` when it
/// owns nothing, or no member is there to hand it to. `live` does not list it.
#[must_use]
pub fn next_handover(
    table: &RingTable,
    live: &[Live],
    leaving: Incarnation,
    most: usize,
) -> Option<Move> {
    largest(table, live, |owner| owner == leaving, most)
}

/// What `me` should take: slots that are planned for it, and that were never owned or whose owner is
/// `dead`, and its backup, too; each with the epoch to expect.
pub fn to_take(
    table: &RingTable,
    live: &[Live],
    me: Incarnation,
    dead: impl Fn(Incarnation) -> bool,
) -> Vec<(Slot, Option<Epoch>)> {
    let free = |config: &Option<SlotConfig>| {
        config.is_none_or(|config| replication::may_take(&config, &dead, |_| false))
    };
    Slot::all()
        .zip(planned(table, live))
        .filter(|&(_, planned)| planned == me)
        .map(|(slot, _)| (slot, table.config(slot)))
        .filter(|(_, config)| free(config))
        .map(|(slot, config)| (slot, config.map(|config| config.epoch())))
        .collect()
}

/// Of all moves away from members that give, those of the pair of members with the most of them.
fn largest(
    table: &RingTable,
    live: &[Live],
    gives: impl Fn(Incarnation) -> bool,
    most: usize,
) -> Option<Move> {
    let mut moves: BTreeMap<(Incarnation, Incarnation), Vec<(Slot, Epoch)>> = BTreeMap::new();
    for (slot, to) in Slot::all().zip(planned(table, live)) {
        let Some(config) = table.config(slot) else {
            continue;
        };
        let from = config.owner();
        if from != to && gives(from) {
            let slots = moves.entry((from, to)).or_default();
            slots.push((slot, config.epoch()));
        }
    }
    let ((from, to), mut slots) = moves.into_iter().max_by_key(|(_, slots)| slots.len())?;
    slots.truncate(most);
    Some(Move { from, to, slots })
}
