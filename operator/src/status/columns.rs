//! The columns of `kubectl get` that tell of pods.

use crate::{
    spec::{Store, ValidatedCluster},
    world::World,
};

/// Cache pods that are ready, of those wanted.
pub(super) fn cache(cluster: &ValidatedCluster, world: &World) -> String {
    let ready = world.cache.as_ref().map_or(0, |c| c.ready);
    if is_stopped(cluster) && ready == 0 && world.cache_pods.is_empty() {
        return STOPPED.to_owned();
    }
    let wanted = if is_stopped(cluster) {
        0
    } else {
        cluster.replicas
    };
    format!("{ready}/{wanted}")
}

/// Database pods that are ready, of those wanted, or whose database it is.
pub(super) fn database(cluster: &ValidatedCluster, world: &World) -> String {
    match &cluster.store {
        Store::Managed(database) => {
            let ready: i32 = world.racks.values().map(|r| r.ready).sum();
            if is_stopped(cluster) && ready == 0 && world.database_pods.is_empty() {
                return STOPPED.to_owned();
            }
            let wanted: i32 = database.racks.iter().map(|r| r.members).sum();
            let wanted = if is_stopped(cluster) { 0 } else { wanted };
            format!("{ready}/{wanted}")
        }
        Store::External(_) => "external".to_owned(),
        Store::Embedded(_) => "embedded".to_owned(),
    }
}

const STOPPED: &str = "stopped";

/// Whether it should be: one that is paused stays as it is.
fn is_stopped(cluster: &ValidatedCluster) -> bool {
    cluster.stopped && !cluster.paused
}
