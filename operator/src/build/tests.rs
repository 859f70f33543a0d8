use k8s_openapi::{
    api::core::v1::{Container, PodSpec},
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::ResourceExt;
use readstates_operator_api::{DatabaseNode, DatabaseNodeState};
use serde_json::{Value, json};

use super::{Object, objects};
use crate::{
    fixtures::{CASSANDRA, EMBEDDED, EXTERNAL, cluster, now},
    plan::{CachePlan, Plan, RackStep, Template},
    validate::{Store, ValidatedCluster},
};

mod access;
mod api_tls;
mod certificates;
mod claims;
mod database_pods;
mod flush_mode;
mod network_policies;

pub(in crate::build) const SCYLLA: &str = "
replicas: 3
database:
  engine: Scylla
  replicationFactor: 1
  racks: [{ name: a, members: 1 }]
  storage: { size: 1Ti }
  resources: { limits: { cpu: '2', memory: 8Gi } }
";

/// Everything, with every rack, the schema Job and a new ring.
pub(in crate::build) fn all(cluster: &ValidatedCluster) -> Vec<Object> {
    let rack = |name: &str| RackStep {
        rack: name.to_owned(),
        members: 2,
        partition: 0,
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
    let job = super::schema_job_name(&cluster(CASSANDRA)).unwrap();
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
    let cache = super::cache(&cluster(CASSANDRA), 2, &crate::plan::Template::Wanted);
    let spec = cache.spec.unwrap();
    // Pods are replaced when they hold nothing, and by nobody else.
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
            "READSTATES_LISTEN=0.0.0.0:7400",
            "READSTATES_ADMIN_LISTEN=0.0.0.0:7401",
            "READSTATES_MEMBERS_LISTEN=0.0.0.0:7403",
            "READSTATES_WATCH_LISTEN=0.0.0.0:7404",
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
        // Cache pods keep the ring; nobody else talks to the API server.
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
fn no_cache_pod_may_be_evicted_while_slots_are_sealed() {
    for (hold_evictions, expected) in [(false, 1), (true, 0)] {
        let plan = Plan {
            hold_evictions,
            ..Plan::default()
        };
        let objects = objects(&cluster(CASSANDRA), &plan);
        let budget = objects.iter().find_map(|o| match o {
            Object::PodDisruptionBudget(o) if o.name_any() == "chat" => o.spec.as_ref(),
            _ => None,
        });
        let most = serde_json::to_value(&budget.unwrap().max_unavailable).unwrap();
        assert_eq!(most, json!(expected));
    }
}

#[test]
fn a_password_is_only_ever_a_file() {
    let pod = pod(&cluster(EXTERNAL), "Job chat-schema");
    let container = &pod.containers[0];
    assert_eq!(
        environment(container),
        [
            "READSTATES_CQL_LOCAL_DC=east",
            "READSTATES_CQL_USER=<login/username>",
            "READSTATES_CQL_PASSWORD_FILE=/etc/readstates/login/password",
            "READSTATES_CLAIM=uid-of-chat",
            "READSTATES_CLAIM_HOLDER=ReadStateCluster talk/chat",
        ]
    );
    assert_eq!(
        serde_json::to_value(&pod.volumes).unwrap(),
        json!([{
            "name": "login",
            "secret": {
                "secretName": "login", "defaultMode": 0o440,
                "items": [{ "key": "password", "path": "password" }],
            },
        }])
    );
    assert_eq!(
        container.args.as_ref().unwrap(),
        &[
            "schema",
            "--store",
            "cql://db-1.example,db-2.example:9042/readstates",
            "--replication",
            "east=3",
            "--claim",
            "uid-of-chat",
        ]
    );
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
fn a_cassandra_member_knows_its_place_and_gets_half_the_memory_as_heap() {
    let pod = pod(&cluster(CASSANDRA), "StatefulSet chat-db-b");
    assert_eq!(
        environment(&pod.containers[0]),
        [
            "POD_IP=<status.podIP>",
            "CASSANDRA_CLUSTER_NAME=talk.chat",
            "CASSANDRA_DC=dc1",
            "CASSANDRA_RACK=b",
            "CASSANDRA_ENDPOINT_SNITCH=GossipingPropertyFileSnitch",
            "CASSANDRA_LISTEN_ADDRESS=$(POD_IP)",
            "CASSANDRA_BROADCAST_ADDRESS=$(POD_IP)",
            "CASSANDRA_RPC_ADDRESS=0.0.0.0",
            "CASSANDRA_BROADCAST_RPC_ADDRESS=$(POD_IP)",
            "JVM_EXTRA_OPTS=-Dcassandra.config.allow_system_properties=true \
             -Dcassandra.settings.authenticator=PasswordAuthenticator \
             -Dcassandra.settings.authorizer=CassandraAuthorizer",
            "MAX_HEAP_SIZE=4096M",
            "HEAP_NEWSIZE=1024M",
        ]
    );
    let affinity = serde_json::to_value(pod.affinity).unwrap();
    assert_eq!(
        affinity["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0]["labelSelector"]
            ["matchLabels"],
        json!({
            "app.kubernetes.io/component": "database",
            "readstates.dev/cluster": "chat",
        })
    );
    let terms = &affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    assert_eq!(
        terms["nodeSelectorTerms"][0]["matchExpressions"][0],
        json!({ "key": "topology.kubernetes.io/zone", "operator": "In", "values": ["zone-b"] })
    );
    // A rack with a zone needs no spreading, and one without gets it.
    assert_eq!(pod.topology_spread_constraints, None);
}

#[test]
fn the_superusers_password_is_for_the_schema_job_alone() {
    let mounts = |pod: &PodSpec| {
        let secret = |v: &k8s_openapi::api::core::v1::Volume| v.secret.clone()?.secret_name;
        pod.volumes
            .iter()
            .flatten()
            .filter_map(secret)
            .collect::<Vec<_>>()
    };
    let ours = cluster(CASSANDRA);
    let job = pod(&ours, "Job chat-schema");
    assert_eq!(mounts(&job), ["chat-db-login", "chat-db-superuser"]);
    assert_eq!(
        environment(&job.containers[0]),
        [
            "READSTATES_CQL_LOCAL_DC=dc1",
            "READSTATES_CQL_USER=<chat-db-login/username>",
            "READSTATES_CQL_PASSWORD_FILE=/etc/readstates/login/password",
            "READSTATES_CLAIM=uid-of-chat",
            "READSTATES_CLAIM_HOLDER=ReadStateCluster talk/chat",
            "READSTATES_OWN_DATABASE=true",
            "READSTATES_SUPERUSER_PASSWORD_FILE=/etc/readstates/superuser/password",
        ]
    );
    let cache = super::cache(&ours, 1, &crate::plan::Template::Wanted)
        .spec
        .unwrap()
        .template;
    assert_eq!(
        mounts(&cache.spec.unwrap()),
        ["chat-db-login", "chat-member-tls"]
    );
    let database = pod(&ours, "StatefulSet chat-db-a");
    assert_eq!(mounts(&database), ["chat-agent-tls"]);

    // Where not all of the database asks for a login yet, there are no passwords to make.
    let mut before = ours.clone();
    before.login.asked_for = false;
    assert_eq!(mounts(&pod(&before, "Job chat-schema")), ["chat-db-login"]);

    let given = CASSANDRA.replace("  engine:", "  secretRef: { name: mine }\n  engine:");
    let job = pod(&cluster(&given), "Job chat-schema");
    assert_eq!(mounts(&job), ["mine", "chat-db-superuser"]);
}

#[test]
fn another_login_makes_another_job_and_other_cache_pods_and_leaves_the_database_alone() {
    let before = cluster(CASSANDRA);
    let mut after = before.clone();
    after.login.version = Some("2".to_owned());
    assert_ne!(
        super::schema_job_name(&before),
        super::schema_job_name(&after)
    );
    assert_ne!(
        super::cache(&before, 1, &crate::plan::Template::Wanted),
        super::cache(&after, 1, &crate::plan::Template::Wanted)
    );
    let hash = |cluster: &ValidatedCluster| match &cluster.store {
        Store::Managed(database) => super::update_name(cluster, database),
        Store::External(_) | Store::Embedded(_) => panic!("no database"),
    };
    assert_eq!(hash(&before), hash(&after));
    let given = CASSANDRA.replace("  engine:", "  secretRef: { name: mine }\n  engine:");
    assert_eq!(hash(&before), hash(&cluster(&given)));
}

#[test]
fn a_scylla_member_has_a_shard_for_each_cpu_of_its_own() {
    let cluster = cluster(SCYLLA);
    let pod = pod(&cluster, "StatefulSet chat-db-a");
    assert_eq!(
        pod.containers[0].args.as_ref().unwrap().join(" "),
        "--cluster-name talk.chat --endpoint-snitch GossipingPropertyFileSnitch --listen-address $(POD_IP) \
         --broadcast-address $(POD_IP) --rpc-address 0.0.0.0 --broadcast-rpc-address $(POD_IP) \
         --api-address 127.0.0.1 --developer-mode 0 --overprovisioned 0 --authenticator PasswordAuthenticator \
         --authorizer CassandraAuthorizer --disable-version-check"
    );
    let config = all(&cluster).into_iter().find_map(|o| match o {
        Object::ConfigMap(config) => config.data.filter(|files| !files.is_empty()),
        _ => None,
    });
    assert_eq!(
        config.unwrap()["cassandra-rackdc.properties"],
        "dc=dc1\nrack=a\nprefer_local=false\n"
    );
}

#[test]
fn each_pod_is_told_which_node_it_is_as_long_as_it_is_one() {
    let record = |name: &str, state| DatabaseNode {
        name: name.to_owned(),
        rack: "a".to_owned(),
        host_id: Some(format!("id-of-{name}")),
        claim_uid: None,
        state,
        since: Time(now()),
        attempts: 0,
        error: None,
    };
    let records = [
        record("a-0", DatabaseNodeState::Member),
        record("a-1", DatabaseNodeState::Leaving),
        record("a-2", DatabaseNodeState::Left),
        record("b-0", DatabaseNodeState::Joining),
        record("b-1", DatabaseNodeState::Replacing),
    ];
    let cluster = cluster(CASSANDRA);
    let map = super::identities(&cluster, &records);
    assert_eq!(
        serde_json::to_value(map.data).unwrap(),
        json!({ "a-0": "id-of-a-0", "a-1": "id-of-a-1" })
    );
    // It is where the agent looks.
    let pod = pod(&cluster, "StatefulSet chat-db-a");
    let volumes = pod.volumes.unwrap();
    let volume = volumes.iter().find(|v| v.name == "nodes").unwrap();
    let source = volume.config_map.as_ref().unwrap();
    assert_eq!(Some(&source.name), map.metadata.name.as_ref());
    assert_eq!(source.optional, Some(true));
    let prepare = &pod.init_containers.unwrap()[0];
    let args = prepare.args.as_ref().unwrap().join(" ");
    assert!(
        args.contains("--node /etc/readstates/nodes/$(POD_NAME)"),
        "{args}"
    );
}

#[test]
fn a_database_pod_is_prepared_then_watched_and_starts_from_the_start_file() {
    for (spec, sidecar, command, admin) in [
        (
            CASSANDRA,
            "cassandra:5",
            "exec docker-entrypoint.sh cassandra -f",
            "127.0.0.1:7199",
        ),
        (
            SCYLLA,
            "operator:1",
            "exec /docker-entrypoint.py \"$@\" --seeds \"$SCYLLA_SEEDS\" ${SCYLLA_REPLACE:-} $cpus $io",
            "127.0.0.1:10000",
        ),
    ] {
        let pod = pod(&cluster(spec), "StatefulSet chat-db-a");
        let before = pod.init_containers.unwrap();
        let images: Vec<_> = before.iter().map(|c| c.image.as_deref().unwrap()).collect();
        assert_eq!(images, ["operator:1", sidecar]);
        // The first ends before the database starts; the second stays as long as it.
        assert_eq!(before[0].restart_policy, None);
        assert_eq!(before[1].restart_policy.as_deref(), Some("Always"));
        let args = before[1].args.as_ref().unwrap();
        assert_eq!(args[..2], ["agent", "serve"]);
        assert_eq!(args.last().unwrap(), admin);

        let database = &pod.containers[0];
        let script = &database.command.as_ref().unwrap()[2];
        assert!(script.starts_with(". /run/readstates/start || exit 1\n"));
        assert!(script.ends_with(command), "{script}");
        let ready = database.readiness_probe.as_ref().unwrap();
        let ready = ready.http_get.as_ref().unwrap();
        assert_eq!(ready.path.as_deref(), Some("/readyz"));
        assert_eq!(serde_json::to_value(&ready.port).unwrap(), json!(7405));
        // The database cannot pose as its agent.
        let mounts: Vec<_> = database
            .volume_mounts
            .iter()
            .flatten()
            .map(|m| &m.name)
            .collect();
        assert!(!mounts.iter().any(|m| *m == "identity"), "{mounts:?}");
    }
}

#[test]
fn every_object_belongs_to_its_cluster_and_says_so() {
    for object in all(&cluster(SCYLLA)) {
        let value = match &object {
            Object::Certificate(o) => serde_json::to_value(o),
            Object::ConfigMap(o) => serde_json::to_value(o),
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
    let name = |spec: &str| super::schema_job_name(&cluster(spec)).unwrap();
    assert_eq!(name(EXTERNAL), name(EXTERNAL));
    assert_ne!(
        name(EXTERNAL),
        name(&EXTERNAL.replace("replicationFactor: 3", "replicationFactor: 2"))
    );
    assert_ne!(name(EXTERNAL), name(&format!("image: other\n{EXTERNAL}")));
}
