//! Mounts the certificates with which pods prove their identity, and builds the Certificates where cert-manager issues
//! them.

use k8s_openapi::api::core::v1::{Volume, VolumeMount};
use readstates_identity::{CA_FILE, CERTIFICATE_FILE, ClusterName, KEY_FILE, Role};
use readstates_operator_api::labels::Component;

use super::{IDENTITY, store};
use crate::{
    cert_manager::{Certificate, CertificateSpec, Issuer, PrivateKey},
    plan::roles,
    validate::{Issuing, ValidatedCluster},
};

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

/// What cert-manager is to make; nothing where the operator issues.
pub(super) fn certificates(cluster: &ValidatedCluster) -> Vec<Certificate> {
    let Issuing::Manager(issuer) = &cluster.issuing else {
        return Vec::new();
    };
    // A name that the CRD lets through is one.
    let Ok(names) = cluster.id.cluster_name() else {
        return Vec::new();
    };
    let issuer = Issuer {
        name: issuer.name.clone(),
        kind: issuer.kind.clone(),
        group: issuer.group.clone(),
    };
    let of_role = |role: &Role| certificate(cluster, *role, &names, &issuer);
    roles(cluster).iter().map(of_role).collect()
}

fn certificate(
    cluster: &ValidatedCluster,
    role: Role,
    names: &ClusterName,
    issuer: &Issuer,
) -> Certificate {
    let name = cluster.id.identity_secret(role);
    let (component, usages): (_, &[&str]) = match role {
        Role::Member => (Component::Cache, &["server auth", "client auth"]),
        Role::Operator => (Component::Cache, &["client auth"]),
        Role::Agent => (Component::Database, &["server auth"]),
    };
    let usages = ["digital signature"].iter().chain(usages);
    let spec = CertificateSpec {
        secret_name: name.clone(),
        // One name alone: the certificate proves this role and no other.
        dns_names: vec![role.host(names)],
        issuer_ref: issuer.clone(),
        private_key: PrivateKey {
            algorithm: "ECDSA".to_owned(),
            size: 256,
            encoding: "PKCS8".to_owned(),
            rotation_policy: "Always".to_owned(),
        },
        usages: usages.map(|usage| (*usage).to_owned()).collect(),
    };
    Certificate {
        metadata: cluster.id.child(name, component),
        spec,
        status: None,
    }
}
