//! `spec.cache.access`: who may call the API, and what each caller may do.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Who may call the API. Whoever is not one of the callers is answered with 401, also where the list is empty.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new(
        "has(self.clientCa) || !has(self.callers) || self.callers.all(c, !has(c.certificates))"
    ).message("certificates of callers need clientCa: the CAs that have signed them")
)]
pub struct AccessSpec {
    /// The CAs that have signed the client certificates of callers. Needs `cache.tls`. To replace one without a gap,
    /// list both for a while.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_ca: Option<ClientCaSource>,

    /// The callers. A change is in force about a minute later, when the kubelets have brought it; no pod is
    /// restarted, but once when client certificates are first asked for.
    #[serde(default)]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".to_owned()]))]
    pub callers: Vec<CallerSpec>,
}

/// Where the CAs of client certificates are.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.secretName) != has(self.configMapName)")
        .message("exactly one of secretName and configMapName must be set")
)]
pub struct ClientCaSource {
    /// Secret of this namespace that holds them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
    )]
    pub secret_name: Option<String>,

    /// ConfigMap of this namespace that holds them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
    )]
    pub config_map_name: Option<String>,

    /// The key under which they are, in PEM form.
    #[serde(default = "default_ca_key")]
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[-._a-zA-Z0-9]+$"))]
    pub key: String,
}

/// One caller, and by what it proves itself: each of them is enough.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new(
        "has(self.tokenSecretRef) || has(self.serviceAccounts) || has(self.certificates)"
    ).message(
        "a caller proves itself by a token, a service account or a certificate: set tokenSecretRef, \
         serviceAccounts or certificates"
    )
)]
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_secret_ref: Option<TokenSecretRef>,

    /// Service accounts whose tokens for the audience `readstates` are its tokens: pods get one by a projected
    /// volume. Cache pods ask the API server about them; the operator needs the chart's value `rbac.tokenReviews`
    /// to let them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 16))]
    pub service_accounts: Option<Vec<ServiceAccountRef>>,

    /// DNS names of its client certificates, of which `access.clientCa` tells the CAs: a certificate that has one of
    /// them among its subject alternative names is its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 16),
        inner(
            length(min = 1, max = 253),
            regex(
                pattern = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$"
            )
        )
    )]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub certificates: Option<Vec<String>>,

    /// The most requests that one cache pod serves it at the same time; further ones are answered with 429. Default:
    /// 1024.
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

/// A service account.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ServiceAccountRef {
    /// Its name.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
    )]
    pub name: String,

    /// Its namespace. Default: this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    )]
    pub namespace: Option<String>,
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

fn default_ca_key() -> String {
    "ca.crt".to_owned()
}
