//! Which objects should exist, and all of them but those with pods, typed, one file a kind. In: a validated cluster and a
//! plan. Out: objects in the order in which to write them. Pure, and cannot fail. `templates` makes those with pods.

mod access;
mod certificate;
mod identity;
mod network_policy;
mod nodes;
mod pod_disruption_budget;
mod pod_monitor;
mod ring;
mod role;
mod service;
mod service_account;
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
    ReadStateRing,
    labels::{COMPONENT, Component},
};

pub use self::{
    network_policy::{backup_network_policy, move_network_policy, restore_network_policy},
    nodes::identities,
    pod_monitor::pod_monitors,
    token_review::binding as token_review_binding,
};
use crate::{
    cert_manager::Certificate,
    plan::{Plan, RestoreState},
    spec::{Store, ValidatedCluster},
    templates,
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
        claims_to_make: _,
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
            Object::NetworkPolicy(Box::new(network_policy::database(
                cluster,
                database,
                restore.admits.as_ref(),
            ))),
            Object::Service(Box::new(service::database(cluster))),
            Object::PodDisruptionBudget(Box::new(pod_disruption_budget::database(
                cluster,
                &super_disks.evictions,
            ))),
        ]);
        let identities = identities(cluster, &nodes.records);
        out.push(Object::ConfigMap(Box::new(identities)));
        if database.super_disk.is_some() {
            let entries = nodes::entries(&cluster.id, &super_disks.volumes);
            out.push(Object::ConfigMap(Box::new(entries)));
        }
        for step in racks {
            let Some(rack) = database.racks.iter().find(|r| r.name == step.rack) else {
                continue;
            };
            out.extend(
                templates::config(cluster, database, rack)
                    .map(Box::new)
                    .map(Object::ConfigMap),
            );
            out.push(Object::StatefulSet(Box::new(templates::rack(
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
    if *schema_job && let Some(job) = templates::schema_job(cluster) {
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
        out.push(Object::Job(Box::new(templates::restore_job(
            cluster, source,
        ))));
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
        let mut set = templates::cache(cluster, plan.replicas, &plan.template, restarted);
        set.metadata.resource_version.clone_from(&plan.version);
        out.push(Object::StatefulSet(Box::new(set)));
    }
    out
}

#[cfg(test)]
pub(crate) mod tests;
