//! Which members the cache has, and how it gets from one table to the next.
//!
//! Two processes with different tables would both think they own a user. So a table changes only
//! when no pod exists, terminating ones included:
//! ```text
//!            desired ≠ published                 no pod left
//! Run(n) ──────────────────────▶ Stop(n) ──────────────────────▶ Run(n + 1)
//!    ▲                              │  desired = published again
//!    └──────────────────────────────┘
//! ```
//! Stopped pods write what they hold; no stop, not even of one pod for a new template, begins while one
//! says that it could not.

use readstates_operator_api::{ReadStateRingSpec, RingMember};

use super::{CacheStep, WaitingOn};
use crate::{
    build::{self, ports},
    observe::{Seen, World},
    validate::ValidatedCluster,
};

/// Whether one table is in force everywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RingState {
    /// It is, and it is the wanted one.
    Stable,
    /// It is on the way.
    Changing,
}

/// The step, and what it waits for. No step: nothing may be written now.
pub(super) fn decide(
    cluster: &ValidatedCluster,
    world: &World,
) -> (Option<CacheStep>, Option<WaitingOn>) {
    let step = next(wanted(cluster), world);
    if stops_pods(cluster, &step, world)
        && let Some(reason) = unsafe_to_stop(world)
    {
        return (None, Some(reason));
    }
    let waiting = match &step {
        CacheStep::Stop(_) => Some(still_there(world)),
        CacheStep::Run(table) => not_ready(table, world),
    };
    (Some(step), waiting)
}

/// Whether the step begins to stop pods that run: all at once, or one by one for a new template.
fn stops_pods(cluster: &ValidatedCluster, step: &CacheStep, world: &World) -> bool {
    let wish = || build::fingerprint(&build::cache(cluster, step));
    world
        .cache
        .as_ref()
        .is_some_and(|c| c.replicas > 0 && c.applied_hash != Some(wish()))
}

/// Whether the wanted table is published and every pod runs with it.
#[must_use]
pub fn ring_state(cluster: &ValidatedCluster, world: &World) -> RingState {
    let CacheStep::Run(table) = next(wanted(cluster), world) else {
        return RingState::Changing;
    };
    let published = world.ring.as_ref() == Some(&table);
    let running = world
        .cache
        .as_ref()
        .is_some_and(|c| c.table.as_ref() == Some(&table));
    if published && running {
        RingState::Stable
    } else {
        RingState::Changing
    }
}

/// The members the spec asks for. Their order, by ordinal, is part of the table.
fn wanted(cluster: &ValidatedCluster) -> Vec<RingMember> {
    let id = &cluster.id;
    (0..cluster.replicas)
        .map(|ordinal| RingMember {
            name: format!("{}-{ordinal}", id.cache()),
            url: format!(
                "http://{}:{}",
                id.pod_host(&id.cache(), ordinal, &id.cache_members()),
                ports::HTTP
            ),
            zone: None,
        })
        .collect()
}

fn next(wanted: Vec<RingMember>, world: &World) -> CacheStep {
    let template = world.cache.as_ref().and_then(|c| c.table.as_ref());
    let in_pods = world.cache_pods.iter().filter_map(|p| p.ring_number);
    let tables = [world.ring.as_ref(), template];
    // A number that any process has seen is never used again, even when the ring object was lost.
    let highest = tables
        .into_iter()
        .flatten()
        .map(|t| t.number)
        .chain(in_pods)
        .max()
        .unwrap_or_default();
    let in_force = tables.into_iter().flatten().max_by_key(|t| t.number);
    let with_next_number = |members| ReadStateRingSpec {
        number: highest + 1,
        members,
    };
    match in_force {
        Some(table) if table.members == wanted && table.number == highest => {
            let on_table = |number: Option<i64>| number == Some(table.number);
            let uniform = world.cache_pods.iter().all(|p| on_table(p.ring_number))
                && template.is_none_or(|t| on_table(Some(t.number)));
            if idle(world) || uniform {
                CacheStep::Run(table.clone())
            } else {
                CacheStep::Stop(table.clone())
            }
        }
        _ if idle(world) => CacheStep::Run(with_next_number(wanted)),
        Some(table) => CacheStep::Stop(table.clone()),
        // Pods that nobody knows the table of: adopt them, to stop them.
        None => CacheStep::Stop(with_next_number(wanted)),
    }
}

/// Proven: no cache pod exists and none is about to be made.
fn idle(world: &World) -> bool {
    world.cache_pods.is_empty()
        && world
            .cache
            .as_ref()
            .is_none_or(|c| c.replicas == 0 && c.existing == 0 && c.settled)
}

/// A member that holds changes and says it cannot write them.
fn unsafe_to_stop(world: &World) -> Option<WaitingOn> {
    world.members.iter().find_map(|(name, seen)| match seen {
        Seen::Known(member) if member.store_problem.is_some() && member.dirty > 0 => {
            Some(WaitingOn::StoreBeforeStop {
                member: name.clone(),
                dirty: member.dirty,
            })
        }
        Seen::Known(_) | Seen::Unknown(_) => None,
    })
}

fn still_there(world: &World) -> WaitingOn {
    WaitingOn::CacheStopped {
        pods: world.cache_pods.iter().map(|p| p.name.clone()).collect(),
    }
}

fn not_ready(table: &ReadStateRingSpec, world: &World) -> Option<WaitingOn> {
    let wanted = i32::try_from(table.members.len()).unwrap_or(i32::MAX);
    let cache = world.cache.as_ref();
    let ready = cache.map_or(0, |c| c.ready);
    if cache.is_some_and(|c| c.settled && c.replicas == wanted) && ready == wanted {
        return None;
    }
    let trouble = world
        .cache_pods
        .iter()
        .find_map(|p| Some(format!("{}: {}", p.name, p.trouble.as_ref()?)));
    Some(WaitingOn::Cache {
        ready,
        wanted,
        trouble,
    })
}
