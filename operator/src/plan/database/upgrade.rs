//! Another release of the engine, as a change with a way back.
//!
//! ```text
//!             all have a snapshot            all run `to`                all have rewritten
//! Snapshotting ────────────────▶ Restarting ────────────▶ Rewriting ────────────────▶ Releasing ──▶ (none)
//!      │                            ▲   │ `to` is `from`      │ other image asked for     ▲
//!      │ asked for `from` after all │   ▼                     │                           │
//!      │                            │ WentBack ───────────────┼───────────────────────────┤ allowed, or other image
//!      │                            └─────────────────────────┘                           │
//!      └──────────────────────────────────────────────────────────────────────────────────┘
//! ```
//! A node that joins before the first restart has no snapshot: its data is in those of the others.
//!
//! The stage is on record before anything is done about it, and every step of a node as well: an operator that starts
//! in between goes on from there. One node at a time, each step only while all nodes see each other up. What was
//! begun is never taken for done because a pod was restarted: only the agent's word counts, and a step is told again.
//!
//! `ScyllaDB` has no step that writes data anew: Restarting leads to Releasing.

mod agreement;
mod begin;
mod job;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use readstates_agent::{engine::Profile, wire::Phase};
use readstates_operator_api::{DatabaseUpgrade, DatabaseUpgradeStage};

pub(super) use self::{agreement::UNREACHABLE, begin::must_wait};
use super::{DatabaseWait, NodesStep, Sight, consent, health, jobs, on_its_way, outdated, version};
use crate::{
    spec::Rack,
    templates::{self, Template},
    world::{PodSeen, StatefulSetSeen},
};

/// Decides the stage, and takes the next step of it. What is waited for.
pub(super) fn decide(sight: &Sight<'_>, nodes: &mut NodesStep) -> Option<DatabaseWait> {
    let Some(recorded) = sight.world.upgrade.clone() else {
        return begin::begin(sight, nodes);
    };
    job::settle(sight, nodes, recorded.stage);
    let now = retargeted(sight, recorded.clone());
    let now = if now == recorded {
        go_on(sight, nodes, now)
    } else {
        Some(now)
    };
    let rewrote = recorded.stage == DatabaseUpgradeStage::Rewriting;
    if rewrote
        && now
            .as_ref()
            .is_some_and(|now| now.stage == DatabaseUpgradeStage::Restarting)
    {
        // Data that was rewritten is rewritten again after the restarts. The snapshots are those from before.
        job::keep_snapshots(nodes);
    }
    nodes.upgrade = now;
    let Some(upgrade) = nodes.upgrade.clone() else {
        for record in &mut nodes.records {
            record.upgrade = None;
        }
        return None;
    };
    match upgrade.stage {
        DatabaseUpgradeStage::Snapshotting
        | DatabaseUpgradeStage::Rewriting
        | DatabaseUpgradeStage::Releasing => job::next(sight, nodes, &upgrade),
        // The racks go on once it is on record.
        DatabaseUpgradeStage::Restarting if upgrade != recorded => first_restart(sight),
        DatabaseUpgradeStage::Restarting | DatabaseUpgradeStage::WentBack => None,
    }
}

/// The next stage, once this one is complete; none after the last.
fn go_on(
    sight: &Sight<'_>,
    nodes: &NodesStep,
    mut upgrade: DatabaseUpgrade,
) -> Option<DatabaseUpgrade> {
    let complete = match upgrade.stage {
        DatabaseUpgradeStage::Snapshotting => has_way_back(sight, nodes, &upgrade),
        DatabaseUpgradeStage::Rewriting | DatabaseUpgradeStage::Releasing => {
            job::all_done(nodes, upgrade.stage)
        }
        DatabaseUpgradeStage::Restarting => all_run(sight, nodes, &upgrade.to),
        DatabaseUpgradeStage::WentBack => {
            sight.world.consent.release_snapshot.as_ref() == Some(&upgrade.snapshot)
        }
    };
    if !complete {
        return Some(upgrade);
    }
    let next = match upgrade.stage {
        DatabaseUpgradeStage::Snapshotting => DatabaseUpgradeStage::Restarting,
        DatabaseUpgradeStage::Restarting if !version::differ(&upgrade.from, &upgrade.to) => {
            DatabaseUpgradeStage::WentBack
        }
        DatabaseUpgradeStage::Restarting if Profile::of(sight.database.engine).rewrites => {
            DatabaseUpgradeStage::Rewriting
        }
        DatabaseUpgradeStage::Restarting
        | DatabaseUpgradeStage::Rewriting
        | DatabaseUpgradeStage::WentBack => DatabaseUpgradeStage::Releasing,
        DatabaseUpgradeStage::Releasing => return None,
    };
    enter(sight, &mut upgrade, next);
    Some(upgrade)
}

fn first_restart(sight: &Sight<'_>) -> Option<DatabaseWait> {
    let rack = sight.database.racks.first()?;
    let seen = sight.world.racks.get(&rack.name)?;
    Some(DatabaseWait::Upgrading {
        pod: sight.name(rack, (seen.replicas - 1).max(0)),
        progress: "it is its turn to be restarted".to_owned(),
    })
}

/// Whether every member has its snapshot, or a user does without.
fn has_way_back(sight: &Sight<'_>, nodes: &NodesStep, upgrade: &DatabaseUpgrade) -> bool {
    let without = sight.world.consent.without_snapshot.as_ref();
    without == Some(&upgrade.to) || job::all_done(nodes, DatabaseUpgradeStage::Snapshotting)
}

/// Whether any pod may have another release than at first, or is to get the first one again.
fn has_begun(sight: &Sight<'_>, upgrade: &DatabaseUpgrade) -> bool {
    let mut racks = sight.world.racks.values();
    let another = racks.any(|seen| {
        let image = seen.template.as_deref().and_then(templates::database_image);
        image.is_none_or(|image| version::differ(&upgrade.from, image))
    });
    another || !version::differ(&upgrade.from, &upgrade.to)
}

/// The pod template of a rack that has no StatefulSet. It has the image that the other racks run, and the rack is upgraded
/// together with them later. If its own pods may have run the new image already, it has that one.
pub(super) fn template_of_new(sight: &Sight<'_>, rack: &Rack) -> Template {
    let mut racks = sight.database.racks.iter();
    let others = racks.find_map(|rack| {
        let seen = sight.world.racks.get(&rack.name)?;
        let image = templates::database_image(seen.template.as_deref()?)?;
        Some((image, seen.spec_hash.as_ref()))
    });
    let recorded = sight.world.upgrade.as_ref().map(|upgrade| {
        let before = match upgrade.stage {
            DatabaseUpgradeStage::Snapshotting => true,
            DatabaseUpgradeStage::Restarting => !has_begun(sight, upgrade),
            DatabaseUpgradeStage::Rewriting
            | DatabaseUpgradeStage::Releasing
            | DatabaseUpgradeStage::WentBack => false,
        };
        let image = if before { &upgrade.from } else { &upgrade.to };
        let same = others.filter(|(others, _)| others == image);
        (image.as_str(), same.and_then(|(_, hash)| hash))
    });
    match recorded.or(others) {
        Some((image, hash)) if version::differ(image, &sight.database.image) => {
            templates::template_with_image(sight.cluster, sight.database, rack, (image, hash))
        }
        Some(_) | None => Template::Wanted,
    }
}

/// The same with what is asked for by now.
fn retargeted(sight: &Sight<'_>, mut upgrade: DatabaseUpgrade) -> DatabaseUpgrade {
    let wanted = &sight.database.image;
    if *wanted == upgrade.to || !may_be_had(sight) {
        return upgrade;
    }
    match upgrade.stage {
        // No node has run another release.
        DatabaseUpgradeStage::Snapshotting if !version::differ(&upgrade.from, wanted) => {
            enter(sight, &mut upgrade, DatabaseUpgradeStage::Releasing);
        }
        DatabaseUpgradeStage::Snapshotting => upgrade.to.clone_from(wanted),
        // The snapshots stay, in whatever direction it goes.
        DatabaseUpgradeStage::Restarting | DatabaseUpgradeStage::Rewriting => {
            upgrade.to.clone_from(wanted);
            enter(sight, &mut upgrade, DatabaseUpgradeStage::Restarting);
        }
        // The next upgrade takes snapshots of its own.
        DatabaseUpgradeStage::WentBack if version::differ(&upgrade.from, wanted) => {
            enter(sight, &mut upgrade, DatabaseUpgradeStage::Releasing);
        }
        DatabaseUpgradeStage::Releasing | DatabaseUpgradeStage::WentBack => {}
    }
    upgrade
}

fn enter(sight: &Sight<'_>, upgrade: &mut DatabaseUpgrade, stage: DatabaseUpgradeStage) {
    if upgrade.stage != stage {
        (upgrade.stage, upgrade.since) = (stage, Time(sight.now));
    }
}

/// Whether every rack has the wanted image, or may get it: its release may follow, and a user has asked for it.
fn may_be_had(sight: &Sight<'_>) -> bool {
    sight.database.racks.iter().all(|rack| {
        let Some(seen) = sight.world.racks.get(&rack.name) else {
            return true;
        };
        let has = seen.template.as_deref().and_then(templates::database_image);
        has == Some(sight.database.image.as_str())
            || (consent::may_have_wanted(sight, rack, seen)
                && version::against(sight, seen).is_none())
    })
}

/// Whether every pod was made from a template with this image and is a member that serves.
fn all_run(sight: &Sight<'_>, nodes: &NodesStep, image: &str) -> bool {
    let runs = sight.database.racks.iter().all(|rack| {
        // One that is to come waits for the end of this. Nodes of one that was deleted are missed by the others.
        let Some(seen) = sight.world.racks.get(&rack.name) else {
            return true;
        };
        let template = seen.template.as_deref();
        seen.observed
            && template.and_then(templates::database_image) == Some(image)
            && sight
                .pods_of(rack)
                .all(|(_, pod)| pod.ready && !pod.terminating && !outdated(pod, seen))
    });
    runs && on_its_way(&nodes.records).is_none()
        && health::check(sight, &nodes.records, None).is_ok()
}

/// Why no pod that serves may be restarted now.
pub(super) fn against_restart(sight: &Sight<'_>, nodes: &NodesStep) -> Option<String> {
    let upgrade = sight.world.upgrade.as_ref()?;
    if let Some(busy) = jobs::running_step(sight, nodes) {
        return Some(busy);
    }
    match upgrade.stage {
        DatabaseUpgradeStage::Restarting => agreement::lacks(sight, upgrade),
        DatabaseUpgradeStage::Snapshotting
        | DatabaseUpgradeStage::Rewriting
        | DatabaseUpgradeStage::Releasing
        | DatabaseUpgradeStage::WentBack => None,
    }
}

/// Whether the pod is healthy and has yet to join. It keeps its image until it has joined: a node joins with the release
/// that the other nodes run.
pub(super) fn must_join(
    sight: &Sight<'_>,
    nodes: &NodesStep,
    seen: &StatefulSetSeen,
    pod: &PodSeen,
) -> bool {
    let is_member = health::members(&nodes.records).any(|record| record.name == pod.name);
    let answers = matches!(
        health::phase(sight, pod),
        Ok(Phase::Waiting { .. } | Phase::Running(_))
    );
    let others = health::members(&nodes.records).next().is_some();
    others && !is_member && answers && begin::changes(sight, seen).is_some()
}

/// Why no node may join or leave and no repair begins: nodes of two releases, or with data in the format of two, do not
/// stream to each other. A node whose disk is lost comes back all the same.
pub(super) fn against_moves(sight: &Sight<'_>, nodes: &NodesStep) -> Option<String> {
    let recorded = sight.world.upgrade.iter().chain(&nodes.upgrade);
    let mut between = recorded.filter(|upgrade| match upgrade.stage {
        // The first restart may have to wait for its window. An operator that keeps no record of this may have made
        // restarts before the snapshots.
        DatabaseUpgradeStage::Snapshotting | DatabaseUpgradeStage::Restarting => {
            has_begun(sight, upgrade)
        }
        DatabaseUpgradeStage::Rewriting => true,
        DatabaseUpgradeStage::Releasing | DatabaseUpgradeStage::WentBack => false,
    });
    let DatabaseUpgrade { from, to, .. } = between.next()?;
    Some(format!("the database is being changed from {from} to {to}"))
}
