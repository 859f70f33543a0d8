//! What a promoted owner makes of a user that it loads: the journal above what the database has.

use std::sync::Arc;

use readstates_ring::replication::{Journal, Mismatch};

use super::wire::{Done, Image};
use crate::{
    block::{self, BlockRef, EMPTY},
    codec::{self, Decoded},
};

/// What an owner before this one acknowledged, of one slot.
pub(crate) type OfSlot = Journal<Done, Arc<Image>>;

/// A user's block when the database has `loaded`; `None` if that lacks nothing.
///
/// # Errors
/// When a change does not follow from what is there: what that user lacks is lost.
pub(crate) fn replayed(
    journal: &OfSlot,
    user: u64,
    loaded: Option<&Decoded<'_>>,
) -> Result<Option<Vec<u8>>, Mismatch> {
    let loaded = loaded.map_or(BlockRef::trusted(&EMPTY), |decoded| decoded.block);
    let begin = (loaded.version(), loaded.bytes().to_vec());
    let replayed = journal.replay(
        user,
        begin,
        |image| image.block(),
        |block, change| {
            let Ok(operations) = change.operation.operations() else {
                // Of another release: it is told as a change that does not follow.
                return 0;
            };
            let first_version = change.operation.first_version;
            // Where it would not fit, it did not fit then, and the version says so.
            let _ = block::apply_all(block, &operations, first_version, |_| ());
            BlockRef::trusted(block).version()
        },
    );
    Ok(replayed?.map(|(_, block)| block))
}

impl Image {
    /// The block, unpacked.
    fn block(&self) -> Vec<u8> {
        // It was checked when it came.
        let decoded = codec::decode(&self.bytes);
        decoded.map_or(EMPTY.to_vec(), |decoded| decoded.block.bytes().to_vec())
    }
}
