//! Nodes whose disk came back empty: each takes its old place, rebuilt from the nodes that have copies. Others may be
//! away meanwhile, as long as a copy of everything is there: two that wait for each other would wait for ever.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use readstates_agent::wire::{Disk, Node, Phase};
use readstates_operator_api::{DatabaseNode, DatabaseNodeState, labels};

use super::{DatabaseTrouble, DatabaseWait, NodesStep, Sight, copies, health, ready, repair};

/// How long a pod may take to come back before its node is no longer waited for.
const COMING_BACK: Duration = Duration::from_mins(5);

/// Why a node may not be rebuilt now.
enum NotReady {
    Wait(String),
    /// What only a person can decide.
    Lost(String),
}

/// A disk that came back empty is never a new node: its data was counted with.
pub(super) fn begin(
    sight: &Sight<'_>,
    nodes: &mut NodesStep,
    lost: &DatabaseNode,
    disk: &Disk,
) -> Option<DatabaseWait> {
    let host_id = lost.host_id.clone()?;
    let trouble = |words: String| DatabaseTrouble::DiskLost {
        pod: lost.name.clone(),
        words,
    };
    match disk {
        Disk::Blank => {}
        Disk::Begun | Disk::Unmarked | Disk::Known { .. } => {
            nodes.trouble = Some(trouble(format!(
                "its disk holds data that is not signed as that of node {host_id}, which it is: put the right \
                 volume back, or empty this one to have the node rebuilt from the others"
            )));
            return None;
        }
    }
    if sight.database.copies.complete < 2 && !consented(sight, lost) {
        nodes.trouble = Some(trouble(format!(
            "its disk came back empty, and with one copy of everything no other node has a copy of \
             the data of node {host_id}: put the volume back, or accept the loss with the annotation {}={host_id}",
            labels::ACCEPT_DATA_LOSS
        )));
        return None;
    }
    // No other node is left to be asked, and the loss of everything is accepted.
    let others = if ready::is_alone(nodes, &lost.name) {
        Ok(Vec::new())
    } else {
        ready(sight, nodes, lost)
    };
    let repairing = repair::running(sight, nodes).map(str::to_owned);
    let progress = match others {
        Err(NotReady::Wait(why)) => format!("it begins when all others are well: {why}"),
        Err(NotReady::Lost(words)) => {
            nodes.trouble = Some(trouble(words));
            return None;
        }
        Ok(_) if seen_up(sight, nodes, lost, &host_id) => {
            "it begins when the others have noticed that it is down".to_owned()
        }
        Ok(_) if repairing.is_some() => {
            let pod = repairing.unwrap_or_default();
            format!("it begins when the repair of {pod} has ended, as it does while a node is down")
        }
        Ok(_) => {
            let record = nodes.records.iter_mut().find(|r| r.name == lost.name)?;
            let known = row(sight, &lost.name, &host_id).is_some();
            // It was removed from the ring by hand: its place is free.
            record.state = if known {
                DatabaseNodeState::Replacing
            } else {
                DatabaseNodeState::Joining
            };
            record.host_id = record.host_id.take().filter(|_| known);
            record.claim_uid = sight.claim_uid(&lost.name);
            record.since.0 = sight.now;
            (record.attempts, record.error) = (0, None);
            (record.repair, record.last_repaired) = (repair::of_rebuilt(sight), None);
            "it is its turn".to_owned()
        }
    };
    Some(DatabaseWait::Replacing {
        pod: lost.name.clone(),
        host_id,
        progress,
    })
}

/// Whether a user has accepted that what this node held is lost.
fn consented(sight: &Sight<'_>, lost: &DatabaseNode) -> bool {
    lost.host_id.is_some() && sight.world.consent.data_loss == lost.host_id
}

/// The same for one that is on record as replaced and has not begun: the nodes that are away, which the engine must
/// not wait for.
pub(super) fn still_ready(
    sight: &Sight<'_>,
    nodes: &mut NodesStep,
    lost: &DatabaseNode,
) -> Result<Vec<String>, String> {
    ready(sight, nodes, lost).map_err(|why| match why {
        NotReady::Wait(why) => why,
        NotReady::Lost(words) => {
            nodes.trouble = Some(DatabaseTrouble::DiskLost {
                pod: lost.name.clone(),
                words: words.clone(),
            });
            words
        }
    })
}

/// Whether the others can rebuild it: those that are there are well, those that are away are all lost or all of its
/// rack, and of everything there is a copy. Gives the identities of those that are away.
fn ready(
    sight: &Sight<'_>,
    nodes: &NodesStep,
    lost: &DatabaseNode,
) -> Result<Vec<String>, NotReady> {
    let others: Vec<_> = health::members(&nodes.records)
        .filter(|r| r.name != lost.name)
        .collect();
    let away: Vec<_> = others
        .iter()
        .copied()
        .filter(|r| health::view(sight, &r.name).is_err())
        .collect();
    if away.len() < others.len() {
        copies::on_record(sight).map_err(NotReady::Wait)?;
    }
    if away.is_empty() {
        let ready = ready::for_change(sight, nodes, Some(lost));
        return ready.map(|()| Vec::new()).map_err(NotReady::Wait);
    }
    let names: Vec<_> = away.iter().map(|r| r.name.as_str()).collect();
    let names = names.join(", ");
    let all_lost = away.iter().all(|r| is_blank(sight, &r.name));
    if away.len() == others.len() {
        return Err(if all_lost {
            NotReady::Lost(format!(
                "its disk came back empty, as did those of all others ({names}): put their volumes back, or delete the \
                 ReadStateCluster and its claims to start over"
            ))
        } else {
            NotReady::Wait(format!("none of the others can be asked ({names})"))
        });
    }
    let except: Vec<_> = away.iter().copied().chain([lost]).collect();
    health::check_but(sight, &nodes.records, &except).map_err(NotReady::Wait)?;
    for other in &away {
        let host_id = other.host_id.clone().unwrap_or_default();
        let name = &other.name;
        if seen_up(sight, nodes, other, &host_id) {
            let words = format!("{name} cannot be asked, and the others see it up");
            return Err(NotReady::Wait(words));
        }
        if may_come_back(sight, name) {
            let words = format!("{name} is away, and may be about to come back");
            return Err(NotReady::Wait(words));
        }
    }
    let copies = sight.database.copies.complete - copies_away(sight, &except);
    if copies < 1 && !consented(sight, lost) {
        let host_id = lost.host_id.as_deref().unwrap_or_default();
        return Err(if all_lost {
            NotReady::Lost(format!(
                "its disk came back empty, as did those of {names}, and some of what they held may have no copy \
                 left: put the volumes back, or accept the loss with the annotation {}={host_id}",
                labels::ACCEPT_DATA_LOSS
            ))
        } else {
            NotReady::Wait(format!(
                "some of its data may have no copy while {names} are away"
            ))
        });
    }
    if !all_lost && away.iter().any(|r| r.rack != lost.rack) {
        return Err(NotReady::Wait(format!(
            "{names} are away, and not all of its rack"
        )));
    }
    Ok(away.iter().filter_map(|r| r.host_id.clone()).collect())
}

/// Of how many copies of a row these nodes may have one, at most. Copies are on as many racks as there are.
fn copies_away(sight: &Sight<'_>, away: &[&DatabaseNode]) -> i32 {
    let factor = sight.database.copies.complete;
    // A rack whose nodes have all left has no copies.
    let racks: BTreeSet<&str> = health::members(&sight.world.records)
        .chain(away.iter().copied())
        .map(|r| r.rack.as_str())
        .collect();
    let racks = i32::try_from(racks.len()).unwrap_or(i32::MAX);
    let in_one_rack = (factor - racks + 1).max(1);
    let mut by_rack: BTreeMap<&str, i32> = BTreeMap::new();
    for node in away {
        *by_rack.entry(&node.rack).or_default() += 1;
    }
    let copies = by_rack.values().map(|nodes| (*nodes).min(in_one_rack));
    copies.sum::<i32>().min(factor)
}

/// Whether its disk, too, came back empty.
fn is_blank(sight: &Sight<'_>, name: &str) -> bool {
    let phase = sight.pod(name).map(|pod| health::phase(sight, pod));
    matches!(
        phase,
        Some(Ok(Phase::Waiting {
            disk: Disk::Blank,
            ..
        }))
    )
}

/// Whether its pod is young enough to be on its way up, with its disk.
fn may_come_back(sight: &Sight<'_>, name: &str) -> bool {
    let created = sight.pod(name).and_then(|pod| pod.created);
    let young = |at| sight.now.duration_since(at).unsigned_abs() < COMING_BACK;
    !is_blank(sight, name) && created.is_some_and(young)
}

fn seen_up(sight: &Sight<'_>, nodes: &NodesStep, lost: &DatabaseNode, host_id: &str) -> bool {
    health::members(&nodes.records)
        .filter(|r| r.name != lost.name)
        .filter_map(|r| health::view(sight, &r.name).ok())
        .any(|v| v.nodes.iter().any(|n| n.host_id == host_id && n.up))
}

/// The lost node as another node sees it.
pub(super) fn row(sight: &Sight<'_>, pod: &str, host_id: &str) -> Option<Node> {
    let others = sight.world.database_pods.iter().filter(|p| p.name != pod);
    others
        .filter_map(|p| health::view(sight, &p.name).ok())
        .find_map(|v| v.nodes.iter().find(|n| n.host_id == host_id).cloned())
}
