//! User-defined additions to pods and to the Service of the API.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Affinity, Container, EnvVar, PodSecurityContext, TopologySpreadConstraint, Volume, VolumeMount,
};
use kube::KubeSchema;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Additions to the pods that the operator creates. A change replaces or restarts them one by one.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct PodTemplate {
    /// Additional labels, for example for service meshes or billing.
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
             topology.kubernetes.io are reserved"
        )
    )]
    pub labels: Option<BTreeMap<String, String>>,

    /// Additional annotations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxProperties" = 64))]
    #[x_kube(
        validation = Rule::new("self.all(k, !k.startsWith('readstates.dev/'))")
            .message("annotations of readstates.dev are reserved")
    )]
    pub annotations: Option<BTreeMap<String, String>>,

    /// Additional environment variables of the main container, after the operator's. Variables that the operator sets
    /// itself are refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32), transform = in_short)]
    pub env: Option<Vec<EnvVar>>,

    /// Affinity of the pods, in addition to the operator's own rules: no two database pods share a machine, cache pods
    /// share one only if necessary, and each rack stays in its zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = in_short)]
    pub affinity: Option<Affinity>,

    /// How pods are spread; replaces the operator's own preference to spread them over zones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 8), transform = in_short)]
    pub topology_spread_constraints: Option<Vec<TopologySpreadConstraint>>,

    /// Security context of the pods; replaces the operator's own. On OpenShift, for example, set only `runAsNonRoot:
    /// true`, so that the namespace's user range applies.
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

/// The schema without the Kubernetes descriptions of its fields, which would make up most of the definition: `kubectl
/// explain pod.spec` shows them.
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

/// The Service through which clients reach the API.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new(
        "!(has(self.loadBalancerClass) || has(self.loadBalancerSourceRanges)) || (has(self.type) && self.type == \
         'LoadBalancer')"
    ).message("loadBalancerClass and loadBalancerSourceRanges are valid only with type LoadBalancer"),
    validation = Rule::new(
        "!has(self.externalTrafficPolicy) || (has(self.type) && self.type != 'ClusterIP')"
    ).message("externalTrafficPolicy is valid only with types NodePort and LoadBalancer")
)]
pub struct ServiceSpec {
    /// Type of the Service. Default: ClusterIP.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<ServiceType>,

    /// Annotations, for example for a cloud's load balancer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxProperties" = 64))]
    #[x_kube(
        validation = Rule::new("self.all(k, !k.startsWith('readstates.dev/'))")
            .message("annotations of readstates.dev are reserved")
    )]
    pub annotations: Option<BTreeMap<String, String>>,

    /// Class of the load balancer. Default: the cluster's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub load_balancer_class: Option<String>,

    /// Address ranges that the load balancer admits. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub load_balancer_source_ranges: Option<Vec<String>>,

    /// Where external requests go: `Local` sends them only to pods on the machine that they reach, which preserves the
    /// caller's address. Default: Cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_traffic_policy: Option<TrafficPolicy>,

    /// Address families of the Service. Default: SingleStack, with the cluster's first family.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip_family_policy: Option<IpFamilyPolicy>,

    /// Pods that requests from within the Kubernetes cluster prefer. Any pod answers for every user, and passes a request
    /// on to the user's owner where it is another one. Default: none are preferred.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traffic_distribution: Option<TrafficDistribution>,
}

/// Pods that requests prefer.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrafficDistribution {
    /// Those in the client's zone.
    PreferClose,
    /// Those in the client's zone, by the name that Kubernetes 1.34 gave it.
    PreferSameZone,
    /// Those on the client's machine; from Kubernetes 1.34 on.
    PreferSameNode,
}

impl TrafficDistribution {
    /// The word Kubernetes uses.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PreferClose => "PreferClose",
            Self::PreferSameZone => "PreferSameZone",
            Self::PreferSameNode => "PreferSameNode",
        }
    }
}

/// Type of a Service.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceType {
    /// Reachable from within the Kubernetes cluster.
    #[serde(rename = "ClusterIP")]
    ClusterIp,
    /// Reachable through a port of each machine.
    NodePort,
    /// Reachable through a load balancer.
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

/// Where external requests go.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrafficPolicy {
    /// To pods on all machines.
    Cluster,
    /// To pods on the machine that they reach.
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

/// Address families of a Service.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpFamilyPolicy {
    /// One family, also where the cluster has both.
    SingleStack,
    /// Both families if the cluster has both.
    PreferDualStack,
    /// Both families; refused if the cluster does not have both.
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
