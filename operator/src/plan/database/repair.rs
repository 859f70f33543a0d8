//! Repair: the copies of a node's data are compared and made equal. A row is a whole block: if a majority
//! of its copies missed a write, the old block is read, gets a newer timestamp and overwrites the new one.
//!
//! A node that was rebuilt on an empty disk has its data from one other node per range, which may have missed writes: it
//! is `Repairing` until all its ranges are repaired. Until then no node joins or leaves and no pod that serves is
//! restarted. The other nodes are repaired by schedule, each the ranges of which it is the first replica, one node after
//! another, and only while nothing else is to be done.
//!
//! A repair needs every node that has a copy. While one is away, the repair waits, all nodes serve, and the condition
//! `Repaired` says so. If that node's disk is lost, it is rebuilt first, and then both are repaired: waiting for each
//! other they would wait for ever. A repair that runs is waited for: the engine ends it when a node goes down.

mod schedule;

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use readstates_agent::wire::{Job, Ranges, Repair};
use readstates_operator_api::{DatabaseNode, DatabaseNodeState, PendingJob};

pub(super) use self::schedule::{inherit, scheduled};
use super::{
    DatabaseTrouble, DatabaseWait, NodesStep, Order, Sight, attempts, copies, health,
    jobs::{self, Stage},
    ready,
};

/// Time from one repair of a node to the next, if there is anything to compare and the spec wants it.
fn every(sight: &Sight<'_>) -> Option<Duration> {
    let copies = sight.database.copies.keyspace;
    sight.database.repair_every.filter(|_| copies > 1)
}

/// The repair of a node that is rebuilt on an empty disk: due from now on. Without a keyspace there is nothing to repair.
pub(super) fn of_rebuilt(sight: &Sight<'_>) -> Option<PendingJob> {
    let due = every(sight).is_some() && copies::has_keyspace(sight);
    due.then(|| PendingJob::since(Time(sight.now)))
}

/// Puts on record how repairs ended, by what agents say.
pub(super) fn settle(sight: &Sight<'_>, nodes: &mut NodesStep) {
    // A change of the number of copies that has begun comes to its end, though repairs are not wanted any more.
    let wanted = every(sight).is_some() || ready::changes_copies(nodes);
    for record in nodes.records.iter_mut().filter(|r| r.is_member()) {
        if !wanted {
            (record.repair, record.last_repaired) = (None, None);
            is_repaired(sight, record);
            continue;
        }
        let (Some(pending), Ok(view)) =
            (&mut record.repair, health::last_view(sight, &record.name))
        else {
            continue;
        };
        match jobs::stage(pending, view.repair.as_deref(), "", sight.now) {
            Stage::Done => {
                // What was written after it began is not in it.
                let began = pending.told.take().unwrap_or_else(|| pending.since.clone());
                record.last_repaired = Some(began);
                record.repair = None;
                is_repaired(sight, record);
            }
            Stage::Failed(error) => {
                if pending.attempts >= attempts::BOUND {
                    nodes.trouble.get_or_insert(DatabaseTrouble::RepairFailed {
                        pod: record.name.clone(),
                        attempts: pending.attempts,
                        error: error.clone(),
                    });
                }
                pending.error = Some(error);
            }
            Stage::Runs(_) | Stage::Told | Stage::Due => {}
        }
    }
}

fn is_repaired(sight: &Sight<'_>, record: &mut DatabaseNode) {
    if record.state == DatabaseNodeState::Repairing {
        record.state = DatabaseNodeState::Member;
        record.since.0 = sight.now;
    }
}

/// Goes on with the repair of every node that a change of the number of copies needs: of those that were not repaired since
/// then. None: all were.
pub(super) fn since(sight: &Sight<'_>, nodes: &mut NodesStep, then: &Time) -> Option<String> {
    let lacks =
        |r: &DatabaseNode| r.is_member() && r.last_repaired.as_ref().is_none_or(|at| at.0 < then.0);
    for record in nodes.records.iter_mut().filter(|r| lacks(r)) {
        record
            .repair
            .get_or_insert_with(|| PendingJob::since(Time(sight.now)));
    }
    let lacking: Vec<_> = nodes.records.iter().filter(|r| lacks(r)).cloned().collect();
    let next = lacking
        .iter()
        .find(|r| !pauses(sight, r))
        .or(lacking.first())?;
    let pending = next.repair.clone()?;
    let (name, left) = (&next.name, lacking.len());
    let progress = match self::next(sight, nodes, next, &pending) {
        Ok(progress) => progress,
        Err(why) => {
            nodes.repair_waits = Some(format!("{name}: {why}"));
            why
        }
    };
    Some(format!(
        "{name}, the first of {left} to be repaired: {progress}"
    ))
}

/// Whether its last attempt has just failed.
fn pauses(sight: &Sight<'_>, record: &DatabaseNode) -> bool {
    record.repair.as_ref().is_some_and(|pending| {
        let told = pending.told.as_ref();
        pending.error.is_some()
            && told.is_some_and(|t| attempts::pauses(pending.attempts, t.0, sight.now))
    })
}

/// Goes on with a node that was rebuilt; of several, with one whose last attempt has not just failed.
pub(super) fn rebuilt(sight: &Sight<'_>, nodes: &mut NodesStep) -> Option<DatabaseWait> {
    let unrepaired: Vec<_> = unrepaired(nodes).collect();
    let next = unrepaired.iter().find(|r| !pauses(sight, r));
    let record = (*next.or(unrepaired.first())?).clone();
    let pending = record.repair.clone()?;
    Some(go_on(sight, nodes, &record, &pending))
}

fn unrepaired(nodes: &NodesStep) -> impl Iterator<Item = &DatabaseNode> {
    let records = nodes.records.iter();
    records.filter(|r| r.state == DatabaseNodeState::Repairing)
}

/// Takes the next step, and says which.
fn go_on(
    sight: &Sight<'_>,
    nodes: &mut NodesStep,
    record: &DatabaseNode,
    pending: &PendingJob,
) -> DatabaseWait {
    let progress = match next(sight, nodes, record, pending) {
        Ok(progress) => progress,
        Err(why) => {
            nodes.repair_waits = Some(format!("{}: {why}", record.name));
            why
        }
    };
    DatabaseWait::Repairing {
        pod: record.name.clone(),
        progress,
    }
}

/// How far it is, or why it does not begin.
fn next(
    sight: &Sight<'_>,
    nodes: &mut NodesStep,
    record: &DatabaseNode,
    pending: &PendingJob,
) -> Result<String, String> {
    let view = health::last_view(sight, &record.name)
        .map_err(|why| format!("it cannot be asked: {why}"))?;
    if !view.repairs {
        return Err(
            "its agent is of an earlier release; see the condition RequiresUpdate".to_owned(),
        );
    }
    let doing = "its data is compared with that of the other nodes";
    match jobs::stage(pending, view.repair.as_deref(), doing, sight.now) {
        Stage::Done => return Ok("it is done".to_owned()),
        Stage::Runs(progress) => return Ok(progress),
        Stage::Told => return Ok("it has been told to".to_owned()),
        Stage::Failed(error) => return Err(attempts::failed(pending.attempts, Some(&error))),
        Stage::Due => {}
    }
    let (pod, pod_uid, host_id) = jobs::may_tell(sight, nodes, record)?;
    let order = Repair {
        pod_uid,
        host_id,
        request: jobs::request(pending),
        ranges: if record.state == DatabaseNodeState::Repairing {
            Ranges::All
        } else {
            Ranges::Primary
        },
    };
    nodes.orders.push(Order::Repair { pod, order });
    let told = nodes.records.iter_mut().find(|r| r.name == record.name);
    if let Some(pending) = told.and_then(|r| r.repair.as_mut()) {
        jobs::told(pending, sight.now);
    }
    Ok("it is told to".to_owned())
}

/// The member whose repair runs, or was told and may run by now.
pub(super) fn running<'a>(sight: &Sight<'_>, nodes: &'a NodesStep) -> Option<&'a str> {
    let told = nodes.orders.iter().find_map(|order| match order {
        Order::Repair { pod, .. } => Some(pod.name.as_str()),
        Order::Start { .. }
        | Order::Decommission { .. }
        | Order::Cleanup { .. }
        | Order::Upgrade { .. } => None,
    });
    told.or_else(|| {
        let mut members = health::members(&nodes.records);
        let runs = members.find(|record| {
            let Ok(view) = health::last_view(sight, &record.name) else {
                return false;
            };
            let by_agent = view.repair.as_deref().map(|repair| &repair.job);
            let stage = record
                .repair
                .as_ref()
                .map(|pending| jobs::stage(pending, view.repair.as_deref(), "", sight.now));
            by_agent == Some(&Job::Running) || matches!(stage, Some(Stage::Told))
        });
        runs.map(|record| record.name.as_str())
    })
}

/// Why no node may join or leave and no pod that serves may be restarted now. A node whose agent cannot repair holds
/// nothing up: the restart gives it one that can.
pub(super) fn against(sight: &Sight<'_>, nodes: &NodesStep) -> Option<String> {
    if let Some(pod) = running(sight, nodes) {
        return Some(format!("{pod} is being repaired"));
    }
    if let Some(why) = ready::against_while_copying(sight, nodes) {
        return Some(why);
    }
    let unable = |name: &str| health::last_view(sight, name).is_ok_and(|view| !view.repairs);
    let record = unrepaired(nodes).find(|r| !unable(&r.name))?;
    Some(format!(
        "{}, which was rebuilt on an empty disk, has not been repaired yet",
        record.name
    ))
}
