//! Who may talk to database pods: nodes to each other, pods of the namespace by CQL, and to the agents nobody but the
//! operator. (The kubelet's probes come from the pod's own machine, which a policy does not concern.)

use std::collections::BTreeMap;

use k8s_openapi::{
    api::networking::v1::{
        NetworkPolicy, NetworkPolicyIngressRule, NetworkPolicyPeer, NetworkPolicyPort,
        NetworkPolicySpec,
    },
    apimachinery::pkg::{apis::meta::v1::LabelSelector, util::intstr::IntOrString},
};
use readstates_operator_api::labels::{self, Component};

use super::{pod, ports};
use crate::validate::ValidatedCluster;

pub(super) fn database(cluster: &ValidatedCluster) -> NetworkPolicy {
    let id = &cluster.id;
    let own = pod::selector(&id.selector(Component::Database));
    let any = LabelSelector::default();
    NetworkPolicy {
        metadata: id.child(id.database(), Component::Database),
        spec: Some(NetworkPolicySpec {
            pod_selector: Some(own.clone()),
            policy_types: Some(vec!["Ingress".to_owned()]),
            ingress: Some(vec![
                rule(&[ports::INTERNODE], pods(own)),
                rule(&[ports::CQL, ports::SHARD_AWARE], pods(any.clone())),
                rule(
                    &[ports::AGENT],
                    NetworkPolicyPeer {
                        namespace_selector: Some(any),
                        ..pods(pod::selector(&operator()))
                    },
                ),
            ]),
            egress: None,
        }),
    }
}

/// The labels that the chart gives the operator's pods.
fn operator() -> BTreeMap<String, String> {
    [
        (labels::COMPONENT, "operator"),
        (labels::PART_OF, "readstates"),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into()
}

fn pods(selector: LabelSelector) -> NetworkPolicyPeer {
    NetworkPolicyPeer {
        pod_selector: Some(selector),
        ..NetworkPolicyPeer::default()
    }
}

fn rule(ports: &[u16], from: NetworkPolicyPeer) -> NetworkPolicyIngressRule {
    let port = |port: &u16| NetworkPolicyPort {
        port: Some(IntOrString::Int(i32::from(*port))),
        protocol: Some("TCP".to_owned()),
        end_port: None,
    };
    NetworkPolicyIngressRule {
        ports: Some(ports.iter().map(port).collect()),
        from: Some(vec![from]),
    }
}
