//! Parses a spec once, when it comes in: what builders get after it cannot fail and lacks nothing.
//!
//! The API server refuses most of what is wrong by the CRD's schema and rules. What gets past them
//! (quantities inside resource lists, a CRD older than the operator) ends here, as a list of
//! fields and what is wrong with each.

mod access;
mod backup;
mod cache;
mod database;
mod duration;
mod extras;
mod maintenance;
mod migration;
mod pod_template;
mod repair;
mod restore;
mod settings;
mod super_disk;

use std::{collections::BTreeMap, fmt};

use k8s_openapi::{
    api::core::v1::{LocalObjectReference, ResourceRequirements},
    apimachinery::pkg::api::resource::Quantity,
};
use readstates_operator_api::{
    CacheSpec, DatabaseSpec, IssuerRef, MonitoringSpec, ReadStateClusterSpec,
    fingerprint::fingerprint,
};

pub use self::{
    backup::{validate_backup, validate_schedule},
    migration::{on_target, same_store, validate_migration, validate_target},
    restore::restore_wish,
};
use crate::spec::{
    Amount, Certificates, Identity, Images, Issuing, Login, Monitoring, Said, Store, Tls,
    ValidatedCluster,
};

/// Everything that is wrong with a spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidSpec {
    /// Never empty.
    pub problems: Vec<Problem>,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Path of the field.
    pub field: String,
    /// What is wrong and what would be right.
    pub problem: String,
}

impl fmt::Display for InvalidSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<_> = self
            .problems
            .iter()
            .map(|p| format!("{}: {}", p.field, p.problem))
            .collect();
        f.write_str(&texts.join("; "))
    }
}

/// Parses a spec.
///
/// # Errors
/// Every problem found, each with its field.
pub fn validate(
    id: Identity,
    spec: &ReadStateClusterSpec,
    images: &Images,
) -> Result<ValidatedCluster, InvalidSpec> {
    let ReadStateClusterSpec {
        replicas,
        paused,
        stopped,
        maintenance,
        image,
        image_pull_policy,
        image_pull_secrets,
        cache,
        database,
        restore_from,
        identity,
        monitoring,
    } = spec;
    let mut check = Checker::default();
    let said_of_cache = said_of_cache(spec);
    let cache = check.cache(cache, &id.namespace);
    let maintenance = check.maintenance(maintenance.as_ref());
    let mut store = check.store(database, images);
    if let Some(Store::Managed(managed)) = &mut store {
        managed.said = Said {
            pods: Box::new(said_of_pods(database)),
            image_pull_policy: *image_pull_policy,
            image_pull_secrets: image_pull_secrets.clone(),
            certificates: None,
        };
    }
    let restore = restore_from.as_deref();
    let restore = restore.and_then(|from| check.restore(from, store.as_ref()));
    if matches!(store, Some(Store::Embedded(_))) && *replicas != 1 {
        check.wrong("spec.replicas", "must be 1 with spec.database.embedded");
    }
    match store {
        Some(store) if check.problems.is_empty() => Ok(ValidatedCluster {
            id,
            replicas: *replicas,
            paused: *paused,
            stopped: *stopped,
            maintenance,
            image: image.clone().unwrap_or_else(|| images.readstates.clone()),
            pull_policy: image_pull_policy.map(|p| p.as_str().to_owned()),
            pull_secrets: image_pull_secrets
                .clone()
                .unwrap_or_else(|| secrets(&images.pull_secrets)),
            agent_image: images.agent.clone(),
            monitoring: monitoring.as_ref().map(monitored),
            cache,
            store,
            restore,
            issuing: identity.as_ref().map_or(Issuing::Operator, |identity| {
                Issuing::Manager(identity.issuer_ref.clone())
            }),
            rotation: None,
            take_over_claim: None,
            said_of_cache,
            operator_namespace: String::new(),
            token_review_role: None,
            login: Login::default(),
            certificates: Certificates::default(),
            client_ca: false,
        }),
        _ => Err(InvalidSpec {
            problems: check.problems,
        }),
    }
}

fn monitored(spec: &MonitoringSpec) -> Monitoring {
    let MonitoringSpec {
        pod_monitor_labels,
        interval,
        metrics_from,
    } = spec;
    Monitoring {
        labels: pod_monitor_labels.clone().unwrap_or_default(),
        interval: interval.clone(),
        from: metrics_from.clone().unwrap_or_default(),
    }
}

/// The part of a spec that database pods are made from.
fn said_of_pods(spec: &DatabaseSpec) -> DatabaseSpec {
    let mut said = spec.clone();
    let DatabaseSpec {
        racks,
        reclaim,
        repair,
        secret_ref,
        clients,
        engine: _,
        replication_factor: _,
        storage: _,
        volumes_of: _,
        super_disk: _,
        image: _,
        resources: _,
        agent_resources: _,
        settings: _,
        node_selector: _,
        tolerations: _,
        priority_class_name: _,
        pod_template: _,
        keyspace: _,
        developer_mode: _,
        tls: _,
        external: _,
        embedded: _,
    } = &mut said;
    (*racks, *reclaim, *repair) = (None, None, None);
    (*secret_ref, *clients) = (None, None);
    said
}

/// Hash of what a spec says of the cache pods themselves: not their number, nor which clients may reach or call them.
fn said_of_cache(spec: &ReadStateClusterSpec) -> String {
    let ReadStateClusterSpec {
        replicas: _,
        paused: _,
        stopped: _,
        maintenance: _,
        image,
        image_pull_policy,
        image_pull_secrets,
        cache,
        database,
        restore_from: _,
        identity: _,
        monitoring: _,
    } = spec;
    let mut pods = cache.clone();
    let CacheSpec {
        clients,
        access,
        service,
        capacity_states: _,
        flush_interval: _,
        flush_mode: _,
        durability: _,
        resources: _,
        node_selector: _,
        tolerations: _,
        priority_class_name: _,
        pod_template: _,
        tls: _,
    } = &mut pods;
    (*clients, *service) = (None, None);
    let access = access.take().map(|access| access.client_ca.is_some());
    // Of the database what cache pods connect to, and how.
    let DatabaseSpec {
        engine,
        external,
        embedded,
        keyspace,
        secret_ref,
        tls,
        replication_factor: _,
        racks: _,
        storage: _,
        volumes_of: _,
        super_disk: _,
        reclaim: _,
        repair: _,
        image: _,
        resources: _,
        agent_resources: _,
        settings: _,
        node_selector: _,
        tolerations: _,
        priority_class_name: _,
        pod_template: _,
        developer_mode: _,
        clients: _,
    } = database;
    let store = DatabaseSpec {
        engine: *engine,
        external: external.clone(),
        embedded: embedded.clone(),
        keyspace: keyspace.clone(),
        secret_ref: secret_ref.clone(),
        tls: tls.clone(),
        ..DatabaseSpec::default()
    };
    fingerprint(&(
        image,
        image_pull_policy,
        image_pull_secrets,
        pods,
        access,
        store,
    ))
}

fn secrets(names: &[String]) -> Vec<LocalObjectReference> {
    let names = names.iter().cloned();
    names.map(|name| LocalObjectReference { name }).collect()
}

#[derive(Default)]
struct Checker {
    problems: Vec<Problem>,
}

impl Checker {
    fn wrong(&mut self, field: impl Into<String>, problem: impl Into<String>) {
        self.problems.push(Problem {
            field: field.into(),
            problem: problem.into(),
        });
    }

    /// Where certificates come from, or `None` once a problem is on the list.
    fn tls(
        &mut self,
        field: &str,
        secret: Option<&String>,
        issuer: Option<&IssuerRef>,
    ) -> Option<Tls> {
        match (secret, issuer) {
            (Some(name), None) => Some(Tls::Secret(name.clone())),
            (None, Some(issuer)) => Some(Tls::Issuer(issuer.clone())),
            (Some(_), Some(_)) | (None, None) => {
                self.wrong(field, "exactly one of secretName and issuerRef must be set");
                None
            }
        }
    }

    /// Checks every quantity in `resources`, which the CRD's schema does not.
    fn resources(
        &mut self,
        field: &str,
        resources: Option<&ResourceRequirements>,
    ) -> Option<ResourceRequirements> {
        let resources = resources?;
        for (part, amounts) in [
            ("limits", &resources.limits),
            ("requests", &resources.requests),
        ] {
            for (name, amount) in amounts.iter().flatten() {
                if Amount::parse(&amount.0).is_none_or(Amount::is_negative) {
                    self.wrong(
                        format!("{field}.{part}.{name}"),
                        format!("{:?} is not a quantity, such as 500m or 2Gi", amount.0),
                    );
                }
            }
        }
        Some(resources.clone())
    }
}

fn amounts(cpu: &str, memory: &str) -> BTreeMap<String, Quantity> {
    BTreeMap::from([
        ("cpu".to_owned(), Quantity(cpu.to_owned())),
        ("memory".to_owned(), Quantity(memory.to_owned())),
    ])
}

#[cfg(test)]
mod tests;
