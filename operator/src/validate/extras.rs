//! Containers and volumes that `podTemplate` adds to pods: none takes a name, a port or a path of ours, and none gives
//! the author of a `ReadStateCluster` rights on a node.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, SecurityContext, Volume};
use readstates_agent::engine::Profile;
use readstates_operator_api::{Engine, PodTemplate};
use strum::VariantArray as _;

use super::Checker;

/// Names of our containers.
const CONTAINERS: [&str; 7] = [
    "agent",
    "database",
    "disk",
    "disk-agent",
    "identify",
    "prepare",
    "readstates",
];

/// Names of our volumes.
const VOLUMES: [&str; 17] = [
    "access",
    "api-tls",
    "certificates",
    "config",
    "data",
    "identity",
    "keystore",
    "login",
    "logs",
    "nodes",
    "run",
    "settings",
    "super-disk",
    "super-disk-data",
    "superuser",
    "tmp",
    "volumes",
];

/// And beginnings of names of our volumes, now or later.
const VOLUMES_LIKE: [&str; 2] = ["node-", "readstates-"];

/// Names of our ports: Services and monitors find them by name.
const PORT_NAMES: [&str; 11] = [
    "admin",
    "agent",
    "api",
    "cql",
    "cql-shard-aware",
    "disk",
    "http",
    "internode",
    "members",
    "metrics",
    "watch",
];

/// Our ports, beside those of engines. The containers of a pod share its addresses.
const PORTS: [u16; 9] = [7000, 7400, 7401, 7402, 7403, 7404, 7405, 9042, 9108];

/// Folders of the main container that are ours, beside those of engines: nothing is mounted over, in or above them.
const PATHS: [&str; 5] = [
    "/etc/readstates",
    "/run",
    "/tmp",
    "/var/lib/readstates",
    "/var/run",
];

/// What the `restricted` pod security standard lets a container add.
const CAPABILITY: &str = "NET_BIND_SERVICE";

impl Checker {
    pub(super) fn extras(&mut self, field: &str, overlay: &PodTemplate) {
        let volumes = self.extra_volumes(field, overlay);
        let mut names = BTreeSet::new();
        for (list, containers) in [
            ("containers", &overlay.containers),
            ("initContainers", &overlay.init_containers),
        ] {
            for (at, container) in containers.iter().flatten().enumerate() {
                let field = format!("{field}.{list}[{at}]");
                let name = container.name.as_str();
                if CONTAINERS.contains(&name) {
                    self.wrong(
                        format!("{field}.name"),
                        format!("{name} is a container of the operator: take another name"),
                    );
                } else if !names.insert(name) {
                    self.wrong(format!("{field}.name"), format!("{name} is there twice"));
                }
                self.extra_container(&field, container, &volumes);
            }
        }
        for (at, mount) in overlay.volume_mounts.iter().flatten().enumerate() {
            let field = format!("{field}.volumeMounts[{at}]");
            self.of_theirs(&field, &mount.name, &volumes);
            let path = mount.mount_path.as_str();
            if !path.starts_with('/') {
                let problem = format!("{path:?} is no absolute path");
                self.wrong(format!("{field}.mountPath"), problem);
            } else if let Some(ours) = paths().find(|ours| overlap(ours, path)) {
                self.wrong(
                    format!("{field}.mountPath"),
                    format!("{path} would hide or change {ours}, which the main container needs"),
                );
            }
        }
    }

    /// Names of their volumes.
    fn extra_volumes<'a>(&mut self, field: &str, overlay: &'a PodTemplate) -> BTreeSet<&'a str> {
        let mut names = BTreeSet::new();
        for (at, volume) in overlay.volumes.iter().flatten().enumerate() {
            let field = format!("{field}.volumes[{at}]");
            let Volume {
                name, host_path, ..
            } = volume;
            let like = VOLUMES_LIKE.iter().any(|ours| name.starts_with(ours));
            if like || VOLUMES.contains(&name.as_str()) {
                self.wrong(
                    format!("{field}.name"),
                    format!("{name} is a volume of the operator: take another name"),
                );
            } else if !names.insert(name.as_str()) {
                self.wrong(format!("{field}.name"), format!("{name} is there twice"));
            }
            if host_path.is_some() {
                self.wrong(
                    format!("{field}.hostPath"),
                    "hostPath is not allowed: it would give every author of a ReadStateCluster access to the node",
                );
            }
        }
        names
    }

    fn extra_container(&mut self, field: &str, container: &Container, volumes: &BTreeSet<&str>) {
        let mounts = container.volume_mounts.iter().flatten();
        let devices = container.volume_devices.iter().flatten();
        for (list, at, name) in mounts
            .enumerate()
            .map(|(at, mount)| ("volumeMounts", at, &mount.name))
            .chain(
                devices
                    .enumerate()
                    .map(|(at, device)| ("volumeDevices", at, &device.name)),
            )
        {
            self.of_theirs(&format!("{field}.{list}[{at}]"), name, volumes);
        }
        for (at, port) in container.ports.iter().flatten().enumerate() {
            let field = format!("{field}.ports[{at}]");
            let name = port.name.as_deref().unwrap_or_default();
            if PORT_NAMES.contains(&name) || ports().any(|ours| ours == port.container_port) {
                let what = [name.to_owned(), port.container_port.to_string()];
                let what = what.into_iter().filter(|w| !w.is_empty());
                let what = what.collect::<Vec<_>>().join(" ");
                self.wrong(
                    field,
                    format!(
                        "{what} is taken by the operator's containers: take another name and number"
                    ),
                );
            } else if port.host_port.is_some_and(|port| port != 0) {
                self.wrong(
                    format!("{field}.hostPort"),
                    "ports of nodes are not given to pods",
                );
            }
        }
        if let Some(security) = &container.security_context {
            self.privileges(&format!("{field}.securityContext"), security);
        }
    }

    /// A volume that pods get by `podTemplate.volumes`.
    fn of_theirs(&mut self, field: &str, name: &str, volumes: &BTreeSet<&str>) {
        if !volumes.contains(name) {
            self.wrong(
                format!("{field}.name"),
                format!("{name} is not in podTemplate.volumes: the operator's own volumes are not shared"),
            );
        }
    }

    fn privileges(&mut self, field: &str, security: &SecurityContext) {
        let added = security
            .capabilities
            .iter()
            .flat_map(|c| c.add.iter().flatten());
        let capabilities = added.filter(|added| *added != CAPABILITY).cloned();
        let capabilities = capabilities.collect::<Vec<_>>().join(", ");
        let unmasked = security
            .proc_mount
            .as_deref()
            .is_some_and(|m| m != "Default");
        for (asked, what) in [
            (security.privileged == Some(true), "privileged"),
            (
                security.allow_privilege_escalation == Some(true),
                "allowPrivilegeEscalation",
            ),
            (unmasked, "procMount"),
            (!capabilities.is_empty(), "capabilities.add"),
        ] {
            if asked {
                self.wrong(
                    format!("{field}.{what}"),
                    "containers that are added get no privileges on the node: leave it out, or have a webhook of the \
                     cluster's administrators inject the container",
                );
            }
        }
    }
}

fn profiles() -> impl Iterator<Item = &'static Profile> {
    Engine::VARIANTS.iter().map(|engine| Profile::of(*engine))
}

fn ports() -> impl Iterator<Item = i32> {
    let own = |profile: &'static Profile| profile.ports.iter().chain(&profile.metrics_port);
    let of_engines = profiles().flat_map(own);
    PORTS.iter().chain(of_engines).copied().map(i32::from)
}

/// All folders that are ours, by name, so that a message names the same one each time.
fn paths() -> impl Iterator<Item = &'static str> {
    let of_engines = profiles().flat_map(|profile| profile.folders);
    let paths: BTreeSet<_> = PATHS.iter().chain(of_engines).copied().collect();
    paths.into_iter()
}

/// Whether one is the other or a folder above it.
fn overlap(ours: &str, theirs: &str) -> bool {
    let parts = |path: &str| -> Vec<String> {
        let parts = path
            .split('/')
            .filter(|part| !part.is_empty() && *part != ".");
        parts.map(str::to_owned).collect()
    };
    let (ours, theirs) = (parts(ours), parts(theirs));
    // `..` is refused, not resolved.
    theirs.iter().any(|part| part == "..")
        || ours
            .iter()
            .zip(&theirs)
            .all(|(ours, theirs)| ours == theirs)
}
