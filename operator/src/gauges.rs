//! How each cluster is, for Prometheus. In: the clusters as the watch last told of them. Out: gauges, made anew
//! for every scrape, so that those of a cluster end with it.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{Arc, Mutex, PoisonError},
};

use jiff::Timestamp;
use kube::{ResourceExt, runtime::reflector::Store};
use readstates_operator_api::{
    DatabaseNodeState, ReadStateCluster, ReadStateClusterStatus, SuperDiskState,
};

/// The clusters that this process reconciles; none while it does not lead.
#[derive(Clone, Debug, Default)]
pub struct Clusters(Arc<Mutex<Vec<Store<ReadStateCluster>>>>);

impl Clusters {
    /// And those of one more watch.
    pub fn add(&self, store: Store<ReadStateCluster>) {
        self.stores().push(store);
    }

    /// Their gauges, as Prometheus reads them.
    #[must_use]
    pub fn render(&self, now: Timestamp) -> String {
        let clusters: Vec<_> = self.stores().iter().flat_map(Store::state).collect();
        render(&clusters, now)
    }

    fn stores(&self) -> std::sync::MutexGuard<'_, Vec<Store<ReadStateCluster>>> {
        // Every change to it is one call: there is no half of one.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One number of a status, where it is known.
struct Gauge {
    name: &'static str,
    help: &'static str,
    of: fn(&ReadStateClusterStatus) -> Option<i64>,
}

const GAUGES: [Gauge; 6] = [
    Gauge {
        name: "readstates_cluster_states",
        help: "Read states in memory, over all cache pods.",
        of: |s| s.states,
    },
    Gauge {
        name: "readstates_cluster_dirty_users",
        help: "Users whose changes are not in the database yet, over all cache pods.",
        of: |s| s.dirty,
    },
    Gauge {
        name: "readstates_cluster_slots_moving",
        help: "Slots on their way from one cache pod to another.",
        of: |s| Some(s.slots_moving),
    },
    Gauge {
        name: "readstates_cluster_slots_taken_over",
        help: "Slots taken over from cache pods that ended without handing them on.",
        of: |s| s.slots_taken_over,
    },
    Gauge {
        name: "readstates_cluster_database_free_bytes",
        help: "Bytes free on the fullest disk of a database node, rounded down to whole GiB.",
        of: |s| s.database_free_gib.map(|gib| gib << 30),
    },
    Gauge {
        name: "readstates_cluster_ring_number",
        help: "Number of the ring, which grows with each of its changes.",
        of: |s| s.ring_number,
    },
];

fn render(clusters: &[Arc<ReadStateCluster>], now: Timestamp) -> String {
    let mut out = String::new();
    let named: Vec<_> = clusters
        .iter()
        .filter_map(|cluster| {
            let namespace = cluster.namespace()?;
            let name = cluster.name_any();
            // Neither has a character that would have to be escaped.
            let labels = format!("namespace=\"{namespace}\",name=\"{name}\"");
            Some((labels, cluster.status.as_ref()?))
        })
        .collect();
    family(
        &mut out,
        "readstates_cluster_condition",
        "Conditions: 1 is True, 0 is False, -1 is Unknown.",
        named.iter().flat_map(|(labels, status)| {
            let each = status.conditions.iter();
            each.map(move |condition| {
                let labels = format!("{labels},condition=\"{}\"", condition.type_);
                (labels, truth(&condition.status))
            })
        }),
    );
    family(
        &mut out,
        "readstates_cluster_waiting_seconds",
        "Since when the next step has waited, by what for.",
        named.iter().filter_map(|(labels, status)| {
            let waiting = status.waiting_on.as_ref()?;
            let seconds = now.duration_since(waiting.since.0).as_secs();
            Some((format!("{labels},reason=\"{}\"", waiting.reason), seconds))
        }),
    );
    family(
        &mut out,
        "readstates_cluster_database_nodes",
        "Nodes of the database that the operator runs, by state.",
        named.iter().flat_map(|(labels, status)| {
            let nodes = status.database_nodes.iter();
            by_state(labels, nodes.map(|node| node_state(node.state)))
        }),
    );
    family(
        &mut out,
        "readstates_cluster_super_disks",
        "Super-disks of database pods, by state.",
        named.iter().flat_map(|(labels, status)| {
            let disks = status.super_disks.iter();
            by_state(labels, disks.map(|disk| disk_state(disk.state)))
        }),
    );
    family(
        &mut out,
        "readstates_operator_certificate_expiry_timestamp_seconds",
        "When a certificate expires, in seconds after 1970, by what it is for.",
        clusters.iter().flat_map(|cluster| expiries(cluster)),
    );
    for Gauge { name, help, of } in GAUGES {
        let known = named
            .iter()
            .filter_map(|(labels, status)| Some((labels.clone(), of(status)?)));
        family(&mut out, name, help, known);
    }
    out
}

fn expiries(cluster: &ReadStateCluster) -> Vec<(String, i64)> {
    let name = cluster.name_any();
    let namespace = cluster.namespace().unwrap_or_default();
    let status = cluster.status.iter().flat_map(|s| &s.certificates);
    let labelled = status.map(|certificate| {
        let labels = format!(
            "cluster=\"{name}.{namespace}\",role=\"{}\"",
            certificate.role
        );
        (labels, certificate.expires.0.as_second())
    });
    labelled.collect()
}

/// A family of gauges: labels and value of each.
fn family(
    out: &mut String,
    name: &str,
    help: &str,
    gauges: impl IntoIterator<Item = (String, i64)>,
) {
    // Writing to a string cannot fail.
    let _ = write!(out, "# HELP {name} {help}\n# TYPE {name} gauge\n");
    for (labels, value) in gauges {
        let _ = writeln!(out, "{name}{{{labels}}} {value}");
    }
}

/// How many are in each state.
fn by_state(
    labels: &str,
    states: impl Iterator<Item = &'static str>,
) -> impl Iterator<Item = (String, i64)> {
    let mut counts = BTreeMap::new();
    for state in states {
        *counts.entry(state).or_insert(0) += 1;
    }
    let labels = labels.to_owned();
    let gauges = counts.into_iter();
    gauges.map(move |(state, count)| (format!("{labels},state=\"{state}\""), count))
}

fn node_state(state: DatabaseNodeState) -> &'static str {
    match state {
        DatabaseNodeState::Joining => "Joining",
        DatabaseNodeState::Member => "Member",
        DatabaseNodeState::Replacing => "Replacing",
        DatabaseNodeState::Leaving => "Leaving",
        DatabaseNodeState::Left => "Left",
    }
}

fn disk_state(state: SuperDiskState) -> &'static str {
    match state {
        SuperDiskState::Waiting => "Waiting",
        SuperDiskState::Refused => "Refused",
        SuperDiskState::Failed => "Failed",
        SuperDiskState::Assembling => "Assembling",
        SuperDiskState::Healthy => "Healthy",
        SuperDiskState::Rebuilding => "Rebuilding",
        SuperDiskState::FastLost => "FastLost",
        SuperDiskState::DurableLost => "DurableLost",
        SuperDiskState::Unknown => "Unknown",
    }
}

fn truth(condition: &str) -> i64 {
    match condition {
        "True" => 1,
        "False" => 0,
        _ => -1,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cluster(name: &str, status: serde_json::Value) -> Arc<ReadStateCluster> {
        let cluster = json!({
            "apiVersion": "readstates.dev/v1alpha1", "kind": "ReadStateCluster",
            "metadata": { "name": name, "namespace": "ns" },
            "spec": { "database": { "embedded": {} }, "replicas": 1 },
            "status": status,
        });
        Arc::new(serde_json::from_value(cluster).unwrap())
    }

    #[test]
    fn each_cluster_has_its_conditions_its_wait_and_the_numbers_that_are_known() {
        let now: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        let condition = |type_: &str, status: &str| {
            json!({
                "type": type_, "status": status, "reason": "R", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            })
        };
        let node = |name: &str, state: &str| json!({ "name": name, "rack": "a", "state": state, "since": "2026-01-01T00:00:00Z" });
        let chat = json!({
            "conditions": [condition("Available", "True"), condition("RingStable", "Unknown")],
            "states": 7, "slotsMoving": 0, "databaseFreeGib": 3,
            "databaseNodes": [node("a-0", "Member"), node("a-1", "Member"), node("b-0", "Joining")],
            "superDisks": [{
                "name": "a-0", "state": "FastLost", "message": "", "since": "2026-01-01T00:00:00Z",
            }],
            "certificates": [{ "role": "member", "expires": "2026-03-01T00:00:00Z" }],
            "waitingOn": { "reason": "NodeJoining", "message": "", "since": "2026-01-01T00:00:00Z" },
        });
        let text = render(&[cluster("chat", chat), cluster("new", json!(null))], now);
        let lines: Vec<_> = text.lines().filter(|l| !l.starts_with('#')).collect();
        assert_eq!(
            lines,
            [
                r#"readstates_cluster_condition{namespace="ns",name="chat",condition="Available"} 1"#,
                r#"readstates_cluster_condition{namespace="ns",name="chat",condition="RingStable"} -1"#,
                r#"readstates_cluster_waiting_seconds{namespace="ns",name="chat",reason="NodeJoining"} 60"#,
                r#"readstates_cluster_database_nodes{namespace="ns",name="chat",state="Joining"} 1"#,
                r#"readstates_cluster_database_nodes{namespace="ns",name="chat",state="Member"} 2"#,
                r#"readstates_cluster_super_disks{namespace="ns",name="chat",state="FastLost"} 1"#,
                r#"readstates_operator_certificate_expiry_timestamp_seconds{cluster="chat.ns",role="member"} 1772323200"#,
                r#"readstates_cluster_states{namespace="ns",name="chat"} 7"#,
                r#"readstates_cluster_slots_moving{namespace="ns",name="chat"} 0"#,
                r#"readstates_cluster_database_free_bytes{namespace="ns",name="chat"} 3221225472"#,
            ]
        );
    }
}
