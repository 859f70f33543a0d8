//! Swaps of the ring: carried out, lost, and forgotten by a ring that is restored.

use super::{
    super::{Asked, NOW, World, succession},
    insert,
};
use crate::{
    Epoch, SlotConfig, Stamp,
    handoff::{Event, Stage, State},
    mutant::{self, Rule},
};

impl World {
    pub(super) fn swap(&mut self, asked: usize, answered: bool) {
        let asked = self.swaps.remove(asked);
        let (by, succession) = (asked.by, succession(&asked));
        let now = self.mints_from(&asked);
        if let Ok(next) = self.ring.swap(asked.expected, asked.owner, succession, now) {
            self.left.swaps -= 1;
            if by.is_none() {
                self.excuse_silent_owner();
            }
            self.put(next, by.is_none_or(|by| by == asked.owner));
        }
        if let Some(by) = by.and_then(|by| self.place(by)) {
            if answered {
                self.hear(by, Event::Learned(self.ring));
            }
            self.ask_again(by, asked);
        }
    }

    /// The time to mint from: above every epoch that the dead have said or that the member which asks has asked for.
    fn mints_from(&self, asked: &Asked) -> i64 {
        let is_taken = asked.by.is_none_or(|by| by == asked.owner);
        if !is_taken || mutant::drops(Rule::R17) {
            return NOW;
        }
        let of_the_dead = self.words_of_the_dead(asked.owner).map(|(_, epoch)| epoch);
        // Time stands still: what it asked for another was one above what it had.
        let own =
            (asked.by.is_some() && asked.taken_over).then(|| Epoch::mint(Some(asked.expected), 0));
        let highest = of_the_dead.chain(own).max();
        let above = highest.map(|highest| Stamp::new(Epoch::mint(Some(highest), 0), 0));
        above.map_or(NOW, |above| above.as_database().max(NOW))
    }

    /// The swap was never carried out: the member that asked reads the ring until it answers, and asks again.
    pub(super) fn lose(&mut self, asked: Asked) {
        if let Some(by) = asked.by.and_then(|by| self.place(by)) {
            self.notice_lapse(by);
            self.hear(by, Event::Learned(self.ring));
            self.ask_again(by, asked);
        }
    }

    /// A member asks until the ring is past the epoch it expects; for another, as long as it hands the slot on.
    fn ask_again(&mut self, by: usize, asked: Asked) {
        let member = &self.members[by];
        let hands_on = member.lease
            && matches!(
                member.slot.state(),
                State::Sealed { stage: Stage::Handing { destination }, .. } if destination == asked.owner
            );
        let asks = asked.owner == member.me || hands_on;
        if asks && self.ring.epoch() <= asked.expected {
            insert(&mut self.swaps, asked);
        }
    }

    pub(super) fn put(&mut self, ring: SlotConfig, is_taken: bool) {
        let was = (self.ring, self.line, self.lines);
        if self.left.restores > 0 && !self.past.contains(&was) {
            self.past.push(was);
        }
        self.ring = ring;
        if is_taken {
            self.line = self.next_line;
            self.lines |= 1 << self.line;
            self.next_line += 1;
        }
    }

    /// The ring is what it was. No swap that was asked before is carried out after it.
    pub(super) fn restore(&mut self, past: usize) {
        self.left.restores -= 1;
        self.restored = true;
        // The ring may have named a destination that has the only copy, and may name another now.
        self.excuse(self.copies_lost);
        (self.ring, self.line, self.lines) = self.past[past];
        if self.left.restores == 0 {
            self.past.clear();
        }
        for asked in std::mem::take(&mut self.swaps) {
            self.lose(asked);
        }
    }
}
