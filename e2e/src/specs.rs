//! The clusters that the tests make.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::ResourceRequirements, apimachinery::pkg::api::resource::Quantity,
};
use readstates_operator_api::{
    AccessSpec, CacheSpec, CallerSpec, DatabaseSpec, EmbeddedSpec, Engine, RackSpec,
    ReadStateClusterSpec, Storage, TokenSecretRef, Verb,
};

/// The token that the tests send.
pub const TOKEN: &str = "end-to-end-tests-may-call-this-api";
/// The Secret that holds it, under the key `token`.
pub(crate) const TOKEN_SECRET: &str = "e2e-caller";

/// Three cache pods over one member of Cassandra: small, and flushed seldom enough that a test can tell what
/// a flush does.
#[must_use]
pub fn cassandra_spec() -> ReadStateClusterSpec {
    let memory = |size: &str| BTreeMap::from([("memory".to_owned(), Quantity(size.to_owned()))]);
    let cpu = ("cpu".to_owned(), Quantity("250m".to_owned()));
    let mut requests = memory("1Gi");
    requests.extend([cpu]);
    ReadStateClusterSpec {
        replicas: 3,
        paused: false,
        stopped: false,
        monitoring: None,
        maintenance: None,
        image: None,
        image_pull_policy: None,
        image_pull_secrets: None,
        cache: cache(),
        restore_from: None,
        identity: None,
        database: DatabaseSpec {
            engine: Some(Engine::Cassandra),
            replication_factor: Some(1),
            racks: Some(vec![RackSpec {
                name: "a".to_owned(),
                members: 1,
                zone: None,
            }]),
            storage: Some(storage("2Gi")),
            resources: Some(ResourceRequirements {
                limits: Some(memory("2Gi")),
                requests: Some(requests),
                ..ResourceRequirements::default()
            }),
            ..DatabaseSpec::default()
        },
    }
}

/// One cache pod on a volume of its own.
#[must_use]
pub fn embedded_spec() -> ReadStateClusterSpec {
    ReadStateClusterSpec {
        replicas: 1,
        database: DatabaseSpec {
            embedded: Some(EmbeddedSpec {
                storage: storage("64Mi"),
            }),
            ..DatabaseSpec::default()
        },
        ..cassandra_spec()
    }
}

fn cache() -> CacheSpec {
    CacheSpec {
        capacity_states: 100_000,
        access: Some(AccessSpec {
            callers: vec![CallerSpec {
                name: "e2e".to_owned(),
                verbs: vec![Verb::Read, Verb::Write, Verb::Delete],
                token_secret_ref: Some(TokenSecretRef {
                    name: TOKEN_SECRET.to_owned(),
                    key: "token".to_owned(),
                }),
                service_accounts: None,
                certificates: None,
                max_concurrent: None,
            }],
            ..AccessSpec::default()
        }),
        ..CacheSpec::default()
    }
}

fn storage(size: &str) -> Storage {
    Storage {
        size: size.to_owned(),
        storage_class_name: None,
    }
}
