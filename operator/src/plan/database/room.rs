//! The number of members that a rack may have: fewer only when a node has left, and never fewer than nodes that have
//! not; more only where nothing is left of the node that was there.

use readstates_operator_api::{DatabaseNode, DatabaseNodeState};

use super::{DatabaseWait, NodesStep, Sight, leave, on_its_way, upgrade};
use crate::{spec::Rack, world::StatefulSetSeen};

/// How many members the rack may have now.
pub(super) fn members(
    sight: &Sight<'_>,
    nodes: &NodesStep,
    rack: &Rack,
    seen: &StatefulSetSeen,
) -> (i32, Option<DatabaseWait>) {
    let has = seen.replicas;
    let held = held(sight, nodes, rack);
    if has < held {
        // It was scaled down by hand.
        return (held, None);
    }
    let last = sight.name(rack, has - 1);
    let record = held_by(sight, nodes, &last);
    if let Some(left) = record.filter(|r| r.state == DatabaseNodeState::Left) {
        return (has - i32::from(sight.recorded(left)), None);
    }
    if rack.members > has {
        let leaving =
            |r: &DatabaseNode| r.rack == rack.name && r.state == DatabaseNodeState::Leaving;
        if nodes.records.iter().any(leaving) {
            return (has, None);
        }
        if let Some(why) = upgrade::against_moves(sight, nodes) {
            let pod = sight.name(rack, has);
            let reasons = vec![why];
            return (has, Some(DatabaseWait::JoinRefused { pod, reasons }));
        }
        return room(sight, nodes, rack, has);
    }
    let unneeded = rack.members < has && record.is_none() && on_nothing(nodes);
    let dropped = unneeded && leave::never_started(sight, &last).is_ok();
    (has - i32::from(dropped), None)
}

fn on_nothing(nodes: &NodesStep) -> bool {
    on_its_way(&nodes.records).is_none()
}

/// How many members the rack must have, whatever the spec says: every node that has not left is needed, by itself or by
/// the others, until it has left.
pub(super) fn held(sight: &Sight<'_>, nodes: &NodesStep, rack: &Rack) -> i32 {
    let records = nodes.records.iter();
    let stay = records.filter(|r| r.state != DatabaseNodeState::Left);
    let ordinals = stay.filter_map(|r| {
        let (place, ordinal) = sight.place(&r.name)?;
        (place.name == rack.name).then_some(ordinal)
    });
    ordinals.max().map_or(0, |last| last.saturating_add(1))
}

/// How many members the rack may get: a place is taken until nothing is left of the node that was there.
pub(super) fn room(
    sight: &Sight<'_>,
    nodes: &NodesStep,
    rack: &Rack,
    has: i32,
) -> (i32, Option<DatabaseWait>) {
    let taken = (has..rack.members)
        .map(|ordinal| (ordinal, sight.name(rack, ordinal)))
        .find(|(_, name)| {
            let record = held_by(sight, nodes, name);
            record.is_some_and(|r| r.state == DatabaseNodeState::Left)
        });
    let held = held(sight, nodes, rack);
    let Some((ordinal, pod)) = taken else {
        return (rack.members.max(held), None);
    };
    let claim = sight.cluster.id.claim(&pod);
    // Otherwise it is free as soon as that is on record.
    let stays = nodes.records.iter().any(|r| r.name == pod);
    (
        ordinal.max(held),
        stays.then_some(DatabaseWait::FormerClaim { pod, claim }),
    )
}

/// The record of the node that holds this place, even if it is dropped only in this round. If the StatefulSet were
/// changed before that is on record, an operator that finds the record would change it back, or wait for a node that
/// cannot come.
fn held_by<'a>(sight: &'a Sight<'_>, nodes: &'a NodesStep, name: &str) -> Option<&'a DatabaseNode> {
    let mut records = nodes.records.iter().chain(&sight.world.records);
    records.find(|r| r.name == name)
}
