use k8s_openapi::api::core::v1::{Container, PodSpec};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::{Object, objects};
use crate::{
    fixtures::{CASSANDRA, EMBEDDED, EXTERNAL, cluster},
    plan::{CachePlan, Plan},
    spec::ValidatedCluster,
    templates::{self, RackStep, Template},
};

mod access;
mod api_tls;
mod backups;
mod certificates;
mod claims;
mod database_pods;
mod engines;
mod flush_mode;
mod goldens;
mod logins;
mod migration;
mod network_policies;
mod overlay;
mod pod_monitors;
mod restore;
mod sidecars;
mod variables;

pub(crate) const SCYLLA: &str = "
replicas: 3
database:
  engine: Scylla
  replicationFactor: 1
  racks: [{ name: a, members: 1 }]
  storage: { size: 1Ti }
  resources: { limits: { cpu: '2', memory: 8Gi } }
";

/// Everything, with every rack, the schema Job and a new ring.
pub(crate) fn all(cluster: &ValidatedCluster) -> Vec<Object> {
    let rack = |name: &str| RackStep {
        rack: name.to_owned(),
        members: 2,
        partition: 0,
        restarted: None,
        parallel: false,
        claim_size: None,
        template: Template::Wanted,
        version: None,
    };
    let plan = Plan {
        racks: vec![rack("a"), rack("b")],
        schema_job: true,
        ask_identity: true,
        cache: Some(CachePlan {
            ring: Some(4),
            replicas: cluster.replicas,
            ..CachePlan::default()
        }),
        ..Plan::default()
    };
    objects(cluster, &plan)
}

fn name(object: &Object) -> String {
    match object {
        Object::Certificate(o) => format!("Certificate {}", o.name_any()),
        Object::ConfigMap(o) => format!("ConfigMap {}", o.name_any()),
        Object::CronJob(o) => format!("CronJob {}", o.name_any()),
        Object::Job(o) => format!("Job {}", o.name_any()),
        Object::NetworkPolicy(o) => format!("NetworkPolicy {}", o.name_any()),
        Object::PodDisruptionBudget(o) => format!("PodDisruptionBudget {}", o.name_any()),
        Object::Ring(o) => format!("ReadStateRing {}", o.name_any()),
        Object::Role(o) => format!("Role {}", o.name_any()),
        Object::Secret(o) => format!("Secret {}", o.name_any()),
        Object::RoleBinding(o) => format!("RoleBinding {}", o.name_any()),
        Object::Service(o) => format!("Service {}", o.name_any()),
        Object::ServiceAccount(o) => format!("ServiceAccount {}", o.name_any()),
        Object::StatefulSet(o) => format!("StatefulSet {}", o.name_any()),
    }
}

fn names(cluster: &ValidatedCluster) -> Vec<String> {
    all(cluster).iter().map(name).collect()
}

fn pod(cluster: &ValidatedCluster, wanted: &str) -> PodSpec {
    let objects = all(cluster);
    let found = objects
        .iter()
        .find(|o| name(o).starts_with(wanted))
        .unwrap();
    let template = match found {
        Object::StatefulSet(set) => set.spec.as_ref().unwrap().template.clone(),
        Object::Job(job) => job.spec.as_ref().unwrap().template.clone(),
        other => panic!("{} has no pods", name(other)),
    };
    template.spec.unwrap()
}

/// The environment as `NAME=value`, with references in angle brackets.
fn environment(container: &Container) -> Vec<String> {
    let value = |v: &k8s_openapi::api::core::v1::EnvVar| match (&v.value, &v.value_from) {
        (Some(value), None) => value.clone(),
        (None, Some(from)) => match (&from.field_ref, &from.secret_key_ref) {
            (Some(field), None) => format!("<{}>", field.field_path),
            (None, Some(secret)) => format!("<{}/{}>", secret.name, secret.key),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    };
    container
        .env
        .iter()
        .flatten()
        .map(|v| format!("{}={}", v.name, value(v)))
        .collect()
}

#[test]
fn everything_is_written_in_an_order_in_which_it_can_start() {
    let job = templates::schema_job_name(&cluster(CASSANDRA)).unwrap();
    assert_eq!(
        names(&cluster(CASSANDRA)),
        [
            "ServiceAccount chat-db",
            "NetworkPolicy chat-db",
            "Service chat-db",
            "PodDisruptionBudget chat-db",
            "ConfigMap chat-database-nodes",
            "StatefulSet chat-db-a",
            "StatefulSet chat-db-b",
            "ServiceAccount chat",
            "NetworkPolicy chat",
            "Service chat",
            "Service chat-members",
            "Role chat",
            "RoleBinding chat",
            "PodDisruptionBudget chat",
            "NetworkPolicy chat-schema",
            &format!("Job {job}"),
            "ReadStateRing chat",
            "StatefulSet chat",
        ]
    );
    assert_eq!(names(&cluster(EMBEDDED)).len(), 9);
}

#[test]
fn a_cache_pod_is_told_who_it_is_where_the_ring_is_and_its_store() {
    let cache = templates::cache(
        &cluster(CASSANDRA),
        2,
        &crate::templates::Template::Wanted,
        None,
    );
    let spec = cache.spec.unwrap();
    // The operator alone replaces pods, when they hold nothing.
    assert_eq!(
        spec.update_strategy.unwrap().type_.as_deref(),
        Some("OnDelete")
    );
    let cache = spec.template.spec.unwrap();
    let args = cache.containers[0].args.as_ref().unwrap();
    assert_eq!(args.join(" "), "serve --ring kubernetes");
    assert_eq!(
        environment(&cache.containers[0]),
        [
            "READSTATES_MEMBER=<metadata.name>",
            "READSTATES_ADVERTISE=http://$(READSTATES_MEMBER).chat-members.talk.svc:7400",
            "READSTATES_ZONE=<metadata.labels['topology.kubernetes.io/zone']>",
            "READSTATES_RING_NAMESPACE=talk",
            "READSTATES_RING_NAME=chat",
            "READSTATES_LISTEN=[::]:7400",
            "READSTATES_ADMIN_LISTEN=[::]:7401",
            "READSTATES_MEMBERS_LISTEN=[::]:7403",
            "READSTATES_WATCH_LISTEN=[::]:7404",
            "READSTATES_MEMBERS_TLS_DIR=/etc/readstates/identity",
            "READSTATES_STORE=cql://chat-db.talk.svc:9042/readstates",
            "READSTATES_FLUSH_INTERVAL=30000ms",
            "READSTATES_CAPACITY_STATES=8000000",
            "READSTATES_DRAIN_TIMEOUT=270s",
            "READSTATES_CQL_LOCAL_DC=dc1",
            "READSTATES_CQL_USER=<chat-db-login/username>",
            "READSTATES_CQL_PASSWORD_FILE=/etc/readstates/login/password",
            "READSTATES_CLAIM=uid-of-chat",
        ]
    );
    assert_eq!(cache.termination_grace_period_seconds, Some(300));
    let ports = cache.containers[0].ports.iter().flatten();
    let ports: Vec<_> = ports
        .map(|p| (p.name.as_deref().unwrap(), p.container_port))
        .collect();
    let expected = [
        ("api", 7400),
        ("admin", 7401),
        ("members", 7403),
        ("watch", 7404),
    ];
    assert_eq!(ports, expected);
    for probe in [
        &cache.containers[0].startup_probe,
        &cache.containers[0].liveness_probe,
        &cache.containers[0].readiness_probe,
    ] {
        let asked = probe.as_ref().unwrap().http_get.as_ref().unwrap();
        assert_eq!(serde_json::to_value(&asked.port).unwrap(), json!("watch"));
    }
}

#[test]
fn services_name_ports_by_number_so_that_pods_of_two_releases_answer() {
    let objects = all(&cluster(EXTERNAL));
    let ports = |wanted: &str| {
        let service = objects.iter().find_map(|o| match o {
            Object::Service(o) if o.name_any() == wanted => o.spec.as_ref(),
            _ => None,
        });
        serde_json::to_value(&service.unwrap().ports).unwrap()
    };
    let port = |name: &str, port: u16| json!({ "name": name, "port": port, "targetPort": port });
    assert_eq!(ports("chat"), json!([port("http", 7400)]));
    let members = [
        port("http", 7400),
        port("admin", 7401),
        port("members", 7403),
        port("metrics", 7404),
    ];
    assert_eq!(ports("chat-members"), json!(members));
}

#[test]
fn cert_manager_is_asked_for_one_name_a_role_and_pods_mount_what_it_makes() {
    let spec = format!("identity: {{ issuerRef: {{ name: ours }} }}{CASSANDRA}");
    let cluster = cluster(&spec);
    let asked: Vec<_> = all(&cluster)
        .into_iter()
        .filter_map(|object| match object {
            Object::Certificate(o) => Some((
                o.spec.secret_name,
                o.spec.dns_names.concat(),
                o.spec.usages[1..].join(", "),
            )),
            _ => None,
        })
        .collect();
    let expected = [
        ("member", "server auth, client auth"),
        ("operator", "client auth"),
        ("agent", "server auth"),
    ];
    let expected = expected.map(|(role, usages)| {
        let name = format!("{role}.chat.talk.readstates.internal");
        (format!("chat-{role}-tls"), name, usages.to_owned())
    });
    assert_eq!(asked, expected);
    assert_eq!(
        all(&crate::fixtures::cluster(CASSANDRA))
            .iter()
            .filter(|o| name(o).starts_with("Certificate"))
            .count(),
        0
    );
}

#[test]
fn cache_pods_and_schema_jobs_meet_the_restricted_standard() {
    for (spec, object) in [
        (EMBEDDED, "StatefulSet chat"),
        (EXTERNAL, "Job chat-schema"),
    ] {
        let pod = pod(&cluster(spec), object);
        assert_eq!(
            serde_json::to_value(pod.security_context).unwrap(),
            json!({
                "runAsNonRoot": true, "runAsUser": 65532, "runAsGroup": 65532, "fsGroup": 65532,
                "fsGroupChangePolicy": "OnRootMismatch",
                "seccompProfile": { "type": "RuntimeDefault" },
            })
        );
        assert_eq!(
            serde_json::to_value(&pod.containers[0].security_context).unwrap(),
            json!({
                "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] },
                "readOnlyRootFilesystem": true,
            })
        );
        // Cache pods keep the ring; no other pod talks to the API server.
        let token = Some(object == "StatefulSet chat");
        assert_eq!(pod.automount_service_account_token, token);
    }
}

#[test]
fn cache_pods_may_write_their_ring_and_leases_and_nothing_else() {
    let rules = super::role::of_members(&cluster(CASSANDRA)).rules;
    assert_eq!(
        serde_json::to_value(rules).unwrap(),
        json!([
            {
                "apiGroups": ["readstates.dev"], "resources": ["readstaterings"],
                "resourceNames": ["chat"], "verbs": ["get", "list", "watch", "update"],
            },
            {
                "apiGroups": ["coordination.k8s.io"], "resources": ["leases"],
                "verbs": ["get", "list", "create", "update", "delete"],
            },
        ])
    );
}

#[test]
fn one_cache_pod_may_be_evicted_at_any_time_since_it_hands_on_what_it_owns() {
    let objects = objects(&cluster(CASSANDRA), &Plan::default());
    let budget = objects.iter().find_map(|o| match o {
        Object::PodDisruptionBudget(o) if o.name_any() == "chat" => o.spec.as_ref(),
        _ => None,
    });
    // A budget of none would outlive an operator that is killed, and hold up every drain of a node.
    let most = serde_json::to_value(&budget.unwrap().max_unavailable).unwrap();
    assert_eq!(most, json!(1));
}

#[test]
fn an_embedded_store_has_a_volume_that_is_kept() {
    let objects = all(&cluster(EMBEDDED));
    let Some(Object::StatefulSet(set)) = objects.last() else {
        panic!("no StatefulSet")
    };
    let spec = set.spec.as_ref().unwrap();
    assert_eq!(
        serde_json::to_value(&spec.volume_claim_templates).unwrap(),
        json!([{
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": { "name": "data" },
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": { "requests": { "storage": "10Gi" } },
            },
        }])
    );
    // Kubernetes keeps claims unless it is told otherwise, and it is not.
    assert_eq!(spec.persistent_volume_claim_retention_policy, None);
}

#[test]
fn every_object_belongs_to_its_cluster_and_says_so() {
    for object in all(&cluster(SCYLLA)) {
        let value = match &object {
            Object::Certificate(o) => serde_json::to_value(o),
            Object::ConfigMap(o) => serde_json::to_value(o),
            Object::CronJob(o) => serde_json::to_value(o),
            Object::Job(o) => serde_json::to_value(o),
            Object::NetworkPolicy(o) => serde_json::to_value(o),
            Object::PodDisruptionBudget(o) => serde_json::to_value(o),
            Object::Ring(o) => serde_json::to_value(o),
            Object::Role(o) => serde_json::to_value(o),
            Object::RoleBinding(o) => serde_json::to_value(o),
            Object::Secret(o) => serde_json::to_value(o),
            Object::Service(o) => serde_json::to_value(o),
            Object::ServiceAccount(o) => serde_json::to_value(o),
            Object::StatefulSet(o) => serde_json::to_value(o),
        };
        let metadata: Value = value.unwrap()["metadata"].clone();
        let what = name(&object);
        assert_eq!(metadata["namespace"], "talk", "{what}");
        assert_eq!(
            metadata["labels"]["readstates.dev/cluster"], "chat",
            "{what}"
        );
        assert_eq!(
            metadata["ownerReferences"],
            json!([{
                "apiVersion": "readstates.dev/v1alpha1", "kind": "ReadStateCluster",
                "name": "chat", "uid": "uid-of-chat",
                "controller": true, "blockOwnerDeletion": true,
            }]),
            "{what}"
        );
    }
}

#[test]
fn the_schema_job_has_another_name_when_anything_in_it_changes() {
    let name = |spec: &str| templates::schema_job_name(&cluster(spec)).unwrap();
    assert_eq!(name(EXTERNAL), name(EXTERNAL));
    assert_ne!(
        name(EXTERNAL),
        name(&EXTERNAL.replace("replicationFactor: 3", "replicationFactor: 2"))
    );
    assert_ne!(name(EXTERNAL), name(&format!("image: other\n{EXTERNAL}")));
}
