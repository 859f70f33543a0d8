//! Worlds to search: how much may happen in each. What a world leaves out lets the search go deeper.

use super::Mutant;
use crate::mutant::Rule;

/// How much may happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Budget {
    /// Members at work: 2 or 3.
    pub members: u8,
    /// Operations that the client sends until they are acknowledged: 1 or 2.
    pub operations: u8,
    /// Changes of the ring.
    pub swaps: u8,
    /// Crashes.
    pub crashes: u8,
    /// Leases that run out.
    pub lapses: u8,
    /// Writes to the database.
    pub writes: u8,
    /// How often the store of the ring is restored to what it was before.
    pub restores: u8,
    /// Writes of an owner before the first, which is dead, that are still on their way: 0 or 1, of the first operation.
    pub late_writes: u8,
}

/// Wide: everything may happen, a little.
pub const WIDE: Budget = Budget {
    members: 3,
    operations: 2,
    swaps: 2,
    crashes: 1,
    lapses: 1,
    writes: 2,
    restores: 0,
    late_writes: 1,
};
/// A slot moves there and back, and nothing goes wrong.
pub const MOVES: Budget = Budget {
    members: 2,
    operations: 1,
    swaps: 2,
    crashes: 0,
    lapses: 0,
    writes: 0,
    restores: 0,
    late_writes: 0,
};
/// A slot moves, and its new owner writes.
pub const MOVE: Budget = Budget {
    operations: 2,
    swaps: 1,
    writes: 1,
    ..MOVES
};
/// An owner crashes.
pub const CRASH: Budget = Budget {
    operations: 2,
    crashes: 1,
    writes: 2,
    ..MOVES
};
/// An owner's lease runs out.
pub const LAPSE: Budget = Budget {
    crashes: 0,
    lapses: 1,
    ..CRASH
};
/// It runs out, is renewed, and runs out again.
pub const LAPSES: Budget = Budget {
    operations: 1,
    lapses: 2,
    ..LAPSE
};
/// Two owners crash.
pub const CRASHES: Budget = Budget {
    members: 3,
    operations: 1,
    crashes: 2,
    writes: 3,
    ..MOVES
};
/// An owner crashes that had not seen what the owner before it wrote.
pub const LATE: Budget = Budget {
    operations: 2,
    swaps: 1,
    crashes: 1,
    writes: 1,
    late_writes: 1,
    ..MOVES
};
/// The owner is gone, another member takes the slot, and the ring forgets that.
pub const RESTORED: Budget = Budget {
    members: 3,
    crashes: 1,
    restores: 1,
    ..MOVES
};
/// The ring forgets that a slot was handed on, and the destination's lease runs out.
pub const RESTORED_AND_CUT_OFF: Budget = Budget {
    lapses: 1,
    writes: 1,
    restores: 1,
    ..MOVES
};
/// The destination crashes instead.
pub const RESTORED_AND_CRASHED: Budget = Budget {
    crashes: 1,
    lapses: 0,
    ..RESTORED_AND_CUT_OFF
};

/// The lease of a destination runs out between its confirmation and the swap, and it crashes before it serves.
pub const HANDED_AND_CRASHED: Budget = Budget {
    crashes: 1,
    lapses: 1,
    ..MOVES
};

/// All of them, with their names.
pub const ALL: [(&str, Budget); 12] = [
    ("everything, a little", WIDE),
    ("moves", MOVES),
    ("a move", MOVE),
    ("a crash", CRASH),
    ("a lapse", LAPSE),
    ("two lapses", LAPSES),
    ("two crashes", CRASHES),
    ("a late write", LATE),
    ("a restored ring", RESTORED),
    ("a restored ring, cut off", RESTORED_AND_CUT_OFF),
    ("a restored ring, crashed", RESTORED_AND_CRASHED),
    ("handed to one that crashes", HANDED_AND_CRASHED),
];

impl Mutant {
    /// The world that shows soonest that the rule is needed.
    #[must_use]
    pub fn budget(self) -> Budget {
        match self.rule {
            Rule::R1 | Rule::R2 | Rule::R3 | Rule::R4 | Rule::R5 | Rule::R9 | Rule::R10 => MOVES,
            Rule::R6 => MOVE,
            Rule::R7 => CRASH,
            Rule::R8 => LATE,
            Rule::R15 => RESTORED_AND_CUT_OFF,
            Rule::R16 | Rule::R17 => RESTORED_AND_CRASHED,
            Rule::R18 => HANDED_AND_CRASHED,
        }
    }
}
