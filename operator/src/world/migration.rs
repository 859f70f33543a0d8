//! What a move of a table needs, what its Jobs did, and which databases members use.

use std::net::IpAddr;

use jiff::Timestamp;
use readstates_operator_api::{MigrationTarget, ReadStateCluster};

use super::{CertificatesSeen, Run, SecretSeen};

/// What was seen for a move.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MigrationSeen {
    /// The cluster; none: there is none of this name.
    pub cluster: Option<ReadStateCluster>,
    /// The Secrets by which its database is reached.
    pub source: SecretsSeen,
    /// And those of the target.
    pub target: SecretsSeen,
    /// The cluster of `spec.target.cluster`; none: there is none of this name, or none is named.
    pub target_cluster: Option<ReadStateCluster>,
    /// Every cache pod, terminating ones too.
    pub pods: Vec<MemberStores>,
    /// Whether its StatefulSet has no pods and is to have none.
    pub at_zero: bool,
    /// What new cache pods are made from; none: there is no StatefulSet.
    pub template: Option<MemberStores>,
    /// The other moves of this namespace.
    pub others: Vec<OtherMove>,
    /// Whether the volume claim of the checkpoints is there to stay.
    pub has_claim: bool,
    pub jobs: MoveJobs,
}

/// What works on a move.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MoveJobs {
    /// The Job that copies ahead, while members serve on the source alone.
    pub ahead: Option<MoveJob>,
    /// The Job that copies and compares.
    pub moving: Option<MoveJob>,
    /// Pods that have not ended and belong to neither Job, for example pods of a Job that was deleted by hand.
    pub stray: Vec<String>,
}

/// The Secrets by which a database is reached.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SecretsSeen {
    /// With the login, where it has one.
    pub login: Option<SecretSeen>,
    /// With the certificates, where the spec wants them.
    pub certificates: Option<CertificatesSeen>,
}

/// The databases that a cache pod uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberStores {
    pub name: String,
    pub store: Option<String>,
    /// The second one, which it writes as well.
    pub moving_to: Option<String>,
}

/// Another move.
#[derive(Clone, Debug, PartialEq)]
pub struct OtherMove {
    pub name: String,
    pub created: Option<Timestamp>,
    /// None: it cannot be read, as with a move that was written for a later release.
    pub cluster: Option<String>,
    /// None: it cannot be read.
    pub target: Option<MigrationTarget>,
    /// Whether it is over.
    pub complete: bool,
}

/// A Job of a move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MoveJob {
    /// Its UID, so that a deletion means this one.
    pub uid: String,
    pub run: Run,
    pub suspended: bool,
    /// Where its newest pod tells how far it is.
    pub ip: Option<IpAddr>,
}
