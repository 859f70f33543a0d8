//! A change of the database to another release: each stage of it, told once.

use kube::runtime::events::{Event, EventType};
use readstates_operator_api::{
    DatabaseUpgrade, DatabaseUpgradeStage, ReadStateClusterStatus, conditions::Reason, labels,
};

use super::event::event;

/// An event when a stage begins, and one at the end.
pub(super) fn news(
    before: Option<&ReadStateClusterStatus>,
    after: &ReadStateClusterStatus,
) -> Option<Event> {
    let before = before.and_then(|status| status.database_upgrade.as_ref());
    let (reason, note) = match (before, &after.database_upgrade) {
        (Some(was), Some(now)) if was.stage == now.stage && was.to == now.to => return None,
        (_, Some(now)) => begins(now),
        (Some(was), None) => ended(was),
        (None, None) => return None,
    };
    Some(event(EventType::Normal, reason.as_str(), "Upgrade", &note))
}

fn begins(upgrade: &DatabaseUpgrade) -> (Reason, String) {
    let DatabaseUpgrade {
        from,
        to,
        snapshot,
        stage,
        since: _,
    } = upgrade;
    match stage {
        DatabaseUpgradeStage::Snapshotting => (
            Reason::DatabaseUpgrading,
            format!("the nodes take the snapshot {snapshot}, to be changed from {from} to {to}"),
        ),
        DatabaseUpgradeStage::Restarting => (
            Reason::DatabaseUpgrading,
            format!("the nodes are restarted with {to}, one after another"),
        ),
        DatabaseUpgradeStage::Rewriting => (
            Reason::DatabaseUpgrading,
            format!("every node runs {to}; they write their data in its format"),
        ),
        DatabaseUpgradeStage::Releasing => (
            Reason::DatabaseUpgrading,
            format!("the nodes remove the snapshot {snapshot}"),
        ),
        DatabaseUpgradeStage::WentBack => (
            Reason::DatabaseWentBack,
            format!(
                "every node runs {from} again; the snapshot {snapshot} is kept until the next upgrade, or the annotation \
                 {}={snapshot}",
                labels::RELEASE_SNAPSHOT
            ),
        ),
    }
}

fn ended(upgrade: &DatabaseUpgrade) -> (Reason, String) {
    (
        Reason::DatabaseUpgradeEnded,
        format!("the snapshot {} is removed", upgrade.snapshot),
    )
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;
    use crate::fixtures::now;

    fn status(stage: Option<DatabaseUpgradeStage>) -> ReadStateClusterStatus {
        ReadStateClusterStatus {
            database_upgrade: stage.map(|stage| DatabaseUpgrade {
                from: "cassandra:5.0.8".to_owned(),
                to: "cassandra:5.0.9".to_owned(),
                snapshot: "before".to_owned(),
                stage,
                since: Time(now()),
            }),
            ..ReadStateClusterStatus::default()
        }
    }

    #[test]
    fn each_stage_of_an_upgrade_is_one_event() {
        use DatabaseUpgradeStage::{Releasing, Restarting, Rewriting, Snapshotting};
        let course = [
            None,
            Some(Snapshotting),
            Some(Snapshotting),
            Some(Restarting),
            Some(Rewriting),
            Some(Releasing),
            None,
            None,
        ]
        .map(status);
        let told = course.windows(2).filter_map(|pair| {
            let event = news(Some(&pair[0]), &pair[1])?;
            Some(format!("{}: {}", event.reason, event.note.unwrap()))
        });
        assert_eq!(
            told.collect::<Vec<_>>(),
            [
                "DatabaseUpgrading: the nodes take the snapshot before, to be changed from cassandra:5.0.8 to cassandra:5.0.9",
                "DatabaseUpgrading: the nodes are restarted with cassandra:5.0.9, one after another",
                "DatabaseUpgrading: every node runs cassandra:5.0.9; they write their data in its format",
                "DatabaseUpgrading: the nodes remove the snapshot before",
                "DatabaseUpgradeEnded: the snapshot before is removed",
            ]
        );
    }
}
