//! The agents of all database pods of a world, and the ring that they see. What they say can be changed in
//! mid-test.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard},
    time::Duration,
};

use futures::future::BoxFuture;
use readstates_operator::{
    agents::Agents,
    engine::{
        Decommission, Disk, Facts, Keyspace, Mode, Node, NodeState, Phase, Report, Start, Target,
        View,
    },
    observe::PodSeen,
    super_disk::{Answer, Condition},
};

pub(crate) mod http;

#[derive(Default)]
pub(crate) struct FakeAgents(Mutex<Ring>);

#[derive(Default)]
pub(crate) struct Ring {
    /// Nodes by pod name, in any state.
    pub(crate) nodes: BTreeMap<String, Node>,
    /// Orders in the order in which they came.
    pub(crate) orders: Vec<String>,
    /// Nodes that have left, by the UID of their pod.
    left: BTreeMap<String, String>,
    /// Whether nodes wait for orders. Otherwise each finds its data and starts by itself.
    pub(crate) ordered: bool,
    /// What a decommission ends with.
    pub(crate) refuses: Option<String>,
    failed: BTreeMap<String, String>,
    /// How super-disks are that are not healthy, by pod name.
    disks: BTreeMap<String, Condition>,
    /// Nodes whose disk was lost, by pod name: the others see them down.
    lost: BTreeMap<String, String>,
    joined: u32,
    addresses: Vec<String>,
}

impl FakeAgents {
    pub(crate) fn ring(&self) -> MutexGuard<'_, Ring> {
        self.0.lock().unwrap()
    }

    /// How the super-disk of this pod is from now on.
    pub(crate) fn disk_is(&self, pod: &str, condition: Condition) {
        self.ring().disks.insert(pod.to_owned(), condition);
    }

    /// The address of a pod: always the same one, so that a restarted node is where it was.
    pub(crate) fn address(&self, pod: &str) -> String {
        let addresses = &mut self.ring().addresses;
        let known = addresses.iter().position(|p| p == pod);
        let at = known.unwrap_or_else(|| {
            addresses.push(pod.to_owned());
            addresses.len() - 1
        });
        format!("10.0.0.{}", at + 1)
    }
}

impl Ring {
    fn join(&mut self, pod: &PodSeen) {
        self.joined += 1;
        // The same pod on another disk is another node.
        let host_id = match self.lost.remove(&pod.name) {
            Some(_) => format!("id-{}-of-{}", self.joined, pod.name),
            None => format!("id-of-{}", pod.name),
        };
        let node = Node {
            host_id,
            address: pod.ip.clone().unwrap(),
            up: true,
            state: NodeState::Normal,
            load_bytes: Some(1 << 20),
        };
        self.nodes.insert(pod.name.clone(), node);
    }

    /// The disk under this pod is lost.
    pub(crate) fn lose_disk(&mut self, pod: &str) {
        let node = self.nodes.get_mut(pod).unwrap();
        node.up = false;
        self.lost.insert(pod.to_owned(), node.host_id.clone());
    }

    fn report(&mut self, pod: &PodSeen) -> Report {
        if !self.ordered && !self.nodes.contains_key(&pod.name) {
            self.join(pod);
        }
        let node = self
            .nodes
            .get(&pod.name)
            .filter(|_| !self.lost.contains_key(&pod.name));
        let left = pod.uid.as_ref().and_then(|uid| self.left.get(uid));
        let phase = match (node.map(|n| n.host_id.clone()), left) {
            (None, None) => Phase::Waiting { disk: Disk::Blank },
            (host_id, left) => Phase::Running(View {
                mode: if host_id.is_some() {
                    Mode::Normal
                } else {
                    Mode::Decommissioned
                },
                host_id: host_id.or_else(|| left.cloned()),
                progress: None,
                cql: true,
                nodes: self.nodes.values().cloned().collect(),
                free_bytes: 1 << 40,
                age_seconds: 0,
                decommission: self
                    .failed
                    .get(&pod.name)
                    .map(|error| Decommission::Failed {
                        error: error.clone(),
                    }),
            }),
        };
        Report {
            pod_uid: pod.uid.clone().unwrap(),
            phase,
        }
    }
}

impl Agents for FakeAgents {
    fn report<'a>(
        &'a self,
        pod: &'a PodSeen,
        _: Duration,
    ) -> BoxFuture<'a, Result<Report, String>> {
        let report = self.ring().report(pod);
        Box::pin(async move { Ok(report) })
    }

    fn super_disk<'a>(&'a self, pod: &'a PodSeen) -> BoxFuture<'a, Result<Answer, String>> {
        let known = self.ring().disks.get(&pod.name).cloned();
        let answer = Answer {
            mounted: true,
            condition: known.unwrap_or(Condition::Healthy),
            refusal: None,
            last_error: None,
            facts: None,
        };
        Box::pin(async move { Ok(answer) })
    }

    fn facts<'a>(&'a self, _: &'a PodSeen) -> BoxFuture<'a, Result<Facts, String>> {
        let keyspace = Keyspace {
            name: "readstates".to_owned(),
            replication_factor: 1,
        };
        let facts = Facts {
            schema_versions: vec!["v1".to_owned()],
            keyspaces: vec![keyspace],
        };
        Box::pin(async move { Ok(facts) })
    }

    fn start<'a>(
        &'a self,
        pod: &'a PodSeen,
        token: &'a str,
        order: &'a Start,
    ) -> BoxFuture<'a, Result<(), String>> {
        assert_eq!(token.len(), 64);
        assert_eq!(Some(&order.pod_uid), pod.uid.as_ref());
        let mut ring = self.ring();
        ring.orders
            .push(format!("start {} by {}", pod.name, order.seeds.join(",")));
        if let Some(lost) = &order.replace {
            ring.nodes.retain(|_, node| node.host_id != lost.host_id);
        }
        ring.join(pod);
        Box::pin(async { Ok(()) })
    }

    fn decommission<'a>(
        &'a self,
        pod: &'a PodSeen,
        _: &'a str,
        order: &'a Target,
    ) -> BoxFuture<'a, Result<(), String>> {
        assert_eq!(Some(&order.pod_uid), pod.uid.as_ref());
        let mut ring = self.ring();
        ring.orders.push(format!("leave {}", pod.name));
        if let Some(words) = ring.refuses.clone() {
            ring.failed.insert(pod.name.clone(), words);
        } else if let Some(gone) = ring.nodes.remove(&pod.name) {
            assert_eq!(gone.host_id, order.host_id);
            ring.left.insert(order.pod_uid.clone(), gone.host_id);
        }
        Box::pin(async { Ok(()) })
    }
}
