//! A move of a table as values. In: its spec, and the cluster whose table it is. Out: what can be carried out, or each
//! field that is wrong.

use kube::ResourceExt;
use readstates_operator_api::{
    CheckpointStorage, MigrationTarget, ReadStateCluster, ReadStateMigrationSpec, TlsSpec,
};

use super::{Checker, InvalidSpec, Problem, validate};
use crate::spec::{Identity, Images, ValidatedCluster, ValidatedMigration};

/// Parses a move.
///
/// # Errors
/// Every problem found, each with its field.
pub fn validate_migration(
    spec: &ReadStateMigrationSpec,
) -> Result<ValidatedMigration, InvalidSpec> {
    let ReadStateMigrationSpec {
        cluster: _,
        target: _,
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
    let Checker { problems } = check;
    if !problems.is_empty() {
        return Err(InvalidSpec { problems });
    }
    Ok(ValidatedMigration {
        members: *members,
        checkpoints: claim_name.clone(),
        merge: *merge,
        rate: *rate,
        parallel: *parallel,
        suspend: *suspend,
    })
}

/// The cluster as it will be on the target.
#[must_use]
pub fn on_target(cluster: &ReadStateCluster, target: &MigrationTarget) -> ReadStateCluster {
    let MigrationTarget {
        external,
        tls_secret_name,
    } = target;
    let mut moved = cluster.clone();
    moved.spec.database.external = Some(external.clone());
    moved.spec.database.tls = tls_secret_name.as_ref().map(|name| TlsSpec {
        secret_name: Some(name.clone()),
        issuer_ref: None,
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
    target: &MigrationTarget,
    images: &Images,
) -> Result<ValidatedCluster, InvalidSpec> {
    let external = cluster.spec.database.external.as_ref();
    let keyspace = external.map(|external| &external.keyspace);
    if let Some(keyspace) = keyspace.filter(|keyspace| **keyspace != target.external.keyspace) {
        let problem = format!(
            "must be {keyspace}, the keyspace of ReadStateCluster {}, which cannot change",
            cluster.name_any()
        );
        let field = "spec.target.external.keyspace".to_owned();
        let problems = vec![Problem { field, problem }];
        return Err(InvalidSpec { problems });
    }
    let moved = on_target(cluster, target);
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
            let target = serde_json::from_value(json!({ "external": wish })).unwrap();
            let id = Identity::of(&cluster).unwrap();
            let valid = validate_target(&cluster, id, &target, &images());
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
