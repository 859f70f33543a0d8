//! Containers and volumes that users add to pods, as an API server takes them.

use k8s_openapi::api::core::v1::Pod;
use kube::{
    ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use readstates_operator_api::ReadStateCluster;
use serde_json::{Value, json};

use crate::{
    chat::{change_spec, cluster, running, until_done},
    gate::Gate,
    policy::with_the_charts_rights,
    world::{World, with_world},
};

/// Fields that an API server rewrites, drops where they are empty, and fills in where they are not there.
fn sidecars() -> Value {
    json!({ "podTemplate": {
        "env": [{ "name": "EMPTY", "value": "" }],
        "containers": [{
            "name": "shipper", "image": "shipper:1",
            "env": [
                { "name": "EMPTY", "value": "" },
                { "name": "MEMORY", "valueFrom": { "resourceFieldRef": { "resource": "limits.memory", "divisor": "1024Ki" } } },
            ],
            "ports": [{ "name": "web", "containerPort": 8080 }],
            "readinessProbe": { "httpGet": { "path": "/", "port": "web" } },
            "resources": { "limits": { "cpu": "0.1", "memory": "2048Mi" } },
            "volumeMounts": [{ "name": "spool", "mountPath": "/spool", "readOnly": false }],
        }],
        "initContainers": [{ "name": "first", "image": "first:1", "restartPolicy": "Always" }],
        "volumes": [
            { "name": "spool", "emptyDir": { "sizeLimit": "2048Mi" } },
            { "name": "settings", "configMap": { "name": "shipper", "optional": false } },
        ],
        "volumeMounts": [{ "name": "spool", "mountPath": "/opt/spool" }],
    } })
}

/// What a new process of the operator, which may write nothing, says of the cluster.
async fn without_writes(world: &World) -> Result<(), String> {
    let gate = Gate::open_wide();
    gate.allow(0);
    let operator = world.operator_behind(&gate);
    let reconciled = world.reconcile_by(&operator).await;
    reconciled.map_err(|error| format!("{error:?}"))
}

#[test]
fn a_log_shipper_runs_in_every_pod_and_nothing_is_left_to_write() {
    with_world(async |world| {
        let world = with_the_charts_rights(world).await;
        running(&world, 2).await;
        let mut wanted = sidecars();
        // A name of ours.
        wanted["podTemplate"]["volumes"][1]["name"] = json!("shipper");
        change_spec(&world, json!({ "cache": wanted, "database": wanted })).await;
        until_done(&world).await;
        let pods = world
            .api::<Pod>()
            .list(&ListParams::default())
            .await
            .unwrap();
        assert_eq!(pods.items.len(), 4);
        for pod in pods {
            let spec = pod.spec.as_ref().unwrap();
            let all = spec
                .containers
                .iter()
                .chain(spec.init_containers.iter().flatten());
            let names: Vec<_> = all.map(|c| c.name.as_str()).collect();
            for added in ["shipper", "first"] {
                assert!(names.contains(&added), "{}: {names:?}", pod.name_any());
            }
        }
        without_writes(&world).await.unwrap();

        let clusters = world.api::<ReadStateCluster>();
        let more =
            Patch::Merge(json!({ "spec": { "cache": { "podTemplate": { "containers": null } } } }));
        clusters
            .patch("chat", &PatchParams::default(), &more)
            .await
            .unwrap();
        // There is something to write now, and it is noticed.
        without_writes(&world).await.unwrap_err();
        until_done(&world).await;
        without_writes(&world).await.unwrap();
    });
}

#[test]
fn what_is_wrong_with_a_container_is_told_with_its_field_and_changes_no_pod() {
    with_world(async |world| {
        let world = with_the_charts_rights(world).await;
        running(&world, 1).await;
        let before = world.cache_pods("chat").await;
        change_spec(&world, json!({ "cache": sidecars() })).await;
        let chat = world.reconcile("chat").await;
        let status = serde_json::to_string(&chat.status).unwrap();
        assert!(
            status.contains("spec.cache.podTemplate.volumes[1].name"),
            "{status}"
        );
        assert_eq!(world.cache_pods("chat").await, before);

        // What no validation of ours looks at is the API server's to refuse.
        let mut twice = cluster(1);
        twice["metadata"]["name"] = json!("other");
        let one = json!({ "name": "a", "image": "a:1" });
        twice["spec"]["cache"] = json!({ "podTemplate": { "containers": [one.clone(), one] } });
        match world.create(&twice).await {
            Err(said) => assert!(said.contains("containers"), "{said}"),
            Ok(_) => {
                let other = world.reconcile("other").await;
                let status = serde_json::to_string(&other.status).unwrap();
                assert!(status.contains("a is there twice"), "{status}");
            }
        }
    });
}
