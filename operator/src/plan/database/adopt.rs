//! Nodes of an operator version without agents and without records: each is taken over when its pod is changed for the
//! first time, which a user has consented to. Its data was never signed, so it is started only if it is the one node
//! that the others miss.

use readstates_operator_api::{DatabaseNode, DatabaseNodeState};

use super::{DatabaseTrouble, DatabaseWait, NodesStep, Sight, health, lost, ready, record};
use crate::world::PodSeen;

/// Begins with a pod that is not on record and whose disk holds data that was never signed.
pub(super) fn begin(
    sight: &Sight<'_>,
    nodes: &mut NodesStep,
    rack: &str,
    pod: &PodSeen,
) -> Option<DatabaseWait> {
    let host_id = match missed(sight, nodes, pod) {
        Ok(host_id) => host_id,
        Err(why) => {
            nodes.trouble = Some(DatabaseTrouble::DiskLost {
                pod: pod.name.clone(),
                words: format!(
                    "its disk holds data that is not signed, and it is not on record: it is started only as the one \
                     node that the others miss, and {why}; put the right volume back, or empty this one"
                ),
            });
            return None;
        }
    };
    let back = DatabaseNode {
        host_id,
        ..record::new(sight, &pod.name, rack, DatabaseNodeState::Joining)
    };
    let wait = |progress: &str| {
        Some(DatabaseWait::Joining {
            pod: pod.name.clone(),
            progress: progress.to_owned(),
        })
    };
    if back.host_id.is_some()
        && let Err(why) = ready::for_change(sight, nodes, Some(&back))
    {
        return Some(DatabaseWait::Health {
            step: format!("{} comes back to the database", pod.name),
            why,
        });
    }
    nodes.records.push(back);
    wait("it is its turn to come back on its own data")
}

/// Host ID of the node that must be this one. `None` while no node can be asked: it is the first one that is taken
/// over, and all the others serve.
fn missed(
    sight: &Sight<'_>,
    nodes: &NodesStep,
    pod: &PodSeen,
) -> Result<Option<String>, &'static str> {
    let mut members = health::members(&nodes.records);
    if !members.any(|member| health::view(sight, &member.name).is_ok()) {
        let others = sight
            .world
            .database_pods
            .iter()
            .filter(|p| p.name != pod.name);
        let serve = nodes.records.is_empty() && others.count() == unrecorded(sight, pod).len();
        return if serve {
            Ok(None)
        } else {
            Err("no other node can be asked")
        };
    }
    match lost::missing(sight, nodes).as_slice() {
        [one] => Ok(Some(one.clone())),
        [] => Err("they miss none"),
        _ => Err("they miss more than one"),
    }
}

/// The other pods that have no agent and serve, for all that Kubernetes knows.
pub(super) fn unrecorded<'a>(sight: &Sight<'a>, pod: &PodSeen) -> Vec<&'a PodSeen> {
    let pods = sight.world.database_pods.iter();
    pods.filter(|p| p.name != pod.name && !p.has_agent && p.ready && !p.terminating)
        .collect()
}
