//! One cached user: the block and how it stands to the store.

use std::time::Instant;

use readstates_ring::Stamp;

use super::{Process, Progress, Touch};
use crate::{
    block::{self, BlockRef},
    codec::Decoded,
};

/// The most a user's heat can be: how many passes of the clock hand it survives untouched.
pub(super) const MOST_HEAT: u8 = 3;

/// One cached user.
#[derive(Debug)]
pub(super) struct Entry {
    /// The packed block.
    pub(super) bytes: Vec<u8>,
    /// The last write that is known.
    pub(super) stamp: Option<Stamp>,
    /// The version from which unwritten changes are counted.
    pub(super) written_version: u64,
    pub(super) unwritten: Unwritten,
    /// Where the user stands in the clock of its stripe.
    pub(super) clock_index: usize,
    heat: u8,
}

/// What of a block is not in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unwritten {
    /// Nothing.
    Clean,
    /// Changes since `since`, to be written at `due`.
    Dirty {
        since: Instant,
        due: Instant,
        failures: Failures,
    },
    /// Changes since `since` are being written; those since `rearmed` are not among them.
    Flushing {
        since: Instant,
        rearmed: Option<Instant>,
        failures: Failures,
    },
}

/// Writes that failed one after the other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Failures {
    pub(super) count: u32,
    pub(super) last: Option<Instant>,
}

impl Entry {
    /// A user as it was loaded by `process`.
    pub(super) fn loaded(loaded: Option<(Decoded<'_>, Stamp)>, process: Process) -> Self {
        let (mut bytes, stamp, ours) = match loaded {
            Some((Decoded { block, writer }, stamp)) => {
                let ours = writer == process.incarnation;
                (block.bytes().to_vec(), Some(stamp), ours)
            }
            // Whoever owned the user before may have died before the first write.
            None => (block::EMPTY.to_vec(), None, false),
        };
        if !ours {
            block::take_over(&mut bytes);
        }
        Self {
            written_version: BlockRef::trusted(&bytes)
                .next_version(process.started_micros)
                .saturating_sub(1),
            bytes,
            stamp,
            unwritten: Unwritten::Clean,
            clock_index: 0,
            heat: 0,
        }
    }

    pub(super) fn block(&self) -> BlockRef<'_> {
        BlockRef::trusted(&self.bytes)
    }

    pub(super) fn is_dirty(&self) -> bool {
        !matches!(self.unwritten, Unwritten::Clean)
    }

    /// How many versions it is ahead of the store.
    pub(super) fn ahead(&self) -> u64 {
        self.block().version().saturating_sub(self.written_version)
    }

    pub(super) fn touch(&mut self, touch: Touch) {
        self.heat = match touch {
            Touch::Online => (self.heat + 1).min(MOST_HEAT),
            Touch::Mention => self.heat.max(1),
        };
    }

    /// Cools down by one pass of the hand; whether it was cold already.
    pub(super) fn cool(&mut self) -> bool {
        let cold = self.heat == 0;
        self.heat = self.heat.saturating_sub(1);
        cold
    }

    pub(super) fn progress(&self, version: u64, since: Instant) -> Progress {
        let failures = match self.unwritten {
            Unwritten::Clean => return Progress::Written,
            Unwritten::Dirty { failures, .. } | Unwritten::Flushing { failures, .. } => failures,
        };
        if self.written_version >= version {
            Progress::Written
        } else if failures.last.is_some_and(|last| last >= since) {
            Progress::Failed
        } else {
            Progress::Waiting
        }
    }
}
