//! What each operation does to a block.
//!
//! Every operation may come again, and late. Those that carry a message id are then ignored: an
//! acknowledgement only moves forward, a mention is counted once. `Manual` may move back, and a
//! repetition of it finds nothing to change.

use super::{Block, MAX_READ_STATES, Mention, State};

/// One change of one user's block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// The user has read up to this message.
    Ack {
        /// The channel.
        channel: u64,
        /// The message.
        message: u64,
        /// What else the client said.
        visit: Visit,
    },
    /// The user puts the position on this message, in either direction.
    Manual {
        /// The channel.
        channel: u64,
        /// The message.
        message: u64,
        /// The mention count from now on.
        mention_count: u32,
        /// What else the client said.
        visit: Visit,
    },
    /// The user has seen the pins made until then.
    AckPins {
        /// The channel.
        channel: u64,
        /// Unix milliseconds; not 0.
        millis: u64,
    },
    /// A message mentions the user.
    Mention {
        /// The channel.
        channel: u64,
        /// The message.
        message: u64,
        /// What it adds to the count; not 0.
        count: u32,
    },
    /// The read state of a channel goes.
    Delete {
        /// The channel.
        channel: u64,
    },
    /// Everything of the user goes, except that the version does not go back.
    DeleteUser,
}

/// What a client says about itself along with an acknowledgement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Visit {
    /// New flags; `None`: they stay.
    pub flags: Option<u32>,
    /// The day of the visit; only a later one counts.
    pub last_viewed: Option<u16>,
}

/// What became of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The block changed, and its version grew.
    Applied,
    /// Nothing changed.
    Ignored,
}

/// The operation needs a new read state, and the user has [`MAX_READ_STATES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the user has {MAX_READ_STATES} read states, the most a user can have")]
pub struct TooManyReadStates;

impl Operation {
    /// The channel it is about, if it is about one.
    #[must_use]
    pub fn channel(&self) -> Option<u64> {
        match *self {
            Self::Ack { channel, .. }
            | Self::Manual { channel, .. }
            | Self::AckPins { channel, .. }
            | Self::Mention { channel, .. }
            | Self::Delete { channel } => Some(channel),
            Self::DeleteUser => None,
        }
    }

    /// Whether it makes a read state when there is none.
    #[must_use]
    pub fn creates(&self) -> bool {
        match self {
            Self::Ack { .. }
            | Self::Manual { .. }
            | Self::AckPins { .. }
            | Self::Mention { .. } => true,
            Self::Delete { .. } | Self::DeleteUser => false,
        }
    }
}

impl Block {
    /// Applies one operation.
    ///
    /// # Errors
    /// When it would exceed [`MAX_READ_STATES`]; then nothing changed.
    pub fn apply(&mut self, operation: &Operation) -> Result<Outcome, TooManyReadStates> {
        match *operation {
            Operation::Ack {
                channel,
                message,
                visit,
            } => self.ack(channel, message, visit),
            Operation::Manual {
                channel,
                message,
                mention_count,
                visit,
            } => self.manual(channel, message, mention_count, visit),
            Operation::AckPins { channel, millis } => self.ack_pins(channel, millis),
            Operation::Mention {
                channel,
                message,
                count,
            } => self.mention(channel, message, count),
            Operation::Delete { channel } => Ok(self.delete(channel)),
            Operation::DeleteUser => Ok(self.delete_user()),
        }
    }

    fn ack(
        &mut self,
        channel: u64,
        message: u64,
        visit: Visit,
    ) -> Result<Outcome, TooManyReadStates> {
        if message <= self.state(channel).map_or(0, |state| state.last_message) {
            return Ok(Outcome::Ignored);
        }
        let state = self.changing(channel)?;
        state.mention_count = state.counted.newer_than(message, state.mention_count);
        state.last_message = message;
        state.visited(visit);
        Ok(Outcome::Applied)
    }

    fn manual(
        &mut self,
        channel: u64,
        message: u64,
        mention_count: u32,
        visit: Visit,
    ) -> Result<Outcome, TooManyReadStates> {
        let repeated = self.state(channel).is_some_and(|state| {
            (state.last_message, state.mention_count) == (message, mention_count)
                && !state.would_change(visit)
        });
        if repeated {
            return Ok(Outcome::Ignored);
        }
        let state = self.changing(channel)?;
        state.mention_count = mention_count;
        state.last_message = message;
        state.visited(visit);
        Ok(Outcome::Applied)
    }

    fn ack_pins(&mut self, channel: u64, millis: u64) -> Result<Outcome, TooManyReadStates> {
        if millis <= self.state(channel).map_or(0, |state| state.last_pin_millis) {
            return Ok(Outcome::Ignored);
        }
        self.changing(channel)?.last_pin_millis = millis;
        Ok(Outcome::Applied)
    }

    fn mention(
        &mut self,
        channel: u64,
        message: u64,
        count: u32,
    ) -> Result<Outcome, TooManyReadStates> {
        let known = self
            .state(channel)
            .is_some_and(|state| message <= state.last_message || state.counted.may_have(message));
        if known {
            return Ok(Outcome::Ignored);
        }
        let state = self.changing(channel)?;
        state.mention_count = state.mention_count.saturating_add(count);
        state.counted.remember(Mention { message, count });
        Ok(Outcome::Applied)
    }

    /// The state of a channel, made when there is none, marked as changed now.
    fn changing(&mut self, channel: u64) -> Result<&mut State, TooManyReadStates> {
        let index = match self.position(channel) {
            Ok(index) => index,
            Err(_) if self.states.len() >= MAX_READ_STATES => return Err(TooManyReadStates),
            Err(index) => {
                self.states.insert(index, State::new(channel));
                self.history.revived(channel);
                index
            }
        };
        let version = self.count_up();
        let state = &mut self.states[index];
        state.version = version;
        Ok(state)
    }

    fn delete(&mut self, channel: u64) -> Outcome {
        let Ok(index) = self.position(channel) else {
            return Outcome::Ignored;
        };
        self.states.remove(index);
        let version = self.count_up();
        self.history.deleted(channel, version);
        Outcome::Applied
    }

    fn delete_user(&mut self) -> Outcome {
        if self.states.is_empty() && self.history.deleted.is_empty() {
            return Outcome::Ignored;
        }
        self.states = Vec::new();
        let version = self.count_up();
        self.history.erased(version);
        Outcome::Applied
    }
}

impl State {
    fn would_change(&self, visit: Visit) -> bool {
        visit.flags.is_some_and(|flags| flags != self.flags)
            || visit.last_viewed.is_some_and(|day| day > self.last_viewed)
    }

    fn visited(&mut self, visit: Visit) {
        if let Some(flags) = visit.flags {
            self.flags = flags;
        }
        self.last_viewed = self.last_viewed.max(visit.last_viewed.unwrap_or(0));
    }
}
