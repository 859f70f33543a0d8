//! Racks one after another: a rack is made or changed only when every rack before it is as wanted and
//! ready. So new members join one at a time, and a bad change stops at the first rack.

use super::WaitingOn;
use crate::{
    build,
    observe::{PodSeen, World},
    validate::{Rack, Store, ValidatedCluster},
};

pub(super) struct Racks {
    /// Racks whose StatefulSet may be written.
    pub(super) write: Vec<String>,
    /// The first rack that is not ready.
    pub(super) waiting: Option<WaitingOn>,
}

pub(super) fn racks(cluster: &ValidatedCluster, world: &World) -> Racks {
    let mut out = Racks {
        write: Vec::new(),
        waiting: None,
    };
    let Store::Managed(database) = &cluster.store else {
        return out;
    };
    for rack in &database.racks {
        let wanted = build::fingerprint(&build::rack(cluster, database, rack));
        let seen = world.racks.get(&rack.name);
        let as_wanted = seen.is_some_and(|s| s.applied_hash == Some(wanted));
        // A rack that waits for its turn is still put back to what was last applied.
        if out.waiting.is_none() || as_wanted {
            out.write.push(rack.name.clone());
        }
        let ready = seen.map_or(0, |s| s.ready);
        let complete = as_wanted
            && ready == rack.members
            && seen.is_some_and(|s| s.settled && s.replicas == rack.members);
        if !complete && out.waiting.is_none() {
            out.waiting = Some(WaitingOn::Rack {
                rack: rack.name.clone(),
                ready,
                members: rack.members,
                trouble: trouble(cluster, rack, &world.database_pods),
            });
        }
    }
    out
}

/// What keeps the rack's first unready pod.
fn trouble(cluster: &ValidatedCluster, rack: &Rack, pods: &[PodSeen]) -> Option<String> {
    let set = cluster.id.rack(&rack.name);
    let of_rack = |p: &&PodSeen| {
        p.name.rsplit_once('-').is_some_and(|(name, ordinal)| {
            name == set && ordinal.bytes().all(|b| b.is_ascii_digit())
        })
    };
    pods.iter()
        .filter(of_rack)
        .find_map(|p| Some(format!("{}: {}", p.name, p.trouble.as_ref()?)))
}
