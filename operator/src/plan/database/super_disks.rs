//! Super-disks: what pods are told of their volumes, and which of them are at risk. While the local disks of one are
//! being filled, its data is on the network disk alone, and it reads as slowly: no other database node is disrupted
//! meanwhile, by us or by an eviction.

use std::collections::{BTreeMap, BTreeSet};

use readstates_operator_api::{DatabaseNodeState, SuperDiskState};

use super::{NodesStep, Sight, health};
use crate::super_disk::{Judgement, judge};

/// Decisions about super-disks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SuperDisksStep {
    /// What pods get to know about their volumes, by pod name.
    pub volumes: BTreeMap<String, VolumeEntry>,
    /// Racks whose claims were made for a node and not for a pod: a StatefulSet's claims cannot change.
    pub shared: BTreeSet<String>,
    /// Which pods may be evicted.
    pub evictions: Evictions,
}

/// What a pod gets to know about its volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeEntry {
    /// UID of its claim: the identity of its super-disk.
    pub claim_uid: String,
    /// UID of the pod that has this claim; `None` while no pod is on a machine with it. On a blank disk a pod waits for
    /// an entry that names it: one that does not may be of a claim that is gone.
    pub pod_uid: Option<String>,
    /// UID of the claim that this one was made from, so that a copy is told from the wrong disk.
    pub copy_of: Option<String>,
    /// Whether a member has had its data on exactly this volume. A blank disk is then not it.
    pub used_before: bool,
    /// Which leg counts, as a person has decided for the pod that is there now.
    pub keep: Option<Kept>,
}

/// A decision about one super-disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    pub pod_uid: String,
    /// `durable` or `fast`.
    pub leg: &'static str,
}

/// Which database pods may be evicted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Evictions {
    /// Any, one at a time.
    #[default]
    OneAtATime,
    /// Only this one: its super-disk is at risk already, and another node may be its cure.
    Only(String),
    /// None that is ready.
    None,
}

pub(super) fn decide(sight: &Sight<'_>) -> SuperDisksStep {
    if sight.database.super_disk.is_none() {
        return SuperDisksStep::default();
    }
    SuperDisksStep {
        volumes: volumes(sight),
        shared: shared(sight),
        evictions: evictions(sight),
    }
}

fn volumes(sight: &Sight<'_>) -> BTreeMap<String, VolumeEntry> {
    let claims = sight.world.nodes.claims.iter();
    let of_ours = claims.filter_map(|(claim, seen)| {
        let pod = claim.strip_prefix("data-")?;
        sight.place(pod)?;
        let entry = VolumeEntry {
            claim_uid: seen.uid.clone(),
            pod_uid: on_a_machine(sight, pod),
            copy_of: seen.copy_of.clone(),
            used_before: used_before(sight, pod, &seen.uid),
            keep: keep(sight, pod),
        };
        Some((pod.to_owned(), entry))
    });
    of_ours.collect()
}

fn shared(sight: &Sight<'_>) -> BTreeSet<String> {
    let racks = sight.world.racks.iter();
    let once = ["ReadWriteOncePod".to_owned()];
    racks
        .filter(|(_, set)| set.access_modes != once)
        .map(|(rack, _)| rack.clone())
        .collect()
}

/// UID of the pod, if it is on a machine: its claim cannot be replaced as long as the pod lives, and claims are read
/// after pods.
fn on_a_machine(sight: &Sight<'_>, pod: &str) -> Option<String> {
    let seen = sight.pod(pod).filter(|seen| seen.scheduled)?;
    seen.uid.clone()
}

/// What a user has decided for exactly this pod.
fn keep(sight: &Sight<'_>, pod: &str) -> Option<Kept> {
    let (pod_uid, leg) = sight.world.consent.keep_leg.as_ref()?.rsplit_once('.')?;
    let own = sight.pod(pod)?.uid.as_deref() == Some(pod_uid);
    let leg = ["durable", "fast"].into_iter().find(|l| *l == leg)?;
    own.then(|| Kept {
        pod_uid: pod_uid.to_owned(),
        leg,
    })
}

fn used_before(sight: &Sight<'_>, pod: &str, claim_uid: &str) -> bool {
    let mut records = sight.world.records.iter();
    records.any(|record| {
        let was_member = match record.state {
            DatabaseNodeState::Member
            | DatabaseNodeState::Repairing
            | DatabaseNodeState::Leaving
            | DatabaseNodeState::Left => true,
            DatabaseNodeState::Joining | DatabaseNodeState::Replacing => false,
        };
        was_member
            && record.name == pod
            && record.host_id.is_some()
            && record.claim_uid.as_deref() == Some(claim_uid)
    })
}

fn evictions(sight: &Sight<'_>) -> Evictions {
    if at_risk(sight).next().is_none() {
        return Evictions::OneAtATime;
    }
    let mut unwell = sight
        .world
        .database_pods
        .iter()
        .map(|pod| &pod.name)
        .filter(|name| !sight.pod(name).is_some_and(|p| p.ready) || is_at_risk(sight, name));
    match (unwell.next(), unwell.next()) {
        (Some(one), None) => Evictions::Only(one.clone()),
        (None | Some(_), _) => Evictions::None,
    }
}

/// The pods whose super-disk is not whole, with what it is.
pub(super) fn at_risk<'a>(sight: &Sight<'a>) -> impl Iterator<Item = (&'a str, Judgement)> {
    let disks = sight.world.super_disks.iter();
    disks
        .map(|(pod, seen)| (pod.as_str(), judge(seen)))
        .filter(|(_, judged)| match judged.state {
            SuperDiskState::Healthy => false,
            SuperDiskState::Waiting
            | SuperDiskState::Refused
            | SuperDiskState::Failed
            | SuperDiskState::Assembling
            | SuperDiskState::Rebuilding
            | SuperDiskState::FastLost
            | SuperDiskState::DurableLost
            | SuperDiskState::Unknown => true,
        })
}

/// The first super-disk of a member that is not whole, in words. That of `except` does not count: for it to go, or to
/// come with nothing on it, is no risk to others.
pub(super) fn member_at_risk(sight: &Sight<'_>, nodes: &NodesStep, except: &str) -> Option<String> {
    at_risk(sight)
        .filter(|(pod, _)| *pod != except)
        .find(|(pod, _)| health::members(&nodes.records).any(|r| r.name == *pod))
        .map(|(pod, judged)| format!("the super-disk of {pod}: {}", judged.message))
}

fn is_at_risk(sight: &Sight<'_>, pod: &str) -> bool {
    at_risk(sight).any(|(name, _)| name == pod)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        fixtures::super_disk,
        plan::{
            database::sim::{Sim, two_and_two},
            plan,
        },
        super_disk::{Condition, SuperDiskSeen},
    };

    const ALL: [&str; 4] = ["chat-db-a-0", "chat-db-a-1", "chat-db-b-0", "chat-db-b-1"];

    fn spec() -> String {
        format!(
            "{}  superDisk: {{ localDevices: [/dev/nvme0n1] }}\n",
            two_and_two()
        )
    }

    /// Up, with every super-disk whole.
    fn up() -> Sim {
        let mut sim = Sim::up(&spec());
        for pod in ALL {
            sim.super_disks
                .insert(pod.to_owned(), super_disk(Condition::Healthy));
        }
        sim
    }

    fn rebuilds(sim: &mut Sim, pod: &str) {
        sim.super_disks
            .insert(pod.to_owned(), super_disk(Condition::Rebuilding));
    }

    #[test]
    fn a_pod_is_told_its_claim_and_whether_a_member_was_on_it() {
        let mut sim = Sim::new(&spec());
        sim.turn(usize::MAX);
        let told = |sim: &Sim| {
            let volumes = sim.plan().super_disks.volumes;
            volumes
                .into_iter()
                .map(|(pod, entry)| (pod, entry.used_before))
                .collect::<Vec<_>>()
        };
        assert_eq!(told(&sim), [("chat-db-a-0".to_owned(), false)]);
        let mut sim = up();
        assert!(told(&sim).iter().all(|(_, used)| *used));
        assert_eq!(told(&sim).len(), 4);
        // Another volume under the same name is a new one, for the same pod.
        let volume = sim.disks.get_mut("chat-db-b-1").unwrap();
        let before = volume.uid.clone();
        volume.uid = "made-anew".to_owned();
        let volumes = sim.plan().super_disks.volumes;
        let entry = VolumeEntry {
            claim_uid: "made-anew".to_owned(),
            pod_uid: Some(sim.pods["chat-db-b-1"].uid.clone()),
            copy_of: None,
            used_before: false,
            keep: None,
        };
        assert_eq!(volumes["chat-db-b-1"], entry);
        assert_ne!(before, "made-anew");
    }

    #[test]
    fn a_claim_is_told_with_the_pod_that_has_it_once_that_is_on_a_machine() {
        let mut sim = up();
        let told = |sim: &Sim| {
            sim.plan().super_disks.volumes["chat-db-a-1"]
                .pod_uid
                .clone()
        };
        assert_eq!(told(&sim), Some(sim.pods["chat-db-a-1"].uid.clone()));
        // A pod without a machine does not keep its claim from being recreated.
        sim.stranded.insert("chat-db-a-1".to_owned());
        assert_eq!(told(&sim), None);
        sim.pods.remove("chat-db-a-1");
        assert_eq!(told(&sim), None);
    }

    #[test]
    fn a_pod_is_told_what_its_volume_is_a_copy_of() {
        let sim = up();
        let mut world = sim.world();
        let claim = world.nodes.claims.get_mut("data-chat-db-b-0").unwrap();
        claim.copy_of = Some("source".to_owned());
        let step = plan(&sim.cluster, &world, sim.clock).super_disks;
        let copies: Vec<_> = step
            .volumes
            .into_iter()
            .filter_map(|(pod, entry)| Some((pod, entry.copy_of?)))
            .collect();
        assert_eq!(copies, [("chat-db-b-0".to_owned(), "source".to_owned())]);
    }

    #[test]
    fn racks_keep_the_claims_that_they_were_made_with() {
        let sim = up();
        let mut world = sim.world();
        let set = |world: &mut crate::world::World, rack: &str, mode: &str| {
            world.racks.get_mut(rack).unwrap().access_modes = vec![mode.to_owned()];
        };
        set(&mut world, "a", "ReadWriteOncePod");
        set(&mut world, "b", "ReadWriteOnce");
        let shared =
            |world: &crate::world::World| plan(&sim.cluster, world, sim.clock).super_disks.shared;
        assert_eq!(shared(&world), ["b".to_owned()].into());
        // One that is not there yet is made for pods.
        world.racks.remove("b");
        assert_eq!(shared(&world), [].into());
    }

    #[test]
    fn a_decision_reaches_the_pod_that_it_names_and_no_later_one() {
        let mut sim = up();
        let uid = sim.pods["chat-db-a-1"].uid.clone();
        let decided = |sim: &mut Sim, text: String| {
            sim.consent.keep_leg = Some(text);
            let volumes = sim.plan().super_disks.volumes.into_iter();
            volumes
                .filter_map(|(pod, entry)| Some((pod, entry.keep?.leg)))
                .collect::<Vec<_>>()
        };
        let a1 = "chat-db-a-1".to_owned();
        assert_eq!(
            decided(&mut sim, format!("{uid}.durable")),
            [(a1, "durable")]
        );
        for odd in [
            format!("{uid}.both"),
            uid.clone(),
            "earlier.fast".to_owned(),
        ] {
            assert_eq!(decided(&mut sim, odd), []);
        }
    }

    #[test]
    fn without_super_disks_nothing_is_told_and_one_pod_may_be_evicted() {
        let sim = Sim::up(&two_and_two());
        assert_eq!(sim.plan().super_disks, SuperDisksStep::default());
    }

    #[test]
    fn the_one_at_risk_may_be_evicted_and_nobody_else() {
        let mut sim = up();
        let evictions = |sim: &Sim| sim.plan().super_disks.evictions;
        assert_eq!(evictions(&sim), Evictions::OneAtATime);
        rebuilds(&mut sim, "chat-db-a-1");
        assert_eq!(evictions(&sim), Evictions::Only("chat-db-a-1".to_owned()));
        // Two of them: each would be the second one of the other.
        let silent = SuperDiskSeen::Silent("timed out".to_owned());
        sim.super_disks.insert("chat-db-b-0".to_owned(), silent);
        assert_eq!(evictions(&sim), Evictions::None);
    }

    #[test]
    fn the_one_at_risk_stays_too_while_another_pod_is_away() {
        let mut sim = up();
        rebuilds(&mut sim, "chat-db-a-1");
        sim.ring
            .retain(|node| node.host_id != sim.records[2].host_id.clone().unwrap());
        let unready = sim.plan();
        assert_eq!(unready.super_disks.evictions, Evictions::None);
    }

    #[test]
    fn nobody_leaves_while_a_super_disk_is_at_risk() {
        let mut sim = up();
        rebuilds(&mut sim, "chat-db-a-0");
        let fewer = spec().replace("{ name: b, members: 2 }", "{ name: b, members: 1 }");
        sim.respec(&fewer);
        sim.run();
        assert_eq!(
            sim.waits(),
            "chat-db-b-1 does not leave the database, because the super-disk of chat-db-a-0: the local disks are \
             filled from the network disk, which serves meanwhile"
        );
        // The one at risk may go itself: that may be its cure.
        sim.super_disks
            .insert("chat-db-a-0".to_owned(), super_disk(Condition::Healthy));
        rebuilds(&mut sim, "chat-db-b-1");
        sim.run();
        assert_eq!(sim.members(), ALL[..3]);
    }

    #[test]
    fn nobody_joins_while_a_super_disk_is_at_risk() {
        let mut sim = up();
        rebuilds(&mut sim, "chat-db-a-0");
        // The new one's own is being made.
        rebuilds(&mut sim, "chat-db-b-2");
        let more = spec().replace("{ name: b, members: 2 }", "{ name: b, members: 3 }");
        sim.respec(&more);
        sim.run();
        assert_eq!(
            sim.waits(),
            "chat-db-b-2 joins the database when all nodes see each other up: the super-disk of chat-db-a-0: the \
             local disks are filled from the network disk, which serves meanwhile"
        );
        sim.super_disks
            .insert("chat-db-a-0".to_owned(), super_disk(Condition::Healthy));
        sim.run();
        assert_eq!(sim.members().len(), 5);
    }

    #[test]
    fn changed_pods_are_not_restarted_while_a_super_disk_is_at_risk() {
        let mut sim = up();
        rebuilds(&mut sim, "chat-db-a-0");
        sim.log.clear();
        sim.respec(&format!(
            "{}  resources: {{ limits: {{ memory: 9Gi }} }}\n",
            spec()
        ));
        sim.run();
        assert_eq!(sim.log, Vec::<String>::new());
        assert_eq!(
            sim.waits(),
            "chat-db-a-1 is restarted with what has changed when all nodes are well: the super-disk of chat-db-a-0: \
             the local disks are filled from the network disk, which serves meanwhile"
        );
        sim.super_disks
            .insert("chat-db-a-0".to_owned(), super_disk(Condition::Healthy));
        sim.run();
        assert_eq!(sim.log.len(), 4, "{:?}", sim.log);
    }
}
