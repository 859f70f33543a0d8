//! `spec.cache.access`: who may call the API, and what each caller may do.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Who may call the API. Whoever is not one of the callers is answered with 401, also where the list is empty.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct AccessSpec {
    /// The callers. A change is in force about a minute later, when the kubelets have brought it; no pod is
    /// restarted.
    #[serde(default)]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".to_owned()]))]
    pub callers: Vec<CallerSpec>,
}

/// One caller.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct CallerSpec {
    /// Its name, in logs, metrics and audit lines.
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    )]
    pub name: String,

    /// What it may do: `read` states and the ring, `write` acknowledgements and mentions, `delete` users, and read
    /// the status of members (`admin-read`).
    #[schemars(length(min = 1, max = 4))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub verbs: Vec<Verb>,

    /// The key of a Secret of this namespace that holds its token: 16 characters or more, better 64 random ones
    /// (`openssl rand -hex 32`). Cache pods are given its hash alone. To replace it without a gap, put the old token
    /// under the key `previous-<key>` beside the new one, give the new one to the caller, then take the old one out.
    pub token_secret_ref: TokenSecretRef,

    /// The most requests that one cache pod serves it at the same time; further ones are answered with 503. Default:
    /// as many as the pod serves all callers together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65536))]
    pub max_concurrent: Option<i32>,
}

/// What a caller may do.
#[derive(
    Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord,
)]
#[serde(rename_all = "kebab-case")]
pub enum Verb {
    /// Read states and summaries of users, and the ring.
    Read,
    /// Acknowledge and mention.
    Write,
    /// Delete read states and users.
    Delete,
    /// Read the status of members.
    AdminRead,
}

/// A key of a Secret of this namespace.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct TokenSecretRef {
    /// Name of the Secret.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
    )]
    pub name: String,

    /// The key.
    #[serde(default = "default_key")]
    #[schemars(length(min = 1, max = 200), regex(pattern = r"^[-._a-zA-Z0-9]+$"))]
    pub key: String,
}

fn default_key() -> String {
    "token".to_owned()
}
