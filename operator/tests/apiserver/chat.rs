//! The cluster `chat` of these tests, and how it is brought up, resized and looked at.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::StatefulSet;
use kube::{
    ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use readstates_operator_api::{ReadStateCluster, ReadStateRing};
use serde_json::{Value, json};

use crate::{fleet::table_of, world::World};

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
        world.fleet.act().await;
        world.finish_jobs().await;
    }
    world.reconcile("chat").await
}

/// All others act: members, the StatefulSet controller, kubelets.
pub(crate) async fn time_passes(world: &World) {
    world.fleet.act().await;
    world.let_go().await;
    world.settle().await;
    world.finish_jobs().await;
    world.fleet.act().await;
}

/// Reconciles until nothing is waited for.
pub(crate) async fn until_done(world: &World) -> ReadStateCluster {
    for _ in 0..60 {
        let chat = world.reconcile("chat").await;
        if crate::world::waiting(&chat).is_none() {
            return chat;
        }
        Box::pin(time_passes(world)).await;
    }
    let chat = world.reconcile("chat").await;
    panic!("still waiting: {:?}", chat.status.unwrap().waiting_on);
}

pub(crate) async fn resize(world: &World, replicas: i32) {
    let scale = Patch::Merge(json!({ "spec": { "replicas": replicas } }));
    let api = world.api::<ReadStateCluster>();
    api.patch_scale("chat", &PatchParams::default(), &scale)
        .await
        .unwrap();
}

/// Slots by the name of their owner.
pub(crate) async fn owners(world: &World) -> BTreeMap<String, usize> {
    let table = table_of(&world.get::<ReadStateRing>("chat").await);
    let mut owners = BTreeMap::new();
    for (slot, _) in table.configs() {
        let owner = table.owner(slot).unwrap().name().to_owned();
        *owners.entry(owner).or_default() += 1;
    }
    owners
}

pub(crate) async fn replicas(world: &World) -> i32 {
    let set = world.get::<StatefulSet>("chat").await;
    set.spec.unwrap().replicas.unwrap()
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

/// The user changes these fields of `chat`: the operator takes that up, and pods follow.
pub(crate) async fn change_spec(world: &World, spec: Value) {
    let change = Patch::Merge(json!({ "spec": spec }));
    let clusters = world.api::<ReadStateCluster>();
    let params = PatchParams::default();
    clusters.patch("chat", &params, &change).await.unwrap();
    world.reconcile("chat").await;
    world.settle().await;
}
