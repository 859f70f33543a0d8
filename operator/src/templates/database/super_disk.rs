//! A super-disk in a database pod: three containers before everything else, and what they share with the node.
//! ```text
//! identify (nobody)      which volume is it? ──▶ a file in the pod
//! disk     (privileged)  superdisk assemble: put together and mounted, or refused
//! disk-agent (privileged, sidecar) superdisk agent: maintains it, and takes it down after all other containers
//! ```
//! The filesystem is mounted on the node, below a folder of this cluster, and from there into the database's
//! containers: as a folder of the node that is mounted from another container, never as a `subPath`, whose mount
//! the kubelet would hold until after the agent has to be done. One folder a cluster is enough: two of its pods
//! are never on one node.

use k8s_openapi::api::core::v1::{
    ConfigMapVolumeSource, Container, EnvVar, HostPathVolumeSource, PersistentVolumeClaim,
    PodSecurityContext, Probe, SecurityContext, Volume, VolumeDevice, VolumeMount,
};
use readstates_operator_api::{FastLeg, Filesystem};

use super::agent;
use crate::{
    names::{DISK, DISK_AGENT, ports},
    spec::{Identity, SuperDisk, ValidatedCluster},
    templates::{env, pod},
};

/// How much longer than a database a pod may take to end: the agent's own time, and some for the node.
pub(super) const GRACE_SECONDS: i64 = 60;

/// The container that finds out which volume the pod has.
const IDENTIFY: &str = "identify";
/// Where it has the volume's device.
const DEVICE: &str = "/volume";
const VOLUMES: &str = "volumes";
const VOLUMES_PATH: &str = "/etc/readstates/volumes";
/// The folder of this cluster on the node, and the filesystem in it.
const FOLDER: &str = "super-disk";
const FILES: &str = "super-disk-data";
/// Not below `/dev`, which is the node's.
const LAST_WORDS: &str = "/termination-log";

/// A path of the node that the disk's containers have too.
struct OfNode {
    name: &'static str,
    path: &'static str,
    /// Where they have it.
    at: &'static str,
    /// What the kubelet shall make sure of; empty: nothing.
    type_: &'static str,
    written: bool,
}

const NODE: [OfNode; 6] = [
    // All of it: arrays come and go, and their nodes with them.
    written("node-dev", "/dev", "Directory"),
    // Locks and records of which pod a super-disk belongs to: for other pods and `superdisk reap`.
    written("node-superdisk", "/run/superdisk", "DirectoryOrCreate"),
    written("node-mdadm", "/run/mdadm", "DirectoryOrCreate"),
    // What the kernel can load, and whose image the node has, for refusals that name it.
    read("node-modules", "/lib/modules", ""),
    read("node-os-release", "/etc/os-release", "File"),
    // What the node has mounted: process 1 of a pod is not the node's.
    OfNode {
        at: "/host/proc",
        ..read("node-proc", "/proc", "Directory")
    },
];

const fn written(name: &'static str, path: &'static str, type_: &'static str) -> OfNode {
    OfNode {
        name,
        path,
        at: path,
        type_,
        written: true,
    }
}

const fn read(name: &'static str, path: &'static str, type_: &'static str) -> OfNode {
    OfNode {
        name,
        path,
        at: path,
        type_,
        written: false,
    }
}

fn folder(id: &Identity) -> String {
    format!("/var/lib/superdisk/{}.{}", id.namespace, id.name)
}

fn files(id: &Identity) -> String {
    format!("{}/data", folder(id))
}

/// The claim of a volume without a filesystem; `exclusive`: of which Kubernetes lets one pod use it at a time.
pub(super) fn block(claim: PersistentVolumeClaim, exclusive: bool) -> PersistentVolumeClaim {
    PersistentVolumeClaim {
        spec: claim.spec.map(|mut spec| {
            spec.volume_mode = Some("Block".to_owned());
            if exclusive {
                spec.access_modes = Some(vec!["ReadWriteOncePod".to_owned()]);
            }
            spec
        }),
        ..claim
    }
}

/// What the pod's containers share with each other and with the node.
pub(super) fn volumes(id: &Identity) -> Vec<Volume> {
    let entries = Volume {
        name: VOLUMES.to_owned(),
        config_map: Some(ConfigMapVolumeSource {
            name: id.super_disks(),
            // It is waited for by a container, which can say so.
            optional: Some(true),
            ..ConfigMapVolumeSource::default()
        }),
        ..Volume::default()
    };
    let own = [(FOLDER, folder(id)), (FILES, files(id))]
        .map(|(name, path)| of_node(name, &path, "DirectoryOrCreate"));
    let node = NODE.map(|of| of_node(of.name, of.path, of.type_));
    [vec![entries], own.into(), node.into()].concat()
}

fn of_node(name: &str, path: &str, type_: &str) -> Volume {
    Volume {
        name: name.to_owned(),
        host_path: Some(HostPathVolumeSource {
            path: path.to_owned(),
            type_: Some(type_.to_owned()).filter(|t| !t.is_empty()),
        }),
        ..Volume::default()
    }
}

/// The data as the other containers see it.
pub(super) fn data_mount(path: &str) -> VolumeMount {
    VolumeMount {
        mount_propagation: Some("HostToContainer".to_owned()),
        ..pod::mount(FILES, path)
    }
}

/// Shell that goes on only where a super-disk is mounted: what a database writes to the folder under it would be on
/// the node's own disk, and be hidden later.
pub(super) fn guard(path: &str) -> String {
    format!(
        "mounted=; while read -r device at rest; do case \"$device $at\" in \"/dev/md\"*\" {path}\") mounted=yes ;; \
         esac; done </proc/self/mounts; if [ -z \"$mounted\" ]; then echo \"no super-disk is mounted at {path}: the \
         database is not started\" >&2; exit 1; fi; "
    )
}

/// The containers before all others, in order. The files of the disk belong to whom the pod runs as: what a kubelet
/// does for the group of other volumes, it does not do for these.
pub(super) fn containers(
    cluster: &ValidatedCluster,
    disk: &SuperDisk,
    pod: &PodSecurityContext,
) -> Vec<Container> {
    let mut assemble = arguments(cluster, disk, "assemble");
    if let Some(owner) = pod.run_as_user {
        let group = pod.run_as_group.unwrap_or(owner);
        assemble.extend(["--owner".to_owned(), format!("{owner}:{group}")]);
    }
    assemble.extend(["--decision", &entry()].map(str::to_owned));
    let listen = format!("{}:{}", ports::ANY, ports::DISK);
    let mut agent = arguments(cluster, disk, "agent");
    agent.extend(["--listen", &listen].map(str::to_owned));
    let patience = |failures| pod::Patience {
        period_seconds: 5,
        failures,
    };
    let probe = |path, failures| pod::http_probe(path, ports::DISK_NAME, patience(failures));
    // The pod's grace period is for the database's end; that of an agent that is stuck may be shorter.
    let restart = |probe: Probe| Probe {
        termination_grace_period_seconds: Some(GRACE_SECONDS),
        ..probe
    };
    vec![
        identify(cluster, disk),
        putting_together(cluster, disk, assemble),
        Container {
            args: Some(agent),
            env: Some(environment()),
            // The first sidecar: starts before the others, ends after them.
            restart_policy: Some("Always".to_owned()),
            ports: Some(vec![pod::port(ports::DISK_NAME, ports::DISK)]),
            // Started once it is mounted: what it refuses, it tries again.
            startup_probe: Some(restart(probe("/startup", 60))),
            readiness_probe: Some(probe("/readyz", 2)),
            liveness_probe: Some(restart(probe("/livez", 6))),
            ..privileged(cluster, disk, DISK_AGENT)
        },
    ]
}

fn putting_together(cluster: &ValidatedCluster, disk: &SuperDisk, args: Vec<String>) -> Container {
    let mut container = privileged(cluster, disk, DISK);
    container.args = Some(args);
    container.env = Some(environment());
    let mounts = container.volume_mounts.get_or_insert_default();
    // It remembers there which decision it has carried out.
    mounts.retain(|mount| mount.mount_path != agent::RUN_PATH);
    mounts.extend([agent::run_mount_to_write(), entries_mount()]);
    container
}

fn environment() -> Vec<EnvVar> {
    vec![
        env::field("POD_NAME", "metadata.name"),
        env::field("POD_UID", "metadata.uid"),
    ]
}

/// What the operator writes about this pod's volume.
fn entry() -> String {
    format!("{VOLUMES_PATH}/$(POD_NAME)")
}

fn entries_mount() -> VolumeMount {
    VolumeMount {
        read_only: Some(true),
        ..pod::mount(VOLUMES, VOLUMES_PATH)
    }
}

fn identify(cluster: &ValidatedCluster, disk: &SuperDisk) -> Container {
    let args = [
        "identify",
        "--entry",
        &entry(),
        "--device",
        DEVICE,
        "--to",
        &identity(),
    ];
    Container {
        args: Some(args.map(str::to_owned).into()),
        env: Some(environment()),
        // It reads the header of the device, which is root's; it can do nothing else that is root's.
        security_context: Some(SecurityContext {
            run_as_user: Some(0),
            run_as_group: Some(0),
            run_as_non_root: Some(false),
            ..pod::restricted_container(true)
        }),
        volume_devices: Some(vec![VolumeDevice {
            name: pod::DATA.to_owned(),
            device_path: DEVICE.to_owned(),
        }]),
        volume_mounts: Some(vec![entries_mount(), agent::run_mount_to_write()]),
        ..common(cluster, disk, IDENTIFY)
    }
}

/// The file that says which volume it is.
fn identity() -> String {
    format!("{}/disk.json", agent::RUN_PATH)
}

fn arguments(cluster: &ValidatedCluster, disk: &SuperDisk, command: &str) -> Vec<String> {
    let SuperDisk {
        local_devices,
        local_count,
        fast_leg,
        filesystem,
        image: _,
    } = disk;
    let filesystem = match filesystem {
        Filesystem::Xfs => "xfs",
        Filesystem::Ext4 => "ext4",
    };
    let fast_leg = match fast_leg {
        FastLeg::Required => "required",
        FastLeg::Optional => "optional",
    };
    let mut arguments = vec![command.to_owned()];
    let mut flag = |name: &str, value: &str| {
        arguments.extend([name.to_owned(), value.to_owned()]);
    };
    flag("--disk", &identity());
    for device in local_devices {
        flag("--local", device);
    }
    flag("--local-count", &local_count.to_string());
    flag("--mount", &files(&cluster.id));
    flag("--fs", filesystem);
    flag("--fast-leg", fast_leg);
    arguments.push("--grow".to_owned());
    arguments
}

fn privileged(cluster: &ValidatedCluster, disk: &SuperDisk, name: &str) -> Container {
    let mut mounts = vec![
        agent::run_mount(),
        VolumeMount {
            mount_propagation: Some("Bidirectional".to_owned()),
            ..pod::mount(FOLDER, &folder(&cluster.id))
        },
    ];
    mounts.extend(NODE.map(|of| VolumeMount {
        read_only: Some(true).filter(|_| !of.written),
        ..pod::mount(of.name, of.at)
    }));
    Container {
        security_context: Some(SecurityContext {
            privileged: Some(true),
            run_as_user: Some(0),
            run_as_group: Some(0),
            run_as_non_root: Some(false),
            read_only_root_filesystem: Some(true),
            ..SecurityContext::default()
        }),
        volume_mounts: Some(mounts),
        ..common(cluster, disk, name)
    }
}

fn common(cluster: &ValidatedCluster, disk: &SuperDisk, name: &str) -> Container {
    Container {
        name: name.to_owned(),
        image: Some(disk.image.clone()),
        image_pull_policy: cluster.pull_policy.clone(),
        termination_message_path: Some(LAST_WORDS.to_owned()),
        termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
        ..Container::default()
    }
}

#[cfg(test)]
mod tests;
