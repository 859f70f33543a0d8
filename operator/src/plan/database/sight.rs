//! What all parts of the database's plan look at, and what can be read off it.

use jiff::Timestamp;
use readstates_operator_api::DatabaseNode;

use crate::{
    spec::{Database, Rack, Store, ValidatedCluster, rack_set},
    templates,
    world::{PodSeen, StatefulSetSeen, World},
};

/// What all parts look at.
pub(super) struct Sight<'a> {
    pub(super) cluster: &'a ValidatedCluster,
    pub(super) database: &'a Database,
    pub(super) world: &'a World,
    pub(super) now: Timestamp,
}

impl<'a> Sight<'a> {
    /// None where the database is not one that the operator runs.
    pub(super) fn of(
        cluster: &'a ValidatedCluster,
        world: &'a World,
        now: Timestamp,
    ) -> Option<Self> {
        match &cluster.store {
            Store::Managed(database) => Some(Self {
                cluster,
                database,
                world,
                now,
            }),
            Store::External(_) | Store::Embedded(_) => None,
        }
    }

    /// The rack and ordinal that a pod's name stands for.
    pub(super) fn place(&self, pod: &str) -> Option<(&'a Rack, i32)> {
        self.database.racks.iter().find_map(|rack| {
            let rest = pod.strip_prefix(&self.cluster.id.rack(&rack.name))?;
            let ordinal = rest.strip_prefix('-')?;
            let digits = !ordinal.is_empty() && ordinal.bytes().all(|b| b.is_ascii_digit());
            Some((rack, digits.then(|| ordinal.parse().ok())??))
        })
    }

    /// The name of the rack that a pod's name stands for, which need not be on the list.
    pub(super) fn rack_of<'b>(&self, pod: &'b str) -> Option<&'b str> {
        let rest = pod.strip_prefix(&self.cluster.id.rack(""))?;
        Some(rest.rsplit_once('-')?.0)
    }

    /// The name that a pod had in the cluster whose volumes these are; none: they are its own.
    pub(super) fn named_before(&self, pod: &str) -> Option<String> {
        let before = self.database.volumes_of.as_ref()?;
        let (rack, ordinal) = self.place(pod)?;
        Some(format!("{}-{ordinal}", rack_set(&before.name, &rack.name)))
    }

    pub(super) fn pod(&self, name: &str) -> Option<&'a PodSeen> {
        self.world.database_pods.iter().find(|p| p.name == name)
    }

    pub(super) fn name(&self, rack: &Rack, ordinal: i32) -> String {
        format!("{}-{ordinal}", self.cluster.id.rack(&rack.name))
    }

    /// The pods of a rack with their ordinals, lowest first.
    pub(super) fn pods_of(&self, rack: &Rack) -> impl Iterator<Item = (i32, &'a PodSeen)> {
        let mut pods: Vec<_> = self
            .world
            .database_pods
            .iter()
            .filter_map(|pod| {
                let (place, ordinal) = self.place(&pod.name)?;
                (place.name == rack.name).then_some((ordinal, pod))
            })
            .collect();
        pods.sort_by_key(|(ordinal, _)| *ordinal);
        pods.into_iter()
    }

    pub(super) fn claim_uid(&self, pod: &str) -> Option<String> {
        let claim = self.world.nodes.claims.get(&self.cluster.id.claim(pod))?;
        Some(claim.uid.clone())
    }

    /// Whether the record was in the status already: only then may it be acted on.
    pub(super) fn recorded(&self, record: &DatabaseNode) -> bool {
        self.world
            .records
            .iter()
            .any(|r| r.name == record.name && r.state == record.state)
    }

    /// Whether any pod has yet to get the template of its rack.
    pub(super) fn any_outdated(&self) -> bool {
        self.database.racks.iter().any(|rack| {
            let seen = self.world.racks.get(&rack.name);
            seen.is_some_and(|seen| {
                seen.observed && self.pods_of(rack).any(|(_, pod)| outdated(pod, seen))
            })
        })
    }

    /// Whether no StatefulSet is about to restart a pod that it has been allowed to.
    pub(super) fn no_pod_turns(&self) -> bool {
        self.database.racks.iter().all(|rack| {
            let seen = self.world.racks.get(&rack.name);
            seen.is_none_or(|seen| {
                seen.observed
                    && self
                        .pods_of(rack)
                        .all(|(ordinal, pod)| ordinal < seen.partition || !outdated(pod, seen))
            })
        })
    }
}

/// Whether the pod was made from another template than the current one.
pub(super) fn outdated(pod: &PodSeen, seen: &StatefulSetSeen) -> bool {
    pod.revision != seen.update_revision
}

/// Whether this template is the one that the rack was last given.
pub(super) fn as_wanted(sight: &Sight<'_>, rack: &Rack, seen: &StatefulSetSeen) -> bool {
    let wanted = templates::template_hash(sight.cluster, sight.database, rack);
    seen.template_hash.as_ref() == Some(&wanted)
}
