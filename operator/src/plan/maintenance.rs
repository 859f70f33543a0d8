//! The gate that every restart of a pod that serves goes through: in a window, not too soon after the restart before,
//! and while few enough other clusters restart pods. The restart before is known from the pods: it is the youngest.

use jiff::Timestamp;

use super::{WaitingOn, rollout};
use crate::{
    spec::ValidatedCluster,
    world::{PodSeen, World},
};

/// What the restart of `pod` waits for, among the pods of its kind; `None`: nothing.
pub(super) fn waits(
    cluster: &ValidatedCluster,
    world: &World,
    pods: &[PodSeen],
    pod: &str,
    now: Timestamp,
) -> Option<WaitingOn> {
    // A cluster has a place only while it may restart pods.
    time(cluster, pods, pod, now).or_else(|| rollout::waits(&world.places, pod))
}

/// The time at which it may be.
fn time(
    cluster: &ValidatedCluster,
    pods: &[PodSeen],
    pod: &str,
    now: Timestamp,
) -> Option<WaitingOn> {
    let maintenance = &cluster.maintenance;
    let wait = |at, what: &'static str| {
        Some(WaitingOn::Maintenance {
            pod: pod.to_owned(),
            at,
            what,
            unreadable: maintenance.unreadable().map(str::to_owned),
        })
    };
    if let Some(at) = maintenance.opens(now) {
        return wait(at, "its maintenance window opens");
    }
    let youngest = pods.iter().filter_map(|pod| pod.created).max()?;
    let at = youngest.checked_add(maintenance.pace).ok()?;
    // By a clock that is wrong no pod is younger than now.
    if at <= now || youngest > now {
        return None;
    }
    wait(at, "the pace of its maintenance allows the next one")
}

/// The request that pods are restarted for: the one that is there, or the one before, which is not taken back by
/// taking the annotation away.
pub(super) fn request<'a>(
    asked: Option<&'a String>,
    before: Option<&'a String>,
) -> Option<&'a String> {
    asked.or(before)
}

#[cfg(test)]
mod tests;
