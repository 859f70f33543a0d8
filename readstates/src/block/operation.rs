//! What each operation does to a block.
//!
//! Every operation may come again, and late. Those that carry a message id are then ignored: an
//! acknowledgement only moves forward, a mention is counted once. `Manual` may move back, and a
//! repetition of it finds nothing to change.

use super::{
    BlockRef, Counted, Import, MAX_READ_STATES, Mention, Room, State, edit, import::was_deleted,
    since,
};

/// One change of one user's block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// The user has read up to this message.
    Ack {
        channel: u64,
        message: u64,
        /// What else the client said.
        visit: Visit,
    },
    /// The user puts the position on this message, in either direction.
    Manual {
        channel: u64,
        message: u64,
        /// The mention count from now on.
        mention_count: u32,
        /// What else the client said.
        visit: Visit,
    },
    /// The user has seen the pins made until then.
    AckPins {
        channel: u64,
        /// Unix milliseconds; not 0.
        millis: u64,
    },
    /// A message mentions the user.
    Mention {
        channel: u64,
        message: u64,
        /// What it adds to the count; not 0.
        count: u32,
    },
    /// Another system has this of a channel: see [`Import`].
    Import {
        channel: u64,
        /// What it has.
        import: Import,
    },
    /// The read state of a channel goes.
    Delete { channel: u64 },
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

/// The outcome of an operation.
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
            | Self::Import { channel, .. }
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
            | Self::Mention { .. }
            | Self::Import { .. } => true,
            Self::Delete { .. } | Self::DeleteUser => false,
        }
    }
}

/// Applies one operation; `first_version` is the first version of the slot's term, see
/// [`super::take_over`].
///
/// # Errors
/// When it would exceed [`MAX_READ_STATES`]; then nothing changed.
pub fn apply(
    room: &mut impl Room,
    operation: &Operation,
    first_version: u64,
) -> Result<Outcome, TooManyReadStates> {
    match *operation {
        Operation::Ack {
            channel,
            message,
            visit,
        } => change(room, channel, first_version, |state, counted| {
            state.ack(counted, message, visit)
        }),
        Operation::Manual {
            channel,
            message,
            mention_count,
            visit,
        } => change(room, channel, first_version, |state, counted| {
            state.manual(counted, message, mention_count, visit)
        }),
        Operation::AckPins { channel, millis } => {
            change(room, channel, first_version, |state, _| {
                state.ack_pins(millis)
            })
        }
        Operation::Mention {
            channel,
            message,
            count,
        } => change(room, channel, first_version, |state, counted| {
            state.mention(counted, Mention { message, count })
        }),
        Operation::Import { channel, import } => {
            let block = BlockRef::trusted(room.bytes());
            if block.place(channel).is_err() && was_deleted(block, channel) {
                return Ok(Outcome::Ignored);
            }
            change(room, channel, first_version, |state, counted| {
                state.import(counted, import)
            })
        }
        Operation::Delete { channel } => Ok(delete(room, channel, first_version)),
        Operation::DeleteUser => Ok(delete_user(room, first_version)),
    }
}

/// Changes the state of a channel, made when there is none.
fn change(
    room: &mut impl Room,
    channel: u64,
    first_version: u64,
    change: impl FnOnce(&mut State, &mut Counted) -> Outcome,
) -> Result<Outcome, TooManyReadStates> {
    let block = BlockRef::trusted(room.bytes());
    let found = block.place(channel);
    let (mut state, mut counted) = match found {
        Ok(place) => (block.at(place), block.counted_at(place)),
        Err(_) => (State::new(channel), Counted::default()),
    };
    match change(&mut state, &mut counted) {
        Outcome::Ignored => return Ok(Outcome::Ignored),
        Outcome::Applied => {}
    }
    if found.is_err() && block.len() >= MAX_READ_STATES {
        return Err(TooManyReadStates);
    }
    edit::count_up(room, first_version);
    let place = found.unwrap_or_else(|place| {
        edit::insert(room, place, channel);
        place
    });
    edit::put(room, place, &state, &counted);
    Ok(Outcome::Applied)
}

fn delete(room: &mut impl Room, channel: u64, first_version: u64) -> Outcome {
    let Ok(place) = BlockRef::trusted(room.bytes()).place(channel) else {
        return Outcome::Ignored;
    };
    edit::remove(room, place);
    edit::count_up(room, first_version);
    edit::remember_deletion(room, channel);
    Outcome::Applied
}

fn delete_user(room: &mut impl Room, first_version: u64) -> Outcome {
    let block = BlockRef::trusted(room.bytes());
    if block.is_empty() && since::deletions(block.bytes()).next().is_none() {
        return Outcome::Ignored;
    }
    edit::count_up(room, first_version);
    edit::erase(room);
    Outcome::Applied
}

impl State {
    fn ack(&mut self, counted: &mut Counted, message: u64, visit: Visit) -> Outcome {
        if message <= self.last_message {
            return Outcome::Ignored;
        }
        self.mention_count = counted.newer_than(message, self.mention_count);
        counted.forget_through(message);
        self.last_message = message;
        self.visited(visit);
        Outcome::Applied
    }

    fn manual(
        &mut self,
        counted: &mut Counted,
        message: u64,
        mention_count: u32,
        visit: Visit,
    ) -> Outcome {
        let same = (self.last_message, self.mention_count) == (message, mention_count);
        if same && !self.is_new() && !self.would_change(visit) {
            return Outcome::Ignored;
        }
        if message < self.last_message {
            counted.rewind(message, self.last_message, mention_count);
        } else {
            counted.forget_through(message);
        }
        self.mention_count = mention_count;
        self.last_message = message;
        self.visited(visit);
        Outcome::Applied
    }

    fn ack_pins(&mut self, millis: u64) -> Outcome {
        if millis <= self.last_pin_millis {
            return Outcome::Ignored;
        }
        self.last_pin_millis = millis;
        Outcome::Applied
    }

    fn mention(&mut self, counted: &mut Counted, mention: Mention) -> Outcome {
        if mention.message <= self.last_message || counted.may_have(mention.message) {
            return Outcome::Ignored;
        }
        self.mention_count = self.mention_count.saturating_add(mention.count);
        counted.remember(mention);
        Outcome::Applied
    }

    /// Whether it is not in the block yet.
    fn is_new(&self) -> bool {
        self.version == 0
    }

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
