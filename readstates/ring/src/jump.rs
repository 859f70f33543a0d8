//! Jump consistent hash: slots to member indexes.
//!
//! Lamping and Veach, "A fast, minimal memory, consistent hash algorithm" (2014). When the number of
//! members grows from n to n + 1, 1/(n + 1) of the slots move, all of them to the new member; when
//! the last member leaves, only its slots move.
//!
//! | slot | key | of 2 | of 3 | of 5 | of 64 |
//! |---|---|---|---|---|---|
//! | 0 | `0x5692161d100b05e5` | 0 | 0 | 0 | 41 |
//! | 622 | `0xe193641ae85cb3a9` | 1 | 2 | 2 | 16 |
//! | 1023 | `0x706c8d494a7c5235` | 1 | 2 | 2 | 53 |

use crate::slot::{Slot, mix64};

/// The key under which a slot is hashed: `mix64(slot + 1)`.
#[must_use]
pub fn slot_key(slot: Slot) -> u64 {
    mix64(u64::from(slot.number()) + 1)
}

/// The index, below `members`, that jump hash gives to `key`.
///
/// # Panics
/// When `members` is 0: a ring without members does not exist.
#[must_use]
pub fn jump_hash(key: u64, members: u16) -> u16 {
    assert!(members > 0, "jump hash over no members");
    let mut state = key;
    let mut candidate = 0_u64;
    let mut next = 0_u64;
    while next < u64::from(members) {
        candidate = next;
        state = state
            .wrapping_mul(2_862_933_555_777_941_757)
            .wrapping_add(1);
        // Both operands are below 2^53, so the quotient is the same on every machine.
        let scale = (1_u64 << 31) as f64 / ((state >> 33) + 1) as f64;
        next = ((candidate + 1) as f64 * scale) as u64;
    }
    // Below `members`, which is a u16.
    candidate as u16
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_published_vectors_hold() {
        let vectors = [
            (0, 0x5692_161d_100b_05e5, [0, 0, 0, 41]),
            (622, 0xe193_641a_e85c_b3a9, [1, 2, 2, 16]),
            (1023, 0x706c_8d49_4a7c_5235, [1, 2, 2, 53]),
        ];
        for (slot, key, owners) in vectors {
            let slot = Slot::new(slot).unwrap();
            assert_eq!(slot_key(slot), key, "key of slot {slot}");
            for (members, owner) in [2, 3, 5, 64].into_iter().zip(owners) {
                assert_eq!(jump_hash(key, members), owner, "slot {slot} of {members}");
            }
        }
    }

    #[test]
    fn every_member_gets_a_fair_share() {
        for members in 1_u16..=64 {
            let mut share = vec![0_u16; usize::from(members)];
            for slot in Slot::all() {
                share[usize::from(jump_hash(slot_key(slot), members))] += 1;
            }
            let fair = crate::SLOTS / members;
            assert!(
                share.iter().all(|&slots| slots > 0 && slots < 2 * fair + 8),
                "{members}: {share:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn a_new_member_takes_slots_and_no_other_slot_moves(key: u64, members in 1_u16..1023) {
            let before = jump_hash(key, members);
            let after = jump_hash(key, members + 1);
            prop_assert!(before < members);
            prop_assert!(after == before || after == members);
        }
    }
}
