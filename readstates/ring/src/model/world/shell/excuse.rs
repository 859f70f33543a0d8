//! Operations that may be lost in spite of their answer, and are excused.

use super::super::{Member, World, Write};

impl World {
    /// Excuses those of the operations that were lost from memory which may never reach the database.
    pub(super) fn excuse(&mut self, operations: u8) {
        let above = |write: &&Write| Some(write.stamp) > self.database.stamp;
        let pending = self.writes.iter().filter(above);
        let surely = pending.fold(self.database.operations, |surely, write| {
            surely & write.operations
        });
        self.excused |= self.acknowledged & operations & !surely;
    }

    /// Excuses what an owner holds that is taken for dead and lives: the database may have been away from it, too.
    pub(super) fn excuse_silent_owner(&mut self) {
        if let Some(owner) = self.place(self.ring.owner()) {
            let Member {
                block, received, ..
            } = self.members[owner];
            self.excuse(block.map_or(0, |block| block.operations));
            let received = received.flatten();
            self.excuse(received.map_or(0, |block| block.operations) & self.copies_lost);
        }
    }

    /// Excuses what living members without a lease hold: they may have served, and not have written everything.
    pub(super) fn excuse_cut_off(&mut self) {
        for index in 0..self.members.len() {
            let member = &self.members[index];
            if member.alive && !member.lease && member.slot.flushes().is_some() {
                self.excuse(member.block.map_or(0, |block| block.operations));
            }
        }
    }
}
