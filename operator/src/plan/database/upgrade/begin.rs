//! The begin of an upgrade: whether there is one, whether it has room, and the name of its snapshots.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use readstates_agent::{engine::Profile, wire::SNAPSHOTS};
use readstates_operator_api::{DatabaseNode, DatabaseUpgrade, DatabaseUpgradeStage, labels};

use super::may_be_had;
use crate::{
    plan::database::{DatabaseWait, NodesStep, Sight, consent, health, version},
    templates,
    world::StatefulSetSeen,
};

/// Puts an upgrade on record, if the racks are to get another release.
pub(super) fn begin(sight: &Sight<'_>, nodes: &mut NodesStep) -> Option<DatabaseWait> {
    let from = sight.database.racks.iter().find_map(|rack| {
        let seen = sight.world.racks.get(&rack.name)?;
        let has = changes(sight, seen)?;
        consent::may_have_wanted(sight, rack, seen).then_some(has)
    })?;
    let member = health::members(&nodes.records).next()?.name.clone();
    if !may_be_had(sight) || sight.cluster.lacks_certificates() {
        // The racks tell why.
        return None;
    }
    let accepted = sight.world.consent.without_snapshot.as_ref() == Some(&sight.database.image);
    if !accepted && let Some((pod, why)) = no_room(sight, nodes, from) {
        return Some(DatabaseWait::Upgrading { pod, progress: why });
    }
    nodes.upgrade = Some(DatabaseUpgrade {
        from: from.to_owned(),
        to: sight.database.image.clone(),
        snapshot: snapshot(sight, from),
        stage: DatabaseUpgradeStage::Snapshotting,
        since: Time(sight.now),
    });
    Some(DatabaseWait::Upgrading {
        pod: member,
        progress: "it is its turn to take a snapshot".to_owned(),
    })
}

/// The image that the rack has, if the wanted one is of another release.
pub(super) fn changes<'a>(sight: &Sight<'a>, seen: &'a StatefulSetSeen) -> Option<&'a str> {
    let has = templates::database_image(seen.template.as_deref()?)?;
    version::differ(has, &sight.database.image).then_some(has)
}

/// Whether the rack may not get the wanted template yet: it has another release, and the nodes have no snapshots. A
/// database without members has nothing to go back to.
pub(in crate::plan::database) fn must_wait(
    sight: &Sight<'_>,
    nodes: &NodesStep,
    seen: &StatefulSetSeen,
) -> bool {
    let restarts = sight.world.upgrade.as_ref().is_some_and(|upgrade| {
        upgrade.stage == DatabaseUpgradeStage::Restarting && upgrade.to == sight.database.image
    });
    let has_members = health::members(&nodes.records).next().is_some();
    has_members && !restarts && changes(sight, seen).is_some()
}

/// `readstates-before-upgrade-from-5.0.8-20260315T080000Z`: whose it is, what it is of, and when it was begun.
fn snapshot(sight: &Sight<'_>, from: &str) -> String {
    let plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let tag: String = version::tag(from)
        .unwrap_or("unknown")
        .chars()
        .filter(plain)
        .collect();
    let when = sight.now.strftime("%Y%m%dT%H%M%SZ");
    format!("{SNAPSHOTS}{tag}-{when}")
}

/// Why the data cannot be written in another format beside the snapshots: of each node, as much must be free as it holds.
/// One that does not say so is waited for.
fn no_room(sight: &Sight<'_>, nodes: &NodesStep, from: &str) -> Option<(String, String)> {
    let rewrites = Profile::of(sight.database.engine).rewrites
        && !version::one_line(from, &sight.database.image);
    if !rewrites {
        return None;
    }
    health::members(&nodes.records).find_map(|record| {
        let without = || {
            format!(
                "have it done without snapshots with the annotation {}={}",
                labels::UPGRADE_WITHOUT_SNAPSHOT,
                sight.database.image
            )
        };
        let why = match room(sight, record) {
            Err(why) => format!("whether it has room for a snapshot is not known: {why}; or {}", without()),
            Ok((free, load)) if free < load => format!(
                "it has {} MiB free and holds {} MiB, which are written anew while a snapshot keeps the old files: \
                 grow the volumes, or {}",
                free >> 20,
                load >> 20,
                without()
            ),
            Ok(_) => return None,
        };
        Some((record.name.clone(), why))
    })
}

/// How many bytes are free on a node's disk, and how many it holds.
fn room(sight: &Sight<'_>, record: &DatabaseNode) -> Result<(u64, u64), String> {
    let view = health::last_view(sight, &record.name)?;
    let own = |host_id: &String| Some(host_id) == record.host_id.as_ref();
    let row = view.nodes.iter().find(|node| own(&node.host_id));
    let load = row.and_then(|row| row.load_bytes);
    let load = load.ok_or("it does not say yet how much it holds")?;
    Ok((view.free_bytes, load))
}
