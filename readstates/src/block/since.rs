//! What changed since a version, and for which versions that can be told.
//!
//! Every state carries the version of its change, so a change needs no log. Deletions leave no state
//! behind: the newest 64 are remembered. A request about a version from before the newest forgotten
//! one gets everything. So does a request with a version out of a [`Gap`].

use super::{
    BlockRef, States,
    layout::{self, DELETION, Shape, word},
    view::Eras,
};

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
#[derive(Debug, Clone)]
pub enum Since<'a> {
    /// It cannot be told: here is everything.
    Everything(States<'a>),
    /// The changed states by channel, and the channels whose states were deleted.
    Changes {
        /// States changed after the version asked about.
        states: States<'a>,
        /// Channels deleted after it, by id.
        deleted: Vec<u64>,
    },
}

impl<'a> BlockRef<'a> {
    /// What changed after `version`.
    #[must_use]
    pub fn since(self, version: u64) -> Since<'a> {
        let Gap { after, until } = gap(self.bytes());
        let lost = after < version && version < until;
        if version > self.version() || version < floor(self.bytes()) || lost {
            return Since::Everything(self.states());
        }
        let newer = deletions(self.bytes()).filter(|&(_, deletion)| deletion > version);
        let mut deleted: Vec<u64> = newer.map(|(channel, _)| channel).collect();
        deleted.sort_unstable();
        Since::Changes {
            states: self.states().after(version),
            deleted,
        }
    }

    /// What is remembered of the past.
    #[must_use]
    pub fn history(self) -> History {
        History {
            floor: floor(self.bytes()),
            gap: gap(self.bytes()),
            deleted: deletions(self.bytes()).collect(),
        }
    }
}

/// The last jump: an era begins with one.
pub(crate) fn gap(bytes: &[u8]) -> Gap {
    let shape = Shape::of(bytes);
    Gap {
        after: match shape.has_after {
            true => word(bytes, shape.after_at()),
            false => 0,
        },
        until: layout::base(bytes),
    }
}

/// Below this version it is not known what was deleted. One gap is remembered: never below the era
/// before the newest, where an older one may be.
pub(super) fn floor(bytes: &[u8]) -> u64 {
    let shape = Shape::of(bytes);
    match shape.has_floor {
        true => word(bytes, shape.floor_at()),
        false => Eras::of(bytes).previous(),
    }
}

/// (channel, version) of the deletions remembered, oldest first.
pub(super) fn deletions(bytes: &[u8]) -> impl Iterator<Item = (u64, u64)> {
    let shape = Shape::of(bytes);
    let (deletions, _) = bytes[shape.deletions_at()..shape.directory_at()].as_chunks::<DELETION>();
    deletions
        .iter()
        .map(|deletion| (word(deletion, 0), word(deletion, 8)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::{EMPTY, Operation, VERSION_GAP, Visit, apply, take_over};

    fn ack(channel: u64, message: u64) -> Operation {
        Operation::Ack {
            channel,
            message,
            visit: Visit::default(),
        }
    }

    fn block(operations: &[Operation]) -> Vec<u8> {
        let mut block = EMPTY.to_vec();
        for operation in operations {
            apply(&mut block, operation, 0).unwrap();
        }
        block
    }

    fn changes(block: &[u8], since: u64) -> Option<(Vec<u64>, Vec<u64>)> {
        match BlockRef::trusted(block).since(since) {
            Since::Everything(_) => None,
            Since::Changes { states, deleted } => {
                Some((states.map(|state| state.channel).collect(), deleted))
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
        let view = BlockRef::trusted(&erased);
        assert_eq!((view.version(), view.len(), view.weight()), (3, 0, 1));
        assert_eq!(changes(&erased, 2), None);
        assert_eq!(changes(&erased, 3), Some((vec![], vec![])));
    }

    #[test]
    fn versions_a_dead_process_may_have_handed_out_get_everything() {
        let version = |block: &[u8]| BlockRef::trusted(block).version();
        let mut block = block(&[ack(1, 1), ack(2, 1)]);
        take_over(&mut block);
        assert_eq!(version(&block), 2, "taking over alone changes nothing");
        apply(&mut block, &ack(2, 2), 0).unwrap();
        assert_eq!(version(&block), 2 + VERSION_GAP);
        assert_eq!(
            changes(&block, 2),
            Some((vec![2], vec![])),
            "what was written is known"
        );
        assert_eq!(changes(&block, 3), None);
        assert_eq!(changes(&block, 1 + VERSION_GAP), None);
        assert_eq!(changes(&block, 2 + VERSION_GAP), Some((vec![], vec![])));
        // A second process takes over: of two gaps the older one is below the floor.
        take_over(&mut block);
        apply(&mut block, &ack(3, 1), 1 << 40).unwrap();
        assert_eq!(version(&block), (1 << 40) + VERSION_GAP);
        assert_eq!(changes(&block, 2), None);
        assert_eq!(changes(&block, 2 + VERSION_GAP), Some((vec![3], vec![])));
    }
}
