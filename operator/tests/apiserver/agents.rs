//! The agents of all database pods of a world, and the ring that they see. What they say can be changed in
//! mid-test.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard},
    time::Duration,
};

use futures::future::BoxFuture;
use readstates_agent::wire::{
    Cleanup, Disk, Facts, Flush, Job, Keyspace, Mode, Node, NodeState, Phase, Repair, Report,
    RequestedJob, Start, Target, Upgrade, UpgradeStep, View,
};
use readstates_operator::{
    agents::Agents,
    connections::PodClients,
    super_disk::{AgentState, BrokenSlots, Condition},
    world::PodSeen,
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
    /// The cleanup that a node has done last, by pod name.
    cleaned: BTreeMap<String, String>,
    /// The repair that a node was told last, by pod name, and what repairs end with while they fail.
    repaired: BTreeMap<String, RequestedJob>,
    pub(crate) repairs_fail: Option<String>,
    /// The step of an upgrade that a node was told last, by pod name and UID, and what such steps end with while they fail.
    upgraded: BTreeMap<(String, String), RequestedJob>,
    /// The flush that each pod has made.
    flushed: BTreeMap<(String, String), RequestedJob>,
    pub(crate) upgrades_fail: Option<String>,
    /// Snapshots that are there, as `name of pod`.
    pub(crate) snapshots: BTreeSet<String>,
    /// The copies that the keyspace has; none: there is no keyspace.
    pub(crate) keyspace: Option<i32>,
    /// Whether the nodes have two versions of the schema.
    pub(crate) disagrees: bool,
    /// How super-disks are that are not healthy, by pod name.
    disks: BTreeMap<String, Condition>,
    /// Nodes whose disk was lost, by pod name: the others see them down.
    lost: BTreeMap<String, String>,
    /// The node on the volume of a pod that was not started yet, and the pod that has signed it.
    pub(crate) signed: BTreeMap<String, (String, String)>,
    joined: u32,
    /// Room on the disk of a node that waits, where it is not plenty.
    pub(crate) room: Option<u64>,
    /// Whether it takes until [`Ring::time_passes`] to join and to leave.
    pub(crate) lasting: bool,
    /// Claims by the UID of the pod that has them, and those whose node has left.
    claims: BTreeMap<String, String>,
    spent: BTreeSet<String>,
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
    /// The pod of this UID has this claim.
    pub(crate) fn mounts(&mut self, pod_uid: String, claim_uid: String) {
        self.claims.insert(pod_uid, claim_uid);
    }

    /// Nodes that are on their way in or out are there.
    pub(crate) fn time_passes(&mut self) {
        self.nodes
            .retain(|_, node| node.state != NodeState::Leaving);
        for node in self.nodes.values_mut() {
            node.state = NodeState::Normal;
        }
    }

    /// No other node is on its way in or out.
    fn nobody_moves_but(&self, pod: &str) {
        let mut others = self.nodes.iter().filter(|(name, _)| *name != pod);
        let moves = others.find(|(_, node)| node.state != NodeState::Normal);
        assert!(moves.is_none(), "{pod} is told while {moves:?} moves");
    }

    fn join(&mut self, pod: &PodSeen) {
        self.joined += 1;
        let claim = pod.uid.as_ref().and_then(|uid| self.claims.get(uid));
        assert!(
            claim.is_none_or(|claim| !self.spent.contains(claim)),
            "{} joins on the volume of a node that has left",
            pod.name
        );
        // The same pod on another disk is another node.
        let host_id = match (self.lost.remove(&pod.name), self.signed.remove(&pod.name)) {
            (Some(_), _) => format!("id-{}-of-{}", self.joined, pod.name),
            (None, Some((host_id, _))) => host_id,
            (None, None) => format!("id-of-{}", pod.name),
        };
        let node = Node {
            host_id,
            address: pod.ip.clone().unwrap(),
            up: true,
            state: if self.lasting {
                NodeState::Joining
            } else {
                NodeState::Normal
            },
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

    /// Whether nothing has come in the place of a disk that was lost.
    pub(crate) fn is_lost(&self, pod: &str) -> bool {
        self.lost.contains_key(pod)
    }

    fn facts(&self) -> Facts {
        let keyspace = self.keyspace.map(|replication_factor| Keyspace {
            name: "readstates".to_owned(),
            replication_factor,
        });
        Facts {
            schema_versions: if self.disagrees {
                vec!["v1".to_owned(), "v2".to_owned()]
            } else {
                vec!["v1".to_owned()]
            },
            schema_nodes: BTreeMap::new(),
            keyspaces: keyspace.into_iter().collect(),
        }
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
        let phase = match (node, left) {
            (Some(node), _) => {
                let mode = match node.state {
                    NodeState::Joining => Mode::Joining,
                    NodeState::Leaving => Mode::Leaving,
                    NodeState::Normal | NodeState::Moving => Mode::Normal,
                };
                Phase::Running(self.view(pod, mode, &node.host_id))
            }
            (None, Some(host_id)) => Phase::Running(self.view(pod, Mode::Decommissioned, host_id)),
            (None, None) => Phase::Waiting {
                disk: match self.signed.get(&pod.name).cloned() {
                    Some((host_id, pod)) => Disk::Known {
                        host_id,
                        pod: Some(pod),
                    },
                    None => Disk::Blank,
                },
                free_bytes: Some(self.room.unwrap_or(1 << 40)),
            },
        };
        Report {
            pod_uid: pod.uid.clone().unwrap(),
            identity: None,
            phase,
        }
    }

    /// What a node says of itself whose process runs.
    fn view(&self, pod: &PodSeen, mode: Mode, host_id: &str) -> View {
        View {
            mode,
            host_id: Some(host_id.to_owned()),
            progress: None,
            cql: true,
            nodes: self.nodes.values().cloned().collect(),
            free_bytes: 1 << 40,
            age_seconds: 0,
            decommission: self.failed.get(&pod.name).map(|error| Job::Failed {
                error: error.clone(),
            }),
            cleans_up: true,
            cleanup: self.cleaned.get(&pod.name).map(|request| RequestedJob {
                request: request.clone(),
                progress: None,
                job: Job::Done,
            }),
            repairs: true,
            repair: self.repaired.get(&pod.name).cloned().map(Box::new),
            upgrades: true,
            upgrade: self.upgraded.get(&life(pod)).cloned().map(Box::new),
            flushes: true,
            flush: self.flushed.get(&life(pod)).cloned().map(Box::new),
        }
    }
}

/// A pod's life: an agent that is restarted remembers no order.
fn life(pod: &PodSeen) -> (String, String) {
    (pod.name.clone(), pod.uid.clone().unwrap())
}

impl Agents for FakeAgents {
    fn report<'a>(
        &'a self,
        _: &'a PodClients,
        pod: &'a PodSeen,
        _: Duration,
    ) -> BoxFuture<'a, Result<Report, String>> {
        let report = self.ring().report(pod);
        Box::pin(async move { Ok(report) })
    }

    fn super_disk<'a>(
        &'a self,
        _: &'a PodClients,
        pod: &'a PodSeen,
    ) -> BoxFuture<'a, Result<AgentState, String>> {
        let known = self.ring().disks.get(&pod.name).cloned();
        let answer = AgentState {
            mounted: true,
            condition: known.unwrap_or(Condition::Healthy),
            refusal: None,
            last_error: None,
            facts: None,
            broken_slots: BrokenSlots::default(),
        };
        Box::pin(async move { Ok(answer) })
    }

    fn facts<'a>(
        &'a self,
        _: &'a PodClients,
        _: &'a PodSeen,
    ) -> BoxFuture<'a, Result<Facts, String>> {
        let facts = self.ring().facts();
        Box::pin(async move { Ok(facts) })
    }

    fn start<'a>(
        &'a self,
        _: &'a PodClients,
        pod: &'a PodSeen,
        _: Option<&'a str>,
        order: &'a Start,
    ) -> BoxFuture<'a, Result<(), String>> {
        assert_eq!(Some(&order.pod_uid), pod.uid.as_ref());
        let mut ring = self.ring();
        ring.orders
            .push(format!("start {} by {}", pod.name, order.seeds.join(",")));
        if ring.nodes.contains_key(&pod.name) && !ring.lost.contains_key(&pod.name) {
            // It runs, and an agent starts once.
            return Box::pin(async { Ok(()) });
        }
        ring.nobody_moves_but(&pod.name);
        if let Some(lost) = &order.replace {
            ring.nodes.retain(|_, node| node.host_id != lost.host_id);
        }
        ring.join(pod);
        Box::pin(async { Ok(()) })
    }

    fn decommission<'a>(
        &'a self,
        _: &'a PodClients,
        pod: &'a PodSeen,
        _: Option<&'a str>,
        order: &'a Target,
    ) -> BoxFuture<'a, Result<(), String>> {
        assert_eq!(Some(&order.pod_uid), pod.uid.as_ref());
        let mut ring = self.ring();
        ring.orders.push(format!("leave {}", pod.name));
        if let Some(words) = ring.refuses.clone() {
            ring.failed.insert(pod.name.clone(), words);
        } else if let Some(mut goes) = ring.nodes.remove(&pod.name) {
            ring.nobody_moves_but(&pod.name);
            assert_eq!(goes.host_id, order.host_id);
            ring.left
                .insert(order.pod_uid.clone(), goes.host_id.clone());
            if let Some(claim) = ring.claims.get(&order.pod_uid).cloned() {
                ring.spent.insert(claim);
            }
            if ring.lasting {
                goes.state = NodeState::Leaving;
                ring.nodes.insert(pod.name.clone(), goes);
            }
        }
        Box::pin(async { Ok(()) })
    }

    fn cleanup<'a>(
        &'a self,
        _: &'a PodClients,
        pod: &'a PodSeen,
        order: &'a Cleanup,
    ) -> BoxFuture<'a, Result<(), String>> {
        assert_eq!(Some(&order.pod_uid), pod.uid.as_ref());
        let mut ring = self.ring();
        ring.nobody_moves_but(&pod.name);
        ring.orders.push(format!("clean up {}", pod.name));
        ring.cleaned.insert(pod.name.clone(), order.request.clone());
        Box::pin(async { Ok(()) })
    }

    fn repair<'a>(
        &'a self,
        _: &'a PodClients,
        pod: &'a PodSeen,
        order: &'a Repair,
    ) -> BoxFuture<'a, Result<(), String>> {
        assert_eq!(Some(&order.pod_uid), pod.uid.as_ref());
        let mut ring = self.ring();
        ring.nobody_moves_but("");
        ring.orders
            .push(format!("repair {:?} of {}", order.ranges, pod.name));
        let job = ring
            .repairs_fail
            .clone()
            .map_or(Job::Done, |error| Job::Failed { error });
        let told = RequestedJob {
            request: order.request.clone(),
            progress: None,
            job,
        };
        ring.repaired.insert(pod.name.clone(), told);
        Box::pin(async { Ok(()) })
    }

    fn flush<'a>(
        &'a self,
        _: &'a PodClients,
        pod: &'a PodSeen,
        order: &'a Flush,
    ) -> BoxFuture<'a, Result<(), String>> {
        assert_eq!(Some(&order.pod_uid), pod.uid.as_ref());
        let mut ring = self.ring();
        ring.orders.push(format!("flush {}", pod.name));
        let told = RequestedJob {
            request: order.request.clone(),
            progress: None,
            job: Job::Done,
        };
        ring.flushed.insert(life(pod), told);
        Box::pin(async { Ok(()) })
    }

    fn upgrade<'a>(
        &'a self,
        _: &'a PodClients,
        pod: &'a PodSeen,
        order: &'a Upgrade,
    ) -> BoxFuture<'a, Result<(), String>> {
        assert_eq!(Some(&order.pod_uid), pod.uid.as_ref());
        let mut ring = self.ring();
        ring.nobody_moves_but("");
        let last = ring.upgraded.get(&life(pod));
        if last.is_some_and(|u| u.request == order.request && u.job == Job::Done) {
            return Box::pin(async { Ok(()) });
        }
        let does = match &order.step {
            UpgradeStep::Snapshot(_) => "snapshot",
            UpgradeStep::Rewrite => "rewrite",
            UpgradeStep::Release(_) => "release",
        };
        ring.orders.push(format!("{does} {}", pod.name));
        let fails = ring.upgrades_fail.clone();
        let job = fails.map_or(Job::Done, |error| Job::Failed { error });
        if job == Job::Done {
            match &order.step {
                UpgradeStep::Snapshot(name) => {
                    ring.snapshots.insert(format!("{name} of {}", pod.name));
                }
                UpgradeStep::Rewrite => {}
                UpgradeStep::Release(_) => {
                    let own = format!(" of {}", pod.name);
                    ring.snapshots.retain(|snapshot| !snapshot.ends_with(&own));
                }
            }
        }
        let told = RequestedJob {
            request: order.request.clone(),
            progress: None,
            job,
        };
        ring.upgraded.insert(life(pod), told);
        Box::pin(async { Ok(()) })
    }
}
