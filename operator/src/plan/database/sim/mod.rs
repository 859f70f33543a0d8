//! A database in memory: StatefulSets, pods, disks and a ring, moved on a little with every turn, and held
//! against what must never happen. Writes of the operator can be cut off after any one of them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use readstates_operator_api::{DatabaseNode, DatabaseNodeState};

use super::{NodesStep, Order, RackStep, Template};
use crate::{
    build,
    engine::{Decommission, Disk, Node, NodeState},
    fixtures,
    plan::{Plan, plan},
    validate::{Store, ValidatedCluster},
};

mod seen;

pub(crate) struct Sim {
    pub(crate) spec: String,
    pub(crate) cluster: ValidatedCluster,
    pub(crate) records: Vec<DatabaseNode>,
    pub(crate) racks: BTreeMap<String, Set>,
    pub(crate) pods: BTreeMap<String, Pod>,
    pub(crate) disks: BTreeMap<String, Volume>,
    pub(crate) ring: Vec<Node>,
    pub(crate) clock: Timestamp,
    pub(crate) consent: crate::observe::Consent,
    pub(crate) agents: bool,
    pub(crate) free_bytes: u64,
    pub(crate) decommission_fails: bool,
    pub(crate) unreachable: Vec<String>,
    /// Super-disks that are not healthy, by pod; only where the spec has some.
    pub(crate) super_disks: BTreeMap<String, crate::super_disk::SuperDiskSeen>,
    pub(crate) bad_template: Option<String>,
    pub(crate) log: Vec<String>,
    serial: u32,
}

#[derive(Clone)]
pub(crate) struct Set {
    pub(crate) replicas: i32,
    pub(crate) partition: i32,
    pub(crate) template: String,
    pub(crate) spec: String,
    /// The template before this one, which pods below the partition keep.
    old: String,
}

#[derive(Clone)]
pub(crate) struct Pod {
    pub(crate) uid: String,
    pub(crate) revision: String,
    pub(crate) ip: String,
    host_id: Option<String>,
    decommission: Option<Decommission>,
    left: bool,
}

#[derive(Clone)]
pub(crate) struct Volume {
    pub(crate) uid: String,
    pub(crate) disk: Disk,
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
            racks: BTreeMap::new(),
            pods: BTreeMap::new(),
            disks: BTreeMap::new(),
            ring: Vec::new(),
            clock: fixtures::now(),
            consent: crate::observe::Consent::default(),
            agents: true,
            free_bytes: 1 << 40,
            decommission_fails: false,
            unreachable: Vec::new(),
            super_disks: BTreeMap::new(),
            bad_template: None,
            log: Vec::new(),
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
        plan(&self.cluster, &self.world(), self.clock)
    }

    pub(crate) fn waits(&self) -> String {
        self.plan()
            .waiting
            .map_or_else(String::new, |w| w.to_string())
    }

    /// Turns until nothing has changed for a while.
    pub(crate) fn run(&mut self) {
        const A_WHILE: u32 = 6;
        let mut still = 0;
        for _ in 0..150 {
            let before = self.fingerprint();
            self.turn(usize::MAX);
            still = if self.fingerprint() == before {
                still + 1
            } else {
                0
            };
            if still == A_WHILE {
                return;
            }
        }
        panic!("it never comes to rest: {:?}", self.log);
    }

    /// Everything but the time.
    fn fingerprint(&self) -> String {
        let sets: Vec<_> = self
            .racks
            .values()
            .map(|s| (s.replicas, s.partition, &s.template))
            .collect();
        let pods: Vec<_> = self
            .pods
            .values()
            .map(|p| (&p.uid, &p.decommission))
            .collect();
        format!(
            "{sets:?} {pods:?} {:?} {:?} {:?}",
            self.ring,
            self.records,
            self.log.len()
        )
    }

    /// The operator looks, decides and writes, and dies after so many writes; then the world moves on.
    pub(crate) fn turn(&mut self, writes: usize) {
        let plan = self.plan();
        let step = plan.database;
        self.check(&step);
        let mut left = writes;
        let mut may = || {
            let yes = left > 0;
            left = left.saturating_sub(1);
            yes
        };
        // In the order in which `reconcile` writes.
        for pod in &step.pods_to_delete {
            if may() && self.pods.get(&pod.name).is_some_and(|p| p.uid == pod.uid) {
                self.stop(&pod.name);
            }
        }
        for claim in &step.claims_to_delete {
            if may() {
                self.delete_claim(&claim.name, &claim.uid);
            }
        }
        for order in &step.orders {
            if may() {
                self.obey(order);
            }
        }
        for rack in &plan.racks {
            if may() {
                self.write(rack);
            }
        }
        if may() {
            self.records = step.records;
        }
        self.move_on();
    }

    /// What must never be, whatever was cut off before.
    fn check(&self, step: &NodesStep) {
        let on_its_way = |r: &&DatabaseNode| {
            !matches!(r.state, DatabaseNodeState::Member | DatabaseNodeState::Left)
        };
        assert!(
            step.records.iter().filter(on_its_way).count() <= 1,
            "{:?}",
            step.records
        );
        assert!(step.orders.len() <= 1, "{:?}", step.orders);
        let moving = self
            .ring
            .iter()
            .filter(|n| n.state != NodeState::Normal)
            .count();
        assert!(moving <= 1, "{:?}", self.ring);
        // A cluster made again starts with all of them down.
        let down = self.ring.iter().filter(|n| !n.up).count();
        assert!(down <= 1 || self.records.is_empty(), "{:?}", self.ring);
    }

    fn obey(&mut self, order: &Order) {
        match order {
            Order::Start { pod, order } => {
                let Some(live) = self.pods.get(&pod.name).cloned() else {
                    return;
                };
                assert_eq!(live.uid, order.pod_uid);
                self.log.push(format!("start {}", pod.name));
                let disk = self.disk(&pod.name);
                assert!(!matches!(disk, Disk::Known { .. }), "started over data");
                if let Some(lost) = &order.replace {
                    self.ring.retain(|n| n.host_id != lost.host_id);
                } else if order.seeds == [live.ip.clone()] {
                    assert!(self.ring.is_empty(), "a second database was begun");
                }
                let host_id = self.uuid();
                self.ring.push(Node {
                    host_id: host_id.clone(),
                    address: live.ip,
                    up: true,
                    state: NodeState::Joining,
                    load_bytes: 1 << 30,
                });
                self.pods.get_mut(&pod.name).unwrap().host_id = Some(host_id);
                self.volume(&pod.name).disk = Disk::Begun;
            }
            Order::Decommission { pod, target } => {
                let fails = self.decommission_fails;
                let Some(live) = self.pods.get_mut(&pod.name) else {
                    return;
                };
                assert_eq!(live.uid, target.pod_uid);
                assert_eq!(live.host_id.as_ref(), Some(&target.host_id));
                self.log.push(format!("leave {}", pod.name));
                if fails {
                    let error = "Unable to find new replica".to_owned();
                    live.decommission = Some(Decommission::Failed { error });
                    return;
                }
                live.decommission = Some(Decommission::Running);
                let node = self.ring.iter_mut().find(|n| n.host_id == target.host_id);
                node.unwrap().state = NodeState::Leaving;
            }
        }
    }

    fn write(&mut self, step: &RackStep) {
        let RackStep {
            rack,
            members,
            partition,
            template,
        } = step;
        let (hash, spec) = match template {
            Template::Wanted => (self.wanted(rack), self.spec_hash()),
            Template::Held {
                template_hash,
                spec_hash,
                ..
            } => (template_hash.clone().unwrap(), spec_hash.clone().unwrap()),
        };
        let before = self.racks.get(rack).cloned();
        for ordinal in *members..before.as_ref().map_or(0, |b| b.replicas) {
            let pod = format!("chat-db-{rack}-{ordinal}");
            let host_id = self.pods.get(&pod).and_then(|p| p.host_id.clone());
            assert!(
                !self
                    .ring
                    .iter()
                    .any(|n| Some(&n.host_id) == host_id.as_ref()),
                "{pod} is dropped while it is a node of the ring"
            );
        }
        if before.as_ref().is_none_or(|b| b.replicas != *members) {
            self.log.push(format!("{rack} has {members}"));
        }
        let old = match &before {
            Some(b) if b.template == hash => b.old.clone(),
            Some(b) => b.template.clone(),
            None => hash.clone(),
        };
        self.racks.insert(
            rack.clone(),
            Set {
                replicas: *members,
                partition: *partition,
                template: hash,
                spec,
                old,
            },
        );
    }

    fn delete_claim(&mut self, claim: &str, uid: &str) {
        let pod = claim.strip_prefix("data-").unwrap();
        let volume = self.disks.get(pod).cloned();
        let Some(volume) = volume.filter(|v| v.uid == uid) else {
            return;
        };
        assert!(!self.pods.contains_key(pod), "a claim goes under its pod");
        if let Disk::Known { host_id } = &volume.disk {
            assert!(
                !self.ring.iter().any(|n| n.host_id == *host_id),
                "a claim goes with its data"
            );
        }
        self.log.push(format!("delete {claim}"));
        self.disks.remove(pod);
    }

    /// Controllers, kubelets and databases do what they would within a while.
    fn move_on(&mut self) {
        self.clock += jiff::SignedDuration::from_secs(10);
        // Nodes: what was begun ends.
        for node in &mut self.ring {
            if node.state == NodeState::Joining {
                node.state = NodeState::Normal;
                let pod = self
                    .pods
                    .iter()
                    .find(|(_, p)| p.host_id.as_ref() == Some(&node.host_id));
                if let Some((name, _)) = pod {
                    let host_id = node.host_id.clone();
                    self.disks.get_mut(name).unwrap().disk = Disk::Known { host_id };
                }
            }
        }
        for pod in self.pods.values_mut() {
            if pod.decommission == Some(Decommission::Running) {
                pod.decommission = Some(Decommission::Done);
                pod.left = true;
                self.ring
                    .retain(|n| Some(&n.host_id) != pod.host_id.as_ref());
            }
        }
        for (rack, set) in self.racks.clone() {
            self.move_set(&rack, &set);
        }
    }

    /// One change a turn, as an ordered StatefulSet.
    fn move_set(&mut self, rack: &str, set: &Set) {
        let name = |ordinal| format!("chat-db-{rack}-{ordinal}");
        for ordinal in set.replicas..8 {
            self.stop(&name(ordinal));
        }
        for ordinal in 0..set.replicas {
            let pod = name(ordinal);
            let revision = if ordinal >= set.partition {
                &set.template
            } else {
                &set.old
            };
            if !self.pods.contains_key(&pod) {
                self.start(&pod, revision);
                return;
            }
            if !self.ready(&pod) {
                return;
            }
        }
        for ordinal in (set.partition..set.replicas).rev() {
            let pod = name(ordinal);
            if self.pods[&pod].revision != set.template {
                self.log.push(format!("restart {pod}"));
                self.stop(&pod);
                return;
            }
        }
    }

    fn start(&mut self, pod: &str, revision: &str) {
        let uid = self.uuid();
        self.disks.entry(pod.to_owned()).or_insert_with(|| Volume {
            uid: format!("claim-{uid}"),
            disk: Disk::Blank,
        });
        let ip = format!("10.0.0.{}", self.serial);
        let mut started = Pod {
            uid,
            revision: revision.to_owned(),
            ip: ip.clone(),
            host_id: None,
            decommission: None,
            left: false,
        };
        // It finds its data, and starts by itself.
        if let Disk::Known { host_id } = self.disk(pod)
            && self.bad_template.as_deref() != Some(revision)
        {
            if let Some(node) = self.ring.iter_mut().find(|n| n.host_id == host_id) {
                node.up = true;
                node.address = ip;
            }
            started.host_id = Some(host_id);
        }
        self.pods.insert(pod.to_owned(), started);
    }

    /// The pod goes; what it was in the ring is down.
    pub(crate) fn stop(&mut self, pod: &str) {
        if let Some(gone) = self.pods.remove(pod) {
            for node in &mut self.ring {
                if Some(&node.host_id) == gone.host_id.as_ref() {
                    node.up = false;
                }
            }
        }
    }

    /// The disk under a pod is lost, with the pod.
    pub(crate) fn lose_disk(&mut self, pod: &str) {
        self.stop(pod);
        self.disks.remove(pod);
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
        build::template_hash(&self.cluster, database, rack)
    }

    fn spec_hash(&self) -> String {
        self.managed("a").0.spec_hash.clone()
    }

    fn managed(&self, rack: &str) -> (&crate::validate::Database, &crate::validate::Rack) {
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
}
