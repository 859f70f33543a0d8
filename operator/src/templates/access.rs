//! What a cache pod has of the access Secret.

use super::{env, store};
use crate::{names::CLIENT_CA_FILE, spec::ValidatedCluster};

const VOLUME: &str = "access";
const PATH: &str = "/etc/readstates/access";
/// The key of the file with the callers.
pub(crate) const FILE: &str = "access.yaml";

/// What a cache pod has of it. CAs that are there once are there for good, so that their absence restarts no pod.
pub(super) fn of(cluster: &ValidatedCluster) -> store::Access {
    if cluster.cache.access.is_none() {
        return store::Access::default();
    }
    let client_ca = cluster.client_ca.then_some(CLIENT_CA_FILE);
    let keys: Vec<_> = [FILE].into_iter().chain(client_ca).collect();
    let (mut volume, mount) = store::keys_of(VOLUME, PATH, &cluster.id.access(), &keys);
    if let (Some(source), Some(_)) = (&mut volume.secret, client_ca) {
        // When the CAs go, pods that are not replaced yet still hear of other callers.
        source.optional = Some(true);
    }
    let file = |key: &str| format!("{PATH}/{key}");
    let client_ca = client_ca.map(|key| env::value(env::TLS_CLIENT_CA_FILE, file(key)));
    store::Access {
        env: [env::value(env::ACCESS, file(FILE))]
            .into_iter()
            .chain(client_ca)
            .collect(),
        volumes: vec![volume],
        mounts: vec![mount],
    }
}
