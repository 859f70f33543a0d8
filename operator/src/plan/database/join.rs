//! Nodes that come: the first one, new ones, and those whose disk was lost. In: what their agents found on their
//! disks. Out: records, and the orders to start of those whose record is there.

use readstates_agent::wire::{Disk, Mode, Phase, Start};
use readstates_operator_api::{DatabaseNode, DatabaseNodeState};

use super::{
    DatabaseTrouble, DatabaseWait, Named, NodesStep, Order, Sight, adopt, attempts, health,
    lost::{self, Content, Volume},
    preflight, ready, record, repair, replace, super_disks,
};
use crate::world::PodSeen;

/// Nodes that a new one asks its way by.
pub(super) const SEEDS: usize = 3;

/// Begins with the first pod, in the order of racks, that waits for an order: nodes that are missed before new ones,
/// which could not join without them.
pub(super) fn begin(sight: &Sight<'_>, nodes: &mut NodesStep) -> Option<DatabaseWait> {
    let racks = sight.database.racks.iter();
    let pods = racks.flat_map(|rack| sight.pods_of(rack).map(move |(_, pod)| (rack, pod)));
    let waiting: Vec<_> = pods
        .filter_map(|(rack, pod)| match health::phase(sight, pod) {
            // Whose data is known comes back, or does not: see `back`.
            Ok(Phase::Waiting {
                disk: Disk::Known { .. },
                ..
            }) => None,
            Ok(Phase::Waiting { disk, .. }) if !pod.terminating => Some((rack, pod, disk)),
            _ => None,
        })
        .collect();
    let missed = |pod: &PodSeen| health::members(&nodes.records).any(|r| r.name == pod.name);
    let next = waiting.iter().find(|(_, pod, _)| missed(pod));
    let &(rack, pod, disk) = next.or(waiting.first())?;
    match nodes.records.iter().find(|r| r.name == pod.name).cloned() {
        None if *disk == Disk::Unmarked && !is_only(sight, pod) => {
            adopt::begin(sight, nodes, &rack.name, pod)
        }
        None if !lost::missing(sight, nodes).is_empty() => {
            lost::begin(sight, nodes, &rack.name, pod)
        }
        None => begin_new(sight, nodes, &rack.name, pod),
        Some(record) if record.is_member() => replace::begin(sight, nodes, &record, disk),
        // A node that has left: its pod is on its way out.
        Some(_) => None,
    }
}

fn begin_new(
    sight: &Sight<'_>,
    nodes: &mut NodesStep,
    rack: &str,
    pod: &PodSeen,
) -> Option<DatabaseWait> {
    if nodes.records.is_empty() {
        if !is_first(sight, &pod.name) {
            return Some(DatabaseWait::Joining {
                pod: pod.name.clone(),
                progress: "it waits for the first node".to_owned(),
            });
        }
        let own = sight.cluster.id.claim(&pod.name);
        if let Some(before) = sight.named_before(&pod.name) {
            let copied = sight.cluster.id.claim(&before);
            nodes.trouble = Some(DatabaseTrouble::DiskLost {
                pod: pod.name.clone(),
                words: format!(
                    "its disk has no signed data, and the database starts with volumes of another ReadStateCluster \
                     (spec.database.volumesOf): delete this pod and its claim {own}, and make the claim again as a copy of \
                     {copied}"
                ),
            });
            return None;
        }
        let others = lost::other_volumes(sight, nodes, pod);
        if let Some(volume) = others.iter().find(|v| v.content == Content::Comes) {
            return Some(DatabaseWait::Joining {
                pod: pod.name.clone(),
                progress: volume.comes_first(sight),
            });
        }
        // Pods of its own rack may have been created together with it.
        let is_new = |volume: &&Volume<'_>| {
            let place = sight.place(volume.pod);
            volume.content == Content::Nothing && place.is_some_and(|(other, _)| other.name == rack)
        };
        if let Some(volume) = others.iter().find(|volume| !is_new(volume)) {
            let claim = sight.cluster.id.claim(volume.pod);
            nodes.trouble = Some(DatabaseTrouble::DiskLost {
                pod: pod.name.clone(),
                words: format!(
                    "its disk has no signed data, but the claim {claim} of an earlier cluster is there: put the first \
                     node's volume back, ask for every member that there was in spec.database.racks, or delete every \
                     claim of that cluster to start over"
                ),
            });
            return None;
        }
    } else {
        let step = || format!("{} joins the database", pod.name);
        let ready = ready::for_change(sight, nodes, None);
        let at_risk = super_disks::member_at_risk(sight, nodes, &pod.name);
        let repaired_first = || repair::against(sight, nodes);
        if let Some(why) = ready.err().or(at_risk).or_else(repaired_first) {
            return Some(DatabaseWait::Health { step: step(), why });
        }
        let reasons = preflight::against_joining(sight, nodes, rack, pod);
        if !reasons.is_empty() {
            let pod = pod.name.clone();
            return Some(DatabaseWait::JoinRefused { pod, reasons });
        }
    }
    let joining = record::new(sight, &pod.name, rack, DatabaseNodeState::Joining);
    nodes.records.push(joining);
    Some(DatabaseWait::Joining {
        pod: pod.name.clone(),
        progress: "it is its turn".to_owned(),
    })
}

/// Whether there is no other pod: then the data on its disk is the whole database.
fn is_only(sight: &Sight<'_>, pod: &PodSeen) -> bool {
    sight.world.database_pods.iter().all(|p| p.name == pod.name)
}

/// The pod that begins a database: two would begin two.
fn is_first(sight: &Sight<'_>, pod: &str) -> bool {
    let first = sight.database.racks.first();
    first.is_some_and(|rack| sight.name(rack, 0) == pod)
}

/// Goes on with the node that is joining or taking its old place.
pub(super) fn go_on(sight: &Sight<'_>, nodes: &mut NodesStep, name: &str) -> Option<DatabaseWait> {
    let record = nodes.records.iter().find(|r| r.name == name)?.clone();
    let progress = match sight.pod(name) {
        None => "its pod is not there yet".to_owned(),
        Some(pod) => match health::phase(sight, pod) {
            Err(why) => format!("it cannot be asked: {why}"),
            Ok(Phase::Unreachable { error }) => {
                let trouble = pod.trouble.as_ref().map(|t| format!(" ({t})"));
                format!("{error}{}", trouble.unwrap_or_default())
            }
            Ok(Phase::Running(view)) if view.mode == Mode::JoinFailed => {
                try_again(sight, nodes, &record, pod)
            }
            Ok(Phase::Running(view)) => view
                .progress
                .clone()
                .unwrap_or_else(|| format!("it is {}", health::mode(view.mode))),
            Ok(Phase::Waiting {
                disk: Disk::Known { host_id, .. },
                ..
            }) => format!("its disk holds node {host_id}, which is let start if it is this one"),
            Ok(Phase::Waiting {
                disk: Disk::Blank | Disk::Begun | Disk::Unmarked,
                ..
            }) => {
                if let Err(why) = may_still_join(sight, nodes, &record) {
                    nodes.records.retain(|r| r.name != name);
                    let step = format!("{name} joins the database");
                    return Some(DatabaseWait::Health { step, why });
                }
                match start(sight, nodes, &record, pod) {
                    Err(why) => why,
                    Ok(order) => {
                        let order = order.filter(|_| sight.recorded(&record));
                        nodes.orders.extend(order);
                        "it is told to start".to_owned()
                    }
                }
            }
        },
    };
    let pod = name.to_owned();
    Some(match (record.state, record.host_id) {
        (DatabaseNodeState::Replacing, Some(host_id)) => DatabaseWait::Replacing {
            pod,
            host_id,
            progress,
        },
        _ => DatabaseWait::Joining { pod, progress },
    })
}

/// A node that could not join is restarted, which makes it try again: at growing distances, counted on record.
fn try_again(
    sight: &Sight<'_>,
    nodes: &mut NodesStep,
    record: &DatabaseNode,
    pod: &PodSeen,
) -> String {
    let failed = record.attempts.saturating_add(1);
    if failed >= attempts::BOUND {
        nodes.trouble = Some(DatabaseTrouble::JoinFailed {
            pod: pod.name.clone(),
            attempts: failed,
        });
    }
    if attempts::pauses(failed, record.since.0, sight.now) {
        return attempts::failed(failed, None);
    }
    let (Some(uid), true) = (pod.uid.clone(), sight.recorded(record)) else {
        return format!("attempt {failed} failed");
    };
    nodes.pods_to_delete.push(Named {
        name: pod.name.clone(),
        uid,
    });
    if let Some(record) = nodes.records.iter_mut().find(|r| r.name == pod.name) {
        record.attempts = failed;
        record.since.0 = sight.now;
    }
    format!("attempt {failed} failed; its pod is restarted to try again")
}

/// Whether a node that has not begun to join may still do so: not while another node is missed, which has to come back
/// first and would wait for this one. (An agent that has taken its order does not wait any more.)
fn may_still_join(
    sight: &Sight<'_>,
    nodes: &NodesStep,
    record: &DatabaseNode,
) -> Result<(), String> {
    match record.state {
        DatabaseNodeState::Joining if health::members(&nodes.records).next().is_some() => {
            ready::for_change(sight, nodes, Some(record))
        }
        DatabaseNodeState::Joining
        | DatabaseNodeState::Replacing
        | DatabaseNodeState::Repairing
        | DatabaseNodeState::Member
        | DatabaseNodeState::Leaving
        | DatabaseNodeState::Left => Ok(()),
    }
}

/// The order for a node whose record is there, or why it may not start now.
fn start(
    sight: &Sight<'_>,
    nodes: &mut NodesStep,
    record: &DatabaseNode,
    pod: &PodSeen,
) -> Result<Option<Order>, String> {
    let (Some(uid), Some(ip)) = (pod.uid.clone(), pod.ip.clone()) else {
        return Err("its pod has no address yet".to_owned());
    };
    let unrecorded = adopt::unrecorded(sight, pod);
    let mut ignore_dead = Vec::new();
    let seeds = if health::members(&nodes.records).next().is_none() && !unrecorded.is_empty() {
        let addresses = unrecorded.iter().filter_map(|p| p.ip.clone());
        addresses.take(SEEDS).collect()
    } else if ready::is_alone(nodes, &record.name) && is_first(sight, &pod.name) {
        vec![ip]
    } else {
        match record.state {
            DatabaseNodeState::Replacing => {
                ignore_dead = replace::still_ready(sight, nodes, record)?
            }
            DatabaseNodeState::Joining
            | DatabaseNodeState::Repairing
            | DatabaseNodeState::Member
            | DatabaseNodeState::Leaving
            | DatabaseNodeState::Left => ready::for_change(sight, nodes, Some(record))?,
        }
        let members = health::members(&nodes.records)
            .filter(|m| !ignore_dead.iter().any(|id| Some(id) == m.host_id.as_ref()));
        let addresses = members.filter_map(|m| sight.pod(&m.name)?.ip.clone());
        addresses.take(SEEDS).collect()
    };
    let replace = match (record.state, &record.host_id) {
        (DatabaseNodeState::Replacing, Some(host_id)) => {
            let lost = replace::row(sight, &pod.name, host_id);
            Some(lost.ok_or_else(|| format!("no other node knows node {host_id} any more"))?)
        }
        _ => None,
    };
    let order = Start {
        pod_uid: uid,
        seeds,
        replace,
        ignore_dead,
    };
    Ok(Some(Order::Start {
        pod: pod.clone(),
        order,
    }))
}
