//! Repairs by schedule: whose turn it is. In: when each node was last repaired. Out: at most one order, given only while
//! nothing else is to be done.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use readstates_operator_api::{DatabaseNode, PendingJob};

use super::{every, go_on, unrepaired};
use crate::plan::database::{
    DatabaseWait, NodesStep, Sight, health,
    jobs::{self, Stage},
    upgrade,
};

/// Goes on with the schedule, when nothing else is to be done: what is waited for before the next repair begins. One
/// that runs is waited for by nothing.
pub(in crate::plan::database) fn scheduled(
    sight: &Sight<'_>,
    nodes: &mut NodesStep,
) -> Option<DatabaseWait> {
    let every = every(sight)?;
    let cleans_up = health::members(&nodes.records).any(|r| r.cleanup.is_some());
    if sight.world.schema.is_none() || cleans_up || unrepaired(nodes).next().is_some() {
        return None;
    }
    if sight.cluster.maintenance.opens(sight.now).is_some()
        || upgrade::against_moves(sight, nodes).is_some()
    {
        return None;
    }
    let begun = health::members(&nodes.records).find_map(|record| {
        let pending = record.repair.clone()?;
        let view = health::last_view(sight, &record.name).ok()?;
        match jobs::stage(&pending, view.repair.as_deref(), "", sight.now) {
            Stage::Runs(_) | Stage::Told | Stage::Done => Some(None),
            Stage::Due if view.repairs => Some(Some((record.clone(), pending))),
            Stage::Failed(_) | Stage::Due => None,
        }
    });
    match begun {
        Some(None) => None,
        Some(Some((record, pending))) => Some(go_on(sight, nodes, &record, &pending)),
        None => {
            let pod = next_due(sight, nodes, every)?;
            let record = nodes.records.iter_mut().find(|r| r.name == pod)?;
            record.repair = Some(PendingJob::since(Time(sight.now)));
            Some(DatabaseWait::Repairing {
                pod,
                progress: "it is its turn".to_owned(),
            })
        }
    }
}

/// The member whose last repair is the oldest, if that is so old. Agents of the release before cannot repair.
fn next_due(sight: &Sight<'_>, nodes: &NodesStep, every: Duration) -> Option<String> {
    let able = |r: &&DatabaseNode| {
        r.repair.is_none() && health::last_view(sight, &r.name).is_ok_and(|view| view.repairs)
    };
    let due = |since: Timestamp| since.checked_add(every).is_ok_and(|at| at <= sight.now);
    let able = health::members(&nodes.records).filter(able);
    able.map(|r| (repaired_up_to(&nodes.records, r), &r.name))
        .filter(|(since, _)| due(*since))
        .min()
        .map(|(_, name)| name.clone())
}

/// Up to when its ranges are known to have been repaired. A node that never was has them from others, or as the release
/// before left them: they are as old as the oldest there is.
fn repaired_up_to(records: &[DatabaseNode], record: &DatabaseNode) -> Timestamp {
    let known = |r: &DatabaseNode| r.last_repaired.as_ref().map(|at| at.0);
    let oldest = || {
        let members = health::members(records);
        let all = members.map(|r| known(r).unwrap_or(r.since.0));
        all.min().unwrap_or(record.since.0)
    };
    known(record).unwrap_or_else(oldest)
}

/// A node has left: its ranges are others' now, and no younger than they were.
pub(in crate::plan::database) fn inherit(records: &mut [DatabaseNode], left: &DatabaseNode) {
    let up_to = repaired_up_to(records, left);
    for record in records.iter_mut().filter(|r| r.is_member()) {
        if let Some(at) = &mut record.last_repaired {
            at.0 = at.0.min(up_to);
        }
    }
}
