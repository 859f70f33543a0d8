//! A member of the searched world: the state machine, the shell around it, and what the two may do.

use super::{Block, Cell, ModelAnswer};
use crate::{
    Epoch, Incarnation, SlotConfig, Stamp,
    handoff::{Event, SlotAtMember, Stage, State},
};

/// One member: the state machine as it is, and the shell around it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Member {
    pub(super) alive: bool,
    pub(super) me: Incarnation,
    pub(super) lease: bool,
    pub(super) slot: SlotAtMember,
    pub(super) block: Option<Block>,
    /// The block was received and is not served yet: it is not written from here.
    pub(super) unserved: bool,
    /// What was handed on and is not in the database, with the stamp under which it is to be written.
    pub(super) handed: Option<(Block, Stamp)>,
    /// What an origin sent: its block, if it has one.
    pub(super) received: Option<Option<Block>>,
    /// Read from the database, on its way into memory, for an epoch.
    pub(super) loading: Option<(Epoch, Cell)>,
    /// Applied, not acknowledged yet.
    pub(super) answer: Option<ModelAnswer>,
    pub(super) writing: Option<Stamp>,
    /// Changed since the write began.
    pub(super) rearmed: bool,
    pub(super) seq: u32,
    /// The epoch at which it served last: what it writes was acknowledged then.
    pub(super) term: Option<Epoch>,
    /// The line of the ring that it has said it knows.
    pub(super) said: u8,
}

impl Member {
    pub(super) fn new(me: Incarnation, slot: SlotAtMember) -> Self {
        Self {
            alive: true,
            me,
            lease: true,
            slot,
            block: None,
            unserved: false,
            handed: None,
            received: None,
            loading: None,
            answer: None,
            writing: None,
            rearmed: false,
            seq: 0,
            term: None,
            said: 0,
        }
    }

    /// Whether it takes the slot when it finds this ring, and the owner gone: not when it knows more than the ring.
    pub(super) fn may_take(&self, ring: SlotConfig) -> bool {
        let knows_more = self.slot.config().epoch() > ring.epoch() || self.unbroken();
        self.alive && self.lease && !knows_more
    }

    /// Whether it serves, and no other member can have taken the slot from it.
    pub(super) fn unbroken(&self) -> bool {
        self.alive && self.lease && self.slot.unbroken().is_some()
    }

    pub(super) fn may_flush(&self) -> bool {
        self.block.is_some_and(|block| block.dirty)
            && self.writing.is_none()
            && !self.unserved
            && self.slot.flushes().is_some()
    }

    /// Whether something is kept here of a slot that was handed on, or may have been: it is written within the time
    /// after which a silent owner is taken for dead.
    pub(super) fn keeps_handed(&self) -> bool {
        let dirty = self.block.is_some_and(|block| block.dirty);
        let asked = self.slot.has_asked() && self.lease;
        self.alive && (self.handed.is_some() || (asked && dirty))
    }

    pub(super) fn may_evict(&self) -> bool {
        self.block.is_some_and(|block| !block.dirty)
            && self.writing.is_none()
            && self.slot.admits().is_some()
            && self.answer.is_none()
    }

    /// Before it renews the lease, it tells the state machine that the lease had run out.
    pub(super) fn may_renew(&self) -> bool {
        let noticed = match self.slot.state() {
            State::Sealed { stage, .. } => matches!(stage, Stage::WithoutLease { .. }),
            State::Ready { lapsed, .. } => lapsed,
            State::Away | State::Receiving { .. } => true,
            State::Owner { .. } | State::Taking { .. } => false,
        };
        !self.lease && noticed
    }

    /// What the shell of this member may report now.
    pub(super) fn hears(&self) -> Vec<Event> {
        let mut events = Vec::new();
        match self.slot.state() {
            State::Owner {
                streaming_to: Some(_),
                ..
            } => events.extend([Event::CaughtUp, Event::StreamFailed]),
            State::Sealed {
                stage: Stage::Finishing { .. },
                ..
            } => {
                events.push(Event::StreamFailed);
                if self.answer.is_none() {
                    events.push(Event::Finished);
                }
            }
            State::Sealed {
                stage: Stage::Sent { .. } | Stage::Handing { .. },
                ..
            } => events.push(Event::StreamFailed),
            State::Receiving { .. } | State::Ready { .. } => events.push(Event::OriginSilent),
            State::Sealed {
                stage: Stage::Retaking { .. } | Stage::WithoutLease { .. },
                ..
            }
            | State::Owner { .. }
            | State::Taking { .. }
            | State::Away => {}
        }
        if !self.lease && !self.may_renew() {
            events.push(Event::LeaseLost);
        }
        events
    }
}
