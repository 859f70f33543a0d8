//! Certificates for members and operators of a test.

use std::time::{Duration, SystemTime};

use readstates::members_tls::MembersTls;
use readstates_identity::{Authority, ClusterName, Identity, Pems, Role};

const VALID: Duration = Duration::from_secs(3600);

pub fn authority(cluster: &ClusterName) -> Authority {
    Authority::new(cluster, SystemTime::now(), 2 * VALID).unwrap()
}

pub fn issue(authority: &Authority, role: Role, cluster: &ClusterName) -> Pems {
    let issued = authority.issue(role, cluster, SystemTime::now(), VALID);
    issued.unwrap()
}

/// What a member shows; there is no folder in which it is renewed.
pub fn member(authority: &Authority, cluster: &ClusterName) -> MembersTls {
    let pems = issue(authority, Role::Member, cluster);
    MembersTls {
        identity: Identity::new(pems).unwrap(),
        folder: "/nonexistent".into(),
    }
}
