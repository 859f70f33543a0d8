//! `spec.database.tls`, `spec.cache.tls` and `spec.identity`: where certificates come from.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Source of the certificates: an existing Secret, or a cert-manager issuer.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("[has(self.secretName), has(self.issuerRef)].exists_one(x, x)")
        .message("exactly one of secretName and issuerRef must be set")
)]
pub struct TlsSpec {
    /// Secret in this namespace, in PEM form. With `engine` the keys `tls.crt` and `tls.key`, for all members: a
    /// certificate for the name `<name>-db.<namespace>.svc`, and its key (PKCS#8 for Cassandra); and `ca.crt`, the CAs
    /// that cache pods trust. When the certificate changes, members are restarted one by one. Cache pods reload
    /// `ca.crt` by themselves: to change the CA, put both the old and the new one there a few minutes before a
    /// certificate of the new one. With `external` the key `ca.crt`; if `tls.crt` and `tls.key` are also there, cache
    /// pods present that certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
    )]
    pub secret_name: Option<String>,

    /// The issuer with which cert-manager creates and renews the Secret `<name>-db-tls`. The issuer must provide its CA
    /// (`ca.crt`). Requires the chart value `rbac.certificates`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer_ref: Option<IssuerRef>,

    /// With `engine`: encrypt the traffic between members, too, with the same certificate, which must be valid for client
    /// authentication as well. Members accept only peers with a certificate of a CA in `ca.crt`: use one that signs for
    /// this database alone. With Cassandra it can be switched on and off later: members are then restarted one by one,
    /// three times (`status.databaseInternodeTls`). Default: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub internode: Option<bool>,
}

/// How far the traffic between members is encrypted. Members of neighbouring stages understand each other, so that a change
/// leads from one to the next, once every member has it.
#[derive(
    Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord,
)]
pub enum InternodeTls {
    /// Members speak, and accept, plain text only.
    #[default]
    Disabled,
    /// Members accept both, and speak in plain text.
    Accepted,
    /// Members accept both, and speak over TLS.
    Preferred,
    /// Members speak, and accept, TLS only.
    Required,
}

/// Source of the certificate that cache pods present to clients: an existing Secret, or a cert-manager issuer.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.secretName) != has(self.issuerRef)")
        .message("exactly one of secretName and issuerRef must be set")
)]
pub struct ApiTlsSpec {
    /// Secret in this namespace with `tls.crt` and `tls.key`, and in `ca.crt` the CAs that clients should trust, in PEM
    /// form. The certificate must cover the names `<name>.<namespace>.svc` and `*.<name>-members.<namespace>.svc`,
    /// through which clients reach the pods, and may cover others. Cache pods reload it by themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
    )]
    pub secret_name: Option<String>,

    /// The issuer with which cert-manager creates and renews the Secret `<name>-api-tls`. The issuer must provide its
    /// CA (`ca.crt`). Requires the chart value `rbac.certificates`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer_ref: Option<IssuerRef>,
}

/// The issuer of the certificates with which the processes of a cluster authenticate.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct IdentitySpec {
    /// The issuer with which cert-manager creates and renews the Secrets `<name>-member-tls`, `<name>-operator-tls` and
    /// `<name>-agent-tls`. It must provide its CA (`ca.crt`) and be able to sign for names that end with
    /// `<name>.<namespace>.readstates.internal`. Anyone else who may use this issuer can impersonate any process of
    /// this cluster. Requires the chart value `rbac.certificates`.
    pub issuer_ref: IssuerRef,
}

/// A cert-manager issuer.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct IssuerRef {
    /// Name of the issuer.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,

    /// `Issuer`, in this namespace, or `ClusterIssuer`.
    #[serde(default = "default_kind")]
    #[schemars(length(min = 1, max = 63))]
    pub kind: String,

    /// API group of the issuer.
    #[serde(default = "default_group")]
    #[schemars(length(min = 1, max = 253))]
    pub group: String,
}

fn default_kind() -> String {
    "Issuer".to_owned()
}

fn default_group() -> String {
    "cert-manager.io".to_owned()
}
