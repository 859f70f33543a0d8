//! The block: all read states of one user, and what operations do to it.
//!
//! Pure: no clock, no IO, no locks. [`Block::apply`] takes an [`Operation`] and says what became of
//! it; reading what changed is [`Block::since`]. The packed form is in [`crate::codec`].
//!
//! ```text
//!            ┌ version ─ grows with every applied operation
//! Block ─────┤ states ── one State per channel, sorted by channel, each with the version of its change
//!            └ history ─ deletions remembered, and which versions `since` can answer for
//! ```

mod counted;
mod operation;
#[cfg(test)]
pub(crate) mod reference;
mod since;

pub use counted::{Counted, Mention, REMEMBERED_MENTIONS};
pub use operation::{Operation, Outcome, TooManyReadStates, Visit};
pub use since::{Gap, History, REMEMBERED_DELETIONS, Since};

/// The most read states a user can have. At most 16 MiB packed even when each remembers eight
/// mentions, which is what one write of Cassandra or ScyllaDB may carry.
pub const MAX_READ_STATES: usize = 100_000;

/// How far a user's version jumps at the first change by another process than the one that wrote the
/// block. The last owner may have died with changes that it had answered and not yet written; it
/// never ran further ahead of the database than this (the cache holds back changes that would), so no version is ever
/// handed out twice.
pub const VERSION_GAP: u64 = 1 << 16;

/// What a user has read of one channel.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    /// The newest mentions that were counted.
    pub counted: Counted,
}

impl State {
    fn new(channel: u64) -> Self {
        Self {
            channel,
            last_message: 0,
            mention_count: 0,
            flags: 0,
            last_viewed: 0,
            last_pin_millis: 0,
            version: 0,
            counted: Counted::default(),
        }
    }
}

/// All read states of one user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    version: u64,
    /// What the next change makes the version.
    next_version: u64,
    /// Sorted by channel, no channel twice.
    states: Vec<State>,
    history: History,
}

impl Default for Block {
    /// The block of a user never seen.
    fn default() -> Self {
        Self {
            version: 0,
            next_version: 1,
            states: Vec::new(),
            history: History::default(),
        }
    }
}

/// Why parts are no block: the codec's last check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoBlock {
    /// States out of order, a channel twice, or channel 0.
    #[error("channels are not sorted")]
    Channels,
    /// A state or a deletion is newer than the block.
    #[error("a version is above the block's")]
    Versions,
    /// More states or deletions than a block can have.
    #[error("there are too many states or deletions")]
    TooMany,
}

impl Block {
    /// A block from its parts.
    ///
    /// # Errors
    /// When they contradict each other.
    pub fn from_parts(version: u64, states: Vec<State>, history: History) -> Result<Self, NoBlock> {
        if states.len() > MAX_READ_STATES || !history.fits() {
            return Err(NoBlock::TooMany);
        }
        let sorted = states
            .windows(2)
            .all(|pair| pair[0].channel < pair[1].channel);
        if !sorted || states.first().is_some_and(|state| state.channel == 0) {
            return Err(NoBlock::Channels);
        }
        let newest = states.iter().map(|state| state.version).max().unwrap_or(0);
        if newest > version || history.newest() > version || version == u64::MAX {
            return Err(NoBlock::Versions);
        }
        Ok(Self {
            version,
            next_version: version + 1,
            states,
            history,
        })
    }

    /// The user's version.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The read states, by channel.
    #[must_use]
    pub fn states(&self) -> &[State] {
        &self.states
    }

    /// What is remembered of the past.
    #[must_use]
    pub fn history(&self) -> &History {
        &self.history
    }

    /// The read state of one channel.
    #[must_use]
    pub fn state(&self, channel: u64) -> Option<&State> {
        self.position(channel).ok().map(|index| &self.states[index])
    }

    /// How much of the cache's capacity this block takes: its states, and 1 for a user without any.
    #[must_use]
    pub fn weight(&self) -> u64 {
        self.states.len().max(1) as u64
    }

    /// The sum of all mention counts, and how many channels have one.
    #[must_use]
    pub fn mentions(&self) -> (u64, u32) {
        let counts = self
            .states
            .iter()
            .map(|state| state.mention_count)
            .filter(|&count| count > 0);
        counts.fold((0, 0), |(sum, channels), count| {
            (sum + u64::from(count), channels + 1)
        })
    }

    /// Says that the block was written by another process than this one, which started at `started`
    /// (Unix microseconds): the next change jumps by [`VERSION_GAP`] from the version, or from
    /// `started` where that is higher, so that also a process is surpassed that took over, answered and
    /// died without writing. (That one must have started more than [`VERSION_GAP`] microseconds, a
    /// fifteenth of a second, before.)
    pub fn take_over(&mut self, started: u64) {
        self.next_version = self.version.max(started).saturating_add(VERSION_GAP);
    }

    /// What the next change makes the version.
    #[must_use]
    pub fn next_version(&self) -> u64 {
        self.next_version
    }

    fn position(&self, channel: u64) -> Result<usize, usize> {
        self.states
            .binary_search_by_key(&channel, |state| state.channel)
    }

    /// Counts the version up for a change.
    fn count_up(&mut self) -> u64 {
        let next = self.next_version;
        if next > self.version.saturating_add(1) {
            self.history.jumped(self.version, next);
        }
        self.version = next;
        self.next_version = next.saturating_add(1);
        next
    }
}
