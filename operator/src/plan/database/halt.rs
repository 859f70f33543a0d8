//! The database of a cluster that is stopped: no pods, each node on record and its volume where it is.

use readstates_agent::wire::{Mode, Phase};
use readstates_operator_api::DatabaseNodeState;

use super::{DatabaseWait, NodesStep, Sight, health, on_its_way};
use crate::{
    plan::WaitingOn,
    templates::{RackStep, Template},
};

/// Whether data is streamed to or from a node: the stop waits for that, since it would start over afterwards.
pub(super) fn data_moves(sight: &Sight<'_>, nodes: &NodesStep) -> bool {
    let Some(record) = on_its_way(&nodes.records) else {
        return false;
    };
    let Some(Ok(Phase::Running(view))) = sight.pod(&record.name).map(|p| health::phase(sight, p))
    else {
        return false;
    };
    match view.mode {
        Mode::Joining | Mode::Leaving => true,
        // The others have yet to confirm it.
        Mode::Decommissioned => record.state == DatabaseNodeState::Leaving,
        Mode::Starting
        | Mode::JoinFailed
        | Mode::Normal
        | Mode::DecommissionFailed
        | Mode::Drained
        | Mode::Other => false,
    }
}

/// No pods, of the templates that there are.
pub(super) fn racks(sight: &Sight<'_>) -> (Vec<RackStep>, Option<WaitingOn>) {
    let racks = sight.database.racks.iter().filter_map(|rack| {
        let seen = sight.world.racks.get(&rack.name)?;
        Some(RackStep {
            rack: rack.name.clone(),
            members: 0,
            partition: seen.partition,
            template: Template::as_seen(seen),
            restarted: seen.restarted().cloned(),
            parallel: seen.parallel,
            claim_size: seen.claim_size.clone(),
            version: seen.version.clone(),
        })
    });
    let pods = sight.world.database_pods.iter();
    let pods = pods.map(|pod| pod.name.clone()).collect();
    let waiting = WaitingOn::Database(DatabaseWait::Stopping { pods });
    (racks.collect(), Some(waiting))
}
