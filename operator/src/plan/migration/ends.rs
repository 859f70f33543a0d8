//! The two ends of a move as values: the cluster as it is, and as it will be, or the other cluster.

use readstates_operator_api::MembersMeanwhile;

use super::{MoveInput, MoveRecord, Obstacle, Reason, Scene};
use crate::{
    spec::{Certificates, Identity, MoveTarget, Observed, Store, ValidatedCluster},
    templates::{self, Ends},
    validate::{validate, validate_target},
    world::SecretsSeen,
};

impl<'a> Scene<'a> {
    /// Both ends as values, or what is in the way.
    pub(super) fn of(input: MoveInput<'a>, mut record: MoveRecord) -> Result<Self, Obstacle> {
        let name = &input.spec.cluster;
        let Some(cluster) = &input.seen.cluster else {
            let words = format!("there is no ReadStateCluster {name} in this namespace");
            return Err(Obstacle::wait(Reason::ClusterNotFound, words));
        };
        let not_ready = |why: String| {
            let words = format!("ReadStateCluster {name} {why}");
            Obstacle::wait(Reason::ClusterNotReady, words)
        };
        if cluster.metadata.deletion_timestamp.is_some() {
            return Err(not_ready("is being deleted".to_owned()));
        }
        let id = Identity::of(cluster).map_err(|error| not_ready(format!("is odd: {error}")))?;
        let source = validate(id.clone(), &cluster.spec, input.images);
        let source = source.map_err(|invalid| not_ready(format!("is invalid: {invalid}")))?;
        is_possible(&input, &source)?;
        let target = match &input.valid.target {
            MoveTarget::Database {
                external,
                tls_secret,
            } => {
                let to = (&**external, tls_secret.as_ref());
                validate_target(cluster, id, to, input.images)
                    .map_err(|invalid| Obstacle::refuse(Reason::InvalidSpec, invalid.to_string()))?
            }
            MoveTarget::Cluster(other) => other_cluster(&input, other)?,
        };
        let current = templates::store_url(&source);
        let to = templates::store_url(&target);
        let from = record.source.get_or_insert_with(|| current.clone()).clone();
        record.target = Some(to.clone());
        Ok(Self {
            input,
            cluster,
            ends: Ends {
                source: seen_by(source, &input.seen.source),
                target: seen_by(target, &input.seen.target),
            },
            current,
            source: from,
            target: to,
            record,
        })
    }

    /// Whether the table moves into another cluster.
    pub(super) fn is_into(&self) -> bool {
        self.input.valid.target.cluster().is_some()
    }
}

/// Whether a Job can move a table between databases of these kinds.
fn is_possible(input: &MoveInput<'_>, source: &ValidatedCluster) -> Result<(), Obstacle> {
    let name = &input.spec.cluster;
    let words = match (&source.store, &input.valid.target, input.valid.members) {
        (Store::Embedded(_), _, _) => format!(
            "ReadStateCluster {name} has an embedded store, which belongs to its one process: `readstates migrate` moves \
             it (see the book: Move to another database)"
        ),
        (Store::Managed(_), MoveTarget::Database { .. }, _) => format!(
            "the operator runs the database of ReadStateCluster {name}, and a cluster keeps its kind of database: create \
             another ReadStateCluster with the database of the target, and name it as spec.target.cluster"
        ),
        (Store::Managed(_), MoveTarget::Cluster(_), MembersMeanwhile::Stop) => format!(
            "the operator runs the database of ReadStateCluster {name}, which would stop with its cache pods before the \
             last changes are copied: create another ReadStateMigration with members: Serve"
        ),
        (Store::Managed(_), MoveTarget::Cluster(_), MembersMeanwhile::Serve)
        | (Store::External(_), _, _) => return Ok(()),
    };
    Err(Obstacle::refuse(Reason::MigrationUnsupported, words))
}

fn other_cluster(input: &MoveInput<'_>, name: &str) -> Result<ValidatedCluster, Obstacle> {
    if name == input.spec.cluster {
        let words = "spec.target.cluster is the cluster whose table moves";
        return Err(Obstacle::refuse(Reason::SameDatabase, words));
    }
    let wait = |reason, why: String| {
        let words = format!("ReadStateCluster {name}, the target, {why}");
        Obstacle::wait(reason, words)
    };
    let Some(other) = &input.seen.target_cluster else {
        let why = "does not exist in this namespace".to_owned();
        return Err(wait(Reason::ClusterNotFound, why));
    };
    let not_ready = |why: String| wait(Reason::ClusterNotReady, why);
    let id = Identity::of(other).map_err(|error| not_ready(format!("is odd: {error}")))?;
    let valid = validate(id, &other.spec, input.images);
    let valid = valid.map_err(|invalid| not_ready(format!("is invalid: {invalid}")))?;
    match &valid.store {
        Store::Managed(_) | Store::External(_) => Ok(valid),
        Store::Embedded(_) => {
            let words = format!(
                "ReadStateCluster {name}, the target, has an embedded store, which belongs to its one process"
            );
            Err(Obstacle::refuse(Reason::MigrationUnsupported, words))
        }
    }
}

fn seen_by(cluster: ValidatedCluster, seen: &SecretsSeen) -> ValidatedCluster {
    use crate::world::CertificatesSeen::Complete;
    let certificates = match &seen.certificates {
        Some(Complete { client, mark, .. }) => Certificates {
            mark: Some(mark.clone()),
            client: *client,
        },
        Some(_) | None => Certificates::default(),
    };
    cluster.seen(Observed {
        certificates,
        ..Observed::default()
    })
}
