//! A pod of the searched world: the functions of the protocol as they are, and the shell around them.

use std::time::Duration;

use super::{Block, Cell, Content, Pending, slot};
use crate::{
    Epoch, Incarnation, SlotConfig, Stamp,
    handoff::{SlotAtMember, Stage, State},
    replication::{Backup, Guard, Journal, Streams, Tickets},
};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Pod {
    pub(super) me: Incarnation,
    pub(super) lease: bool,
    pub(super) slot: SlotAtMember,
    pub(super) guard: Guard,
    pub(super) streams: Streams,
    pub(super) backup: Backup<u8, Content>,
    /// Of a promoted owner, until the database has it.
    pub(super) inherited: Option<Journal<u8, Content>>,
    pub(super) serves_from: Duration,
    /// By the config that it knows.
    pub(super) promoted: bool,
    pub(super) block: Option<Block>,
    /// Read from the database, on its way into memory.
    pub(super) loading: Option<(Epoch, Cell)>,
    pub(super) pending: Option<Pending>,
    /// Those of the user's last change.
    pub(super) last: Tickets,
    pub(super) writing: Option<Stamp>,
    /// Changed since the write began.
    pub(super) rearmed: bool,
    pub(super) seq: u32,
    /// The epoch at which it served last: what it writes was acknowledged then.
    pub(super) term: Option<Epoch>,
    /// What an origin sent: its block, if it had one.
    pub(super) received: Option<Option<Block>>,
}

impl Pod {
    pub(super) fn new(me: Incarnation, config: SlotConfig) -> Self {
        let mut backup = Backup::new(me);
        backup.learned(slot(), config, None, Duration::ZERO);
        Self {
            me,
            lease: true,
            slot: SlotAtMember::at_start(me, config),
            guard: Guard::new(slot()),
            streams: Streams::new(),
            backup,
            inherited: None,
            serves_from: Duration::ZERO,
            promoted: false,
            block: None,
            loading: None,
            pending: None,
            last: Tickets::default(),
            writing: None,
            rearmed: false,
            seq: 0,
            term: None,
            received: None,
        }
    }

    /// Forgets what it had as the owner.
    pub(super) fn forget(&mut self) {
        (self.block, self.writing, self.loading) = (None, None, None);
        (self.pending, self.inherited) = (None, None);
        (self.promoted, self.term) = (false, None);
        self.last = Tickets::default();
    }

    /// Whether it owns the slot and has not sealed it.
    pub(super) fn is_open(&self) -> bool {
        self.slot.admits().is_some()
    }

    pub(super) fn is_streaming(&self) -> bool {
        matches!(
            self.slot.state(),
            State::Owner {
                streaming_to: Some(_),
                ..
            }
        )
    }

    pub(super) fn stage(&self) -> Option<Stage> {
        match self.slot.state() {
            State::Sealed { stage, .. } => Some(stage),
            State::Owner { .. }
            | State::Away
            | State::Receiving { .. }
            | State::Ready { .. }
            | State::Taking { .. } => None,
        }
    }

    pub(super) fn may_flush(&self) -> bool {
        self.block.is_some_and(|block| block.dirty) && self.writing.is_none() && self.term.is_some()
    }

    pub(super) fn may_evict(&self) -> bool {
        self.block.is_some_and(|block| !block.dirty)
            && self.writing.is_none()
            && self.is_open()
            && self.pending.is_none()
    }

    /// Whether everything that it has of the slot is in the database.
    pub(super) fn is_written(&self) -> bool {
        self.writing.is_none() && self.block.is_none_or(|block| !block.dirty)
    }
}
