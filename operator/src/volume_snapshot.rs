//! Kubernetes' `VolumeSnapshot`, as far as it is written and read here. The external snapshotter defines the kind: it is
//! missing where that is not installed.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// The API group of VolumeSnapshots.
pub const GROUP: &str = "snapshot.storage.k8s.io";

/// A copy of a volume as it was at one moment.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[kube(
    group = "snapshot.storage.k8s.io",
    version = "v1",
    kind = "VolumeSnapshot",
    namespaced,
    schema = "disabled",
    status = "VolumeSnapshotStatus",
    derive = "PartialEq",
    doc = "A copy of a volume as it was at one moment."
)]
#[serde(rename_all = "camelCase")]
pub struct VolumeSnapshotSpec {
    /// What it is taken of.
    pub source: SnapshotSource,
    /// The class; none: the default class of the volume's driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_snapshot_class_name: Option<String>,
}

/// What a snapshot is taken of; one that was made by hand over a copy names that instead.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotSource {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persistent_volume_claim_name: Option<String>,
    /// The copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_snapshot_content_name: Option<String>,
}

/// How far the storage system is.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct VolumeSnapshotStatus {
    /// The copy.
    #[serde(default)]
    pub bound_volume_snapshot_content_name: Option<String>,
    /// The moment.
    #[serde(default)]
    pub creation_time: Option<Time>,
    /// Whether volumes can be made from it.
    #[serde(default)]
    pub ready_to_use: Option<bool>,
    /// The size of a volume that holds it, as Kubernetes writes quantities.
    #[serde(default)]
    pub restore_size: Option<String>,
    /// What went wrong last; it is tried again.
    #[serde(default)]
    pub error: Option<SnapshotError>,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotError {
    #[serde(default)]
    pub message: Option<String>,
}
