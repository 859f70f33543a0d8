//! The block: all read states of one user as one string of bytes, and what operations do to it.
//!
//! Pure: no clock, no IO, no locks. [`BlockRef`] reads the bytes where they lie, [`apply`] changes them
//! where they lie. They are the same in the cache, in a database cell and in a hand-off, where
//! [`crate::codec`] puts two words before them.
//!
//! | bytes, little endian | |
//! |---|---|
//! | 8 | the user's version: grows with every applied operation |
//! | 8 | base of the newest era |
//! | 8 | how many there are of what follows: `layout::Shape` |
//! | 24 each | states by channel: channel, last message, the rest in one word: `layout::Meta` |
//! | 8 each | bases of up to 3 older eras, oldest first |
//! | 8 or 0 | the last version before the newest era, unless 0 |
//! | 8 or 0 | the floor of `since`, unless that is the newest of the older bases, or 0 without one |
//! | 16 each | up to 64 deletions remembered, oldest first: channel, version |
//! | 8 each | directory of the wide states: `wide::Entry` |
//! | 2–114 each | what of these does not fit 24 bytes |
//!
//! An era is what one process did to the block: the version jumps where it begins ([`take_over`]), and
//! a state says its version as the distance from there. Four eras are told apart; the states of an
//! older one seem to have changed at the beginning of the one after it, which is later than they did
//! and too early for any `since` that can be answered.
//!
//! There is one way to write a block: whatever fits its row is there and nowhere else, and what
//! follows the states is there only when it says something. The bases are of what a block says: an era
//! stays told apart when its last state has moved on, until the next era begins.
//!
//! What a user takes, for budgets: 24 bytes and 24 per state; 8 more for each older era (at most 3) and
//! 8 for the version before the newest, so 16 once another process took over and 32 at most; 8 for a
//! floor; 16 per deletion remembered. A wide state takes 8 more and its values: 16 with a pin, 8 and 8
//! per remembered mention, 122 at most. Twenty plain states: 504 bytes, 536 at most after
//! take-overs, which is 25.2 and 26.8 per state. Four eras rather than the sixteen that four bits
//! would tell apart, because those would take 6 bytes per state of such a user in the end.

mod bulk;
mod counted;
mod edit;
mod import;
pub(crate) mod layout;
mod operation;
mod precondition;
#[cfg(test)]
pub(crate) mod reference;
pub(crate) mod since;
#[cfg(test)]
mod tests;
pub(crate) mod view;
pub(crate) mod wide;

pub use readstates_ring::fence::VERSION_GAP;
use readstates_ring::fence::{self, Needs};

pub use bulk::apply_all;
pub use counted::{Counted, Mention, REMEMBERED_MENTIONS};
pub use import::Import;
pub use operation::{Operation, Outcome, TooManyReadStates, Visit, apply};
pub use precondition::Precondition;
pub use since::{Gap, History, REMEMBERED_DELETIONS, Since};
pub use view::{BlockRef, States};

/// The most read states a user can have. At most 16 MiB packed even when each remembers eight
/// mentions, which is what one write of Cassandra or ScyllaDB may carry.
pub const MAX_READ_STATES: usize = 100_000;

/// The block of a user never seen.
pub const EMPTY: [u8; layout::HEADER] = [0; layout::HEADER];

/// Where the bytes of a block are.
pub trait Room {
    fn bytes(&self) -> &[u8];
    /// The bytes, to be changed.
    fn bytes_mut(&mut self) -> &mut [u8];
    /// Makes them more or fewer. The first ones stay, new ones are 0.
    fn resize(&mut self, length: usize);
}

impl Room for Vec<u8> {
    fn bytes(&self) -> &[u8] {
        self
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        self
    }

    fn resize(&mut self, length: usize) {
        Self::resize(self, length, 0);
    }
}

/// What a user has read of one channel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct State {
    /// The channel; never 0.
    pub channel: u64,
    /// The last message read; 0 when none was.
    pub last_message: u64,
    /// Mentions newer than `last_message`.
    pub mention_count: u32,
    /// The clients' own bits.
    pub flags: u32,
    /// Days since 2015-01-01 of the last visit.
    pub last_viewed: u16,
    /// Unix milliseconds of the newest pin seen; 0 when none was.
    pub last_pin_millis: u64,
    /// The user's version at the last change of this state.
    pub version: u64,
}

impl State {
    fn new(channel: u64) -> Self {
        Self {
            channel,
            ..Self::default()
        }
    }
}

/// Makes a block that was taken over this process's own, as a change would, without changing anything
/// else: the version jumps. Returns whether that was needed. `first_version` is the first version of the
/// slot's term.
pub fn renew(room: &mut impl Room, first_version: u64) -> bool {
    let block = BlockRef::trusted(room.bytes());
    let needed = fence::needs(block.base(), block.version(), false) == Needs::Image;
    if needed {
        edit::count_up(room, first_version);
    }
    needed
}

/// Marks the block as written by another owner, or in an earlier term: the next change jumps by
/// [`VERSION_GAP`] from the version, or from the first version of the slot's term where that is higher.
/// So it also passes an owner that took over, answered and died without writing.
pub fn take_over(room: &mut impl Room) {
    let mut shape = layout::Shape::of(room.bytes());
    shape.taken_over = true;
    shape.put(room.bytes_mut());
}
