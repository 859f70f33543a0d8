//! What Prometheus scrapes, and which peers may reach that port.

use kube::ResourceExt;
use serde_json::{Value, json};

use super::SCYLLA;
use crate::{
    fixtures::{CASSANDRA, EXTERNAL, cluster},
    objects::{Object, pod_monitors},
};

const FROM: &str =
    "{ namespaceSelector: { matchLabels: { kubernetes.io/metadata.name: monitoring } } }";

fn monitored(spec: &str) -> String {
    format!(
        "monitoring: {{ podMonitorLabels: {{ release: prometheus, readstates.dev/cluster: other }}, \
         interval: 15s, metricsFrom: [{FROM}] }}\n{spec}"
    )
}

fn with_super_disk(spec: &str) -> String {
    let disk = "  superDisk: { localDevices: [/dev/nvme9n1], localCount: 1 }\n  engine:";
    spec.replacen("  engine:", disk, 1)
}

fn endpoints(spec: &str) -> Vec<(String, Vec<String>)> {
    let made = pod_monitors(&cluster(spec));
    made.iter()
        .map(|monitor| {
            let ports = monitor.spec.pod_metrics_endpoints.iter();
            (monitor.name_any(), ports.map(|e| e.port.clone()).collect())
        })
        .collect()
}

fn named(name: &str, ports: &[&str]) -> (String, Vec<String>) {
    let ports = ports.iter().map(|port| (*port).to_owned());
    (name.to_owned(), ports.collect())
}

#[test]
fn only_what_has_metrics_and_only_who_asks_for_it_is_monitored() {
    assert_eq!(endpoints(CASSANDRA), []);
    assert_eq!(endpoints(&monitored(EXTERNAL)), [named("chat", &["watch"])]);
    assert_eq!(
        endpoints(&monitored(CASSANDRA)),
        [named("chat", &["watch"]), named("chat-db", &["watch"])]
    );
    assert_eq!(
        endpoints(&monitored(&with_super_disk(CASSANDRA))),
        [
            named("chat", &["watch"]),
            named("chat-db", &["watch", "disk"])
        ]
    );
    assert_eq!(
        endpoints(&monitored(&with_super_disk(SCYLLA))),
        [
            named("chat", &["watch"]),
            named("chat-db", &["watch", "cql", "disk"])
        ]
    );
}

#[test]
fn a_pod_monitor_says_whose_pods_they_are_and_keeps_its_own_labels() {
    let monitors = pod_monitors(&cluster(&monitored(SCYLLA)));
    let database = &monitors[1];
    assert_eq!(database.labels()["release"], "prometheus");
    assert_eq!(database.labels()["readstates.dev/cluster"], "chat");
    assert_eq!(database.owner_references()[0].uid, "uid-of-chat");
    let label = json!({
        "sourceLabels": ["__meta_kubernetes_pod_label_readstates_dev_cluster"],
        "targetLabel": "readstates_cluster",
    });
    assert_eq!(
        serde_json::to_value(&database.spec).unwrap(),
        json!({
            "selector": { "matchLabels": {
                "app.kubernetes.io/component": "database", "readstates.dev/cluster": "chat",
            } },
            "podMetricsEndpoints": [{
                "port": "watch", "interval": "15s", "relabelings": [label],
            }, {
                "port": "cql", "interval": "15s",
                "relabelings": [label, {
                    "sourceLabels": ["__address__"], "targetLabel": "__address__",
                    "regex": "(.+):[0-9]+", "replacement": "$1:9180",
                }],
            }],
        })
    );
}

#[test]
fn the_metrics_of_scylla_answer_those_who_are_named_and_nobody_else() {
    let of_metrics = |spec: &str| -> Option<Value> {
        let objects = super::all(&cluster(spec));
        let policy = objects.iter().find_map(|o| match o {
            Object::NetworkPolicy(policy) if policy.name_any() == "chat-db" => policy.spec.as_ref(),
            _ => None,
        });
        let rules = serde_json::to_value(policy.unwrap()).unwrap();
        let rules = rules["ingress"].as_array().unwrap().iter();
        let mut found = rules.filter(|rule| rule["ports"][0]["port"] == 9180);
        found.next().map(|rule| rule["from"].clone())
    };
    let from = json!([{ "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": "monitoring" } } }]);
    assert_eq!(of_metrics(&monitored(SCYLLA)), Some(from));
    assert_eq!(of_metrics(SCYLLA), None);
    assert_eq!(of_metrics(&format!("monitoring: {{}}\n{SCYLLA}")), None);
    assert_eq!(of_metrics(&monitored(CASSANDRA)), None);
}
