//! `spec.monitoring`: how Prometheus finds the pods.

use std::collections::BTreeMap;

use k8s_openapi::api::networking::v1::NetworkPolicyPeer;
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

/// With it there is a PodMonitor for the cache pods, and one for the database pods that the operator runs (the agent's
/// metrics, ScyllaDB's own, and those of super-disks), where Kubernetes knows that kind.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct MonitoringSpec {
    /// Labels of the PodMonitors: what your Prometheus selects them by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub pod_monitor_labels: Option<BTreeMap<String, String>>,

    /// How often pods are asked, from 1s to 10m. Default: as often as your Prometheus asks others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), regex(pattern = r"^([0-9]+(s|m))+$"))]
    #[x_kube(
        validation = Rule::new(
            "!self.matches('^([0-9]{1,6}(s|m))+$') || (duration(self) >= duration('1s') && \
             duration(self) <= duration('10m'))"
        ).message("interval must be between 1s and 10m")
    )]
    pub interval: Option<String>,

    /// Who may reach the metrics of ScyllaDB, port 9180, as peers of a NetworkPolicy. Default: nobody. (The other metrics
    /// tell every pod that asks.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 16))]
    pub metrics_from: Option<Vec<NetworkPolicyPeer>>,
}
