//! Makes the desired objects, typed, one file a kind. In: a validated cluster and a plan. Out: objects
//! in the order in which to write them. Pure, and cannot fail.

mod access;
mod api_tls;
mod backup;
mod cache;
mod certificate;
mod database;
pub mod env;
mod identity;
mod migration;
mod network_policy;
mod overlay;
mod pod;
mod pod_disruption_budget;
mod pod_monitor;
pub mod ports;
mod restore;
mod ring;
mod role;
mod schema_job;
mod service;
mod service_account;
mod store;
mod token_review;

use k8s_openapi::api::{
    apps::v1::StatefulSet,
    batch::v1::{CronJob, Job},
    core::v1::{ConfigMap, Secret, Service, ServiceAccount},
    networking::v1::NetworkPolicy,
    policy::v1::PodDisruptionBudget,
    rbac::v1::{Role, RoleBinding},
};
use kube::Resource;
use readstates_operator_api::{
    DatabaseNode, ReadStateRing,
    labels::{COMPONENT, Component},
};
use serde::Serialize;

/// Name of the agent's container in a database pod.
pub const AGENT: &str = "agent";
/// Name of the container that puts a super-disk together.
pub const DISK: &str = "disk";
/// Name of the container of the super-disk's agent.
pub const DISK_AGENT: &str = "disk-agent";
/// Name of the container of a cache pod that keeps read states.
pub const CACHE: &str = cache::CONTAINER;
/// Names of the containers that a cache pod and a database pod are there for.
pub const MAIN_CONTAINERS: [&str; 2] = [CACHE, database::CONTAINER];
/// Name of the volume with the certificates with which a pod proves its identity.
pub const IDENTITY: &str = "identity";

pub(crate) use self::api_tls::scheme;
pub use self::{
    backup::{
        ACCESS_KEY_ID, CREATE, PRUNE, SECRET_ACCESS_KEY, VERIFY, backup_cron_jobs, backup_job,
        backup_network_policy,
    },
    cache::{memory as cache_memory, memory_of, template_hash as cache_template_hash},
    database::{database_image, rack, template_hash, template_with_image, update_name},
    env::{MOVING_TO, STORE},
    migration::{COPY, Ends, SCHEMA, move_job, move_network_policy, store_url},
    pod_monitor::pod_monitors,
    restore::{RESTORE, restore_job, restore_job_name, restore_network_policy, restore_selector},
    schema_job::{job_name as schema_job_name, made_by as made_by_job, schema_job, wanted_store},
    token_review::binding as token_review_binding,
};
use crate::{
    cert_manager::Certificate,
    plan::{Plan, RestoreState, Template},
    validate::{Store, ValidatedCluster},
};

/// A desired object.
#[derive(Clone, Debug, PartialEq)]
pub enum Object {
    /// What cert-manager is to make.
    Certificate(Box<Certificate>),
    /// Settings of database members.
    ConfigMap(Box<ConfigMap>),
    /// Jobs at given times.
    CronJob(Box<CronJob>),
    /// The schema Job, or one that makes or restores a backup.
    Job(Box<Job>),
    /// Allowed connections.
    NetworkPolicy(Box<NetworkPolicy>),
    /// A bound on voluntary disruption.
    PodDisruptionBudget(Box<PodDisruptionBudget>),
    /// The ring as it begins: made when there is none, never changed.
    Ring(Box<ReadStateRing>),
    /// What pods may do at the API server.
    Role(Box<Role>),
    /// The accounts that have a role.
    RoleBinding(Box<RoleBinding>),
    /// The callers of the API.
    Secret(Box<Secret>),
    /// A name and address.
    Service(Box<Service>),
    /// The account of pods.
    ServiceAccount(Box<ServiceAccount>),
    /// Pods.
    StatefulSet(Box<StatefulSet>),
}

impl Object {
    /// The part of the cluster that it serves.
    #[must_use]
    pub fn component(&self) -> Component {
        let meta = match self {
            Self::Certificate(o) => o.meta(),
            Self::ConfigMap(o) => o.meta(),
            Self::CronJob(o) => o.meta(),
            Self::Job(o) => o.meta(),
            Self::NetworkPolicy(o) => o.meta(),
            Self::PodDisruptionBudget(o) => o.meta(),
            Self::Ring(o) => o.meta(),
            Self::Role(o) => o.meta(),
            Self::RoleBinding(o) => o.meta(),
            Self::Secret(o) => o.meta(),
            Self::Service(o) => o.meta(),
            Self::ServiceAccount(o) => o.meta(),
            Self::StatefulSet(o) => o.meta(),
        };
        let label = meta.labels.as_ref().and_then(|l| l.get(COMPONENT));
        let is = |component: &Component| label.is_some_and(|l| l == component.as_str());
        [Component::Database, Component::Schema, Component::Backup]
            .into_iter()
            .find(is)
            .unwrap_or(Component::Cache)
    }
}

/// Everything that should exist, as far as the plan allows it to be written now.
#[must_use]
pub fn objects(cluster: &ValidatedCluster, plan: &Plan) -> Vec<Object> {
    let mut out = Vec::new();
    let Plan {
        racks,
        super_disks,
        schema_job,
        cache,
        certificate,
        api_certificate,
        restore,
        secrets: _,
        callers,
        ask_identity,
        identity: _,
        jobs_to_delete: _,
        waiting: _,
        problem: _,
        schema_proven: _,
        database: nodes,
        rollout: _,
    } = plan;
    if *certificate {
        let wanted = certificate::of_database(cluster);
        out.extend(wanted.map(Box::new).map(Object::Certificate));
    }
    if *api_certificate {
        let wanted = certificate::of_api(cluster);
        out.extend(wanted.map(Box::new).map(Object::Certificate));
    }
    if *ask_identity {
        let asked = identity::certificates(cluster).into_iter();
        out.extend(asked.map(Box::new).map(Object::Certificate));
    }
    if let Store::Managed(database) = &cluster.store {
        out.extend([
            Object::ServiceAccount(Box::new(service_account::of(cluster, Component::Database))),
            Object::NetworkPolicy(Box::new(network_policy::database(cluster, database))),
            Object::Service(Box::new(service::database(cluster))),
            Object::PodDisruptionBudget(Box::new(pod_disruption_budget::database(
                cluster,
                &super_disks.evictions,
            ))),
        ]);
        let identities = identities(cluster, &nodes.records);
        out.push(Object::ConfigMap(Box::new(identities)));
        if database.super_disk.is_some() {
            let entries = database::super_disk::entries(&cluster.id, &super_disks.volumes);
            out.push(Object::ConfigMap(Box::new(entries)));
        }
        for step in racks {
            let Some(rack) = database.racks.iter().find(|r| r.name == step.rack) else {
                continue;
            };
            out.extend(
                database::config(cluster, database, rack)
                    .map(Box::new)
                    .map(Object::ConfigMap),
            );
            out.push(Object::StatefulSet(Box::new(database::rack(
                cluster,
                database,
                rack,
                step,
                !super_disks.shared.contains(&rack.name),
            ))));
        }
    }
    out.extend([
        Object::ServiceAccount(Box::new(service_account::of(cluster, Component::Cache))),
        Object::NetworkPolicy(Box::new(network_policy::cache(cluster))),
        Object::Service(Box::new(service::cache(cluster))),
        Object::Service(Box::new(service::cache_members(cluster))),
        Object::Role(Box::new(role::of_members(cluster))),
        Object::RoleBinding(Box::new(role::binding(cluster))),
        Object::PodDisruptionBudget(Box::new(pod_disruption_budget::of(
            cluster,
            Component::Cache,
            1,
        ))),
    ]);
    if *schema_job && let Some(job) = self::schema_job(cluster) {
        out.extend([
            Object::NetworkPolicy(Box::new(network_policy::schema(cluster))),
            Object::Job(Box::new(job)),
        ]);
    }
    if matches!(restore.state, RestoreState::Running { .. }) {
        let policy = restore_network_policy(&cluster.id);
        out.push(Object::NetworkPolicy(Box::new(policy)));
    }
    if let Some(source) = &restore.make {
        out.push(Object::Job(Box::new(restore_job(cluster, source))));
    }
    out.extend(
        access::secret(cluster, callers)
            .map(Box::new)
            .map(Object::Secret),
    );
    if let Some(plan) = cache {
        // There is a ring before any pod looks for it.
        out.extend(
            plan.ring
                .map(|number| Object::Ring(Box::new(ring::empty(cluster, number)))),
        );
        let restarted = plan.restarted.as_ref();
        let mut set = self::cache(cluster, plan.replicas, &plan.template, restarted);
        set.metadata.resource_version.clone_from(&plan.version);
        out.push(Object::StatefulSet(Box::new(set)));
    }
    out
}

/// Which node of the database each pod is, for the pods.
#[must_use]
pub fn identities(cluster: &ValidatedCluster, records: &[DatabaseNode]) -> ConfigMap {
    database::agent::nodes(&cluster.id, records)
}

/// The StatefulSet of the cache with `replicas` pods of this template, restarted for this request.
#[must_use]
pub fn cache(
    cluster: &ValidatedCluster,
    replicas: i32,
    template: &Template,
    restarted: Option<&String>,
) -> StatefulSet {
    cache::stateful_set(cluster, replicas, template, restarted)
}

/// A short hash of what an object says, the same for the same content in every build of the
/// operator. (FNV-1a, 64 bits: it tells changes apart and keeps no secrets.)
#[must_use]
pub fn fingerprint(object: &impl Serialize) -> String {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let text = serde_json::to_vec(object).unwrap_or_default();
    let hash = text.iter().fold(OFFSET, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(PRIME)
    });
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests;
