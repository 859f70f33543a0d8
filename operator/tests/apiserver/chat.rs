//! The cluster `chat` of these tests, and how it is brought up, resized and looked at.

use kube::{
    ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use readstates_operator_api::{ReadStateCluster, ReadStateRing};
use serde_json::{Value, json};

use crate::world::World;

pub(crate) fn cluster(replicas: i32) -> Value {
    json!({
        "apiVersion": "readstates.dev/v1alpha1", "kind": "ReadStateCluster",
        "metadata": { "name": "chat" },
        "spec": { "replicas": replicas, "database": {
            "engine": "Cassandra", "replicationFactor": 1,
            "racks": [{ "name": "a" }, { "name": "b" }],
            "storage": { "size": "10Gi" },
            "resources": { "limits": { "cpu": "0.5", "memory": "2048Mi" } },
        } },
    })
}

/// A cluster that has come up.
pub(crate) async fn running(world: &World, replicas: i32) -> ReadStateCluster {
    world.create(&cluster(replicas)).await.unwrap();
    // Rack a, rack b, the schema Job, the cache, and a look at it.
    for _ in 0..5 {
        world.reconcile("chat").await;
        world.settle().await;
        world.finish_jobs().await;
    }
    world.reconcile("chat").await
}

pub(crate) async fn resize(world: &World, replicas: i32) {
    let scale = Patch::Merge(json!({ "spec": { "replicas": replicas } }));
    let api = world.api::<ReadStateCluster>();
    api.patch_scale("chat", &PatchParams::default(), &scale)
        .await
        .unwrap();
}

pub(crate) async fn ring(world: &World) -> (i64, usize) {
    let spec = world.get::<ReadStateRing>("chat").await.spec;
    (spec.number, spec.members.len())
}

pub(crate) async fn names<K>(world: &World) -> Vec<String>
where
    K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned,
{
    let found = world.api::<K>().list(&ListParams::default()).await.unwrap();
    found.items.iter().map(ResourceExt::name_any).collect()
}
