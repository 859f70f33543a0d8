//! Database nodes: their steps, each told once, and how full their disks are.

use kube::runtime::events::{Event, EventType};
use readstates_agent::wire::{Phase, Report};
use readstates_operator_api::{
    DatabaseNode, DatabaseNodeState, ReadStateClusterStatus, conditions::Reason,
};

use super::event::event;
use crate::world::{Seen, World};

/// What is free on the fullest disk, in whole GiB: a status that told every byte would be written at every look.
pub(super) fn free_gib(world: &World) -> Option<i64> {
    let reports = world.nodes.reports.values();
    let free = reports.filter_map(|seen| match seen {
        Seen::Known(Report {
            phase: Phase::Running(view),
            ..
        }) => Some(view.free_bytes >> 30),
        Seen::Known(Report {
            phase: Phase::Waiting { .. } | Phase::Unreachable { .. },
            ..
        })
        | Seen::Unknown(_) => None,
    });
    free.min().and_then(|gib| i64::try_from(gib).ok())
}

/// Whether a wait for this reason is one for a step that [`news`] tells of.
pub(super) fn tells(reason: &str) -> bool {
    [
        Reason::NodeJoining,
        Reason::NodeReplacing,
        Reason::NodeRepairing,
        Reason::NodeLeaving,
    ]
    .iter()
    .any(|r| r.as_str() == reason)
}

/// An event for each node that is somewhere else between joining and leaving than it was.
pub(super) fn news(
    before: Option<&ReadStateClusterStatus>,
    after: &ReadStateClusterStatus,
) -> Vec<Event> {
    let was = |node: &DatabaseNode| {
        let mut nodes = before?.database_nodes.iter();
        nodes.find(|n| n.name == node.name).map(|n| n.state)
    };
    let nodes = after.database_nodes.iter();
    let moved = nodes.filter(|node| was(node) != Some(node.state));
    moved
        .map(|node| {
            let (reason, words) = words(node, was(node));
            let note = format!("{} {words}", node.name);
            event(EventType::Normal, reason.as_str(), "Node", &note)
        })
        .collect()
}

fn words(node: &DatabaseNode, was: Option<DatabaseNodeState>) -> (Reason, String) {
    let id = node.host_id.as_deref().unwrap_or("not known yet");
    match node.state {
        DatabaseNodeState::Joining => (Reason::NodeJoining, "joins the database".to_owned()),
        DatabaseNodeState::Replacing => (
            Reason::NodeReplacing,
            format!("takes the place of node {id}, whose disk is lost"),
        ),
        DatabaseNodeState::Repairing => (
            Reason::NodeRepairing,
            format!("serves again, and its data is compared with the other copies (node {id})"),
        ),
        DatabaseNodeState::Leaving => (
            Reason::NodeLeaving,
            format!("leaves the database (node {id})"),
        ),
        DatabaseNodeState::Left => (
            Reason::NodeLeft,
            format!("has left the database (node {id})"),
        ),
        DatabaseNodeState::Member => {
            let stays = was == Some(DatabaseNodeState::Leaving);
            let word = if stays { "stays" } else { "is" };
            (
                Reason::NodeJoined,
                format!("{word} a member of the database (node {id})"),
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use readstates_operator_api::{
        DatabaseNodeState::{Joining, Leaving, Left, Member, Repairing, Replacing},
        Waiting,
    };

    use super::*;
    use crate::{fixtures::now, status::events};

    fn status(
        nodes: &[(&str, DatabaseNodeState)],
        waits: Option<Reason>,
    ) -> ReadStateClusterStatus {
        let node = |(name, state): &(&str, DatabaseNodeState)| DatabaseNode {
            name: (*name).to_owned(),
            rack: "a".to_owned(),
            host_id: Some("id-1".to_owned()),
            claim_uid: None,
            state: *state,
            since: Time(now()),
            attempts: 0,
            error: None,
            cleanup: None,
            repair: None,
            last_repaired: None,
            upgrade: None,
        };
        ReadStateClusterStatus {
            database_nodes: nodes.iter().map(node).collect(),
            waiting_on: waits.map(|reason| Waiting {
                reason: reason.to_string(),
                message: "some words".to_owned(),
                pod: nodes.last().map(|(name, _)| (*name).to_owned()),
                since: Time(now()),
            }),
            ..ReadStateClusterStatus::default()
        }
    }

    #[test]
    fn each_step_of_a_node_is_one_event() {
        let course = [
            status(&[], None),
            status(&[("a-0", Joining)], Some(Reason::NodeJoining)),
            status(&[("a-0", Joining)], Some(Reason::NodeJoining)),
            // Two joins in a row, with the same words for both in between.
            status(
                &[("a-0", Member), ("a-1", Joining)],
                Some(Reason::NodeJoining),
            ),
            status(&[("a-0", Member), ("a-1", Member)], None),
            status(&[("a-0", Replacing), ("a-1", Member)], None),
            status(
                &[("a-0", Repairing), ("a-1", Member)],
                Some(Reason::NodeRepairing),
            ),
            status(
                &[("a-0", Member), ("a-1", Leaving)],
                Some(Reason::NodeLeaving),
            ),
            status(&[("a-0", Member), ("a-1", Member)], None),
            status(&[("a-0", Member), ("a-1", Left)], None),
            status(&[("a-0", Member)], None),
        ];
        let told = course.windows(2).flat_map(|pair| {
            let events = events::news(Some(&pair[0]), &pair[1]);
            events
                .into_iter()
                .map(|e| format!("{}: {}", e.reason, e.note.unwrap()))
        });
        assert_eq!(
            told.collect::<Vec<_>>(),
            [
                "NodeJoining: a-0 joins the database",
                "NodeJoined: a-0 is a member of the database (node id-1)",
                "NodeJoining: a-1 joins the database",
                "NodeJoined: a-1 is a member of the database (node id-1)",
                "NodeReplacing: a-0 takes the place of node id-1, whose disk is lost",
                "NodeRepairing: a-0 serves again, and its data is compared with the other copies (node id-1)",
                "NodeJoined: a-0 is a member of the database (node id-1)",
                "NodeLeaving: a-1 leaves the database (node id-1)",
                "NodeJoined: a-1 stays a member of the database (node id-1)",
                "NodeLeft: a-1 has left the database (node id-1)",
            ]
        );
    }

    #[test]
    fn the_same_wait_for_another_pod_is_news() {
        let waits = |pod| status(&[(pod, Member)], Some(Reason::DatabaseRolling));
        let told = |before, after| {
            let events = events::news(Some(&waits(before)), &waits(after));
            let of_waits = events.iter().filter(|e| e.action == "Wait");
            of_waits.count()
        };
        assert_eq!(told("a-1", "a-1"), 0);
        assert_eq!(told("a-1", "a-0"), 1);
    }
}
