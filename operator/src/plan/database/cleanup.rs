//! After nodes have joined: members drop what those took over, one at a time. Otherwise a disk that was to be relieved
//! stays as full as it was, and a node that leaves later gives ranges back to nodes with old copies of them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use readstates_agent::wire::Cleanup;
use readstates_operator_api::{DatabaseNode, PendingJob};

use super::{
    DatabaseTrouble, DatabaseWait, NodesStep, Order, Sight, attempts, copies, health,
    jobs::{self, Stage},
};

/// A node has joined: every other one may hold what is its now. Before there was a keyspace there was nothing to hold.
pub(super) fn note(sight: &Sight<'_>, records: &mut [DatabaseNode], joined: &[String]) {
    if joined.is_empty() || !copies::has_keyspace(sight) {
        return;
    }
    let others = records
        .iter_mut()
        .filter(|r| r.is_member() && !joined.contains(&r.name));
    for other in others {
        other.cleanup = Some(PendingJob::since(Time(sight.now)));
    }
}

/// There are fewer copies of everything: every member may hold what it should not any more.
pub(super) fn of_all(sight: &Sight<'_>, records: &mut [DatabaseNode]) {
    for record in records.iter_mut().filter(|r| r.is_member()) {
        record.cleanup = Some(PendingJob::since(Time(sight.now)));
    }
}

/// Goes on with the first member that has something to drop, once every node that is wanted is a member.
pub(super) fn decide(sight: &Sight<'_>, nodes: &mut NodesStep) -> Option<DatabaseWait> {
    if !all_in(sight, nodes) {
        return None;
    }
    let (record, pending) = pending(nodes)?;
    let progress = go_on(sight, nodes, &record, &pending);
    Some(DatabaseWait::CleaningUp {
        pod: record.name,
        progress,
    })
}

/// The first member that has something to drop.
fn pending(nodes: &NodesStep) -> Option<(DatabaseNode, PendingJob)> {
    health::members(&nodes.records).find_map(|r| Some((r.clone(), r.cleanup.clone()?)))
}

/// Takes its next step, and says which.
fn go_on(
    sight: &Sight<'_>,
    nodes: &mut NodesStep,
    record: &DatabaseNode,
    pending: &PendingJob,
) -> String {
    let view = match health::view(sight, &record.name) {
        Ok(view) => view,
        Err(why) => return format!("it cannot be asked: {why}"),
    };
    if !view.cleans_up {
        return "its agent is of an earlier release; see the condition RequiresUpdate".to_owned();
    }
    let doing = "it drops what other nodes have taken over";
    match jobs::stage(pending, view.cleanup.as_ref(), doing, sight.now) {
        Stage::Done => {
            change(nodes, &record.name, |cleanup| *cleanup = None);
            "it is done".to_owned()
        }
        Stage::Runs(progress) => progress,
        Stage::Told => "it has been told to".to_owned(),
        Stage::Failed(error) => {
            if pending.attempts >= attempts::BOUND {
                nodes.trouble.get_or_insert(DatabaseTrouble::CleanupFailed {
                    pod: record.name.clone(),
                    attempts: pending.attempts,
                    error: error.clone(),
                });
            }
            let words = attempts::failed(pending.attempts, Some(&error));
            change(nodes, &record.name, |cleanup| {
                if let Some(cleanup) = cleanup {
                    cleanup.error = Some(error);
                }
            });
            words
        }
        Stage::Due => match jobs::may_tell(sight, nodes, record) {
            Err(why) => why,
            Ok((pod, pod_uid, host_id)) => {
                let order = Cleanup {
                    pod_uid,
                    host_id,
                    request: jobs::request(pending),
                };
                nodes.orders.push(Order::Cleanup { pod, order });
                change(nodes, &record.name, |cleanup| {
                    if let Some(cleanup) = cleanup {
                        jobs::told(cleanup, sight.now);
                    }
                });
                "it is told to".to_owned()
            }
        },
    }
}

/// Whether every node that the spec asks for is a member: each that is still to join would have the others clean up
/// once more.
pub(super) fn all_in(sight: &Sight<'_>, nodes: &NodesStep) -> bool {
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

fn change(nodes: &mut NodesStep, name: &str, change: impl FnOnce(&mut Option<PendingJob>)) {
    if let Some(record) = nodes.records.iter_mut().find(|r| r.name == name) {
        change(&mut record.cleanup);
    }
}
