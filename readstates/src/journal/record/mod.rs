//! One change of one user as bytes.
//!
//! | bytes, little endian | |
//! |---|---|
//! | 8 | the user |
//! | 8 | the first version of the slot's term, see [`crate::block::take_over`] |
//! | 8 | the user's version after the change |
//! | 4 | 0: the block was this process's; 1 or 2: another's until then |
//! | 4 | how many parts follow, 0 to [`MOST_OPERATIONS`] |
//! | 8 or 0 | with 2 alone: the user's version before |
//! | 32 each | parts of operations: see [`crate::codec::parts`] |
//!
//! Operations are pure: applied to the same block they give the same block. So a change is replayed by doing it
//! again, and the version says whether it was the same. Without operations it is the mark of this process on a block
//! that another one wrote: see [`crate::block::renew`].

pub(crate) use crate::codec::parts::UnknownRecord;
use crate::{
    block::Operation,
    codec::parts::{PART, operations_of, parts_of, put_operations, u32_at, u64_at},
};

/// Bytes of a record before its operations.
pub(super) const HEAD: usize = 32;
/// Bytes of a version.
const VERSION: usize = 8;
/// Parts of one change: more than any request about one user has.
pub(super) const MOST_OPERATIONS: usize = 1 << 16;

/// Whose a block was before a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Before {
    /// This process's: its version says whether anything is missing before the change.
    Ours,
    /// Another's, at this version. The version jumps with the change, and says nothing by itself.
    Others { version: u64 },
    /// Another's, as the first release with a journal wrote it.
    OthersAtAny,
}

const OURS: u32 = 0;
const OTHERS_AT_ANY: u32 = 1;
const OTHERS: u32 = 2;

/// A change that was applied, as [`super::Journal::append`] takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry<'a> {
    pub(crate) user: u64,
    /// The first version of the slot's term.
    pub(crate) first_version: u64,
    /// The user's version after it.
    pub(crate) version: u64,
    /// Whose the block was until then.
    pub(crate) before: Before,
    /// What was done, ignored operations included.
    pub(crate) operations: &'a [Operation],
}

/// A change as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) user: u64,
    pub(super) first_version: u64,
    pub(super) version: u64,
    pub(super) before: Before,
    pub(super) operations: Vec<Operation>,
}

impl Entry<'_> {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let (kind, before) = match self.before {
            Before::Ours => (OURS, None),
            Before::OthersAtAny => (OTHERS_AT_ANY, None),
            Before::Others { version } => (OTHERS, Some(version)),
        };
        let parts = parts_of(self.operations);
        out.reserve(HEAD + VERSION + PART * parts);
        out.extend(self.user.to_le_bytes());
        out.extend(self.first_version.to_le_bytes());
        out.extend(self.version.to_le_bytes());
        out.extend(kind.to_le_bytes());
        // A request has far fewer than 2^32.
        out.extend((parts as u32).to_le_bytes());
        if let Some(version) = before {
            out.extend(version.to_le_bytes());
        }
        put_operations(out, self.operations);
    }
}

/// All changes of a frame, in the order in which they were made.
pub(super) fn decode_all(mut bytes: &[u8]) -> Result<Vec<Change>, UnknownRecord> {
    let mut changes = Vec::new();
    while let Some((head, rest)) = bytes.split_first_chunk::<HEAD>() {
        let (before, rest) = match u32_at(head, 24) {
            OURS => (Before::Ours, rest),
            OTHERS_AT_ANY => (Before::OthersAtAny, rest),
            OTHERS => {
                let (version, rest) = rest.split_first_chunk().ok_or(UnknownRecord)?;
                let version = u64::from_le_bytes(*version);
                (Before::Others { version }, rest)
            }
            _ => return Err(UnknownRecord),
        };
        let count = u32_at(head, 28) as usize;
        if count > MOST_OPERATIONS {
            return Err(UnknownRecord);
        }
        let (parts, rest) = rest.split_at_checked(PART * count).ok_or(UnknownRecord)?;
        changes.push(Change {
            user: u64_at(head, 0),
            first_version: u64_at(head, 8),
            version: u64_at(head, 16),
            before,
            operations: operations_of(parts)?,
        });
        bytes = rest;
    }
    if bytes.is_empty() {
        Ok(changes)
    } else {
        Err(UnknownRecord)
    }
}

#[cfg(test)]
mod tests;
