//! What moves between members now.

use super::view::View;
use crate::{plan::WaitingOn, world::Member};

/// What is waited for while slots move anywhere.
pub(super) fn waiting(view: &View<'_>) -> Option<WaitingOn> {
    let moving = view.in_flight();
    if moving.is_empty() {
        return None;
    }
    let moves = words(moving.into_iter());
    Some(WaitingOn::Moving { moves })
}

/// What moves between members, in words: `moving 43 of 256 slots from chat-2 to chat-0`.
pub(super) fn words<'a>(members: impl Iterator<Item = (&'a str, &'a Member)>) -> String {
    let mut words = Vec::new();
    let mut sealed = Vec::new();
    for (name, member) in members {
        let state = &member.ownership;
        for stream in &state.streaming {
            let (slots, owned, to) = (stream.slots, state.owned, &stream.to);
            words.push(format!(
                "moving {slots} of {owned} slots from {name} to {to}"
            ));
        }
        if state.sealed > 0 && state.streaming.is_empty() {
            sealed.push(format!("{} slots of {name} are sealed", state.sealed));
        } else if state.receiving > 0 {
            sealed.push(format!("{name} receives {} slots", state.receiving));
        }
    }
    // The sender's report is complete; the receiver's counts while the sender cannot be asked.
    let said = if words.is_empty() { sealed } else { words };
    said.join("; ")
}
