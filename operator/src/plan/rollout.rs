//! Decides whether a cluster counts among those that restart serving pods. In: the places that there are, and what the
//! tiers have decided. Out: [`RolloutStep`], which ends up in the condition `RollingOut`.
//!
//! ```text
//!          a restart has its time           place recorded
//! Idle ──────────────────────────▶ Takes ───────────────────▶ Goes ──▶ Idle
//!  │                                 ▲                          every pod is of its template and ready,
//!  └── no place is free: Waits ──────┘                          or the next one waits for a time of its own
//! ```
//! A place is recorded before the first pod is restarted, so that an operator that restarts counts it.

use std::fmt;

use super::{StopStage, WaitingOn};
use crate::{
    rollouts::{Holder, Places},
    spec::ValidatedCluster,
    world::{Seen, StatefulSetSeen, World},
};

/// How many of those that have a place are named to those that have none.
const NAMED: usize = 3;

/// Whether a cluster restarts pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RolloutStep {
    /// There is nothing to restart, or not now.
    #[default]
    Idle,
    /// Other clusters have all places.
    Waits { words: String },
    /// It is to be recorded that it has a place.
    Takes,
    /// It restarts pods.
    Goes,
}

impl RolloutStep {
    /// The place was given to another cluster meanwhile.
    #[must_use]
    pub fn refused() -> Self {
        Self::Waits {
            words: "another cluster has just taken the last place".to_owned(),
        }
    }
}

/// What the restart of a pod waits for, if this cluster has no place.
pub(super) fn waits(places: &Places, pod: &str) -> Option<WaitingOn> {
    let limit = places.limit?;
    (!places.ours).then(|| WaitingOn::OtherClusters {
        pod: pod.to_owned(),
        limit,
        others: places.others.clone(),
    })
}

fn free(places: &Places) -> bool {
    let others = places.others.as_ref();
    let fewer = |limit| others.is_some_and(|others| others.len() < limit);
    places.limit.is_none_or(fewer)
}

/// A tier of pods.
pub(super) struct Tier<'a> {
    /// Whether it has pods that are to be restarted.
    pub(super) outdated: bool,
    /// What the next restart waits for.
    pub(super) waiting: Option<&'a WaitingOn>,
}

impl Tier<'_> {
    /// Whether pods of it are restarted as soon as the others are ready.
    fn goes(&self) -> bool {
        let later = matches!(
            self.waiting,
            Some(WaitingOn::Maintenance { .. } | WaitingOn::OtherClusters { .. })
        );
        self.outdated && !later
    }
}

pub(super) fn decide(
    cluster: &ValidatedCluster,
    world: &World,
    stage: &StopStage,
    tiers: [Tier<'_>; 2],
) -> RolloutStep {
    if cluster.paused || *stage != StopStage::Runs {
        return RolloutStep::Idle;
    }
    let places = &world.places;
    let no_place = |tier: &Tier<'_>| {
        tier.waiting
            .filter(|wait| matches!(wait, WaitingOn::OtherClusters { .. }))
            .map(ToString::to_string)
    };
    if let Some(words) = tiers.iter().find_map(no_place) {
        return if free(places) {
            RolloutStep::Takes
        } else {
            RolloutStep::Waits { words }
        };
    }
    let may = places.ours || places.limit.is_none();
    let goes = may && tiers.iter().any(Tier::goes);
    if goes || (places.ours && !settled(world)) {
        RolloutStep::Goes
    } else {
        RolloutStep::Idle
    }
}

/// Whether every pod that was restarted serves again.
fn settled(world: &World) -> bool {
    let has_all = |set: &StatefulSetSeen| set.observed && set.ready >= set.replicas;
    let pods = world.cache_pods.iter().chain(&world.database_pods);
    let at_work = world.members.values().any(|seen| match seen {
        Seen::Known(member) => member.ownership.draining || member.in_flight(),
        Seen::Unknown(_) => false,
    });
    world.cache.iter().chain(world.racks.values()).all(has_all)
        && pods.clone().all(|pod| pod.ready && !pod.terminating)
        && !at_work
}

/// Who has the places, for one that waits for one.
pub(super) fn tell(
    f: &mut fmt::Formatter<'_>,
    pod: &str,
    limit: usize,
    others: Option<&[Holder]>,
) -> fmt::Result {
    let Some(others) = others else {
        return write!(
            f,
            "{pod} is restarted when the operator has read all clusters, of which {limit} at most restart pods at once"
        );
    };
    if others.len() < limit {
        return write!(
            f,
            "{pod} is restarted once the status says that this cluster restarts pods"
        );
    }
    let named: Vec<_> = others.iter().take(NAMED).map(words).collect();
    write!(
        f,
        "{pod} is restarted when fewer than {limit} other clusters restart pods: {}",
        named.join(", ")
    )?;
    match others.len() - named.len() {
        0 => f.write_str(" do")?,
        1 => f.write_str(" and one more do")?,
        more => write!(f, " and {more} more do")?,
    }
    f.write_str(
        "; one that cannot go on keeps its place until it is cured, or spec.paused is set there",
    )
}

fn words(holder: &Holder) -> String {
    let Holder {
        name,
        since,
        degraded,
    } = holder;
    match (since, degraded) {
        (None, false) => name.clone(),
        (None, true) => format!("{name} (Degraded)"),
        (Some(since), false) => format!("{name} (since {since:.0})"),
        (Some(since), true) => format!("{name} (since {since:.0}, Degraded)"),
    }
}

#[cfg(test)]
mod tests;
