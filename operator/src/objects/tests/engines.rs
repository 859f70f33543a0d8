//! Configuration of each engine's members, and the order of their containers.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use readstates_operator_api::{DatabaseNode, DatabaseNodeState};
use serde_json::json;

use super::{super::Object, SCYLLA, all, environment, pod};
use crate::{
    fixtures::{CASSANDRA, cluster, now},
    objects,
};

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
fn a_scylla_member_has_a_shard_for_each_cpu_of_its_own() {
    let cluster = cluster(SCYLLA);
    let pod = pod(&cluster, "StatefulSet chat-db-a");
    assert_eq!(
        pod.containers[0].args.as_ref().unwrap().join(" "),
        "--cluster-name talk.chat --endpoint-snitch GossipingPropertyFileSnitch --listen-address $(POD_IP) \
         --broadcast-address $(POD_IP) --broadcast-rpc-address $(POD_IP) \
         --api-address 127.0.0.1 --developer-mode 0 --overprovisioned 0 --authenticator PasswordAuthenticator \
         --authorizer CassandraAuthorizer --auth-superuser-name cassandra --auth-superuser-salted-password \
         $6$readstates$EMuIw2y7cEY1qVqAdcN.pSakRGivCg1.HaJ0ui6h34V9i/q.UQFAD4w6TWOvxZaF3gxnQ6/hqw3YLxLMxRjhf. --disable-version-check"
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
        cleanup: None,
        repair: None,
        last_repaired: None,
        upgrade: None,
    };
    let records = [
        record("a-0", DatabaseNodeState::Member),
        record("a-1", DatabaseNodeState::Leaving),
        record("a-2", DatabaseNodeState::Left),
        record("b-0", DatabaseNodeState::Joining),
        record("b-1", DatabaseNodeState::Replacing),
        record("b-2", DatabaseNodeState::Repairing),
    ];
    let cluster = cluster(CASSANDRA);
    let map = objects::identities(&cluster, &records);
    assert_eq!(
        serde_json::to_value(map.data).unwrap(),
        json!({ "a-0": "id-of-a-0", "a-1": "id-of-a-1", "b-2": "id-of-b-2" })
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
            "exec /docker-entrypoint.py \"$@\" --seeds \"$SCYLLA_SEEDS\" ${SCYLLA_ADDRESSES:---rpc-address 0.0.0.0} \
             ${SCYLLA_REPLACE:-} $cpus $io",
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
fn a_quota_on_limits_is_met_by_every_container_of_a_database_pod() {
    let spec = CASSANDRA.replace(
        "database:\n",
        "database:\n  agentResources: { requests: { cpu: 20m }, limits: { cpu: 500m } }\n",
    );
    let limited = pod(&cluster(&spec), "StatefulSet chat-db-a");
    let plain = pod(&cluster(CASSANDRA), "StatefulSet chat-db-a");
    let beside = limited.init_containers.unwrap();
    assert_eq!(beside.len(), 2);
    for (container, before) in beside.iter().zip(&plain.init_containers.unwrap()) {
        let own = serde_json::to_value(&container.resources).unwrap();
        let before = serde_json::to_value(&before.resources).unwrap();
        assert_eq!(own["limits"]["cpu"], "500m", "{}", container.name);
        assert_eq!(own["requests"]["cpu"], "20m", "{}", container.name);
        // What is not said stays.
        assert_eq!(own["limits"]["memory"], before["limits"]["memory"]);
    }
    assert_eq!(limited.containers, plain.containers);
}
