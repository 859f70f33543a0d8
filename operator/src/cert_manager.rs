//! cert-manager's `Certificate`, as far as it is written and read here. cert-manager defines the kind: it is missing
//! where cert-manager is not installed.

use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// What cert-manager is to make and to renew.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[kube(
    group = "cert-manager.io",
    version = "v1",
    kind = "Certificate",
    namespaced,
    schema = "disabled",
    status = "CertificateStatus",
    derive = "PartialEq",
    doc = "A certificate of cert-manager."
)]
#[serde(rename_all = "camelCase")]
pub struct CertificateSpec {
    /// The Secret that it is put into.
    pub secret_name: String,
    /// The names that it is for.
    pub dns_names: Vec<String>,
    /// The issuer that signs it.
    pub issuer_ref: Issuer,
    /// How its key is made.
    pub private_key: PrivateKey,
    /// What it is good for.
    pub usages: Vec<String>,
}

/// An issuer of cert-manager.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct Issuer {
    pub name: String,
    /// `Issuer` or `ClusterIssuer`, or another issuer's kind.
    pub kind: String,
    /// Its API group.
    pub group: String,
}

/// How the key of a certificate is made.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct PrivateKey {
    /// `ECDSA`, `RSA` or `Ed25519`.
    pub algorithm: String,
    /// Its length in bits.
    pub size: u32,
    /// `PKCS8` or `PKCS1`.
    pub encoding: String,
    /// Whether another certificate has another key: `Always` or `Never`.
    pub rotation_policy: String,
}

/// How far cert-manager is.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct CertificateStatus {
    #[serde(default)]
    pub conditions: Vec<CertificateCondition>,
}

#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct CertificateCondition {
    #[serde(rename = "type")]
    pub type_: String,
    /// Why it is so, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl Certificate {
    /// What cert-manager says of it.
    #[must_use]
    pub fn words(&self) -> Option<String> {
        let conditions = self.status.iter().flat_map(|s| &s.conditions);
        let ready = conditions.into_iter().find(|c| c.type_ == "Ready")?;
        ready.message.clone()
    }
}
