//! Who may call the API, as cache pods read it: a file with callers, verbs and hashes of tokens.

use k8s_openapi::{ByteString, api::core::v1::Secret};
use readstates_operator_api::{Verb, labels::Component};
use serde::Serialize;

use super::{env, store};
use crate::{
    plan::TokensStep,
    validate::{Caller, ValidatedCluster},
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
    tokens: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    max_concurrent: Option<i32>,
}

/// The Secret; none where access is not configured. A caller without a token is left out: with none at all the file
/// lets nobody in.
pub(super) fn secret(cluster: &ValidatedCluster, tokens: &TokensStep) -> Option<Secret> {
    let access = cluster.cache.access.as_ref()?;
    let hashes = |caller: &Caller| tokens.hashes.get(&caller.name).map(Vec::as_slice);
    let callers = access.callers.iter().filter_map(|caller| {
        Some(Entry {
            name: &caller.name,
            verbs: &caller.verbs,
            tokens: hashes(caller)?,
            max_concurrent: caller.max_concurrent,
        })
    });
    let file = File {
        callers: callers.collect(),
    };
    // JSON is YAML.
    let text = serde_json::to_vec_pretty(&file).unwrap_or_default();
    Some(Secret {
        metadata: cluster.id.child(cluster.id.access(), Component::Cache),
        type_: Some("Opaque".to_owned()),
        data: Some([(FILE.to_owned(), ByteString(text))].into()),
        ..Secret::default()
    })
}

/// What a cache pod has of it.
pub(super) fn of(cluster: &ValidatedCluster) -> store::Access {
    if cluster.cache.access.is_none() {
        return store::Access::default();
    }
    let (volume, mount) = store::keys_of(VOLUME, PATH, &cluster.id.access(), &[FILE]);
    store::Access {
        env: vec![env::value(env::ACCESS, format!("{PATH}/{FILE}"))],
        volumes: vec![volume],
        mounts: vec![mount],
    }
}
