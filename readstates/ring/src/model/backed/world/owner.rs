//! What an owner does with the user's block, its database and its backups.

use super::{Asked, BackedWorld, Block, Cell, How, OPERATOR, Pending, USER, Write, insert, slot};
use crate::{
    Stamp,
    fence::{self, Base, Needs},
    mutant::{self, Shortcut},
    replication::{Change, SILENCE, What},
};

impl BackedWorld {
    pub(super) fn arrive(&mut self, index: usize, operation: u8) {
        let pod = &mut self.pods[index];
        let (Some(epoch), Some(block)) = (pod.slot.admits(), pod.block.as_mut()) else {
            return;
        };
        let before = block.version;
        let applied = block.content[usize::from(operation)] == 0;
        let needs = fence::needs(block.base, before, applied);
        if applied {
            block.content[usize::from(operation)] += 1;
        }
        if needs != Needs::Nothing {
            let first_version = fence::first_version(Stamp::new(epoch, 0));
            block.version = fence::next_version(block.base, before, first_version);
            block.dirty = true;
            block.base = Base::Own;
            pod.rearmed = true;
        }
        let (version, content) = (block.version, block.content);
        let change = What::Change {
            user: USER,
            change: Change {
                before,
                version,
                operation,
            },
        };
        let what = match needs {
            Needs::Nothing => None,
            Needs::Change => Some(change),
            Needs::Image if mutant::takes(Shortcut::RestampsAlone) => applied.then_some(change),
            Needs::Image => Some(What::Image {
                user: USER,
                version,
                block: content,
            }),
        };
        if let Some(what) = what {
            self.pods[index].last = self.say(index, &what);
        }
        let pod = &mut self.pods[index];
        pod.pending = Some(Pending {
            operation,
            epoch,
            tickets: pod.last.clone(),
            version,
            content,
        });
    }

    pub(super) fn loaded(&mut self, index: usize) -> Result<(), String> {
        let pod = &mut self.pods[index];
        let Some((epoch, cell)) = pod.loading.take() else {
            return Ok(());
        };
        // What was read for one epoch is not for another.
        if pod.slot.admits() != Some(epoch) || pod.block.is_some() {
            return Ok(());
        }
        let mut block = Block {
            content: cell.content,
            version: cell.version,
            dirty: false,
            base: fence::base(cell.stored(pod.me), Stamp::new(epoch, 0)),
        };
        if let Some(journal) = &mut pod.inherited {
            let replayed = journal.replay(
                USER,
                (cell.version, cell.content),
                |&image| image,
                |content, change| {
                    content[usize::from(change.operation)] += 1;
                    change.version
                },
            );
            match replayed.map_err(|mismatch| mismatch.to_string())? {
                Some((version, content)) => {
                    (block.version, block.content, block.dirty) = (version, content, true);
                    pod.rearmed = true;
                }
                // The database has it all.
                None => journal.trim(USER, cell.version),
            }
        }
        pod.block = Some(block);
        Ok(())
    }

    pub(super) fn flush(&mut self, index: usize) {
        let pod = &mut self.pods[index];
        let (Some(epoch), Some(block)) = (pod.term, pod.block) else {
            return;
        };
        let stamp = Stamp::new(epoch, pod.seq);
        pod.seq += 1;
        pod.writing = Some(stamp);
        pod.rearmed = false;
        let write = Write {
            stamp,
            by: pod.me,
            content: block.content,
            version: block.version,
        };
        self.left.writes -= 1;
        insert(&mut self.writes, write);
        if mutant::takes(Shortcut::TrimsWhenSent) {
            self.trim(index, block.version);
        }
    }

    fn trim(&mut self, index: usize, version: u64) {
        let user = USER;
        self.say(index, &What::Trim { user, version });
    }

    pub(super) fn land(&mut self, write: usize, answered: bool) {
        let Write {
            stamp,
            by,
            content,
            version,
        } = self.writes.remove(write);
        if Some(stamp) >= self.database.stamp || mutant::takes(Shortcut::LastWriteToLand) {
            self.database = Cell {
                content,
                version,
                stamp: Some(stamp),
                by,
            };
        }
        let Some(at) = self.place(by) else {
            return;
        };
        let pod = &mut self.pods[at];
        if !answered || pod.writing != Some(stamp) {
            return;
        }
        pod.writing = None;
        let first = pod.term.map(|epoch| Stamp::new(epoch, 0));
        if !first.is_some_and(|first| fence::is_of_term(stamp, first)) {
            // It is written once more: an owner in between may have written above it.
            return;
        }
        if let Some(block) = &mut pod.block {
            block.dirty = pod.rearmed;
        }
        if let Some(journal) = &mut pod.inherited {
            journal.trim(USER, version);
        }
        self.trim(at, version);
    }

    pub(super) fn seed(&mut self, index: usize, to: usize) {
        self.left.seedings -= 1;
        let to = self.pods[to].me;
        let pod = &mut self.pods[index];
        if let Some(stream) = pod.streams.get_mut(&to)
            && stream.under_way() > 0
        {
            stream.reopen();
        }
        pod.guard.seed(to, &mut pod.streams);
        pod.guard.seeded();
        let dirty = pod.block.filter(|block| block.dirty);
        let image = dirty.map(|block| What::Image {
            user: USER,
            version: block.version,
            block: block.content,
        });
        let whats = [Some(What::Seed), image, Some(What::Seeded)];
        self.open(index, to, whats.into_iter().flatten().collect());
    }

    pub(super) fn name(&mut self, index: usize) {
        let pod = &mut self.pods[index];
        let Some(backup) = pod.guard.may_name(&pod.streams) else {
            return;
        };
        pod.guard.name(backup);
        pod.slot.backup_asked();
        self.ask(index, Some(backup));
    }

    pub(super) fn drop_backup(&mut self, index: usize) {
        self.ask(index, None);
    }

    /// Asks the ring to let a pod go on with this backup.
    fn ask(&mut self, index: usize, backup: Option<crate::Incarnation>) {
        let pod = &self.pods[index];
        let asked = Asked {
            by: pod.me,
            expected: pod.slot.config().epoch(),
            owner: pod.me,
            backup,
            how: How::Handed,
            proven: false,
        };
        insert(&mut self.swaps, asked);
    }

    pub(super) fn promote(&mut self, index: usize) {
        let may_promote = |world: &Self| {
            let backup = &world.pods[index].backup;
            backup.may_promote(slot(), world.now, |it| world.is_dead(it))
        };
        if may_promote(self).is_err() {
            self.now += SILENCE;
        }
        let Ok(expected) = may_promote(self) else {
            return;
        };
        let pod = &mut self.pods[index];
        pod.backup.promise(slot());
        let asked = Asked {
            by: pod.me,
            expected,
            owner: pod.me,
            backup: None,
            how: How::Promoted,
            proven: false,
        };
        insert(&mut self.swaps, asked);
    }

    pub(super) fn depose(&mut self) {
        self.left.deposals -= 1;
        let Some(owner) = self.ring.backup() else {
            return;
        };
        let asked = Asked {
            by: OPERATOR,
            expected: self.ring.epoch(),
            owner,
            backup: None,
            how: How::Promoted,
            proven: false,
        };
        insert(&mut self.swaps, asked);
    }

    pub(super) fn take_over(&mut self, index: usize) {
        let me = self.pods[index].me;
        let succeeds = |backup| !self.is_dead(backup) && !self.is_incomplete(backup);
        let succeeds = self.ring.backup().is_some_and(succeeds);
        let asked = Asked {
            by: me,
            expected: self.ring.epoch(),
            owner: me,
            backup: None,
            how: How::TakenOver,
            proven: self.is_dead(self.ring.owner()) && !succeeds,
        };
        insert(&mut self.swaps, asked);
    }
}
