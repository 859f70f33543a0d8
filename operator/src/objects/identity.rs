//! Mounts the certificates with which pods prove their identity, and builds the Certificates where cert-manager issues
//! them.

use readstates_identity::{ClusterName, Role};
use readstates_operator_api::labels::Component;

use crate::{
    cert_manager::{Certificate, CertificateSpec, Issuer, PrivateKey},
    plan::roles,
    spec::{Issuing, ValidatedCluster},
};

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
