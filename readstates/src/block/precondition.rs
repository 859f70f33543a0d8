//! What a change may ask of the block before it: the version that its sender knows, or that there is something.

use super::BlockRef;

/// A condition of a change, looked at under the same lock as the change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Precondition {
    /// The user's version is one of these; none of none.
    VersionIn(Box<[u64]>),
    /// There is a read state: of this channel, or of any.
    Exists(Option<u64>),
}

impl Precondition {
    /// Whether a change of this block may be made.
    #[must_use]
    pub fn holds(&self, block: BlockRef<'_>) -> bool {
        match self {
            Self::VersionIn(versions) => versions.contains(&block.version()),
            Self::Exists(Some(channel)) => block.state(*channel).is_some(),
            Self::Exists(None) => !block.is_empty(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::{EMPTY, Operation, Visit, apply};

    #[test]
    fn a_version_holds_until_the_next_change_and_a_state_until_its_deletion() {
        let mut block = EMPTY.to_vec();
        let version = |versions: &[u64]| Precondition::VersionIn(versions.into());
        let (any, of_ten) = (Precondition::Exists(None), Precondition::Exists(Some(10)));
        assert!(version(&[0]).holds(BlockRef::trusted(&block)));
        assert!(!any.holds(BlockRef::trusted(&block)));
        let ack = Operation::Ack {
            channel: 10,
            message: 1,
            visit: Visit::default(),
        };
        apply(&mut block, &ack, 0).unwrap();
        assert!(!version(&[0]).holds(BlockRef::trusted(&block)));
        assert!(version(&[7, 1]).holds(BlockRef::trusted(&block)));
        assert!(!version(&[]).holds(BlockRef::trusted(&block)));
        assert!(any.holds(BlockRef::trusted(&block)) && of_ten.holds(BlockRef::trusted(&block)));
        assert!(!Precondition::Exists(Some(11)).holds(BlockRef::trusted(&block)));
        apply(&mut block, &Operation::Delete { channel: 10 }, 0).unwrap();
        assert!(!any.holds(BlockRef::trusted(&block)) && !of_ten.holds(BlockRef::trusted(&block)));
    }
}
