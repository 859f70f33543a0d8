//! What changed since a version, and for which versions that can be told.
//!
//! Every state carries the version of its change, so a change needs no log. Deletions leave no state
//! behind: the newest 64 are remembered, and whoever asks about a version from before the oldest
//! forgotten one gets the full form. So does whoever comes with a version out of a [`Gap`].

use super::{Block, State};

/// How many deletions a block remembers.
pub const REMEMBERED_DELETIONS: usize = 64;

/// Versions that a process which died may have handed out for changes that were lost: those strictly
/// between `after` and `until`. A client that holds one has seen something that is not there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Gap {
    /// The last version known to have been written.
    pub after: u64,
    /// The first version handed out by the process that took over.
    pub until: u64,
}

/// What a block remembers of its past.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History {
    /// Below this version it is not known any more what was deleted.
    pub floor: u64,
    /// The last jump of the version.
    pub gap: Gap,
    /// (channel, version of its deletion), oldest first.
    pub deleted: Vec<(u64, u64)>,
}

/// The answer to "what changed since".
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Since<'a> {
    /// It cannot be told: here is everything.
    Everything(&'a [State]),
    /// The changed states by channel, and the channels whose states were deleted.
    Changes {
        /// States changed after the version asked about.
        states: Vec<&'a State>,
        /// Channels deleted after it, by id.
        deleted: Vec<u64>,
    },
}

impl Block {
    /// What changed after `version`.
    #[must_use]
    pub fn since(&self, version: u64) -> Since<'_> {
        if version > self.version || !self.history.covers(version) {
            return Since::Everything(&self.states);
        }
        let newer = |deletion: &&(u64, u64)| deletion.1 > version;
        let mut deleted: Vec<u64> = self
            .history
            .deleted
            .iter()
            .filter(newer)
            .map(|&(channel, _)| channel)
            .collect();
        deleted.sort_unstable();
        let states = self
            .states
            .iter()
            .filter(|state| state.version > version)
            .collect();
        Since::Changes { states, deleted }
    }
}

impl History {
    fn covers(&self, version: u64) -> bool {
        let lost = self.gap.after < version && version < self.gap.until;
        version >= self.floor && !lost
    }

    /// Remembers a deletion; what is forgotten for it raises the floor.
    pub(super) fn deleted(&mut self, channel: u64, version: u64) {
        self.deleted.push((channel, version));
        if self.deleted.len() > REMEMBERED_DELETIONS {
            let (_, forgotten) = self.deleted.remove(0);
            self.floor = self.floor.max(forgotten);
        }
    }

    /// A channel has a state again.
    pub(super) fn revived(&mut self, channel: u64) {
        self.deleted.retain(|&(deleted, _)| deleted != channel);
    }

    /// Everything was deleted: nothing before `version` is known any more.
    pub(super) fn erased(&mut self, version: u64) {
        self.deleted.clear();
        self.floor = version;
    }

    /// The version jumped. One gap is remembered; an older one disappears below the floor.
    pub(super) fn jumped(&mut self, after: u64, until: u64) {
        self.floor = self.floor.max(self.gap.until);
        self.gap = Gap { after, until };
    }

    /// The newest version it names.
    pub(super) fn newest(&self) -> u64 {
        let deleted = self
            .deleted
            .iter()
            .map(|&(_, version)| version)
            .max()
            .unwrap_or(0);
        deleted
            .max(self.floor)
            .max(self.gap.until)
            .max(self.gap.after)
    }

    pub(super) fn fits(&self) -> bool {
        self.deleted.len() <= REMEMBERED_DELETIONS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::{Operation, VERSION_GAP, Visit};

    fn ack(channel: u64, message: u64) -> Operation {
        Operation::Ack {
            channel,
            message,
            visit: Visit::default(),
        }
    }

    fn block(operations: &[Operation]) -> Block {
        let mut block = Block::default();
        for operation in operations {
            block.apply(operation).unwrap();
        }
        block
    }

    fn changes(block: &Block, since: u64) -> Option<(Vec<u64>, Vec<u64>)> {
        match block.since(since) {
            Since::Everything(_) => None,
            Since::Changes { states, deleted } => {
                Some((states.iter().map(|state| state.channel).collect(), deleted))
            }
        }
    }

    #[test]
    fn only_what_changed_after_the_version_is_told() {
        let block = block(&[
            ack(1, 10),
            ack(2, 10),
            ack(1, 11),
            Operation::Delete { channel: 2 },
        ]);
        assert_eq!(changes(&block, 0), Some((vec![1], vec![2])));
        assert_eq!(changes(&block, 3), Some((vec![], vec![2])));
        assert_eq!(changes(&block, 4), Some((vec![], vec![])));
        assert_eq!(changes(&block, 5), None, "a version ahead of the user");
    }

    #[test]
    fn a_deleted_channel_that_is_read_again_is_not_deleted() {
        let block = block(&[ack(1, 10), Operation::Delete { channel: 1 }, ack(1, 5)]);
        assert_eq!(changes(&block, 1), Some((vec![1], vec![])));
    }

    #[test]
    fn versions_older_than_the_forgotten_deletions_get_everything() {
        let mut operations = Vec::new();
        for channel in 1..=REMEMBERED_DELETIONS as u64 + 1 {
            operations.extend([ack(channel, 1), Operation::Delete { channel }]);
        }
        let block = block(&operations);
        assert_eq!(
            changes(&block, 1),
            None,
            "the first deletion, version 2, is forgotten"
        );
        assert_eq!(changes(&block, 2).unwrap().1.len(), REMEMBERED_DELETIONS);
    }

    #[test]
    fn an_erased_user_has_nothing_but_a_version() {
        let erased = block(&[ack(1, 1), ack(2, 1), Operation::DeleteUser]);
        assert_eq!(
            (erased.version(), erased.states().len(), erased.weight()),
            (3, 0, 1)
        );
        assert_eq!(changes(&erased, 2), None);
        assert_eq!(changes(&erased, 3), Some((vec![], vec![])));
    }

    #[test]
    fn versions_a_dead_process_may_have_handed_out_get_everything() {
        let mut block = block(&[ack(1, 1), ack(2, 1)]);
        block.take_over(0);
        assert_eq!(block.version(), 2, "taking over alone changes nothing");
        block.apply(&ack(2, 2)).unwrap();
        assert_eq!(block.version(), 2 + VERSION_GAP);
        assert_eq!(
            changes(&block, 2),
            Some((vec![2], vec![])),
            "what was written is known"
        );
        assert_eq!(changes(&block, 3), None);
        assert_eq!(changes(&block, 1 + VERSION_GAP), None);
        assert_eq!(changes(&block, 2 + VERSION_GAP), Some((vec![], vec![])));
        // A second process takes over: of two gaps the older one is below the floor.
        block.take_over(1 << 40);
        block.apply(&ack(3, 1)).unwrap();
        assert_eq!(block.version(), (1 << 40) + VERSION_GAP);
        assert_eq!(changes(&block, 2), None);
        assert_eq!(changes(&block, 2 + VERSION_GAP), Some((vec![3], vec![])));
    }
}
