//! The Prometheus operator's `PodMonitor`, as far as it is written here. That operator defines the kind: it is missing
//! where that operator is not installed.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// Which pods are asked for metrics, and how.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "monitoring.coreos.com",
    version = "v1",
    kind = "PodMonitor",
    namespaced,
    schema = "disabled",
    derive = "PartialEq",
    doc = "Pods that Prometheus asks for metrics."
)]
#[serde(rename_all = "camelCase")]
pub struct PodMonitorSpec {
    /// The pods.
    pub selector: LabelSelector,
    /// What of them is asked.
    pub pod_metrics_endpoints: Vec<Endpoint>,
}

/// A port with metrics.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Endpoint {
    /// Its name in the pod.
    pub port: String,
    /// How often.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<String>,
    /// What is made of the labels that Kubernetes gives.
    pub relabelings: Vec<Relabeling>,
}

/// A label out of others.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Relabeling {
    pub source_labels: Vec<String>,
    /// What is written.
    pub target_label: String,
    /// What it has to look like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regex: Option<String>,
    /// What is made of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replacement: Option<String>,
}
