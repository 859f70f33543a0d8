//! What `nodetool` prints, as it was printed.

use super::*;

const STATUS: &str = "\
Datacenter: dc1
===============
Status=Up/Down
|/ State=Normal/Leaving/Joining/Moving
--  Address      Load        Tokens  Owns (effective)  Host ID                               Rack
UN  10.244.1.7   115.63 KiB  16      68.2%             7c0f3a58-7f2e-4d4a-9f43-0a2c6f9a0001  a
DN  10.244.2.9   2 GiB       16      65.1%             7c0f3a58-7f2e-4d4a-9f43-0a2c6f9a0002  b
UJ  10.244.2.11  ?           16      ?                 7c0f3a58-7f2e-4d4a-9f43-0a2c6f9a0003  b

";

#[test]
fn every_node_of_the_status_is_read() {
    let node = |last: char, address: &str, up, state, load_bytes| Node {
        host_id: format!("7c0f3a58-7f2e-4d4a-9f43-0a2c6f9a000{last}"),
        address: address.to_owned(),
        up,
        state,
        load_bytes,
    };
    assert_eq!(
        status(STATUS).unwrap(),
        [
            node('1', "10.244.1.7", true, NodeState::Normal, Some(118_405)),
            node('2', "10.244.2.9", false, NodeState::Normal, Some(2 << 30)),
            node('3', "10.244.2.11", true, NodeState::Joining, None),
        ]
    );
    assert!(status("UN  10.0.0.1  half a row").is_err());
}

#[test]
fn an_address_of_ipv6_is_written_as_kubernetes_writes_it() {
    // As Java writes them: nothing is left out.
    let text = "UN  fd00:10:244:1:0:0:0:7  115.63 KiB  16  68.2%  7c0f3a58-7f2e-4d4a-9f43-0a2c6f9a0001  a\n";
    assert_eq!(status(text).unwrap()[0].address, "fd00:10:244:1::7");
}

#[test]
fn mode_and_transfers_are_read_from_netstats() {
    let text = "Mode: LEAVING\nUnbootstrap 1e0c\n    /10.0.0.2\n        Sending 5 files, 1000 bytes \
                total. Already sent 2 files (40.00%), 400 bytes total (40.00%)\n        Sending 1 \
                files, 50 bytes total. Already sent 1 files (100.00%), 50 bytes total (100.00%)\n";
    assert_eq!(mode(text), Mode::Leaving);
    assert_eq!(
        progress(text).as_deref(),
        Some("450 of 1050 bytes transferred")
    );
    assert_eq!(
        mode("Mode: DECOMMISSION_FAILED\n"),
        Mode::DecommissionFailed
    );
    assert_eq!(mode("Mode: JOINING_FAILED\n"), Mode::JoinFailed);
    assert_eq!(progress("Mode: NORMAL\nNot sending any streams.\n"), None);
}

#[test]
fn facts_leave_out_history_and_local_keyspaces() {
    let text = "Cluster Information:\n\tName: talk.chat\n\tSchema versions:\n\t\t0d8b: [10.0.0.1, \
                10.0.0.2]\n\t\tUNREACHABLE: [10.0.0.3]\n\nStats for all nodes:\n\tLive: \
                2\n\nKeyspaces:\n\tsystem_auth -> Replication class: SimpleStrategy \
                {replication_factor=1}\n\tsystem_distributed -> Replication class: SimpleStrategy \
                {replication_factor=3}\n\tsystem -> Replication class: LocalStrategy \
                {}\n\treadstates -> Replication class: NetworkTopologyStrategy {dc1=2}\n";
    let keyspace = |name: &str, replication_factor| Keyspace {
        name: name.to_owned(),
        replication_factor,
    };
    assert_eq!(
        facts(text).unwrap(),
        Facts {
            schema_versions: vec!["0d8b".to_owned(), "UNREACHABLE".to_owned()],
            schema_nodes: [
                ("0d8b", vec!["10.0.0.1", "10.0.0.2"]),
                ("UNREACHABLE", vec!["10.0.0.3"]),
            ]
            .map(|(v, nodes)| (v.to_owned(), nodes.into_iter().map(str::to_owned).collect()))
            .into(),
            keyspaces: vec![keyspace("system_auth", 1), keyspace("readstates", 2)],
        }
    );
    assert!(facts("").is_err());
}

#[test]
fn what_has_one_copy_is_not_repaired_and_data_comes_before_history() {
    let text = "Schema versions:\n\t0d8b: [10.0.0.1]\nKeyspaces:\n\tsystem_auth -> Replication class: SimpleStrategy \
                {replication_factor=2}\n\tsystem_distributed -> Replication class: SimpleStrategy \
                {replication_factor=3}\n\tsystem_traces -> Replication class: SimpleStrategy \
                {replication_factor=2}\n\tsystem -> Replication class: LocalStrategy {}\n\tother -> Replication class: \
                NetworkTopologyStrategy {dc1=1}\n\treadstates -> Replication class: NetworkTopologyStrategy {dc1=2}\n";
    assert_eq!(
        copied(text).unwrap(),
        ["readstates", "system_auth", "system_distributed"]
    );
}

#[test]
fn the_progress_of_a_repair_is_read_from_what_it_prints() {
    let line =
        "[2026-11-25 12:00:00,000] Repair session 1e0c for range [(1,2]] finished (progress: 35%)";
    assert_eq!(percent(line), Some("35"));
    assert_eq!(
        percent("[2026-11-25 12:00:00,000] Starting repair command #1"),
        None
    );
}

#[test]
fn a_failed_repair_is_told_in_one_line_without_what_every_one_says() {
    let stderr = "error: Repair job has failed with the error message: Repair command #1 failed with error Endpoint not \
                  alive: /10.0.0.3:7000. Check the logs on the repair participants for further details\n-- StackTrace \
                  --\njava.lang.RuntimeException: Repair job has failed\n\tat x.Y.z(Y.java:1)\n";
    let refused = EngineError::Refused(complaint("", stderr));
    assert_eq!(
        why_not_repaired("readstates", refused).to_string(),
        "keyspace readstates: Repair command #1 failed with error Endpoint not alive: /10.0.0.3:7000"
    );
}

/// A script in the place of `nodetool`.
fn played(script: &str) -> (Cassandra, tempfile::TempDir) {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let nodetool = folder.path().join("nodetool");
    std::fs::write(&nodetool, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&nodetool, std::fs::Permissions::from_mode(0o755)).unwrap();
    let cassandra = Cassandra {
        nodetool,
        address: "10.0.0.1".to_owned(),
        jmx: "127.0.0.1:7199".parse().unwrap(),
    };
    (cassandra, folder)
}

#[tokio::test]
async fn a_repair_goes_through_the_keyspaces_and_says_how_far_it_is() {
    let script = r#"case "$1" in
describecluster) printf 'Schema versions:\n\tv: [10.0.0.1]\nKeyspaces:\n\tks -> Replication class: S {dc1=2}\n' ;;
*) echo "$@" >> "$(dirname "$0")/told"; echo 'x finished (progress: 50%)' ;;
esac"#;
    let (cassandra, folder) = played(script);
    let said = std::sync::Mutex::new(Vec::new());
    let progress = |words: String| said.lock().unwrap().push(words);
    cassandra.repair(Ranges::All, &progress).await.unwrap();
    cassandra.repair(Ranges::Primary, &progress).await.unwrap();
    let told = std::fs::read_to_string(folder.path().join("told")).unwrap();
    assert_eq!(
        told,
        "repair --full ks\nrepair --full --partitioner-range ks\n"
    );
    assert_eq!(
        said.lock().unwrap()[..2],
        ["keyspace ks begins", "keyspace ks, 50 %"]
    );
}

#[tokio::test]
async fn the_steps_of_an_upgrade_are_those_of_nodetool_and_unfinished_and_forgotten_snapshots_go() {
    let (cassandra, folder) = played(
        r#"echo "$@" >> "$(dirname "$0")/told"
if [ "$1" = listsnapshots ]; then cat <<'END'
Snapshot Details: 
Snapshot name                                         Keyspace name Column family name True size Size on disk
readstates-before-upgrade-from-4.1.9-20260101T080000Z readstates    read_states        0 bytes   5.3 KiB
readstates-before-upgrade-from-4.1.9-20260101T080000Z system        local              0 bytes   5.3 KiB
nightly                                               readstates    read_states        0 bytes   5.3 KiB

Total TrueDiskSpaceUsed: 0 bytes
END
fi"#,
    );
    for step in [
        UpgradeStep::Snapshot("before".to_owned()),
        UpgradeStep::Rewrite,
        UpgradeStep::Release("before".to_owned()),
    ] {
        cassandra.upgrade(&step).await.unwrap();
    }
    let told = std::fs::read_to_string(folder.path().join("told")).unwrap();
    assert_eq!(
        told,
        "clearsnapshot -t before\nsnapshot --tag before\nupgradesstables\nclearsnapshot -t before\nlistsnapshots\n\
         clearsnapshot -t readstates-before-upgrade-from-4.1.9-20260101T080000Z\n"
    );
}

#[tokio::test]
async fn a_flush_is_of_every_keyspace() {
    let (cassandra, folder) = played(r#"echo "$@" >> "$(dirname "$0")/told""#);
    cassandra.flush().await.unwrap();
    let told = std::fs::read_to_string(folder.path().join("told")).unwrap();
    assert_eq!(told, "flush\n");
}

#[test]
fn the_engines_own_words_are_kept() {
    assert_eq!(
        complaint(
            "",
            "nodetool: Failed to connect to '127.0.0.1:7199' - ConnectException: 'refused'.\n"
        ),
        "Failed to connect to '127.0.0.1:7199' - ConnectException: 'refused'."
    );
    assert_eq!(
        complaint(
            "",
            "error: Not enough live nodes\n-- StackTrace --\njava.lang.X\n\tat y\n"
        ),
        "Not enough live nodes"
    );
    assert_eq!(
        complaint(
            "",
            "java.lang.IllegalStateException: no quorum\n\tat org.apache.cassandra.tools.NodeTool.main(NodeTool.java:87)\n"
        ),
        "no quorum"
    );
    assert_eq!(
        complaint(
            "",
            "Exception in thread \"main\" java.lang.IllegalArgumentException: Server is not initialized yet, cannot run \
             nodetool.\n\tat org.apache.cassandra.tools.NodeProbe.x(NodeProbe.java:1)\n"
        ),
        "Server is not initialized yet, cannot run nodetool."
    );
}
