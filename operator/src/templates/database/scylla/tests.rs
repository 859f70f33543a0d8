//! The start script is run by a shell, with stand-ins for what it calls.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use k8s_openapi::api::core::v1::Container;
use tokio::process::Command;

use crate::{
    fixtures,
    objects::{
        Object,
        tests::{SCYLLA, all},
    },
};

/// Runs the script of the database's container in a folder with stand-ins for what it calls: an `nproc` that sees
/// `cpus` CPUs, an `iotune` that writes figures, an entrypoint that prints its arguments. Returns the arguments after
/// those of the container.
async fn started(spec: &str, cpus: u32, start: &str, dir: &Path) -> Option<String> {
    started_with(spec, cpus, start, dir, Some(2)).await
}

/// The same with this version of cgroups, or none.
async fn started_with(
    spec: &str,
    cpus: u32,
    start: &str,
    dir: &Path,
    cgroups: Option<u32>,
) -> Option<String> {
    let script = script(spec);
    let file = |name: &str, text: &str| {
        let path = dir.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path.display().to_string()
    };
    let own = [
        ("/run/readstates/start", file("start", start)),
        (
            "/docker-entrypoint.py",
            file("entrypoint", "#!/bin/sh\necho \"$*\"\n"),
        ),
        (
            "/sys/fs/cgroup/cpuset/cpuset.effective_cpus",
            match cgroups {
                Some(1) => file("cpuset-1", "4-5\n"),
                _ => "/nowhere".to_owned(),
            },
        ),
        (
            "/sys/fs/cgroup/cpuset.cpus.effective",
            match cgroups {
                Some(2) => file("cpuset-2", "4-5\n"),
                _ => "/nowhere".to_owned(),
            },
        ),
    ];
    file("nproc", &format!("#!/bin/sh\necho {cpus}\n"));
    file(
        "iotune",
        "#!/bin/sh\necho \"$*\" >>\"$0.log\"; echo disks >\"$4\"\n",
    );
    let script = own
        .iter()
        .fold(script, |script, (from, to)| script.replace(from, to));
    let output = Command::new("/bin/sh")
        .args(["-c", &script, "scylla"])
        .env("PATH", format!("{}:/usr/bin:/bin", dir.display()))
        .output()
        .await
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    output.status.success().then(|| said.trim().to_owned())
}

#[test]
fn a_new_database_has_the_superuser_that_the_schema_job_logs_in_as_in_every_release() {
    let args = container(SCYLLA).args.unwrap();
    let value = |option: &str| {
        let at = args.iter().position(|arg| arg == option).unwrap();
        args[at + 1].clone()
    };
    assert_eq!(value("--auth-superuser-name"), "cassandra");
    // What `openssl passwd -6 -salt readstates cassandra` says; the kubelet expands nothing in it.
    let salted = value("--auth-superuser-salted-password");
    assert!(salted.starts_with("$6$readstates$EMuIw2y7") && !salted.contains("$("));
}

fn script(spec: &str) -> String {
    container(spec).command.unwrap()[2].clone()
}

fn arguments(spec: &str) -> Vec<String> {
    container(spec).args.unwrap()
}

/// The database's own.
fn container(spec: &str) -> Container {
    let objects = all(&fixtures::cluster(spec));
    let set = objects.into_iter().find_map(|object| match object {
        Object::StatefulSet(set) if set.metadata.name.as_deref() == Some("chat-db-a") => Some(set),
        _ => None,
    });
    let pod = set.unwrap().spec.unwrap().template.spec.unwrap();
    pod.containers[0].clone()
}

const SEEDS: &str = "export SCYLLA_SEEDS='10.0.0.1'\n";

#[tokio::test]
async fn reactors_are_pinned_where_the_kubelet_has_set_cpus_aside() {
    let dir = tempfile::tempdir().unwrap();
    let own = started(SCYLLA, 2, SEEDS, dir.path()).await.unwrap();
    assert_eq!(
        own,
        "--seeds 10.0.0.1 --rpc-address 0.0.0.0 --smp 2 --cpuset 4-5 --io-setup 0"
    );
    let old = started_with(SCYLLA, 2, SEEDS, dir.path(), Some(1)).await;
    assert_eq!(old.unwrap(), own);
    let none = started_with(SCYLLA, 2, SEEDS, dir.path(), None).await;
    assert_eq!(
        none.unwrap(),
        "--seeds 10.0.0.1 --rpc-address 0.0.0.0 --smp 2 --io-setup 0"
    );
    let shared = started(SCYLLA, 16, SEEDS, dir.path()).await.unwrap();
    assert_eq!(
        shared,
        "--seeds 10.0.0.1 --rpc-address 0.0.0.0 --smp 2 --io-setup 0"
    );
    let bursts = SCYLLA.replace("limits:", "requests: { cpu: 100m }, limits:");
    assert!(!script(&bursts).contains("cpuset"));
}

#[tokio::test]
async fn clients_of_a_node_of_ipv6_reach_it_by_every_address_of_its_pod() {
    let dir = tempfile::tempdir().unwrap();
    let start = "export SCYLLA_ADDRESSES='--rpc-address :: --enable-ipv6-dns-lookup 1'\n\
                 export SCYLLA_SEEDS='fd00::1'\n";
    let said = started(SCYLLA, 16, start, dir.path()).await.unwrap();
    let addresses = "--seeds fd00::1 --rpc-address :: --enable-ipv6-dns-lookup 1 --smp 2";
    assert!(said.starts_with(addresses), "{said}");
}

#[tokio::test]
async fn a_disk_is_measured_on_its_first_start_and_its_figures_are_used_ever_after() {
    let dir = tempfile::tempdir().unwrap();
    let figures = dir.path().join("figures.yaml");
    let start = format!("{SEEDS}export SCYLLA_IO='{}'\n", figures.display());
    for _ in 0..2 {
        let said = started(SCYLLA, 16, &start, dir.path()).await.unwrap();
        assert_eq!(
            said,
            format!(
                "--seeds 10.0.0.1 --rpc-address 0.0.0.0 --smp 2 --io-setup 0 --io-properties-file={}",
                figures.display()
            )
        );
    }
    let measured = fs::read_to_string(dir.path().join("iotune.log")).unwrap();
    assert_eq!(
        measured,
        format!(
            "--evaluation-directory /var/lib/scylla --properties-file {}.new --smp 2\n",
            figures.display()
        )
    );
}

#[tokio::test]
async fn developer_mode_is_for_who_asks_and_measures_nothing() {
    let mode = |spec: &str| {
        let args = arguments(spec);
        let at = args.iter().position(|a| a == "--developer-mode").unwrap();
        args[at + 1].clone()
    };
    assert_eq!(mode(SCYLLA), "0");
    let asked = SCYLLA.replace("database:\n", "database:\n  developerMode: true\n");
    assert_eq!(mode(&asked), "1");
    let dir = tempfile::tempdir().unwrap();
    let start = format!(
        "{SEEDS}export SCYLLA_IO='{}/figures.yaml'\n",
        dir.path().display()
    );
    let said = started(&asked, 16, &start, dir.path()).await.unwrap();
    assert_eq!(
        said,
        "--seeds 10.0.0.1 --rpc-address 0.0.0.0 --smp 2 --io-setup 0"
    );
    let cassandra =
        fixtures::CASSANDRA.replace("database:\n", "database:\n  developerMode: false\n");
    let odd = fixtures::try_cluster(&cassandra).unwrap_err();
    assert_eq!(
        odd.to_string(),
        "spec.database.developerMode: is valid only with engine Scylla"
    );
}

#[test]
fn settings_are_options_of_the_server() {
    let with = SCYLLA.replace(
        "database:\n",
        "database:\n  settings: { compaction_throughput_mb_per_sec: '64' }\n",
    );
    let args = arguments(&with);
    assert!(
        args.ends_with(&["--compaction-throughput-mb-per-sec", "64"].map(str::to_owned)),
        "{args:?}"
    );
    assert_eq!(args[..args.len() - 2], arguments(SCYLLA));
}

#[tokio::test]
async fn a_node_is_not_started_without_its_start_file() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(started(SCYLLA, 2, "exit 3", dir.path()).await, None);
}

#[test]
fn all_containers_of_a_pod_with_cpus_of_its_own_ask_for_what_they_may_have() {
    let objects = all(&fixtures::cluster(SCYLLA));
    for object in objects {
        let Object::StatefulSet(set) = object else {
            continue;
        };
        let pod = set.spec.unwrap().template.spec.unwrap();
        if set.metadata.name.as_deref() == Some("chat") {
            continue;
        }
        for container in pod.init_containers.iter().flatten().chain(&pod.containers) {
            let resources = container.resources.as_ref().unwrap();
            assert!(
                super::guaranteed(resources),
                "{}: {resources:?}",
                container.name
            );
        }
    }
}
