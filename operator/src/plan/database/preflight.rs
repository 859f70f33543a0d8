//! Before a node leaves: everything that speaks against it, with the numbers. Nothing has been done yet.

use readstates_operator_api::DatabaseNode;

use super::{NodesStep, Sight, health, super_disks};
use crate::{engine::Facts, observe::Seen};

/// What a disk must have room for, of what it will get: room for compaction and for an estimate being one.
const HEADROOM_PERCENT: u64 = 150;

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
        schema_versions,
        keyspaces,
    } = facts;
    let mut reasons = Vec::new();
    if schema_versions.len() != 1 {
        reasons.push(format!(
            "the nodes do not agree on the schema ({})",
            schema_versions.join(", ")
        ));
    }
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
