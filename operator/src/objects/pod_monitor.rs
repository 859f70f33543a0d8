//! PodMonitors: one for the cache pods, and one for the database pods that the operator runs. Series get the cluster's
//! name as a label, which the alerts rely on.

use readstates_agent::engine::Profile;
use readstates_operator_api::labels::{CLUSTER, Component};

use crate::{
    names::ports,
    pod_monitor::{Endpoint, PodMonitor, PodMonitorSpec, Relabeling},
    spec::{Monitoring, Store, ValidatedCluster},
    templates::pod,
};

/// None where the cluster does not ask for them.
#[must_use]
pub fn pod_monitors(cluster: &ValidatedCluster) -> Vec<PodMonitor> {
    let Some(monitoring) = &cluster.monitoring else {
        return Vec::new();
    };
    let cache = vec![endpoint(monitoring, ports::WATCH_NAME)];
    let database = of_database(cluster, monitoring);
    let id = &cluster.id;
    [
        (id.cache(), Component::Cache, cache),
        (id.database(), Component::Database, database),
    ]
    .into_iter()
    .filter(|(_, _, endpoints)| !endpoints.is_empty())
    .map(|(name, component, endpoints)| monitor(cluster, monitoring, name, component, endpoints))
    .collect()
}

fn of_database(cluster: &ValidatedCluster, monitoring: &Monitoring) -> Vec<Endpoint> {
    let Store::Managed(database) = &cluster.store else {
        return Vec::new();
    };
    // The agent's: what it sees, and of Cassandra its thread pools.
    let mut endpoints = vec![endpoint(monitoring, ports::WATCH_NAME)];
    if let Some(port) = Profile::of(database.engine).metrics_port {
        endpoints.push(of_engine(monitoring, port));
    }
    if database.super_disk.is_some() {
        endpoints.push(endpoint(monitoring, ports::DISK_NAME));
    }
    endpoints
}

/// The port has no name in pods that are there: the address of one that has is changed.
fn of_engine(monitoring: &Monitoring, port: u16) -> Endpoint {
    let mut endpoint = endpoint(monitoring, ports::CQL_NAME);
    endpoint.relabelings.push(Relabeling {
        source_labels: vec!["__address__".to_owned()],
        target_label: "__address__".to_owned(),
        regex: Some("(.+):[0-9]+".to_owned()),
        replacement: Some(format!("$1:{port}")),
    });
    endpoint
}

fn endpoint(monitoring: &Monitoring, port: &str) -> Endpoint {
    let label: String = CLUSTER
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
        .collect();
    Endpoint {
        port: port.to_owned(),
        interval: monitoring.interval.clone(),
        relabelings: vec![Relabeling {
            source_labels: vec![format!("__meta_kubernetes_pod_label_{label}")],
            target_label: "readstates_cluster".to_owned(),
            regex: None,
            replacement: None,
        }],
    }
}

fn monitor(
    cluster: &ValidatedCluster,
    monitoring: &Monitoring,
    name: String,
    component: Component,
    pod_metrics_endpoints: Vec<Endpoint>,
) -> PodMonitor {
    let mut metadata = cluster.id.child(name, component);
    // Ours say whose it is.
    let mut labels = monitoring.labels.clone();
    labels.extend(metadata.labels.take().unwrap_or_default());
    metadata.labels = Some(labels);
    PodMonitor {
        metadata,
        spec: PodMonitorSpec {
            selector: pod::selector(&cluster.id.selector(component)),
            pod_metrics_endpoints,
        },
    }
}
