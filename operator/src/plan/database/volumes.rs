//! Volumes that are smaller than the spec says: their claims ask for more, all at once, since a disk that fills up is the
//! usual reason. No pod is restarted, nothing else waits, and a StatefulSet keeps the size at which it makes claims: those
//! of new nodes are made with it, and grow like the others.

use readstates_operator_api::DatabaseNodeState;

use super::{DatabaseWait, Growth, Named, NodesStep, Sight};
use crate::{spec::Amount, world::ClaimSize};

/// Asks for what is missing; what grows, or has just been asked for.
pub(super) fn grow(sight: &Sight<'_>, nodes: &mut NodesStep) -> Option<DatabaseWait> {
    if sight.database.super_disk.is_some() {
        return None;
    }
    let wanted = &sight.database.volume.size.0;
    let mut growing = Vec::new();
    for (name, claim) in &sight.world.nodes.claims {
        let pod = name
            .strip_prefix("data-")
            .filter(|pod| is_of_a_node(sight, nodes, pod));
        let Some(pod) = pod.filter(|_| claim.bound) else {
            continue;
        };
        let asks = is_less(claim.size.requested.as_ref(), Some(wanted));
        if asks {
            let named = Named {
                name: name.clone(),
                uid: claim.uid.clone(),
            };
            nodes.claims_to_grow.push(Growth {
                claim: named,
                size: wanted.clone(),
            });
        }
        let ClaimSize {
            requested,
            capacity,
            words,
        } = &claim.size;
        if asks || is_less(capacity.as_ref(), requested.as_ref()) {
            growing.push((pod, name, words));
        }
    }
    let (pod, claim, words) = growing.first()?;
    Some(DatabaseWait::Growing {
        pod: (*pod).to_owned(),
        claim: (*claim).clone(),
        size: wanted.clone(),
        words: (*words).clone(),
        others: growing.len() - 1,
    })
}

/// The volume of a node that has left stays as it is.
fn is_of_a_node(sight: &Sight<'_>, nodes: &NodesStep, pod: &str) -> bool {
    let has_left = |r: &readstates_operator_api::DatabaseNode| {
        r.name == pod && r.state == DatabaseNodeState::Left
    };
    let within = sight.place(pod).is_some_and(|(rack, ordinal)| {
        let seen = sight.world.racks.get(&rack.name);
        seen.is_some_and(|seen| ordinal < seen.replicas)
    });
    within && !nodes.records.iter().any(has_left)
}

/// False where one of them is not known.
fn is_less(one: Option<&String>, other: Option<&String>) -> bool {
    let amount = |text: Option<&String>| text.and_then(|text| Amount::parse(text));
    amount(one)
        .zip(amount(other))
        .is_some_and(|(one, other)| one < other)
}

#[cfg(test)]
mod tests;
