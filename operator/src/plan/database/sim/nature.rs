//! Events that need no operator: controllers, kubelets, nodes, disks.

use std::collections::BTreeSet;

use readstates_agent::{
    engine::Snapshots,
    wire::{Disk, Job, NodeState, RequestedJob, UpgradeStep},
};
use readstates_operator_api::DatabaseNode;

use super::{Pod, Set, Sim, Volume};
use crate::plan::database::version;

impl Sim {
    /// Controllers, kubelets and databases do what they would within a while.
    pub(crate) fn move_on(&mut self) {
        self.clock += jiff::SignedDuration::from_secs(10);
        // Nodes: what was begun ends.
        if self.join_fails {
            let joining = self.ring.iter().filter(|n| n.state == NodeState::Joining);
            self.failed.extend(joining.map(|n| n.host_id.clone()));
        }
        for node in &mut self.ring {
            if node.state == NodeState::Joining && !self.failed.contains(&node.host_id) {
                node.state = NodeState::Normal;
                let pod = self
                    .pods
                    .iter()
                    .find(|(_, p)| p.host_id.as_ref() == Some(&node.host_id));
                if let Some((name, _)) = pod {
                    let host_id = node.host_id.clone();
                    let volume = self.disks.get_mut(name).unwrap();
                    volume.of = Some(host_id.clone());
                    let pod = Some(name.clone());
                    volume.disk = Disk::Known { host_id, pod };
                }
            }
        }
        let joined = |id: &str| {
            let mut ring = self.ring.iter();
            ring.any(|n| n.host_id == id && n.state == NodeState::Normal)
        };
        let replaced = self.replaces.iter().filter(|(new, _)| joined(new));
        let replaced: Vec<_> = replaced.map(|(_, old)| old.clone()).collect();
        self.ring.retain(|n| !replaced.contains(&n.host_id));
        let down = self.ring.iter().any(|n| !n.up);
        let (mut taken, mut repaired) = (Vec::new(), Vec::new());
        for (name, pod) in &mut self.pods {
            let failed = |words: &str| Job::Failed {
                error: words.to_owned(),
            };
            if let Some(job) = running(&mut pod.cleanup) {
                *job = if self.cleanup_fails {
                    failed("No space left on device")
                } else {
                    Job::Done
                };
            }
            if let Some(job) = running(&mut pod.repair) {
                if down {
                    *job = failed("Endpoint died");
                } else if self.repair_fails.contains(name) {
                    *job = failed("Validation failed");
                } else if !self.repairs_last {
                    *job = Job::Done;
                    repaired.push(name.clone());
                }
            }
            if let Some(job) = running(&mut pod.upgrade) {
                if let Some(words) = &self.upgrade_fails {
                    *job = failed(words);
                } else if !self.upgrades_last {
                    *job = Job::Done;
                    taken.extend(pod.step.clone().map(|step| (name.clone(), step)));
                }
            }
            if pod.decommission == Some(Job::Running) {
                pod.decommission = Some(Job::Done);
                pod.left = true;
                self.gone.extend(pod.host_id.clone());
                self.ring
                    .retain(|n| Some(&n.host_id) != pod.host_id.as_ref());
            }
        }
        for pod in repaired {
            self.unequal.remove(&pod);
        }
        for (pod, step) in taken {
            self.has_taken(&pod, step);
        }
        for (rack, set) in self.racks.clone() {
            self.move_set(&rack, &set);
        }
    }

    /// One change a turn, as an ordered StatefulSet; of one that is not, all pods start at once.
    fn move_set(&mut self, rack: &str, set: &Set) {
        let name = |ordinal| format!("chat-db-{rack}-{ordinal}");
        for ordinal in set.replicas..8 {
            self.stop(&name(ordinal));
        }
        for ordinal in 0..set.replicas {
            let pod = name(ordinal);
            let (revision, image) = if ordinal >= set.partition {
                (set.revision(), &set.image)
            } else {
                (set.old.clone(), &set.old_image)
            };
            let is_new = !self.pods.contains_key(&pod);
            if is_new {
                self.start(&pod, &revision, image);
            }
            if (is_new || !self.ready(&pod)) && !set.parallel {
                return;
            }
        }
        if !(0..set.replicas).all(|ordinal| self.ready(&name(ordinal))) {
            return;
        }
        for ordinal in (set.partition..set.replicas).rev() {
            let pod = name(ordinal);
            if self.pods[&pod].revision != set.revision() {
                self.log.push(format!("restart {pod}"));
                self.gets_image(&pod, &set.image);
                self.stop(&pod);
                return;
            }
        }
        // Every pod is ready; once all are of this revision, new ones get no other.
        let of_this = |ordinal| self.pods[&name(ordinal)].revision == set.revision();
        if (0..set.replicas).all(of_this)
            && let Some(live) = self.racks.get_mut(rack)
        {
            live.old = set.revision();
            live.old_image.clone_from(&set.image);
        }
    }

    /// A step of an upgrade has come to its end.
    fn has_taken(&mut self, pod: &str, step: UpgradeStep) {
        let images = self.images().len();
        let disk = self.disks.get_mut(pod).unwrap();
        match step {
            UpgradeStep::Snapshot(name) => {
                self.steps.push(format!("snapshot {pod}"));
                disk.snapshots.insert(name);
            }
            UpgradeStep::Rewrite => {
                assert_eq!(
                    images, 1,
                    "{pod} writes its data while another release runs"
                );
                self.steps.push(format!("rewrite {pod}"));
            }
            UpgradeStep::Release(_) => {
                assert_eq!(
                    images, 1,
                    "{pod} has no way back while another release runs"
                );
                self.steps.push(format!("release {pod}"));
                // And what an earlier upgrade has left.
                disk.snapshots.clear();
            }
        }
    }

    /// A pod is restarted, perhaps with another image: then there is a way back.
    fn gets_image(&mut self, pod: &str, image: &str) {
        let before = &self.pods[pod].image;
        if before == image {
            return;
        }
        let another = version::differ(before, image);
        self.steps.push(format!("{pod} gets {image}"));
        let without = self.consent.without_snapshot.is_some();
        // A node that has joined or was rebuilt meanwhile has its data from the others.
        let kept = |record: &DatabaseNode| {
            let disk = self.disks.get(&record.name);
            record.upgrade.is_none() || disk.is_none_or(|disk| !disk.snapshots.is_empty())
        };
        let any = !self.snapshots().is_empty();
        assert!(
            !another
                || without
                || self.records.is_empty()
                || (any && self.records.iter().all(kept)),
            "{pod} gets {image} and there is no way back: {:?}",
            self.steps
        );
    }

    fn start(&mut self, pod: &str, revision: &str, image: &str) {
        let uid = self.uuid();
        self.disks.entry(pod.to_owned()).or_insert_with(|| Volume {
            uid: format!("claim-{uid}"),
            disk: Disk::Blank,
            of: None,
            snapshots: BTreeSet::new(),
        });
        let ip = format!("10.0.0.{}", self.serial);
        let mut started = Pod {
            created: self.clock,
            uid,
            revision: revision.to_owned(),
            ip: ip.clone(),
            host_id: None,
            decommission: None,
            cleanup: None,
            repair: None,
            upgrade: None,
            step: None,
            snapshots: Snapshots::default(),
            image: image.to_owned(),
            left: false,
        };
        // It finds the data that it is told is its own, and starts by itself; without an agent it starts on whatever
        // there is.
        let own = match self.disk(pod) {
            Disk::Known { host_id, .. } if self.identities.get(pod) == Some(&host_id) => {
                Some(host_id)
            }
            Disk::Unmarked if !self.has_agent(&started) => self.disks[pod].of.clone(),
            Disk::Known { .. } | Disk::Blank | Disk::Begun | Disk::Unmarked => None,
        };
        if let Some(host_id) = own.filter(|_| !self.stranded.contains(pod))
            && self.bad_template.as_deref() != Some(revision)
        {
            self.come_up(pod, &host_id, ip);
            started.host_id = Some(host_id);
        }
        self.pods.insert(pod.to_owned(), started);
    }

    /// A node is up again on its own data.
    pub(super) fn come_up(&mut self, pod: &str, host_id: &str, ip: String) {
        assert!(
            !self.gone.contains(host_id),
            "{pod} starts on what a node left behind"
        );
        if let Some(node) = self.ring.iter_mut().find(|n| n.host_id == host_id) {
            assert!(!node.up, "{pod} is a second node {host_id}");
            node.up = true;
            node.address = ip;
            // What it was giving away it has still, and it says so again.
            if node.state == NodeState::Leaving {
                node.state = NodeState::Normal;
            }
        }
    }

    /// The pod goes; what it was in the ring is down, and forgotten if it was on its way in.
    pub(crate) fn stop(&mut self, pod: &str) {
        if let Some(gone) = self.pods.remove(pod) {
            self.ring.retain(|node| {
                Some(&node.host_id) != gone.host_id.as_ref() || node.state != NodeState::Joining
            });
            for node in &mut self.ring {
                if Some(&node.host_id) == gone.host_id.as_ref() {
                    node.up = false;
                }
            }
        }
    }

    /// A user scales the StatefulSet of a rack by hand.
    pub(crate) fn scale(&mut self, rack: &str, replicas: i32) {
        let set = self.racks.get_mut(rack).unwrap();
        (set.replicas, set.version) = (replicas, set.version + 1);
        for ordinal in replicas..8 {
            self.stop(&format!("chat-db-{rack}-{ordinal}"));
        }
    }

    /// A user restarts a rack with `kubectl rollout restart`.
    pub(crate) fn restart_rack(&mut self, rack: &str) {
        self.racks.get_mut(rack).unwrap().touched.push('+');
    }

    /// A user deletes the StatefulSet of a rack, with its pods.
    pub(crate) fn delete_set(&mut self, rack: &str) {
        self.scale(rack, 0);
        self.racks.remove(rack);
    }

    /// The machine under a pod is lost, and with it the only way to its volume.
    pub(crate) fn lose_machine(&mut self, pod: &str) {
        self.stop(pod);
        self.stranded.insert(pod.to_owned());
    }

    /// The disk under a pod is lost, with the pod.
    pub(crate) fn lose_disk(&mut self, pod: &str) {
        self.stop(pod);
        self.disks.remove(pod);
    }
}

/// The job that is on the way.
fn running(job: &mut Option<RequestedJob>) -> Option<&mut Job> {
    let job = job.as_mut().map(|job| &mut job.job);
    job.filter(|job| **job == Job::Running)
}
