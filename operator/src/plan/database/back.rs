//! Nodes whose volume was signed by an agent but whose pod was not told that it is this node: the resource was created
//! again, the record is lost, or the disk is not the one that was there. In: what the disks say and what the other
//! nodes know. Out: start orders for the pods to which the data belongs.
//!
//! A pod that was told which node it is, and has that node's data, starts by itself and never comes here.

use readstates_agent::wire::{Disk, Phase, Start};
use readstates_operator_api::{DatabaseNode, DatabaseNodeState, VolumesOf};

use super::{DatabaseTrouble, NodesStep, Order, Sight, health, join};
use crate::world::{PodSeen, Seen};

/// Gives the orders. A node that comes back takes nothing from others: all may start at once, whatever else is under
/// way.
pub(super) fn decide(sight: &Sight<'_>, nodes: &mut NodesStep) {
    for pod in &sight.world.database_pods {
        let Ok(Phase::Waiting {
            disk: Disk::Known {
                host_id,
                pod: signed,
            },
            ..
        }) = health::phase(sight, pod)
        else {
            continue;
        };
        if pod.terminating || sight.place(&pod.name).is_none() {
            continue;
        }
        match is_own(sight, nodes, pod, host_id, signed.as_deref()) {
            Ok(true) => nodes.orders.extend(order(sight, pod)),
            Ok(false) => {}
            Err(words) => {
                nodes.trouble = Some(DatabaseTrouble::DiskLost {
                    pod: pod.name.clone(),
                    words,
                });
            }
        }
    }
}

/// Whether this pod is the node whose data it has; false while that cannot be told.
fn is_own(
    sight: &Sight<'_>,
    nodes: &NodesStep,
    pod: &PodSeen,
    host_id: &str,
    signed: Option<&str>,
) -> Result<bool, String> {
    const CURE: &str =
        "put the right volume back, or empty this one to have the node rebuilt from the others";
    let is = |r: &&DatabaseNode| r.host_id.as_deref() == Some(host_id);
    let own = nodes.records.iter().find(|r| r.name == pod.name);
    match own.map(|r| (r.state, r)) {
        Some((
            DatabaseNodeState::Member | DatabaseNodeState::Repairing | DatabaseNodeState::Leaving,
            record,
        )) => {
            return if is(&record) {
                Ok(true)
            } else {
                let recorded = record.host_id.as_deref().unwrap_or("a different one");
                Err(format!(
                    "its disk holds node {host_id}, but the node on record is {recorded}: {CURE}"
                ))
            };
        }
        // Its pod is on its way out.
        Some((DatabaseNodeState::Left, _)) => return Ok(false),
        Some((DatabaseNodeState::Joining | DatabaseNodeState::Replacing, _)) | None => {}
    }
    let elsewhere = nodes.records.iter().filter(|r| r.name != pod.name).find(is);
    if let Some(other) = elsewhere {
        let name = &other.name;
        return Err(format!(
            "its disk holds node {host_id}, which is {name}: {CURE}"
        ));
    }
    if let Some(signed) = signed.filter(|signed| *signed != pod.name) {
        let before = sight.named_before(&pod.name);
        if before.as_deref() != Some(signed) {
            return Err(format!(
                "its disk holds node {host_id}, which was signed by {signed}: {CURE}"
            ));
        }
        if let Some(wait) = still_theirs(sight, host_id) {
            return wait;
        }
    }
    let others = || health::members(&nodes.records).filter(|r| r.name != pod.name);
    let views: Vec<_> = others()
        .filter_map(|member| health::view(sight, &member.name).ok())
        .collect();
    if views.is_empty() {
        // There is no other node that could know better; or none can be asked yet.
        return Ok(others().next().is_none());
    }
    let rows: Vec<_> = views
        .iter()
        .flat_map(|view| view.nodes.iter().filter(|n| n.host_id == host_id))
        .collect();
    if rows.is_empty() {
        return Err(format!(
            "its disk holds node {host_id}, which no other node knows: {CURE}"
        ));
    }
    Ok(rows.iter().all(|row| !row.up))
}

/// What is in the way of a start on the volume of another cluster (`spec.database.volumesOf`): two databases of one name
/// and with the same nodes would take each other for their own. `None`: nothing.
fn still_theirs(sight: &Sight<'_>, host_id: &str) -> Option<Result<bool, String>> {
    let VolumesOf { namespace, name } = sight.database.volumes_of.as_ref()?;
    match &sight.world.volumes_of_exists {
        Some(Seen::Known(false)) => None,
        Some(Seen::Known(true)) => Some(Err(format!(
            "its disk holds node {host_id} of the ReadStateCluster {namespace}/{name}, which still exists: delete that \
             one first, for two databases of one name would take each other's nodes for their own"
        ))),
        Some(Seen::Unknown(why)) => Some(Err(format!(
            "its disk holds node {host_id} of the ReadStateCluster {namespace}/{name}, and whether that still exists \
             is not known: {why}"
        ))),
        None => Some(Ok(false)),
    }
}

/// The same order as if it started by itself: it has its data, so any node, and itself, may be its seed.
fn order(sight: &Sight<'_>, pod: &PodSeen) -> Option<Order> {
    let (pod_uid, own) = (pod.uid.clone()?, pod.ip.clone()?);
    let others = sight.world.database_pods.iter();
    let mut seeds: Vec<_> = others
        .filter(|p| p.name != pod.name && !p.terminating)
        .filter_map(|p| p.ip.clone())
        .take(join::SEEDS)
        .collect();
    seeds.push(own);
    let order = Start {
        pod_uid,
        seeds,
        replace: None,
        ignore_dead: Vec::new(),
    };
    Some(Order::Start {
        pod: pod.clone(),
        order,
    })
}
