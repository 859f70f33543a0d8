//! What was seen of one cluster, as plain values: `observe` makes them, and every decision rests on them.

mod backups;
mod identity;
mod member;
mod migration;
mod moves;
mod nodes;
mod objects;
mod restore;
mod ring;
mod secrets;
mod snapshots;

use std::collections::BTreeMap;

use kube::ResourceExt;
use readstates_operator_api::{
    DatabaseNode, DatabaseReplication, DatabaseUpgrade, ReadStateCluster, labels,
};

pub use self::{
    backups::{Counted, CronJobSeen, PassTold, Run, Said, SourceSeen, Told},
    identity::{AuthoritySeen, CertificateSeen, Found, IdentitySeen, LeafSeen, Version},
    member::Member,
    migration::{MemberStores, MigrationSeen, MoveJob, MoveJobs, OtherMove, SecretsSeen},
    moves::HandedOver,
    nodes::{ClaimSeen, ClaimSize, Nodes, Token},
    objects::{DiskStage, Growth, JobOutcome, JobSeen, PodSeen, StatefulSetSeen},
    restore::{MoveIn, MoveInStage, RestoreJob, RestoreSeen},
    ring::RingSeen,
    secrets::{CertificatesSeen, ClientCaSeen, SecretSeen, TokenProblem, Tokens},
    snapshots::{SnapshotOf, SnapshotSeen},
};
use crate::{
    rollouts::Places,
    spec::{Certificates, Login},
    super_disk::SuperDiskSeen,
};

/// What was seen of one cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct World {
    /// The owner of each slot.
    pub ring: RingSeen,
    /// The highest number a ring was known to have, when the status was last written.
    pub last_ring_number: Option<i64>,
    /// The StatefulSet of the cache.
    pub cache: Option<StatefulSetSeen>,
    /// Every pod with the labels of a cache pod, terminating ones too, by name.
    pub cache_pods: Vec<PodSeen>,
    /// What cache pods said, by pod name. A pod that is missing here has no process that runs.
    pub members: BTreeMap<String, Seen<Member>>,
    /// StatefulSets of racks, by rack.
    pub racks: BTreeMap<String, StatefulSetSeen>,
    /// Every database pod, by name.
    pub database_pods: Vec<PodSeen>,
    /// What is behind the database pods.
    pub nodes: Nodes,
    /// Whether the cluster whose volumes these are still exists; none: they are its own, or all nodes have signed them.
    pub volumes_of_exists: Option<Seen<bool>>,
    /// Their super-disks, by pod name.
    pub super_disks: BTreeMap<String, SuperDiskSeen>,
    /// The nodes as the status has recorded them.
    pub records: Vec<DatabaseNode>,
    /// The change to another release of the engine, as the status has recorded it.
    pub upgrade: Option<DatabaseUpgrade>,
    /// The copies of each read state, as the status has recorded them.
    pub replication: Option<DatabaseReplication>,
    /// What people have consented to, by annotations of the cluster.
    pub consent: Consent,
    /// The database and keyspace that are on record as made or verified.
    pub schema: Option<String>,
    /// The restore that it is to begin with.
    pub restore: Box<RestoreSeen>,
    /// The move that has handed this cluster's table over to another one; looked for before its first cache pod starts.
    pub handed_over: Option<Seen<HandedOver>>,
    /// Cache pods of other clusters that write its database, too; looked for before that stops.
    pub writers: Vec<String>,
    /// Schema Jobs of this cluster, by name.
    pub jobs: BTreeMap<String, JobSeen>,
    /// The Secret with the login of cache pods: the one that the spec names, or with a database of our own the
    /// one that the operator makes.
    pub secret: Option<SecretSeen>,
    /// The Secret with the superuser's password, with a database of our own.
    pub superuser: Option<SecretSeen>,
    /// Changes whenever the login changes.
    pub login_version: Option<String>,
    /// The Secret with the certificates for CQL, where the spec wants them.
    pub certificates: Option<CertificatesSeen>,
    /// The Secret with the certificate of the API, where the spec wants one.
    pub api_certificate: Option<CertificatesSeen>,
    /// The tokens of the API's callers, by the caller's name.
    pub tokens: BTreeMap<String, Tokens>,
    /// The CAs of their certificates, where the spec names some.
    pub client_ca: Option<ClientCaSeen>,
    /// The Secrets with which the processes of the cluster prove their identity.
    pub identity: IdentitySeen,
    /// The places among the clusters that may restart pods at once.
    pub places: Places,
}

impl World {
    /// What there is to know of the certificates for CQL, as far as they can be used.
    #[must_use]
    pub fn certificates(&self) -> Certificates {
        match &self.certificates {
            Some(CertificatesSeen::Complete {
                mark,
                client,
                expires: _,
            }) => Certificates {
                mark: Some(mark.clone()),
                client: *client,
            },
            Some(
                CertificatesSeen::Absent { .. }
                | CertificatesSeen::Incomplete(_)
                | CertificatesSeen::Broken(_)
                | CertificatesSeen::NoManager(_),
            )
            | None => Certificates::default(),
        }
    }

    /// Whether there are CAs that cache pods can check clients' certificates by.
    #[must_use]
    pub fn has_client_ca(&self) -> bool {
        let seen = self.client_ca.as_ref();
        seen.is_some_and(|seen| seen.pem.is_some())
    }

    /// What there is to know of the login to a database of our own.
    #[must_use]
    pub fn login(&self) -> Login {
        let asks = |set: &StatefulSetSeen| {
            let template = set.template.as_ref().and_then(|t| t.metadata.as_ref());
            let annotations = template.and_then(|m| m.annotations.as_ref());
            annotations.is_some_and(|a| a.contains_key(labels::AUTHENTICATION))
        };
        Login {
            version: self.login_version.clone(),
            asked_for: !self.racks.is_empty() && self.racks.values().all(asks),
        }
    }
}

/// What a user has allowed or requested, each naming exactly what it applies to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Consent {
    /// The update of the database pods that may go ahead.
    pub update: Option<String>,
    /// The update of the cache pods that may go ahead.
    pub update_cache: Option<String>,
    /// The request to restart the cache pods.
    pub restart_cache: Option<String>,
    /// The request to restart the database pods.
    pub restart_database: Option<String>,
    /// The takeovers that a user has acknowledged.
    pub takeover: Option<String>,
    /// The image of the database that may follow the one that runs, whatever their releases are.
    pub engine_version: Option<String>,
    /// The image of the database that nodes may get although not all have a snapshot.
    pub without_snapshot: Option<String>,
    /// The snapshot, kept since the database went back to its former release, that may be removed.
    pub release_snapshot: Option<String>,
    /// Host ID of the node that may be lost for good.
    pub data_loss: Option<String>,
    /// Pod UID and leg of the super-disk that is decided about.
    pub keep_leg: Option<String>,
}

impl Consent {
    pub(crate) fn of(cluster: &ReadStateCluster) -> Self {
        let said = |annotation: &str| cluster.annotations().get(annotation).cloned();
        Self {
            update: said(labels::UPDATE_DATABASE),
            update_cache: said(labels::UPDATE_CACHE),
            restart_cache: said(labels::RESTART_CACHE),
            restart_database: said(labels::RESTART_DATABASE),
            takeover: said(labels::ACKNOWLEDGE_TAKEOVER),
            engine_version: said(labels::ACCEPT_ENGINE_VERSION),
            without_snapshot: said(labels::UPGRADE_WITHOUT_SNAPSHOT),
            release_snapshot: said(labels::RELEASE_SNAPSHOT),
            data_loss: said(labels::ACCEPT_DATA_LOSS),
            keep_leg: said(labels::KEEP_LEG),
        }
    }
}

/// Unknown is not absent: something that did not answer may be anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen<T> {
    /// It was seen.
    Known(T),
    /// It could not be seen, for this reason.
    Unknown(String),
}
