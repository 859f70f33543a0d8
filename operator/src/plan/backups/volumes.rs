//! What the next step of a backup by VolumeSnapshots is. Pure.
//!
//! ```text
//! every cache pod writes what it holds ─▶ on record: flushed ─▶ every node writes what it holds
//!     ─▶ a VolumeSnapshot of each node's volume ─▶ on record: their names ─▶ all can be restored
//! ```
//! What was acknowledged before the first step is in the files of a majority of each row's nodes after the third, so it is
//! in the snapshots, whenever after that each is taken. An operator that is killed anywhere goes on from what is on record
//! and what is there. Snapshots that could not all be made soon after the flush are given up, and all is done again.

use std::time::Duration;

use jiff::Timestamp;
use readstates_agent::wire::{Flush, Job, Phase, View};
use readstates_operator_api::{
    DatabaseNode, DatabaseNodeState, NodeSnapshot, ReadStateBackupStatus, SuperDiskState,
    conditions::Reason,
};
use readstates_ring::SLOTS;

use super::Obstacle;
use crate::{
    plan::{Named, served},
    spec::{BackupOwner, Database, Identity, Store, ValidatedCluster},
    super_disk::judge,
    templates::{self, SnapshotWish},
    world::{PodSeen, Seen, SnapshotOf, SnapshotSeen, World},
};

/// How long after the flush the last snapshot may be made.
const SOON: Duration = Duration::from_mins(15);
/// How long the storage system may take.
const LONGEST: Duration = Duration::from_hours(24);

/// The next step.
#[derive(Clone, Debug, PartialEq)]
pub enum VolumesStep {
    /// It cannot be made now.
    Blocked(Obstacle),
    /// Every cache pod is to write what it holds.
    FlushCache(Vec<PodSeen>),
    /// Every node is to write what it holds, or does.
    FlushNodes {
        orders: Vec<(PodSeen, Flush)>,
        words: String,
        /// Whether one could not, and is told again.
        failed: bool,
    },
    /// These are to be made.
    Take(Vec<SnapshotWish>),
    /// The storage system is at work.
    Wait(String),
    /// These are given up, and all is done again.
    StartOver(Vec<Named>),
    /// All can be restored.
    Complete { nodes: usize, flushed: Timestamp },
    /// It will not be made.
    Failed(String),
}

/// What was seen of the cluster.
#[derive(Clone, Debug)]
pub struct ClusterSeen<'a> {
    /// Or why there is none to be backed up.
    pub cluster: Result<&'a ValidatedCluster, Obstacle>,
    pub world: Option<&'a World>,
}

/// Decides. `snapshots`: those with the label of this backup.
#[must_use]
pub fn volumes_step(
    owner: &BackupOwner,
    class: Option<&String>,
    before: Option<&ReadStateBackupStatus>,
    seen: &ClusterSeen<'_>,
    snapshots: &[SnapshotSeen],
    now: Timestamp,
) -> VolumesStep {
    let ours = |s: &&SnapshotSeen| s.owner.as_ref() == Some(&owner.id.uid);
    let snapshots: Vec<_> = snapshots.iter().filter(ours).collect();
    let flushed = before.and_then(|b| b.flushed.as_ref()).map(|t| t.0);
    let named = before.map_or(&[][..], |b| &b.volume_snapshots);
    let since = |at: Timestamp| now.duration_since(at).unsigned_abs();
    if let Some(flushed) = flushed.filter(|_| !named.is_empty()) {
        let missing = named
            .iter()
            .find(|node| snapshots.iter().all(|s| s.name != node.name || s.going));
        match missing {
            None => return taken(named, &snapshots, flushed, since(flushed)),
            Some(node) if since(flushed) > SOON => {
                return VolumesStep::Failed(format!("VolumeSnapshot {} is gone", node.name));
            }
            // They are made in the order of their names, and the last may not be there yet.
            Some(_) => {}
        }
    }
    let (cluster, world) = match (&seen.cluster, seen.world) {
        (Ok(cluster), Some(world)) => (*cluster, world),
        (Err(obstacle), _) => return VolumesStep::Blocked(obstacle.clone()),
        (Ok(_), None) => return VolumesStep::Wait("the cluster was not looked at yet".to_owned()),
    };
    let nodes = match nodes(cluster, world) {
        Ok(nodes) => nodes,
        Err(obstacle) => return VolumesStep::Blocked(obstacle),
    };
    if let Some(going) = snapshots.iter().find(|s| s.going) {
        return VolumesStep::Wait(format!("VolumeSnapshot {} is being deleted", going.name));
    }
    let Some(flushed) = flushed.filter(|at| since(*at) <= SOON) else {
        if !snapshots.is_empty() || flushed.is_some() {
            let all = snapshots.iter().map(|s| Named {
                name: s.name.clone(),
                uid: s.uid.clone(),
            });
            return VolumesStep::StartOver(all.collect());
        }
        return cache(world);
    };
    flush(owner, &nodes, flushed).unwrap_or_else(|| {
        let wishes = nodes.iter().map(|node| {
            let claim = (node.record.name.as_str(), node.claim.as_str());
            templates::snapshot_wish(owner, class, claim, &node.of(cluster, flushed))
        });
        VolumesStep::Take(wishes.collect())
    })
}

/// How far the storage system is with what was made.
fn taken(
    named: &[NodeSnapshot],
    snapshots: &[&SnapshotSeen],
    flushed: Timestamp,
    since: Duration,
) -> VolumesStep {
    let Some(late) = snapshots.iter().find(|s| !s.ready) else {
        let nodes = named.len();
        return VolumesStep::Complete { nodes, flushed };
    };
    let error = late.error.as_ref().map(|error| format!(": {error}"));
    let words = format!(
        "VolumeSnapshot {} cannot be restored yet{}",
        late.name,
        error.unwrap_or_default()
    );
    if since > LONGEST {
        VolumesStep::Failed(words)
    } else {
        VolumesStep::Wait(words)
    }
}

/// A node of the database that serves.
struct Node<'a> {
    record: &'a DatabaseNode,
    pod: &'a PodSeen,
    view: &'a View,
    ordinal: i32,
    claim: String,
    claim_uid: &'a str,
    id: &'a Identity,
    host_id: &'a str,
}

impl Node<'_> {
    fn of(&self, cluster: &ValidatedCluster, flushed: Timestamp) -> SnapshotOf {
        let image = match &cluster.store {
            Store::Managed(database) => database.image.clone(),
            Store::External(_) | Store::Embedded(_) => String::new(),
        };
        SnapshotOf {
            namespace: self.id.namespace.clone(),
            cluster: self.id.name.clone(),
            rack: self.record.rack.clone(),
            ordinal: self.ordinal,
            claim_uid: self.claim_uid.to_owned(),
            image,
            flushed,
        }
    }
}

/// All nodes of the database, when each is a member that serves: a node that takes or gives data would be in the backup
/// with half of it.
fn nodes<'a>(cluster: &'a ValidatedCluster, world: &'a World) -> Result<Vec<Node<'a>>, Obstacle> {
    let id = &cluster.id;
    let name = &id.name;
    let wait = |words: String| Obstacle::wait(Reason::ClusterNotReady, words);
    let refuse = |words: String| Obstacle::refuse(Reason::BackupUnsupported, words);
    let database = match &cluster.store {
        Store::Managed(database) => database,
        Store::External(_) => {
            return Err(refuse(format!(
                "ReadStateCluster {name} uses a database that the operator does not run: its volumes are not known here"
            )));
        }
        Store::Embedded(_) => return Err(super::embedded(name)),
    };
    let records: Vec<_> = world
        .records
        .iter()
        .filter(|r| r.state != DatabaseNodeState::Left)
        .collect();
    let wanted: i32 = database.racks.iter().map(|rack| rack.members).sum();
    if i32::try_from(records.len()) != Ok(wanted) {
        return Err(wait(format!(
            "the database of ReadStateCluster {name} has {} of {wanted} nodes",
            records.len()
        )));
    }
    records
        .into_iter()
        .map(|record| node(id, database, world, record).map_err(wait))
        .collect()
}

fn node<'a>(
    id: &'a Identity,
    database: &Database,
    world: &'a World,
    record: &'a DatabaseNode,
) -> Result<Node<'a>, String> {
    let name = &record.name;
    if record.state != DatabaseNodeState::Member {
        return Err(format!("database node {name} is {:?}", record.state));
    }
    let pod = world.database_pods.iter().find(|p| p.name == *name);
    let pod = pod.filter(|p| p.ready && !p.terminating);
    let pod = pod.ok_or_else(|| format!("database node {name} is not ready"))?;
    let view = match world.nodes.reports.get(name) {
        Some(Seen::Known(report)) => match &report.phase {
            Phase::Running(view) => view,
            Phase::Waiting { .. } | Phase::Unreachable { .. } => {
                return Err(format!("database node {name} does not run"));
            }
        },
        Some(Seen::Unknown(why)) => {
            return Err(format!("database node {name} cannot be asked: {why}"));
        }
        None => return Err(format!("database node {name} was not asked")),
    };
    if !view.flushes {
        return Err(format!(
            "the agent of database node {name} is of an earlier release, which cannot: let the pods be updated as the \
             condition RequiresUpdate says"
        ));
    }
    let host_id = view
        .serves()
        .filter(|id| Some(*id) == record.host_id.as_deref());
    let host_id = host_id.ok_or_else(|| format!("database node {name} does not serve"))?;
    if database.super_disk.is_some() {
        durable(world, name)?;
    }
    let ordinal = name
        .strip_prefix(&id.rack(&record.rack))
        .and_then(|rest| rest.strip_prefix('-')?.parse().ok());
    let is_of = database.racks.iter().any(|rack| rack.name == record.rack);
    let ordinal = ordinal.filter(|_| is_of);
    let ordinal =
        ordinal.ok_or_else(|| format!("database node {name} is in no rack of the spec"))?;
    let claim = id.claim(name);
    let seen = world.nodes.claims.get(&claim);
    let seen = seen.ok_or_else(|| format!("volume claim {claim} does not exist"))?;
    if record
        .claim_uid
        .as_ref()
        .is_some_and(|uid| *uid != seen.uid)
    {
        return Err(format!(
            "volume claim {claim} is another one than {name} has"
        ));
    }
    Ok(Node {
        record,
        pod,
        view,
        ordinal,
        claim,
        claim_uid: &seen.uid,
        id,
        host_id,
    })
}

/// Whether what the node has written is on the network disk of its super-disk, which alone is copied.
fn durable(world: &World, name: &str) -> Result<(), String> {
    let seen = world.super_disks.get(name).map(judge);
    match seen.as_ref().map(|judgement| judgement.state) {
        Some(SuperDiskState::Healthy | SuperDiskState::Rebuilding | SuperDiskState::FastLost) => {
            Ok(())
        }
        Some(
            SuperDiskState::Waiting
            | SuperDiskState::Refused
            | SuperDiskState::Failed
            | SuperDiskState::Assembling
            | SuperDiskState::DurableLost
            | SuperDiskState::Unknown,
        )
        | None => {
            let why = seen.map_or_else(|| "it was not asked".to_owned(), |seen| seen.message);
            Err(format!(
                "the super-disk of database node {name} may not have everything on its network disk: {why}"
            ))
        }
    }
}

/// Every cache pod writes what it holds; all must be there, since each holds something of its own.
fn cache(world: &World) -> VolumesStep {
    let wait = |words: String| VolumesStep::Blocked(Obstacle::wait(Reason::ClusterNotReady, words));
    let all = usize::from(SLOTS);
    let served = served(world);
    if served < all {
        return wait(format!("{served} of {all} slots are served by cache pods"));
    }
    let silent = world.cache_pods.iter().find(|pod| {
        !pod.terminating && !matches!(world.members.get(&pod.name), Some(Seen::Known(_)))
    });
    if let Some(pod) = silent {
        return wait(format!("cache pod {} does not answer", pod.name));
    }
    let answers = |pod: &&PodSeen| matches!(world.members.get(&pod.name), Some(Seen::Known(_)));
    VolumesStep::FlushCache(world.cache_pods.iter().filter(answers).cloned().collect())
}

/// Has every node write what it holds; `None` once all have.
fn flush(owner: &BackupOwner, nodes: &[Node<'_>], flushed: Timestamp) -> Option<VolumesStep> {
    let request = format!("backup {} {flushed}", owner.id.uid);
    let mut orders = Vec::new();
    let mut waits = Vec::new();
    let mut failed = false;
    for node in nodes {
        let name = &node.record.name;
        let own = node.view.flush.as_ref().filter(|f| f.request == request);
        match own.map(|own| &own.job) {
            Some(Job::Done) => continue,
            Some(Job::Running) => waits.push(format!("{name} flushes")),
            Some(Job::Failed { error }) => {
                failed = true;
                waits.push(format!("{name} could not flush: {error}"));
            }
            None => waits.push(format!("{name} is told to flush")),
        }
        if own.is_none_or(|own| own.job != Job::Running) {
            let order = Flush {
                pod_uid: node.pod.uid.clone().unwrap_or_default(),
                host_id: node.host_id.to_owned(),
                request: request.clone(),
            };
            orders.push((node.pod.clone(), order));
        }
    }
    (!waits.is_empty()).then(|| VolumesStep::FlushNodes {
        orders,
        words: waits.join(", "),
        failed,
    })
}

#[cfg(test)]
mod tests;
