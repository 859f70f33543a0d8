//! The protocol of an owner with a backup under search: [`crate::replication`] and [`crate::handoff`] as they are.
//!
//! One slot, one user, three pods, up to three operations of clients that are sent until they are acknowledged. Frames
//! and acknowledgements arrive late, twice, in any order or never. A swap of the ring is asked for and carried out at
//! any later time, also after whoever asked has died, and nobody is told but by reading the ring. Writes of whole blocks
//! land late, also after they were given up; the one with the highest stamp stays. Loads take two steps. Blocks are
//! evicted, backups seeded, dropped and promoted, slots moved, taken back and taken over; leases run out, and processes
//! crash and return without memory.
//!
//! Time stands still, but for the silence before a promotion. Whoever may answer a read does, in every state. What must
//! hold, at every answer:
//!
//! - Nothing is answered at an epoch once a later one has answered.
//! - Everything that was acknowledged, or that a read has shown, is there, unless a take-over from a dead owner *and* its
//!   dead backup has said that it is lost: what was not in the database for sure. A read of a block that another owner
//!   has written may show what was never acknowledged and vanishes again.
//! - Nothing was applied twice, and a version stands for one content.
//!
//! Breadth first finds the shortest violation, random walks go deeper, and searches that begin with a prepared state
//! ([`Start`]) do both. Each way not to keep the rules is taken once ([`MUTANTS`]), and the search must notice, in a
//! world in which nothing is violated otherwise:
//!
//! | mutant | depth | after states |
//! |---|---|---|
//! | change without ticket | 9 | 463 |
//! | read without ticket | 8 | 281 |
//! | change without permission | 11 | 927 |
//! | read without permission | 7 | 194 |
//! | no lease | 10 | 8,187 |
//! | permission from receipt | 10 | 4,356 |
//! | drops alone | 8 | 313 |
//! | new backup not asked | 13 | 5,901 |
//! | named too early | 13 | 21,526 |
//! | seeds unreplayed | 12 | 3,001 |
//! | moves unreplayed | 12 | 2,544 |
//! | accepts until promoted | 10 | 5,231 |
//! | answers at once | 7 | 432 |
//! | accepts after promotion | 10 | 4,972 |
//! | trims after promise | 13 | 11,117 |
//! | accepts gaps | 10 | 3,569 |
//! | promotes incomplete | 14 | 7,621 |
//! | takes from living backup | 14 | 5,268 |
//! | trims when sent | 12 | 17,467 |
//! | compares without epoch | 10 | 2,390 |
//! | replays all | 9 | 8,279 |
//! | leaves base | 11 | 35,198 |
//! | restamps alone | 9 | 15,614 |
//! | leaves base of ignored | 10 | 28,865 |
//! | frees handed images | 11 | 6,553 |
//! | last write to land | 13 | 981 |
//! | counts on | 13 | 671 |
//!
//! Walks found a fault in the first form of these functions, after 87 steps: a backup that was promoted past a swap that
//! it had not seen took its journal for that of another owner, and dropped it (now a test of the named ones).
//!
//! Two faults cannot be seen here. A seed that leaves an older journal in its place: a backup learns the epoch before it
//! is seeded. And reads that do not make a foreign block the owner's own: that is what the protocol does.

mod limits;
mod mutants;
#[cfg(test)]
mod tests;
mod world;

pub use limits::{Limits, Start};
pub use mutants::{MUTANTS, Mutant};
pub use world::BackedWorld;
