//! A move of a table as values. In: its spec, and the cluster whose table it is. Out: what can be carried out, or each
//! field that is wrong.

use kube::ResourceExt;
use readstates_operator_api::{
    CheckpointStorage, ExternalSpec, MigrationTarget, ReadStateCluster, ReadStateMigrationSpec,
    TlsSpec,
};

use super::{Checker, InvalidSpec, Problem, validate};
use crate::spec::{Identity, Images, MoveTarget, ValidatedCluster, ValidatedMigration};

/// Parses a move.
///
/// # Errors
/// Every problem found, each with its field.
pub fn validate_migration(
    spec: &ReadStateMigrationSpec,
) -> Result<ValidatedMigration, InvalidSpec> {
    let ReadStateMigrationSpec {
        cluster: _,
        target,
        members,
        checkpoints: CheckpointStorage { claim_name },
        merge,
        rate,
        parallel,
        suspend,
    } = spec;
    let mut check = Checker::default();
    for (field, number) in [("rate", rate), ("parallel", parallel)] {
        if number.is_some_and(|number| number < 1) {
            check.wrong(format!("spec.{field}"), "must be at least 1");
        }
    }
    let target = check.target(target);
    let Checker { problems } = check;
    let Some(target) = target.filter(|_| problems.is_empty()) else {
        return Err(InvalidSpec { problems });
    };
    Ok(ValidatedMigration {
        target,
        members: *members,
        checkpoints: claim_name.clone(),
        merge: *merge,
        rate: *rate,
        parallel: *parallel,
        suspend: *suspend,
    })
}

impl Checker {
    /// Where the table moves, or `None` once a problem is on the list.
    fn target(&mut self, target: &MigrationTarget) -> Option<MoveTarget> {
        let MigrationTarget {
            external,
            cluster,
            tls_secret_name,
        } = target;
        match (external, cluster) {
            (Some(external), None) => Some(MoveTarget::Database {
                external: Box::new(external.clone()),
                tls_secret: tls_secret_name.clone(),
            }),
            (None, Some(cluster)) => {
                if tls_secret_name.is_some() {
                    self.wrong("spec.target.tlsSecretName", "goes with external");
                }
                Some(MoveTarget::Cluster(cluster.clone()))
            }
            (Some(_), Some(_)) | (None, None) => {
                let words = "exactly one of external and cluster must be set";
                self.wrong("spec.target", words);
                None
            }
        }
    }
}

/// The cluster as it will be on the target.
#[must_use]
pub fn on_target(
    cluster: &ReadStateCluster,
    external: &ExternalSpec,
    tls_secret: Option<&String>,
) -> ReadStateCluster {
    let mut moved = cluster.clone();
    moved.spec.database.external = Some(external.clone());
    moved.spec.database.tls = tls_secret.map(|name| TlsSpec {
        secret_name: Some(name.clone()),
        issuer_ref: None,
        internode: None,
    });
    moved
}

/// Parses the cluster as it will be on the target.
///
/// # Errors
/// Every problem found, each with the field of the move that it comes from.
pub fn validate_target(
    cluster: &ReadStateCluster,
    id: Identity,
    (external, tls_secret): (&ExternalSpec, Option<&String>),
    images: &Images,
) -> Result<ValidatedCluster, InvalidSpec> {
    let own = cluster.spec.database.external.as_ref();
    let keyspace = own.map(|own| &own.keyspace);
    if let Some(keyspace) = keyspace.filter(|keyspace| **keyspace != external.keyspace) {
        let problem = format!(
            "must be {keyspace}, the keyspace of ReadStateCluster {}, which cannot change",
            cluster.name_any()
        );
        let field = "spec.target.external.keyspace".to_owned();
        let problems = vec![Problem { field, problem }];
        return Err(InvalidSpec { problems });
    }
    let moved = on_target(cluster, external, tls_secret);
    validate(id, &moved.spec, images).map_err(|invalid| {
        let InvalidSpec { mut problems } = invalid;
        for Problem { field, problem: _ } in &mut problems {
            *field = field
                .replace("spec.database.tls.secretName", "spec.target.tlsSecretName")
                .replace("spec.database.external", "spec.target.external");
        }
        InvalidSpec { problems }
    })
}

/// Whether two stores, as `--store` takes them, are one keyspace reached by the same hosts, in whatever order.
#[must_use]
pub fn same_store(a: &str, b: &str) -> bool {
    a == b || parts(a).is_some_and(|a| parts(b) == Some(a))
}

/// Hosts in order, port and keyspace of `cql://HOST[,HOST...][:PORT]/KEYSPACE`.
fn parts(store: &str) -> Option<(Vec<&str>, &str, &str)> {
    const PORT: &str = "9042";
    let (hosts, keyspace) = store.strip_prefix("cql://")?.rsplit_once('/')?;
    let (hosts, port) = match hosts.rsplit_once(':') {
        // The colon of an address in brackets is none before a port.
        Some((hosts, port)) if !port.contains(']') => (hosts, port),
        Some(_) | None => (hosts, PORT),
    };
    let mut hosts: Vec<_> = hosts.split(',').collect();
    hosts.sort_unstable();
    Some((hosts, port, keyspace))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::fixtures::{EXTERNAL, images};

    fn spec(change: Value) -> ReadStateMigrationSpec {
        let mut spec = json!({
            "cluster": "chat", "members": "Serve", "checkpoints": { "claimName": "moves" },
            "target": { "external": {
                "contactPoints": ["new"], "localDatacenter": "east", "replicationFactor": 3,
            } },
        });
        for (key, value) in change.as_object().unwrap() {
            spec[key] = value.clone();
        }
        serde_json::from_value(spec).unwrap()
    }

    #[test]
    fn what_is_wrong_is_told_by_its_field() {
        assert!(validate_migration(&spec(json!({}))).is_ok());
        for (change, field) in [
            (json!({ "rate": 0 }), "spec.rate: "),
            (json!({ "parallel": 0 }), "spec.parallel: "),
            (json!({ "target": {} }), "spec.target: exactly one of"),
            (
                json!({ "target": { "cluster": "b", "tlsSecretName": "ca" } }),
                "spec.target.tlsSecretName: ",
            ),
        ] {
            let said = validate_migration(&spec(change)).unwrap_err().to_string();
            assert!(said.starts_with(field), "{said}");
        }
    }

    #[test]
    fn the_target_is_checked_as_the_database_that_it_will_be() {
        let cluster: ReadStateCluster = serde_json::from_value(json!({
            "metadata": { "name": "chat", "namespace": "talk", "uid": "uid" },
            "spec": serde_yaml_ng::from_str::<Value>(EXTERNAL).unwrap(),
        }))
        .unwrap();
        let said = |external: Value| {
            let mut wish = json!({
                "contactPoints": ["new"], "localDatacenter": "east", "replicationFactor": 3,
            });
            for (key, value) in external.as_object().unwrap() {
                wish[key] = value.clone();
            }
            let target: ExternalSpec = serde_json::from_value(wish).unwrap();
            let id = Identity::of(&cluster).unwrap();
            let valid = validate_target(&cluster, id, (&target, None), &images());
            valid.map_err(|invalid| invalid.to_string())
        };
        assert!(said(json!({})).is_ok());
        assert_eq!(
            said(json!({ "keyspace": "other" })).unwrap_err(),
            "spec.target.external.keyspace: must be readstates, the keyspace of ReadStateCluster chat, which cannot \
             change"
        );
        let said = said(json!({ "contactPoints": [] })).unwrap_err();
        assert!(
            said.starts_with("spec.target.external.contactPoints: "),
            "{said}"
        );
    }

    #[test]
    fn a_store_is_the_same_in_whatever_order_its_hosts_are() {
        let store = "cql://a,b:9042/readstates";
        for same in [store, "cql://b,a/readstates", "cql://b,a:9042/readstates"] {
            assert!(same_store(store, same), "{same}");
        }
        for other in [
            "cql://a,b:9043/readstates",
            "cql://a/readstates",
            "cql://a,b/other",
            "embedded:a",
        ] {
            assert!(!same_store(store, other), "{other}");
        }
        assert!(same_store("cql://[::1]/x", "cql://[::1]:9042/x"));
    }
}
