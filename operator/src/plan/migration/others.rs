//! Moves that are in each other's way: of two, the one that was there first goes on.

use readstates_operator_api::MigrationTarget;

use super::{MoveInput, Obstacle, Reason};
use crate::{spec::MoveTarget, world::OtherMove};

/// Another move of this cluster, or to this target, that was there first; or one that may be that.
pub(super) fn in_use(input: &MoveInput<'_>) -> Option<Obstacle> {
    let own = (input.created, &input.owner.id.name);
    let cluster = &input.spec.cluster;
    let first = || {
        let others = input.seen.others.iter();
        others.filter(|other| !other.complete && (other.created, &other.name) < own)
    };
    let is_of_one = |other: &OtherMove| other.cluster.as_ref() == Some(cluster);
    let is_to_one = |other: &OtherMove| {
        let theirs = other.target.as_ref();
        theirs.is_some_and(|theirs| is_one(&input.valid.target, theirs))
    };
    if let Some(other) = first().find(|other| is_of_one(other) || is_to_one(other)) {
        let what = match (&other.cluster, is_of_one(other)) {
            (_, true) => format!("moves ReadStateCluster {cluster}"),
            (Some(theirs), false) => format!("moves ReadStateCluster {theirs} to this target"),
            (None, false) => "moves another table to this target".to_owned(),
        };
        let words = format!(
            "ReadStateMigration {} {what} already: delete one of the two",
            other.name
        );
        return Some(Obstacle::refuse(Reason::TargetInUse, words));
    }
    let unknown = first().find(|other| other.cluster.is_none() || other.target.is_none())?;
    let words = format!(
        "ReadStateMigration {} was there first and cannot be read, and may move this table or to this target: was it written \
         for a later release? Update the operator, or delete it",
        unknown.name
    );
    Some(Obstacle::wait(Reason::NotObserved, words))
}

/// Whether two targets are one keyspace.
fn is_one(own: &MoveTarget, other: &MigrationTarget) -> bool {
    match own {
        MoveTarget::Cluster(name) => other.cluster.as_ref() == Some(name),
        MoveTarget::Database {
            external,
            tls_secret: _,
        } => other.external.as_ref().is_some_and(|theirs| {
            let hosts = &external.contact_points;
            let shares = hosts
                .iter()
                .any(|host| theirs.contact_points.contains(host));
            let end = |port: i32, keyspace: &str| (port, keyspace.to_owned());
            shares && end(external.port, &external.keyspace) == end(theirs.port, &theirs.keyspace)
        }),
    }
}
