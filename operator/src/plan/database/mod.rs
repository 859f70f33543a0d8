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
mod consent;
mod copies;
mod halt;
mod health;
mod internode;
mod jobs;
mod join;
mod keyspace;
mod leave;
mod lost;
mod preflight;
mod ready;
mod record;
mod repair;
mod replace;
mod roll;
mod room;
mod sight;
mod step;
mod super_disks;
mod upgrade;
mod version;
mod volumes;
mod wait;

use jiff::Timestamp;
use readstates_agent::engine::Profile;
use readstates_operator_api::{DatabaseNode, DatabaseNodeState};

use self::sight::{Sight, as_wanted, outdated};
pub(super) use self::version::reads_disks_of;
pub use self::{
    internode::stage as internode_stage,
    step::{Growth, Named, NodesStep, Order},
    super_disks::{Evictions, Kept, SuperDisksStep, VolumeEntry},
    wait::{DatabaseTrouble, DatabaseWait},
};
use super::WaitingOn;
use crate::{
    spec::{Rack, ValidatedCluster},
    templates::RackStep,
    world::{StatefulSetSeen, World},
};

/// Everything about the database.
#[derive(Default)]
pub(super) struct Decision {
    pub(super) racks: Vec<RackStep>,
    pub(super) nodes: NodesStep,
    pub(super) super_disks: SuperDisksStep,
    pub(super) waiting: Option<WaitingOn>,
    /// What the next restart of a pod that serves waits for, which nothing else has to wait for.
    pub(super) restart: Option<WaitingOn>,
    /// Whether any pod is to be restarted.
    pub(super) outdated: bool,
    /// What a repair or the cleanup after joins waits for, which the cache and the schema do not wait for.
    pub(super) upkeep: Option<WaitingOn>,
}

pub(super) fn decide(cluster: &ValidatedCluster, world: &World, now: Timestamp) -> Decision {
    let Some(sight) = Sight::of(cluster, world, now) else {
        return Decision::default();
    };
    let mut nodes = NodesStep::default();
    nodes.upgrade.clone_from(&world.upgrade);
    nodes.replication.clone_from(&world.replication);
    record::seen(&sight, &mut nodes);
    repair::settle(&sight, &mut nodes);
    let counting = copies::learn(&sight, &mut nodes);
    back::decide(&sight, &mut nodes);
    nodes.trouble = nodes
        .trouble
        .take()
        .or_else(|| leave::rack_missing(&sight, &nodes));
    let (mut waiting, mut upkeep) = topology(&sight, &mut nodes);
    let upgrading = upgrade::decide(&sight, &mut nodes).map(WaitingOn::Database);
    upkeep = upgrading.or(upkeep);
    let mut turns = roll::Turns::default();
    let racks = racks(&sight, &mut nodes, &mut turns, &mut waiting);
    waiting = waiting.or(counting.map(WaitingOn::Database));
    // What has begun goes on, since others wait for its end.
    if ready::changes_copies(&nodes)
        || copies::is_unsure(&sight)
        || (waiting.is_none() && upkeep.is_none())
    {
        let copying = copies::decide(&sight, &mut nodes).map(WaitingOn::Database);
        upkeep = copying.or(upkeep);
    }
    if waiting.is_none() && upkeep.is_none() {
        upkeep = repair::scheduled(&sight, &mut nodes).map(WaitingOn::Database);
    }
    let growing = volumes::grow(&sight, &mut nodes).map(WaitingOn::Database);
    upkeep = growing.or(upkeep);
    Decision {
        racks,
        nodes,
        super_disks: super_disks::decide(&sight),
        waiting,
        restart: turns.waits,
        outdated: turns.due || sight.any_outdated(),
        upkeep,
    }
}

/// The database of a cluster whose cache has stopped: its pods go, once no node gives or takes data.
pub(super) fn stop(cluster: &ValidatedCluster, world: &World, now: Timestamp) -> Decision {
    let Some(sight) = Sight::of(cluster, world, now) else {
        return Decision::default();
    };
    let mut nodes = NodesStep::default();
    nodes.upgrade.clone_from(&world.upgrade);
    nodes.replication.clone_from(&world.replication);
    record::seen(&sight, &mut nodes);
    // Its pods are not this spec's to stop, and are waited for.
    nodes.trouble = leave::rack_missing(&sight, &nodes).or(nodes.trouble);
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
        outdated: false,
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
                    if copies::come_first(sight, nodes) {
                        return None;
                    }
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

/// A rack is created only when every rack before it is as wanted and ready, with the release that the others run. One
/// that has nodes existed already, or has volumes of nodes that are missed: its StatefulSet was deleted, and others may
/// wait for its nodes.
fn racks(
    sight: &Sight<'_>,
    nodes: &mut NodesStep,
    turns: &mut roll::Turns,
    waiting: &mut Option<WaitingOn>,
) -> Vec<RackStep> {
    let mut out = Vec::new();
    for rack in &sight.database.racks {
        // Its StatefulSet, if it ever had one, stays as it is.
        let has_none = |seen: &StatefulSetSeen| seen.replicas == 0;
        if rack.members == 0
            && sight.world.racks.get(&rack.name).is_none_or(has_none)
            && room::held(sight, nodes, rack) == 0
        {
            continue;
        }
        let Some(seen) = sight.world.racks.get(&rack.name) else {
            let may_come = turns.all_before && upgrade::against_moves(sight, nodes).is_none();
            let wanted = may_come
                || room::held(sight, nodes, rack) > 0
                || lost::is_called_back(sight, nodes, rack);
            if wanted && !sight.cluster.lacks_certificates() {
                let (members, wait) = room::room(sight, nodes, rack, 0);
                out.push(RackStep {
                    rack: rack.name.clone(),
                    members,
                    partition: 0,
                    template: upgrade::template_of_new(sight, rack),
                    restarted: sight.world.consent.restart_database.clone(),
                    // New nodes wait for orders either way, and none that comes back waits for one that was lost.
                    parallel: Profile::of(sight.database.engine).starts_together
                        || lost::comes_back(sight, nodes, rack),
                    claim_size: None,
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
        // What waits for the end of an upgrade must not keep it from the other racks, nor nodes that leave later the change
        // of the number of copies from its Job.
        let members_now = match upgrade::against_moves(sight, nodes) {
            Some(_) => seen.replicas,
            None if copies::come_first(sight, nodes) => rack.members.max(seen.replicas),
            None => rack.members,
        };
        let complete = seen.observed
            && seen.replicas == members_now
            && seen.ready == members_now
            && roll.complete;
        out.push(RackStep {
            rack: rack.name.clone(),
            members,
            partition: roll.partition,
            template: roll.template,
            restarted: roll.restarted,
            parallel: seen.parallel,
            claim_size: seen.claim_size.clone(),
            version: seen.version.clone(),
        });
        if !complete {
            turns.all_before = false;
            *waiting = waiting
                .take()
                .or(room.map(WaitingOn::Database))
                .or(roll.waiting.map(WaitingOn::Database))
                .or(Some(unready(sight, rack, seen.ready)));
        } else if let Some(room) = room {
            *waiting = waiting.take().or(Some(WaitingOn::Database(room)));
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

#[cfg(test)]
mod killed;
#[cfg(test)]
pub(super) mod sim;
#[cfg(test)]
mod tests;
