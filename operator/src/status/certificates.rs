//! Expiry of a cluster's certificates, for its status and the condition about it.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use readstates_identity::Role;
use readstates_operator_api::{
    CertificateStatus,
    conditions::{
        Condition,
        ConditionStatus::{False, True},
        ConditionType, Reason,
    },
};

use crate::world::{CertificatesSeen, World};

/// How long before its end a certificate is reported: all are renewed well before, so that something is wrong by then.
const SOON: Duration = Duration::from_hours(24 * 14);

/// Each certificate that is known, by what it is for.
pub(super) fn entries(world: &World) -> Vec<CertificateStatus> {
    let seen = &world.identity;
    let authority = seen.authority.content();
    let authority = authority.and_then(|a| a.issuing.as_ref().or(a.next.as_ref()));
    let authority = authority.map(|ca| ("ca", ca.not_after));
    let leaves = Role::ALL.into_iter().filter_map(|role| {
        let leaf = seen.leaf(role).content()?;
        Some((role.as_str(), leaf.certificate.not_after))
    });
    let served = [
        ("cql", &world.certificates),
        ("api", &world.api_certificate),
    ];
    let served = served.into_iter().filter_map(|(role, seen)| match seen {
        Some(CertificatesSeen::Complete { expires, .. }) => Some((role, (*expires)?)),
        Some(
            CertificatesSeen::Absent { .. }
            | CertificatesSeen::Incomplete(_)
            | CertificatesSeen::Broken(_)
            | CertificatesSeen::NoManager(_),
        )
        | None => None,
    });
    let client_ca = world.client_ca.as_ref();
    let client_ca = client_ca.and_then(|seen| seen.source.clone().ok().flatten());
    let client_ca = client_ca.map(|at| ("clients-ca", at));
    let all = leaves.chain(authority).chain(served).chain(client_ca);
    all.map(|(role, expires)| CertificateStatus {
        role: role.to_owned(),
        expires: Time(expires),
    })
    .collect()
}

/// Whether one of them expires soon.
pub(super) fn expiring(world: &World, now: Timestamp) -> Condition {
    let entries = entries(world);
    let soon = |entry: &&CertificateStatus| {
        now.checked_add(SOON)
            .is_ok_and(|limit| entry.expires.0 < limit)
    };
    let first = entries.iter().filter(soon).min_by_key(|e| e.expires.0);
    let (status, reason, message) = match first {
        Some(CertificateStatus { role, expires }) => (
            True,
            Reason::ExpiresSoon,
            format!(
                "the certificate of role {role} expires at {} and has not been renewed",
                expires.0
            ),
        ),
        None => (
            False,
            Reason::AsExpected,
            "no certificate expires within two weeks".to_owned(),
        ),
    };
    Condition::new(ConditionType::CertificatesExpiring, status, reason, message)
}
