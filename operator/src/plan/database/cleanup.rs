//! After nodes have joined: members drop what those took over, one at a time. Otherwise a disk that was to be relieved
//! stays as full as it was, and a node that leaves later gives ranges back to nodes with old copies of them.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use readstates_operator_api::{DatabaseNode, DatabaseNodeState, PendingCleanup};

use super::{DatabaseTrouble, DatabaseWait, NodesStep, Order, Sight, attempts, health, join};
use crate::engine::{Cleanup, CleanupJob, Job};

/// The next step of a member's cleanup.
enum Next {
    /// It has nothing more to drop.
    Done,
    /// It is told, and that is on record.
    Tell(Box<Order>),
    /// It gave up.
    Failed(String),
    /// It is not its turn yet, or on its way.
    Wait(String),
}

/// A node has joined: every other one may hold what is its now. Before there was a keyspace there was nothing to hold.
pub(super) fn note(sight: &Sight<'_>, records: &mut [DatabaseNode], joined: &[String]) {
    if joined.is_empty() || sight.world.schema.is_none() {
        return;
    }
    let others = records
        .iter_mut()
        .filter(|r| r.state == DatabaseNodeState::Member && !joined.contains(&r.name));
    for other in others {
        other.cleanup = Some(PendingCleanup {
            since: Time(sight.now),
            attempts: 0,
            told: None,
            error: None,
        });
    }
}

/// Goes on with the first member that has something to drop, once every node that is wanted is a member.
pub(super) fn decide(sight: &Sight<'_>, nodes: &mut NodesStep) -> Option<DatabaseWait> {
    if !all_in(sight, nodes) {
        return None;
    }
    let (record, pending) = pending(nodes)?;
    let wait = |progress: String| {
        Some(DatabaseWait::CleaningUp {
            pod: record.name.clone(),
            progress,
        })
    };
    match next(sight, nodes, &record, &pending) {
        Next::Done => {
            change(nodes, &record.name, |cleanup| *cleanup = None);
            wait("it is done".to_owned())
        }
        Next::Wait(progress) => wait(progress),
        Next::Tell(order) => {
            nodes.orders.push(*order);
            change(nodes, &record.name, |cleanup| {
                if let Some(cleanup) = cleanup {
                    cleanup.attempts += 1;
                    cleanup.told = Some(Time(sight.now));
                }
            });
            wait("it is told to".to_owned())
        }
        Next::Failed(error) => {
            if pending.attempts >= attempts::BOUND {
                nodes.trouble.get_or_insert(DatabaseTrouble::CleanupFailed {
                    pod: record.name.clone(),
                    attempts: pending.attempts,
                    error: error.clone(),
                });
            }
            change(nodes, &record.name, |cleanup| {
                if let Some(cleanup) = cleanup {
                    cleanup.error = Some(error.clone());
                }
            });
            let pause = attempts::pause(pending.attempts).as_secs();
            wait(format!(
                "attempt {} failed ({error}); the next one is {pause} s after it",
                pending.attempts
            ))
        }
    }
}

/// The first member that has something to drop.
fn pending(nodes: &NodesStep) -> Option<(DatabaseNode, PendingCleanup)> {
    health::members(&nodes.records).find_map(|r| Some((r.clone(), r.cleanup.clone()?)))
}

fn next(
    sight: &Sight<'_>,
    nodes: &NodesStep,
    record: &DatabaseNode,
    pending: &PendingCleanup,
) -> Next {
    let view = match health::view(sight, &record.name) {
        Ok(view) => view,
        Err(why) => return Next::Wait(format!("it cannot be asked: {why}")),
    };
    if !view.cleans_up {
        return Next::Wait(
            "its agent is of an earlier release; see the condition RequiresUpdate".to_owned(),
        );
    }
    let request = pending.since.0.to_string();
    let failed = match &view.cleanup {
        Some(CleanupJob {
            request: told,
            job: Job::Running,
        }) => {
            return Next::Wait(if *told == request {
                "it drops what other nodes have taken over".to_owned()
            } else {
                "an earlier cleanup still runs".to_owned()
            });
        }
        Some(CleanupJob { request: told, job }) if *told == request => match job {
            Job::Running | Job::Done => return Next::Done,
            Job::Failed { error } => Some(error.clone()),
        },
        Some(_) | None => None,
    };
    let told: Option<Timestamp> = pending.told.as_ref().map(|told| told.0);
    let waited = told.map_or(Duration::MAX, |told| {
        sight.now.duration_since(told).unsigned_abs()
    });
    if waited < attempts::pause(pending.attempts) {
        return match failed {
            Some(error) => Next::Failed(error),
            None => Next::Wait("it has been told to".to_owned()),
        };
    }
    if let Err(why) = join::ready_for_change(sight, nodes, None) {
        return Next::Wait(format!("it begins when all nodes are well: {why}"));
    }
    let pod = sight.pod(&record.name).cloned();
    let uid = pod.as_ref().and_then(|pod| pod.uid.clone());
    let (Some(pod), Some(pod_uid), Some(host_id)) = (pod, uid, record.host_id.clone()) else {
        return Next::Wait("it has no pod".to_owned());
    };
    if !recorded(sight, record) {
        return Next::Wait("it is its turn".to_owned());
    }
    Next::Tell(Box::new(Order::Cleanup {
        pod,
        order: Cleanup {
            pod_uid,
            host_id,
            request,
        },
    }))
}

/// Whether the cleanup was in the status already: only then may it be told.
fn recorded(sight: &Sight<'_>, record: &DatabaseNode) -> bool {
    let mut records = sight.world.records.iter();
    records.any(|r| r.name == record.name && r.cleanup == record.cleanup)
}

/// Whether every node that the spec asks for is a member: each that is still to join would have the others clean up
/// once more.
fn all_in(sight: &Sight<'_>, nodes: &NodesStep) -> bool {
    sight.database.racks.iter().all(|rack| {
        (0..rack.members).all(|ordinal| {
            let name = sight.name(rack, ordinal);
            health::members(&nodes.records).any(|r| r.name == name)
        })
    })
}

/// Why a node may not leave yet: another node would get ranges back of which it may have old copies.
pub(super) fn against_leaving(nodes: &NodesStep, leaver: &DatabaseNode) -> Option<String> {
    let mut others = health::members(&nodes.records).filter(|r| r.name != leaver.name);
    let other = others.find(|r| r.cleanup.is_some())?;
    Some(format!(
        "{} has not dropped yet what nodes that have joined took over, and would get some of it back",
        other.name
    ))
}

fn change(nodes: &mut NodesStep, name: &str, change: impl FnOnce(&mut Option<PendingCleanup>)) {
    if let Some(record) = nodes.records.iter_mut().find(|r| r.name == name) {
        change(&mut record.cleanup);
    }
}
