//! Moves that are in each other's way: of two, the one that was there first goes on.

use readstates_operator_api::MigrationTarget;

use super::{MoveInput, Obstacle, Reason};
use crate::spec::MoveTarget;

/// Another move of this cluster, or to this target, that was there first.
pub(super) fn in_use(input: &MoveInput<'_>) -> Option<Obstacle> {
    let own = (input.created, &input.owner.id.name);
    let mut others = input.seen.others.iter().filter(|other| !other.complete);
    let other = others.find(|other| {
        let is_first = (other.created, &other.name) < own;
        let is_of_one = other.cluster == input.spec.cluster;
        is_first && (is_of_one || is_one(&input.valid.target, &other.target))
    })?;
    let what = match other.cluster == input.spec.cluster {
        true => format!("moves ReadStateCluster {}", other.cluster),
        false => format!("moves ReadStateCluster {} to this target", other.cluster),
    };
    let words = format!(
        "ReadStateMigration {} {what} already: delete one of the two",
        other.name
    );
    Some(Obstacle::refuse(Reason::TargetInUse, words))
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
