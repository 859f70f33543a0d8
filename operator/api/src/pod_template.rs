//! What users lay over pods, and over the Service of the API.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Affinity, Container, EnvVar, PodSecurityContext, TopologySpreadConstraint, Volume, VolumeMount,
};
use kube::KubeSchema;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What is laid over the pods that the operator makes. A change replaces or restarts them one by one.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct PodTemplate {
    /// Labels besides ours: for meshes, for billing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxProperties" = 32))]
    #[x_kube(
        validation = Rule::new(
            "self.all(k, !k.startsWith('readstates.dev/') && !k.startsWith('app.kubernetes.io/') && \
             k != 'controller-revision-hash' && \
             !k.startsWith('statefulset.kubernetes.io/') && !k.startsWith('apps.kubernetes.io/') && \
             !k.startsWith('topology.kubernetes.io/'))"
        ).message(
            "labels of readstates.dev, app.kubernetes.io, apps.kubernetes.io, statefulset.kubernetes.io and \
             topology.kubernetes.io are not yours to set"
        )
    )]
    pub labels: Option<BTreeMap<String, String>>,

    /// Annotations besides ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxProperties" = 64))]
    #[x_kube(
        validation = Rule::new("self.all(k, !k.startsWith('readstates.dev/'))")
            .message("annotations of readstates.dev are not yours to set")
    )]
    pub annotations: Option<BTreeMap<String, String>>,

    /// Environment of the main container, after ours. What the operator sets itself is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32), transform = in_short)]
    pub env: Option<Vec<EnvVar>>,

    /// Where pods run, besides what the operator asks for: that no two database pods share a machine, cache pods only if
    /// it must be, and each rack in its zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = in_short)]
    pub affinity: Option<Affinity>,

    /// How pods are spread, in the place of the operator's own wish to spread them over zones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 8), transform = in_short)]
    pub topology_spread_constraints: Option<Vec<TopologySpreadConstraint>>,

    /// As whom pods run, in the place of the operator's own: on OpenShift, for example, `runAsNonRoot: true` alone, so
    /// that the namespace's users are taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = in_short)]
    pub security_context: Option<PodSecurityContext>,

    /// Containers beside the main one: log shippers, exporters, proxies. They get no access to the operator's volumes and
    /// no privileges on the node. One without a `securityContext` runs without capabilities.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 8), transform = in_short)]
    pub containers: Option<Vec<Container>>,

    /// Containers that run after the operator's own init containers and before the main container.
    /// `restartPolicy: Always` makes one a sidecar that starts first and ends last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 8), transform = in_short)]
    pub init_containers: Option<Vec<Container>>,

    /// Volumes for these containers and for `volumeMounts`. `hostPath` is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), transform = in_short)]
    pub volumes: Option<Vec<Volume>>,

    /// Where the main container has these volumes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), transform = in_short)]
    pub volume_mounts: Option<Vec<VolumeMount>>,
}

/// The schema without Kubernetes' own descriptions of its fields, which would be most of the definition: `kubectl explain
/// pod.spec` has them.
fn in_short(schema: &mut Schema) {
    let fields = schema.as_object_mut().into_iter().flatten();
    fields.for_each(|(_, value)| shorten(value));
}

fn shorten(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            // A field of that name has a schema, and no text.
            if fields.get("description").is_some_and(Value::is_string) {
                fields.remove("description");
            }
            fields.values_mut().for_each(shorten);
        }
        Value::Array(items) => items.iter_mut().for_each(shorten),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The Service by which clients find the API.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new(
        "!(has(self.loadBalancerClass) || has(self.loadBalancerSourceRanges)) || (has(self.type) && self.type == \
         'LoadBalancer')"
    ).message("loadBalancerClass and loadBalancerSourceRanges go with type LoadBalancer only"),
    validation = Rule::new(
        "!has(self.externalTrafficPolicy) || (has(self.type) && self.type != 'ClusterIP')"
    ).message("externalTrafficPolicy goes with types NodePort and LoadBalancer only")
)]
pub struct ServiceSpec {
    /// How it is reached. Default: ClusterIP.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<ServiceType>,

    /// Annotations: what a cloud's load balancer reads, for example.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxProperties" = 64))]
    #[x_kube(
        validation = Rule::new("self.all(k, !k.startsWith('readstates.dev/'))")
            .message("annotations of readstates.dev are not yours to set")
    )]
    pub annotations: Option<BTreeMap<String, String>>,

    /// Which load balancer. Default: the cluster's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub load_balancer_class: Option<String>,

    /// Addresses that the load balancer lets through. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub load_balancer_source_ranges: Option<Vec<String>>,

    /// Whether requests from outside go to pods of the machine that they reach alone, which keeps the caller's address.
    /// Default: Cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_traffic_policy: Option<TrafficPolicy>,

    /// Addresses of which families it has. Default: SingleStack, of the cluster's first family.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip_family_policy: Option<IpFamilyPolicy>,
}

/// How a Service is reached.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceType {
    /// From within the Kubernetes cluster.
    #[serde(rename = "ClusterIP")]
    ClusterIp,
    /// By a port of each machine.
    NodePort,
    /// By a load balancer.
    LoadBalancer,
}

impl ServiceType {
    /// The word Kubernetes uses.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ClusterIp => "ClusterIP",
            Self::NodePort => "NodePort",
            Self::LoadBalancer => "LoadBalancer",
        }
    }
}

/// Where requests from outside go.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrafficPolicy {
    /// To pods of all machines.
    Cluster,
    /// To pods of the machine that they reach.
    Local,
}

impl TrafficPolicy {
    /// The word Kubernetes uses.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cluster => "Cluster",
            Self::Local => "Local",
        }
    }
}

/// Which families of addresses a Service has.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpFamilyPolicy {
    /// One.
    SingleStack,
    /// Both where the cluster has both.
    PreferDualStack,
    /// Both, or it is refused.
    RequireDualStack,
}

impl IpFamilyPolicy {
    /// The word Kubernetes uses.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SingleStack => "SingleStack",
            Self::PreferDualStack => "PreferDualStack",
            Self::RequireDualStack => "RequireDualStack",
        }
    }
}
