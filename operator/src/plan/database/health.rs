//! Health of the nodes, as each of them sees all. Unknown and outdated observations count as
//! unhealthy.

use readstates_agent::wire::{Mode, NodeState, Phase, Report, View};
use readstates_operator_api::DatabaseNode;

use super::Sight;
use crate::world::{PodSeen, Seen};

/// How old an answer may be that something is decided by.
const FRESH_SECONDS: u64 = 15;

/// What the agent of exactly this pod said.
pub(super) fn phase<'a>(sight: &Sight<'a>, pod: &PodSeen) -> Result<&'a Phase, String> {
    if !pod.has_agent {
        return Err("its pod has no agent yet; see the condition RequiresUpdate".to_owned());
    }
    match sight.world.nodes.reports.get(&pod.name) {
        None => Err("it has no address yet".to_owned()),
        Some(Seen::Unknown(why)) => Err(why.clone()),
        Some(Seen::Known(Report {
            pod_uid,
            phase,
            identity: _,
        })) if Some(pod_uid) == pod.uid.as_ref() => Ok(phase),
        Some(Seen::Known(_)) => Err("another pod answers in its place".to_owned()),
    }
}

/// What a node sees, now.
pub(super) fn view<'a>(sight: &Sight<'a>, name: &str) -> Result<&'a View, String> {
    let view = last_view(sight, name)?;
    if view.age_seconds > FRESH_SECONDS {
        return Err(format!("its last answer is {} s old", view.age_seconds));
    }
    Ok(view)
}

/// What a node saw when it was last asked. What its agent says of jobs that were ordered is never old.
pub(super) fn last_view<'a>(sight: &Sight<'a>, name: &str) -> Result<&'a View, String> {
    let pod = sight.pod(name).ok_or("it has no pod")?;
    if pod.terminating {
        return Err("its pod is being stopped".to_owned());
    }
    match phase(sight, pod)? {
        Phase::Waiting { .. } => Err("it has not been started".to_owned()),
        Phase::Unreachable { error } => Err(error.clone()),
        Phase::Running(view) => Ok(view),
    }
}

/// The nodes that have joined and are not about to leave, repaired or not.
pub(super) fn members(records: &[DatabaseNode]) -> impl Iterator<Item = &DatabaseNode> {
    records.iter().filter(|r| r.is_member())
}

/// Every member serves, sees every other member, and sees no node that is not well. `except` is left out, both as a
/// node and in what the others see.
///
/// # Errors
/// The first violation.
pub(super) fn check(
    sight: &Sight<'_>,
    records: &[DatabaseNode],
    except: Option<&DatabaseNode>,
) -> Result<(), String> {
    check_but(sight, records, except.as_slice())
}

/// The same with several nodes left out.
///
/// # Errors
/// The first violation.
pub(super) fn check_but(
    sight: &Sight<'_>,
    records: &[DatabaseNode],
    except: &[&DatabaseNode],
) -> Result<(), String> {
    let counts = |r: &&DatabaseNode| except.iter().all(|e| e.name != r.name);
    let gone = |id: &String| except.iter().any(|e| e.host_id.as_ref() == Some(id));
    for member in members(records).filter(counts) {
        let name = &member.name;
        let view = view(sight, name).map_err(|why| format!("{name} cannot be asked: {why}"))?;
        if view.mode != Mode::Normal || !view.cql {
            return Err(format!("{name} does not serve (it is {})", mode(view.mode)));
        }
        for node in &view.nodes {
            let is = match (node.up, node.state) {
                _ if gone(&node.host_id) => continue,
                (true, NodeState::Normal) => continue,
                (false, _) => "down",
                (true, NodeState::Joining) => "joining",
                (true, NodeState::Leaving) => "leaving",
                (true, NodeState::Moving) => "moving",
                (true, NodeState::Other) => "in an unknown state",
            };
            return Err(format!(
                "{name} sees {} at {} {is}",
                who(records, &node.host_id),
                node.address
            ));
        }
        for other in members(records).filter(counts) {
            if !view
                .nodes
                .iter()
                .any(|n| Some(&n.host_id) == other.host_id.as_ref())
            {
                return Err(format!("{name} does not see {}", other.name));
            }
        }
    }
    Ok(())
}

/// A node's pod, if it is one of ours.
fn who(records: &[DatabaseNode], host_id: &str) -> String {
    let ours = records
        .iter()
        .find(|r| r.host_id.as_deref() == Some(host_id));
    ours.map_or_else(|| format!("node {host_id}"), |r| r.name.clone())
}

/// A mode in a sentence.
pub(super) fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Starting => "starting",
        Mode::Joining => "joining",
        Mode::JoinFailed => "in the middle of a failed join",
        Mode::Normal => "up",
        Mode::Leaving => "leaving",
        Mode::Decommissioned => "decommissioned",
        Mode::DecommissionFailed => "in the middle of a failed decommission",
        Mode::Drained => "drained",
        Mode::Other => "in an unknown state",
    }
}
