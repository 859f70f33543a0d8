//! What must hold.

use super::{Answer, BackedWorld, Base, Content, Facts};
use crate::Epoch;

/// The operations that a content has, by their bits.
fn bits(content: Content) -> u8 {
    let applied = content.iter().enumerate().filter(|(_, times)| **times > 0);
    applied.fold(0, |bits, (operation, _)| bits | 1 << operation)
}

impl BackedWorld {
    /// Every owner that may answer a read does. A read changes nothing, so it may as well happen whenever it can.
    pub(super) fn read_all(&mut self) -> Result<(), String> {
        for index in 0..self.pods.len() {
            let pod = &self.pods[index];
            let (Some(block), Some(epoch)) = (pod.block, pod.slot.admits()) else {
                continue;
            };
            if !self.may_answer(index, Answer::Read, epoch, &pod.last) {
                continue;
            }
            let me = pod.me;
            self.facts
                .answered_at(epoch, block.version, block.content)
                .map_err(|why| format!("{me} reads at epoch {epoch}: {why}"))?;
            // What is not the owner's own may vanish if it was never acknowledged.
            if block.base == Base::Own {
                self.facts.shown |= bits(block.content);
            }
        }
        Ok(())
    }

    /// The answer that waits is given, if it may be.
    pub(super) fn answer(&mut self, index: usize) -> Result<(), String> {
        let pod = &mut self.pods[index];
        let Some(pending) = pod.pending.clone() else {
            return Ok(());
        };
        if !self.may_answer(index, Answer::Change, pending.epoch, &pending.tickets) {
            return Ok(());
        }
        let pod = &mut self.pods[index];
        pod.pending = None;
        // The owner's own swaps may have come since it was admitted.
        let now = pod.slot.config().epoch();
        let me = pod.me;
        self.facts
            .answered_at(now, pending.version, pending.content)
            .map_err(|why| format!("{me} answers at epoch {now}: {why}"))?;
        let bit = 1 << pending.operation;
        self.facts.acknowledged |= bit;
        // What is acknowledged now is no part of a loss that was said before.
        self.facts.lost &= !bit;
        Ok(())
    }

    /// Whether an answer may be given that rests on what was admitted then: the two questions that the service asks when
    /// the work is done.
    pub(super) fn may_answer(
        &self,
        index: usize,
        answer: Answer,
        admitted: Epoch,
        tickets: &super::Tickets,
    ) -> bool {
        let pod = &self.pods[index];
        let backed = pod.guard.backed(answer, tickets, (&pod.streams, self.now));
        let is_owner = pod.slot.may_acknowledge(admitted, pod.lease);
        self.now >= pod.serves_from && backed.is_ok() && is_owner
    }

    /// A take-over has said what is lost: all that is not surely in the database. A write that is under way may replace
    /// what is there.
    pub(super) fn say_loss(&mut self) {
        let above = self
            .writes
            .iter()
            .filter(|write| Some(write.stamp) > self.database.stamp);
        let surely = above.fold(bits(self.database.content), |surely, write| {
            surely & bits(write.content)
        });
        let facts = &mut self.facts;
        facts.lost |= (facts.acknowledged | facts.shown) & !surely;
    }
}

impl Facts {
    /// An answer at this epoch that rests on this content.
    fn answered_at(&mut self, epoch: Epoch, version: u64, content: Content) -> Result<(), String> {
        if epoch < self.answered {
            return Err(format!("epoch {} has answered before", self.answered));
        }
        self.answered = epoch;
        if content.iter().any(|&times| times > 1) {
            return Err(format!("an operation was applied twice: {content:?}"));
        }
        let must = (self.acknowledged | self.shown) & !self.lost;
        if must & !bits(content) != 0 {
            return Err(format!(
                "acknowledged or shown before was {must:#05b}, and there is {content:?}"
            ));
        }
        match self.versions.iter().find(|(known, _)| *known == version) {
            Some((_, known)) if *known != content => Err(format!(
                "version {version} stands for {known:?} and for {content:?}"
            )),
            Some(_) => Ok(()),
            None => {
                super::insert(&mut self.versions, (version, content));
                Ok(())
            }
        }
    }
}
