//! The database: racks one after another, and in them one step at a time.
//!
//! The state of a node is recorded in the status before anything is done about it, and the action follows only once the
//! record is there:
//! ```text
//!          order to start              serves                 chosen to leave
//! (none) ────────────────▶ Joining ──────────────▶ Member ──────────────────────▶ Leaving
//!    ▲                                repaired  ▲    │ disk came back empty          │ other nodes
//!    │                                          │    ▼                               ▼ confirm
//!    │                                   Repairing ◀─ Replacing                     (Left)
//!    │                                         serves                                 │
//!    └── claim gone ── Left ◀─────────────────────────────────────────────────────────┘
//! ```
//! Members keep the data of ranges that a joined node took over until they are told to drop it: one after another, when
//! all are in.
//!
//! A node that was rebuilt on an empty disk, and every node from time to time, is repaired: see `repair`.
//!
//! At most one node is Joining, Replacing or Leaving, and pods are changed only while none is: so at most one member's
//! copies are unavailable at any time.

mod adopt;
mod attempts;
mod back;
mod cleanup;
mod halt;
mod health;
mod jobs;
mod join;
mod leave;
mod preflight;
mod record;
mod repair;
mod replace;
mod roll;
mod room;
mod super_disks;
mod version;
mod wait;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use readstates_operator_api::{DatabaseNode, DatabaseNodeState, Engine};

pub use self::{
    super_disks::{Evictions, Kept, SuperDisksStep, VolumeEntry},
    wait::{DatabaseTrouble, DatabaseWait},
};
use super::WaitingOn;
use crate::{
    build,
    engine::{Cleanup, Repair, Start, Target},
    observe::{PodSeen, StatefulSetSeen, World},
    validate::{Database, Rack, Store, ValidatedCluster},
};

/// A rack's StatefulSet as it may be written now.
#[derive(Clone, Debug, PartialEq)]
pub struct RackStep {
    /// The rack.
    pub rack: String,
    /// Members it may have now.
    pub members: i32,
    /// Ordinal from which members get the template.
    pub partition: i32,
    /// The template.
    pub template: Template,
    /// The request that its pods are restarted for.
    pub restarted: Option<String>,
    /// Whether its pods start all at once; never changed.
    pub parallel: bool,
    /// The version of the StatefulSet that this was decided by; `None`: there was none.
    pub version: Option<String>,
}

/// A template of pods.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Template {
    /// The one that the spec and this operator come to.
    #[default]
    Wanted,
    /// The one that is there: the other one has to wait.
    Held {
        /// It.
        template: Box<PodTemplateSpec>,
        /// Its hash, if it had one.
        template_hash: Option<String>,
        /// Hash of the spec that it was made for.
        spec_hash: Option<String>,
    },
}

impl Template {
    /// The one that this StatefulSet has.
    pub(super) fn as_seen(set: &StatefulSetSeen) -> Self {
        set.template
            .clone()
            .map_or(Self::Wanted, |template| Self::Held {
                template,
                template_hash: set.template_hash.clone(),
                spec_hash: set.spec_hash.clone(),
            })
    }
}

/// What to do with the nodes of the database.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodesStep {
    /// The records to keep in the status.
    pub records: Vec<DatabaseNode>,
    /// What to tell agents.
    pub orders: Vec<Order>,
    /// Claims of nodes that have left, to delete.
    pub claims_to_delete: Vec<Named>,
    /// Pods that stand in the way of their own cure, to delete.
    pub pods_to_delete: Vec<Named>,
    /// What a person has to cure.
    pub trouble: Option<DatabaseTrouble>,
    /// The name of an update of the pods that waits for consent.
    pub update: Option<String>,
    /// Why the repair in turn does not begin: the pod, and what it waits for.
    pub repair_waits: Option<String>,
}

/// An object to delete: exactly this one, not a later one of the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

/// What an agent is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Start the database.
    Start {
        /// The pod.
        pod: PodSeen,
        order: Start,
    },
    /// Give the data away.
    Decommission {
        /// The pod.
        pod: PodSeen,
        /// The node, exactly.
        target: Target,
    },
    /// Drop what other nodes have taken over.
    Cleanup {
        /// The pod.
        pod: PodSeen,
        /// The node, exactly, and which cleanup it is.
        order: Cleanup,
    },
    /// Compare the data with the other copies.
    Repair {
        /// The pod.
        pod: PodSeen,
        /// The node, exactly, and which repair it is.
        order: Repair,
    },
}

/// Everything about the database.
#[derive(Default)]
pub(super) struct Decision {
    pub(super) racks: Vec<RackStep>,
    pub(super) nodes: NodesStep,
    pub(super) super_disks: SuperDisksStep,
    pub(super) waiting: Option<WaitingOn>,
    /// What the next restart of a pod that serves waits for, which nothing else has to wait for.
    pub(super) restart: Option<WaitingOn>,
    /// What a repair or the cleanup after joins waits for, which the cache and the schema do not wait for.
    pub(super) upkeep: Option<WaitingOn>,
}

/// What all parts look at.
struct Sight<'a> {
    cluster: &'a ValidatedCluster,
    database: &'a Database,
    world: &'a World,
    now: Timestamp,
}

pub(super) fn decide(cluster: &ValidatedCluster, world: &World, now: Timestamp) -> Decision {
    let Some(sight) = Sight::of(cluster, world, now) else {
        return Decision::default();
    };
    let mut nodes = NodesStep::default();
    record::seen(&sight, &mut nodes);
    repair::settle(&sight, &mut nodes);
    back::decide(&sight, &mut nodes);
    let (mut waiting, mut upkeep) = topology(&sight, &mut nodes);
    let mut turns = roll::Turns::default();
    let racks = racks(&sight, &mut nodes, &mut turns, &mut waiting);
    if waiting.is_none() && upkeep.is_none() {
        upkeep = repair::scheduled(&sight, &mut nodes).map(WaitingOn::Database);
    }
    Decision {
        racks,
        nodes,
        super_disks: super_disks::decide(&sight),
        waiting,
        restart: turns.waits,
        upkeep,
    }
}

/// The database of a cluster whose cache has stopped: its pods go, once no node gives or takes data.
pub(super) fn stop(cluster: &ValidatedCluster, world: &World, now: Timestamp) -> Decision {
    let Some(sight) = Sight::of(cluster, world, now) else {
        return Decision::default();
    };
    let mut nodes = NodesStep::default();
    record::seen(&sight, &mut nodes);
    if halt::data_moves(&sight, &nodes) {
        return decide(cluster, world, now);
    }
    let (racks, waiting) = halt::racks(&sight);
    Decision {
        racks,
        nodes,
        super_disks: super_disks::decide(&sight),
        waiting,
        restart: None,
        upkeep: None,
    }
}

/// One step of one node: what was begun goes on before anything else begins. What is waited for, and what only a
/// repair or the cleanup waits for.
fn topology(sight: &Sight<'_>, nodes: &mut NodesStep) -> (Option<WaitingOn>, Option<WaitingOn>) {
    let mut upkeep = None;
    let wait = match on_its_way(&nodes.records).map(|r| (r.state, r.name.clone())) {
        Some((DatabaseNodeState::Leaving, name)) => leave::go_on(sight, nodes, &name),
        Some((_, name)) => join::go_on(sight, nodes, &name),
        None => leave::pod_goes(sight, nodes).or_else(|| {
            let volume = leave::volume_goes(sight, nodes);
            upkeep = repair::rebuilt(sight, nodes);
            join::begin(sight, nodes)
                .or_else(|| {
                    upkeep = upkeep.take().or_else(|| cleanup::decide(sight, nodes));
                    leave::begin(sight, nodes)
                })
                .or(volume)
        }),
    };
    let database = |wait: Option<DatabaseWait>| wait.map(WaitingOn::Database);
    (database(wait), database(upkeep))
}

/// The node that is neither in nor out.
fn on_its_way(records: &[DatabaseNode]) -> Option<&DatabaseNode> {
    records.iter().find(|r| match r.state {
        DatabaseNodeState::Joining | DatabaseNodeState::Replacing | DatabaseNodeState::Leaving => {
            true
        }
        DatabaseNodeState::Member | DatabaseNodeState::Repairing | DatabaseNodeState::Left => false,
    })
}

/// A rack is created only when every rack before it is as wanted and ready. One that has nodes existed already: its
/// StatefulSet was deleted, and others may wait for its nodes.
fn racks(
    sight: &Sight<'_>,
    nodes: &mut NodesStep,
    turns: &mut roll::Turns,
    waiting: &mut Option<WaitingOn>,
) -> Vec<RackStep> {
    let mut out = Vec::new();
    for rack in &sight.database.racks {
        let Some(seen) = sight.world.racks.get(&rack.name) else {
            let wanted = turns.all_before || room::held(sight, nodes, rack) > 0;
            if wanted && !sight.cluster.lacks_certificates() {
                let (members, wait) = room::room(sight, nodes, rack, 0);
                out.push(RackStep {
                    rack: rack.name.clone(),
                    members,
                    partition: 0,
                    template: Template::Wanted,
                    restarted: sight.world.consent.restart_database.clone(),
                    // Nodes that come back after all were away need a majority of them to come up. New ones wait for
                    // orders either way.
                    parallel: sight.database.engine == Engine::Scylla,
                    version: None,
                });
                *waiting = waiting
                    .take()
                    .or(wait.map(WaitingOn::Database))
                    .or(Some(unready(sight, rack, 0)));
            }
            turns.all_before = false;
            continue;
        };
        let (members, room) = room::members(sight, nodes, rack, seen);
        let roll = roll::decide(sight, nodes, rack, seen, turns);
        let complete = seen.observed
            && seen.replicas == rack.members
            && seen.ready == rack.members
            && roll.complete;
        out.push(RackStep {
            rack: rack.name.clone(),
            members,
            partition: roll.partition,
            template: roll.template,
            restarted: roll.restarted,
            parallel: seen.parallel,
            version: seen.version.clone(),
        });
        if !complete {
            turns.all_before = false;
            *waiting = waiting
                .take()
                .or(room.map(WaitingOn::Database))
                .or(roll.waiting.map(WaitingOn::Database))
                .or(Some(unready(sight, rack, seen.ready)));
        }
    }
    out
}

fn unready(sight: &Sight<'_>, rack: &Rack, ready: i32) -> WaitingOn {
    let trouble = sight.pods_of(rack).find_map(|(_, pod)| {
        let trouble = pod.trouble.as_ref()?;
        Some(format!("{}: {trouble}", pod.name))
    });
    WaitingOn::Rack {
        rack: rack.name.clone(),
        ready,
        members: rack.members,
        trouble,
    }
}

impl<'a> Sight<'a> {
    /// None where the database is not one that the operator runs.
    fn of(cluster: &'a ValidatedCluster, world: &'a World, now: Timestamp) -> Option<Self> {
        match &cluster.store {
            Store::Managed(database) => Some(Self {
                cluster,
                database,
                world,
                now,
            }),
            Store::External(_) | Store::Embedded(_) => None,
        }
    }

    /// The rack and ordinal that a pod's name stands for.
    fn place(&self, pod: &str) -> Option<(&'a Rack, i32)> {
        self.database.racks.iter().find_map(|rack| {
            let rest = pod.strip_prefix(&self.cluster.id.rack(&rack.name))?;
            let ordinal = rest.strip_prefix('-')?;
            let digits = !ordinal.is_empty() && ordinal.bytes().all(|b| b.is_ascii_digit());
            Some((rack, digits.then(|| ordinal.parse().ok())??))
        })
    }

    fn pod(&self, name: &str) -> Option<&'a PodSeen> {
        self.world.database_pods.iter().find(|p| p.name == name)
    }

    fn name(&self, rack: &Rack, ordinal: i32) -> String {
        format!("{}-{ordinal}", self.cluster.id.rack(&rack.name))
    }

    /// The pods of a rack with their ordinals, lowest first.
    fn pods_of(&self, rack: &Rack) -> impl Iterator<Item = (i32, &'a PodSeen)> {
        let mut pods: Vec<_> = self
            .world
            .database_pods
            .iter()
            .filter_map(|pod| {
                let (place, ordinal) = self.place(&pod.name)?;
                (place.name == rack.name).then_some((ordinal, pod))
            })
            .collect();
        pods.sort_by_key(|(ordinal, _)| *ordinal);
        pods.into_iter()
    }

    fn claim_uid(&self, pod: &str) -> Option<String> {
        let claim = self.world.nodes.claims.get(&self.cluster.id.claim(pod))?;
        Some(claim.uid.clone())
    }

    /// Whether the record was in the status already: only then may it be acted on.
    fn recorded(&self, record: &DatabaseNode) -> bool {
        self.world
            .records
            .iter()
            .any(|r| r.name == record.name && r.state == record.state)
    }

    /// Whether no StatefulSet is about to restart a pod that it has been allowed to.
    fn no_pod_turns(&self) -> bool {
        self.database.racks.iter().all(|rack| {
            let seen = self.world.racks.get(&rack.name);
            seen.is_none_or(|seen| {
                seen.observed
                    && self
                        .pods_of(rack)
                        .all(|(ordinal, pod)| ordinal < seen.partition || !outdated(pod, seen))
            })
        })
    }
}

/// Whether the pod was made from another template than the current one.
fn outdated(pod: &PodSeen, seen: &StatefulSetSeen) -> bool {
    pod.revision != seen.update_revision
}

/// Whether this template is the one that the rack was last given.
fn as_wanted(sight: &Sight<'_>, rack: &Rack, seen: &StatefulSetSeen) -> bool {
    let wanted = build::template_hash(sight.cluster, sight.database, rack);
    seen.template_hash.as_ref() == Some(&wanted)
}

#[cfg(test)]
mod killed;
#[cfg(test)]
pub(super) mod sim;
#[cfg(test)]
mod tests;
