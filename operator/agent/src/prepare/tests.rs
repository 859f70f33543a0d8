use readstates_identity::Role;
use readstates_operator_api::Engine;

use super::*;
use crate::{
    mutual::tests::Cluster,
    wire::{Node, NodeState},
};

struct Pod {
    args: PrepareArgs,
    url: String,
    cluster: Cluster,
    _dirs: tempfile::TempDir,
}

/// A pod whose disk has these folders on it.
fn pod(on_disk: &[&str]) -> Pod {
    let dirs = tempfile::tempdir().unwrap();
    let [data, shared] = ["data", "shared"].map(|d| dirs.path().join(d));
    fs::create_dir(&data).unwrap();
    fs::create_dir(&shared).unwrap();
    for folder in on_disk {
        fs::create_dir(data.join(folder)).unwrap();
    }
    let cluster = Cluster::new();
    let identity = dirs.path().join("identity");
    cluster.write(&identity);
    // A port that was free a moment ago.
    let listen = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let args = PrepareArgs {
        common: Common {
            engine: Engine::Cassandra,
            data,
            pod_name: "a-0".to_owned(),
            pod_uid: "uid-1".to_owned(),
            address: "10.0.0.1".parse().unwrap(),
            identity,
            listen,
        },
        shared,
        peers: "localhost".to_owned(),
        node: dirs.path().join("node"),
        super_disk: false,
        certificates: None,
        keystore: None,
    };
    Pod {
        args,
        url: format!("https://{listen}/v1"),
        cluster,
        _dirs: dirs,
    }
}

fn start(pod_uid: &str) -> Start {
    Start {
        pod_uid: pod_uid.to_owned(),
        seeds: vec!["10.0.0.7".to_owned()],
        replace: None,
        ignore_dead: Vec::new(),
    }
}

async fn send(pod: &Pod, order: &Start) -> u16 {
    let http = pod.cluster.client(Role::Operator);
    let request = http.post(format!("{}/start", pod.url)).json(order);
    request.send().await.unwrap().status().as_u16()
}

async fn report(pod: &Pod) -> Report {
    let http = pod.cluster.client(Role::Operator);
    loop {
        if let Ok(answer) = http.get(format!("{}/node", pod.url)).send().await {
            let report: Report = answer.json().await.unwrap();
            assert!(report.identity.is_some());
            // What is free changes meanwhile: here it counts that it is told.
            let phase = match report.phase {
                Phase::Waiting {
                    disk,
                    free_bytes: Some(_),
                } => waits(disk),
                phase => phase,
            };
            return Report {
                identity: None,
                phase,
                ..report
            };
        }
        tokio::task::yield_now().await;
    }
}

fn waits(disk: Disk) -> Phase {
    Phase::Waiting {
        disk,
        free_bytes: Some(0),
    }
}

#[tokio::test]
async fn a_blank_disk_waits_for_the_order_that_is_meant_for_its_pod() {
    let pod = pod(&[]);
    let prepared = tokio::spawn(prepare(pod.args.clone()));
    assert_eq!(
        report(&pod).await,
        Report {
            pod_uid: "uid-1".to_owned(),
            identity: None,
            phase: waits(Disk::Blank),
        }
    );
    assert_eq!(send(&pod, &start("uid-of-another")).await, 409);
    assert!(!pod.args.shared.join(START).exists());

    assert_eq!(send(&pod, &start("uid-1")).await, 202);
    prepared.await.unwrap().unwrap();
    assert_eq!(
        fs::read_to_string(pod.args.shared.join(START)).unwrap(),
        "export CASSANDRA_SEEDS='10.0.0.7'\n"
    );
    assert!(pod.args.shared.join(PROGRAM).exists());
}

#[tokio::test]
async fn a_disk_with_unsigned_data_waits_too() {
    let pod = pod(&["data"]);
    let prepared = tokio::spawn(prepare(pod.args.clone()));
    assert_eq!(report(&pod).await.phase, waits(Disk::Unmarked));
    assert_eq!(send(&pod, &start("uid-1")).await, 202);
    prepared.await.unwrap().unwrap();
    // What was not ours before is not signed before it is known whose it is.
    assert_eq!(disk::read(&pod.args.common.data).unwrap(), Disk::Unmarked);
}

#[tokio::test]
async fn a_node_that_finds_its_data_starts_by_itself() {
    let pod = pod(&["data"]);
    disk::sign(&pod.args.common.data, Some("id-1"), "a-0").unwrap();
    fs::write(&pod.args.node, "id-1\n").unwrap();
    prepare(pod.args.clone()).await.unwrap();
    let start = fs::read_to_string(pod.args.shared.join(START)).unwrap();
    assert!(start.ends_with("10.0.0.1'\n"), "{start}");
}

#[tokio::test]
async fn a_signed_disk_of_another_node_is_not_started() {
    // Another node is on record for this pod, or none.
    for own in [Some("id-2"), None] {
        let pod = pod(&["data"]);
        disk::sign(&pod.args.common.data, Some("id-1"), "b-0").unwrap();
        if let Some(own) = own {
            fs::write(&pod.args.node, own).unwrap();
        }
        let prepared = tokio::spawn(prepare(pod.args.clone()));
        let known = Disk::Known {
            host_id: "id-1".to_owned(),
            pod: Some("b-0".to_owned()),
        };
        assert_eq!(report(&pod).await.phase, waits(known));
        assert!(!pod.args.shared.join(START).exists());
        // It may be started as what it is, and never over what it holds.
        let mut over = start("uid-1");
        over.replace = Some(Node {
            host_id: "7c0f-01".to_owned(),
            address: "10.0.0.9".to_owned(),
            up: false,
            state: NodeState::Normal,
            load_bytes: None,
        });
        assert_eq!(send(&pod, &over).await, 409);
        assert_eq!(send(&pod, &start("uid-1")).await, 202);
        prepared.await.unwrap().unwrap();
    }
}

#[test]
fn seeds_are_of_the_family_that_the_nodes_speak() {
    let ips =
        |texts: &[&str]| -> Vec<IpAddr> { texts.iter().map(|t| t.parse().unwrap()).collect() };
    // What a name resolves to where Services and pods have both.
    let found = ips(&["10.0.0.2", "fd00::2", "10.0.0.1", "fd00::1"]);
    let of = |own: &str| seeds(found.clone(), own.parse().unwrap());
    assert_eq!(of("10.0.0.1"), ips(&["10.0.0.2", "10.0.0.1"]));
    assert_eq!(of("fd00::2"), ips(&["fd00::1", "fd00::2"]));
}

#[test]
fn an_engine_that_wants_figures_of_the_disk_is_told_their_file_and_no_other() {
    let pod = pod(&[]);
    let mut common = pod.args.common;
    assert_eq!(measured(&common).unwrap(), "");
    common.engine = Engine::Scylla;
    let layout = layout::of(&common.data).unwrap();
    let (data, key) = (common.data.display(), layout.key);
    assert_eq!(
        measured(&common).unwrap(),
        format!("export SCYLLA_IO='{data}/.readstates-io-{key}.yaml'\n")
    );
}
