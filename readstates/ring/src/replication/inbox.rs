//! The stream of one owner's process, as a backup has it: what is accepted, and which slots are refused.

use std::{collections::BTreeMap, time::Duration};

use crate::{Epoch, slot::Slot};

/// The stream of one owner's process.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Inbox {
    pub(super) stream: u32,
    /// Frames below are accepted.
    pub(super) next: u64,
    /// When the last one was.
    pub(super) heard: Option<Duration>,
    /// Slots of which nothing is accepted until they are seeded anew. Each acknowledgement lists them all: one that
    /// lists them may be lost, and a later one permits the owner to answer.
    pub(super) refusing: BTreeMap<Slot, Refused>,
}

/// A slot of which nothing is accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Refused {
    /// What is known of the slot.
    pub(super) epoch: Epoch,
    /// When the last frame was accepted that permitted an answer about it.
    pub(super) heard: Option<Duration>,
}

impl Inbox {
    pub(super) fn new(stream: u32) -> Self {
        Self {
            stream,
            next: 0,
            heard: None,
            refusing: BTreeMap::new(),
        }
    }

    pub(super) fn refuse(&mut self, slot: Slot, epoch: Epoch) {
        let heard = self.heard_of(slot);
        self.refusing.insert(slot, Refused { epoch, heard });
    }

    /// When the last frame was accepted that permitted an answer about a slot.
    pub(super) fn heard_of(&self, slot: Slot) -> Option<Duration> {
        self.refusing.get(&slot).map_or(self.heard, |it| it.heard)
    }
}
