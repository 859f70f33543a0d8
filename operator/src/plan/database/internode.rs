//! TLS between nodes that is switched on or off while they serve. One node after another is restarted, so that at any time
//! two kinds of nodes speak to each other; neighbouring stages can:
//!
//! | stage | connects | accepts |
//! |---|---|---|
//! | `Disabled` | in plain text | plain text |
//! | `Accepted` | in plain text | both |
//! | `Preferred` | over TLS | both |
//! | `Required` | over TLS | TLS |
//!
//! The stage is read from the templates that the racks have: nothing else is kept, and a change of mind half-way leads back.

use jiff::Timestamp;
use readstates_agent::engine::Profile;
use readstates_operator_api::InternodeTls;

use super::{Sight, outdated};
use crate::{
    spec::ValidatedCluster,
    templates,
    world::{StatefulSetSeen, World},
};

/// The stage that nodes get next; none where the operator runs no database that speaks TLS.
#[must_use]
pub fn stage(cluster: &ValidatedCluster, world: &World, now: Timestamp) -> Option<InternodeTls> {
    let sight = Sight::of(cluster, world, now)?;
    sight.database.tls.as_ref()?;
    let wanted = sight.database.wanted_internode();
    if Profile::of(sight.database.engine).internode_by_stages {
        Some(next(&racks(&sight), wanted))
    } else {
        Some(wanted)
    }
}

/// A rack whose nodes run, or may run soon.
struct RackSeen {
    /// Stage of the nodes that are made from its template.
    stage: InternodeTls,
    /// Whether each of its pods is there and was made from this template, as one that is made again will be.
    complete: bool,
}

fn racks(sight: &Sight<'_>) -> Vec<RackSeen> {
    let racks = &sight.database.racks;
    let wants_nodes = |name: &String| racks.iter().any(|r| r.name == *name && r.members > 0);
    let seen = sight.world.racks.iter();
    seen.filter(|(name, seen)| seen.replicas > 0 || wants_nodes(name))
        .map(|(name, seen)| RackSeen {
            stage: seen
                .template
                .as_deref()
                .map_or(InternodeTls::Disabled, |template| {
                    templates::internode_of(sight.database.engine, template)
                }),
            complete: is_complete(sight, name, seen),
        })
        .collect()
}

fn is_complete(sight: &Sight<'_>, name: &str, seen: &StatefulSetSeen) -> bool {
    // One that the spec does not have any more keeps its template.
    let Some(rack) = sight.database.racks.iter().find(|rack| rack.name == name) else {
        return false;
    };
    let as_the_template = sight.pods_of(rack).filter(|(ordinal, pod)| {
        *ordinal < seen.replicas && !pod.terminating && !outdated(pod, seen)
    });
    seen.observed
        && seen.revised
        && i32::try_from(as_the_template.count()).is_ok_and(|pods| pods == seen.replicas)
}

fn next(racks: &[RackSeen], wanted: InternodeTls) -> InternodeTls {
    let stages = || racks.iter().map(|rack| rack.stage);
    let (Some(lowest), Some(highest)) = (stages().min(), stages().max()) else {
        // No node has run yet.
        return wanted;
    };
    if lowest != highest {
        // One rack after another gets the template.
        return if wanted > lowest { highest } else { lowest };
    }
    if racks.iter().all(|rack| rack.complete) {
        towards(lowest, wanted)
    } else {
        lowest
    }
}

/// One step from this stage towards the wanted one.
fn towards(stage: InternodeTls, wanted: InternodeTls) -> InternodeTls {
    match (stage, wanted > stage) {
        _ if stage == wanted => stage,
        (InternodeTls::Disabled, true) | (InternodeTls::Preferred, false) => InternodeTls::Accepted,
        (InternodeTls::Accepted, true) | (InternodeTls::Required, false) => InternodeTls::Preferred,
        (InternodeTls::Preferred | InternodeTls::Required, true) => InternodeTls::Required,
        (InternodeTls::Disabled | InternodeTls::Accepted, false) => InternodeTls::Disabled,
    }
}

#[cfg(test)]
mod tests;
