//! `spec.cache.access`: who may call the API, and what each caller may do.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Who may call the API. A request from anyone else is answered with 401, also when the list is empty.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new(
        "has(self.clientCa) || !has(self.callers) || self.callers.all(c, !has(c.certificates))"
    ).message("certificates of callers need clientCa: the CAs that have signed them")
)]
pub struct AccessSpec {
    /// The CAs that sign the client certificates of callers. Requires `cache.tls`. To replace a CA without
    /// interruption, list both for a while.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_ca: Option<ClientCaSource>,

    /// The callers. A change takes effect after about a minute, once the kubelets have synced it. No pod is restarted,
    /// except once, when client certificates are first requested.
    #[serde(default)]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".to_owned()]))]
    pub callers: Vec<CallerSpec>,
}

/// Source of the CAs for client certificates.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.secretName) != has(self.configMapName)")
        .message("exactly one of secretName and configMapName must be set")
)]
pub struct ClientCaSource {
    /// Secret in this namespace that holds them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
    )]
    pub secret_name: Option<String>,

    /// ConfigMap in this namespace that holds them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
    )]
    pub config_map_name: Option<String>,

    /// The key that holds them, in PEM form.
    #[serde(default = "default_ca_key")]
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[-._a-zA-Z0-9]+$"))]
    pub key: String,
}

/// One caller and its credentials; any one of them is enough.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new(
        "has(self.tokenSecretRef) || has(self.serviceAccounts) || has(self.certificates)"
    ).message(
        "a caller needs a token, a service account or a certificate: set tokenSecretRef, \
         serviceAccounts or certificates"
    )
)]
pub struct CallerSpec {
    /// Name of the caller, as shown in logs, metrics and audit lines.
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    )]
    pub name: String,

    /// What the caller may do: `read` (states and the ring), `write` (acknowledgements and mentions), `import` (read
    /// states of another system, together with `write`), `delete` (states and users), `admin-read` (the status of
    /// members). Cache pods of a release without `import` keep the previous callers as long as one has it.
    #[schemars(length(min = 1, max = 5))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub verbs: Vec<Verb>,

    /// The key of a Secret in this namespace that holds the caller's token: at least 16 characters, preferably 64
    /// random ones (`openssl rand -hex 32`). Cache pods receive only its hash. To replace the token without
    /// interruption, put the old one under the key `previous-<key>` beside the new one, give the new one to the caller,
    /// then remove the old one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_secret_ref: Option<TokenSecretRef>,

    /// Service accounts whose tokens for the audience `readstates` identify this caller; pods get such a token from a
    /// projected volume. Cache pods verify these tokens with the API server, which requires the chart value
    /// `rbac.tokenReviews`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 16))]
    pub service_accounts: Option<Vec<ServiceAccountRef>>,

    /// DNS names of the caller's client certificates, which must be signed by a CA in `access.clientCa`. A certificate
    /// with one of these names among its subject alternative names identifies this caller.
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

    /// Maximum number of requests from this caller that one cache pod serves at a time; further ones are answered with
    /// 429. Default: 1024.
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
    /// Acknowledge messages and count mentions.
    Write,
    /// Import read states of another system, together with `write`.
    Import,
    /// Delete read states and users.
    Delete,
    /// Read the status of members.
    AdminRead,
}

/// A service account.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ServiceAccountRef {
    /// Name of the service account.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
    )]
    pub name: String,

    /// Namespace of the service account. Default: this namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    )]
    pub namespace: Option<String>,
}

/// A key of a Secret in this namespace.
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
