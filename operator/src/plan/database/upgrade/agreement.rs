//! Agreement of the nodes on the schema, before each restart of an upgrade. In: what one of them knows of all. Out: why
//! the next one waits.
//!
//! Within a release line all nodes must have one version. Releases of two lines describe their own tables differently,
//! so while some nodes run each, the nodes of each must agree among themselves.

use std::collections::{BTreeMap, BTreeSet};

use readstates_agent::wire::Facts;
use readstates_operator_api::DatabaseUpgrade;

use crate::{
    plan::database::{Sight, outdated, version},
    world::Seen,
};

/// How Cassandra names the nodes that it could not ask.
pub(in crate::plan::database) const UNREACHABLE: &str = "UNREACHABLE";

pub(super) fn lacks(sight: &Sight<'_>, upgrade: &DatabaseUpgrade) -> Option<String> {
    let mut unknown = "no node has been asked for the version of the schema yet".to_owned();
    for seen in sight.world.nodes.facts.values() {
        match seen {
            Seen::Known(facts) => return against(sight, upgrade, facts),
            Seen::Unknown(why) => {
                unknown = format!("the version of the schema is not known: {why}")
            }
        }
    }
    Some(unknown)
}

fn against(sight: &Sight<'_>, upgrade: &DatabaseUpgrade, facts: &Facts) -> Option<String> {
    let Facts {
        schema_versions: versions,
        schema_nodes: nodes,
        keyspaces: _,
    } = facts;
    if versions.iter().any(|v| v == UNREACHABLE) {
        return Some("some nodes do not tell their version of the schema".to_owned());
    }
    if versions.len() == 1 {
        return None;
    }
    let disagree = || {
        let versions = versions.join(", ");
        Some(format!("the nodes do not agree on the schema: {versions}"))
    };
    if version::one_line(&upgrade.from, &upgrade.to) || nodes.is_empty() {
        return disagree();
    }
    let images = images(sight);
    let mut of_each: BTreeMap<&Option<&str>, BTreeSet<&str>> = BTreeMap::new();
    for (version, addresses) in nodes {
        for address in addresses {
            let Some(image) = images.get(address.as_str()) else {
                return disagree();
            };
            of_each.entry(image).or_default().insert(version);
        }
    }
    if of_each.values().any(|versions| versions.len() > 1) {
        return disagree();
    }
    None
}

/// The image of each pod, by its address; none where its template is an earlier one.
fn images<'a>(sight: &Sight<'a>) -> BTreeMap<&'a str, Option<&'a str>> {
    let pods = sight.database.racks.iter().flat_map(|rack| {
        let seen = sight.world.racks.get(&rack.name);
        sight.pods_of(rack).filter_map(move |(_, pod)| {
            let seen = seen?;
            let template = seen.template.as_deref().filter(|_| !outdated(pod, seen));
            Some((
                pod.ip.as_deref()?,
                template.and_then(crate::templates::database_image),
            ))
        })
    });
    pods.collect()
}
