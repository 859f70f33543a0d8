//! A row for each slot: its state machine, and what this member knows of the slot beside it.

use readstates_ring::{BySlot, Epoch, Incarnation, SlotConfig, handoff::SlotAtMember};
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

/// The rows at the start of a member: it knows of no owner.
pub(super) fn at_start(me: Incarnation) -> BySlot<Row> {
    // Below every config that there can be.
    let nobody = SlotConfig::from_parts(Epoch::mint(None, 0), Incarnation::new(0), None, None);
    BySlot::of(|_| Row {
        machine: SlotAtMember::at_start(me, nobody),
        opening: None,
        held: false,
        promoted: None,
        handed: None,
    })
}
