//! `spec.database.tls`, `spec.cache.tls` and `spec.identity`: where certificates come from.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where the certificates come from: a Secret that is there, or an issuer of cert-manager that makes one.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("[has(self.secretName), has(self.issuerRef)].exists_one(x, x)")
        .message("exactly one of secretName and issuerRef must be set")
)]
pub struct TlsSpec {
    /// Secret in this namespace, in PEM form. With `engine` the keys `tls.crt` and `tls.key`, for all members:
    /// a certificate for the name `<name>-db.<namespace>.svc`, and its key (PKCS#8 for Cassandra); and
    /// `ca.crt`, the CAs that cache pods believe. When the certificate changes, members are restarted
    /// one by one; cache pods read `ca.crt` anew by themselves: put the old and the new CA there a few minutes
    /// before a certificate of the new one.
    /// With `external` the key `ca.crt`; with `tls.crt` and `tls.key`, too, cache pods show that certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
    )]
    pub secret_name: Option<String>,

    /// The issuer that cert-manager makes the Secret `<name>-db-tls` with, and renews it. It has to tell its
    /// CA (`ca.crt`). The operator needs the chart's value `rbac.certificates` for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer_ref: Option<IssuerRef>,
}

/// Where the certificate that cache pods show to clients comes from: a Secret that is there, or an issuer of
/// cert-manager that makes one.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.secretName) != has(self.issuerRef)")
        .message("exactly one of secretName and issuerRef must be set")
)]
pub struct ApiTlsSpec {
    /// Secret in this namespace with `tls.crt` and `tls.key`, and in `ca.crt` the CAs that clients are to believe, in
    /// PEM form. The certificate has to be for the names `<name>.<namespace>.svc` and
    /// `*.<name>-members.<namespace>.svc`, by which clients reach the pods, and may be for others. Cache pods read it
    /// anew by themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
    )]
    pub secret_name: Option<String>,

    /// The issuer that cert-manager makes the Secret `<name>-api-tls` with, and renews it. It has to tell its CA
    /// (`ca.crt`). The operator needs the chart's value `rbac.certificates` for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer_ref: Option<IssuerRef>,
}

/// The issuer of the certificates by which the processes of a cluster prove what they are.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct IdentitySpec {
    /// The issuer that cert-manager makes the Secrets `<name>-member-tls`, `<name>-operator-tls` and
    /// `<name>-agent-tls` with, and renews them. It has to tell its CA (`ca.crt`), and must be able to sign for
    /// names that end with `<name>.<namespace>.readstates.internal`; whoever may use it otherwise can be any
    /// process of this cluster. The operator needs the chart's value `rbac.certificates` for it.
    pub issuer_ref: IssuerRef,
}

/// An issuer of cert-manager.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct IssuerRef {
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,

    /// `Issuer`, which is in this namespace, or `ClusterIssuer`.
    #[serde(default = "default_kind")]
    #[schemars(length(min = 1, max = 63))]
    pub kind: String,

    /// Its API group.
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
