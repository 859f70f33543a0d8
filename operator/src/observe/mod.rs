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
mod moves;
mod nodes;
mod restore;
mod stored;
mod super_disks;
mod volumes_of;

use std::collections::BTreeMap;

use k8s_openapi::api::{apps::v1::StatefulSet, batch::v1::Job, core::v1::Pod};
use kube::{
    Api, Client,
    api::{ListParams, ResourceExt},
};
use readstates_operator_api::{
    ReadStateCluster, ReadStateRing,
    labels::{self, Component},
};

pub(crate) use self::identity::{AuthorityKeys, text as secret_text};
pub use self::{
    backups::{
        cron_job, owner as backup_owner, runs as backup_runs, snapshots as backup_snapshots,
        source as backup_source,
    },
    identity::{ISSUING, NEXT, OLD, identity},
    migration::{migration, move_jobs},
    stored::{read, stored},
};
use crate::{
    connections::PodClients,
    context::Context,
    error::Error,
    namespaced::Namespaced,
    spec::Identity,
    world::{Consent, IdentitySeen, JobSeen, RingSeen, World},
};

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
    let handed_over = moves::handed_over(&ctx.client, id, cluster, cache.as_ref()).await?;
    let writers = moves::writers(&ctx.client, id, cluster, &racks).await?;
    let volumes_of_exists = volumes_of::observe(&ctx.client, cluster).await;
    Ok(World {
        handed_over,
        writers,
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
        replication: status.and_then(|s| s.database_replication.clone()),
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

impl<K: Namespaced> Reader<K> {
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
