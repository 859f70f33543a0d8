//! A header in place of one that cannot be read, while its durable leg is served: by the fast leg's copy.
//!
//! Before a durable leg is served, a lost header is a person's question (`E_PD_HEADER_LOST`). Once it is, that question
//! was answered, and the fast leg that md mirrors it to has a header of this very start: written after the durable leg's,
//! and at most one behind. What cannot be proven so is left to a person.

use super::{
    durable::{Durable, classify},
    questions,
};
use crate::{inventory::Inventory, lineage::Header, model::Seen, spec::Spec};

/// The header to write from, for a durable leg whose own cannot be read; `None` where it can be, or where nothing proves
/// what it said.
#[must_use]
pub fn header_by_fast_leg(spec: &Spec, inventory: &Inventory) -> Option<Header> {
    let Ok(Durable::Ours(ours)) = classify(spec, inventory) else {
        return None;
    };
    let is_lost = matches!(ours.content.lineage, Seen::Unknown(_));
    let mirror = inventory.array_of(ours.identity.number)?;
    let durable = mirror.member(ours.identity.number)?;
    let lasts = durable.is_whole();
    if !is_lost || !lasts || !questions::is_served(spec, inventory, &ours) {
        return None;
    }
    let mut legs = inventory.legs.iter();
    let leg = legs.find(|leg| questions::is_in_mirror(inventory, leg, &ours))?;
    let Seen::Present(inside) = &leg.inside else {
        return None;
    };
    let Seen::Present(header) = &inside.lineage else {
        return None;
    };
    let is_of_this_start =
        header.volume == spec.volume && questions::is_admitted(inventory, header, leg.stripe);
    is_of_this_start.then(|| header.in_place_of_lost())
}
