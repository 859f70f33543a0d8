//! A change of the number of copies: each stage of it, told once.

use kube::runtime::events::{Event, EventType};
use readstates_operator_api::{
    DatabaseReplication, DatabaseReplicationStage, ReadStateClusterStatus, conditions::Reason,
};

use super::event::event;

/// An event when a stage begins, and one at the end of each step.
pub(super) fn news(
    before: Option<&ReadStateClusterStatus>,
    after: &ReadStateClusterStatus,
) -> Option<Event> {
    let was = before?.database_replication.as_ref()?;
    let now = after.database_replication.as_ref()?;
    if (was.stage, was.keyspace) == (now.stage, now.keyspace) {
        return None;
    }
    let DatabaseReplication { keyspace, .. } = now;
    let copies = match keyspace {
        1 => "1 copy".to_owned(),
        _ => format!("{keyspace} copies"),
    };
    let (reason, note) = match now.stage {
        DatabaseReplicationStage::Altering => (
            Reason::ReplicationChanging,
            format!(
                "the keyspace is altered to {copies} of each read state, from {}",
                was.keyspace
            ),
        ),
        DatabaseReplicationStage::Repairing => (
            Reason::ReplicationChanging,
            format!("the keyspace has {copies} of each read state; every node is repaired"),
        ),
        DatabaseReplicationStage::Stable => (
            Reason::ReplicationChanged,
            format!("each read state has {copies}"),
        ),
    };
    Some(event(
        EventType::Normal,
        reason.as_str(),
        "Replicate",
        &note,
    ))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;
    use crate::fixtures;

    fn at(keyspace: i32, stage: DatabaseReplicationStage) -> ReadStateClusterStatus {
        ReadStateClusterStatus {
            database_replication: Some(DatabaseReplication {
                keyspace,
                complete: 2,
                stage,
                since: Time(fixtures::now()),
            }),
            ..ReadStateClusterStatus::default()
        }
    }

    #[test]
    fn each_stage_of_a_change_is_one_event() {
        use DatabaseReplicationStage::{Altering, Repairing, Stable};
        let statuses = [
            at(2, Stable),
            at(3, Altering),
            at(3, Altering),
            at(3, Repairing),
            at(3, Stable),
        ];
        let told: Vec<_> = statuses
            .windows(2)
            .filter_map(|pair| news(Some(&pair[0]), &pair[1]))
            .map(|event| format!("{}: {}", event.reason, event.note.unwrap_or_default()))
            .collect();
        assert_eq!(
            told,
            [
                "ReplicationChanging: the keyspace is altered to 3 copies of each read state, from 2",
                "ReplicationChanging: the keyspace has 3 copies of each read state; every node is repaired",
                "ReplicationChanged: each read state has 3 copies",
            ]
        );
        assert!(news(None, &statuses[0]).is_none());
    }
}
