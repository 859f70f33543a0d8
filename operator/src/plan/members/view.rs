//! The cache pods by ordinal, with what is known of each, and the questions that decisions ask of them.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use readstates_ring::{Incarnation, RingTable, Slot};

use super::action::PodRef;
use crate::{
    plan::{WaitingOn, maintenance},
    spec::ValidatedCluster,
    templates::{self, Template},
    world::{Growth, Member, PodSeen, Seen, StatefulSetSeen, World},
};

/// How long a new pod is waited for before slots are spread over those that are there. Pulling an image
/// and binding a volume take less.
const PATIENCE: Duration = Duration::from_mins(2);

/// How long after its grace period a pod is waited for: beyond, its node does not answer.
const OVERDUE: Duration = Duration::from_mins(1);

/// How long a pod's node may take to give it memory: one that is full may get room, and a pod made anew may get another
/// node.
const GROWTH: Duration = Duration::from_mins(5);

/// One pod of the StatefulSet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pod<'a> {
    pub(super) ordinal: i32,
    pub(super) seen: &'a PodSeen,
    /// What its process says; `None` when none runs.
    pub(super) says: Option<&'a Seen<Member>>,
}

impl<'a> Pod<'a> {
    pub(super) fn name(&self) -> &'a str {
        &self.seen.name
    }

    /// What it says, when it says something.
    pub(super) fn member(&self) -> Option<&'a Member> {
        match self.says {
            Some(Seen::Known(member)) => Some(member),
            Some(Seen::Unknown(_)) | None => None,
        }
    }

    /// Whether it may be given slots now.
    pub(super) fn takes_slots(&self) -> bool {
        !self.seen.terminating && self.member().is_some_and(Member::takes_slots)
    }

    pub(super) fn draining(&self) -> bool {
        self.member().is_some_and(|m| m.ownership.draining)
    }

    pub(super) fn reference(&self) -> PodRef {
        PodRef {
            name: self.seen.name.clone(),
            uid: self.seen.uid.clone().unwrap_or_default(),
            ip: self.seen.ip.clone(),
            mutual_tls: self.seen.mutual_tls,
        }
    }
}

/// Everything a decision looks at.
pub(super) struct View<'a> {
    pub(super) cluster: &'a ValidatedCluster,
    pub(super) table: &'a RingTable,
    pub(super) set: Option<&'a StatefulSetSeen>,
    /// Pods the StatefulSet asks for now.
    pub(super) current: i32,
    /// The pods that exist, by ordinal.
    pub(super) pods: BTreeMap<i32, Pod<'a>>,
    /// The template that the StatefulSet should have, and the request that pods are restarted for.
    template: (&'a Template, Option<&'a String>),
    world: &'a World,
    now: Timestamp,
}

impl<'a> View<'a> {
    pub(super) fn new(
        cluster: &'a ValidatedCluster,
        world: &'a World,
        table: &'a RingTable,
        template: (&'a Template, Option<&'a String>),
        now: Timestamp,
    ) -> Self {
        let name = cluster.id.cache();
        let pod = |seen: &'a PodSeen| {
            let ordinal = ordinal(&seen.name, &name)?;
            let says = world.members.get(&seen.name);
            Some((
                ordinal,
                Pod {
                    ordinal,
                    seen,
                    says,
                },
            ))
        };
        Self {
            cluster,
            table,
            set: world.cache.as_ref(),
            current: world.cache.as_ref().map_or(0, |c| c.replicas),
            pods: world.cache_pods.iter().filter_map(pod).collect(),
            template,
            world,
            now,
        }
    }

    /// The pods that are to stay, whatever their template.
    pub(super) fn wanted(&self) -> impl Iterator<Item = &Pod<'a>> {
        self.pods.range(..self.cluster.replicas).map(|(_, pod)| pod)
    }

    /// Whether pods made from an older template can be told from others now.
    pub(super) fn observed(&self) -> bool {
        self.set.is_some_and(|set| set.observed)
    }

    /// Whether the StatefulSet is as wanted with `replicas` pods.
    pub(super) fn applied(&self, replicas: i32) -> bool {
        let (template, restarted) = self.template;
        let set = templates::cache(self.cluster, replicas, template, restarted);
        let wish = templates::applied_hash(&set);
        self.set.is_some_and(|set| set.applied_hash == Some(wish))
    }

    /// Whether it has to be replaced: its template is not the one new pods are made from, and what differs is more than
    /// what it can be told of.
    pub(super) fn outdated(&self, pod: &Pod<'_>) -> bool {
        self.of_another_template(pod) && !self.lasts(pod)
    }

    fn of_another_template(&self, pod: &Pod<'_>) -> bool {
        let revision = self.set.and_then(|set| set.update_revision.as_ref());
        self.observed() && revision.is_some() && pod.seen.revision.as_ref() != revision
    }

    /// Whether any pod has to be.
    pub(super) fn any_outdated(&self) -> bool {
        self.wanted().any(|pod| self.outdated(pod))
    }

    /// Whether all that a pod has for as long as it lives is as the template has it.
    fn lasts(&self, pod: &Pod<'_>) -> bool {
        let Some(set) = self.set else {
            return false;
        };
        let same = set.replace_hash().is_some()
            && set.replace_hash() == pod.seen.replace_hash.as_ref()
            && set.restarted() == pod.seen.restarted.as_ref();
        same && (has(pod, self.memory_of_new()) || self.grows(pod))
    }

    /// Bytes of memory that pods made now ask for.
    fn memory_of_new(&self) -> Option<u64> {
        templates::cache_memory(self.set?.template.as_ref()?.spec.as_ref()?)
    }

    /// Bytes of memory that the spec asks for.
    fn memory_wanted(&self) -> Option<u64> {
        templates::memory_of(&self.cluster.cache.resources)
    }

    /// Whether it may yet get the memory that it lacks while it runs.
    fn grows(&self, pod: &Pod<'_>) -> bool {
        match &pod.seen.growth {
            Some(Growth::Possible | Growth::NotNow(_)) => true,
            Some(Growth::Asked { since, words: _ }) => {
                since.is_some_and(|since| self.now.duration_since(since).unsigned_abs() < GROWTH)
            }
            Some(Growth::Refused(_)) | None => false,
        }
    }

    /// The pods that stay and lack memory which they may get while they run, with the bytes that they are to have.
    pub(super) fn growing(&self) -> impl Iterator<Item = (&Pod<'a>, &'a Growth, u64)> {
        // A StatefulSet that is still to change asks for other memory than the pods are to have in the end.
        let new = self.memory_of_new();
        let wanted = new.filter(|_| new == self.memory_wanted());
        self.wanted().filter_map(move |pod| {
            let lacks = self.of_another_template(pod) && !has(pod, wanted);
            let stays = !pod.seen.terminating && !pod.draining() && !self.outdated(pod);
            let growth = pod.seen.growth.as_ref().filter(|_| lacks && stays)?;
            Some((pod, growth, wanted?))
        })
    }

    /// The first member that keeps another number of states than it should and has the memory for it.
    pub(super) fn other_capacity(&self) -> Option<(&Pod<'a>, &'a Member)> {
        let wanted = self.cluster.cache.capacity_states;
        let mut members = self.wanted().filter_map(|pod| Some((pod, pod.member()?)));
        members.find(|(pod, member)| {
            let stays = !pod.seen.terminating && !pod.draining() && !self.outdated(pod);
            stays && member.capacity != wanted && has(pod, self.memory_wanted())
        })
    }

    /// Pods that were told to go, and may still do it by themselves.
    pub(super) fn stopping(&self) -> Vec<&Pod<'a>> {
        let stops = |pod: &&Pod<'_>| {
            let overdue = |deadline| self.now.duration_since(deadline).unsigned_abs() > OVERDUE;
            let past = |deadline: &Timestamp| *deadline < self.now && overdue(*deadline);
            pod.seen.terminating && !pod.seen.deadline.as_ref().is_some_and(past)
        };
        self.pods.values().filter(stops).collect()
    }

    /// Members that send or receive slots.
    pub(super) fn in_flight(&self) -> Vec<(&'a str, &'a Member)> {
        let moving = |pod: &Pod<'a>| Some((pod.name(), pod.member().filter(|m| m.in_flight())?));
        self.pods.values().filter_map(moving).collect()
    }

    /// Slots that the ring gives to this process.
    pub(super) fn owned_by(&self, incarnation: Incarnation) -> usize {
        self.table.owned_by(incarnation).count()
    }

    /// Slots that the ring gives to any process of this name.
    pub(super) fn owned_under(&self, name: &str) -> usize {
        let of_name = |slot: &Slot| self.table.owner(*slot).is_some_and(|m| m.name() == name);
        Slot::all().filter(of_name).count()
    }

    /// Slots that never had an owner.
    pub(super) fn unowned(&self) -> usize {
        Slot::all()
            .filter(|slot| self.table.config(*slot).is_none())
            .count()
    }

    /// Whether every wanted pod, but for this one, is ready, and takes slots.
    pub(super) fn others_ready(&self, but: i32) -> bool {
        let ready = |pod: &&Pod<'_>| pod.ordinal != but && pod.seen.ready && pod.takes_slots();
        let but_one = i32::from((0..self.cluster.replicas).contains(&but));
        let ready = self.wanted().filter(ready).count();
        i32::try_from(ready).is_ok_and(|ready| ready >= self.cluster.replicas - but_one)
    }

    /// Whether a pod that is not there yet may still come soon.
    pub(super) fn may_come(&self) -> bool {
        let missing = self.wanted().count() < usize::try_from(self.cluster.replicas).unwrap_or(0);
        let young = |pod: &Pod<'_>| {
            let age = |created: &Timestamp| self.now.duration_since(*created).unsigned_abs();
            pod.seen.created.as_ref().is_none_or(|c| age(c) < PATIENCE)
        };
        missing || self.wanted().any(|pod| !pod.takes_slots() && young(pod))
    }

    /// What the restart of a pod that serves waits for.
    pub(super) fn restart_waits(&self, pod: &Pod<'_>) -> Option<WaitingOn> {
        let pods = &self.world.cache_pods;
        maintenance::waits(self.cluster, self.world, pods, pod.name(), self.now)
    }

    /// What is waited for while pods are not all ready.
    pub(super) fn not_ready(&self, wanted: i32) -> WaitingOn {
        let trouble =
            |pod: &Pod<'_>| Some(format!("{}: {}", pod.name(), pod.seen.trouble.as_ref()?));
        let unknown = |pod: &Pod<'_>| match pod.says {
            Some(Seen::Unknown(why)) => Some(format!("{}: {why}", pod.name())),
            Some(Seen::Known(member)) if !member.takes_slots() && !member.ownership.draining => {
                Some(format!("{} holds no lease", pod.name()))
            }
            Some(Seen::Known(_)) | None => None,
        };
        let pods = || self.pods.values();
        let ready = pods().filter(|p| p.seen.ready && p.ordinal < wanted);
        WaitingOn::Cache {
            ready: i32::try_from(ready.count()).unwrap_or(i32::MAX),
            wanted,
            trouble: pods()
                .find_map(trouble)
                .or_else(|| pods().find_map(unknown)),
        }
    }
}

/// Whether a pod has this memory, if any.
fn has(pod: &Pod<'_>, memory: Option<u64>) -> bool {
    memory.is_none_or(|memory| pod.seen.memory.is_some_and(|has| has >= memory))
}

/// The ordinal of a pod of the StatefulSet `set`.
fn ordinal(pod: &str, set: &str) -> Option<i32> {
    let ordinal = pod.strip_prefix(set)?.strip_prefix('-')?;
    let digits = ordinal.bytes().all(|b| b.is_ascii_digit());
    let canonical = ordinal == "0" || !ordinal.starts_with('0');
    ordinal.parse().ok().filter(|_| digits && canonical)
}

#[cfg(test)]
mod tests {
    use super::ordinal;

    #[test]
    fn only_pods_of_the_set_have_an_ordinal() {
        assert_eq!(ordinal("chat-0", "chat"), Some(0));
        assert_eq!(ordinal("chat-12", "chat"), Some(12));
        for other in [
            "chat",
            "chat-",
            "chat-x",
            "chat-01",
            "chat-+1",
            "chat-db-a-0",
            "chats-0",
        ] {
            assert_eq!(ordinal(other, "chat"), None, "{other}");
        }
    }
}
