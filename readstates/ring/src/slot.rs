//! Users to slots: the public hash.
//!
//! `hash(user) = finaliser of SplitMix64 (user)`, `slot(user) = hash(user) >> 54`.
//! SplitMix64 is by Steele, Lea and Flood ("Fast splittable pseudorandom number generators", 2014);
//! the constants are Stafford's variant 13.
//!
//! | user id | hash | slot |
//! |---|---|---|
//! | 1 | `0x5692161d100b05e5` | 346 |
//! | 2 | `0xdbd238973a2b148a` | 879 |
//! | 81384788765712384 | `0xfc757cc15d2899fd` | 1009 |
//! | 1175928847299117063 | `0xf30311cea6cec4d4` | 972 |
//! | 18446744073709551615 | `0xb4d055fcf2cbbd7b` | 723 |

use std::fmt;

/// How many slots there are: enough that 64 members differ by little, few enough that the whole
/// table is two kilobytes.
pub const SLOTS: u16 = 1024;

/// The name under which the ring document publishes the hash of this module.
pub const HASH_NAME: &str = "splitmix64-finalizer/top10";

/// Bits of the hash that do not count: 64 − log2([`SLOTS`]).
const SLOT_SHIFT: u32 = 64 - SLOTS.trailing_zeros();

/// One of the [`SLOTS`] hash buckets of users; the unit of ownership.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(u16);

impl Slot {
    /// The slot of a user: the top ten bits of [`mix64`] of its id.
    #[must_use]
    pub fn of_user(user_id: u64) -> Self {
        // Ten bits always fit.
        Self((mix64(user_id) >> SLOT_SHIFT) as u16)
    }

    /// The slot with this number, if it is below [`SLOTS`].
    #[must_use]
    pub fn new(number: u16) -> Option<Self> {
        (number < SLOTS).then_some(Self(number))
    }

    /// The number of this slot, below [`SLOTS`].
    #[must_use]
    pub fn number(self) -> u16 {
        self.0
    }

    /// All slots, in order.
    pub fn all() -> impl ExactSizeIterator<Item = Self> {
        (0..SLOTS).map(Self)
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The finaliser of SplitMix64: a bijection of 64 bits in which every input bit moves every output
/// bit.
#[must_use]
pub const fn mix64(value: u64) -> u64 {
    let mut z = value;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_vectors_hold() {
        let vectors = [
            (1, 0x5692_161d_100b_05e5, 346),
            (2, 0xdbd2_3897_3a2b_148a, 879),
            (81_384_788_765_712_384, 0xfc75_7cc1_5d28_99fd, 1009),
            (1_175_928_847_299_117_063, 0xf303_11ce_a6ce_c4d4, 972),
            (u64::MAX, 0xb4d0_55fc_f2cb_bd7b, 723),
        ];
        for (user, hash, slot) in vectors {
            assert_eq!(mix64(user), hash, "hash of {user}");
            assert_eq!(Slot::of_user(user).number(), slot, "slot of {user}");
        }
    }

    #[test]
    fn consecutive_users_spread_evenly_over_the_slots() {
        let mut users_in = vec![0_u32; usize::from(SLOTS)];
        for user in 1..=1_024_000_u64 {
            users_in[usize::from(Slot::of_user(user << 22).number())] += 1;
        }
        let (least, most) = (
            users_in.iter().min().unwrap(),
            users_in.iter().max().unwrap(),
        );
        assert!(
            *least > 800 && *most < 1200,
            "between {least} and {most} for a mean of 1000"
        );
    }

    #[test]
    fn only_numbers_below_1024_are_slots() {
        assert_eq!(Slot::new(1023).map(Slot::number), Some(1023));
        assert_eq!(Slot::new(1024), None);
        assert_eq!(Slot::all().len(), 1024);
    }
}
