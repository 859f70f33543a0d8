//! Which pods may connect to which. (The kubelet's probes come from the pod's own machine, which a policy does not
//! concern; what listens only on loopback, as the admin ports of engines do, is reachable from the pod alone.)
//!
//! | pods | port | from |
//! |---|---|---|
//! | cache | 7400: API | `spec.cache.clients`, else the pods of its namespace; always each other, for pods of the release before |
//! | cache | 7401: admin | the operator, from its own namespace |
//! | cache | 7403: members | each other |
//! | cache | 7404: probes and metrics | any pod of the Kubernetes cluster: it tells nothing about users |
//! | database | 7000: between nodes | each other |
//! | database | 9042, 19042: CQL | cache pods, the schema Job, Jobs of backups, restores and moves, `spec.database.clients`; the same pods of a cluster whose table moves here |
//! | database | 7402: agent | the operator, from its own namespace |
//! | database | 7405: probes | any pod of the Kubernetes cluster |
//! | database | 9108: super-disk agent, where there are super-disks | anywhere |
//! | database | 9180: metrics (`ScyllaDB`) | `spec.monitoring.metricsFrom` |
//! | schema Job, Jobs of backups and restores | none | none |
//! | Jobs of moves | 7404: progress | the operator, from its own namespace |

use std::collections::BTreeMap;

use k8s_openapi::{
    api::networking::v1::{
        NetworkPolicy, NetworkPolicyIngressRule, NetworkPolicyPeer, NetworkPolicyPort,
        NetworkPolicySpec,
    },
    apimachinery::pkg::{
        apis::meta::v1::{LabelSelector, ObjectMeta},
        util::intstr::IntOrString,
    },
};
use readstates_agent::engine::Profile;
use readstates_operator_api::{
    InternodeTls,
    labels::{self, Component},
};

use crate::{
    names::ports,
    spec::{BackupOwner, Database, Identity, ValidatedCluster},
    templates::{backup_metadata, pod, restore_metadata},
};

/// The label that Kubernetes gives every namespace: its name.
const NAMESPACE: &str = "kubernetes.io/metadata.name";

pub(super) fn cache(cluster: &ValidatedCluster) -> NetworkPolicy {
    let members = component(cluster, Component::Cache);
    let own_namespace = || vec![pods(LabelSelector::default())];
    let clients = cluster.cache.clients.clone().unwrap_or_else(own_namespace);
    let clients = [vec![members.clone()], clients].concat();
    policy(
        cluster,
        cluster.id.cache(),
        Component::Cache,
        vec![
            rule(&[ports::HTTP], Some(clients)),
            rule(&[ports::ADMIN], Some(vec![operator(cluster)])),
            rule(&[ports::MEMBERS], Some(vec![members])),
            rule(&[ports::WATCH], Some(vec![any_pod()])),
        ],
    )
}

/// `admits`: the cluster whose table moves here.
pub(super) fn database(
    cluster: &ValidatedCluster,
    database: &Database,
    admits: Option<&String>,
) -> NetworkPolicy {
    let ours =
        [Component::Cache, Component::Schema, Component::Backup].map(|c| component(cluster, c));
    let movers = admits.into_iter().flat_map(|other| {
        let of = |component| labels::selector(other, component);
        [Component::Cache, Component::Backup].map(|c| pods(pod::selector(&of(c))))
    });
    let clients = [ours.to_vec(), movers.collect(), database.clients.clone()].concat();
    let nodes = component(cluster, Component::Database);
    let internode: &[u16] = if database.internode > InternodeTls::Disabled {
        &[ports::INTERNODE, ports::INTERNODE_TLS]
    } else {
        &[ports::INTERNODE]
    };
    let mut ingress = vec![
        rule(internode, Some(vec![nodes])),
        rule(&[ports::CQL, ports::SHARD_AWARE], Some(clients)),
        rule(&[ports::AGENT], Some(vec![operator(cluster)])),
        rule(&[ports::AGENT_WATCH], Some(vec![any_pod()])),
    ];
    if database.super_disk.is_some() {
        // It reports and changes nothing: any client may collect its metrics.
        ingress.push(rule(&[ports::DISK], None));
    }
    let watchers = cluster.monitoring.as_ref().map(|m| m.from.clone());
    let watchers = watchers.filter(|from| !from.is_empty());
    if let (Some(port), Some(_)) = (Profile::of(database.engine).metrics_port, &watchers) {
        ingress.push(rule(&[port], watchers));
    }
    policy(cluster, cluster.id.database(), Component::Database, ingress)
}

/// The schema Job holds the superuser's password: it accepts no connections.
pub(super) fn schema(cluster: &ValidatedCluster) -> NetworkPolicy {
    policy(cluster, cluster.id.schema(), Component::Schema, Vec::new())
}

/// Its pods hold the login of the database: they accept no connections.
#[must_use]
pub fn backup_network_policy(owner: &BackupOwner, name: String, cluster: &str) -> NetworkPolicy {
    let metadata = backup_metadata(owner, name, cluster);
    of_jobs(metadata, owner.label, &owner.id.name, Vec::new())
}

/// Its pods hold the login of the database: they accept no connections.
#[must_use]
pub fn restore_network_policy(id: &Identity) -> NetworkPolicy {
    let metadata = restore_metadata(id, id.restore());
    of_jobs(metadata, labels::RESTORE, &id.name, Vec::new())
}

/// Its pods hold logins of two databases: they tell the operator how far they are, and accept no other connections.
#[must_use]
pub fn move_network_policy(cluster: &ValidatedCluster, owner: &BackupOwner) -> NetworkPolicy {
    let metadata = backup_metadata(owner, owner.moving(), &cluster.id.name);
    let progress = rule(&[ports::WATCH], Some(vec![operator(cluster)]));
    of_jobs(metadata, owner.label, &owner.id.name, vec![progress])
}

fn policy(
    cluster: &ValidatedCluster,
    name: String,
    of: Component,
    ingress: Vec<NetworkPolicyIngressRule>,
) -> NetworkPolicy {
    let pods = cluster.id.selector(of);
    ingress_only(cluster.id.child(name, of), &pods, ingress)
}

/// The Jobs of a backup or of a move, or those that restore, by the label with the name of what they belong to.
fn of_jobs(
    metadata: ObjectMeta,
    label: &str,
    name: &str,
    ingress: Vec<NetworkPolicyIngressRule>,
) -> NetworkPolicy {
    let pods = [
        (labels::COMPONENT, Component::Backup.as_str()),
        (label, name),
    ];
    let pods = pods.map(|(key, value)| (key.to_owned(), value.to_owned()));
    ingress_only(metadata, &pods.into(), ingress)
}

fn ingress_only(
    metadata: ObjectMeta,
    pods: &BTreeMap<String, String>,
    ingress: Vec<NetworkPolicyIngressRule>,
) -> NetworkPolicy {
    NetworkPolicy {
        metadata,
        spec: Some(NetworkPolicySpec {
            pod_selector: Some(pod::selector(pods)),
            policy_types: Some(vec!["Ingress".to_owned()]),
            ingress: Some(ingress).filter(|rules| !rules.is_empty()),
            egress: None,
        }),
    }
}

/// The operator's pods: the labels that the chart gives them, in the operator's own namespace, since any user can put
/// labels on a pod.
fn operator(cluster: &ValidatedCluster) -> NetworkPolicyPeer {
    let labels: BTreeMap<String, String> = [
        (labels::COMPONENT, "operator"),
        (labels::PART_OF, "readstates"),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into();
    let name = cluster.operator_namespace.clone();
    let namespace = BTreeMap::from([(NAMESPACE.to_owned(), name)]);
    NetworkPolicyPeer {
        namespace_selector: Some(pod::selector(&namespace)),
        ..pods(pod::selector(&labels))
    }
}

/// Pods of all namespaces, and no address outside the Kubernetes cluster.
fn any_pod() -> NetworkPolicyPeer {
    NetworkPolicyPeer {
        namespace_selector: Some(LabelSelector::default()),
        ..NetworkPolicyPeer::default()
    }
}

/// Pods of this cluster, in its namespace.
fn component(cluster: &ValidatedCluster, component: Component) -> NetworkPolicyPeer {
    pods(pod::selector(&cluster.id.selector(component)))
}

fn pods(selector: LabelSelector) -> NetworkPolicyPeer {
    NetworkPolicyPeer {
        pod_selector: Some(selector),
        ..NetworkPolicyPeer::default()
    }
}

/// Allows these peers only; `None`: any address.
fn rule(ports: &[u16], from: Option<Vec<NetworkPolicyPeer>>) -> NetworkPolicyIngressRule {
    let port = |port: &u16| NetworkPolicyPort {
        port: Some(IntOrString::Int(i32::from(*port))),
        protocol: Some("TCP".to_owned()),
        end_port: None,
    };
    NetworkPolicyIngressRule {
        ports: Some(ports.iter().map(port).collect()),
        from,
    }
}
