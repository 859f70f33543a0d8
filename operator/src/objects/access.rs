//! The access Secret of cache pods: the file with callers, verbs and credentials, and the CAs of client certificates.

use k8s_openapi::{ByteString, api::core::v1::Secret};
use readstates_operator_api::{Verb, labels::Component};
use serde::Serialize;

use super::{env, store};
use crate::{
    observe::CLIENT_CA_FILE,
    plan::{Admitted, CallersStep},
    validate::ValidatedCluster,
};

const VOLUME: &str = "access";
const PATH: &str = "/etc/readstates/access";
const FILE: &str = "access.yaml";

#[derive(Serialize)]
struct File<'a> {
    callers: Vec<Entry<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Entry<'a> {
    name: &'a str,
    verbs: &'a [Verb],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    tokens: &'a [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    service_accounts: &'a [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    certificates: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    max_concurrent: Option<i32>,
}

impl<'a> From<&'a Admitted> for Entry<'a> {
    fn from(caller: &'a Admitted) -> Self {
        let Admitted {
            name,
            verbs,
            tokens,
            service_accounts,
            certificates,
            max_concurrent,
        } = caller;
        Self {
            name,
            verbs,
            tokens,
            service_accounts,
            certificates,
            max_concurrent: *max_concurrent,
        }
    }
}

/// The Secret; `None` where access is not configured. Callers that are not admitted are left out. An empty list refuses
/// every request.
pub(super) fn secret(cluster: &ValidatedCluster, callers: &CallersStep) -> Option<Secret> {
    cluster.cache.access.as_ref()?;
    let file = File {
        callers: callers.admitted.iter().map(Entry::from).collect(),
    };
    // JSON is YAML.
    let text = serde_json::to_vec_pretty(&file).unwrap_or_default();
    let client_ca = callers.client_ca.iter().map(|pem| {
        let bytes = ByteString(pem.clone().into_bytes());
        (CLIENT_CA_FILE.to_owned(), bytes)
    });
    let file = [(FILE.to_owned(), ByteString(text))];
    Some(Secret {
        metadata: cluster.id.child(cluster.id.access(), Component::Cache),
        type_: Some("Opaque".to_owned()),
        data: Some(file.into_iter().chain(client_ca).collect()),
        ..Secret::default()
    })
}

/// What a cache pod has of it. CAs that are there once are there for good, so that their absence restarts no pod.
pub(super) fn of(cluster: &ValidatedCluster) -> store::Access {
    if cluster.cache.access.is_none() {
        return store::Access::default();
    }
    let client_ca = cluster.client_ca.then_some(CLIENT_CA_FILE);
    let keys: Vec<_> = [FILE].into_iter().chain(client_ca).collect();
    let (mut volume, mount) = store::keys_of(VOLUME, PATH, &cluster.id.access(), &keys);
    if let (Some(source), Some(_)) = (&mut volume.secret, client_ca) {
        // When the CAs go, pods that are not replaced yet still hear of other callers.
        source.optional = Some(true);
    }
    let file = |key: &str| format!("{PATH}/{key}");
    let client_ca = client_ca.map(|key| env::value(env::TLS_CLIENT_CA_FILE, file(key)));
    store::Access {
        env: [env::value(env::ACCESS, file(FILE))]
            .into_iter()
            .chain(client_ca)
            .collect(),
        volumes: vec![volume],
        mounts: vec![mount],
    }
}
