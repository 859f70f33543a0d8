//! `spec.monitoring`: how Prometheus finds the pods.

use std::collections::BTreeMap;

use k8s_openapi::api::networking::v1::NetworkPolicyPeer;
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

/// If set, and if the PodMonitor kind is installed, the operator creates a PodMonitor for the cache pods, and one for
/// the database pods that it runs (metrics of the agent, of ScyllaDB and of super-disks).
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct MonitoringSpec {
    /// Labels of the PodMonitors, for the selector of your Prometheus.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub pod_monitor_labels: Option<BTreeMap<String, String>>,

    /// Scrape interval, from 1s to 10m. Default: the default of your Prometheus.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), regex(pattern = r"^([0-9]+(s|m))+$"))]
    #[x_kube(
        validation = Rule::new(
            "!self.matches('^([0-9]{1,6}(s|m))+$') || (duration(self) >= duration('1s') && \
             duration(self) <= duration('10m'))"
        ).message("interval must be between 1s and 10m")
    )]
    pub interval: Option<String>,

    /// Who may reach the metrics of ScyllaDB, port 9180, as peers of a NetworkPolicy. Default: none. (The other metrics
    /// are open to every pod.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 16))]
    pub metrics_from: Option<Vec<NetworkPolicyPeer>>,
}
