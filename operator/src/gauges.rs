//! Prometheus gauges of each cluster. In: the clusters as the watch last reported them. Out: gauges, computed for every
//! scrape, so that those of a deleted cluster disappear.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use jiff::Timestamp;
use kube::{ResourceExt, runtime::reflector::Store};
use readstates_metrics::Text;
use readstates_operator_api::{
    DatabaseNode, DatabaseNodeState, PendingJob, ReadStateCluster, ReadStateClusterStatus,
    SuperDiskState,
};

use crate::spec::Amount;

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

const GAUGES: [Gauge; 8] = [
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
    Gauge {
        name: "readstates_cluster_repairs_running",
        help: "Database nodes that are being repaired.",
        of: |s| repairs(s, |r| i64::from(r.runs())),
    },
    Gauge {
        name: "readstates_cluster_repair_failures",
        help: "Failed attempts at repairs of database nodes that are not done.",
        of: |s| repairs(s, |r| i64::from(r.failures())),
    },
];

/// A sum over the repairs that are due or run; nothing where there is no database to repair.
fn repairs(status: &ReadStateClusterStatus, of: fn(&PendingJob) -> i64) -> Option<i64> {
    let nodes = &status.database_nodes;
    let sum = || nodes.iter().filter_map(|n| n.repair.as_ref()).map(of).sum();
    (!nodes.is_empty()).then(sum)
}

fn render(clusters: &[Arc<ReadStateCluster>], now: Timestamp) -> String {
    let mut text = Text::default();
    let named: Vec<_> = clusters
        .iter()
        .filter_map(|cluster| {
            let namespace = cluster.namespace()?;
            Some((namespace, cluster.name_any(), cluster.status.as_ref()?))
        })
        .collect();
    // A family of gauges: of each cluster its samples, of which each may have one label more.
    let mut family = |name: &str, help: &str, of: &dyn Fn(&ReadStateClusterStatus) -> Samples| {
        text.family(name, help, "gauge");
        for (namespace, cluster, status) in &named {
            for (label, value) in of(status) {
                let mut labels = vec![("namespace", namespace.as_str()), ("name", cluster)];
                labels.extend(label.as_ref().map(|(key, word)| (*key, word.as_str())));
                text.sample(name, &labels, value as f64);
            }
        }
    };
    family(
        "readstates_cluster_condition",
        "Conditions: 1 is True, 0 is False, -1 is Unknown.",
        &|status| {
            let each = status.conditions.iter();
            each.map(|c| (Some(("condition", c.type_.clone())), truth(&c.status)))
                .collect()
        },
    );
    family(
        "readstates_cluster_waiting_seconds",
        "Time that the next step has waited, by what for.",
        &|status| {
            let waiting = status.waiting_on.iter();
            waiting
                .map(|waiting| {
                    let seconds = now.duration_since(waiting.since.0).as_secs();
                    (Some(("reason", waiting.reason.clone())), seconds)
                })
                .collect()
        },
    );
    family(
        "readstates_cluster_database_nodes",
        "Nodes of the database that the operator runs, by state.",
        &|status| by_state(status.database_nodes.iter().map(|n| node_state(n.state))),
    );
    family(
        "readstates_cluster_super_disks",
        "Super-disks of database pods, by state.",
        &|status| by_state(status.super_disks.iter().map(|d| disk_state(d.state))),
    );
    family(
        "readstates_cluster_repair_age_seconds",
        "Time since the oldest of the database nodes' last repairs began; of a node never repaired, since that is due.",
        &|status| {
            let members = status.database_nodes.iter().filter(|n| n.is_member());
            let oldest = members
                .filter_map(DatabaseNode::repaired_up_to)
                .min_by_key(|at| at.0);
            let age = oldest.map(|at| now.duration_since(at.0).as_secs());
            age.map(|age| (None, age)).into_iter().collect()
        },
    );
    for Gauge { name, help, of } in &GAUGES {
        family(name, help, &|status| {
            of(status).map(|value| (None, value)).into_iter().collect()
        });
    }
    sizes(&mut text, clusters);
    expiries(&mut text, clusters);
    text.finish()
}

fn sizes(text: &mut Text, clusters: &[Arc<ReadStateCluster>]) {
    let name = "readstates_cluster_database_size_bytes";
    let help = "Size of the volume that each database node asks for.";
    text.family(name, help, "gauge");
    for cluster in clusters {
        let storage = cluster.spec.database.storage.as_ref();
        let size = storage.and_then(|storage| Amount::parse(&storage.size));
        if let (Some(namespace), Some(size)) = (cluster.namespace(), size) {
            let labels = [
                ("namespace", namespace.as_str()),
                ("name", &cluster.name_any()),
            ];
            text.sample(name, &labels, size.units() as f64);
        }
    }
}

fn expiries(text: &mut Text, clusters: &[Arc<ReadStateCluster>]) {
    let name = "readstates_operator_certificate_expiry_timestamp_seconds";
    let help = "When a certificate expires, in seconds after 1970, by what it is for.";
    text.family(name, help, "gauge");
    for cluster in clusters {
        let namespace = cluster.namespace().unwrap_or_default();
        let full_name = format!("{}.{namespace}", cluster.name_any());
        for certificate in cluster.status.iter().flat_map(|s| &s.certificates) {
            let labels = [("cluster", full_name.as_str()), ("role", &certificate.role)];
            text.sample(name, &labels, certificate.expires.0.as_second() as f64);
        }
    }
}

/// Samples of one family and cluster: each with its own label, if any.
type Samples = Vec<(Option<(&'static str, String)>, i64)>;

/// How many are in each state.
fn by_state(states: impl Iterator<Item = &'static str>) -> Samples {
    let mut counts = BTreeMap::new();
    for state in states {
        *counts.entry(state).or_insert(0) += 1;
    }
    let gauges = counts.into_iter();
    gauges
        .map(|(state, count)| (Some(("state", state.to_owned())), count))
        .collect()
}

fn node_state(state: DatabaseNodeState) -> &'static str {
    match state {
        DatabaseNodeState::Joining => "Joining",
        DatabaseNodeState::Member => "Member",
        DatabaseNodeState::Replacing => "Replacing",
        DatabaseNodeState::Repairing => "Repairing",
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
        let mut repaired = node("a-0", "Member");
        repaired["lastRepaired"] = json!("2026-01-01T00:00:30Z");
        let mut repairing = node("a-1", "Member");
        repairing["repair"] = json!({
            "since": "2026-01-01T00:00:10Z", "attempts": 3, "told": "2026-01-01T00:00:50Z",
        });
        let chat = json!({
            "conditions": [condition("Available", "True"), condition("RingStable", "Unknown")],
            "states": 7, "slotsMoving": 0, "databaseFreeGib": 3,
            "databaseNodes": [repaired, repairing, node("b-0", "Joining")],
            "superDisks": [{
                "name": "a-0", "state": "FastLost", "message": "", "since": "2026-01-01T00:00:00Z",
            }],
            "certificates": [{ "role": "member", "expires": "2026-03-01T00:00:00Z" }],
            "waitingOn": { "reason": "NodeJoining", "message": "", "since": "2026-01-01T00:00:00Z" },
        });
        let mut chat = cluster("chat", chat);
        let storage = json!({ "size": "10Gi" });
        Arc::get_mut(&mut chat).unwrap().spec.database.storage =
            serde_json::from_value(storage).unwrap();
        let text = render(&[chat, cluster("new", json!(null))], now);
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
                r#"readstates_cluster_repair_age_seconds{namespace="ns",name="chat"} 50"#,
                r#"readstates_cluster_states{namespace="ns",name="chat"} 7"#,
                r#"readstates_cluster_slots_moving{namespace="ns",name="chat"} 0"#,
                r#"readstates_cluster_database_free_bytes{namespace="ns",name="chat"} 3221225472"#,
                r#"readstates_cluster_repairs_running{namespace="ns",name="chat"} 1"#,
                r#"readstates_cluster_repair_failures{namespace="ns",name="chat"} 2"#,
                r#"readstates_cluster_database_size_bytes{namespace="ns",name="chat"} 10737418240"#,
                r#"readstates_operator_certificate_expiry_timestamp_seconds{cluster="chat.ns",role="member"} 1772323200"#,
            ]
        );
    }
}
