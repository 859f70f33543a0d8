//! A spec after parsing: complete, and everything in it makes sense. `validate` makes it.

mod access;
mod amount;
mod backup;
mod identity;
mod images;
mod maintenance;
mod migration;
mod restore;
mod seen;
mod times;

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::{
    api::{
        core::v1::{LocalObjectReference, ResourceRequirements, Toleration},
        networking::v1::NetworkPolicyPeer,
    },
    apimachinery::pkg::api::resource::Quantity,
};
use readstates_operator_api::{
    DatabaseReplication, DatabaseSpec, Durability, Engine, FastLeg, Filesystem, FlushMode,
    InternodeTls, IssuerRef, PodTemplate, PullPolicy, Reclaim, ServiceSpec, TlsSpec, VolumesOf,
    fingerprint::fingerprint,
};

pub(crate) use self::maintenance::{DAY, MaintenanceWindow};
pub use self::{
    access::{Access, Caller},
    amount::Amount,
    backup::{BackupMethod, BackupOwner, BackupPlace, BackupsAt, Retention, ValidatedSchedule},
    identity::{Identity, rack_set},
    images::Images,
    maintenance::Maintenance,
    migration::{MoveTarget, ValidatedMigration},
    restore::{RestoreSource, RestoreWish},
    seen::{Asked, Certificates, Login, Observed},
    times::Times,
};

/// A `ReadStateCluster` that can be carried out.
#[derive(Clone, Debug, PartialEq)]
pub struct ValidatedCluster {
    pub id: Identity,
    /// Wanted cache pods.
    pub replicas: i32,
    /// Whether nothing may be changed.
    pub paused: bool,
    /// Whether nothing is to run.
    pub stopped: bool,
    /// When pods that serve may be restarted.
    pub maintenance: Maintenance,
    /// Image of cache pods and schema Job.
    pub image: String,
    /// Pull policy of all pods.
    pub pull_policy: Option<String>,
    /// Pull secrets of all pods.
    pub pull_secrets: Vec<LocalObjectReference>,
    /// Image of the agent in database pods.
    pub agent_image: String,
    /// How Prometheus finds the pods; none: it is not told.
    pub monitoring: Option<Monitoring>,
    /// The cache pods.
    pub cache: Cache,
    /// Where read states are kept.
    pub store: Store,
    /// What it begins with; none: it begins empty.
    pub restore: Option<RestoreWish>,
    /// The issuer of the certificates with which its processes prove their identity.
    pub issuing: Issuing,
    /// The wish for another certificate authority.
    pub rotation: Option<String>,
    /// Whose claim on the keyspace of an external database is taken over.
    pub take_over_claim: Option<String>,
    /// Hash of what the spec says of cache pods.
    pub said_of_cache: String,
    /// Namespace of the operator. Pods elsewhere are not taken for it.
    pub operator_namespace: String,
    /// The ClusterRole by which cache pods may have tokens reviewed; none: the operator may not bind it.
    pub token_review_role: Option<String>,
    /// What was seen of the login to the database.
    pub login: Login,
    /// What was seen of the certificates for CQL.
    pub certificates: Certificates,
    /// Whether there are CAs to check clients' certificates by.
    pub client_ca: bool,
}

/// How Prometheus finds the pods.
#[derive(Clone, Debug, PartialEq)]
pub struct Monitoring {
    /// Labels of PodMonitors.
    pub labels: BTreeMap<String, String>,
    /// How often pods are asked.
    pub interval: Option<String>,
    /// Peers that may reach the metrics of `ScyllaDB`.
    pub from: Vec<NetworkPolicyPeer>,
}

impl ValidatedCluster {
    /// With what is asked for beside the spec.
    #[must_use]
    pub fn asked(mut self, asked: Asked<'_>) -> Self {
        let Asked {
            operator_namespace,
            rotation,
            token_review_role,
            take_over_claim,
            window_until,
            replication,
        } = asked;
        self.maintenance.open_until(window_until);
        Self {
            operator_namespace: operator_namespace.to_owned(),
            rotation: rotation.cloned(),
            token_review_role: token_review_role.cloned(),
            take_over_claim: take_over_claim.cloned(),
            ..self.replicated(replication)
        }
    }

    /// With what was seen.
    #[must_use]
    pub fn seen(mut self, observed: Observed) -> Self {
        let Observed {
            login,
            certificates,
            client_ca,
            internode,
        } = observed;
        if let (Store::Managed(database), Some(mark)) = (&mut self.store, &certificates.mark) {
            // A user who puts other certificates into the Secret wants pods that have them.
            database.said.certificates = Some(mark.clone());
        }
        Self {
            login,
            certificates,
            client_ca,
            ..self.between_nodes(internode)
        }
    }

    /// With the copies that are on record.
    #[must_use]
    pub(crate) fn replicated(mut self, recorded: Option<&DatabaseReplication>) -> Self {
        if let (Store::Managed(database), Some(recorded)) = (&mut self.store, recorded) {
            database.copies = Copies {
                keyspace: recorded.keyspace,
                complete: recorded.complete,
            };
        }
        self
    }

    /// With the stage that the nodes' traffic with each other is to have next.
    #[must_use]
    pub(crate) fn between_nodes(mut self, stage: Option<InternodeTls>) -> Self {
        if let (Store::Managed(database), Some(stage)) = (&mut self.store, stage) {
            database.internode = stage;
        }
        self
    }

    /// Changes whenever the spec of cache pods changes, or what they are given beside it.
    #[must_use]
    pub fn cache_spec_hash(&self) -> String {
        fingerprint(&(
            &self.said_of_cache,
            &self.login.version,
            self.certificates.client,
            self.client_ca,
        ))
    }

    /// The Secret with the certificates for CQL; none: CQL is spoken in the clear.
    #[must_use]
    pub fn certificate_secret(&self) -> Option<String> {
        match &self.store {
            Store::Managed(database) => database.tls.as_ref().map(|tls| match tls {
                Tls::Secret(name) => name.clone(),
                Tls::Issuer(_) => self.id.certificate(),
            }),
            Store::External(external) => external.tls.clone(),
            Store::Embedded(_) => None,
        }
    }

    /// The Secret with the certificate that the API is spoken with; none: it is spoken in the clear.
    #[must_use]
    pub fn api_certificate_secret(&self) -> Option<String> {
        self.cache.tls.as_ref().map(|tls| match tls {
            Tls::Secret(name) => name.clone(),
            Tls::Issuer(_) => self.id.api_certificate(),
        })
    }

    /// Whether certificates are wanted that are not there, or cannot be used.
    #[must_use]
    pub fn lacks_certificates(&self) -> bool {
        self.certificate_secret().is_some() && self.certificates.mark.is_none()
    }
}

/// The issuer of the certificates with which the processes of a cluster prove their identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Issuing {
    /// The operator, with an authority for this cluster alone.
    Operator,
    /// An issuer of cert-manager.
    Manager(IssuerRef),
}

/// Where certificates come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tls {
    /// A Secret that is there.
    Secret(String),
    /// An issuer of cert-manager.
    Issuer(IssuerRef),
}

/// How cache pods run.
#[derive(Clone, Debug, PartialEq)]
pub struct Cache {
    /// Read states a pod keeps.
    pub capacity_states: i64,
    /// Longest time from change to write.
    pub flush_interval: Duration,
    /// When a change is written; none: as the service decides.
    pub flush_mode: Option<FlushMode>,
    /// What survives a crash; none: as the service decides.
    pub durability: Option<Durability>,
    /// Requests and limits.
    pub resources: ResourceRequirements,
    /// Whether those come from the capacity, and not from the user.
    pub resources_by_capacity: bool,
    /// Where its pods run.
    pub placement: Placement,
    /// What the user lays over its pods.
    pub overlay: Option<Box<PodTemplate>>,
    /// The Service of the API.
    pub service: Option<Box<ServiceSpec>>,
    /// Who may reach the API; none: the pods of its namespace.
    pub clients: Option<Vec<NetworkPolicyPeer>>,
    /// Who may call it; none: any client that reaches it.
    pub access: Option<Access>,
    /// Where the certificate of the API comes from; none: it is spoken in the clear.
    pub tls: Option<Tls>,
}

/// Where pods run, as Kubernetes has it; nothing of it is empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Placement {
    /// Labels that nodes must have.
    pub node_selector: Option<BTreeMap<String, String>>,
    /// Accepted taints.
    pub tolerations: Option<Vec<Toleration>>,
    pub priority_class: Option<String>,
}

impl Placement {
    pub(crate) fn of(
        node_selector: Option<&BTreeMap<String, String>>,
        tolerations: Option<&Vec<Toleration>>,
        priority_class: Option<&String>,
    ) -> Self {
        Self {
            node_selector: node_selector.filter(|s| !s.is_empty()).cloned(),
            tolerations: tolerations.filter(|t| !t.is_empty()).cloned(),
            priority_class: priority_class.cloned(),
        }
    }
}

/// Where read states are kept.
#[derive(Clone, Debug, PartialEq)]
pub enum Store {
    /// A database the operator runs.
    Managed(Box<Database>),
    /// A database that the operator does not run.
    External(External),
    /// The one cache pod's volume.
    Embedded(Volume),
}

/// A database the operator runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Database {
    pub engine: Engine,
    pub image: String,
    /// Wanted copies of each read state.
    pub replication_factor: i32,
    /// Copies that there are, by the record; as many as are wanted while there is none.
    pub copies: Copies,
    /// Racks, in the order in which they are started. Never empty.
    pub racks: Vec<Rack>,
    /// Volume of each member.
    pub volume: Volume,
    /// The cluster whose volumes these are; none: its own.
    pub volumes_of: Option<VolumesOf>,
    /// Local disks in front of it.
    pub super_disk: Option<SuperDisk>,
    /// Requests and limits.
    pub resources: ResourceRequirements,
    /// The same of the containers beside a member, over what they have anyway.
    pub agent_resources: ResourceRequirements,
    /// Settings of the engine; none that is ours to set.
    pub settings: BTreeMap<String, String>,
    /// Where its pods run.
    pub placement: Placement,
    /// Whether `ScyllaDB` skips its checks of disk and machine.
    pub developer_mode: bool,
    /// Keyspace of the read states.
    pub keyspace: String,
    /// The user's Secret with the login of cache pods; none: one of our own.
    pub secret: Option<String>,
    /// Where the certificates for CQL come from; none: it is spoken in the clear.
    pub tls: Option<Tls>,
    /// How far nodes encrypt their traffic with each other by the same certificates, in the pods that they get next.
    pub internode: InternodeTls,
    /// What the user lays over its pods.
    pub overlay: Option<Box<PodTemplate>>,
    /// Peers that may speak CQL, beside cache pods.
    pub clients: Vec<NetworkPolicyPeer>,
    /// What happens to the volume of a member that left.
    pub reclaim: Reclaim,
    /// Time from one repair of a node to the next; none: the operator repairs nothing.
    pub repair_every: Option<Duration>,
    /// What the user says of the pods.
    pub said: Said,
}

/// The most copies of each read state that a spec may ask for.
const MOST_COPIES: i32 = 9;

/// Copies of each read state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copies {
    /// As the keyspace has them, or is to have them next.
    pub keyspace: i32,
    /// That every read state has: no more than those of the keyspace.
    pub complete: i32,
}

impl Database {
    /// Whether a hash ([`Database::spec_hash`]) is of the same, with any number of copies: pods do not depend on it.
    #[must_use]
    pub fn says_the_same(&self, hash: &str, made_with: Option<&Quantity>) -> bool {
        (1..=MOST_COPIES).any(|copies| {
            let mut other = self.clone();
            other.said.pods.replication_factor = Some(copies);
            other.spec_hash(made_with) == hash
        })
    }

    /// Hash of what the user says of the pods: what differs with it the same, the operator changed. `made_with`: the size
    /// at which a StatefulSet makes its claims, where it is there: volumes that have grown since make no other pods.
    #[must_use]
    pub fn spec_hash(&self, made_with: Option<&Quantity>) -> String {
        let Said {
            pods,
            image_pull_policy,
            image_pull_secrets,
            certificates,
        } = &self.said;
        let mut pods = pods.clone();
        if let (Some(storage), Some(size)) = (&mut pods.storage, made_with)
            && Amount::parse(&storage.size) != Amount::parse(&size.0)
        {
            storage.size.clone_from(&size.0);
        }
        let hash = fingerprint(&(pods, image_pull_policy, image_pull_secrets));
        let hash = match certificates {
            Some(mark) => fingerprint(&(hash, mark)),
            None => hash,
        };
        // The user asked for the last stage, and by that for those on the way to it.
        if self.internode == self.wanted_internode() {
            hash
        } else {
            fingerprint(&(hash, self.internode))
        }
    }

    /// How far nodes are to encrypt their traffic with each other in the end.
    #[must_use]
    pub fn wanted_internode(&self) -> InternodeTls {
        wanted_internode(self.said.pods.tls.as_ref())
    }

    /// Whether nodes show each other their certificates, or soon will.
    #[must_use]
    pub fn shows_certificates(&self) -> bool {
        self.internode.max(self.wanted_internode()) > InternodeTls::Disabled
    }
}

/// The same, of a spec.
pub(crate) fn wanted_internode(tls: Option<&TlsSpec>) -> InternodeTls {
    match tls.and_then(|tls| tls.internode) {
        Some(true) => InternodeTls::Required,
        Some(false) | None => InternodeTls::Disabled,
    }
}

/// What the user says of the pods of a database.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Said {
    /// The part of the spec that pods are made from.
    pub pods: Box<DatabaseSpec>,
    /// When images are pulled.
    pub image_pull_policy: Option<PullPolicy>,
    /// With what they are pulled.
    pub image_pull_secrets: Option<Vec<LocalObjectReference>>,
    /// What is in the Secret with the certificates.
    pub certificates: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rack {
    pub name: String,
    /// Wanted members.
    pub members: i32,
    /// Zone its pods must run in.
    pub zone: Option<String>,
}

/// A volume to claim.
#[derive(Clone, Debug, PartialEq)]
pub struct Volume {
    pub size: Quantity,
    /// Its class; none: the default one.
    pub class: Option<String>,
}

/// A database that the operator does not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct External {
    /// Hosts to begin with. Never empty.
    pub contact_points: Vec<String>,
    /// CQL port.
    pub port: i32,
    /// Keyspace of the read states.
    pub keyspace: String,
    /// Data center to use.
    pub local_datacenter: String,
    /// Copies of each read state.
    pub replication_factor: i32,
    /// Secret with the login.
    pub secret: Option<String>,
    /// Secret with the CA of its certificates; none: CQL is spoken in the clear.
    pub tls: Option<String>,
}

/// Local disks in front of the volume of each member.
#[derive(Clone, Debug, PartialEq)]
pub struct SuperDisk {
    /// Paths of local disks on the node, or patterns of them. Never empty.
    pub local_devices: Vec<String>,
    /// How many of them are used.
    pub local_count: i32,
    /// Whether a member may start without them.
    pub fast_leg: FastLeg,
    pub filesystem: Filesystem,
    /// Image of the disk's containers.
    pub image: String,
}
