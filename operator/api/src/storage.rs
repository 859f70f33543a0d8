//! Where backups are: buckets and volumes, with what is needed to reach and to read them.

use k8s_openapi::api::core::v1::LocalObjectReference;
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

/// The key that holds the CAs of a store in a Secret, when none is given.
pub const DEFAULT_CA_KEY: &str = "ca.crt";
/// The key that holds the encryption key in a Secret, when none is given.
pub const DEFAULT_ENCRYPTION_KEY: &str = "backup.key";

/// Where backups are: in a bucket (`s3`), or in a folder of a volume (`volumeClaim`).
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.s3) != has(self.volumeClaim)")
        .message("exactly one of s3 and volumeClaim must be set")
)]
pub struct BackupStorage {
    /// A bucket of S3, or of a store with the same protocol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub s3: Option<S3Storage>,

    /// A volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_claim: Option<VolumeClaimStorage>,

    /// Secret with the 32 random bytes by which backups are encrypted before they leave the pod. All backups in one
    /// place have the same key, and without it they cannot be read: keep a copy outside of this Kubernetes cluster.
    /// Default: backups are not encrypted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encryption_key_secret_ref: Option<EncryptionKeyRef>,
}

/// A bucket. The Job needs the rights to list, get, put and delete objects.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(self.credentialsSecretRef) || !has(self.serviceAccountName)")
        .message("at most one of credentialsSecretRef and serviceAccountName may be set"),
    validation = Rule::new("!has(self.caSecretRef) || (has(self.endpoint) && self.endpoint.startsWith('https://'))")
        .message("caSecretRef goes with an endpoint that begins with https://")
        .field_path(".caSecretRef")
)]
pub struct S3Storage {
    /// The bucket, and what the names of objects in it begin with: `s3://bucket/chat`.
    #[schemars(
        length(max = 512),
        regex(pattern = r"^s3://[a-z0-9][a-z0-9.-]+(/[A-Za-z0-9._=-]+)*/?$")
    )]
    pub url: String,

    /// Region of the bucket. Default: `us-east-1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64), regex(pattern = r"^[A-Za-z0-9-]+$"))]
    pub region: Option<String>,

    /// URL of a store that is not Amazon's, such as `https://minio.example:9000`. With http:// everything but what
    /// is encrypted is readable on the network. Default: Amazon's, for the region.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = 512),
        regex(pattern = r"^https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?(/[A-Za-z0-9._/-]*)?$")
    )]
    pub endpoint: Option<String>,

    /// Secret with the CAs (PEM) that the certificate of `endpoint` is checked by, in place of those of the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_secret_ref: Option<CaSecretRef>,

    /// Secret with the keys `accessKeyId` and `secretAccessKey`. Default: what the role of the ServiceAccount or of the
    /// machine gives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(
        validation = Rule::new("self.name != ''").message("credentialsSecretRef.name must not be empty")
    )]
    pub credentials_secret_ref: Option<LocalObjectReference>,

    /// ServiceAccount of this namespace that the cloud gives a role with access to the bucket. Its token for the
    /// Kubernetes API is not mounted. Default: `default`, without a token either.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
    )]
    pub service_account_name: Option<String>,
}

/// A folder of a volume. It should not share its disk, or the room that it stands in, with the database.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct VolumeClaimStorage {
    /// Name of the PersistentVolumeClaim in this namespace.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
    )]
    pub claim_name: String,

    /// Folder below the root of the volume, created when it is missing. Default: the root itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 256),
        regex(pattern = r"^[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$")
    )]
    pub path: Option<String>,
}

/// CAs of a store.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct CaSecretRef {
    /// Name of the Secret in this namespace.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,

    /// Key of the Secret whose value are the certificates. Default: `ca.crt`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[A-Za-z0-9_-][A-Za-z0-9._-]*$")
    )]
    pub key: Option<String>,
}

/// A key for encryption.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct EncryptionKeyRef {
    /// Name of the Secret in this namespace.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,

    /// Key of the Secret whose value is the 32 bytes. Default: `backup.key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[A-Za-z0-9_-][A-Za-z0-9._-]*$")
    )]
    pub key: Option<String>,
}
