//! What cert-manager is to make: one certificate for all members of the database, by every name that they have.

use readstates_operator_api::labels::Component;

use crate::{
    cert_manager::{Certificate, CertificateSpec, Issuer, PrivateKey},
    validate::{Store, Tls, ValidatedCluster},
};

/// The certificate; none where it comes from elsewhere.
pub(super) fn certificate(cluster: &ValidatedCluster) -> Option<Certificate> {
    let Store::Managed(database) = &cluster.store else {
        return None;
    };
    let Tls::Issuer(issuer) = database.tls.as_ref()? else {
        return None;
    };
    let id = &cluster.id;
    let host = id.database_host();
    let names = vec![host.clone(), format!("*.{host}")];
    let spec = CertificateSpec {
        secret_name: id.certificate(),
        dns_names: names,
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
    Some(Certificate {
        metadata: id.child(id.certificate(), Component::Database),
        spec,
        status: None,
    })
}
