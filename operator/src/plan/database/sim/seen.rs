//! The simulation as the operator sees it.

use std::collections::BTreeMap;

use readstates_agent::wire::{Facts, Keyspace, Mode, NodeState, Phase, Report, View};

use super::{Pod, Set, Sim};
use crate::{
    fixtures,
    world::{
        ClaimSeen, ClaimSize, JobOutcome, JobSeen, Nodes, PodSeen, SecretSeen, Seen,
        StatefulSetSeen, Token, World,
    },
};

impl Sim {
    fn report(&self, pod: &Pod, name: &str) -> Seen<Report> {
        if self.stranded.contains(name) {
            return Seen::Unknown("it has no address yet".to_owned());
        }
        if self.unreachable.iter().any(|n| n == name) {
            return Seen::Unknown("timed out".to_owned());
        }
        let phase = match &pod.host_id {
            None if self.bad_template.as_ref() == Some(&pod.revision) => Phase::Unreachable {
                error: "it does not come up".to_owned(),
            },
            None => Phase::Waiting {
                disk: self.disk(name),
                free_bytes: Some(self.free_bytes),
            },
            Some(host_id) => {
                let own = self.ring.iter().find(|n| n.host_id == *host_id);
                let mode = match own.map(|n| n.state) {
                    _ if pod.left => Mode::Decommissioned,
                    Some(NodeState::Joining) if self.failed.contains(host_id) => Mode::JoinFailed,
                    Some(NodeState::Joining) => Mode::Joining,
                    Some(NodeState::Leaving) => Mode::Leaving,
                    Some(NodeState::Normal | NodeState::Moving) => Mode::Normal,
                    None => Mode::Other,
                };
                Phase::Running(View {
                    host_id: Some(host_id.clone()),
                    mode,
                    progress: None,
                    cql: true,
                    nodes: self.ring.clone(),
                    free_bytes: self.free_bytes,
                    age_seconds: 1,
                    decommission: pod.decommission.clone(),
                    cleans_up: true,
                    cleanup: pod.cleanup.clone(),
                    repairs: self.unable.as_ref() != Some(&pod.revision),
                    repair: pod.repair.clone().map(Box::new),
                    upgrades: !self.knows_no_upgrades,
                    upgrade: pod.upgrade.clone().map(Box::new),
                    flushes: true,
                    flush: None,
                })
            }
        };
        Seen::Known(Report {
            identity: None,
            pod_uid: pod.uid.clone(),
            phase,
        })
    }

    /// The versions of the schema, and who has them.
    fn schema(&self) -> BTreeMap<String, Vec<String>> {
        let mut schema: BTreeMap<String, Vec<String>> = (0..self.schema_versions)
            .map(|v| (format!("v{v}"), Vec::new()))
            .collect();
        if self.schema_by_image {
            schema.clear();
        }
        for (at, pod) in self.pods.values().enumerate() {
            let version = if self.schema_by_image {
                format!("of {}", pod.image)
            } else {
                format!("v{}", at % self.schema_versions)
            };
            schema.entry(version).or_default().push(pod.ip.clone());
        }
        schema
    }

    pub(crate) fn world(&self) -> World {
        let seen = |name: &String, pod: &Pod| PodSeen {
            name: name.clone(),
            ready: self.ready(name),
            ip: Some(pod.ip.clone()),
            uid: Some(pod.uid.clone()),
            revision: Some(pod.revision.clone()),
            scheduled: !self.stranded.contains(name),
            created: Some(pod.created),
            has_agent: self.has_agent(pod),
            ..PodSeen::default()
        };
        let schema = self.schema();
        let keyspace = self.keyspace().map(|replication_factor| Keyspace {
            name: "readstates".to_owned(),
            replication_factor,
        });
        let facts = Facts {
            schema_versions: schema.keys().cloned().collect(),
            schema_nodes: schema,
            keyspaces: keyspace.into_iter().collect(),
        };
        let nodes = Nodes {
            reports: self
                .pods
                .iter()
                .filter(|(_, p)| self.has_agent(p))
                .map(|(n, p)| (n.clone(), self.report(p, n)))
                .collect(),
            facts: self
                .pods
                .keys()
                .map(|n| (n.clone(), Seen::Known(facts.clone())))
                .collect(),
            claims: self
                .disks
                .iter()
                .map(|(n, v)| {
                    let seen = ClaimSeen {
                        uid: v.uid.clone(),
                        bound: true,
                        copy_of: None,
                        restored_from: None,
                        size: ClaimSize::default(),
                    };
                    (format!("data-{n}"), seen)
                })
                .collect(),
            token: Some(Token("secret".to_owned())),
        };
        // Those of the spec are looked at, and no others.
        let listed = &self.managed("a").0.racks;
        let is_listed = |name: &String| listed.iter().any(|rack| rack.name == *name);
        World {
            racks: self
                .racks
                .iter()
                .filter(|(name, _)| is_listed(name))
                .map(|(n, s)| (n.clone(), self.set_seen(n, s)))
                .collect(),
            database_pods: self.pods.iter().map(|(n, p)| seen(n, p)).collect(),
            nodes,
            super_disks: self.super_disks.clone(),
            volumes_of_exists: self.volumes_of_exists.clone(),
            records: self.records.clone(),
            upgrade: self.upgrade.clone(),
            replication: self.replication.clone(),
            jobs: self.jobs_seen(),
            consent: self.consent.clone(),
            places: self.places.clone(),
            secret: Some(SecretSeen::Complete),
            superuser: Some(SecretSeen::Complete),
            identity: fixtures::identity(),
            schema: self
                .has_schema
                .then(|| crate::templates::wanted_store(&self.cluster))
                .flatten(),
            ..World::default()
        }
    }

    fn jobs_seen(&self) -> BTreeMap<String, JobSeen> {
        let seen = |name: &String| JobSeen {
            uid: name.clone(),
            outcome: JobOutcome::Succeeded,
            makes: crate::templates::wanted_store(&self.cluster),
        };
        self.jobs
            .keys()
            .map(|name| (name.clone(), seen(name)))
            .collect()
    }

    fn set_seen(&self, rack: &str, set: &Set) -> StatefulSetSeen {
        let prefix = format!("chat-db-{rack}-");
        let pods: Vec<_> = self
            .pods
            .keys()
            .filter(|p| p.starts_with(&prefix))
            .collect();
        let ready = pods.iter().filter(|p| self.ready(p)).count();
        StatefulSetSeen {
            replicas: set.replicas,
            existing: i32::try_from(pods.len()).unwrap(),
            ready: i32::try_from(ready).unwrap(),
            settled: true,
            observed: true,
            partition: set.partition,
            update_revision: Some(set.revision()),
            revised: set.old == set.revision(),
            template_hash: Some(set.template.clone()),
            spec_hash: Some(set.spec.clone()),
            template: Some(Box::new(fixtures::template_of(
                &set.image,
                set.restarted.as_deref(),
            ))),
            version: Some(set.version.to_string()),
            parallel: set.parallel,
            ..StatefulSetSeen::default()
        }
    }
}
