//! Reads the world: the children of one cluster, its pods, and what its cache pods say of
//! themselves. In: names. Out: [`World`], plain values that `plan` and `status` work on. Writes nothing.
//!
//! Children are read by name, since names are what writes act on; pods by label, and every pod with the label counts,
//! whatever created it: a pod that is not ours may still hold read states.

mod access;
mod backups;
mod certificates;
mod children;
mod claims;
mod client_ca;
mod credentials;
mod growth;
mod identity;
mod members;
mod migration;
mod nodes;
mod objects;
mod restore;
mod ring;
mod super_disks;
mod volumes_of;

use std::collections::BTreeMap;

use k8s_openapi::api::{apps::v1::StatefulSet, batch::v1::Job, core::v1::Pod};
use kube::{
    Api, Client,
    api::{ListParams, ResourceExt},
};
use readstates_operator_api::{
    DatabaseNode, DatabaseUpgrade, ReadStateCluster, ReadStateRing,
    labels::{self, Component},
};

pub use self::{
    access::{TokenProblem, Tokens},
    backups::{
        Counted, CronJobSeen, PassTold, Run, Said, SourceSeen, Told, cron_job,
        owner as backup_owner, runs as backup_runs, source as backup_source,
    },
    certificates::CertificatesSeen,
    claims::{ClaimSeen, ClaimSize},
    client_ca::ClientCaSeen,
    credentials::{PASSWORD_KEY, SECRET_KEYS, SecretSeen, USERNAME_KEY},
    growth::Growth,
    identity::{
        AuthoritySeen, CertificateSeen, Found, ISSUING, IdentitySeen, LeafSeen, NEXT, OLD, Version,
        identity,
    },
    members::Member,
    migration::{
        MemberStores, MigrationSeen, MoveJob, MoveJobs, OtherMove, SecretsSeen, migration,
        move_jobs,
    },
    nodes::{Nodes, TOKEN_KEY, Token},
    objects::{JobOutcome, JobSeen, PodSeen, StatefulSetSeen},
    restore::{RestoreJob, RestoreSeen},
    ring::RingSeen,
    super_disks::DiskStage,
};
pub(crate) use self::{
    client_ca::CLIENT_CA_FILE,
    identity::{AuthorityKeys, text as secret_text},
};
use crate::{
    connections::PodClients,
    context::Context,
    error::Error,
    rollouts::Places,
    super_disk::SuperDiskSeen,
    validate::{Certificates, Identity, Login},
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
    /// What people have consented to, by annotations of the cluster.
    pub consent: Consent,
    /// The database and keyspace that are on record as made or verified.
    pub schema: Option<String>,
    /// The restore that it is to begin with.
    pub restore: Box<RestoreSeen>,
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
    fn of(cluster: &ReadStateCluster) -> Self {
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

/// Reads the cluster itself, as it is now; `None` when it is gone.
///
/// # Errors
/// When the API server cannot be read.
pub async fn cluster(
    ctx: &Context,
    known: &ReadStateCluster,
) -> Result<Option<ReadStateCluster>, Error> {
    let namespace = known
        .namespace()
        .ok_or(Error::Nameless { field: "namespace" })?;
    let name = known.name_any();
    let api: Api<ReadStateCluster> = Api::namespaced(ctx.client.clone(), &namespace);
    api.get_opt(&name).await.map_err(|source| Error::Read {
        what: format!("ReadStateCluster {name}"),
        source,
    })
}

/// Reads everything.
///
/// # Errors
/// When the API server cannot be read. Cache pods that do not answer are no error.
pub async fn observe(
    ctx: &Context,
    id: &Identity,
    cluster: &ReadStateCluster,
    identity: IdentitySeen,
    clients: &PodClients,
) -> Result<World, Error> {
    let sets = Reader::<StatefulSet>::new(&ctx.client, &id.namespace);
    let pods = list_pods(&ctx.client, id).await?;
    let (schema_pods, others): (Vec<Pod>, Vec<Pod>) = pods
        .into_iter()
        // What makes or restores a backup holds nothing of the cluster's: those who made it look at it.
        .filter(|p| !has_component(p, Component::Backup))
        .partition(|p| has_component(p, Component::Schema));
    let (cache_pods, database_pods): (Vec<Pod>, Vec<Pod>) = others
        .into_iter()
        .partition(|p| has_component(p, Component::Cache));

    let mut racks = BTreeMap::new();
    for rack in cluster.spec.database.racks.iter().flatten() {
        if let Some(set) = sets.get(&id.rack(&rack.name), id).await? {
            racks.insert(rack.name.clone(), children::stateful_set(&set));
        }
    }
    let credentials = credentials::observe(&ctx.client, id, &cluster.spec.database).await?;
    let database_pods: Vec<_> = database_pods.iter().map(children::pod).collect();
    let asked = nodes::Asked {
        agents: ctx.agents.as_ref(),
        clients,
    };
    let nodes = nodes::nodes(&ctx.client, &asked, id, cluster, &database_pods, &racks).await?;
    let super_disks = super_disks::super_disks(&asked, &database_pods).await;
    let (status, cache_spec) = (cluster.status.as_ref(), &cluster.spec.cache);
    let cache = sets.get(&id.cache(), id).await?;
    let cache = cache.as_ref().map(children::stateful_set);
    let cache_pods = growth::observe(&ctx.client, id, cache.as_ref(), &cache_pods).await;
    let members = members::ask_all(clients, &cache_pods).await;
    // Last: what members said is judged by a ring that is not older than it.
    let rings = Reader::<ReadStateRing>::new(&ctx.client, &id.namespace);
    let ring = RingSeen::of(rings.get(&id.cache(), id).await?.as_ref());
    let restore = restore::observe(&ctx.client, id, cluster, &ring).await?;
    let volumes_of_exists = volumes_of::observe(&ctx.client, cluster).await;
    Ok(World {
        places: ctx.rollouts.places(cluster),
        volumes_of_exists,
        ring,
        restore: Box::new(restore),
        last_ring_number: cluster.status.as_ref().and_then(|s| s.ring_number),
        cache,
        members,
        cache_pods,
        racks,
        database_pods,
        nodes,
        super_disks,
        records: status.map_or_else(Vec::new, |s| s.database_nodes.clone()),
        upgrade: status.and_then(|s| s.database_upgrade.clone()),
        consent: Consent::of(cluster),
        schema: status
            .and_then(|s| s.schema.as_ref())
            .map(|s| s.store.clone()),
        jobs: read_jobs(&ctx.client, id, &schema_pods).await?,
        secret: credentials.login,
        superuser: credentials.superuser,
        login_version: credentials.version,
        certificates: certificates::observe(&ctx.client, id, &cluster.spec.database).await?,
        api_certificate: certificates::of_api(&ctx.client, id, cache_spec.tls.as_ref()).await?,
        tokens: access::observe(&ctx.client, id, cache_spec.access.as_ref()).await?,
        client_ca: client_ca::observe(&ctx.client, id, cache_spec.access.as_ref()).await?,
        identity,
    })
}

/// Reads objects of one kind that belong to a cluster.
struct Reader<K> {
    api: Api<K>,
}

impl<K> Reader<K>
where
    K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned,
{
    fn new(client: &Client, namespace: &str) -> Self {
        Self {
            api: Api::namespaced(client.clone(), namespace),
        }
    }

    /// The object of this name, if it belongs to the cluster. One that does not counts as none: `apply` refuses to
    /// touch it, and reports it.
    async fn get(&self, name: &str, id: &Identity) -> Result<Option<K>, Error> {
        let found = self.api.get_opt(name).await.map_err(|source| Error::Read {
            what: format!("{} {name}", K::kind(&())),
            source,
        })?;
        Ok(found.filter(|o| id.owns(o.meta())))
    }
}

async fn list_pods(client: &Client, id: &Identity) -> Result<Vec<Pod>, Error> {
    let api: Api<Pod> = Api::namespaced(client.clone(), &id.namespace);
    let ours = ListParams::default().labels(&labels::of_cluster(&id.name));
    let found = api.list(&ours).await.map_err(|source| Error::Read {
        what: format!("the pods of {}", id.name),
        source,
    })?;
    let mut pods = found.items;
    pods.sort_by_key(ResourceExt::name_any);
    Ok(pods)
}

fn has_component(pod: &Pod, component: Component) -> bool {
    pod.labels()
        .get(labels::COMPONENT)
        .is_some_and(|c| c == component.as_str())
}

async fn read_jobs(
    client: &Client,
    id: &Identity,
    pods: &[Pod],
) -> Result<BTreeMap<String, JobSeen>, Error> {
    let api: Api<Job> = Api::namespaced(client.clone(), &id.namespace);
    let ours = ListParams::default().labels(&labels::selector_text(&id.name, Component::Schema));
    let found = api.list(&ours).await.map_err(|source| Error::Read {
        what: format!("the Jobs of {}", id.name),
        source,
    })?;
    Ok(found
        .items
        .iter()
        .filter(|job| id.owns(&job.metadata))
        .filter_map(|job| Some((job.name_any(), children::job(job, pods)?)))
        .collect())
}
