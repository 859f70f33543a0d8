//! The certificates for CQL: whether there is a way on with what was seen of them, or what to wait for.

use super::WaitingOn;
use crate::{
    observe::{CertificatesSeen, World},
    validate::{Store, Tls, ValidatedCluster},
};

#[derive(Default)]
pub(super) struct Decision {
    /// Whether cert-manager is to be asked for them.
    pub(super) ask: bool,
    pub(super) waiting: Option<WaitingOn>,
}

pub(super) fn decide(cluster: &ValidatedCluster, world: &World) -> Decision {
    let Some(name) = cluster.certificate_secret() else {
        return Decision::default();
    };
    let issued = match &cluster.store {
        Store::Managed(database) => matches!(database.tls.as_ref(), Some(Tls::Issuer(_))),
        Store::External(_) | Store::Embedded(_) => false,
    };
    let manager = !matches!(world.certificates, Some(CertificatesSeen::NoManager(_)));
    Decision {
        ask: issued && manager,
        waiting: missing(name, issued, world.certificates.as_ref()),
    }
}

fn missing(name: String, issued: bool, seen: Option<&CertificatesSeen>) -> Option<WaitingOn> {
    Some(match seen {
        Some(CertificatesSeen::Complete { .. }) => return None,
        Some(CertificatesSeen::Absent { words }) if issued => WaitingOn::CertificateIssued {
            name,
            words: words.clone(),
        },
        None | Some(CertificatesSeen::Absent { .. }) => WaitingOn::Secret {
            name,
            missing: Vec::new(),
        },
        Some(CertificatesSeen::Incomplete(keys)) => WaitingOn::Secret {
            name,
            missing: keys.clone(),
        },
        Some(CertificatesSeen::Broken(why)) => WaitingOn::CertificateUsable {
            name,
            why: why.clone(),
        },
        Some(CertificatesSeen::NoManager(why)) => WaitingOn::CertManager { why: why.clone() },
    })
}
