//! Blocks as clients see them.

use jiff::Timestamp;
use readstates_api::{Id, ReadState, ReadStates, Summary, Version};

use crate::block::{BlockRef, Since, State};

/// A read state. Channels of states are never 0, so there always is one.
pub(super) fn read_state(state: State) -> Option<ReadState> {
    let State {
        channel,
        last_message,
        mention_count,
        flags,
        last_viewed,
        last_pin_millis,
        version,
    } = state;
    let pin = i64::try_from(last_pin_millis)
        .ok()
        .filter(|&millis| millis > 0);
    Some(ReadState {
        channel_id: Id::new(channel)?,
        last_message_id: Id::new(last_message),
        mention_count,
        flags,
        last_viewed,
        last_pin_timestamp: pin.and_then(|millis| Timestamp::from_millisecond(millis).ok()),
        version: Version(version),
    })
}

/// All read states, or those that changed since a version where that can be told.
pub(super) fn read_states(user_id: Id, block: BlockRef<'_>, since: Option<u64>) -> ReadStates {
    let answer = match since {
        Some(version) => block.since(version),
        None => Since::Everything(block.states()),
    };
    let (partial, read_states, deleted) = match answer {
        Since::Everything(states) => (false, states.filter_map(read_state).collect(), None),
        Since::Changes { states, deleted } => {
            let deleted = deleted.into_iter().filter_map(Id::new).collect();
            (true, states.filter_map(read_state).collect(), Some(deleted))
        }
    };
    ReadStates {
        user_id,
        version: Version(block.version()),
        partial,
        read_states,
        deleted,
    }
}

/// The totals of a user.
pub(super) fn summary(user_id: Id, block: BlockRef<'_>) -> Summary {
    let (mention_count, channels_with_mentions) = block.mentions();
    Summary {
        user_id,
        version: Version(block.version()),
        mention_count,
        channels_with_mentions,
    }
}
