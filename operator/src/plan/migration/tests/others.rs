//! Moves that are in each other's way.

use super::*;

#[test]
fn of_two_moves_the_later_one_is_refused() {
    let other = |created: &str, cluster: &str, hosts: &[&str]| {
        let mut m = serving();
        m.external().contact_points = hosts.iter().map(|&host| host.to_owned()).collect();
        let target = m.spec.target;
        OtherMove {
            name: "other".to_owned(),
            created: Some(created.parse().unwrap()),
            cluster: Some(cluster.to_owned()),
            target: Some(target),
            complete: false,
        }
    };
    let beside = |other: OtherMove| {
        let mut m = serving();
        m.seen.others = vec![other];
        m.plan().reason
    };
    let (before, after) = ("2026-01-01T00:00:00Z", "2026-01-03T00:00:00Z");
    assert_eq!(beside(other(before, "chat", &["x"])), Reason::TargetInUse);
    assert_eq!(
        beside(other(before, "talk", &["new-2", "x"])),
        Reason::TargetInUse
    );
    assert_eq!(
        beside(other(before, "talk", &["x"])),
        Reason::AwaitingMembers
    );
    assert_eq!(
        beside(other(after, "chat", &["x"])),
        Reason::AwaitingMembers
    );
    let over = OtherMove {
        complete: true,
        ..other(before, "chat", &["x"])
    };
    assert_eq!(beside(over), Reason::AwaitingMembers);
}

#[test]
fn a_move_that_was_there_first_and_cannot_be_read_is_waited_for() {
    let unread = |created: &str| OtherMove {
        name: "other".to_owned(),
        created: Some(created.parse().unwrap()),
        cluster: Some("talk".to_owned()),
        target: None,
        complete: false,
    };
    let beside = |other: OtherMove| {
        let mut m = serving();
        m.seen.others = vec![other];
        m.plan()
    };
    let (before, after) = ("2026-01-01T00:00:00Z", "2026-01-03T00:00:00Z");
    let plan = beside(unread(before));
    assert_eq!(
        (plan.phase, plan.reason),
        (MigrationPhase::Waiting, Reason::NotObserved)
    );
    assert!(
        plan.words
            .starts_with("ReadStateMigration other was there first"),
        "{}",
        plan.words
    );
    let nameless = OtherMove {
        cluster: None,
        target: Some(serde_json::from_value(json!({ "cluster": "mail" })).unwrap()),
        ..unread(before)
    };
    assert_eq!(beside(nameless).reason, Reason::NotObserved);
    // One that is over, or came later, is in nobody's way.
    assert_eq!(beside(unread(after)).reason, Reason::AwaitingMembers);
    let over = OtherMove {
        complete: true,
        ..unread(before)
    };
    assert_eq!(beside(over).reason, Reason::AwaitingMembers);
    // What can be read of it counts first.
    let of_this = OtherMove {
        cluster: Some("chat".to_owned()),
        ..unread(before)
    };
    assert_eq!(beside(of_this).reason, Reason::TargetInUse);
}
