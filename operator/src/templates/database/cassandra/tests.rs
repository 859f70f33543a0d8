//! The start script is run by a shell, with stand-ins for what it calls; and what its containers may do.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use k8s_openapi::api::core::v1::{Container, PodSpec};
use tokio::process::Command;

use crate::{
    fixtures::{CASSANDRA, cluster},
    objects::{
        Object,
        tests::{SCYLLA, all},
    },
};

fn pod(spec: &str) -> PodSpec {
    let objects = all(&cluster(spec));
    let set = objects.into_iter().find_map(|object| match object {
        Object::StatefulSet(set) if set.metadata.name.as_deref() == Some("chat-db-a") => Some(set),
        _ => None,
    });
    set.unwrap().spec.unwrap().template.spec.unwrap()
}

/// Runs the script in a folder that stands for the container's root; what the entrypoint says.
async fn started(spec: &str, root: &Path) -> String {
    let script = pod(spec).containers[0].command.clone().unwrap()[2].clone();
    let at = |path: &str| format!("{}{path}", root.display());
    for folder in [
        "/run/readstates",
        "/run/cassandra",
        "/etc/cassandra",
        "/bin",
    ] {
        fs::create_dir_all(at(folder)).unwrap();
    }
    fs::write(
        at("/run/readstates/start"),
        "export CASSANDRA_SEEDS=10.0.0.1\n",
    )
    .unwrap();
    let entrypoint = at("/bin/docker-entrypoint.sh");
    let says = "#!/bin/sh\necho \"$* $CASSANDRA_SEEDS $CASSANDRA_CONF\"\n";
    fs::write(&entrypoint, says).unwrap();
    fs::set_permissions(&entrypoint, fs::Permissions::from_mode(0o755)).unwrap();
    let script = script.replace("/run/", &at("/run/"));
    let output = Command::new("/bin/sh")
        .args(["-c", &script])
        .env("PATH", format!("{}:/usr/bin:/bin", at("/bin")))
        .env("CASSANDRA_CONF", at("/etc/cassandra"))
        .output()
        .await
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn the_image_writes_to_a_copy_of_its_settings() {
    let root = tempfile::tempdir().unwrap();
    let file = |path: &str| root.path().join(path);
    fs::create_dir_all(file("etc/cassandra/triggers")).unwrap();
    fs::write(
        file("etc/cassandra/cassandra.yaml"),
        "keystore_password: x\nseeds: y\n",
    )
    .unwrap();
    fs::write(file("etc/cassandra/jvm.options"), "-Xss256k\n").unwrap();
    let tls = CASSANDRA.replace("database:\n", "database:\n  tls: { secretName: ours }\n");
    // The second time is a restart of the container: the folder is still there.
    for _ in 0..2 {
        let copy = file("run/cassandra");
        assert_eq!(
            started(&tls, root.path()).await,
            format!("cassandra -f 10.0.0.1 {}\n", copy.display())
        );
        let read = |name: &str| fs::read_to_string(copy.join(name)).unwrap();
        assert_eq!(read("cassandra.yaml"), "seeds: y\n");
        assert_eq!(read("jvm.options"), "-Xss256k\n");
        assert!(copy.join("triggers").is_dir());
    }
    let own = fs::read_to_string(file("etc/cassandra/cassandra.yaml")).unwrap();
    assert!(own.starts_with("keystore_password"));
}

fn containers(pod: &PodSpec) -> impl Iterator<Item = &Container> {
    pod.init_containers.iter().flatten().chain(&pod.containers)
}

#[test]
fn no_container_of_a_database_pod_may_do_more_than_it_needs() {
    for (spec, writes_its_root) in [(CASSANDRA, &[][..]), (SCYLLA, &["database"][..])] {
        let pod = pod(spec);
        let profile = pod.security_context.as_ref().unwrap();
        let profile = profile.seccomp_profile.as_ref().unwrap();
        assert_eq!(profile.type_, "RuntimeDefault");
        for container in containers(&pod) {
            let rights = container.security_context.as_ref().unwrap();
            assert_eq!(rights.allow_privilege_escalation, Some(false));
            let capabilities = rights.capabilities.as_ref().unwrap();
            assert_eq!(capabilities.drop.as_deref(), Some(&["ALL".to_owned()][..]));
            assert_eq!(capabilities.add, None);
            let writes = writes_its_root.contains(&container.name.as_str());
            assert_eq!(rights.read_only_root_filesystem, Some(!writes));
        }
    }
}

#[test]
fn cassandra_is_not_root_and_has_a_place_for_whatever_it_writes() {
    let pod = pod(CASSANDRA);
    let who = pod.security_context.as_ref().unwrap();
    assert_eq!(
        (who.run_as_non_root, who.run_as_user),
        (Some(true), Some(999))
    );
    let scratch = pod.volumes.iter().flatten();
    let scratch: Vec<_> = scratch
        .filter(|v| v.empty_dir.is_some())
        .map(|v| v.name.as_str())
        .collect();
    assert_eq!(scratch, ["run", "settings", "logs", "tmp"]);
    let writes = |name: &str| -> Vec<String> {
        let container = containers(&pod).find(|c| c.name == name).unwrap();
        let mounts = container.volume_mounts.iter().flatten();
        let writable = mounts.filter(|m| m.read_only != Some(true));
        writable.map(|m| m.mount_path.clone()).collect()
    };
    assert_eq!(
        writes("database"),
        [
            "/var/lib/cassandra",
            "/run/cassandra",
            "/var/log/cassandra",
            "/tmp"
        ]
    );
    assert_eq!(writes("agent"), ["/var/lib/cassandra", "/tmp"]);
}

#[test]
fn scylla_does_not_tell_its_maker_that_it_runs() {
    let args = pod(SCYLLA).containers[0].args.clone().unwrap();
    assert!(args.contains(&"--disable-version-check".to_owned()));
}
