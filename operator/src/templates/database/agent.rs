//! The agent's two containers in a database pod, and what they share with the database's.
//!
//! The first hands on the program, looks at the disk and waits until the database may start. The second stays
//! as long as the database does, and ends after it. With Cassandra it runs in the database's own image,
//! for `nodetool`; the program needs nothing from an image but glibc 2.34 or newer.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{
        ConfigMapVolumeSource, Container, EmptyDirVolumeSource, EnvVar, ResourceRequirements,
        Volume, VolumeMount,
    },
    apimachinery::pkg::api::resource::Quantity,
};
use readstates_agent::engine::Profile;
use readstates_identity::Role;

use super::{Nodes, Place, certificates, super_disk};
use crate::{
    names::{AGENT, ports},
    spec::ValidatedCluster,
    templates::{env, identity, pod},
};

const RUN: &str = "run";
/// Shared by the containers of a pod: the program and the start file.
pub(super) const RUN_PATH: &str = "/run/readstates";
const NODES: &str = "nodes";
const NODES_PATH: &str = "/etc/readstates/nodes";

/// What the agent needs that serves beside a member.
pub(super) struct Needs {
    /// Whether it runs in the database's image, for the engine's own tool.
    pub(super) database_image: bool,
    /// The limit of its memory.
    pub(super) memory: &'static str,
    /// Folders that it writes, by the volume's name.
    pub(super) scratch: &'static [(&'static str, &'static str)],
}

/// Shell that waits for nothing: the start file is there, and the data where it should be, or the container ends.
/// `script` ends with `exec`.
pub(super) fn start_with(place: &Place<'_>, data: &str, script: &str) -> Vec<String> {
    let guard = place.database.super_disk.as_ref();
    let guard = guard.map_or_else(String::new, |_| super_disk::guard(data));
    let script = format!("{guard}. {RUN_PATH}/start || exit 1\n{script}");
    ["/bin/sh", "-c", &script].map(str::to_owned).to_vec()
}

/// What the containers share.
pub(super) fn volumes(cluster: &ValidatedCluster) -> Vec<Volume> {
    let (identity, _) = identity::volume(cluster, Role::Agent);
    vec![
        Volume {
            name: RUN.to_owned(),
            empty_dir: Some(EmptyDirVolumeSource::default()),
            ..Volume::default()
        },
        identity,
        Volume {
            name: NODES.to_owned(),
            config_map: Some(ConfigMapVolumeSource {
                name: cluster.id.nodes(),
                // A pod that finds none waits for the order to start.
                optional: Some(true),
                ..ConfigMapVolumeSource::default()
            }),
            ..Volume::default()
        },
    ]
}

/// Where the database's container finds the start file.
pub(super) fn run_mount() -> VolumeMount {
    VolumeMount {
        read_only: Some(true),
        ..pod::mount(RUN, RUN_PATH)
    }
}

/// The same, writable.
pub(super) fn run_mount_to_write() -> VolumeMount {
    pod::mount(RUN, RUN_PATH)
}

/// Where a container has the data.
pub(super) fn data_mount(engine: &dyn Nodes, place: &Place<'_>) -> VolumeMount {
    match place.database.super_disk {
        Some(_) => super_disk::data_mount(engine.data_path()),
        None => pod::mount(pod::DATA, engine.data_path()),
    }
}

/// The containers before and beside the database, in order.
pub(super) fn containers(
    cluster: &ValidatedCluster,
    engine: &dyn Nodes,
    place: &Place<'_>,
    certificates: Vec<VolumeMount>,
) -> Vec<Container> {
    let peers = cluster.id.database_host();
    let node = format!("{NODES_PATH}/$(POD_NAME)");
    let mut preparing = vec!["--shared", RUN_PATH, "--peers", &peers, "--node", &node];
    if place.database.super_disk.is_some() {
        preparing.push("--super-disk");
    }
    if !certificates.is_empty() {
        preparing.extend(["--certificates", certificates::PATH]);
        preparing.extend(["--keystore", certificates::KEYSTORE_FILE]);
    }
    let prepare = Container {
        args: Some(arguments(place, engine, "prepare", &preparing)),
        image: Some(cluster.agent_image.clone()),
        resources: Some(resources(engine, place, "32Mi", "64Mi")),
        security_context: Some(pod::restricted_container(true)),
        volume_mounts: Some(
            [
                mounts(cluster, engine, place, false),
                vec![VolumeMount {
                    read_only: Some(true),
                    ..pod::mount(NODES, NODES_PATH)
                }],
                certificates,
            ]
            .concat(),
        ),
        ..common(cluster, "prepare")
    };
    let Needs {
        database_image,
        memory,
        scratch,
    } = engine.agent();
    let image = if database_image {
        &place.database.image
    } else {
        &cluster.agent_image
    };
    let mut own_mounts = mounts(cluster, engine, place, true);
    own_mounts.extend(scratch.iter().map(|(name, path)| pod::mount(name, path)));
    let serve = Container {
        command: Some(vec![program()]),
        args: Some(arguments(
            place,
            engine,
            "serve",
            &["--admin", &engine.admin()],
        )),
        image: Some(image.clone()),
        // A sidecar: starts before the database, ends after it.
        restart_policy: Some("Always".to_owned()),
        resources: Some(resources(engine, place, "64Mi", memory)),
        security_context: Some(pod::restricted_container(true)),
        ports: Some(vec![
            pod::port(AGENT, ports::AGENT),
            pod::port(ports::WATCH_NAME, ports::AGENT_WATCH),
        ]),
        volume_mounts: Some(own_mounts),
        ..common(cluster, AGENT)
    };
    vec![prepare, serve]
}

/// What the kubelet runs in the database's container before it stops it.
pub(super) fn drain(place: &Place<'_>, engine: &dyn Nodes) -> Vec<String> {
    let name = Profile::of(place.database.engine).name;
    let admin = engine.admin();
    let arguments = ["agent", "drain", "--engine", name, "--admin", &admin];
    let arguments = arguments.into_iter().map(str::to_owned);
    [program()].into_iter().chain(arguments).collect()
}

/// This program, as the first container has left it for the others.
fn program() -> String {
    format!("{RUN_PATH}/agent")
}

fn common(cluster: &ValidatedCluster, name: &str) -> Container {
    Container {
        name: name.to_owned(),
        image_pull_policy: cluster.pull_policy.clone(),
        env: Some(environment()),
        termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
        ..Container::default()
    }
}

fn environment() -> Vec<EnvVar> {
    vec![
        env::field("POD_NAME", "metadata.name"),
        env::field("POD_UID", "metadata.uid"),
        env::field("POD_IP", "status.podIP"),
    ]
}

fn arguments(place: &Place<'_>, engine: &dyn Nodes, life: &str, more: &[&str]) -> Vec<String> {
    let name = Profile::of(place.database.engine).name;
    let common = [
        "agent",
        life,
        "--engine",
        name,
        "--data",
        engine.data_path(),
        "--identity",
        identity::PATH,
    ];
    common.iter().chain(more).map(|s| (*s).to_owned()).collect()
}

fn mounts(
    cluster: &ValidatedCluster,
    engine: &dyn Nodes,
    place: &Place<'_>,
    read_only_run: bool,
) -> Vec<VolumeMount> {
    let (_, identity) = identity::volume(cluster, Role::Agent);
    vec![
        data_mount(engine, place),
        VolumeMount {
            read_only: Some(read_only_run).filter(|r| *r),
            ..pod::mount(RUN, RUN_PATH)
        },
        identity,
    ]
}

/// What a container beside the database asks for. A pod has CPUs of its own only if all its containers ask for exactly
/// what they may have.
pub(super) fn resources(
    engine: &dyn Nodes,
    place: &Place<'_>,
    request: &str,
    limit: &str,
) -> ResourceRequirements {
    let mut resources = if engine.exclusive(&place.database.resources) {
        exactly(limit)
    } else {
        amounts(request, limit)
    };
    let own = &place.database.agent_resources;
    for (ours, own) in [
        (&mut resources.requests, &own.requests),
        (&mut resources.limits, &own.limits),
    ] {
        let own = own
            .iter()
            .flatten()
            .map(|(name, q)| (name.clone(), q.clone()));
        ours.get_or_insert_default().extend(own);
    }
    resources
}

/// As much as asked for, and no more: a tenth of a CPU is plenty for a program that asks now and then.
fn exactly(memory: &str) -> ResourceRequirements {
    let amounts = [("cpu", "100m"), ("memory", memory)]
        .map(|(name, amount)| (name.to_owned(), Quantity(amount.to_owned())));
    ResourceRequirements {
        requests: Some(BTreeMap::from(amounts.clone())),
        limits: Some(BTreeMap::from(amounts)),
        ..ResourceRequirements::default()
    }
}

fn amounts(request: &str, limit: &str) -> ResourceRequirements {
    let memory = |amount: &str| ("memory".to_owned(), Quantity(amount.to_owned()));
    let cpu = ("cpu".to_owned(), Quantity("10m".to_owned()));
    ResourceRequirements {
        requests: Some(BTreeMap::from([cpu, memory(request)])),
        limits: Some(BTreeMap::from([memory(limit)])),
        ..ResourceRequirements::default()
    }
}
