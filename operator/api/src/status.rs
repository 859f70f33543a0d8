//! `ReadStateCluster.status`: what the operator saw last.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

/// What the operator saw last. Whoever scripts against it reads the conditions.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ReadStateClusterStatus {
    /// Generation of the spec that this status tells about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// `Available`, `Progressing`, `Degraded`, `CacheReady`, `DatabaseReady` and `RingStable`.
    #[serde(default)]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".to_owned()]))]
    pub conditions: Vec<Condition>,

    /// Cache pods that exist, for the scale subresource.
    #[serde(default)]
    pub replicas: i32,

    /// Label selector of the cache pods, for the scale subresource.
    #[serde(default)]
    pub selector: String,

    /// Cache pods that are ready, of those wanted: `3/3`.
    #[serde(default)]
    pub cache: String,

    /// Database pods that are ready, of those wanted, or `external`, or `embedded`.
    #[serde(default)]
    pub database: String,

    /// Read states in memory, over all cache pods. Absent when not every ready pod could be asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub states: Option<i64>,

    /// Users whose changes are not in the database yet, over all cache pods. Absent when not every
    /// ready pod could be asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dirty: Option<i64>,

    /// Number of the member table in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ring_number: Option<i64>,

    /// What the next step waits for. Absent: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_on: Option<Waiting>,
}

/// Why nothing happens just now.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Waiting {
    /// One word for it; the reason of the condition Progressing.
    pub reason: String,

    /// What is waited for, with names and numbers.
    pub message: String,

    /// Since when.
    pub since: Time,
}
