//! What is asked before a change of any kind begins: whether the nodes are well, and whether copies are being changed.

use readstates_operator_api::{DatabaseNode, DatabaseNodeState, DatabaseReplicationStage};

use super::{NodesStep, Sight, health};
use crate::templates;

/// Whether all nodes are well, so that one may join, leave or be told to do a job. `except` does not count.
pub(super) fn for_change(
    sight: &Sight<'_>,
    nodes: &NodesStep,
    except: Option<&DatabaseNode>,
) -> Result<(), String> {
    let others = |r: &&DatabaseNode| except.is_none_or(|e| e.name != r.name);
    if !health::members(&nodes.records).any(|r| others(&r)) {
        return Err("there is no other member".to_owned());
    }
    health::check(sight, &nodes.records, except)?;
    if except.is_none() && !sight.no_pod_turns() {
        return Err("a pod is being restarted".to_owned());
    }
    Ok(())
}

/// Whether there is no other node, but for such as have left.
pub(super) fn is_alone(nodes: &NodesStep, name: &str) -> bool {
    let gone = |r: &DatabaseNode| r.state == DatabaseNodeState::Left;
    nodes.records.iter().all(|r| r.name == name || gone(r))
}

/// Whether a step of a change of the number of copies has begun and not ended.
pub(super) fn changes_copies(nodes: &NodesStep) -> bool {
    let copies = nodes.replication.as_ref();
    copies.is_some_and(|copies| copies.stage != DatabaseReplicationStage::Stable)
}

/// Why no other change begins: copies are being made or given up. Until the schema Job is there, a node may still join or
/// leave, and the Job is made after that.
pub(super) fn against_while_copying(sight: &Sight<'_>, nodes: &NodesStep) -> Option<String> {
    let copies = nodes.replication.as_ref()?;
    let is_altered_now = || {
        let job = templates::schema_job_name(sight.cluster);
        job.is_some_and(|job| sight.world.jobs.contains_key(&job))
    };
    let blocks = match copies.stage {
        DatabaseReplicationStage::Stable => false,
        DatabaseReplicationStage::Altering => is_altered_now(),
        DatabaseReplicationStage::Repairing => true,
    };
    blocks.then(|| {
        format!(
            "the number of copies of each read state is being changed to {}",
            copies.keyspace
        )
    })
}
