//! Repairs: up to when all copies are known to be equal, and the condition about it.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use readstates_agent::wire::{Phase, Report};
use readstates_operator_api::{
    DatabaseNode, DatabaseNodeState,
    conditions::{
        Condition,
        ConditionStatus::{self, False, True, Unknown},
        ConditionType, Reason,
    },
};

use super::Decided;
use crate::{
    spec::Store,
    world::{Seen, World},
};

/// Age of a repair that is too old: a day before the database forgets deletions (`gc_grace_seconds` of the table).
const OVERDUE: Duration = Duration::from_hours(9 * 24);
/// Failed attempts after which the condition says so.
const MANY: i32 = 3;

/// When the oldest of the last repairs began; nothing until every node was repaired.
pub(super) fn last(records: &[DatabaseNode]) -> Option<Time> {
    let members = records.iter().filter(|r| r.is_member());
    let all: Option<Vec<_>> = members.map(|r| r.last_repaired.clone()).collect();
    all?.into_iter().min_by_key(|at| at.0)
}

/// The condition; none where there is one copy of everything, or the database is not the operator's.
pub(super) fn condition(decided: &Decided<'_>, world: &World, now: Timestamp) -> Option<Condition> {
    let Store::Managed(database) = &decided.cluster.store else {
        return None;
    };
    if database.copies.keyspace < 2 {
        return None;
    }
    let of = |status: ConditionStatus, reason, message: String| {
        Some(Condition::new(
            ConditionType::Repaired,
            status,
            reason,
            message,
        ))
    };
    if database.repair_every.is_none() {
        let message = "spec.database.repair.enabled is false: the operator repairs nothing";
        return of(Unknown, Reason::RepairDisabled, message.to_owned());
    }
    let records = decided.records(world);
    if let Some(message) = failed(&records) {
        return of(False, Reason::RepairFailed, message);
    }
    let waits = decided.plan.database.repair_waits.as_ref();
    if let Some(names) = names(&records, |r| r.state == DatabaseNodeState::Repairing) {
        let waits = waits.map(|why| format!("; {why}")).unwrap_or_default();
        let message = format!(
            "{names}: rebuilt on an empty disk, and not repaired yet; no other change begins meanwhile{waits}"
        );
        return of(False, Reason::NodeRepairing, message);
    }
    if let Some(message) = overdue(&records, now) {
        return of(False, Reason::RepairOverdue, message);
    }
    if let Some(names) = names(&records, |r| !can_repair(world, &r.name)) {
        let message = format!(
            "the agents of {names} are of an earlier release that cannot repair; see the condition RequiresUpdate"
        );
        return of(Unknown, Reason::RepairUnsupported, message);
    }
    let message = match last(&records) {
        Some(at) => format!(
            "all data that was written before {:.0} has been repaired",
            at.0
        ),
        None => "the first repair of every node is not due, or is under way".to_owned(),
    };
    of(True, Reason::Repaired, message)
}

/// The nodes whose repair failed again and again, with the last error.
fn failed(records: &[DatabaseNode]) -> Option<String> {
    let failed = records.iter().find_map(|record| {
        let repair = record.repair.as_ref()?;
        (repair.failures() >= MANY).then_some((record, repair))
    });
    let (DatabaseNode { name, .. }, repair) = failed?;
    let failures = repair.failures();
    Some(match &repair.error {
        Some(error) => format!("{name} could not be repaired in {failures} attempts: {error}"),
        None => {
            format!("{name} could not be repaired in {failures} attempts; one more is under way")
        }
    })
}

fn overdue(records: &[DatabaseNode], now: Timestamp) -> Option<String> {
    let members = records.iter().filter(|r| r.is_member());
    let known = members.filter_map(|r| Some((r.repaired_up_to()?.0, &r.name)));
    let (since, name) = known.min()?;
    let late = since.checked_add(OVERDUE).is_ok_and(|at| at < now);
    late.then(|| {
        format!(
            "{name} was last repaired at {since:.0}; data that was deleted may come back 10 days after it"
        )
    })
}

/// Whether its agent can; one that is not asked, or does not answer, is not told to be too old.
fn can_repair(world: &World, pod: &str) -> bool {
    match world.nodes.reports.get(pod) {
        Some(Seen::Known(Report {
            phase: Phase::Running(view),
            ..
        })) => view.repairs,
        Some(Seen::Known(Report {
            phase: Phase::Waiting { .. } | Phase::Unreachable { .. },
            ..
        })) => true,
        Some(Seen::Unknown(_)) | None => true,
    }
}

/// The names of the members of this kind, if there are any.
fn names(records: &[DatabaseNode], of: impl Fn(&DatabaseNode) -> bool) -> Option<String> {
    let chosen = records.iter().filter(|r| r.is_member() && of(r));
    let names: Vec<_> = chosen.map(|r| r.name.as_str()).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

#[cfg(test)]
mod tests;
