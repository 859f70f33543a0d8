//! The cache pods: how many, which of them goes next, and which slots are to move.
//!
//! Members own slots by the ring, take them, hand them on and drain by themselves. What is decided here
//! is what to ask of them, one thing at a time, and when a pod may go:
//! ```text
//!            fewer wanted: the highest ordinal ─┐
//!   another template: an unready one, or the    ├─▶ drain ──▶ proof ──▶ replicas − 1, or delete the pod
//!   highest ordinal once slots are spread ──────┘                                  │
//!          ▲                                                                       ▼
//!          └───────── spread: moves, a batch at a time ◀── ready, with a lease ◀── a new pod
//! ```
//! Nothing is remembered: a pod that drains says so itself, and one that was drained and is wanted after
//! all is replaced. So the operator may stop between any two steps, and two of them do no harm.

mod action;
mod leaving;
mod moving;
mod next_step;
mod spread;
mod state;
mod template;
mod view;

use jiff::Timestamp;

use self::{action::Next, view::View};
pub use self::{
    action::{MemberAction, PodRef},
    state::{RingState, ring_state, served, slots_moving, taken_over},
};
use super::{WaitingOn, maintenance};
use crate::{
    spec::ValidatedCluster,
    templates::Template,
    world::{RingSeen, Seen, StatefulSetSeen, World},
};

/// What to do with the cache.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CachePlan {
    /// Number of the ring to make, if there is none.
    pub ring: Option<i64>,
    /// Pods the StatefulSet asks for.
    pub replicas: i32,
    /// The template of the pods.
    pub template: Template,
    /// The request that the pods are restarted for.
    pub restarted: Option<String>,
    /// The name of an update of the pods that waits for consent.
    pub update: Option<String>,
    /// Version of the StatefulSet that was looked at; `None` when there was none.
    pub version: Option<String>,
    /// What to ask or do after that.
    pub action: Option<MemberAction>,
}

impl CachePlan {
    /// The same, with no pods yet.
    pub(super) fn without_pods(self) -> Self {
        Self {
            replicas: 0,
            action: None,
            ..self
        }
    }
}

/// What to do, and what it waits for. No plan: nothing may be written now.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Decision {
    pub(super) plan: Option<CachePlan>,
    pub(super) waiting: Option<WaitingOn>,
    /// Whether any pod is to be restarted.
    pub(super) outdated: bool,
}

/// `schema_done`: whether pods of the wanted template have the schema and the login that they need.
pub(super) fn decide(
    cluster: &ValidatedCluster,
    world: &World,
    schema_done: bool,
    now: Timestamp,
) -> Decision {
    let table = match &world.ring {
        RingSeen::Known(table) => table,
        RingSeen::Absent => return without_ring(cluster, world, schema_done),
        RingSeen::Unreadable(why) => {
            return Decision {
                waiting: Some(WaitingOn::RingUnreadable { why: why.clone() }),
                ..Decision::default()
            };
        }
    };
    let (template, update) = template::decide(cluster, world, schema_done);
    let restarted = restarted(world);
    let view = View::new(cluster, world, table, (&template, restarted.as_ref()), now);
    let mut plan = CachePlan {
        ring: None,
        replicas: view.current.max(cluster.replicas),
        template: template.clone(),
        restarted: restarted.clone(),
        update,
        version: world.cache.as_ref().and_then(|c| c.version.clone()),
        action: None,
    };
    let waiting = match next_step::next(&view) {
        Next::Lower => {
            plan.replicas = view.current - 1;
            Some(view.not_ready(plan.replicas))
        }
        Next::Do(action, waiting) => {
            plan.action = Some(action);
            Some(waiting)
        }
        Next::Wait(waiting) => Some(waiting),
        // A change that its StatefulSet does not have yet: the next look shows which pods it concerns.
        Next::Nothing if !view.applied(plan.replicas) => Some(view.not_ready(plan.replicas)),
        Next::Nothing => None,
    };
    Decision {
        plan: Some(plan),
        waiting,
        outdated: view.any_outdated(),
    }
}

/// The request that the pods are restarted for.
fn restarted(world: &World) -> Option<String> {
    let before = world.cache.as_ref().and_then(StatefulSetSeen::restarted);
    maintenance::request(world.consent.restart_cache.as_ref(), before).cloned()
}

/// A new cluster's first ring, or a replacement for one that was deleted: empty, with a number above every known one.
/// Running pods know who owns what and write it into the new ring; no slot is taken before all of them have.
fn without_ring(cluster: &ValidatedCluster, world: &World, schema_done: bool) -> Decision {
    let version = world.cache.as_ref().and_then(|c| c.version.clone());
    if idle(world) {
        let plan = CachePlan {
            ring: Some(next_number(world)),
            replicas: cluster.replicas,
            restarted: restarted(world),
            version,
            ..CachePlan::default()
        };
        let waiting = WaitingOn::Cache {
            ready: 0,
            wanted: cluster.replicas,
            trouble: None,
        };
        return Decision {
            plan: Some(plan),
            waiting: Some(waiting),
            outdated: false,
        };
    }
    // Nothing else changes before they have.
    let (template, update) = template::decide(cluster, world, schema_done);
    let current = world.cache.as_ref().map_or(0, |set| set.replicas);
    Decision {
        plan: Some(CachePlan {
            ring: Some(next_number(world)),
            replicas: current,
            template,
            restarted: restarted(world),
            update,
            version,
            action: None,
        }),
        waiting: Some(WaitingOn::RingLost {
            pods: world.cache_pods.iter().map(|p| p.name.clone()).collect(),
        }),
        outdated: false,
    }
}

/// Proven: no cache pod exists and none is about to be made.
pub(super) fn idle(world: &World) -> bool {
    let none = |c: &StatefulSetSeen| c.replicas == 0 && c.existing == 0 && c.observed;
    world.cache_pods.is_empty() && world.cache.as_ref().is_none_or(none)
}

/// A number that no ring of this cluster has had, as far as is known.
fn next_number(world: &World) -> i64 {
    let known = world.members.values().filter_map(|seen| match seen {
        Seen::Known(member) => Some(member.ring_number),
        Seen::Unknown(_) => None,
    });
    let published = world.last_ring_number.into_iter().chain(known);
    published.max().unwrap_or_default().saturating_add(1)
}

#[cfg(test)]
mod tests;
