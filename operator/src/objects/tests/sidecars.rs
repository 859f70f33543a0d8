//! Containers and volumes that `podTemplate` adds.

use k8s_openapi::api::core::v1::{PodTemplateSpec, Volume, VolumeMount};
use serde_json::json;

use super::{Object, SCYLLA, all, name, overlay::with_overlays};
use crate::fixtures::{CASSANDRA, EMBEDDED, EXTERNAL, cluster, try_cluster, with_tls};

const SIDECARS: &str = "{
  containers: [{ name: shipper, image: shipper:1, resources: { requests: { memory: 2048Mi } },
    volumeMounts: [{ name: spool, mountPath: /spool }] }],
  initContainers: [{ name: fetch, image: fetch:1, securityContext: { runAsUser: 7 } }],
  volumes: [{ name: spool, emptyDir: { sizeLimit: 1Gi } }],
  volumeMounts: [{ name: spool, mountPath: /opt/spool }] }";

/// Pods of all kinds.
fn templates() -> Vec<PodTemplateSpec> {
    let disk = "database:\n  superDisk: { localDevices: [/dev/nvme9n1] }\n";
    let guarded = "cache: { tls: { secretName: api }, access: { clientCa: { configMapName: c }, callers: \
                   [{ name: g, verbs: [read], tokenSecretRef: { name: g } }] } }\n";
    let specs = [
        CASSANDRA.to_owned(),
        with_tls(CASSANDRA),
        CASSANDRA.replace("database:\n", disk),
        format!("{guarded}{}", CASSANDRA.trim_start()),
        SCYLLA.to_owned(),
        with_tls(SCYLLA),
        SCYLLA.replace("database:\n", disk),
        EMBEDDED.to_owned(),
        EXTERNAL.to_owned(),
    ];
    let objects = specs.iter().flat_map(|spec| all(&cluster(spec)));
    let templates = objects.filter_map(|object| match object {
        Object::StatefulSet(set) => Some(set.spec.unwrap().template),
        _ => None,
    });
    templates.collect()
}

/// What is wrong with pods to which this is added.
fn refused(overlay: &str) -> String {
    let spec = format!(
        "{{ replicas: 1, database: {{ embedded: {{}} }}, cache: {{ podTemplate: {overlay} }} }}"
    );
    try_cluster(&spec).map_or_else(|problem| problem.to_string(), |_| "nothing".to_owned())
}

#[track_caller]
fn assert_refused(overlay: &str, field: &str) {
    let said = refused(overlay);
    assert!(
        said.contains(&format!("spec.cache.podTemplate.{field}")),
        "{overlay}: {said}"
    );
}

#[test]
fn containers_are_added_beside_ours_and_run_without_privileges() {
    for set in ["StatefulSet chat", "StatefulSet chat-db-b"] {
        let (before, after) = (
            template(CASSANDRA, set),
            template(&with_overlays(SIDECARS), set),
        );
        let (ours, pod) = (before.spec.unwrap(), after.spec.unwrap());
        let names: Vec<_> = pod.containers.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, [ours.containers[0].name.as_str(), "shipper"]);
        let security = serde_json::to_value(&pod.containers[1].security_context).unwrap();
        assert_eq!(security["allowPrivilegeEscalation"], false);
        assert_eq!(security["capabilities"], json!({ "drop": ["ALL"] }));
        // Ours come first: they put the disk together.
        let first = |pod: &k8s_openapi::api::core::v1::PodSpec| {
            pod.init_containers.clone().unwrap_or_default()
        };
        let (first_before, first_after) = (first(&ours), first(&pod));
        assert_eq!(first_after[..first_before.len()], first_before);
        let last = serde_json::to_value(first_after.last().unwrap()).unwrap();
        assert_eq!(last["name"], "fetch");
        assert_eq!(last["securityContext"], json!({ "runAsUser": 7 }));
        assert_eq!(pod.volumes.unwrap().last().unwrap().name, "spool");
        let mounts = pod.containers[0].volume_mounts.clone().unwrap();
        assert_eq!(mounts.last().unwrap().mount_path, "/opt/spool");
        let annotations = after.metadata.unwrap().annotations.unwrap();
        let main = &annotations["kubectl.kubernetes.io/default-container"];
        assert_eq!(*main, ours.containers[0].name);
    }
}

#[test]
fn more_memory_for_a_container_of_the_users_replaces_cache_pods() {
    let hash = |spec: &str| {
        let annotations = template(spec, "StatefulSet chat")
            .metadata
            .unwrap()
            .annotations;
        annotations.unwrap()["readstates.dev/replace-hash"].clone()
    };
    let (small, large) = (
        with_overlays(SIDECARS),
        with_overlays(&SIDECARS.replace("2048Mi", "4Gi")),
    );
    assert_ne!(hash(&small), hash(&large));
}

#[test]
fn every_container_volume_port_and_path_of_ours_is_refused_to_others() {
    let templates = templates();
    // Of every kind is one there: the sweep is not empty.
    let all_names: Vec<_> = templates.iter().flat_map(container_names).collect();
    for container in [
        "readstates",
        "database",
        "agent",
        "prepare",
        "disk",
        "disk-agent",
        "identify",
    ] {
        assert!(
            all_names.iter().any(|n| n == container),
            "no pod has {container}"
        );
    }
    for name in all_names {
        let added = format!("{{ containers: [{{ name: {name} }}] }}");
        assert_refused(&added, "containers[0].name");
        let first = format!("{{ initContainers: [{{ name: {name} }}] }}");
        assert_refused(&first, "initContainers[0].name");
    }
    for pod in templates.into_iter().map(|t| t.spec.unwrap()) {
        let claimed = Volume {
            name: "data".to_owned(),
            ..Volume::default()
        };
        for Volume { name, .. } in pod.volumes.iter().flatten().chain([&claimed]) {
            assert_refused(
                &format!("{{ volumes: [{{ name: {name}, emptyDir: {{}} }}] }}"),
                "volumes[0].name",
            );
        }
        for VolumeMount {
            mount_path: path, ..
        } in pod.containers[0].volume_mounts.iter().flatten()
        {
            for path in [
                path.clone(),
                format!("{path}/deeper"),
                format!("/x/..{path}"),
                "/".to_owned(),
            ] {
                let added = format!(
                    "{{ volumes: [{{ name: v, emptyDir: {{}} }}], volumeMounts: [{{ name: v, mountPath: {path} }}] }}"
                );
                assert_refused(&added, "volumeMounts[0].mountPath");
            }
        }
        let containers = pod
            .containers
            .iter()
            .chain(pod.init_containers.iter().flatten());
        for port in containers.flat_map(|c| c.ports.iter().flatten()) {
            let name = port.name.as_ref().unwrap();
            for port in [
                format!("containerPort: {}", port.container_port),
                format!("containerPort: 1, name: {name}"),
            ] {
                let added = format!("{{ containers: [{{ name: c, ports: [{{ {port} }}] }}] }}");
                assert_refused(&added, "containers[0].ports[0]");
            }
        }
    }
}

#[test]
fn what_would_give_a_user_the_node_or_our_volumes_is_refused() {
    for (overlay, field) in [
        (
            "{ volumes: [{ name: v, hostPath: { path: / } }] }",
            "volumes[0].hostPath",
        ),
        ("{ volumes: [{ name: v }, { name: v }] }", "volumes[1].name"),
        (
            "{ containers: [{ name: c }], initContainers: [{ name: c }] }",
            "initContainers[0].name",
        ),
        (
            "{ containers: [{ name: c, securityContext: { privileged: true } }] }",
            "containers[0].securityContext.privileged",
        ),
        (
            "{ initContainers: [{ name: c, securityContext: { allowPrivilegeEscalation: true } }] }",
            "initContainers[0].securityContext.allowPrivilegeEscalation",
        ),
        (
            "{ containers: [{ name: c, securityContext: { capabilities: { add: [SYS_ADMIN] } } }] }",
            "containers[0].securityContext.capabilities.add",
        ),
        (
            "{ containers: [{ name: c, securityContext: { procMount: Unmasked } }] }",
            "containers[0].securityContext.procMount",
        ),
        (
            "{ containers: [{ name: c, ports: [{ containerPort: 80, hostPort: 80 }] }] }",
            "containers[0].ports[0].hostPort",
        ),
        (
            "{ containers: [{ name: c, volumeMounts: [{ name: identity, mountPath: /x }] }] }",
            "containers[0].volumeMounts[0].name",
        ),
        (
            "{ containers: [{ name: c, volumeDevices: [{ name: data, devicePath: /x }] }] }",
            "containers[0].volumeDevices[0].name",
        ),
        (
            "{ volumeMounts: [{ name: v, mountPath: /x }] }",
            "volumeMounts[0].name",
        ),
        (
            "{ volumes: [{ name: v }], volumeMounts: [{ name: v, mountPath: x }] }",
            "volumeMounts[0].mountPath",
        ),
    ] {
        assert_refused(overlay, field);
    }
    assert_eq!(
        refused(
            "{ containers: [{ name: c, ports: [{ containerPort: 8080, name: web }], \
             securityContext: { capabilities: { add: [NET_BIND_SERVICE] }, privileged: false } }] }"
        ),
        "nothing"
    );
}

fn container_names(template: &PodTemplateSpec) -> Vec<String> {
    let pod = template.spec.as_ref().unwrap();
    let all = pod
        .containers
        .iter()
        .chain(pod.init_containers.iter().flatten());
    all.map(|c| c.name.clone()).collect()
}

fn template(spec: &str, wanted: &str) -> PodTemplateSpec {
    let mut objects = all(&cluster(spec)).into_iter();
    match objects.find(|object| name(object) == wanted).unwrap() {
        Object::StatefulSet(set) => set.spec.unwrap().template,
        other => panic!("{other:?}"),
    }
}
