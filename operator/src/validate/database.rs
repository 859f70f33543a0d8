//! `spec.database` after parsing: a database that the operator runs, an existing one, or only a volume.

use k8s_openapi::{
    api::core::v1::ResourceRequirements, apimachinery::pkg::api::resource::Quantity,
};
use readstates_agent::engine::Profile;
use readstates_operator_api::{
    DEFAULT_KEYSPACE, DatabaseSpec, EmbeddedSpec, Engine, ExternalSpec, RackSpec, Storage, TlsSpec,
};

use super::{Checker, amounts};
use crate::spec::{
    Amount, Copies, Database, External, Images, Placement, Rack, Said, Store, Volume,
    wanted_internode,
};

impl Checker {
    /// The store, or `None` once a problem is on the list.
    pub(super) fn store(&mut self, spec: &DatabaseSpec, images: &Images) -> Option<Store> {
        match (spec.engine, &spec.external, &spec.embedded) {
            (Some(engine), None, None) => self
                .managed(engine, spec, images)
                .map(Box::new)
                .map(Store::Managed),
            (None, Some(external), None) => self
                .external(external, spec.tls.as_ref())
                .map(Store::External),
            (None, None, Some(EmbeddedSpec { storage })) => self
                .volume("spec.database.embedded.storage", Some(storage))
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
        let DatabaseSpec {
            engine: _,
            replication_factor,
            racks,
            storage,
            volumes_of,
            super_disk,
            reclaim,
            repair,
            image,
            resources,
            agent_resources,
            node_selector,
            tolerations,
            priority_class_name,
            pod_template,
            settings,
            keyspace,
            secret_ref,
            developer_mode,
            tls,
            clients,
            external: _,
            embedded: _,
        } = spec;
        let racks = self.racks(racks.as_deref().unwrap_or_default());
        let replication_factor = self.replication_factor(*replication_factor, &racks);
        let resources = self
            .resources("spec.database.resources", resources.as_ref())
            .unwrap_or_else(|| default_resources(engine));
        let agent_resources =
            self.resources("spec.database.agentResources", agent_resources.as_ref());
        if developer_mode.is_some() && !Profile::of(engine).developer_mode {
            self.wrong(
                "spec.database.developerMode",
                "is valid only with engine Scylla",
            );
        }
        let volume = self.volume("spec.database.storage", storage.as_ref())?;
        let super_disk = super_disk.as_ref();
        let super_disk = super_disk.map(|disk| {
            self.owner_of_super_disk(pod_template.as_deref());
            self.super_disk(disk, images.super_disk.as_deref())
        });
        Some(Database {
            engine,
            image: image
                .clone()
                .unwrap_or_else(|| images.of(engine).to_owned()),
            replication_factor,
            copies: Copies {
                keyspace: replication_factor,
                complete: replication_factor,
            },
            racks,
            volume,
            volumes_of: volumes_of.clone(),
            super_disk,
            resources,
            agent_resources: agent_resources.unwrap_or_default(),
            settings: self.settings(engine, settings.as_ref()),
            placement: Placement::of(
                node_selector.as_ref(),
                tolerations.as_ref(),
                priority_class_name.as_ref(),
            ),
            developer_mode: developer_mode.unwrap_or_default(),
            keyspace: keyspace
                .clone()
                .unwrap_or_else(|| DEFAULT_KEYSPACE.to_owned()),
            secret: secret_ref.as_ref().map(|r| r.name.clone()),
            tls: tls.as_ref().and_then(|tls| {
                let TlsSpec {
                    secret_name,
                    issuer_ref,
                    internode: _,
                } = tls;
                self.tls(
                    "spec.database.tls",
                    secret_name.as_ref(),
                    issuer_ref.as_ref(),
                )
            }),
            internode: wanted_internode(tls.as_ref()),
            overlay: self.pods_of_database(engine, pod_template.as_deref()),
            clients: clients.clone().unwrap_or_default(),
            reclaim: reclaim.unwrap_or_default(),
            repair_every: self.repair(repair.as_ref()),
            said: Said::default(),
        })
    }

    fn racks(&mut self, specs: &[RackSpec]) -> Vec<Rack> {
        if specs.is_empty() {
            self.wrong("spec.database.racks", "at least one rack is needed");
        }
        if specs.first().is_some_and(|first| first.members < 1) {
            self.wrong(
                "spec.database.racks[0].members",
                "must be at least 1: new members contact the first member of the first rack",
            );
        }
        for (i, rack) in specs.iter().enumerate() {
            if specs[..i].iter().any(|other| other.name == rack.name) {
                self.wrong(
                    format!("spec.database.racks[{i}].name"),
                    "is the name of two racks",
                );
            }
        }
        let rack = |spec: &RackSpec| {
            let RackSpec {
                name,
                members,
                zone,
            } = spec.clone();
            Rack {
                name,
                members,
                zone,
            }
        };
        specs.iter().map(rack).collect()
    }

    fn replication_factor(&mut self, given: Option<i32>, racks: &[Rack]) -> i32 {
        let members: i32 = racks.iter().map(|rack| rack.members).sum();
        let replication_factor = given.unwrap_or_default();
        if replication_factor < 1 || replication_factor > members {
            self.wrong(
                "spec.database.replicationFactor",
                format!("must be from 1 to the {members} members of all racks"),
            );
        }
        replication_factor
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
        // An external database has certificates of its own: no issuer of ours makes them.
        let secret = |tls: &TlsSpec| {
            let TlsSpec {
                secret_name,
                issuer_ref: _,
                internode: _,
            } = tls;
            secret_name.clone()
        };
        let tls = match tls.map(secret) {
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
        let Storage {
            size,
            storage_class_name,
        } = storage;
        if !Amount::parse(size).is_some_and(Amount::is_positive) {
            self.wrong(
                format!("{field}.size"),
                format!("{size:?} is not a quantity above zero, such as 100Gi"),
            );
            return None;
        }
        Some(Volume {
            size: Quantity(size.clone()),
            class: storage_class_name.clone(),
        })
    }
}

fn default_resources(engine: Engine) -> ResourceRequirements {
    let requests = amounts("1", "4Gi");
    let mut limits = requests.clone();
    if !Profile::of(engine).own_cpus {
        limits.remove("cpu");
    }
    ResourceRequirements {
        requests: Some(requests),
        limits: Some(limits),
        ..ResourceRequirements::default()
    }
}
