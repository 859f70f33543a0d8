//! Updates the records from what was seen of the nodes: a node that serves is a member, with the identity that it has.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use readstates_agent::wire::Phase;
use readstates_operator_api::{DatabaseNode, DatabaseNodeState};

use super::{DatabaseTrouble, NodesStep, Sight, cleanup, health};

/// Fills `nodes.records` with the records as they are after this look.
pub(super) fn seen(sight: &Sight<'_>, nodes: &mut NodesStep) {
    nodes.records.clone_from(&sight.world.records);
    let mut joined = Vec::new();
    for pod in &sight.world.database_pods {
        let (Some((rack, _)), Ok(Phase::Running(view))) =
            (sight.place(&pod.name), health::phase(sight, pod))
        else {
            continue;
        };
        let Some(host_id) = view.serves() else {
            // The identity it will have: the others see it come, and must not wait for it to be gone.
            let joining = nodes.records.iter_mut().find(|r| {
                r.name == pod.name && r.state == DatabaseNodeState::Joining && r.host_id.is_none()
            });
            if let Some(joining) = joining {
                joining.host_id.clone_from(&view.host_id);
            }
            continue;
        };
        let member = DatabaseNode {
            host_id: Some(host_id.to_owned()),
            claim_uid: sight.claim_uid(&pod.name),
            ..new(sight, &pod.name, &rack.name, DatabaseNodeState::Member)
        };
        match nodes.records.iter_mut().find(|r| r.name == pod.name) {
            // It came up on data that was there before this cluster was: its owner's.
            None => nodes.records.push(member),
            Some(record) => match record.state {
                DatabaseNodeState::Joining => {
                    joined.push(member.name.clone());
                    *record = arrived(record, member);
                }
                // It has what it had, and so do the others.
                DatabaseNodeState::Replacing => *record = arrived(record, member),
                DatabaseNodeState::Member | DatabaseNodeState::Repairing
                    if record.host_id == member.host_id =>
                {
                    record.claim_uid = member.claim_uid.or_else(|| record.claim_uid.take());
                }
                DatabaseNodeState::Member | DatabaseNodeState::Repairing => {
                    nodes.trouble = Some(other_node(record, host_id));
                }
                DatabaseNodeState::Leaving | DatabaseNodeState::Left => {}
            },
        }
    }
    cleanup::note(sight, &mut nodes.records, &joined);
    nodes.records.sort_by(|a, b| a.name.cmp(&b.name));
}

/// A node that was rebuilt on an empty disk is repaired before it is a member like the others.
fn arrived(record: &mut DatabaseNode, member: DatabaseNode) -> DatabaseNode {
    let repair = record.repair.take();
    DatabaseNode {
        state: if repair.is_some() {
            DatabaseNodeState::Repairing
        } else {
            DatabaseNodeState::Member
        },
        repair,
        ..member
    }
}

/// A record that begins now.
pub(super) fn new(
    sight: &Sight<'_>,
    pod: &str,
    rack: &str,
    state: DatabaseNodeState,
) -> DatabaseNode {
    DatabaseNode {
        name: pod.to_owned(),
        rack: rack.to_owned(),
        host_id: None,
        claim_uid: sight.claim_uid(pod),
        state,
        since: Time(sight.now),
        attempts: 0,
        error: None,
        cleanup: None,
        repair: None,
        last_repaired: None,
        upgrade: None,
    }
}

fn other_node(record: &DatabaseNode, found: &str) -> DatabaseTrouble {
    let words = format!(
        "its disk holds node {found}, but the node on record is {}: put the right volume back, or remove \
         one of the two nodes from the database by hand",
        record.host_id.as_deref().unwrap_or("a different one")
    );
    DatabaseTrouble::DiskLost {
        pod: record.name.clone(),
        words,
    }
}
