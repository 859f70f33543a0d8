//! The access Secret of cache pods: the file with callers, verbs and credentials, and the CAs of client certificates.

use k8s_openapi::{ByteString, api::core::v1::Secret};
use readstates_operator_api::{Verb, labels::Component};
use serde::Serialize;

use crate::{
    names::CLIENT_CA_FILE,
    plan::{Admitted, CallersStep},
    spec::ValidatedCluster,
    templates::ACCESS_FILE,
};

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
    let file = [(ACCESS_FILE.to_owned(), ByteString(text))];
    Some(Secret {
        metadata: cluster.id.child(cluster.id.access(), Component::Cache),
        type_: Some("Opaque".to_owned()),
        data: Some(file.into_iter().chain(client_ca).collect()),
        ..Secret::default()
    })
}
