//! TLS on the API port: what cache pods have for it.
//!
//! They follow the files: another certificate in the Secret makes no other pods.

use super::{env, store};
use crate::{
    certificates::{CERTIFICATE, KEY},
    spec::ValidatedCluster,
};

const VOLUME: &str = "api-tls";
const PATH: &str = "/etc/readstates/api-tls";

/// What a cache pod has of it; nothing where the API is spoken in the clear.
pub(super) fn of(cluster: &ValidatedCluster) -> store::Access {
    let Some(secret) = cluster.api_certificate_secret() else {
        return store::Access::default();
    };
    let (volume, mount) = store::keys_of(VOLUME, PATH, &secret, &[CERTIFICATE, KEY]);
    let file = |key: &str| format!("{PATH}/{key}");
    store::Access {
        env: vec![
            env::value(env::TLS_CERT_FILE, file(CERTIFICATE)),
            env::value(env::TLS_KEY_FILE, file(KEY)),
        ],
        volumes: vec![volume],
        mounts: vec![mount],
    }
}

/// How the API is spoken.
pub(crate) fn scheme(cluster: &ValidatedCluster) -> &'static str {
    match cluster.cache.tls {
        Some(_) => "https",
        None => "http",
    }
}
