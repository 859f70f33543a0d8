//! Taking one step: what a member's shell, the network, the ring and the database do.

mod action;
mod excuse;
mod ring;

use super::{
    Asked, Block, Cell, Message, ModelAnswer, NOW, Step, What, World, Write, first_version, reborn,
};
use crate::{
    Stamp,
    fence::{self, Base, Needs},
    handoff::{Action, Event, SlotAtMember, State},
};

impl World {
    /// Takes a step; an error when that breaks a promise.
    pub(super) fn carry_out_step(&mut self, step: &Step) -> Result<(), String> {
        match *step {
            Step::Arrive { member, operation } => self.arrive(member, operation),
            Step::Load { member } => {
                let database = self.database;
                let member = &mut self.members[member];
                member.loading = member.slot.admits().map(|epoch| (epoch, database));
            }
            Step::Loaded { member } => self.loaded(member),
            Step::Answer { member } => return self.answer(member),
            Step::Flush { member } => self.flush(member),
            Step::Land { write, answered } => self.land(write, answered),
            Step::GiveUp { member } => self.members[member].writing = None,
            Step::Vanish { write } => drop(self.writes.remove(write)),
            Step::WriteHanded { member } => self.write_handed(member),
            Step::Forget { member } => self.members[member].handed = None,
            Step::Evict { member } => self.members[member].block = None,
            Step::Move { member, to } => {
                let epoch = self.members[member].slot.config().epoch();
                let destination = self.members[to].me;
                self.hear(member, Event::MoveAsked { epoch, destination });
            }
            Step::Hear { member, event } => self.hear(member, event),
            Step::Receive { message } => self.receive(message),
            Step::Swap { asked, answered } => self.swap(asked, answered),
            Step::LoseSwap { asked } => {
                let asked = self.swaps.remove(asked);
                self.lose(asked);
            }
            Step::Learn { member } => self.read(member),
            Step::Agree { member } => {
                self.excuse_cut_off();
                let epoch = self.ring.epoch();
                self.hear(member, Event::Agreed { epoch });
            }
            Step::Doubt { member } => {
                let epoch = self.ring.epoch();
                self.hear(member, Event::Doubted { epoch });
            }
            Step::Restore { past } => self.restore(past),
            Step::TakeOver { to } => {
                let asked = Asked {
                    by: None,
                    expected: self.ring.epoch(),
                    owner: self.members[to].me,
                    taken_over: true,
                };
                insert(&mut self.swaps, asked);
            }
            Step::Lapse { member } => {
                self.left.lapses -= 1;
                self.members[member].lease = false;
            }
            Step::Renew { member } => {
                self.members[member].lease = true;
                self.hear(member, Event::LeaseRenewed);
            }
            Step::Crash { member } => self.crash(member),
            Step::Restart { member } => {
                let me = reborn(self.members[member].me, &mut self.next_incarnation);
                let slot = SlotAtMember::at_start(me, self.ring);
                self.members[member] = super::Member::new(me, slot);
                self.members[member].said = self.line;
            }
        }
        Ok(())
    }

    fn arrive(&mut self, index: usize, operation: u8) {
        let member = &mut self.members[index];
        let (Some(epoch), Some(block)) = (member.slot.admits(), member.block.as_mut()) else {
            return;
        };
        let bit = 1 << operation;
        let applied = block.operations & bit == 0;
        if fence::needs(block.base, block.version, applied) != Needs::Nothing {
            block.operations |= bit;
            block.version = fence::next_version(block.base, block.version, first_version(epoch));
            block.base = Base::Own;
            block.dirty = true;
            member.rearmed = true;
        }
        member.answer = Some(ModelAnswer {
            operation,
            epoch,
            version: block.version,
            operations: block.operations,
        });
    }

    fn loaded(&mut self, index: usize) {
        let member = &mut self.members[index];
        let Some((epoch, cell)) = member.loading.take() else {
            return;
        };
        // What was read for one epoch is not for another.
        if member.slot.admits() != Some(epoch) || member.block.is_some() {
            return;
        }
        let (stored, next) = (cell.stored(member.me), Stamp::new(epoch, member.seq));
        if stored.is_some_and(|stored| fence::shows_regression(stored, epoch, next)) {
            if member.lease {
                // It takes the slot again, under a higher epoch.
                self.hear(index, Event::LeaseLost);
                self.hear(index, Event::LeaseRenewed);
            }
            return;
        }
        member.block = Some(Block {
            operations: cell.operations,
            version: cell.version,
            dirty: false,
            base: fence::base(stored, Stamp::new(epoch, 0)),
        });
    }

    fn answer(&mut self, index: usize) -> Result<(), String> {
        let member = &mut self.members[index];
        let Some(answer) = member.answer.take() else {
            return Ok(());
        };
        if !member.slot.may_acknowledge(answer.epoch, member.lease) {
            return Ok(());
        }
        let me = member.me;
        if self
            .members
            .iter()
            .any(|other| other.me != me && other.unbroken())
        {
            return Err(format!(
                "{me} acknowledged at epoch {}, and another member serves",
                answer.epoch
            ));
        }
        // A restored ring does not know of the epoch at which it is right to serve; and a member that has taken the
        // slot from one that it took for dead does not serve before that one has agreed.
        let is_taken = self.ring.inherits().is_none() && answer.epoch < self.ring.epoch();
        if answer.epoch != self.ring.epoch() && !self.restored && !is_taken {
            return Err(format!(
                "acknowledged at epoch {} while the ring is at {}",
                answer.epoch,
                self.ring.epoch()
            ));
        }
        self.acknowledged |= 1 << answer.operation;
        self.excused &= !(1 << answer.operation);
        let known = self
            .versions
            .iter()
            .find(|&&(version, _)| version == answer.version);
        match known {
            Some(&(version, operations)) if operations != answer.operations => Err(format!(
                "version {version} stands for {operations:#04b} and for {:#04b}",
                answer.operations
            )),
            Some(_) => Ok(()),
            None => {
                insert(&mut self.versions, (answer.version, answer.operations));
                Ok(())
            }
        }
    }

    fn flush(&mut self, index: usize) {
        let member = &mut self.members[index];
        let (Some(epoch), Some(block)) = (member.term, member.block) else {
            return;
        };
        let stamp = Stamp::new(epoch, member.seq);
        member.seq += 1;
        member.writing = Some(stamp);
        member.rearmed = false;
        let write = Write {
            by: member.me,
            stamp,
            operations: block.operations,
            version: block.version,
        };
        self.left.writes -= 1;
        insert(&mut self.writes, write);
    }

    /// Under the epoch that has ended: it yields to whatever the new owner writes.
    fn write_handed(&mut self, index: usize) {
        let by = self.members[index].me;
        let Some((block, stamp)) = self.members[index].handed.take() else {
            return;
        };
        if Some(stamp) >= self.database.stamp {
            self.database = Cell {
                operations: block.operations,
                version: block.version,
                stamp: Some(stamp),
                by,
            };
        }
    }

    fn land(&mut self, write: usize, answered: bool) {
        let write = self.writes.remove(write);
        // The database keeps the higher stamp.
        if Some(write.stamp) >= self.database.stamp {
            self.database = Cell {
                operations: write.operations,
                version: write.version,
                stamp: Some(write.stamp),
                by: write.by,
            };
        }
        let Some(by) = self.place(write.by) else {
            return;
        };
        let member = &mut self.members[by];
        if answered && member.writing == Some(write.stamp) {
            member.writing = None;
            let first = member.term.map(|epoch| Stamp::new(epoch, 0));
            let is_of_term = first.is_some_and(|first| fence::is_of_term(write.stamp, first));
            // An owner of the slot in between may have written above a write of an earlier term.
            if let Some(block) = member.block.as_mut().filter(|_| is_of_term) {
                block.dirty = member.rearmed;
            }
        }
    }

    fn receive(&mut self, message: usize) {
        let Message {
            to,
            from,
            epoch,
            what,
        } = self.messages[message];
        let Some(index) = self.place(to) else {
            return;
        };
        match what {
            What::Offer(block) => {
                let origin = from;
                self.hear(index, Event::Offered { origin, epoch });
                let receiving = State::Receiving { origin, epoch };
                if self.members[index].slot.state() == receiving {
                    self.members[index].received = Some(block);
                }
            }
            What::LastPart(block) => {
                let origin = from;
                let actions = self.members[index]
                    .slot
                    .step(Event::LastPart { origin, epoch });
                // The shell puts the part to the rest when the state machine takes it.
                if matches!(actions[..], [Action::Confirm { .. }]) {
                    self.members[index].received = Some(block);
                }
                self.carry_out_all(index, actions);
            }
            What::Confirm => {
                let destination = from;
                self.hear(index, Event::Confirmed { destination, epoch });
            }
        }
    }

    fn notice_lapse(&mut self, index: usize) {
        if !self.members[index].lease {
            self.hear(index, Event::LeaseLost);
        }
    }

    /// A member reads the ring. If the ring was restored, the member tells it at the same moment what it has forgotten;
    /// a member that is too late with that reads the ring again.
    fn read(&mut self, index: usize) {
        self.notice_lapse(index);
        let (me, slot) = (self.members[index].me, self.members[index].slot);
        let known = slot.config();
        if known.epoch() > self.ring.epoch() {
            self.put(known, true);
        } else if let Some(held) = slot.keeps(self.ring)
            && let Ok(kept) = self.ring.kept(me, held, NOW)
        {
            self.put(kept, true);
        } else if self.ring.gives_again(known) {
            self.put(self.ring.raised(), true);
        }
        self.hear(index, Event::Learned(self.ring));
        self.members[index].said = self.line;
    }

    fn crash(&mut self, index: usize) {
        self.left.crashes -= 1;
        let held = self.members[index].slot.flushes().is_some() && self.restored;
        let member = &self.members[index];
        let operations = member.block.map_or(0, |block| block.operations);
        if member.unserved {
            // Kept by the origin, if that one lives.
            self.excuse(operations & self.copies_lost);
        }
        let member = &self.members[index];
        if member.keeps_handed() {
            let handed = member.handed.map_or(0, |(block, _)| block.operations);
            self.copies_lost |= handed | operations;
            if self.restored {
                self.excuse(handed | operations);
            }
        }
        let member = &self.members[index];
        if (member.me == self.ring.owner() || held) && !member.unserved {
            self.excuse(
                self.members[index]
                    .block
                    .map_or(0, |block| block.operations),
            );
        }
        let member = &mut self.members[index];
        // Only a ring that went back makes anything of it.
        if self.left.restores > 0 || self.restored {
            self.last_words
                .push((member.said, member.slot.config().epoch()));
            self.last_words.sort_unstable();
        }
        let mut gone = super::Member::new(member.me, member.slot);
        gone.alive = false;
        // Nothing of it is left; the state machine stays as a fixed value, so that equal worlds look
        // equal.
        gone.slot = SlotAtMember::at_start(member.me, self.ring);
        *member = gone;
    }

    /// Lets a member's state machine hear of an event, and carries out what it says.
    fn hear(&mut self, index: usize, event: Event) {
        let member = &mut self.members[index];
        let (had_asked, block) = (member.slot.has_asked(), member.block);
        let actions = member.slot.step(event);
        // With a lease, it has not written everything.
        let released = actions
            .iter()
            .any(|it| matches!(it, Action::Release { .. }));
        if let (true, true, Some(block), Some(term)) =
            (had_asked && released, member.lease, block, member.term)
            && block.dirty
        {
            member.handed = Some((block, Stamp::new(term, member.seq)));
            member.seq += 1;
        }
        self.carry_out_all(index, actions);
    }
}

/// Puts an item where it belongs in a sorted list without repetitions.
fn insert<T: Ord>(list: &mut Vec<T>, item: T) {
    if let Err(place) = list.binary_search(&item) {
        list.insert(place, item);
    }
}
