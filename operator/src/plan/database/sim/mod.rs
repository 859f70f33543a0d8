//! A database in memory: StatefulSets, pods, disks and a ring, moved on a little with every turn, and held
//! against what must never happen. Writes of the operator can be cut off after any one of them.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use readstates_agent::{
    engine::Snapshots,
    wire::{Disk, Job, Node, NodeState, RequestedJob, UpgradeStep},
};
use readstates_operator_api::{DatabaseNode, DatabaseReplication, DatabaseUpgrade};

use crate::{
    fixtures,
    plan::{Plan, plan},
    spec::{Store, ValidatedCluster},
    templates,
};

mod nature;
mod seen;
mod taken;
mod turns;

#[derive(Clone)]
pub(crate) struct Sim {
    pub(crate) spec: String,
    pub(crate) cluster: ValidatedCluster,
    pub(crate) records: Vec<DatabaseNode>,
    pub(crate) upgrade: Option<DatabaseUpgrade>,
    pub(crate) replication: Option<DatabaseReplication>,
    /// Copies that the keyspace has; none: as the spec wants them, once there is one.
    pub(crate) keyspace: Option<i32>,
    /// The schema Jobs that are there, and the copies that each gives the keyspace. They end at once.
    pub(crate) jobs: BTreeMap<String, i32>,
    /// Nodes that were not repaired since the keyspace was altered.
    pub(crate) unequal: BTreeSet<String>,
    /// Copies that the keyspace had before.
    former: Option<i32>,
    pub(crate) racks: BTreeMap<String, Set>,
    pub(crate) pods: BTreeMap<String, Pod>,
    pub(crate) disks: BTreeMap<String, Volume>,
    pub(crate) ring: Vec<Node>,
    /// Which node each pod is told that it is.
    pub(crate) identities: BTreeMap<String, String>,
    pub(crate) clock: Timestamp,
    pub(crate) consent: crate::world::Consent,
    /// The places among the clusters that restart pods.
    pub(crate) places: crate::rollouts::Places,
    /// Pods of this template have no agent, as those of an operator before.
    pub(crate) agentless: Option<String>,
    pub(crate) free_bytes: u64,
    pub(crate) decommission_fails: bool,
    pub(crate) join_fails: bool,
    pub(crate) cleanup_fails: bool,
    /// Nodes whose repair fails.
    pub(crate) repair_fails: Vec<String>,
    /// Repairs go on until this is unset.
    pub(crate) repairs_last: bool,
    /// Pods of this template have agents that cannot repair, as those of the release before.
    pub(crate) unable: Option<String>,
    /// Their agents know no upgrades, as those of the release before.
    pub(crate) knows_no_upgrades: bool,
    /// What steps of upgrades end with while they fail.
    pub(crate) upgrade_fails: Option<String>,
    /// Steps of upgrades go on until this is unset.
    pub(crate) upgrades_last: bool,
    /// There is a keyspace, and data.
    pub(crate) has_schema: bool,
    /// Versions of the schema among the nodes.
    pub(crate) schema_versions: usize,
    /// Nodes of each image have a version of the schema of their own.
    pub(crate) schema_by_image: bool,
    /// As many nodes are down at once, at most.
    pub(crate) may_be_down: usize,
    /// Pods whose volume is on a machine that is lost.
    pub(crate) stranded: BTreeSet<String>,
    /// There is no right to delete claims.
    pub(crate) keeps_claims: bool,
    pub(crate) unreachable: Vec<String>,
    /// Super-disks that are not healthy, by pod; only where the spec has some.
    pub(crate) super_disks: BTreeMap<String, crate::super_disk::SuperDiskSeen>,
    /// Whether the cluster whose volumes these are still exists.
    pub(crate) volumes_of_exists: Option<crate::world::Seen<bool>>,
    pub(crate) bad_template: Option<String>,
    pub(crate) log: Vec<String>,
    /// Steps of upgrades, and restarts with another image.
    pub(crate) steps: Vec<String>,
    /// Nodes that could not join.
    failed: BTreeSet<String>,
    /// Whose place each joining node takes.
    replaces: BTreeMap<String, String>,
    /// Nodes that were decommissioned.
    gone: BTreeSet<String>,
    /// Number of the records: what was decided by other ones is not recorded.
    recorded: u32,
    serial: u32,
}

#[derive(Clone)]
pub(crate) struct Set {
    pub(crate) replicas: i32,
    pub(crate) partition: i32,
    pub(crate) template: String,
    pub(crate) spec: String,
    pub(crate) image: String,
    /// Changes of the template by hand, as by `kubectl rollout restart`.
    touched: String,
    /// The request that its pods are restarted for.
    pub(crate) restarted: Option<String>,
    /// Whether its pods do not wait for each other.
    pub(crate) parallel: bool,
    /// The revision before this one, which pods below the partition keep, and its image.
    old: String,
    old_image: String,
    version: u32,
}

impl Set {
    /// What pods from the partition on are made from.
    fn revision(&self) -> String {
        let restarted = self.restarted.as_deref().unwrap_or_default();
        format!("{}{}{restarted}", self.template, self.touched)
    }
}

#[derive(Clone)]
pub(crate) struct Pod {
    created: Timestamp,
    pub(crate) uid: String,
    pub(crate) revision: String,
    pub(crate) ip: String,
    host_id: Option<String>,
    decommission: Option<Job>,
    cleanup: Option<RequestedJob>,
    repair: Option<RequestedJob>,
    upgrade: Option<RequestedJob>,
    /// What the upgrade's job is.
    step: Option<UpgradeStep>,
    snapshots: Snapshots,
    pub(crate) image: String,
    left: bool,
}

impl Pod {
    fn repairs(&self) -> bool {
        let job = self.repair.as_ref().map(|repair| &repair.job);
        job == Some(&Job::Running)
    }
}

#[derive(Clone)]
pub(crate) struct Volume {
    pub(crate) uid: String,
    pub(crate) disk: Disk,
    /// Whose data it is, signed or not.
    of: Option<String>,
    pub(crate) snapshots: BTreeSet<String>,
}

/// A rack a of two and a rack b of two, with two copies of everything.
pub(crate) fn two_and_two() -> String {
    spec(2, &[2, 2])
}

pub(crate) fn spec(factor: i32, members: &[i32]) -> String {
    let racks: Vec<_> = members
        .iter()
        .zip(["a", "b", "c"])
        .map(|(members, name)| format!("{{ name: {name}, members: {members} }}"))
        .collect();
    format!(
        "replicas: 3\ndatabase:\n  engine: Cassandra\n  replicationFactor: {factor}\n  racks: [{}]\n  storage: {{ size: \
         1Ti }}\n",
        racks.join(", ")
    )
}

impl Sim {
    pub(crate) fn new(spec: &str) -> Self {
        Self {
            spec: spec.to_owned(),
            cluster: fixtures::cluster(spec),
            records: Vec::new(),
            upgrade: None,
            replication: None,
            keyspace: None,
            jobs: BTreeMap::new(),
            unequal: BTreeSet::new(),
            former: None,
            racks: BTreeMap::new(),
            pods: BTreeMap::new(),
            disks: BTreeMap::new(),
            ring: Vec::new(),
            identities: BTreeMap::new(),
            clock: fixtures::now(),
            consent: crate::world::Consent::default(),
            places: crate::rollouts::Places::default(),
            agentless: None,
            free_bytes: 1 << 40,
            decommission_fails: false,
            join_fails: false,
            cleanup_fails: false,
            repair_fails: Vec::new(),
            repairs_last: false,
            unable: None,
            knows_no_upgrades: false,
            upgrade_fails: None,
            upgrades_last: false,
            has_schema: false,
            schema_versions: 1,
            schema_by_image: false,
            may_be_down: 1,
            stranded: BTreeSet::new(),
            keeps_claims: false,
            unreachable: Vec::new(),
            super_disks: BTreeMap::new(),
            volumes_of_exists: None,
            bad_template: None,
            log: Vec::new(),
            steps: Vec::new(),
            failed: BTreeSet::new(),
            replaces: BTreeMap::new(),
            gone: BTreeSet::new(),
            recorded: 0,
            serial: 0,
        }
    }

    /// A database that is up, with everything as its spec says.
    pub(crate) fn up(spec: &str) -> Self {
        let mut sim = Self::new(spec);
        sim.run();
        assert_eq!(
            sim.plan().waiting.map(|w| w.reason().as_str()),
            Some("SchemaPending")
        );
        sim.has_schema = true;
        sim
    }

    pub(crate) fn respec(&mut self, spec: &str) {
        spec.clone_into(&mut self.spec);
        self.cluster = fixtures::cluster(spec);
    }

    pub(crate) fn also(&mut self, more: &str) {
        let spec = format!("{}{more}", self.spec);
        self.respec(&spec);
    }

    pub(crate) fn plan(&self) -> Plan {
        plan(&self.validated(), &self.world(), self.clock)
    }

    /// The cluster by its spec and its status.
    pub(super) fn validated(&self) -> ValidatedCluster {
        self.cluster.clone().replicated(self.replication.as_ref())
    }

    /// The schema Job that is wanted, and the copies that it gives the keyspace.
    pub(super) fn wanted_job(&self) -> (String, i32) {
        let cluster = self.validated();
        let Store::Managed(database) = &cluster.store else {
            panic!("no database")
        };
        let name = templates::schema_job_name(&cluster).unwrap();
        (name, database.copies.keyspace)
    }

    /// The keyspace is altered: from now on copies differ, unless all were made equal since it was last altered.
    pub(super) fn alter(&mut self, copies: i32) {
        let before = self.keyspace.unwrap_or(copies);
        self.keyspace = Some(copies);
        if before == copies {
            return;
        }
        self.log.push(format!("{before} copies to {copies}"));
        assert_eq!((before - copies).abs(), 1, "{:?}", self.log);
        assert!(
            self.unequal.is_empty() || self.former == Some(copies),
            "a second step while {:?} were not repaired: {:?}",
            self.unequal,
            self.log
        );
        self.former = Some(before);
        if copies > 1 {
            let members = self.records.iter().filter(|r| r.is_member());
            self.unequal = members.map(|r| r.name.clone()).collect();
        }
    }

    pub(crate) fn waits(&self) -> String {
        self.plan()
            .waiting
            .map_or_else(String::new, |w| w.to_string())
    }

    /// As if another operator had made all this, which knew neither agents nor records; and now there is this one,
    /// which would make the pods of another template.
    pub(crate) fn inherited(&mut self) {
        self.forgets();
        self.agentless = Some(self.wanted("a"));
        for volume in self.disks.values_mut() {
            volume.disk = Disk::Unmarked;
        }
        for pod in self.pods.values_mut() {
            pod.revision = self.agentless.clone().unwrap();
        }
        for set in self.racks.values_mut() {
            set.template = self.agentless.clone().unwrap();
        }
        self.cluster.agent_image = "operator:2".to_owned();
        self.log.clear();
    }

    /// The status was emptied, and what is made of it; that the keyspace was made is known still.
    pub(crate) fn forgets(&mut self) {
        self.records.clear();
        self.identities.clear();
        (self.upgrade, self.replication) = (None, None);
    }

    /// The resource was deleted, and its children with it, and is there again, with this spec and the same volumes.
    pub(crate) fn made_again(&mut self, spec: &str) {
        for pod in self.pods.keys().cloned().collect::<Vec<_>>() {
            self.stop(&pod);
        }
        self.may_be_down = self.ring.len();
        self.racks.clear();
        self.keyspace = self.keyspace();
        self.forgets();
        self.jobs.clear();
        self.has_schema = false;
        self.respec(spec);
        self.log.clear();
    }

    /// The copies that the keyspace has; none: there is no keyspace.
    fn keyspace(&self) -> Option<i32> {
        let wanted = self.managed("a").0.replication_factor;
        self.keyspace.or(self.has_schema.then_some(wanted))
    }

    fn has_agent(&self, pod: &Pod) -> bool {
        self.agentless.as_ref() != Some(&pod.revision)
    }

    fn ready(&self, pod: &str) -> bool {
        let live = &self.pods[pod];
        let own = |n: &&Node| Some(&n.host_id) == live.host_id.as_ref();
        self.ring
            .iter()
            .find(own)
            .is_some_and(|n| n.up && n.state == NodeState::Normal)
    }

    fn disk(&self, pod: &str) -> Disk {
        self.disks[pod].disk.clone()
    }

    pub(crate) fn volume(&mut self, pod: &str) -> &mut Volume {
        self.disks.get_mut(pod).unwrap()
    }

    fn uuid(&mut self) -> String {
        self.serial += 1;
        format!("id-{}", self.serial)
    }

    pub(crate) fn wanted(&self, rack: &str) -> String {
        let (database, rack) = self.managed(rack);
        templates::template_hash(&self.cluster, database, rack)
    }

    fn spec_hash(&self) -> String {
        self.managed("a").0.spec_hash(None)
    }

    fn managed(&self, rack: &str) -> (&crate::spec::Database, &crate::spec::Rack) {
        let Store::Managed(database) = &self.cluster.store else {
            panic!("no racks")
        };
        (
            database,
            database.racks.iter().find(|r| r.name == rack).unwrap(),
        )
    }

    /// The nodes of the ring by pod, those that are up.
    pub(crate) fn members(&self) -> Vec<&str> {
        let up = |p: &Pod| {
            self.ring
                .iter()
                .any(|n| n.up && Some(&n.host_id) == p.host_id.as_ref())
        };
        self.pods
            .iter()
            .filter(|(_, p)| up(p))
            .map(|(n, _)| n.as_str())
            .collect()
    }

    /// The records as `pod State`.
    pub(crate) fn told(&self) -> Vec<String> {
        self.records
            .iter()
            .map(|r| format!("{} {:?}", r.name, r.state))
            .collect()
    }

    /// The images that pods run.
    pub(crate) fn images(&self) -> BTreeSet<&str> {
        self.pods.values().map(|p| p.image.as_str()).collect()
    }

    /// The snapshots that are on any disk.
    pub(crate) fn snapshots(&self) -> BTreeSet<&str> {
        let disks = self.disks.values().flat_map(|d| &d.snapshots);
        disks.map(String::as_str).collect()
    }

    /// The nodes whose data has been repaired.
    pub(crate) fn repaired(&self) -> Vec<&str> {
        let repaired = self.records.iter().filter(|r| r.last_repaired.is_some());
        repaired.map(|r| r.name.as_str()).collect()
    }
}
