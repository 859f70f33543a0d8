//! Empty disks of pods that are not on record, in a database that misses nodes: the resource was created again over its
//! volumes, or its status was emptied, and a volume is lost. In: what the other nodes miss, and which volumes are there.
//! Out: a record of the node that was on the disk, which is then rebuilt like any other.
//!
//! An empty disk does not tell which node it was. Every volume that may have data comes first: then the one node that is
//! still missed is the one of the one disk that is empty.

use std::collections::BTreeSet;

use readstates_agent::wire::{Disk, NodeState, Phase};
use readstates_operator_api::{DatabaseNode, DatabaseNodeState};

use super::{DatabaseTrouble, DatabaseWait, NodesStep, Sight, health, record};
use crate::{spec::Rack, world::PodSeen};

/// Host IDs of the nodes that members see down and that are not on record.
pub(super) fn missing(sight: &Sight<'_>, nodes: &NodesStep) -> Vec<String> {
    let recorded = |host_id: &String| {
        let is = |r: &DatabaseNode| r.host_id.as_ref() == Some(host_id);
        nodes.records.iter().any(is)
    };
    let views =
        health::members(&nodes.records).filter_map(|member| health::view(sight, &member.name).ok());
    let missing: BTreeSet<_> = views
        .flat_map(|view| &view.nodes)
        .filter(|n| !n.up && n.state != NodeState::Joining && !recorded(&n.host_id))
        .map(|n| n.host_id.clone())
        .collect();
    missing.into_iter().collect()
}

/// Begins with a pod that is not on record and whose disk is empty, while nodes are missing.
pub(super) fn begin(
    sight: &Sight<'_>,
    nodes: &mut NodesStep,
    rack: &str,
    pod: &PodSeen,
) -> Option<DatabaseWait> {
    let host_id = match node_of(sight, nodes, pod) {
        Ok(host_id) => host_id,
        Err(Unclear::Yet(progress)) => {
            let pod = pod.name.clone();
            return Some(DatabaseWait::Joining { pod, progress });
        }
        Err(Unclear::ForGood(why)) => {
            nodes.trouble = Some(DatabaseTrouble::DiskLost {
                pod: pod.name.clone(),
                words: format!(
                    "its disk has no data, and which of the nodes it was that the others miss is not known: {why}"
                ),
            });
            return None;
        }
    };
    nodes.records.push(DatabaseNode {
        host_id: Some(host_id.clone()),
        ..record::new(sight, &pod.name, rack, DatabaseNodeState::Member)
    });
    Some(DatabaseWait::Replacing {
        pod: pod.name.clone(),
        host_id,
        progress: "it is the one node that the others miss, which is put on record first"
            .to_owned(),
    })
}

/// Why it is not known which node was on an empty disk.
enum Unclear {
    Yet(String),
    /// What only a person can decide.
    ForGood(String),
}

/// Host ID of the node that was on the disk of this pod.
fn node_of(sight: &Sight<'_>, nodes: &NodesStep, pod: &PodSeen) -> Result<String, Unclear> {
    let mut racks = sight.database.racks.iter().filter(|rack| rack.members > 0);
    if let Some(rack) = racks.find(|rack| !sight.world.racks.contains_key(&rack.name)) {
        return Err(Unclear::Yet(format!("rack {} comes first", rack.name)));
    }
    let volumes = other_volumes(sight, nodes, pod);
    let found = |content| volumes.iter().find(|volume| volume.content == content);
    if let Some(volume) = found(Content::Comes) {
        return Err(Unclear::Yet(volume.comes_first(sight)));
    }
    if let Some(volume) = found(Content::Stays) {
        return Err(Unclear::ForGood(format!(
            "the volume of {} may have one. Ask for its pod in spec.database.racks again, or delete that claim if its node \
             had left",
            sight.cluster.id.claim(volume.pod)
        )));
    }
    let missing = missing(sight, nodes);
    let or_remove = format!(
        "have what is lost for good taken out of the database (nodetool removenode in the pod of another node: {}); then it \
         joins as a new node",
        missing.join(", ")
    );
    let [host_id] = missing.as_slice() else {
        return Err(Unclear::ForGood(format!(
            "they miss {}. Put the volumes back, or {or_remove}",
            missing.len()
        )));
    };
    let mut others = sight.world.database_pods.iter();
    let other = others.find(|other| other.name != pod.name && !is_recorded(nodes, &other.name));
    if let Some(other) = other {
        let name = &other.name;
        return Err(if is_empty(sight, other) {
            Unclear::ForGood(format!(
                "the disk of {name} has no data either. Until the lost one is back, ask for as many members as there were, \
                 and delete the claim of the one that is new; or {or_remove}"
            ))
        } else {
            Unclear::Yet(format!("{name} has not told yet what its disk has"))
        });
    }
    is_down_for_all(sight, nodes, host_id).map_err(Unclear::Yet)?;
    Ok(host_id.clone())
}

/// One that has just been replaced may be known to some for a moment.
fn is_down_for_all(sight: &Sight<'_>, nodes: &NodesStep, host_id: &str) -> Result<(), String> {
    for member in health::members(&nodes.records) {
        let name = &member.name;
        let view =
            health::view(sight, name).map_err(|why| format!("{name} cannot be asked: {why}"))?;
        if !view.nodes.iter().any(|n| n.host_id == host_id && !n.up) {
            return Err(format!("{name} does not see node {host_id} down"));
        }
    }
    Ok(())
}

/// A volume whose node is not on record.
pub(super) struct Volume<'a> {
    /// Name of its pod, which need not be there.
    pub(super) pod: &'a str,
    pub(super) content: Content,
}

/// What a volume has, as far as that is known.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    /// No data of a member.
    Nothing,
    /// Perhaps data of a member, which starts by itself if that is signed.
    Comes,
    /// Perhaps data of a member; the spec does not ask for its pod, or the data is not signed.
    Stays,
}

impl Volume<'_> {
    /// What a pod with an empty disk waits for.
    pub(super) fn comes_first(&self, sight: &Sight<'_>) -> String {
        let claim = sight.cluster.id.claim(self.pod);
        format!("its disk has no data, and what the volume of {claim} has comes first")
    }
}

/// Such volumes of other pods than this one.
pub(super) fn other_volumes<'a>(
    sight: &Sight<'a>,
    nodes: &NodesStep,
    pod: &PodSeen,
) -> Vec<Volume<'a>> {
    let prefix = sight.cluster.id.claim("");
    let bound = sight
        .world
        .nodes
        .claims
        .iter()
        .filter(|(_, seen)| seen.bound);
    let pods = bound.filter_map(|(claim, _)| claim.strip_prefix(&prefix));
    let others = pods.filter(|name| *name != pod.name && !is_recorded(nodes, name));
    let volume = |name| {
        let place = sight.place(name);
        let is_wanted = place.is_some_and(|(rack, ordinal)| ordinal < rack.members);
        let content = match sight.pod(name).and_then(|pod| disk(sight, pod)) {
            Some(Disk::Blank | Disk::Begun) => Content::Nothing,
            Some(Disk::Known { .. }) | None if is_wanted => Content::Comes,
            Some(Disk::Known { .. } | Disk::Unmarked) | None => Content::Stays,
        };
        Volume { pod: name, content }
    };
    others.map(volume).collect()
}

/// Whether a rack without a StatefulSet is created before its turn: nodes are missing, or the first node's disk is empty
/// and this rack has volumes.
pub(super) fn is_called_back(sight: &Sight<'_>, nodes: &NodesStep, rack: &Rack) -> bool {
    if !missing(sight, nodes).is_empty() {
        return true;
    }
    // In a database that begins with the volumes of another cluster, a person makes that volume again.
    let begins = nodes.records.is_empty() && sight.database.volumes_of.is_none();
    let mut pods = sight.world.database_pods.iter();
    begins && has_volumes(sight, rack) && pods.any(|pod| is_empty(sight, pod))
}

/// Whether volumes of an earlier StatefulSet of this rack are there.
fn has_volumes(sight: &Sight<'_>, rack: &Rack) -> bool {
    (0..rack.members).any(|ordinal| {
        let claim = sight.cluster.id.claim(&sight.name(rack, ordinal));
        let claim = sight.world.nodes.claims.get(&claim);
        claim.is_some_and(|claim| claim.bound)
    })
}

/// Whether a rack comes back of which nothing is on record: one with nodes on record may have one that has left, whose pod
/// is not to start.
pub(super) fn comes_back(sight: &Sight<'_>, nodes: &NodesStep, rack: &Rack) -> bool {
    nodes.records.iter().all(|r| r.rack != rack.name) && has_volumes(sight, rack)
}

fn is_recorded(nodes: &NodesStep, pod: &str) -> bool {
    nodes.records.iter().any(|r| r.name == pod)
}

/// Whether the pod waits with a disk that has no data of a member.
fn is_empty(sight: &Sight<'_>, pod: &PodSeen) -> bool {
    matches!(disk(sight, pod), Some(Disk::Blank | Disk::Begun))
}

/// The disk that the pod waits with.
fn disk<'a>(sight: &Sight<'a>, pod: &PodSeen) -> Option<&'a Disk> {
    match health::phase(sight, pod) {
        Ok(Phase::Waiting { disk, .. }) => Some(disk),
        Ok(Phase::Unreachable { .. } | Phase::Running(_)) | Err(_) => None,
    }
}
