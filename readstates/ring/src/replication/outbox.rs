//! The owner's side of the stream to one backup: numbers, what is acknowledged, what is permitted.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use super::{Acknowledgement, PERMISSION, SLOW};
use crate::{
    Epoch, Incarnation,
    mutant::{self, Shortcut},
    slot::Slot,
};

/// The stream from this process to one other. Whoever sends keeps the frames that are not acknowledged, and sends them
/// again until they are, as they were.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Outbox {
    to: Incarnation,
    stream: u32,
    /// Of the frame that gathers.
    number: u64,
    /// It has entries.
    gathered: bool,
    /// Frames below are acknowledged.
    next: u64,
    /// When each frame from `next` on was sent first.
    sent: VecDeque<Duration>,
    /// When the last of the acknowledged frames was sent.
    permitted: Option<Duration>,
    /// How long a frame may be under way.
    patience: Duration,
    slots: BTreeMap<Slot, Carried>,
}

/// A slot in a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Carried {
    /// The frame with which its part of the stream begins.
    from: u64,
    refused: Option<Epoch>,
}

impl Outbox {
    /// The first stream to a process.
    #[must_use]
    pub fn new(to: Incarnation) -> Self {
        Self::numbered(to, 0)
    }

    /// A stream of this number to a process, which is later than those of all streams to it that there ever were: a
    /// frame of another stream with the same number would be taken for a repetition.
    #[must_use]
    pub fn numbered(to: Incarnation, stream: u32) -> Self {
        Self {
            to,
            stream,
            number: 0,
            gathered: false,
            next: 0,
            sent: VecDeque::new(),
            permitted: None,
            patience: SLOW,
            slots: BTreeMap::new(),
        }
    }

    /// Gives up what is not acknowledged, and begins another stream, which carries no slot: a backup that is gone for
    /// long must not keep frames in memory.
    pub fn reopen(&mut self) {
        *self = Self {
            patience: self.patience,
            ..Self::numbered(self.to, self.stream + 1)
        };
    }

    /// A frame may be under way for so long, instead of [`SLOW`], before the stream is slow. Less than [`PERMISSION`], or
    /// answers end before another backup is looked for.
    pub fn bear(&mut self, patience: Duration) {
        self.patience = patience;
    }

    /// Where it leads.
    #[must_use]
    pub fn to(&self) -> Incarnation {
        self.to
    }

    /// Which stream to that process it is.
    #[must_use]
    pub fn stream(&self) -> u32 {
        self.stream
    }

    /// The number of the frame that gathers.
    #[must_use]
    pub fn next_number(&self) -> u64 {
        self.number
    }

    /// The number of the first frame that is not acknowledged.
    #[must_use]
    pub fn first_under_way(&self) -> u64 {
        self.next
    }

    /// Frames that are not acknowledged.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.sent.len()
    }

    /// The frame that gathers now begins with a slot: it is seeded, or continued.
    pub fn begin(&mut self, slot: Slot) {
        let from = self.number;
        let refused = None;
        self.slots.insert(slot, Carried { from, refused });
    }

    /// The slot is not carried any more.
    pub fn end(&mut self, slot: Slot) {
        self.slots.remove(&slot);
    }

    /// Whether no slot is carried: its frames are heartbeats.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.slots.is_empty()
    }

    /// Whether a slot is carried.
    #[must_use]
    pub fn carries(&self, slot: Slot) -> bool {
        self.slots.contains_key(&slot)
    }

    /// Takes an entry into the frame that gathers; returns that frame's number.
    pub fn gather(&mut self) -> u64 {
        self.gathered = true;
        self.number
    }

    /// The frame that gathers leaves now, whether it has entries or not; returns its number. Another begins to gather.
    pub fn leave(&mut self, now: Duration) -> u64 {
        self.sent.push_back(now);
        self.gathered = false;
        self.number += 1;
        self.number - 1
    }

    /// An acknowledgement has come.
    pub fn acknowledged(&mut self, acknowledgement: &Acknowledgement, now: Duration) {
        let Acknowledgement {
            from,
            to: _,
            stream,
            next,
            refused,
        } = acknowledgement;
        if (*from, *stream) != (self.to, self.stream) || *next > self.number {
            return;
        }
        for (slot, epoch) in refused {
            // One from before the slot was seeded anew says nothing of what it is now.
            if let Some(carried) = self.slots.get_mut(slot)
                && *next > carried.from
            {
                carried.refused = Some(*epoch);
            }
        }
        let is_news = *next > self.next;
        while self.next < *next {
            // The earliest sending: it may be that one which was accepted.
            self.permitted = self.sent.pop_front();
            self.next += 1;
        }
        if mutant::takes(Shortcut::PermissionFromReceipt) && is_news {
            self.permitted = Some(now);
        }
    }

    /// Whether the backup has a slot's entry that this frame took; an entry of an earlier stream, or from before the
    /// slot was seeded, is part of the seed.
    #[must_use]
    pub fn has(&self, slot: Slot, (stream, number): (u32, u64)) -> bool {
        self.slots.get(&slot).is_some_and(|carried| {
            let number = match stream == self.stream {
                true => number.max(carried.from),
                false => carried.from,
            };
            carried.refused.is_none() && self.next > number
        })
    }

    /// Whether the backup has everything of a slot.
    #[must_use]
    pub fn has_everything(&self, slot: Slot) -> bool {
        let gathered = !self.gathered || mutant::takes(Shortcut::NamedTooEarly);
        let next = match mutant::takes(Shortcut::NamedTooEarly) {
            true => self.number,
            false => self.next,
        };
        self.slots.get(&slot).is_some_and(|carried| {
            carried.refused.is_none()
                && next == self.number
                && self.number > carried.from
                && gathered
        })
    }

    /// Whether the backup permits answers about a slot now: a frame with which, or after which, the slot began has been
    /// accepted, and it was sent not long ago.
    #[must_use]
    pub fn permits(&self, slot: Slot, now: Duration) -> bool {
        let Some(carried) = self.slots.get(&slot) else {
            return false;
        };
        let accepted = carried.refused.is_none() && self.next > carried.from;
        let is_fresh = |sent: Duration| now < sent + PERMISSION;
        accepted && self.permitted.is_some_and(is_fresh)
    }

    /// The epoch that the backup knows of a slot of which it refuses everything.
    #[must_use]
    pub fn refused(&self, slot: Slot) -> Option<Epoch> {
        self.slots.get(&slot)?.refused
    }

    /// Whether a frame is under way for too long.
    #[must_use]
    pub fn is_slow(&self, now: Duration) -> bool {
        let first = self.sent.front();
        first.is_some_and(|&sent| now >= sent + self.patience)
    }
}
