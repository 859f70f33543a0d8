//! Makes the desired objects, typed, one file a kind. In: a validated cluster and a plan. Out: objects
//! in the order in which to write them. Pure, and cannot fail.

mod cache;
mod database;
pub mod env;
mod network_policy;
mod pod;
mod pod_disruption_budget;
pub mod ports;
mod ring;
mod schema_job;
mod service;
mod service_account;
mod store;

use k8s_openapi::api::{
    apps::v1::StatefulSet,
    batch::v1::Job,
    core::v1::{ConfigMap, Service, ServiceAccount},
    networking::v1::NetworkPolicy,
    policy::v1::PodDisruptionBudget,
};
use readstates_operator_api::{ReadStateRing, labels::Component};
use serde::Serialize;

/// Name of the agent's container in a database pod.
pub const AGENT: &str = "agent";

pub use self::{
    database::{rack, template_hash, update_name},
    schema_job::{job_name as schema_job_name, schema_job},
};
use crate::{
    plan::{CacheStep, Plan},
    validate::{Store, ValidatedCluster},
};

/// A desired object.
#[derive(Clone, Debug, PartialEq)]
pub enum Object {
    /// Settings of database members.
    ConfigMap(Box<ConfigMap>),
    /// The schema Job.
    Job(Box<Job>),
    /// Who may connect.
    NetworkPolicy(Box<NetworkPolicy>),
    /// A bound on voluntary disruption.
    PodDisruptionBudget(Box<PodDisruptionBudget>),
    /// The member table.
    Ring(Box<ReadStateRing>),
    /// A name and address.
    Service(Box<Service>),
    /// Who pods are.
    ServiceAccount(Box<ServiceAccount>),
    /// Pods.
    StatefulSet(Box<StatefulSet>),
}

/// Everything that should exist, as far as the plan allows it to be written now.
#[must_use]
pub fn objects(cluster: &ValidatedCluster, plan: &Plan) -> Vec<Object> {
    let mut out = Vec::new();
    let Plan {
        racks,
        schema_job,
        cache,
        jobs_to_delete: _,
        waiting: _,
        problem: _,
        database: _,
    } = plan;
    if let Store::Managed(database) = &cluster.store {
        out.extend([
            Object::ServiceAccount(Box::new(service_account::of(cluster, Component::Database))),
            Object::NetworkPolicy(Box::new(network_policy::database(cluster))),
            Object::Service(Box::new(service::database(cluster))),
            Object::PodDisruptionBudget(Box::new(pod_disruption_budget::of(
                cluster,
                Component::Database,
            ))),
        ]);
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
                cluster, database, rack, step,
            ))));
        }
    }
    out.extend([
        Object::ServiceAccount(Box::new(service_account::of(cluster, Component::Cache))),
        Object::Service(Box::new(service::cache(cluster))),
        Object::Service(Box::new(service::cache_members(cluster))),
        Object::PodDisruptionBudget(Box::new(pod_disruption_budget::of(
            cluster,
            Component::Cache,
        ))),
    ]);
    if *schema_job {
        out.extend(self::schema_job(cluster).map(Box::new).map(Object::Job));
    }
    if let Some(CacheStep::Run(table)) = cache {
        // The table is published before any pod can start with it.
        out.push(Object::Ring(Box::new(ring::ring(cluster, table))));
    }
    out.extend(
        cache
            .as_ref()
            .map(|step| Object::StatefulSet(Box::new(self::cache(cluster, step)))),
    );
    out
}

/// The StatefulSet of the cache after `step`.
#[must_use]
pub fn cache(cluster: &ValidatedCluster, step: &CacheStep) -> StatefulSet {
    match step {
        CacheStep::Run(table) => cache::run(cluster, table),
        CacheStep::Stop(table) => cache::stop(cluster, table),
    }
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
