//! Consent to updates of pods whose spec is the same: those that only another release of the operator brings.

use super::{Sight, as_wanted};
use crate::{spec::Rack, templates, world::StatefulSetSeen};

/// The name of the update that the rack waits for consent to: the spec is the same, and only the operator has changed.
pub(super) fn lacking(sight: &Sight<'_>, seen: &StatefulSetSeen) -> Option<String> {
    let same = |hash: &String| (sight.database).says_the_same(hash, seen.claim_size.as_ref());
    let ours = seen.spec_hash.as_ref().is_none_or(same);
    let name = templates::update_name(sight.cluster, sight.database);
    (ours && sight.world.consent.update.as_ref() != Some(&name)).then_some(name)
}

/// Whether the rack is to get the wanted template, unless its release speaks against it.
pub(super) fn may_have_wanted(sight: &Sight<'_>, rack: &Rack, seen: &StatefulSetSeen) -> bool {
    !as_wanted(sight, rack, seen) && lacking(sight, seen).is_none()
}
