//! Which member should own which slot: a plan, never the truth.
//!
//! Comes in: who owns each slot now, and who is there to own slots. Goes out: who should own each,
//! such that no member has more than one slot more than another, and as few slots move as that
//! allows: a slot whose owner is there and not over its share stays. Where it is free to choose which
//! members have the one slot more, no zone has more than its members' share either.
//!
//! A slot that has to move goes to the member it prefers among those that have room. Members named by
//! ordinals 0 to N − 1 are preferred in jump order (so that a new cluster is what jump hash says, give
//! or take the last slots), any others by rendezvous weight.

use std::{cmp::Reverse, collections::HashMap};

use crate::{
    jump::{jump_hash, slot_key},
    slot::{SLOTS, Slot, mix64},
};

/// A member that can own slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The pod's name.
    pub name: String,
    /// Its ordinal, where it has one.
    pub ordinal: Option<u16>,
    /// Its zone, where known.
    pub zone: Option<String>,
}

/// Who should own each slot: an index into `candidates` for each of the 1024. `owned` says by the
/// same indexes who owns each now, `None` where it is none of the candidates.
///
/// Empty when there are no candidates or more than slots: there is nothing to plan then.
#[must_use]
pub fn plan(owned: &[Option<u16>], candidates: &[Candidate]) -> Vec<u16> {
    if candidates.is_empty() || candidates.len() > usize::from(SLOTS) {
        return Vec::new();
    }
    // Bounded by 1024 just now.
    let members = candidates.len() as u16;
    let mut room = shares(owned, candidates);
    let mut planned = vec![None; usize::from(SLOTS)];
    keep(owned, candidates, &mut room, &mut planned);
    let in_jump_order = (0..members).all(|ordinal| {
        candidates
            .iter()
            .any(|candidate| candidate.ordinal == Some(ordinal))
    });
    for slot in Slot::all() {
        let planned = &mut planned[usize::from(slot.number())];
        if planned.is_none() {
            let next = preferred(slot, candidates, in_jump_order, &room);
            room[usize::from(next)] -= 1;
            *planned = Some(next);
        }
    }
    planned.into_iter().flatten().collect()
}

/// How many slots each may own: the fair share, and one more for those that own most, so that fewest
/// move; among those that own as many, for those in the zone that lacks most.
fn shares(owned: &[Option<u16>], candidates: &[Candidate]) -> Vec<u16> {
    // Bounded by `plan`.
    let members = candidates.len() as u16;
    let mut owns = vec![0_u16; candidates.len()];
    for &owner in owned.iter().flatten() {
        if let Some(count) = owns.get_mut(usize::from(owner)) {
            *count += 1;
        }
    }
    let extra = SLOTS % members;
    // What a zone lacks of the slots that are left over, in shares of a slot: a member's is `extra`,
    // and a slot is `members`.
    let mut lacks: HashMap<Option<&str>, i32> = HashMap::new();
    for candidate in candidates {
        *lacks.entry(candidate.zone.as_deref()).or_default() += i32::from(extra);
    }
    let mut shares = vec![SLOTS / members; candidates.len()];
    let mut rest: Vec<usize> = (0..candidates.len()).collect();
    for _ in 0..extra {
        let lack = |member: usize| lacks.get(&candidates[member].zone.as_deref()).copied();
        let next = (0..rest.len()).max_by_key(|&place| {
            let member = rest[place];
            (owns[member], lack(member), Reverse(member))
        });
        let Some(member) = next.map(|place| rest.swap_remove(place)) else {
            break;
        };
        shares[member] += 1;
        *lacks.entry(candidates[member].zone.as_deref()).or_default() -= i32::from(members);
    }
    shares
}

/// Leaves slots with their owners as far as their shares go; those that a member wants least go
/// first, so that the same slots go whatever the order in which members come and leave.
fn keep(
    owned: &[Option<u16>],
    candidates: &[Candidate],
    room: &mut [u16],
    planned: &mut [Option<u16>],
) {
    for (index, candidate) in candidates.iter().enumerate() {
        let mut mine: Vec<Slot> = Slot::all()
            .filter(|slot| owned.get(usize::from(slot.number())) == Some(&Some(index as u16)))
            .collect();
        mine.sort_by_key(|&slot| Reverse(weight(slot, candidate)));
        for slot in mine.into_iter().take(usize::from(room[index])) {
            planned[usize::from(slot.number())] = Some(index as u16);
            room[index] -= 1;
        }
    }
}

/// The member with room that a slot prefers. There is always one: the shares sum up to the slots.
fn preferred(slot: Slot, candidates: &[Candidate], in_jump_order: bool, room: &[u16]) -> u16 {
    if in_jump_order {
        let ordinal = jump_hash(slot_key(slot), candidates.len() as u16);
        let jump = candidates
            .iter()
            .position(|candidate| candidate.ordinal == Some(ordinal));
        if let Some(index) = jump
            && room[index] > 0
        {
            return index as u16;
        }
    }
    let with_room = (0..candidates.len()).filter(|&index| room[index] > 0);
    with_room
        .max_by_key(|&index| weight(slot, &candidates[index]))
        .unwrap_or(0) as u16
}

/// How much a slot wants a member: highest random weight (Thaler and Ravishankar, 1998).
fn weight(slot: Slot, candidate: &Candidate) -> u64 {
    let name = candidate
        .name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            // FNV-1a; the mixing below spreads it.
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
    mix64(name ^ slot_key(slot))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pods(ordinals: impl IntoIterator<Item = u16>) -> Vec<Candidate> {
        let pod = |ordinal| Candidate {
            name: format!("chat-{ordinal}"),
            ordinal: Some(ordinal),
            zone: None,
        };
        ordinals.into_iter().map(pod).collect()
    }

    /// Who owns each slot, seen from another list of candidates.
    fn seen_by(plan: &[u16], before: &[Candidate], after: &[Candidate]) -> Vec<Option<u16>> {
        let place = |&owner: &u16| {
            after
                .iter()
                .position(|candidate| candidate.name == before[usize::from(owner)].name)
                .map(|index| index as u16)
        };
        plan.iter().map(place).collect()
    }

    fn counts(plan: &[u16], members: usize) -> Vec<usize> {
        let mut counts = vec![0; members];
        for &owner in plan {
            counts[usize::from(owner)] += 1;
        }
        counts
    }

    fn moved(owned: &[Option<u16>], plan: &[u16]) -> usize {
        owned
            .iter()
            .zip(plan)
            .filter(|(before, after)| **before != Some(**after))
            .count()
    }

    const NOBODY: [Option<u16>; SLOTS as usize] = [None; SLOTS as usize];

    #[test]
    fn a_new_cluster_is_what_jump_hash_says_but_for_the_last_slots() {
        let members = pods(0..3);
        let planned = plan(&NOBODY, &members);
        let same = Slot::all()
            .filter(|&slot| planned[usize::from(slot.number())] == jump_hash(slot_key(slot), 3))
            .count();
        assert!(same > 980, "{same} of 1024 in jump order");
    }

    #[test]
    fn one_member_more_takes_its_share_and_nothing_else_moves() {
        let (three, four) = (pods(0..3), pods(0..4));
        let before = plan(&NOBODY, &three);
        let owned = seen_by(&before, &three, &four);
        let after = plan(&owned, &four);
        assert_eq!(moved(&owned, &after), 256);
        assert!(
            owned
                .iter()
                .zip(&after)
                .all(|(before, &after)| after == 3 || *before == Some(after))
        );
        // And back: only what it owns moves.
        let owned = seen_by(&after, &four, &three);
        let back = plan(&owned, &three);
        assert_eq!(moved(&owned, &back), 256);
    }

    #[test]
    fn a_plan_that_holds_is_left_alone() {
        let members = pods([0, 2, 5]);
        let planned = plan(&NOBODY, &members);
        let owned = seen_by(&planned, &members, &members);
        assert_eq!(plan(&owned, &members), planned);
    }

    #[test]
    fn nobody_to_own_slots_is_no_plan() {
        assert_eq!(plan(&NOBODY, &[]), Vec::<u16>::new());
        assert_eq!(plan(&NOBODY, &pods(0..1025)), Vec::<u16>::new());
        assert_eq!(counts(&plan(&NOBODY, &pods(0..1024)), 1024), vec![1; 1024]);
    }

    #[test]
    fn the_slots_that_are_left_over_are_spread_over_the_zones() {
        // 1024 = 6 * 170 + 4.
        let mut members = pods(0..6);
        for (member, zone) in members.iter_mut().zip(["a", "a", "a", "b", "b", "b"]) {
            member.zone = Some(zone.to_owned());
        }
        let counts = counts(&plan(&NOBODY, &members), 6);
        assert_eq!(counts[..3].iter().sum::<usize>(), 512, "{counts:?}");
    }

    proptest! {
        #[test]
        fn no_zone_of_a_new_cluster_owns_more_than_the_share_of_its_members(
            zones in proptest::collection::vec(0_u16..4, 1..20),
        ) {
            let mut members = pods(0..zones.len() as u16);
            for (member, zone) in members.iter_mut().zip(&zones) {
                member.zone = (*zone > 0).then(|| zone.to_string());
            }
            let counts = counts(&plan(&NOBODY, &members), zones.len());
            for zone in 0..4 {
                let of_zone = |(_, of): &(_, &u16)| **of == zone;
                let owned = counts.iter().zip(&zones).filter(of_zone);
                let owned: Vec<usize> = owned.map(|(owned, _)| *owned).collect();
                let share = (1024 * owned.len()).div_ceil(zones.len());
                let owned: usize = owned.iter().sum();
                prop_assert!(owned <= share, "zone {zone}: {owned} of {share}");
            }
        }

        #[test]
        fn shares_differ_by_one_at_most_and_as_few_slots_move_as_can(
            before in proptest::collection::btree_set(0_u16..40, 1..20),
            after in proptest::collection::btree_set(0_u16..40, 1..20),
        ) {
            let (before, after) = (pods(before), pods(after));
            let owned = seen_by(&plan(&NOBODY, &before), &before, &after);
            let planned = plan(&owned, &after);
            let counts = counts(&planned, after.len());
            let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
            prop_assert!(most - least <= 1, "{counts:?}");
            // Every slot without an owner moves, and of the others only what is over a share.
            let mut owns = vec![0_usize; after.len()];
            for &owner in owned.iter().flatten() {
                owns[usize::from(owner)] += 1;
            }
            owns.sort_unstable_by(|a, b| b.cmp(a));
            let (share, extra) = (1024 / after.len(), 1024 % after.len());
            let over: usize = owns
                .iter()
                .enumerate()
                .map(|(rank, &owned)| owned.saturating_sub(share + usize::from(rank < extra)))
                .sum();
            let ownerless = owned.iter().filter(|owner| owner.is_none()).count();
            prop_assert_eq!(moved(&owned, &planned), over + ownerless);
        }
    }
}
