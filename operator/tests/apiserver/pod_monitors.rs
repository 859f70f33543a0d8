//! `monitoring`: PodMonitors where Kubernetes knows that kind, and no error where it does not.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
    runtime::{
        conditions::{is_crd_established, is_deleted},
        wait::await_condition,
    },
};
use readstates_operator::pod_monitor::PodMonitor;
use readstates_operator_api::ReadStateCluster;
use serde_json::{Value, json};

use crate::{
    chat::{cluster, running},
    policy::with_the_charts_rights,
    world::{World, with_world},
};

const KIND: &str = "podmonitors.monitoring.coreos.com";

/// A PodMonitor as far as these tests go.
fn kind_of_prometheus() -> CustomResourceDefinition {
    let anything = json!({ "openAPIV3Schema": {
        "type": "object", "x-kubernetes-preserve-unknown-fields": true,
    } });
    let version = json!({ "name": "v1", "served": true, "storage": true, "schema": anything });
    serde_json::from_value(json!({
        "metadata": { "name": KIND },
        "spec": {
            "group": "monitoring.coreos.com", "scope": "Namespaced", "versions": [version],
            "names": { "kind": "PodMonitor", "plural": "podmonitors", "singular": "podmonitor" },
        },
    }))
    .unwrap()
}

async fn forget_the_kind(crds: &Api<CustomResourceDefinition>) {
    if let Some(old) = crds.get_opt(KIND).await.unwrap() {
        crds.delete(KIND, &DeleteParams::default()).await.unwrap();
        let uid = old.uid().unwrap();
        await_condition(crds.clone(), KIND, is_deleted(&uid))
            .await
            .unwrap();
    }
}

async fn ask(world: &World, monitoring: Value) -> Option<String> {
    let change = Patch::Merge(json!({ "spec": { "monitoring": monitoring } }));
    let clusters = world.api::<ReadStateCluster>();
    let params = PatchParams::default();
    clusters.patch("chat", &params, &change).await.unwrap();
    monitored(world).await
}

async fn monitored(world: &World) -> Option<String> {
    world.reconcile("chat").await.status.unwrap().monitoring
}

#[test]
fn pods_are_monitored_once_there_is_such_a_kind_and_no_more_when_nobody_asks() {
    with_world(async |world| {
        let crds: Api<CustomResourceDefinition> = Api::all(world.client.clone());
        forget_the_kind(&crds).await;
        let world = with_the_charts_rights(world).await;
        running(&world, 1).await;
        assert_eq!(monitored(&world).await, None);
        let wanted = json!({ "podMonitorLabels": { "release": "prometheus" } });
        let said = ask(&world, wanted).await.unwrap();
        assert!(said.contains("does not know the kind"), "{said}");

        let params = PostParams::default();
        crds.create(&params, &kind_of_prometheus()).await.unwrap();
        await_condition(crds.clone(), KIND, is_crd_established())
            .await
            .unwrap();
        // Established a moment before it is served everywhere, and a while before on a busy machine: nothing tells.
        let mut said = monitored(&world).await;
        for _ in 0..600 {
            if said.as_deref() == Some("PodMonitors: 2") {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            said = monitored(&world).await;
        }
        assert_eq!(said.as_deref(), Some("PodMonitors: 2"));
        for name in ["chat", "chat-db"] {
            let made: PodMonitor = world.get(name).await;
            assert_eq!(made.labels()["release"], "prometheus");
        }

        assert_eq!(ask(&world, Value::Null).await, None);
        for name in ["chat", "chat-db"] {
            let left = world.api::<PodMonitor>().get_opt(name).await.unwrap();
            assert_eq!(left, None);
        }
        forget_the_kind(&crds).await;
    });
}

#[test]
fn an_interval_that_is_none_is_refused() {
    with_world(async |world| {
        for interval in ["700m", "0s", "often"] {
            let mut chat = cluster(1);
            chat["spec"]["monitoring"] = json!({ "interval": interval });
            let said = world.create(&chat).await.unwrap_err();
            assert!(said.contains("monitoring.interval"), "{interval}: {said}");
        }
    });
}
