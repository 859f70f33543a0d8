//! Before a node joins or leaves: everything that speaks against it, with the numbers. Nothing has been done yet.

use std::collections::BTreeSet;

use readstates_agent::wire::{Facts, Phase};
use readstates_operator_api::DatabaseNode;

use super::{NodesStep, Sight, cleanup, health, repair, super_disks, upgrade};
use crate::world::{PodSeen, Seen};

/// What a disk must have room for, of what it will get: room for compaction and for an estimate being one.
const HEADROOM_PERCENT: u64 = 150;

/// Everything that speaks against letting a node join in this pod, with the numbers.
pub(super) fn against_joining(
    sight: &Sight<'_>,
    nodes: &NodesStep,
    rack: &str,
    pod: &PodSeen,
) -> Vec<String> {
    let known = sight
        .world
        .nodes
        .facts
        .values()
        .find_map(|seen| match seen {
            Seen::Known(facts) => Some(facts),
            Seen::Unknown(_) => None,
        });
    let mut reasons = Vec::new();
    match known {
        None => reasons.push("no member has told yet whether all agree on the schema".to_owned()),
        Some(facts) => reasons.extend(disagreement(facts)),
    }
    reasons.extend(too_small(sight, nodes, rack, pod));
    reasons.extend(upgrade::against_moves(sight, nodes));
    reasons
}

fn disagreement(facts: &Facts) -> Option<String> {
    (facts.schema_versions.len() != 1).then(|| {
        let versions = facts.schema_versions.join(", ");
        format!("the nodes do not agree on the schema ({versions})")
    })
}

/// Copies are spread over racks first: each has as much as any other one, however few nodes it has.
fn too_small(sight: &Sight<'_>, nodes: &NodesStep, rack: &str, pod: &PodSeen) -> Option<String> {
    let Ok(Phase::Waiting {
        free_bytes: Some(free),
        ..
    }) = health::phase(sight, pod)
    else {
        return None;
    };
    let members: Vec<_> = health::members(&nodes.records).collect();
    let racks: BTreeSet<_> = members
        .iter()
        .map(|r| r.rack.as_str())
        .chain([rack])
        .collect();
    let in_rack = 1 + members.iter().filter(|r| r.rack == rack).count();
    let all: u64 = members.iter().filter_map(|r| load(sight, r)).sum();
    let takers = racks.len().saturating_mul(in_rack);
    let share = all / u64::try_from(takers).unwrap_or(u64::MAX);
    let needed = share.saturating_mul(HEADROOM_PERCENT) / 100;
    (*free < needed).then(|| {
        format!(
            "it has {} free and must have {} for its share of {}: rack {rack}, one of {}, would have {in_rack} nodes. Give \
             it a larger volume, or grow another rack first",
            mib(*free),
            mib(needed),
            mib(all),
            racks.len()
        )
    })
}

/// What a member holds, as it says itself.
fn load(sight: &Sight<'_>, member: &DatabaseNode) -> Option<u64> {
    let own = health::view(sight, &member.name).ok()?;
    let row = own
        .nodes
        .iter()
        .find(|n| Some(&n.host_id) == member.host_id.as_ref())?;
    row.load_bytes
}

/// Everything that speaks against letting this node go, with the numbers.
pub(super) fn reasons_against(
    sight: &Sight<'_>,
    nodes: &NodesStep,
    leaver: &DatabaseNode,
) -> Vec<String> {
    let mut reasons = Vec::new();
    if let Err(why) = health::check(sight, &nodes.records, None) {
        reasons.push(why);
    } else if !sight.no_pod_turns() {
        reasons.push("a pod is being restarted".to_owned());
    }
    reasons.extend(super_disks::member_at_risk(sight, nodes, &leaver.name));
    reasons.extend(cleanup::against_leaving(nodes, leaver));
    reasons.extend(repair::against(sight, nodes));
    reasons.extend(upgrade::against_moves(sight, nodes));
    let stay: Vec<_> = health::members(&nodes.records)
        .filter(|r| r.name != leaver.name)
        .collect();
    match sight.world.nodes.facts.get(&leaver.name) {
        None => reasons.push(format!("{} has not been asked yet", leaver.name)),
        Some(Seen::Unknown(why)) => reasons.push(format!("{} cannot be asked: {why}", leaver.name)),
        Some(Seen::Known(facts)) => reasons.extend(against_facts(facts, stay.len())),
    }
    reasons.extend(no_room(sight, leaver, &stay));
    reasons
}

fn against_facts(facts: &Facts, stay: usize) -> Vec<String> {
    let Facts {
        schema_versions: _,
        schema_nodes: _,
        keyspaces,
    } = facts;
    let mut reasons = Vec::from_iter(disagreement(facts));
    let stay = i32::try_from(stay).unwrap_or(i32::MAX);
    for keyspace in keyspaces.iter().filter(|k| k.replication_factor > stay) {
        reasons.push(format!(
            "keyspace {} wants {} copies and {stay} nodes would remain",
            keyspace.name, keyspace.replication_factor
        ));
    }
    reasons
}

/// Its data goes to the nodes of its rack, where there are others, and else to all.
fn no_room(sight: &Sight<'_>, leaver: &DatabaseNode, stay: &[&DatabaseNode]) -> Option<String> {
    let host_id = leaver.host_id.as_deref()?;
    let own = health::view(sight, &leaver.name).ok()?;
    let row = own.nodes.iter().find(|n| n.host_id == host_id)?;
    let Some(load) = row.load_bytes else {
        let name = &leaver.name;
        return Some(format!(
            "{name} does not say yet how much data it has for the others"
        ));
    };
    let in_rack: Vec<_> = stay.iter().filter(|r| r.rack == leaver.rack).collect();
    let takers: Vec<_> = if in_rack.is_empty() {
        stay.iter().collect()
    } else {
        in_rack
    };
    let share = load / u64::try_from(takers.len().max(1)).unwrap_or(u64::MAX);
    let needed = share.saturating_mul(HEADROOM_PERCENT) / 100;
    takers.iter().find_map(|taker| {
        let view = health::view(sight, &taker.name).ok()?;
        (view.free_bytes < needed).then(|| {
            format!(
                "{} has {} free and must have {} for its share of the {} of {}",
                taker.name,
                mib(view.free_bytes),
                mib(needed),
                mib(load),
                leaver.name
            )
        })
    })
}

fn mib(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}
