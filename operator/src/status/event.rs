//! One event, as the API server takes it.

use kube::runtime::events::{Event, EventType};

pub(super) fn event(type_: EventType, reason: &str, action: &str, note: &str) -> Event {
    /// The API server refuses longer ones.
    const LONGEST_NOTE: usize = 1000;
    Event {
        type_,
        reason: reason.to_owned(),
        note: Some(note.chars().take(LONGEST_NOTE).collect()),
        action: action.to_owned(),
        secondary: None,
    }
}
