//! What may happen next, in every state of the world.

use super::World;
use crate::{
    handoff::{Event, State},
    mutant::{self, Rule},
};

/// What may happen next. Members, writes, messages and swaps by their place in the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A client's operation arrives at a member.
    Arrive { member: usize, operation: u8 },
    /// A member reads the user's cell.
    Load { member: usize },
    /// What it read goes into its memory.
    Loaded { member: usize },
    /// It answers the client.
    Answer { member: usize },
    /// It sends a write.
    Flush { member: usize },
    /// A write lands, and its answer arrives or not.
    Land { write: usize, answered: bool },
    /// A write is given up by its sender; it may still land.
    GiveUp { member: usize },
    /// A write never lands.
    Vanish { write: usize },
    /// A member writes what it has handed on, and forgets it.
    WriteHanded { member: usize },
    /// A member forgets what it has handed on, since the new owner says that it serves it.
    Forget { member: usize },
    /// A clean block is evicted.
    Evict { member: usize },
    /// The operator asks for a move.
    Move { member: usize, to: usize },
    /// The state machine hears of something that concerns this member alone.
    Hear { member: usize, event: Event },
    /// A message arrives.
    Receive { message: usize },
    /// The ring carries out a swap, and the answer arrives or not.
    Swap { asked: usize, answered: bool },
    /// A swap is never carried out.
    LoseSwap { asked: usize },
    /// A member reads the ring, tells it what it has forgotten, and says which line it knows.
    Learn { member: usize },
    /// A member that took the slot finds that every living member knows the ring.
    Agree { member: usize },
    /// A member that took the slot finds that a dead one knew more than the ring does.
    Doubt { member: usize },
    /// The ring is what it was before.
    Restore { past: usize },
    /// An operator sees the owner gone and names another.
    TakeOver { to: usize },
    /// A lease runs out.
    Lapse { member: usize },
    /// It is renewed, after the member has noticed.
    Renew { member: usize },
    /// A process ends.
    Crash { member: usize },
    /// Another starts in its place.
    Restart { member: usize },
}

impl World {
    /// Everything that may happen next.
    pub(super) fn possible(&self) -> Vec<Step> {
        let mut steps = Vec::with_capacity(32);
        for index in 0..self.at_work() {
            if self.members[index].alive {
                self.steps_of(index, &mut steps);
            } else {
                steps.push(Step::Restart { member: index });
            }
        }
        for write in 0..self.writes.len() {
            steps.extend([
                Step::Land {
                    write,
                    answered: true,
                },
                Step::Land {
                    write,
                    answered: false,
                },
                Step::Vanish { write },
            ]);
        }
        for (message, sent) in self.messages.iter().enumerate() {
            if self.place(sent.to).is_some() {
                steps.push(Step::Receive { message });
            }
        }
        for asked in 0..self.swaps.len() {
            if self.left.swaps > 0 && self.is_written(asked) {
                steps.extend([
                    Step::Swap {
                        asked,
                        answered: true,
                    },
                    Step::Swap {
                        asked,
                        answered: false,
                    },
                ]);
            }
            steps.push(Step::LoseSwap { asked });
        }
        if self.left.restores > 0 {
            steps.extend((0..self.past.len()).map(|past| Step::Restore { past }));
        }
        let gone = self
            .place(self.ring.owner())
            .is_none_or(|owner| !self.members[owner].lease);
        let kept = self.members.iter().any(super::Member::keeps_handed);
        if gone && !kept && self.left.swaps > 0 {
            let able = (0..self.at_work()).filter(|&to| self.members[to].may_take(self.ring));
            steps.extend(able.map(|to| Step::TakeOver { to }));
        }
        steps
    }

    /// Whether the new owner of what a member has handed on says that it serves it.
    fn may_forget(&self, index: usize) -> bool {
        let Some(owner) = self.place(self.ring.owner()) else {
            return false;
        };
        let slot = &self.members[owner].slot;
        let knows = slot.config() == self.ring;
        let serves = slot.admits() == Some(self.ring.epoch()) || mutant::drops(Rule::R18);
        self.members[index].handed.is_some() && knows && serves
    }

    fn steps_of(&self, index: usize, steps: &mut Vec<Step>) {
        let member = &self.members[index];
        let admits = member.slot.admits();
        if admits.is_some() && member.answer.is_none() {
            if member.block.is_some() {
                let open =
                    (0..self.left.operations).filter(|bit| self.acknowledged & (1 << bit) == 0);
                steps.extend(open.map(|operation| Step::Arrive {
                    member: index,
                    operation,
                }));
            } else if member.loading.is_none() {
                steps.push(Step::Load { member: index });
            }
        }
        let may = [
            (member.loading.is_some(), Step::Loaded { member: index }),
            (member.answer.is_some(), Step::Answer { member: index }),
            (
                member.may_flush() && self.left.writes > 0,
                Step::Flush { member: index },
            ),
            (member.writing.is_some(), Step::GiveUp { member: index }),
            (member.handed.is_some(), Step::WriteHanded { member: index }),
            (self.may_forget(index), Step::Forget { member: index }),
            (member.may_evict(), Step::Evict { member: index }),
            (
                member.slot.config() != self.ring || member.said != self.line,
                Step::Learn { member: index },
            ),
            (self.agrees(index), Step::Agree { member: index }),
            (self.doubts(index), Step::Doubt { member: index }),
            (self.left.crashes > 0, Step::Crash { member: index }),
            (
                member.lease && self.left.lapses > 0,
                Step::Lapse { member: index },
            ),
            (member.may_renew(), Step::Renew { member: index }),
        ];
        steps.extend(
            may.into_iter()
                .filter(|(may, _)| *may)
                .map(|(_, step)| step),
        );
        steps.extend(member.hears().into_iter().map(|event| Step::Hear {
            member: index,
            event,
        }));
        if let State::Owner {
            streaming_to: None, ..
        } = member.slot.state()
            && self.left.swaps > 0
        {
            let others = (0..self.at_work()).filter(|&to| to != index && self.members[to].alive);
            steps.extend(others.map(|to| Step::Move { member: index, to }));
        }
    }
}
