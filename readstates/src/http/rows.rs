//! Answers about read states in binary, written straight from the block: the form of [`readstates_api::rows`].

use readstates_api::rows::{DELETED_BYTES, HEADER_BYTES, Head, ROW_BYTES, Row};

use crate::block::{BlockRef, REMEMBERED_DELETIONS, Since, State};

/// What so many states take at most.
pub(super) const fn most_bytes(states: usize) -> usize {
    HEADER_BYTES + states * ROW_BYTES + REMEMBERED_DELETIONS * DELETED_BYTES
}

/// All read states, or those that changed since a version where that can be told: `shown` of them.
pub(super) fn read_states(
    user: u64,
    block: BlockRef<'_>,
    since: Option<u64>,
    shown: usize,
) -> Vec<u8> {
    let answer = match since {
        Some(version) => block.since(version),
        None => Since::Everything(block.states()),
    };
    let head = Head {
        user,
        version: block.version(),
        partial: false,
        rows: shown,
        deleted: 0,
        next: 0,
    };
    match answer {
        Since::Everything(states) => write(&head, states, &[]),
        Since::Changes { states, deleted } => {
            let head = Head {
                partial: true,
                deleted: deleted.len(),
                ..head
            };
            write(&head, states.into_iter(), &deleted)
        }
    }
}

/// A page of read states of a user at this version, and the channel after which the next one begins.
pub(super) fn page(user: u64, version: u64, states: &[State], next: Option<u64>) -> Vec<u8> {
    let head = Head {
        user,
        version,
        partial: false,
        rows: states.len(),
        deleted: 0,
        next: next.unwrap_or(0),
    };
    write(&head, states.iter().copied(), &[])
}

fn write(head: &Head, states: impl Iterator<Item = State>, deleted: &[u64]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(head.bytes());
    bytes.extend_from_slice(&head.to_bytes());
    for state in states {
        bytes.extend_from_slice(&row(&state).to_bytes());
    }
    for channel in deleted {
        bytes.extend_from_slice(&channel.to_le_bytes());
    }
    bytes
}

fn row(state: &State) -> Row {
    let State {
        channel,
        last_message,
        mention_count,
        flags,
        last_viewed,
        last_pin_millis,
        version,
    } = *state;
    Row {
        channel,
        last_message,
        last_pin_millis,
        version,
        mention_count,
        flags,
        last_viewed,
    }
}
