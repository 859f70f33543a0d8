//! Carrying out what a member's state machine says.

use super::{
    super::{Asked, Message, What, World, Write},
    insert,
};
use crate::{
    Stamp, Succession,
    handoff::Action,
    mutant::{self, Rule},
};

impl World {
    pub(super) fn carry_out_all(&mut self, index: usize, actions: Vec<Action>) {
        for action in actions {
            self.carry_out(index, action);
        }
    }

    fn carry_out(&mut self, index: usize, action: Action) {
        let me = self.members[index].me;
        let block = self.members[index].block;
        let member = &mut self.members[index];
        match action {
            Action::Stream { destination } => {
                let epoch = member.slot.config().epoch();
                self.send(me, destination, epoch, What::Offer(block));
            }
            Action::SendLastPart { destination, epoch } => {
                self.send(me, destination, epoch, What::LastPart(block));
            }
            Action::Confirm { origin, epoch } => self.send(me, origin, epoch, What::Confirm),
            Action::Swap {
                expected,
                owner,
                how,
            } => {
                let asked = Asked {
                    by: Some(me),
                    expected,
                    owner,
                    taken_over: how == Succession::TakenOver,
                };
                insert(&mut self.swaps, asked);
            }
            Action::Serve { warm, .. } | Action::Agree { warm } => {
                member.loading = None;
                let received = member.received.take();
                if !warm {
                    let dropped = block.filter(|_| member.unserved);
                    (member.block, member.writing) = (None, None);
                    member.unserved = false;
                    self.excuse(dropped.map_or(0, |block| block.operations) & self.copies_lost);
                } else if let Some(received) = received {
                    // Whether what was on its way got there is for the new owner to make sure.
                    (member.block, member.writing) = (received, None);
                    member.unserved = true;
                }
                let member = &mut self.members[index];
                if let Action::Serve { epoch, .. } = action {
                    member.term = Some(epoch);
                    member.unserved = false;
                }
            }
            Action::Release { .. } => {
                if let Some(block) = block.filter(|block| block.dirty)
                    && !member.lease
                {
                    self.excuse(block.operations);
                }
                let member = &mut self.members[index];
                if mutant::drops(Rule::R6)
                    && let Some(block) = block.filter(|block| block.dirty)
                {
                    let write = Write {
                        by: me,
                        stamp: Stamp::new(member.slot.config().epoch(), 9),
                        operations: block.operations,
                        version: block.version,
                    };
                    insert(&mut self.writes, write);
                }
                let member = &mut self.members[index];
                let dropped = block.filter(|_| member.unserved);
                (member.block, member.writing, member.loading) = (None, None, None);
                member.unserved = false;
                self.excuse(dropped.map_or(0, |block| block.operations) & self.copies_lost);
            }
            Action::DropReceived => {
                let dropped = member.received.take().flatten();
                self.excuse(dropped.map_or(0, |block| block.operations) & self.copies_lost);
            }
            // Reads of the ring, and answers to members that are behind, are steps of their own; what
            // waits while a slot is sealed counts as not arrived yet.
            Action::Seal | Action::AskRing | Action::Keep { .. } | Action::Refuse { .. } => {}
        }
    }

    fn send(
        &mut self,
        from: crate::Incarnation,
        to: crate::Incarnation,
        epoch: crate::Epoch,
        what: What,
    ) {
        insert(
            &mut self.messages,
            Message {
                to,
                from,
                epoch,
                what,
            },
        );
    }
}
