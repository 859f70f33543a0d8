//! The number of copies of each read state. It changes by one at a time, each step followed by a repair of every node:
//! ```text
//!        one more or one less is wanted          the schema Job has succeeded            every node was repaired
//! Stable ──────────────────────────────▶ Altering ──────────────────────────▶ Repairing ───────────────────────▶ Stable
//! ```
//! Reads and writes ask a majority of the copies, `n / 2 + 1` of `n`. Majorities of `n` and of `n + 1` copies add up to
//! `n + 2`: so each that wrote before a step and each that reads after it have a node in common, whether the copy that comes
//! or goes is in one of them or not. After two steps that is not so, and a read would miss what was acknowledged. A repair in
//! between gives every copy everything that was written before it.
//!
//! Every stage is on record before anything is done about it. Only then is the schema Job given the number, and a node
//! that loses its disk meanwhile is taken for one of as many copies as there were before.
//!
//! The first record is of what the keyspace has, and not of what is wanted: a resource that was created again finds the
//! keyspace of the one before on its volumes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use readstates_operator_api::{DatabaseReplication, DatabaseReplicationStage};

use super::{
    DatabaseWait, NodesStep, Sight, cleanup, health, keyspace, on_its_way, ready, repair, upgrade,
};
use crate::{templates, world::JobOutcome};

/// Puts on record how many copies the keyspace has, where that is not on record. What is waited for before the schema Job
/// may be made: it would alter a keyspace that has another number than it is given.
pub(super) fn learn(sight: &Sight<'_>, nodes: &mut NodesStep) -> Option<DatabaseWait> {
    if sight.world.replication.is_some() {
        return None;
    }
    let wanted = sight.database.replication_factor;
    let progress = match keyspace::found(sight) {
        // The Job makes it, with the number that is wanted.
        Ok(None) => return None,
        Ok(Some(copies)) => {
            nodes.replication = Some(first_record(sight, nodes, copies));
            if copies == wanted {
                return None;
            }
            format!("the keyspace has {copies}, which is put on record first")
        }
        Err(why) => format!("how many the keyspace has is not known: {why}"),
    };
    Some(DatabaseWait::Replicating {
        copies: wanted,
        progress,
    })
}

/// A number other than the wanted one may be that of a step whose record is lost: one more is taken after a repair of every
/// node. Agents that cannot repair are of a release in which the number could not change.
fn first_record(sight: &Sight<'_>, nodes: &NodesStep, copies: i32) -> DatabaseReplication {
    let able = |name: &str| health::last_view(sight, name).is_ok_and(|view| view.repairs);
    let changes = copies > 1 && copies != sight.database.replication_factor;
    let stage = if changes && health::members(&nodes.records).all(|r| able(&r.name)) {
        DatabaseReplicationStage::Repairing
    } else {
        DatabaseReplicationStage::Stable
    };
    DatabaseReplication {
        stage,
        ..stable(sight, copies)
    }
}

/// Whether nodes leave only when the number of copies has changed: it changes now, or becomes smaller, and with as many as
/// there are now too few nodes might remain.
pub(super) fn come_first(sight: &Sight<'_>, nodes: &NodesStep) -> bool {
    let wanted = sight.database.replication_factor;
    let copies = nodes.replication.as_ref();
    copies.is_some_and(|copies| wanted < copies.keyspace) || ready::changes_copies(nodes)
}

/// Decides the stage, and what is done for it. What is waited for.
pub(super) fn decide(sight: &Sight<'_>, nodes: &mut NodesStep) -> Option<DatabaseWait> {
    let recorded = sight.world.replication.clone()?;
    if recorded.stage != DatabaseReplicationStage::Repairing {
        // Until the schema Job has succeeded with this number, no other one is wanted of it.
        sight.world.schema.as_ref()?;
    }
    let wanted = sight.database.replication_factor;
    let (now, wait) = match recorded.stage {
        DatabaseReplicationStage::Stable => step(sight, nodes, &recorded, wanted),
        DatabaseReplicationStage::Altering => altering(sight, &recorded),
        DatabaseReplicationStage::Repairing => repairing(sight, nodes, &recorded),
    };
    let has_fewer = now.stage == DatabaseReplicationStage::Stable
        && recorded.stage != DatabaseReplicationStage::Stable
        && recorded.complete == recorded.keyspace
        && now.keyspace == wanted;
    let copies = now.keyspace;
    nodes.replication = Some(now);
    if !has_fewer {
        return wait;
    }
    cleanup::of_all(sight, &mut nodes.records);
    Some(DatabaseWait::Replicating {
        copies,
        progress: "every node drops next what it need not hold any more".to_owned(),
    })
}

fn stable(sight: &Sight<'_>, copies: i32) -> DatabaseReplication {
    DatabaseReplication {
        keyspace: copies,
        complete: copies,
        stage: DatabaseReplicationStage::Stable,
        since: Time(sight.now),
    }
}

/// One copy nearer to what is wanted, if that may begin.
fn step(
    sight: &Sight<'_>,
    nodes: &NodesStep,
    recorded: &DatabaseReplication,
    wanted: i32,
) -> (DatabaseReplication, Option<DatabaseWait>) {
    if is_unsure(sight) {
        return altering(sight, &altered_again(sight, recorded));
    }
    if recorded.keyspace == wanted {
        return (recorded.clone(), None);
    }
    let next = recorded.keyspace + (wanted - recorded.keyspace).signum();
    let wait = |progress| {
        Some(DatabaseWait::Replicating {
            copies: next,
            progress,
        })
    };
    match against(sight, nodes, next) {
        Some(why) => (recorded.clone(), wait(format!("it begins later: {why}"))),
        None => (
            DatabaseReplication {
                keyspace: next,
                complete: recorded.complete.min(next),
                stage: DatabaseReplicationStage::Altering,
                since: Time(sight.now),
            },
            wait("it is altered next".to_owned()),
        ),
    }
}

/// Why the number does not change now.
fn against(sight: &Sight<'_>, nodes: &NodesStep, next: i32) -> Option<String> {
    if next > 1 && sight.database.repair_every.is_none() {
        return Some(
            "spec.database.repair.enabled is false, and every node must be repaired after each step: set it to true"
                .to_owned(),
        );
    }
    if let Some(record) = on_its_way(&nodes.records) {
        return Some(format!("{} is on its way", record.name));
    }
    if !cleanup::all_in(sight, nodes) {
        return Some("not all nodes that spec.database.racks asks for are members".to_owned());
    }
    let unable = health::members(&nodes.records).find(|r| {
        let view = health::last_view(sight, &r.name);
        !view.is_ok_and(|view| view.repairs)
    });
    if let Some(record) = unable {
        return Some(format!(
            "the agent of {} cannot be asked, or is of an earlier release that cannot repair",
            record.name
        ));
    }
    if let Some(at) = sight.cluster.maintenance.opens(sight.now) {
        return Some(format!("the maintenance window opens at {at:.0}"));
    }
    repair::against(sight, nodes)
        .or_else(|| upgrade::against_moves(sight, nodes))
        .or_else(|| ready::for_change(sight, nodes, None).err())
}

/// Whether the keyspace has the number on record.
#[derive(PartialEq)]
enum Altered {
    Yes,
    /// The Job has still to run.
    NotYet,
    /// It has run, and one with another number may have run after it: an operator before this one made it late.
    Perhaps,
}

fn job(sight: &Sight<'_>) -> Altered {
    let Some(wanted) = templates::schema_job_name(sight.cluster) else {
        return Altered::NotYet;
    };
    let jobs = &sight.world.jobs;
    match jobs.get(&wanted).map(|job| &job.outcome) {
        Some(JobOutcome::Succeeded) if jobs.len() > 1 => Altered::Perhaps,
        Some(JobOutcome::Succeeded) => Altered::Yes,
        Some(JobOutcome::Running { .. } | JobOutcome::Failed { .. } | JobOutcome::Going) | None => {
            Altered::NotYet
        }
    }
}

/// Whether the keyspace may have another number than the one on record. For as long as it had, changes went to other nodes.
pub(super) fn is_unsure(sight: &Sight<'_>) -> bool {
    sight.world.replication.is_some() && job(sight) == Altered::Perhaps
}

fn altered_again(sight: &Sight<'_>, recorded: &DatabaseReplication) -> DatabaseReplication {
    DatabaseReplication {
        stage: DatabaseReplicationStage::Altering,
        since: Time(sight.now),
        ..recorded.clone()
    }
}

/// Until the keyspace has been altered.
fn altering(
    sight: &Sight<'_>,
    recorded: &DatabaseReplication,
) -> (DatabaseReplication, Option<DatabaseWait>) {
    if job(sight) != Altered::Yes {
        return (
            recorded.clone(),
            Some(DatabaseWait::Replicating {
                copies: recorded.keyspace,
                progress: "the schema Job alters the keyspace".to_owned(),
            }),
        );
    }
    // Of one copy there is nothing to compare.
    let stage = match recorded.keyspace {
        1 => DatabaseReplicationStage::Stable,
        _ => DatabaseReplicationStage::Repairing,
    };
    let now = DatabaseReplication {
        stage,
        since: Time(sight.now),
        ..recorded.clone()
    };
    let wait = (stage != DatabaseReplicationStage::Stable).then(|| DatabaseWait::Replicating {
        copies: recorded.keyspace,
        progress: "every node is repaired next".to_owned(),
    });
    (now, wait)
}

/// Until every node was repaired since then.
fn repairing(
    sight: &Sight<'_>,
    nodes: &mut NodesStep,
    recorded: &DatabaseReplication,
) -> (DatabaseReplication, Option<DatabaseWait>) {
    if is_unsure(sight) {
        return altering(sight, &altered_again(sight, recorded));
    }
    match repair::since(sight, nodes, &recorded.since) {
        Some(progress) => (
            recorded.clone(),
            Some(DatabaseWait::Replicating {
                copies: recorded.keyspace,
                progress,
            }),
        ),
        None => (stable(sight, recorded.keyspace), None),
    }
}

#[cfg(test)]
mod tests;
