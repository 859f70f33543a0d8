//! Which peers may reach which pods at which ports.

use kube::ResourceExt;
use serde_json::{Value, json};

use super::all;
use crate::{
    fixtures::{CASSANDRA, EMBEDDED, EXTERNAL, cluster, with_tls},
    objects::Object,
    spec::ValidatedCluster,
};

fn policy(cluster: &ValidatedCluster, wanted: &str) -> Value {
    let objects = all(cluster);
    let found = objects.iter().find_map(|o| match o {
        Object::NetworkPolicy(policy) if policy.name_any() == wanted => policy.spec.as_ref(),
        _ => None,
    });
    serde_json::to_value(found.unwrap()).unwrap()
}

fn pods_of(component: &str) -> Value {
    json!({ "matchLabels": {
        "app.kubernetes.io/component": component, "readstates.dev/cluster": "chat",
    } })
}

fn operators() -> Value {
    let labels = json!({ "matchLabels": {
        "app.kubernetes.io/component": "operator", "app.kubernetes.io/part-of": "readstates",
    } });
    let namespace = json!({ "matchLabels": { "kubernetes.io/metadata.name": "system" } });
    json!({ "podSelector": labels, "namespaceSelector": namespace })
}

fn tcp(port: u16) -> Value {
    json!({ "port": port, "protocol": "TCP" })
}

#[test]
fn only_the_operator_reaches_an_agent_only_nodes_each_other_and_only_ours_speak_cql() {
    let spec = policy(&cluster(CASSANDRA), "chat-db");
    assert_eq!(spec["podSelector"], pods_of("database"));
    assert_eq!(
        spec["ingress"],
        json!([
            { "ports": [tcp(7000)], "from": [{ "podSelector": pods_of("database") }] },
            {
                "ports": [tcp(9042), tcp(19042)],
                "from": [
                    { "podSelector": pods_of("cache") }, { "podSelector": pods_of("schema") },
                    { "podSelector": pods_of("backup") },
                ],
            },
            { "ports": [tcp(7402)], "from": [operators()] },
            { "ports": [tcp(7405)], "from": [{ "namespaceSelector": {} }] },
        ])
    );
    let internode = with_tls(CASSANDRA).replace("certs", "certs, internode: true");
    let spec = policy(&cluster(&internode), "chat-db");
    assert_eq!(
        spec["ingress"][0],
        json!({ "ports": [tcp(7000), tcp(7001)], "from": [{ "podSelector": pods_of("database") }] })
    );
    let other = "old".to_owned();
    let database = match &cluster(CASSANDRA).store {
        crate::spec::Store::Managed(database) => database.clone(),
        store => panic!("{store:?}"),
    };
    let admitting =
        crate::objects::network_policy::database(&cluster(CASSANDRA), &database, Some(&other));
    let rules = admitting.spec.unwrap().ingress.unwrap();
    let from = serde_json::to_value(&rules[1].from).unwrap();
    let theirs = |component: &str| {
        let mut pods = pods_of(component);
        pods["matchLabels"]["readstates.dev/cluster"] = json!("old");
        json!({ "podSelector": pods })
    };
    assert_eq!(from[3], theirs("cache"), "whose table moves here");
    assert_eq!(from[4], theirs("backup"));
    let backup = json!({ "podSelector": { "matchLabels": { "app": "backup" } } });
    let spec = CASSANDRA.replace("  engine:", &format!("  clients: [{backup}]\n  engine:"));
    let spec = policy(&cluster(&spec), "chat-db");
    assert_eq!(spec["ingress"][1]["from"][3], backup);
}

#[test]
fn cache_pods_answer_their_namespace_or_those_who_are_named_and_obey_the_operator() {
    for base in [CASSANDRA, EXTERNAL, EMBEDDED] {
        let spec = policy(&cluster(base), "chat");
        assert_eq!(spec["podSelector"], pods_of("cache"));
        assert_eq!(spec["policyTypes"], json!(["Ingress"]));
        assert_eq!(
            spec["ingress"],
            json!([
                { "ports": [tcp(7400)], "from": [{ "podSelector": pods_of("cache") }, { "podSelector": {} }] },
                { "ports": [tcp(7401)], "from": [operators()] },
                { "ports": [tcp(7403)], "from": [{ "podSelector": pods_of("cache") }] },
                { "ports": [tcp(7404)], "from": [{ "namespaceSelector": {} }] },
            ])
        );
    }
    let gateway = json!({ "namespaceSelector": { "matchLabels": { "team": "gateway" } } });
    let spec = format!("cache: {{ clients: [{gateway}] }}\n{EXTERNAL}");
    let spec = policy(&cluster(&spec), "chat");
    // Each other too: those of the release before forward, and hand slots on.
    let from = json!([{ "podSelector": pods_of("cache") }, gateway]);
    assert_eq!(spec["ingress"][0]["from"], from);
    assert_eq!(
        policy(&cluster(EXTERNAL), "chat-schema"),
        json!({ "podSelector": pods_of("schema"), "policyTypes": ["Ingress"] })
    );
}
