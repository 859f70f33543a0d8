//! `spec.stopped`: the cache first, which writes what it holds, then the database; and back in the other order.
//!
//! ```text
//! stopped: true ─▶ every cache pod can write ─▶ cache to 0 ─▶ every process is gone ─▶ racks to 0 ─▶ stopped
//! stopped: false ─▶ racks come back ─▶ a majority of each user's copies can answer ─▶ cache comes back
//! ```
//! Nothing is remembered: each step is told from what is there, so that the wish may be taken back at any time.
//! Unlike a deletion it has all the time there is: a cache pod that cannot write is not told to stop. From the moment
//! it is told, it has its grace period; what is left of it then is on a machine that does not answer.

use std::time::Duration;

use jiff::Timestamp;

use super::{CachePlan, WaitingOn, stop};
use crate::{
    spec::{Store, ValidatedCluster},
    templates::Template,
    world::{HandedOver, PodSeen, Seen, StatefulSetSeen, World},
};

/// How long after its grace period a pod is waited for. After that its machine does not answer, and its process has no
/// clients to serve.
const OVERDUE: Duration = Duration::from_mins(5);

/// How far a stop is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopStage {
    /// The cluster is to run.
    Runs,
    /// Cache pods write what they hold and stop.
    Cache,
    /// Cache pods of another cluster, whose table moves here, are to leave the database.
    Writers,
    /// Database pods stop.
    Database,
    /// Nothing runs any more.
    Stopped {
        /// Pods that should be gone, on machines that do not answer.
        overdue: Vec<String>,
    },
}

impl StopStage {
    /// Whether the database has to go, or has gone.
    #[must_use]
    pub fn stops_database(&self) -> bool {
        match self {
            Self::Database | Self::Stopped { .. } => true,
            Self::Runs | Self::Cache | Self::Writers => false,
        }
    }
}

/// How far the stop of this cluster is, if it is to be stopped.
#[must_use]
pub fn stage(cluster: &ValidatedCluster, world: &World, now: Timestamp) -> StopStage {
    if !cluster.stopped {
        return StopStage::Runs;
    }
    let over = |pod: &PodSeen| is_overdue(pod, now);
    if !(world.cache.as_ref().is_none_or(is_at_zero) && world.cache_pods.iter().all(over)) {
        return StopStage::Cache;
    }
    if !world.writers.is_empty() {
        return StopStage::Writers;
    }
    let racks = world.racks.values().all(is_at_zero);
    if !(racks && world.database_pods.iter().all(over)) {
        return StopStage::Database;
    }
    let overdue = world.cache_pods.iter().chain(&world.database_pods);
    StopStage::Stopped {
        overdue: overdue.map(|pod| pod.name.clone()).collect(),
    }
}

fn is_at_zero(set: &StatefulSetSeen) -> bool {
    set.replicas == 0 && set.observed
}

/// Whether the pod was to be gone a while ago.
fn is_overdue(pod: &PodSeen, now: Timestamp) -> bool {
    let past = |deadline: Timestamp| Duration::try_from(now.duration_since(deadline));
    let deadline = pod.deadline.filter(|_| pod.terminating);
    deadline.is_some_and(|deadline| past(deadline).is_ok_and(|past| past >= OVERDUE))
}

/// The cache of a cluster that is to stop: no pods, once every one of them can write what it holds. No template is
/// changed: what was asked for meanwhile comes after the start, one pod after another.
pub(super) fn cache(world: &World) -> (Option<CachePlan>, Option<WaitingOn>) {
    let Some(set) = &world.cache else {
        return (None, Some(stop::stopping(world, false)));
    };
    let unable = stop::unable(world).filter(|_| set.replicas > 0);
    let replicas = if unable.is_some() { set.replicas } else { 0 };
    let plan = CachePlan {
        ring: None,
        replicas,
        template: Template::as_seen(set),
        restarted: set.restarted().cloned(),
        update: None,
        version: set.version.clone(),
        action: None,
    };
    let waiting = unable.unwrap_or_else(|| stop::stopping(world, false));
    (Some(plan), Some(waiting))
}

/// What a cache without pods waits for before it starts: that its table is not another cluster's by now, and enough
/// database nodes for a majority of the copies of each user. A running cache is not held up by its database.
pub(super) fn start_waits(cluster: &ValidatedCluster, world: &World) -> Option<WaitingOn> {
    match &world.handed_over {
        Some(Seen::Known(HandedOver { migration, to })) => {
            return Some(WaitingOn::HandedOver {
                migration: migration.clone(),
                to: to.clone(),
            });
        }
        // Two clusters that serve one table would not see each other's changes.
        Some(Seen::Unknown(why)) => {
            return Some(WaitingOn::HandOverUnknown { why: why.clone() });
        }
        None => {}
    }
    let Store::Managed(database) = &cluster.store else {
        return None;
    };
    if world.cache.as_ref().is_none_or(|set| set.replicas > 0) {
        return None;
    }
    let is_ready = |name: &str| {
        let mut pods = world.database_pods.iter();
        pods.any(|pod| pod.name == name && pod.ready)
    };
    let members = world.records.iter();
    let members = members.filter(|r| r.is_member());
    let away: Vec<_> = members.filter(|r| !is_ready(&r.name)).collect();
    let tolerated = usize::try_from((database.copies.complete - 1) / 2).unwrap_or_default();
    let first = away.first().filter(|_| away.len() > tolerated)?;
    let rack = database.racks.iter().find(|r| r.name == first.rack)?;
    let seen = world.racks.get(&rack.name);
    Some(WaitingOn::Rack {
        rack: rack.name.clone(),
        ready: seen.map_or(0, |seen| seen.ready),
        members: rack.members,
        trouble: Some("the cache starts after it".to_owned()),
    })
}

#[cfg(test)]
mod tests;
