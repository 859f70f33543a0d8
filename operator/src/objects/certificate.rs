//! cert-manager's Certificates: one for all members of the database, and one for all cache pods, each with every name
//! by which they are reached.

use readstates_operator_api::{IssuerRef, labels::Component};

use crate::{
    cert_manager::{Certificate, CertificateSpec, Issuer, PrivateKey},
    spec::{Store, Tls, ValidatedCluster},
};

/// The certificate for CQL; none where it comes from elsewhere.
pub(super) fn of_database(cluster: &ValidatedCluster) -> Option<Certificate> {
    let Store::Managed(database) = &cluster.store else {
        return None;
    };
    let Tls::Issuer(issuer) = database.tls.as_ref()? else {
        return None;
    };
    let host = cluster.id.database_host();
    let names = vec![host.clone(), format!("*.{host}")];
    let name = cluster.id.certificate();
    let mut certificate = certificate(cluster, name, names, issuer, Component::Database);
    if database.shows_certificates() {
        certificate.spec.usages.push("client auth".to_owned());
    }
    Some(certificate)
}

/// The certificate of the API; none where it comes from elsewhere. Clients reach the Service, and each pod by the name
/// that the ring tells.
pub(super) fn of_api(cluster: &ValidatedCluster) -> Option<Certificate> {
    let Tls::Issuer(issuer) = cluster.cache.tls.as_ref()? else {
        return None;
    };
    let id = &cluster.id;
    let names = vec![
        id.api_host(),
        format!("{}.{}", id.cache(), id.namespace),
        format!("*.{}.{}.svc", id.cache_members(), id.namespace),
    ];
    let name = id.api_certificate();
    Some(certificate(cluster, name, names, issuer, Component::Cache))
}

fn certificate(
    cluster: &ValidatedCluster,
    name: String,
    dns_names: Vec<String>,
    issuer: &IssuerRef,
    component: Component,
) -> Certificate {
    let spec = CertificateSpec {
        secret_name: name.clone(),
        dns_names,
        issuer_ref: Issuer {
            name: issuer.name.clone(),
            kind: issuer.kind.clone(),
            group: issuer.group.clone(),
        },
        private_key: PrivateKey {
            algorithm: "ECDSA".to_owned(),
            size: 256,
            // The one form that Cassandra reads.
            encoding: "PKCS8".to_owned(),
            rotation_policy: "Always".to_owned(),
        },
        usages: ["digital signature", "key encipherment", "server auth"]
            .map(str::to_owned)
            .to_vec(),
    };
    Certificate {
        metadata: cluster.id.child(name, component),
        spec,
        status: None,
    }
}
