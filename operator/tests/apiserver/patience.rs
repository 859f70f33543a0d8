//! The controllers as they run, with clusters that would cost the others: one that cannot be read, many at once, and one
//! that fails again and again.

use std::time::Duration;

use k8s_openapi::api::apps::v1::StatefulSet;
use kube::{
    Api,
    api::{ApiResource, DeleteParams, DynamicObject, PostParams},
};
use readstates_operator::{context::Context, gauges::Clusters, run::controller};
use readstates_operator_api::ReadStateCluster;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::{
    chat::cluster,
    faults::Faults,
    gate::Gate,
    haste::hasten,
    world::{World, with_world},
};

/// One cache pod on a volume of its own.
fn embedded(name: &str) -> Value {
    json!({
        "apiVersion": "readstates.dev/v1alpha1", "kind": "ReadStateCluster",
        "metadata": { "name": name },
        "spec": { "replicas": 1, "database": { "embedded": { "storage": { "size": "1Gi" } } } },
    })
}

/// An operator that works on so many clusters at once does so until it is dropped.
async fn operator_of(world: &World, at_once: u16, gate: &Gate) {
    let ctx = Context {
        concurrency: at_once,
        ..Context::clone(&world.operator_behind(gate))
    };
    let never = CancellationToken::new();
    controller(&ctx, &Clusters::default(), Some(&world.namespace), never).await;
}

async fn exists(world: &World, set: &str) -> bool {
    world
        .api::<StatefulSet>()
        .get_opt(set)
        .await
        .unwrap()
        .is_some()
}

#[test]
fn a_cluster_that_the_operator_cannot_read_keeps_no_other_one_from_coming_up() {
    with_world(async |world| {
        // The API server takes any number for a port here; no release of the operator does.
        let mut odd = embedded("odd");
        odd["spec"]["cache"] = json!({ "podTemplate": { "containers": [{
            "name": "beside", "image": "beside", "livenessProbe": { "httpGet": { "port": 99_999_999_999_u64 } },
        }] } });
        let kind = ApiResource::erase::<ReadStateCluster>(&());
        let clusters: Api<DynamicObject> =
            Api::namespaced_with(world.client.clone(), &world.namespace, &kind);
        let odd = serde_json::from_value(odd).unwrap();
        clusters.create(&PostParams::default(), &odd).await.unwrap();
        assert!(world.api::<ReadStateCluster>().get("odd").await.is_err());

        world.create(&embedded("chat")).await.unwrap();
        let comes_up = async {
            while !exists(&world, "chat").await {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        let gate = Gate::open_wide();
        tokio::select! {
            () = operator_of(&world, 32, &gate) => panic!("the operator ended"),
            came = tokio::time::timeout(Duration::from_secs(60), comes_up) => came.unwrap(),
        }
        assert!(!exists(&world, "odd").await);
        clusters
            .delete("odd", &DeleteParams::default())
            .await
            .unwrap();
        assert!(clusters.get_opt("odd").await.unwrap().is_none());
    });
}

#[test]
fn an_operator_works_on_no_more_clusters_at_once_than_it_was_told() {
    with_world(async |world| {
        for name in ["one", "two", "three", "four"] {
            world.create(&embedded(name)).await.unwrap();
        }
        for at_once in [1, 3] {
            let gate = Gate::closed();
            let counts = async {
                while gate.waiting() < usize::from(at_once) {
                    gate.is_reached().await;
                }
                // More would be here by now.
                tokio::time::sleep(Duration::from_secs(2)).await;
                gate.waiting()
            };
            tokio::select! {
                () = operator_of(&world, at_once, &gate) => panic!("the operator ended"),
                count = counts => assert_eq!(count, usize::from(at_once)),
            }
        }
    });
}

#[test]
fn a_cluster_that_cannot_be_looked_at_is_tried_at_growing_distances() {
    with_world(async |world| {
        world.create(&cluster(1)).await.unwrap();
        let gate = Gate::with(Faults::unreadable("/persistentvolumeclaims"));
        let tries = hasten(async {
            tokio::select! {
                () = operator_of(&world, 32, &gate) => panic!("the operator ended"),
                () = tokio::time::sleep(Duration::from_secs(100)) => gate.faults().log().len(),
            }
        });
        let tries = tries.await;
        // After 5, 10, 20 and 40 seconds; without growing distances there would be twenty.
        assert!((2..=8).contains(&tries), "{tries} tries");
    });
}
