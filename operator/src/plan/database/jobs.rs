//! Jobs that a member's agent is told to do and that may take hours: cleanup, repair, steps of an upgrade. In: the record of a job, and what
//! the agent says of it. Out: how far it is, and whether it may be told now. One job at a time over all nodes.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use readstates_agent::wire::{Job, RequestedJob};
use readstates_operator_api::{DatabaseNode, PendingJob};

use super::{NodesStep, Order, Sight, attempts, health, ready};
use crate::world::PodSeen;

/// How far a job is.
pub(super) enum Stage {
    /// The database says that it is done.
    Done,
    /// It is on the way, or an earlier one is; in words.
    Runs(String),
    /// It was told to the node, which has not begun.
    Told,
    /// It failed, in the database's words, and the pause after it is not over.
    Failed(String),
    /// It may be told to the node, if nothing else speaks against it.
    Due,
}

/// Names a job to the agent: the same one told again begins no second one.
pub(super) fn request(pending: &PendingJob) -> String {
    pending.since.0.to_string()
}

/// How far the job on record is, by what the agent says of the one it was last told. `doing`: what it does, in words.
pub(super) fn stage(
    pending: &PendingJob,
    seen: Option<&RequestedJob>,
    doing: &str,
    now: Timestamp,
) -> Stage {
    stage_of(&request(pending), pending, seen, doing, now)
}

/// The same for a job with a name of its own.
pub(super) fn stage_of(
    own: &str,
    pending: &PendingJob,
    seen: Option<&RequestedJob>,
    doing: &str,
    now: Timestamp,
) -> Stage {
    let same = seen.filter(|seen| seen.request == own);
    let pauses = pending
        .told
        .as_ref()
        .is_some_and(|told| attempts::pauses(pending.attempts, told.0, now));
    match (same.map(|seen| &seen.job), seen) {
        (Some(Job::Done), _) => Stage::Done,
        (Some(Job::Running), Some(seen)) => {
            Stage::Runs(seen.progress.clone().unwrap_or_else(|| doing.to_owned()))
        }
        (Some(Job::Failed { error }), _) if pauses => Stage::Failed(error.clone()),
        (
            None,
            Some(RequestedJob {
                job: Job::Running, ..
            }),
        ) => Stage::Runs("an earlier one still runs".to_owned()),
        _ if pauses => Stage::Told,
        _ => Stage::Due,
    }
}

/// Notes that the job is told now.
pub(super) fn told(pending: &mut PendingJob, now: Timestamp) {
    pending.attempts += 1;
    pending.told = Some(Time(now));
    pending.error = None;
}

/// Who is told: pod, UID of the pod, host ID; or why no job may be told to this node now.
pub(super) fn may_tell(
    sight: &Sight<'_>,
    nodes: &NodesStep,
    record: &DatabaseNode,
) -> Result<(PodSeen, String, String), String> {
    if let Some(busy) = busy(sight, nodes) {
        return Err(format!("it begins after {busy}"));
    }
    ready::for_change(sight, nodes, None)
        .map_err(|why| format!("it begins when all nodes are well: {why}"))?;
    let pod = sight.pod(&record.name).cloned();
    let uid = pod.as_ref().and_then(|pod| pod.uid.clone());
    let (Some(pod), Some(uid), Some(host_id)) = (pod, uid, record.host_id.clone()) else {
        return Err("it has no pod".to_owned());
    };
    // Only what is in the status already may be acted on.
    let mut records = sight.world.records.iter();
    let recorded = records.any(|r| {
        r.name == record.name
            && r.cleanup == record.cleanup
            && r.repair == record.repair
            && r.upgrade == record.upgrade
    });
    if !recorded {
        return Err("it is its turn".to_owned());
    }
    Ok((pod, uid, host_id))
}

/// The job that a member has under way, by any agent's word or by what is told in this round.
fn busy(sight: &Sight<'_>, nodes: &NodesStep) -> Option<String> {
    let runs = |job: Option<&RequestedJob>| job.is_some_and(|job| job.job == Job::Running);
    let told = nodes.orders.iter().find_map(|order| match order {
        Order::Cleanup { pod, .. } => Some(format!("the cleanup of {}", pod.name)),
        Order::Repair { pod, .. } => Some(format!("the repair of {}", pod.name)),
        Order::Start { .. } | Order::Decommission { .. } | Order::Upgrade { .. } => None,
    });
    told.or_else(|| running_step(sight, nodes)).or_else(|| {
        health::members(&nodes.records).find_map(|record| {
            let view = health::last_view(sight, &record.name).ok()?;
            if runs(view.repair.as_deref()) {
                return Some(format!("the repair of {}", record.name));
            }
            runs(view.cleanup.as_ref()).then(|| format!("the cleanup of {}", record.name))
        })
    })
}

/// The member that has a step of an upgrade under way, by its agent's word or by what is told in this round.
pub(super) fn running_step(sight: &Sight<'_>, nodes: &NodesStep) -> Option<String> {
    let told = nodes.orders.iter().find_map(|order| match order {
        Order::Upgrade { pod, .. } => Some(pod.name.as_str()),
        Order::Start { .. }
        | Order::Decommission { .. }
        | Order::Cleanup { .. }
        | Order::Repair { .. } => None,
    });
    let mut members = health::members(&nodes.records);
    let runs = |record: &&DatabaseNode| {
        let Ok(view) = health::last_view(sight, &record.name) else {
            return false;
        };
        let by_agent = view.upgrade.as_ref().map(|seen| &seen.job);
        by_agent == Some(&Job::Running)
    };
    let pod = told.or_else(|| members.find(runs).map(|record| record.name.as_str()))?;
    Some(format!("the step of {pod} in the change of the release"))
}
