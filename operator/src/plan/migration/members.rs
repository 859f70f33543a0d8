//! Whether members are as copying needs them: each writes both databases, or none runs.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use readstates_operator_api::{
    MembersMeanwhile,
    conditions::{ConditionStatus, ConditionType, Reason},
};

use super::{MigrationPlan, Scene};
use crate::{names::MOVING_TO, validate::same_store, world::MemberStores};

/// What was seen of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MembersState {
    /// As they should be, and as new ones will be.
    Good,
    /// As they should be; the status of their cluster does not say so yet.
    Settling,
    /// Not so.
    Bad {
        words: String,
        /// What is done about it, and by whom.
        next: String,
    },
}

impl Scene<'_> {
    pub(super) fn members(&self) -> MembersState {
        match self.input.valid.members {
            MembersMeanwhile::Serve => self.writing_both(),
            MembersMeanwhile::Stop => self.stopped(),
        }
    }

    fn writing_both(&self) -> MembersState {
        let name = self.cluster_name();
        let overlay = self.cluster.spec.cache.pod_template.as_ref();
        let mut env = overlay.iter().flat_map(|pods| pods.env.iter().flatten());
        let wanted = env.find(|variable| variable.name == MOVING_TO);
        let given = wanted.and_then(|variable| variable.value.as_ref());
        if !given.is_some_and(|store| same_store(store, &self.target)) {
            let words = match given {
                None => format!("spec.cache.podTemplate.env has no {MOVING_TO}"),
                Some(other) => {
                    format!("{MOVING_TO} of spec.cache.podTemplate.env is {other}, not the target")
                }
            };
            let next = format!(
                "you: in spec.cache.podTemplate of ReadStateCluster {name}, set {}",
                self.variables()
            );
            return MembersState::Bad { words, next };
        }
        let seen = self.input.seen;
        let Some(template) = &seen.template else {
            let words = format!("ReadStateCluster {name} has no cache pods yet");
            let next = "the operator: starts the cache pods".to_owned();
            return MembersState::Bad { words, next };
        };
        let alone = |stores: &&MemberStores| !self.writes_both(stores);
        let behind: Vec<_> = seen.pods.iter().filter(alone).collect();
        match behind.as_slice() {
            [] if self.writes_both(template) => MembersState::Good,
            [] => MembersState::Bad {
                words: "new cache pods would not write the target yet".to_owned(),
                next: "the operator: gives new cache pods both databases".to_owned(),
            },
            behind => MembersState::Bad {
                words: format!(
                    "cache pods that do not write both databases: {}",
                    names(behind)
                ),
                next: "the operator: restarts the cache pods one by one".to_owned(),
            },
        }
    }

    fn writes_both(&self, stores: &MemberStores) -> bool {
        let is = |store: &Option<String>, wanted: &str| {
            store
                .as_ref()
                .is_some_and(|store| same_store(store, wanted))
        };
        is(&stores.store, &self.source) && is(&stores.moving_to, &self.target)
    }

    pub(super) fn stopped(&self) -> MembersState {
        let name = self.cluster_name();
        if !self.cluster.spec.stopped {
            let words = format!("ReadStateCluster {name} is not stopped");
            let next = format!("you: set spec.stopped of ReadStateCluster {name} to true");
            return MembersState::Bad { words, next };
        }
        let next = "the operator: stops the cache pods, which write what they hold first";
        let pods: Vec<_> = self.input.seen.pods.iter().collect();
        if !pods.is_empty() {
            let words = format!("cache pods still run: {}", names(&pods));
            let next = next.to_owned();
            return MembersState::Bad { words, next };
        }
        let status = self.cluster.status.as_ref();
        let conditions = status.map(|s| s.conditions.as_slice()).unwrap_or_default();
        let told = conditions
            .iter()
            .find(|c| c.type_ == ConditionType::Stopped.as_str())
            .filter(|c| c.observed_generation == Some(self.generation()));
        let is_over = |c: &&Condition| c.status == ConditionStatus::True.as_str();
        match told.filter(is_over) {
            // Its database stops after its cache has: that takes longer than anybody has to wait.
            None if told.is_some() && self.input.seen.at_zero && self.is_into() => {
                MembersState::Good
            }
            None => MembersState::Settling,
            Some(told) if told.reason == Reason::StoppedInOrder.as_str() => MembersState::Good,
            Some(told) => MembersState::Bad {
                words: format!(
                    "ReadStateCluster {name} was not stopped in order: {}",
                    told.message
                ),
                next: format!(
                    "you: set spec.stopped of ReadStateCluster {name} to false, wait until it is available, and stop \
                     it again"
                ),
            },
        }
    }

    /// Members are not as copying needs them: a person is told what to change, and meanwhile a Job copies ahead where
    /// that shortens the pause.
    pub(super) fn not_ready(&self, words: &str, next: &str) -> MigrationPlan {
        let prepare = self.prepare(words.to_owned(), next.to_owned());
        match self.input.valid.members {
            MembersMeanwhile::Serve => self.unless_suspended(prepare),
            MembersMeanwhile::Stop if self.cluster.spec.stopped => self.unless_suspended(prepare),
            MembersMeanwhile::Stop => self.ahead(prepare),
        }
    }
}

/// The first names, and how many others there are.
fn names(pods: &[&MemberStores]) -> String {
    const MOST: usize = 5;
    let told: Vec<_> = pods
        .iter()
        .take(MOST)
        .map(|pod| pod.name.as_str())
        .collect();
    match pods.len().saturating_sub(MOST) {
        0 => told.join(", "),
        more => format!("{} and {more} more", told.join(", ")),
    }
}
