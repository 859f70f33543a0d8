//! Mounts the certificates with which pods prove their identity.

use k8s_openapi::api::core::v1::{Volume, VolumeMount};
use readstates_identity::{CA_FILE, CERTIFICATE_FILE, KEY_FILE, Role};

use super::store;
use crate::{names::IDENTITY, spec::ValidatedCluster};

/// Where the files are: `ca.crt`, `tls.crt` and `tls.key`.
pub(super) const PATH: &str = "/etc/readstates/identity";

/// The certificate of a role for a pod. The processes follow the files: another certificate makes no other pods.
pub(super) fn volume(cluster: &ValidatedCluster, role: Role) -> (Volume, VolumeMount) {
    let secret = cluster.id.identity_secret(role);
    store::keys_of(
        IDENTITY,
        PATH,
        &secret,
        &[CA_FILE, CERTIFICATE_FILE, KEY_FILE],
    )
}
