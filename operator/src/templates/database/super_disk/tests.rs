use k8s_openapi::api::core::v1::PodSpec;
use serde_json::{Value, json};

use super::*;
use crate::{
    fixtures::{CASSANDRA, cluster, try_cluster},
    objects::{Object, objects},
    plan::{Evictions, Kept, Plan, SuperDisksStep, VolumeEntry},
    templates::{RackStep, Template},
};

const DISK: &str = "
  superDisk:
    localDevices: ['/dev/disk/by-id/google-local-nvme-ssd-*', /dev/nvme9n1]
    localCount: 2
    fastLeg: Optional
";

fn built(spec: &str, step: SuperDisksStep) -> Vec<Object> {
    let plan = Plan {
        racks: vec![RackStep {
            rack: "a".to_owned(),
            members: 1,
            partition: 0,
            restarted: None,
            parallel: false,
            claim_size: None,
            template: Template::Wanted,
            version: None,
        }],
        super_disks: step,
        ..Plan::default()
    };
    objects(&cluster(spec), &plan)
}

fn set(spec: &str) -> Value {
    let objects = built(spec, SuperDisksStep::default());
    let set = objects.iter().find_map(|o| match o {
        Object::StatefulSet(set) => Some(serde_json::to_value(set).unwrap()),
        _ => None,
    });
    set.unwrap()
}

fn pod(spec: &str) -> PodSpec {
    serde_json::from_value(set(spec)["spec"]["template"]["spec"].clone()).unwrap()
}

fn with_disk() -> String {
    format!("{CASSANDRA}{DISK}")
}

fn mounts(container: &Container) -> Vec<String> {
    let all = container.volume_mounts.iter().flatten();
    all.map(|m| {
        let how = m.mount_propagation.as_deref().unwrap_or("-");
        let ro = if m.read_only == Some(true) { " ro" } else { "" };
        format!("{} {} {how}{ro}", m.name, m.mount_path)
    })
    .collect()
}

#[test]
fn the_disk_comes_first_and_its_agent_is_the_first_sidecar() {
    let pod = pod(&with_disk());
    let init = pod.init_containers.unwrap();
    let order: Vec<_> = init
        .iter()
        .map(|c| (c.name.as_str(), c.restart_policy.is_some()))
        .collect();
    assert_eq!(
        order,
        [
            ("identify", false),
            ("disk", false),
            ("disk-agent", true),
            ("prepare", false),
            ("agent", true),
        ]
    );
    // What is before the database has 900 s to end, what is under it a minute more.
    assert_eq!(pod.termination_grace_period_seconds, Some(960));
    let agent = serde_json::to_value(&init[2]).unwrap();
    let probe = |kind: &str| {
        let probe = &agent[kind];
        (
            probe["httpGet"]["path"].clone(),
            probe["terminationGracePeriodSeconds"].clone(),
        )
    };
    assert_eq!(probe("startupProbe"), (json!("/startup"), json!(60)));
    assert_eq!(probe("livenessProbe"), (json!("/livez"), json!(60)));
    assert_eq!(probe("readinessProbe"), (json!("/readyz"), Value::Null));
}

#[test]
fn only_the_disks_containers_are_privileged() {
    let pod = pod(&with_disk());
    let all = pod.init_containers.iter().flatten().chain(&pod.containers);
    let privileged: Vec<_> = all
        .filter(|c| {
            let security = c.security_context.as_ref();
            security.and_then(|s| s.privileged) == Some(true)
        })
        .map(|c| c.name.as_str())
        .collect();
    assert_eq!(privileged, ["disk", "disk-agent"]);
    assert_eq!(pod.security_context.unwrap().run_as_non_root, Some(true));
    assert_eq!(pod.host_pid, None);
    assert_eq!(pod.host_network, None);
}

/// Whose the files of the disk are that pods get which run so; or what is wrong with it.
fn owner(security: &str) -> Result<String, String> {
    let overlay = format!("  podTemplate: {{ securityContext: {{ {security} }} }}\n");
    let spec = with_disk() + &overlay;
    try_cluster(&spec).map_err(|problem| problem.to_string())?;
    let assemble = pod(&spec).init_containers.unwrap()[1].args.clone().unwrap();
    let at = assemble.iter().position(|arg| arg == "--owner").unwrap();
    Ok(assemble[at + 1].clone())
}

#[test]
fn the_files_of_the_disk_are_given_to_whom_the_pod_runs_as() {
    let owner_of = |security| owner(security).unwrap();
    assert_eq!(
        owner_of("runAsUser: 1000650000, runAsGroup: 0"),
        "1000650000:0"
    );
    assert_eq!(owner_of("runAsUser: 7"), "7:7");
    // Only once there is a pod is it known whom the platform chooses, and no kubelet changes this disk's owner.
    let said = owner("runAsNonRoot: true").unwrap_err();
    let field = "spec.database.podTemplate.securityContext.runAsUser";
    assert!(said.contains(field), "{said}");
}

#[test]
fn the_disk_is_told_by_a_file_what_it_is_and_by_flags_what_it_shall_be() {
    let pod = pod(&with_disk());
    let init = pod.init_containers.unwrap();
    let args = |n: usize| init[n].args.as_ref().unwrap().join(" ");
    assert_eq!(
        args(0),
        "identify --entry /etc/readstates/volumes/$(POD_NAME) --device /volume --to /run/readstates/disk.json"
    );
    let common = "--disk /run/readstates/disk.json --local /dev/disk/by-id/google-local-nvme-ssd-* --local \
                  /dev/nvme9n1 --local-count 2 --mount /var/lib/superdisk/talk.chat/data --fs xfs --fast-leg optional \
                  --grow";
    assert_eq!(
        args(1),
        format!("assemble {common} --owner 999:999 --decision /etc/readstates/volumes/$(POD_NAME)")
    );
    assert_eq!(args(2), format!("agent {common} --listen [::]:9108"));
    assert!(args(3).ends_with(" --super-disk"), "{}", args(3));
    // Its last words are not on the node's /dev.
    assert_eq!(
        init[1].termination_message_path.as_deref(),
        Some("/termination-log")
    );
}

#[test]
fn the_claim_is_a_device_that_one_container_sees_and_the_others_have_what_is_mounted() {
    let set = set(&with_disk());
    let claim = &set["spec"]["volumeClaimTemplates"][0];
    assert_eq!(claim["spec"]["volumeMode"], "Block");
    assert_eq!(claim["spec"]["storageClassName"], "fast");
    assert_eq!(claim["spec"]["accessModes"], json!(["ReadWriteOncePod"]));
    let pod = pod(&with_disk());
    let all: Vec<_> = pod
        .init_containers
        .iter()
        .flatten()
        .chain(&pod.containers)
        .collect();
    let with_device: Vec<_> = all
        .iter()
        .filter(|c| c.volume_devices.is_some())
        .map(|c| c.name.as_str())
        .collect();
    assert_eq!(with_device, ["identify"]);
    let node = [
        "super-disk /var/lib/superdisk/talk.chat Bidirectional",
        "node-dev /dev -",
        "node-superdisk /run/superdisk -",
        "node-mdadm /run/mdadm -",
        "node-modules /lib/modules - ro",
        "node-os-release /etc/os-release - ro",
        "node-proc /host/proc - ro",
    ];
    let own = [
        "run /run/readstates -",
        "volumes /etc/readstates/volumes - ro",
    ];
    assert_eq!(mounts(all[1]), [&node[..], &own[..]].concat());
    let own = ["run /run/readstates - ro"];
    assert_eq!(mounts(all[2]), [&own[..], &node[..]].concat());
    for container in &all[3..] {
        let data = "super-disk-data /var/lib/cassandra HostToContainer";
        assert_eq!(mounts(container)[0], data, "{}", container.name);
    }
    let files = pod.volumes.unwrap();
    let files = files.iter().find(|v| v.name == FILES).unwrap();
    assert_eq!(
        files.host_path.as_ref().unwrap().path,
        "/var/lib/superdisk/talk.chat/data"
    );
}

#[test]
fn a_rack_of_an_operator_before_keeps_claims_that_a_node_may_share() {
    let step = SuperDisksStep {
        shared: ["a".to_owned()].into(),
        ..SuperDisksStep::default()
    };
    let objects = built(&with_disk(), step);
    let set = objects.iter().find_map(|o| match o {
        Object::StatefulSet(set) => Some(serde_json::to_value(set).unwrap()),
        _ => None,
    });
    let claim = &set.unwrap()["spec"]["volumeClaimTemplates"][0];
    assert_eq!(claim["spec"]["accessModes"], json!(["ReadWriteOnce"]));
    assert_eq!(claim["spec"]["volumeMode"], "Block");
}

#[test]
fn without_a_super_disk_a_pod_has_nothing_of_it() {
    let text = set(CASSANDRA).to_string();
    for word in ["disk", "hostPath", "Block", "privileged", "mounts"] {
        assert!(!text.contains(word), "{word} in {text}");
    }
    let written = built(CASSANDRA, SuperDisksStep::default());
    let of_disks = |o: &Object| match o {
        Object::ConfigMap(map) => map.metadata.name.as_deref() == Some("chat-super-disks"),
        _ => false,
    };
    assert!(!written.iter().any(of_disks));
}

#[test]
fn every_pod_finds_its_entry_by_its_name() {
    let entry = |claim_uid: &str, used_before: bool| VolumeEntry {
        claim_uid: claim_uid.to_owned(),
        pod_uid: used_before.then(|| "p-1".to_owned()),
        copy_of: used_before.then(|| "u-0".to_owned()),
        used_before,
        keep: used_before.then(|| Kept {
            pod_uid: "p-1".to_owned(),
            leg: "durable",
        }),
    };
    let volumes = [
        ("chat-db-a-0".to_owned(), entry("u-1", true)),
        ("chat-db-b-0".to_owned(), entry("u-2", false)),
    ];
    let step = SuperDisksStep {
        volumes: volumes.into(),
        ..SuperDisksStep::default()
    };
    let written = built(&with_disk(), step);
    let map = written.iter().find_map(|o| match o {
        Object::ConfigMap(map) if map.metadata.name.as_deref() == Some("chat-super-disks") => {
            Some(map)
        }
        _ => None,
    });
    let map = map.unwrap();
    let entries: Vec<_> = map.data.iter().flatten().collect();
    assert_eq!(
        serde_json::to_value(entries).unwrap(),
        json!([
            [
                "chat-db-a-0",
                r#"{"copyOf":"u-0","keep":{"leg":"durable","pod":"p-1"},"pod":"p-1","usedBefore":true,"volume":"u-1"}"#
            ],
            ["chat-db-b-0", r#"{"usedBefore":false,"volume":"u-2"}"#],
        ])
    );
}

#[test]
fn the_budget_keeps_everybody_but_the_one_at_risk() {
    let budget = |evictions| {
        let step = SuperDisksStep {
            evictions,
            ..SuperDisksStep::default()
        };
        let written = built(&with_disk(), step);
        let budget = written.iter().find_map(|o| match o {
            Object::PodDisruptionBudget(o) => o.spec.clone(),
            _ => None,
        });
        let spec = serde_json::to_value(budget.unwrap()).unwrap();
        (
            spec["maxUnavailable"].clone(),
            spec["selector"]["matchExpressions"].clone(),
        )
    };
    assert_eq!(budget(Evictions::OneAtATime), (json!(1), Value::Null));
    assert_eq!(budget(Evictions::None), (json!(0), Value::Null));
    let others = json!([{
        "key": "statefulset.kubernetes.io/pod-name", "operator": "NotIn", "values": ["chat-db-a-0"],
    }]);
    let only = Evictions::Only("chat-db-a-0".to_owned());
    assert_eq!(budget(only), (json!(0), others));
}

#[test]
fn the_database_starts_on_a_mounted_super_disk_only() {
    let script = &pod(&with_disk()).containers[0].command.clone().unwrap()[2];
    let (guarded, _) = script
        .split_once(". /run/readstates/start || exit 1\n")
        .unwrap();
    let run = |mounts: &str| {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("mounts");
        std::fs::write(&file, mounts).unwrap();
        let script = guarded.replace("/proc/self/mounts", file.to_str().unwrap());
        #[expect(
            clippy::disallowed_methods,
            reason = "the shell that runs this script in a pod is any shell"
        )]
        let mut shell = std::process::Command::new("/bin/sh");
        let ended = shell.arg("-c").arg(format!("{script} echo on")).output();
        let ended = ended.unwrap();
        (
            ended.status.success(),
            String::from_utf8(ended.stdout).unwrap(),
        )
    };
    let elsewhere =
        "/dev/md101 /var/lib/other xfs rw 0 0\n/dev/sda1 /var/lib/cassandra ext4 rw 0 0\n";
    assert_eq!(run(elsewhere), (false, String::new()));
    assert_eq!(run(""), (false, String::new()));
    let here = format!("{elsewhere}/dev/md101 /var/lib/cassandra xfs rw,noatime 0 0\n");
    assert_eq!(run(&here), (true, "on\n".to_owned()));
}
