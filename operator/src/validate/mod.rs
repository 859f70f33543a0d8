//! Parses a spec once, at the door: what builders get after it cannot fail and lacks nothing.
//!
//! The API server refuses most of what is wrong by the CRD's schema and rules. What gets past them
//! (quantities inside resource lists, a CRD older than the operator) ends here, as a list of
//! fields and what is wrong with each.

mod access;
mod backup;
mod duration;
mod extras;
mod identity;
mod maintenance;
mod pod_template;
mod quantity;
mod repair;
mod restore;
mod settings;
mod spec;
mod super_disk;

use std::{collections::BTreeMap, fmt, time::Duration};

use k8s_openapi::{
    api::core::v1::ResourceRequirements, apimachinery::pkg::api::resource::Quantity,
};
use readstates_operator_api::{
    CacheSpec, DEFAULT_KEYSPACE, DatabaseSpec, Engine, ExternalSpec, IssuerRef, MonitoringSpec,
    ReadStateClusterSpec, Storage, TlsSpec,
};

pub use self::{
    access::{Access, Caller},
    backup::{
        BackupOwner, BackupPlace, BackupsAt, Retention, ValidatedSchedule, validate_backup,
        validate_schedule,
    },
    identity::Identity,
    maintenance::Maintenance,
    quantity::Amount,
    restore::{RestoreSource, RestoreWish, restore_wish},
    spec::{
        Cache, Certificates, Database, External, Issuing, Login, Monitoring, Placement, Rack, Said,
        Store, Tls, ValidatedCluster, Volume,
    },
    super_disk::SuperDisk,
};
use crate::{build::fingerprint, context::Images};

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
    let cache_spec_hash = said_of_cache(spec);
    let flush_interval = duration::parse(&cache.flush_interval).unwrap_or_else(|| {
        check.wrong(
            "spec.cache.flushInterval",
            format!(
                "{:?} is not a duration from 1s to 10m",
                cache.flush_interval
            ),
        );
        Duration::ZERO
    });
    let cache = Cache {
        capacity_states: cache.capacity_states,
        flush_interval,
        flush_mode: cache.flush_mode,
        durability: cache.durability,
        resources: check
            .resources("spec.cache.resources", cache.resources.as_ref())
            .unwrap_or_else(|| default_cache_resources(cache.capacity_states)),
        resources_by_capacity: cache.resources.is_none(),
        placement: Placement::of(
            cache.node_selector.as_ref(),
            cache.tolerations.as_ref(),
            cache.priority_class_name.as_ref(),
        ),
        clients: cache.clients.clone(),
        overlay: check.pods_of_cache(cache.pod_template.as_deref()),
        service: cache.service.clone(),
        access: cache
            .access
            .as_ref()
            .map(|access| check.access(access, &id.namespace, cache.tls.is_some())),
        tls: cache.tls.as_ref().and_then(|tls| {
            let (secret, issuer) = (tls.secret_name.as_ref(), tls.issuer_ref.as_ref());
            check.tls("spec.cache.tls", secret, issuer)
        }),
    };
    let maintenance = check.maintenance(maintenance.as_ref());
    let mut store = check.store(database, images);
    if let Some(Store::Managed(managed)) = &mut store {
        let pods = DatabaseSpec {
            racks: None,
            reclaim: None,
            repair: None,
            secret_ref: None,
            clients: None,
            ..database.clone()
        };
        managed.said = Said {
            pods: Box::new(pods),
            image_pull_policy: *image_pull_policy,
            image_pull_secrets: image_pull_secrets.clone(),
            certificates: None,
        };
    }
    let is_embedded = matches!(store, Some(Store::Embedded(_)));
    let restore = restore_from.as_deref();
    let restore = restore.and_then(|from| check.restore(from, is_embedded));
    if is_embedded && *replicas != 1 {
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
            pull_secrets: image_pull_secrets.clone().unwrap_or_default(),
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
            cache_spec_hash,
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
    let pods = CacheSpec {
        clients: None,
        access: None,
        service: None,
        ..cache.clone()
    };
    let access = cache
        .access
        .as_ref()
        .map(|access| access.client_ca.is_some());
    let store = DatabaseSpec {
        engine: database.engine,
        external: database.external.clone(),
        embedded: database.embedded.clone(),
        keyspace: database.keyspace.clone(),
        secret_ref: database.secret_ref.clone(),
        tls: database.tls.clone(),
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

    /// The store, or `None` once a problem is on the list.
    fn store(&mut self, spec: &DatabaseSpec, images: &Images) -> Option<Store> {
        match (spec.engine, &spec.external, &spec.embedded) {
            (Some(engine), None, None) => self
                .managed(engine, spec, images)
                .map(Box::new)
                .map(Store::Managed),
            (None, Some(external), None) => self
                .external(external, spec.tls.as_ref())
                .map(Store::External),
            (None, None, Some(embedded)) => self
                .volume("spec.database.embedded.storage", Some(&embedded.storage))
                .map(Store::Embedded),
            (engine, external, embedded) => {
                let set: Vec<_> = [
                    ("engine", engine.is_some()),
                    ("external", external.is_some()),
                    ("embedded", embedded.is_some()),
                ]
                .into_iter()
                .filter_map(|(name, set)| set.then_some(name))
                .collect();
                self.wrong(
                    "spec.database",
                    format!(
                        "exactly one of engine, external and embedded must be set, not [{}]",
                        set.join(", ")
                    ),
                );
                None
            }
        }
    }

    fn managed(
        &mut self,
        engine: Engine,
        spec: &DatabaseSpec,
        images: &Images,
    ) -> Option<Database> {
        let racks: Vec<_> = spec
            .racks
            .iter()
            .flatten()
            .map(|r| Rack {
                name: r.name.clone(),
                members: r.members,
                zone: r.zone.clone(),
            })
            .collect();
        if racks.is_empty() {
            self.wrong("spec.database.racks", "at least one rack is needed");
        }
        for (i, rack) in racks.iter().enumerate() {
            if racks[..i].iter().any(|other| other.name == rack.name) {
                self.wrong(
                    format!("spec.database.racks[{i}].name"),
                    "is the name of two racks",
                );
            }
        }
        let members: i32 = racks.iter().map(|r| r.members).sum();
        let replication_factor = spec.replication_factor.unwrap_or_default();
        if replication_factor < 1 || replication_factor > members {
            self.wrong(
                "spec.database.replicationFactor",
                format!("must be from 1 to the {members} members of all racks"),
            );
        }
        let resources = self
            .resources("spec.database.resources", spec.resources.as_ref())
            .unwrap_or_else(|| default_database_resources(engine));
        if spec.developer_mode.is_some() && engine != Engine::Scylla {
            self.wrong(
                "spec.database.developerMode",
                "is valid only with engine Scylla",
            );
        }
        let volume = self.volume("spec.database.storage", spec.storage.as_ref())?;
        let super_disk = spec.super_disk.as_ref();
        let super_disk = super_disk.map(|disk| self.super_disk(disk, &images.super_disk));
        let default_image = match engine {
            Engine::Cassandra => &images.cassandra,
            Engine::Scylla => &images.scylla,
        };
        Some(Database {
            engine,
            image: spec.image.clone().unwrap_or_else(|| default_image.clone()),
            replication_factor,
            racks,
            volume,
            super_disk,
            resources,
            settings: self.settings(engine, spec.settings.as_ref()),
            placement: Placement::of(
                spec.node_selector.as_ref(),
                spec.tolerations.as_ref(),
                spec.priority_class_name.as_ref(),
            ),
            developer_mode: spec.developer_mode.unwrap_or_default(),
            keyspace: spec
                .keyspace
                .clone()
                .unwrap_or_else(|| DEFAULT_KEYSPACE.to_owned()),
            secret: spec.secret_ref.as_ref().map(|r| r.name.clone()),
            tls: spec.tls.as_ref().and_then(|tls| {
                let (secret, issuer) = (tls.secret_name.as_ref(), tls.issuer_ref.as_ref());
                self.tls("spec.database.tls", secret, issuer)
            }),
            overlay: self.pods_of_database(engine, spec.pod_template.as_deref()),
            clients: spec.clients.clone().unwrap_or_default(),
            reclaim: spec.reclaim.unwrap_or_default(),
            repair_every: self.repair(spec.repair.as_ref()),
            said: Said::default(),
        })
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

    fn external(&mut self, spec: &ExternalSpec, tls: Option<&TlsSpec>) -> Option<External> {
        let ExternalSpec {
            contact_points,
            port,
            keyspace,
            local_datacenter,
            replication_factor,
            secret_ref,
        } = spec;
        if contact_points.is_empty() {
            self.wrong(
                "spec.database.external.contactPoints",
                "at least one host is needed",
            );
            return None;
        }
        let tls = match tls.map(|tls| tls.secret_name.clone()) {
            Some(None) => {
                self.wrong(
                    "spec.database.tls.secretName",
                    "is needed with an external database",
                );
                None
            }
            given => given.flatten(),
        };
        Some(External {
            contact_points: contact_points.clone(),
            port: *port,
            keyspace: keyspace.clone(),
            local_datacenter: local_datacenter.clone(),
            replication_factor: *replication_factor,
            secret: secret_ref.as_ref().map(|r| r.name.clone()),
            tls,
        })
    }

    fn volume(&mut self, field: &str, storage: Option<&Storage>) -> Option<Volume> {
        let Some(storage) = storage else {
            self.wrong(field, "is needed");
            return None;
        };
        if !Amount::parse(&storage.size).is_some_and(Amount::is_positive) {
            self.wrong(
                format!("{field}.size"),
                format!(
                    "{:?} is not a quantity above zero, such as 100Gi",
                    storage.size
                ),
            );
            return None;
        }
        Some(Volume {
            size: Quantity(storage.size.clone()),
            class: storage.storage_class_name.clone(),
        })
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

/// The cache keeps to 34 bytes a state; around it are what is dirty, what is being loaded, and the
/// requests. And what the process needs by itself.
fn default_cache_resources(capacity_states: i64) -> ResourceRequirements {
    const BYTES_PER_STATE: i64 = 48;
    const PROCESS_MIB: i64 = 128;
    let mib = PROCESS_MIB + capacity_states * BYTES_PER_STATE / (1 << 20);
    ResourceRequirements {
        requests: Some(amounts("100m", &format!("{mib}Mi"))),
        ..ResourceRequirements::default()
    }
}

fn default_database_resources(engine: Engine) -> ResourceRequirements {
    let requests = amounts("1", "4Gi");
    let mut limits = requests.clone();
    match engine {
        // A JVM collects garbage on more CPUs than it asks for.
        Engine::Cassandra => drop(limits.remove("cpu")),
        // A shard has its CPU to itself.
        Engine::Scylla => {}
    }
    ResourceRequirements {
        requests: Some(requests),
        limits: Some(limits),
        ..ResourceRequirements::default()
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
