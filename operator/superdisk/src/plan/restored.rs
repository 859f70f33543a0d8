//! A durable leg that its operator has put back in place from a snapshot: the fast legs of before are forgotten, once.
//!
//! A leg that went on is noticed by its generation anyway. That the operator says so decides what no header does: that
//! a fast leg which took writes without the durable leg is given up too, without another question. It is told that the
//! durable leg's generation is the snapshot's or an older one; forgetting begins a later generation, and so happens
//! once. One write is all it takes, so a kill leaves it done or not done.

use super::ours::Ours;
use crate::{
    action::{Action, Leg},
    inventory::Inventory,
    lineage::{Header, State},
    model::Seen,
    spec::Spec,
};

/// Whether fast legs are to be forgotten before anything is asked of them.
pub(super) fn is_due(spec: &Spec, ours: &Ours<'_>) -> bool {
    let own = ours.header.filter(|header| header.volume == spec.volume);
    own.zip(spec.restored)
        .is_some_and(|(header, restored)| header.point.generation <= restored)
}

/// Forgets them, where that is due.
pub(super) fn forget(spec: &Spec, inventory: &Inventory, ours: &Ours<'_>) -> Option<Action> {
    let header = ours.header.filter(|_| is_due(spec, ours))?;
    Some(Action::WriteLineage {
        leg: Leg::Durable(ours.identity.clone()),
        region: ours.region,
        header: beyond(inventory, header, spec.restored.unwrap_or_default()),
    })
}

/// A header of a later generation than `generation`, its own and that of any fast leg in sight, to which none of them is
/// related. Clean, so that nobody takes it for one in use.
pub(crate) fn beyond(inventory: &Inventory, header: &Header, generation: u64) -> Header {
    let of_legs = inventory.legs.iter().filter_map(|leg| match &leg.inside {
        Seen::Present(inside) => match &inside.lineage {
            Seen::Present(found) if found.volume == header.volume => Some(found.point.generation),
            Seen::Present(_) | Seen::Absent | Seen::Unknown(_) => None,
        },
        Seen::Absent | Seen::Unknown(_) => None,
    });
    let newest = of_legs
        .chain([generation, header.point.generation])
        .max()
        .unwrap_or_default();
    let mut beyond = Header {
        state: match header.state {
            State::Creating => State::Creating,
            State::InUse | State::Clean => State::Clean,
        },
        ..header.forgetting(inventory.random, inventory.boot)
    };
    beyond.point.generation = newest.saturating_add(1);
    beyond
}
