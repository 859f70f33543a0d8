//! Parts that pods of all kinds share: security, probes, where they may run, volumes.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{
        Affinity, Capabilities, ContainerPort, EmptyDirVolumeSource, HTTPGetAction, NodeAffinity,
        NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PersistentVolumeClaim,
        PersistentVolumeClaimSpec, PodAffinityTerm, PodAntiAffinity, PodSecurityContext,
        PodTemplateSpec, Probe, SeccompProfile, SecurityContext, TopologySpreadConstraint,
        Volume as PodVolume, VolumeMount, VolumeResourceRequirements, WeightedPodAffinityTerm,
    },
    apimachinery::pkg::{
        apis::meta::v1::{LabelSelector, ObjectMeta},
        util::intstr::IntOrString,
    },
};
use readstates_operator_api::labels::{self, ZONE};

use crate::spec::Volume;

/// Name of the claimed volume in a pod.
pub(super) const DATA: &str = "data";

const HOST: &str = "kubernetes.io/hostname";

/// Marks the template with the request that its pods are restarted for.
pub(super) fn restarted(template: &mut PodTemplateSpec, request: Option<&String>) {
    if let Some(request) = request {
        let metadata = template.metadata.get_or_insert_default();
        let annotations = metadata.annotations.get_or_insert_default();
        annotations.insert(labels::RESTARTED.to_owned(), request.clone());
    }
}

/// Runs as this user and group, in the way the `restricted` pod security standard asks for.
pub(super) fn restricted(user: i64) -> PodSecurityContext {
    PodSecurityContext {
        run_as_non_root: Some(true),
        run_as_user: Some(user),
        run_as_group: Some(user),
        fs_group: Some(user),
        fs_group_change_policy: Some("OnRootMismatch".to_owned()),
        seccomp_profile: Some(default_seccomp()),
        ..PodSecurityContext::default()
    }
}

pub(super) fn default_seccomp() -> SeccompProfile {
    SeccompProfile {
        type_: "RuntimeDefault".to_owned(),
        localhost_profile: None,
    }
}

/// No way to more rights.
pub(super) fn restricted_container(read_only_root: bool) -> SecurityContext {
    SecurityContext {
        allow_privilege_escalation: Some(false),
        capabilities: Some(Capabilities {
            drop: Some(vec!["ALL".to_owned()]),
            add: None,
        }),
        read_only_root_filesystem: Some(read_only_root),
        ..SecurityContext::default()
    }
}

/// How often a probe asks, and how often it may fail.
#[derive(Clone, Copy)]
pub(super) struct Patience {
    pub(super) period_seconds: i32,
    pub(super) failures: i32,
}

pub(super) fn http_probe(path: &str, port: &str, patience: Patience) -> Probe {
    Probe {
        http_get: Some(HTTPGetAction {
            path: Some(path.to_owned()),
            port: IntOrString::String(port.to_owned()),
            ..HTTPGetAction::default()
        }),
        ..probe(patience)
    }
}

/// Asks another container of the pod, whose ports have no names here.
pub(super) fn neighbour_probe(path: &str, port: u16, patience: Patience) -> Probe {
    Probe {
        http_get: Some(HTTPGetAction {
            path: Some(path.to_owned()),
            port: IntOrString::Int(i32::from(port)),
            ..HTTPGetAction::default()
        }),
        ..probe(patience)
    }
}

fn probe(patience: Patience) -> Probe {
    Probe {
        period_seconds: Some(patience.period_seconds),
        failure_threshold: Some(patience.failures),
        timeout_seconds: Some(3),
        ..Probe::default()
    }
}

/// Not two on one node, if that is possible.
pub(super) fn apart_if_possible(labels: &BTreeMap<String, String>) -> PodAntiAffinity {
    PodAntiAffinity {
        preferred_during_scheduling_ignored_during_execution: Some(vec![WeightedPodAffinityTerm {
            weight: 100,
            pod_affinity_term: on_one_node(labels),
        }]),
        ..PodAntiAffinity::default()
    }
}

/// Never two on one node.
pub(super) fn apart(labels: &BTreeMap<String, String>) -> PodAntiAffinity {
    PodAntiAffinity {
        required_during_scheduling_ignored_during_execution: Some(vec![on_one_node(labels)]),
        ..PodAntiAffinity::default()
    }
}

fn on_one_node(labels: &BTreeMap<String, String>) -> PodAffinityTerm {
    PodAffinityTerm {
        topology_key: HOST.to_owned(),
        label_selector: Some(selector(labels)),
        ..PodAffinityTerm::default()
    }
}

/// Spread over zones, if that is possible.
pub(super) fn over_zones(labels: &BTreeMap<String, String>) -> TopologySpreadConstraint {
    TopologySpreadConstraint {
        max_skew: 1,
        topology_key: ZONE.to_owned(),
        when_unsatisfiable: "ScheduleAnyway".to_owned(),
        label_selector: Some(selector(labels)),
        ..TopologySpreadConstraint::default()
    }
}

/// Only in this zone.
pub(super) fn in_zone(zone: &str) -> NodeAffinity {
    let term = NodeSelectorTerm {
        match_expressions: Some(vec![NodeSelectorRequirement {
            key: ZONE.to_owned(),
            operator: "In".to_owned(),
            values: Some(vec![zone.to_owned()]),
        }]),
        match_fields: None,
    };
    NodeAffinity {
        required_during_scheduling_ignored_during_execution: Some(NodeSelector {
            node_selector_terms: vec![term],
        }),
        ..NodeAffinity::default()
    }
}

pub(super) fn affinity(apart: PodAntiAffinity, zone: Option<NodeAffinity>) -> Affinity {
    Affinity {
        pod_anti_affinity: Some(apart),
        node_affinity: zone,
        ..Affinity::default()
    }
}

pub(crate) fn selector(labels: &BTreeMap<String, String>) -> LabelSelector {
    LabelSelector {
        match_labels: Some(labels.clone()),
        ..LabelSelector::default()
    }
}

/// One claim for each pod. Claims outlive pod, StatefulSet and cluster.
pub(super) fn claim(volume: &Volume) -> PersistentVolumeClaim {
    let Volume { size, class } = volume;
    PersistentVolumeClaim {
        metadata: ObjectMeta {
            name: Some(DATA.to_owned()),
            ..ObjectMeta::default()
        },
        spec: Some(PersistentVolumeClaimSpec {
            access_modes: Some(vec!["ReadWriteOnce".to_owned()]),
            storage_class_name: class.clone(),
            resources: Some(VolumeResourceRequirements {
                requests: Some(BTreeMap::from([("storage".to_owned(), size.clone())])),
                limits: None,
            }),
            ..PersistentVolumeClaimSpec::default()
        }),
        status: None,
    }
}

pub(super) fn mount(name: &str, path: &str) -> VolumeMount {
    VolumeMount {
        name: name.to_owned(),
        mount_path: path.to_owned(),
        ..VolumeMount::default()
    }
}

/// A folder that lives as long as the pod.
pub(super) fn empty(name: &str) -> PodVolume {
    PodVolume {
        name: name.to_owned(),
        empty_dir: Some(EmptyDirVolumeSource::default()),
        ..PodVolume::default()
    }
}

pub(super) fn port(name: &str, port: u16) -> ContainerPort {
    ContainerPort {
        name: Some(name.to_owned()),
        container_port: i32::from(port),
        ..ContainerPort::default()
    }
}
