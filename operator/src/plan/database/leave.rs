//! Nodes that go: whether they may, how far they are, the proof that they are gone, and what is left of them.

use std::time::Duration;

use jiff::Timestamp;
use readstates_agent::wire::{Disk, Job, Mode, NodeState, Phase, Target, View};
use readstates_operator_api::{DatabaseNode, DatabaseNodeState, Reclaim};

use super::{
    DatabaseTrouble, DatabaseWait, Named, NodesStep, Order, Sight, attempts, health,
    preflight::reasons_against, repair,
};

/// How long a pod may lack a machine before it is taken for lost.
const LOST: Duration = Duration::from_mins(5);
/// How many nodes have to confirm that a node has left, where there are so many.
const WITNESSES: usize = 2;
/// Begins with the last node of the first rack that should become smaller.
pub(super) fn begin(sight: &Sight<'_>, nodes: &mut NodesStep) -> Option<DatabaseWait> {
    let (rack, seen) = sight.database.racks.iter().find_map(|rack| {
        let seen = sight.world.racks.get(&rack.name)?;
        (seen.replicas > rack.members).then_some((rack, seen))
    })?;
    let name = sight.name(rack, seen.replicas - 1);
    let Some(record) = nodes.records.iter().find(|r| r.name == name).cloned() else {
        let refused = |reason| DatabaseWait::Refused {
            pod: name.clone(),
            reasons: vec![reason],
        };
        // One that never started has nothing to give away: `members` lets it go.
        return never_started(sight, &name).err().map(refused);
    };
    if !record.is_member() {
        return None;
    }
    let reasons = reasons_against(sight, nodes, &record);
    if !reasons.is_empty() {
        return Some(DatabaseWait::Refused { pod: name, reasons });
    }
    let host_id = record.host_id.clone()?;
    let leaving = nodes.records.iter_mut().find(|r| r.name == name)?;
    leaving.state = DatabaseNodeState::Leaving;
    leaving.since.0 = sight.now;
    leaving.repair = None;
    Some(DatabaseWait::Leaving {
        pod: name,
        host_id,
        progress: "it is its turn".to_owned(),
    })
}

/// A rack was taken off the list before its nodes have left, or before their pods have gone: nothing scales it any more.
pub(super) fn rack_missing(sight: &Sight<'_>, nodes: &NodesStep) -> Option<DatabaseTrouble> {
    let is_listed = |name: &str| sight.database.racks.iter().any(|rack| rack.name == name);
    let stay = nodes
        .records
        .iter()
        .filter(|r| r.state != DatabaseNodeState::Left)
        .map(|r| (r.name.as_str(), r.rack.as_str()));
    let pods = sight.world.database_pods.iter().filter(|p| !p.terminating);
    let pods = pods.filter_map(|pod| Some((pod.name.as_str(), sight.rack_of(&pod.name)?)));
    let (pod, rack) = stay.chain(pods).find(|(_, rack)| !is_listed(rack))?;
    Some(DatabaseTrouble::RackMissing {
        pod: pod.to_owned(),
        rack: rack.to_owned(),
    })
}

/// Proof that no database ever ran in this place: no record, and nothing to run on.
pub(super) fn never_started(sight: &Sight<'_>, name: &str) -> Result<(), String> {
    let claim = sight.world.nodes.claims.get(&sight.cluster.id.claim(name));
    let no_volume = claim.is_none_or(|c| !c.bound);
    match sight.pod(name) {
        None if no_volume => Ok(()),
        Some(pod) if !pod.scheduled && no_volume => Ok(()),
        None => Err("it has a volume and no pod, so that what is on it is not known".to_owned()),
        Some(pod) => match health::phase(sight, pod) {
            Ok(Phase::Waiting {
                disk: Disk::Blank, ..
            }) => Ok(()),
            Ok(_) => Err("it is not on record and its disk is not blank".to_owned()),
            Err(why) => Err(format!("it is not on record and cannot be asked: {why}")),
        },
    }
}

/// Goes on with the node that leaves: tells it to, waits, looks for the proof.
pub(super) fn go_on(sight: &Sight<'_>, nodes: &mut NodesStep, name: &str) -> Option<DatabaseWait> {
    let record = nodes.records.iter().find(|r| r.name == name)?.clone();
    let host_id = record.host_id.clone()?;
    let wait = |progress: String| {
        Some(DatabaseWait::Leaving {
            pod: name.to_owned(),
            host_id: host_id.clone(),
            progress,
        })
    };
    let own = health::view(sight, name);
    let proof = proof(sight, nodes, &host_id);
    if proof.is_ok() && !own.as_ref().is_ok_and(|v| is_in(v)) {
        change(nodes, name, |r| {
            r.state = DatabaseNodeState::Left;
            r.since.0 = sight.now;
            r.error = None;
        });
        repair::inherit(&mut nodes.records, &record);
        return wait("the other nodes have confirmed that it is gone".to_owned());
    }
    let view = match own {
        Ok(view) => view,
        Err(why) => {
            if let Some(words) = lost(sight, name) {
                nodes.trouble = Some(DatabaseTrouble::LeaverLost {
                    pod: name.to_owned(),
                    host_id: host_id.clone(),
                    words,
                });
            }
            return wait(format!("it cannot be asked: {why}"));
        }
    };
    if let (Mode::Decommissioned, Err(doubt)) = (view.mode, &proof) {
        return wait(format!(
            "it is done; its pod stays until that is proven: {doubt}"
        ));
    }
    if view.mode == Mode::Leaving && view.decommission_error().is_none() {
        let progress = view.progress.clone();
        return wait(progress.unwrap_or_else(|| "it gives its data away".to_owned()));
    }
    if view.decommission == Some(Job::Running) {
        return wait("it has been told to".to_owned());
    }
    let taken_back = sight
        .place(name)
        .is_some_and(|(rack, ordinal)| ordinal < rack.members);
    if taken_back && view.mode == Mode::Normal {
        change(nodes, name, |r| {
            r.state = DatabaseNodeState::Member;
            r.since.0 = sight.now;
            r.attempts = 0;
            r.error = None;
        });
        return None;
    }
    tell(sight, nodes, &record, view, &host_id).map_or_else(wait, |order| {
        nodes.orders.extend(order);
        wait("it is told to".to_owned())
    })
}

/// What has happened to a node that will not come back by itself: its disk came back without its data, or its machine
/// is gone with a volume that no other machine can attach.
fn lost(sight: &Sight<'_>, name: &str) -> Option<String> {
    let pod = sight.pod(name)?;
    let since = |at: Timestamp| sight.now.duration_since(at).unsigned_abs();
    match health::phase(sight, pod) {
        Ok(Phase::Waiting {
            disk: Disk::Blank | Disk::Begun | Disk::Unmarked,
            ..
        }) => Some("its disk came back without its data".to_owned()),
        Ok(Phase::Waiting {
            disk: Disk::Known { .. },
            ..
        }) => None,
        Ok(Phase::Unreachable { .. } | Phase::Running(_)) | Err(_) => {
            let stuck = |at: Option<Timestamp>| at.is_some_and(|at| since(at) >= LOST);
            if pod.terminating && pod.deadline.is_some_and(|at| at < sight.now) {
                let words =
                    "its pod was to be gone some minutes ago, as one is on a machine that is lost";
                stuck(pod.deadline).then(|| words.to_owned())
            } else if !pod.scheduled {
                let trouble = pod.trouble.as_deref().unwrap_or("no machine takes it");
                let words =
                    || format!("its pod has not found a machine for some minutes: {trouble}");
                stuck(pod.created).then(words)
            } else {
                None
            }
        }
    }
}

/// Whether the node, by its own account, still has data that counts.
fn is_in(view: &View) -> bool {
    match view.mode {
        Mode::Starting
        | Mode::Joining
        | Mode::JoinFailed
        | Mode::Normal
        | Mode::Leaving
        | Mode::DecommissionFailed
        | Mode::Drained
        | Mode::Other => true,
        Mode::Decommissioned => false,
    }
}

/// The order to leave, once more if it failed: at growing distances, and with the database's words on record.
fn tell(
    sight: &Sight<'_>,
    nodes: &mut NodesStep,
    record: &DatabaseNode,
    view: &View,
    host_id: &str,
) -> Result<Option<Order>, String> {
    let error = view.decommission_error().or_else(|| record.error.clone());
    if record.attempts >= attempts::BOUND {
        nodes.trouble = Some(DatabaseTrouble::DecommissionFailed {
            pod: record.name.clone(),
            attempts: record.attempts,
            error: error
                .clone()
                .unwrap_or_else(|| "it said nothing".to_owned()),
        });
    }
    if attempts::pauses(record.attempts, record.since.0, sight.now) {
        change(nodes, &record.name, |r| r.error.clone_from(&error));
        return Err(attempts::failed(record.attempts, error.as_deref()));
    }
    if record.attempts > 0
        && let Err(why) = health::check(sight, &nodes.records, Some(record))
    {
        return Err(format!("it is told again when all others are well: {why}"));
    }
    let pod = sight.pod(&record.name).cloned();
    let uid = pod.as_ref().and_then(|p| p.uid.clone());
    let (Some(pod), Some(pod_uid)) = (pod, uid) else {
        return Err("it has no pod".to_owned());
    };
    if !sight.recorded(record) {
        return Ok(None);
    }
    change(nodes, &record.name, |r| {
        r.attempts += 1;
        r.since.0 = sight.now;
        r.error = error;
    });
    let target = Target {
        pod_uid,
        host_id: host_id.to_owned(),
    };
    Ok(Some(Order::Decommission { pod, target }))
}

/// Two other nodes, or the only other one, know all members and not this one; and no node knows it.
fn proof(sight: &Sight<'_>, nodes: &NodesStep, host_id: &str) -> Result<(), String> {
    let members: Vec<_> = health::members(&nodes.records).collect();
    let mut witnesses = 0;
    for member in &members {
        let name = &member.name;
        let Ok(view) = health::view(sight, name) else {
            continue;
        };
        if view.nodes.iter().any(|n| n.host_id == host_id) {
            return Err(format!("{name} still knows it"));
        }
        let knows = |other: &&DatabaseNode| {
            view.nodes.iter().any(|n| {
                Some(&n.host_id) == other.host_id.as_ref() && n.up && n.state == NodeState::Normal
            })
        };
        if view.mode == Mode::Normal && members.iter().all(knows) {
            witnesses += 1;
        }
    }
    let needed = WITNESSES.min(members.len()).max(1);
    if witnesses >= needed {
        Ok(())
    } else {
        Err(format!("{witnesses} of {needed} nodes have confirmed it"))
    }
}

/// Nodes that have left: their pod goes before anything else begins.
pub(super) fn pod_goes(sight: &Sight<'_>, nodes: &NodesStep) -> Option<DatabaseWait> {
    left(nodes).iter().find_map(|record| {
        let replicas = sight.place(&record.name).and_then(|(rack, ordinal)| {
            Some((sight.world.racks.get(&rack.name)?.replicas, ordinal))
        });
        let goes =
            sight.pod(&record.name).is_some() || replicas.is_some_and(|(r, ordinal)| r > ordinal);
        goes.then(|| going(record, "its pod goes"))
    })
}

/// Then their claim goes, where the spec says so, and their record. Nothing else waits for a claim: the right to delete
/// it may be missing.
pub(super) fn volume_goes(sight: &Sight<'_>, nodes: &mut NodesStep) -> Option<DatabaseWait> {
    let mut wait = None;
    for record in left(nodes) {
        let name = &record.name;
        let claim = sight.world.nodes.claims.get(&sight.cluster.id.claim(name));
        match claim {
            Some(claim) if Some(&claim.uid) == record.claim_uid.as_ref() => {
                match sight.database.reclaim {
                    Reclaim::Keep => {}
                    Reclaim::Delete => {
                        nodes.claims_to_delete.push(Named {
                            name: sight.cluster.id.claim(name),
                            uid: claim.uid.clone(),
                        });
                        wait = Some(going(&record, "its volume goes"));
                    }
                }
            }
            // Gone or replaced: nothing is left of the node.
            None | Some(_) => nodes.records.retain(|r| r.name != *name),
        }
    }
    wait
}

fn left(nodes: &NodesStep) -> Vec<DatabaseNode> {
    let records = nodes.records.iter();
    records
        .filter(|r| r.state == DatabaseNodeState::Left)
        .cloned()
        .collect()
}

fn going(record: &DatabaseNode, progress: &str) -> DatabaseWait {
    DatabaseWait::Leaving {
        pod: record.name.clone(),
        host_id: record.host_id.clone().unwrap_or_default(),
        progress: progress.to_owned(),
    }
}

fn change(nodes: &mut NodesStep, name: &str, change: impl FnOnce(&mut DatabaseNode)) {
    if let Some(record) = nodes.records.iter_mut().find(|r| r.name == name) {
        change(record);
    }
}
