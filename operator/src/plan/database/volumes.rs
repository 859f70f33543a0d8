//! Volumes that are smaller than the spec says: their claims ask for more, all at once, since a disk that fills up is the
//! usual reason. No pod is restarted, nothing else waits, and a StatefulSet keeps the size at which it makes claims: those
//! of new nodes are made with it, and grow like the others.
//!
//! Super-disks grow one after another: each is read from its network disk while its local disks are filled anew.

use readstates_operator_api::{DatabaseNodeState, SuperDiskState};

use super::{DatabaseWait, Growth, Named, NodesStep, Sight, super_disks};
use crate::{
    spec::Amount,
    super_disk::smaller_than,
    world::{ClaimSeen, ClaimSize},
};

/// One that grows or has yet to.
struct Growing<'a> {
    pod: &'a str,
    claim: &'a str,
    /// How far it is.
    words: Option<String>,
}

/// Asks for what is missing; what grows, or has just been asked for.
pub(super) fn grow(sight: &Sight<'_>, nodes: &mut NodesStep) -> Option<DatabaseWait> {
    let wanted = &sight.database.volume.size.0;
    let refilled = refilled(sight);
    let mut growing = Vec::new();
    for (claim, seen) in &sight.world.nodes.claims {
        let pod = claim
            .strip_prefix("data-")
            .filter(|pod| is_of_a_node(sight, nodes, pod));
        let Some(pod) = pod.filter(|_| seen.bound) else {
            continue;
        };
        let ClaimSize {
            requested,
            capacity,
            words,
        } = &seen.size;
        let words = if is_less(requested.as_ref(), Some(wanted)) {
            let in_turn = sight.database.super_disk.is_none() || growing.is_empty();
            if refilled.is_none() && in_turn {
                nodes.claims_to_grow.push(Growth {
                    claim: Named {
                        name: claim.clone(),
                        uid: seen.uid.clone(),
                    },
                    size: wanted.clone(),
                });
            }
            words.clone().or_else(|| refilled.clone())
        } else if is_less(capacity.as_ref(), requested.as_ref()) {
            words.clone()
        } else if let Some(words) = lags(sight, pod, seen) {
            Some(words)
        } else {
            continue;
        };
        growing.push(Growing { pod, claim, words });
    }
    let others = growing.len().saturating_sub(1);
    let Growing { pod, claim, words } = growing.into_iter().next()?;
    Some(DatabaseWait::Growing {
        pod: pod.to_owned(),
        claim: claim.to_owned(),
        size: wanted.clone(),
        words,
        others,
    })
}

/// The super-disk whose local disks are being filled or soon will be, in words. One that waits for a person does not hold up
/// the others.
fn refilled(sight: &Sight<'_>) -> Option<String> {
    let is_refilled = |state| match state {
        SuperDiskState::Rebuilding | SuperDiskState::FastLost | SuperDiskState::Assembling => true,
        SuperDiskState::Healthy
        | SuperDiskState::Waiting
        | SuperDiskState::Refused
        | SuperDiskState::Failed
        | SuperDiskState::DurableLost
        | SuperDiskState::Unknown => false,
    };
    sight.database.super_disk.as_ref()?;
    super_disks::at_risk(sight)
        .find(|(_, judged)| is_refilled(judged.state) && !judged.needs_a_person)
        .map(|(pod, judged)| format!("the super-disk of {pod} comes first: {}", judged.message))
}

/// The super-disk that does not use all of a volume that has grown, in words.
fn lags(sight: &Sight<'_>, pod: &str, claim: &ClaimSeen) -> Option<String> {
    let capacity = Amount::parse(claim.size.capacity.as_ref()?)?;
    let (rack, _) = sight.place(pod)?;
    let made = sight.world.racks.get(&rack.name)?.claim_size.as_ref()?;
    if Amount::parse(&made.0)? >= capacity {
        return None;
    }
    let used = smaller_than(sight.world.super_disks.get(pod)?, capacity.units())?;
    Some(format!(
        "its super-disk uses {} MiB of the volume, and uses all of it once the pod is of this operator's release and its \
         local disks together are as large",
        used >> 20
    ))
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
