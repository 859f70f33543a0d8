//! After the verification: members leave the source for the target.

use readstates_operator_api::MembersMeanwhile;

use super::{MigrationPhase, MigrationPlan, MoveRecord, Obstacle, Reason, Scene, in_the_way};
use crate::{names::MOVING_TO, validate::same_store, world::MemberStores};

/// Where a cache pod is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// It knows the source alone.
    Source,
    Both,
    /// It knows the target alone.
    Target,
    /// It knows something else.
    Elsewhere,
}

impl Scene<'_> {
    /// Everything was compared: members may be switched.
    pub(super) fn verified(&self, record: MoveRecord) -> MigrationPlan {
        let name = self.cluster_name();
        let users = record.verified.as_ref().and_then(|v| v.users);
        let users = users.map_or_else(|| "all".to_owned(), |users| format!("all {users}"));
        let next = match self.input.valid.members {
            _ if self.is_into() => format!(
                "you: set spec.stopped of ReadStateCluster {name} to true, and send callers to ReadStateCluster {}",
                self.input.valid.target.cluster().unwrap_or_default()
            ),
            MembersMeanwhile::Serve => format!(
                "you: in one change of ReadStateCluster {name}, copy spec.target to spec.database.external (and \
                 tlsSecretName to spec.database.tls), and remove {MOVING_TO} and READSTATES_TO_* from \
                 spec.cache.podTemplate.env"
            ),
            MembersMeanwhile::Stop => format!(
                "you: copy spec.target to spec.database.external of ReadStateCluster {name} (and tlsSecretName to \
                 spec.database.tls), then set spec.stopped to false"
            ),
        };
        let verified = MigrationPlan::waits(
            (MigrationPhase::Verified, Reason::MigrationVerified),
            format!(
                "{users} users were compared, and {} lacks nothing",
                self.target
            ),
            next,
            record,
        );
        match self.is_into() {
            true => self.hand_over(verified),
            false => verified,
        }
    }

    /// The cluster names the target.
    pub(super) fn at_target(&self) -> MigrationPlan {
        let name = self.cluster_name();
        let begun = self.input.before.and_then(|status| status.source.as_ref());
        if begun.is_none_or(|source| same_store(source, &self.target)) {
            let words = format!("ReadStateCluster {name} uses {} already", self.target);
            let nothing = MoveRecord::default();
            return in_the_way(Obstacle::refuse(Reason::SameDatabase, words), nothing);
        }
        if self.record.verified.is_none() {
            return self.too_early("no verification counts".to_owned());
        }
        let pods = &self.input.seen.pods;
        // After the verification none did, and with a pause none ran.
        if let Some(pod) = pods.iter().find(|pod| self.at(pod) == At::Source) {
            return self.too_early(format!("{} writes the source alone", pod.name));
        }
        if self.may_have_left_both() {
            let why = "its spec was changed more than once since its cache pods were last seen to write both \
                       databases, so that they may have written the source alone since";
            return self.too_early(why.to_owned());
        }
        let mut on_target = pods.iter().chain(&self.input.seen.template);
        let arrived = on_target.all(|stores| self.at(stores) == At::Target);
        match arrived && !pods.is_empty() && !self.cluster.spec.stopped {
            true => self.complete(),
            false => self.switching(),
        }
    }

    /// Whether members may have written the source alone before they got the target, between two looks. With a pause
    /// they would have had to start first, and would be there.
    fn may_have_left_both(&self) -> bool {
        let before = self.input.before.map(|status| status.phase);
        let is_new = before != Some(MigrationPhase::Switching);
        is_new && self.input.valid.members == MembersMeanwhile::Serve && !self.is_followed()
    }

    fn at(&self, stores: &MemberStores) -> At {
        let is = |store: &String, wanted: &str| same_store(store, wanted);
        match (&stores.store, &stores.moving_to) {
            (Some(store), None) if is(store, &self.target) => At::Target,
            (Some(store), None) if is(store, &self.source) => At::Source,
            (Some(store), Some(to)) if is(store, &self.source) && is(to, &self.target) => At::Both,
            (Some(_) | None, Some(_) | None) => At::Elsewhere,
        }
    }

    fn switching(&self) -> MigrationPlan {
        let name = self.cluster_name();
        let pods = &self.input.seen.pods;
        let behind: Vec<_> = pods
            .iter()
            .filter(|pod| self.at(pod) != At::Target)
            .collect();
        let (words, next) = match behind.as_slice() {
            [] if self.cluster.spec.stopped => (
                format!("ReadStateCluster {name} is stopped"),
                format!("you: set spec.stopped of ReadStateCluster {name} to false"),
            ),
            [] => (
                "no cache pod uses the target yet".to_owned(),
                "the operator: starts the cache pods on the target".to_owned(),
            ),
            [first, ..] => (
                format!(
                    "{} of {} cache pods do not use the target alone yet, {} for one",
                    behind.len(),
                    pods.len(),
                    first.name
                ),
                "the operator: restarts the cache pods one by one".to_owned(),
            ),
        };
        MigrationPlan::waits(
            (MigrationPhase::Switching, Reason::MembersSwitching),
            words,
            next,
            self.record.clone(),
        )
    }

    fn complete(&self) -> MigrationPlan {
        MigrationPlan::waits(
            (MigrationPhase::Complete, Reason::Moved),
            format!(
                "all cache pods of ReadStateCluster {} use {} alone; {} is as it was at the switch",
                self.cluster_name(),
                self.target,
                self.source
            ),
            format!(
                "you: give {} another claim, so that no forgotten member writes it (`readstates schema --claim \
                 moved-away --take-over-claim {}`), and keep it until you trust the target",
                self.source, self.ends.source.id.uid
            ),
            self.record.clone(),
        )
    }

    /// What the target lacks, members that use it do not see.
    fn too_early(&self, why: String) -> MigrationPlan {
        let name = self.cluster_name();
        let back = match self.input.valid.members {
            MembersMeanwhile::Serve => {
                format!(
                    "with {MOVING_TO}={} in spec.cache.podTemplate.env",
                    self.target
                )
            }
            MembersMeanwhile::Stop => "with spec.stopped".to_owned(),
        };
        MigrationPlan {
            is_bad: true,
            ..MigrationPlan::waits(
                (MigrationPhase::Preparing, Reason::SwitchedTooEarly),
                format!(
                    "ReadStateCluster {name} names the target, and {why}: cache pods that use the target alone do not see \
                 what it lacks, and what they write there for such a user replaces it"
                ),
                format!(
                    "you, at once: put spec.database.external of ReadStateCluster {name} back to {}, {back}",
                    self.source
                ),
                self.without_members(),
            )
        }
    }
}
