//! What a reading or comparison of everything came to.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

/// Everything was read or compared, and nothing was wrong.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Verification {
    /// When that was done.
    pub finished: Time,

    /// Users that were read or compared; absent where the pod was deleted before the operator could read its report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub users: Option<i64>,
}
