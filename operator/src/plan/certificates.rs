//! The certificates for CQL and of the API: whether there is a way on with what was seen of them, or what to wait for.

use super::WaitingOn;
use crate::{
    spec::{Store, Tls, ValidatedCluster},
    world::{CertificatesSeen, World},
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

/// No cache pod is made or replaced while it could not show its certificate. Those that run keep the one that they
/// have.
pub(super) fn of_api(cluster: &ValidatedCluster, world: &World) -> Decision {
    let Some(name) = cluster.api_certificate_secret() else {
        return Decision::default();
    };
    let issued = matches!(cluster.cache.tls, Some(Tls::Issuer(_)));
    let seen = world.api_certificate.as_ref();
    Decision {
        ask: issued && !matches!(seen, Some(CertificatesSeen::NoManager(_))),
        waiting: missing(name, issued, seen),
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
