//! Carries out the operator's decisions in the simulation, as the API server and the agents in pods would.

use readstates_agent::wire::{Disk, Job, Node, NodeState, Ranges, RequestedJob};

use super::{Set, Sim, turns::Decided};
use crate::{
    objects,
    plan::database::{Order, version},
    templates::{self, RackStep, Template},
};

impl Sim {
    /// Carries out the decision, in the order of `reconcile`, and stops after `writes` writes.
    pub(crate) fn carry_out(&mut self, decided: Decided, writes: usize) {
        let Decided { plan, job, by } = decided;
        let step = plan.database;
        let mut left = writes;
        let mut may = || {
            let yes = left > 0;
            left = left.saturating_sub(1);
            yes
        };
        for job in &plan.jobs_to_delete {
            if may() {
                self.jobs.remove(&job.name);
            }
        }
        for pod in &step.pods_to_delete {
            if may() && self.pods.get(&pod.name).is_some_and(|p| p.uid == pod.uid) {
                self.stop(&pod.name);
            }
        }
        for claim in &step.claims_to_delete {
            if may() && !self.keeps_claims {
                self.delete_claim(&claim.name, &claim.uid);
            }
        }
        for order in &step.orders {
            if may() {
                self.obey(order);
            }
        }
        if may() {
            let map = objects::identities(&self.cluster, &step.records);
            self.identities = map.data.unwrap_or_default();
        }
        for rack in &plan.racks {
            if may() {
                self.write(rack);
            }
        }
        if let Some((job, copies)) = job
            && may()
            && !self.jobs.contains_key(&job)
        {
            self.alter(copies);
            self.jobs.insert(job, copies);
        }
        let has_schema = self.has_schema || plan.schema_proven.is_some();
        let same = self.records == step.records
            && self.upgrade == step.upgrade
            && self.replication == step.replication
            && self.has_schema == has_schema;
        if may() && by == self.recorded && !same {
            (self.records, self.upgrade) = (step.records, step.upgrade);
            (self.replication, self.has_schema) = (step.replication, has_schema);
            self.recorded += 1;
        }
    }

    /// As agents do: an order for another pod or node than is there is not taken.
    fn obey(&mut self, order: &Order) {
        match order {
            Order::Start { pod, order } => {
                let Some(live) = self.pods.get(&pod.name).cloned() else {
                    return;
                };
                if live.uid != order.pod_uid || live.host_id.is_some() {
                    return;
                }
                self.log.push(format!("start {}", pod.name));
                let disk = self.disk(&pod.name);
                if let Disk::Known { host_id, .. } = disk {
                    assert_eq!(order.replace, None, "started over data");
                    self.come_up(&pod.name, &host_id, live.ip);
                    self.pods.get_mut(&pod.name).unwrap().host_id = Some(host_id);
                    return;
                }
                if order.replace.is_none() && order.seeds == [live.ip.clone()] {
                    assert!(self.ring.is_empty(), "a second database was begun");
                }
                let kept = self.disks[&pod.name].of.clone();
                if let (Disk::Unmarked, Some(host_id)) = (&disk, kept) {
                    assert_ne!(
                        order.seeds,
                        std::slice::from_ref(&live.ip),
                        "it asks nobody"
                    );
                    let node = self.ring.iter_mut().find(|n| n.host_id == host_id).unwrap();
                    (node.up, node.address) = (true, live.ip);
                    self.pods.get_mut(&pod.name).unwrap().host_id = Some(host_id.clone());
                    let signed = Some(pod.name.clone());
                    self.volume(&pod.name).disk = Disk::Known {
                        host_id,
                        pod: signed,
                    };
                    return;
                }
                if order.replace.is_none() {
                    self.joins_its_own_release(&pod.name);
                }
                let host_id = self.uuid();
                if let Some(lost) = &order.replace {
                    // Until it has the data.
                    self.replaces.insert(host_id.clone(), lost.host_id.clone());
                }
                self.ring.push(Node {
                    host_id: host_id.clone(),
                    address: live.ip,
                    up: true,
                    state: NodeState::Joining,
                    load_bytes: Some(1 << 30),
                });
                self.pods.get_mut(&pod.name).unwrap().host_id = Some(host_id);
                self.volume(&pod.name).disk = Disk::Begun;
            }
            Order::Decommission { pod, target } => {
                let fails = self.decommission_fails;
                let Some(live) = self.pods.get_mut(&pod.name) else {
                    return;
                };
                if live.uid != target.pod_uid || live.host_id.as_ref() != Some(&target.host_id) {
                    return;
                }
                // It leaves already, or has left.
                if live.decommission == Some(Job::Running) || live.left {
                    return;
                }
                self.log.push(format!("leave {}", pod.name));
                if fails {
                    let error = "Unable to find new replica".to_owned();
                    live.decommission = Some(Job::Failed { error });
                    return;
                }
                live.decommission = Some(Job::Running);
                let node = self.ring.iter_mut().find(|n| n.host_id == target.host_id);
                node.unwrap().state = NodeState::Leaving;
            }
            Order::Cleanup { pod, order } => {
                let moving = self.ring.iter().any(|n| n.state != NodeState::Normal);
                let Some(live) = self.pods.get_mut(&pod.name) else {
                    return;
                };
                if live.uid != order.pod_uid || live.host_id.as_ref() != Some(&order.host_id) {
                    return;
                }
                if matches!(
                    &live.cleanup,
                    Some(RequestedJob {
                        job: Job::Running,
                        ..
                    })
                ) {
                    return;
                }
                // The engine refuses it while ranges move.
                let job = if moving {
                    let error = "there are pending ranges".to_owned();
                    Job::Failed { error }
                } else {
                    self.log.push(format!("clean up {}", pod.name));
                    Job::Running
                };
                live.cleanup = Some(RequestedJob {
                    request: order.request.clone(),
                    progress: None,
                    job,
                });
            }
            Order::Repair { pod, order } => {
                let Some(live) = self.pods.get_mut(&pod.name) else {
                    return;
                };
                if live.uid != order.pod_uid || live.host_id.as_ref() != Some(&order.host_id) {
                    return;
                }
                let same = live.repair.as_ref();
                let done = same.is_some_and(|r| r.request == order.request && r.job == Job::Done);
                if done || live.repairs() {
                    return;
                }
                let what = match order.ranges {
                    Ranges::All => "all of",
                    Ranges::Primary => "the share of",
                };
                self.log.push(format!("repair {what} {}", pod.name));
                live.repair = Some(RequestedJob {
                    request: order.request.clone(),
                    progress: None,
                    job: Job::Running,
                });
            }
            Order::Upgrade { pod, order } => {
                let Some(live) = self.pods.get_mut(&pod.name) else {
                    return;
                };
                if live.uid != order.pod_uid || live.host_id.as_ref() != Some(&order.host_id) {
                    return;
                }
                let last = live.upgrade.as_ref();
                let done = last.is_some_and(|u| u.request == order.request && u.job == Job::Done);
                if done || last.is_some_and(|u| u.job == Job::Running) {
                    return;
                }
                if live.snapshots.begin(&order.step).is_err() {
                    return;
                }
                live.step = Some(order.step.clone());
                live.upgrade = Some(RequestedJob {
                    request: order.request.clone(),
                    progress: None,
                    job: Job::Running,
                });
            }
        }
    }

    /// A new node asks the others for data, which those of another release do not send.
    fn joins_its_own_release(&self, pod: &str) {
        let others = self
            .pods
            .iter()
            .filter(|(_, other)| other.host_id.is_some());
        for (name, other) in others {
            let image = &self.pods[pod].image;
            assert!(
                !version::differ(&other.image, image),
                "{pod} of {image} joins while {name} runs {}",
                other.image
            );
        }
    }

    fn write(&mut self, step: &RackStep) {
        let RackStep {
            rack,
            members,
            partition,
            template,
            restarted,
            parallel,
            claim_size: _,
            version,
        } = step;
        let live = self.racks.get(rack).map(|set| set.version);
        if version
            .as_ref()
            .is_some_and(|v| live.map(|l| l.to_string()).as_ref() != Some(v))
        {
            // It was changed meanwhile.
            return;
        }
        let (hash, spec, image) = match template {
            Template::Wanted => (
                self.wanted(rack),
                self.spec_hash(),
                self.managed(rack).0.image.clone(),
            ),
            Template::Held {
                template,
                template_hash,
                spec_hash,
            } => (
                template_hash.clone().unwrap(),
                spec_hash.clone().unwrap(),
                templates::database_image(template).unwrap().to_owned(),
            ),
        };
        let before = self.racks.get(rack).cloned();
        for ordinal in *members..before.as_ref().map_or(0, |b| b.replicas) {
            let pod = format!("chat-db-{rack}-{ordinal}");
            let host_id = self.pods.get(&pod).and_then(|p| p.host_id.clone());
            assert!(
                self.cluster.stopped
                    || !self
                        .ring
                        .iter()
                        .any(|n| Some(&n.host_id) == host_id.as_ref()),
                "{pod} is dropped while it is a node of the ring"
            );
        }
        if before.as_ref().is_none_or(|b| b.replicas != *members) {
            self.log.push(format!("{rack} has {members}"));
        }
        let (old, old_image) = match &before {
            Some(b) if b.template == hash && b.restarted == *restarted => {
                (b.old.clone(), b.old_image.clone())
            }
            Some(b) => (b.revision(), b.image.clone()),
            None => (hash.clone(), image.clone()),
        };
        let same = before.as_ref().filter(|b| b.template == hash);
        let touched = same.map_or_else(String::new, |b| b.touched.clone());
        self.racks.insert(
            rack.clone(),
            Set {
                replicas: *members,
                partition: *partition,
                template: hash,
                spec,
                image,
                touched,
                restarted: restarted.clone(),
                parallel: *parallel,
                old,
                old_image,
                version: live.unwrap_or_default() + 1,
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
        if let Disk::Known { host_id, .. } = &volume.disk {
            assert!(
                !self.ring.iter().any(|n| n.host_id == *host_id),
                "a claim goes with its data"
            );
        }
        self.log.push(format!("delete {claim}"));
        self.disks.remove(pod);
    }
}
