//! A row for each slot: its state machine, and what this member knows of the slot beside it.

use std::ops::{Index, IndexMut};

use readstates_ring::{Epoch, Incarnation, Slot, SlotConfig, handoff::SlotAtMember};
use tokio::time::Instant;

use crate::replication::Handed;

/// One slot at this member.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) machine: SlotAtMember,
    /// To be served at this epoch once what is left of it in memory is swept.
    pub(super) opening: Option<Epoch>,
    /// Sealed, and the ring may name another member that has not yet said that it knows: what is here is kept.
    pub(super) held: bool,
    /// This member was promoted for it at this epoch, and may serve it from then on.
    pub(super) promoted: Option<(Epoch, Instant)>,
    /// What the database lacks of it while it is handed on and the ring is asked to name its next owner.
    pub(super) handed: Option<Handed>,
}

/// The rows of all slots.
#[derive(Debug)]
pub(super) struct Rows(Box<[Row]>);

impl Rows {
    /// At the start of a member: it knows of no owner.
    pub(super) fn at_start(me: Incarnation) -> Self {
        // Below every config that there can be.
        let nobody = SlotConfig::from_parts(Epoch::mint(None, 0), Incarnation::new(0), None, None);
        let row = |_| Row {
            machine: SlotAtMember::at_start(me, nobody),
            opening: None,
            held: false,
            promoted: None,
            handed: None,
        };
        Self(Slot::all().map(row).collect())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Slot, &Row)> {
        Slot::all().zip(&self.0)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (Slot, &mut Row)> {
        Slot::all().zip(&mut self.0)
    }
}

impl Index<Slot> for Rows {
    type Output = Row;

    fn index(&self, slot: Slot) -> &Row {
        &self.0[usize::from(slot.number())]
    }
}

impl IndexMut<Slot> for Rows {
    fn index_mut(&mut self, slot: Slot) -> &mut Row {
        &mut self.0[usize::from(slot.number())]
    }
}
