//! Volumes that grow with the spec, through an API server that checks what may grow.

use std::collections::BTreeMap;

use k8s_openapi::api::{
    apps::v1::StatefulSet,
    core::v1::{PersistentVolumeClaim, Pod},
    storage::v1::StorageClass,
};
use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use readstates_operator_api::ReadStateCluster;
use serde_json::{Value, json};

use crate::{
    database::{at_rest, goes_on, up, with_members},
    policy::with_the_charts_rights,
    world::{World, condition, waiting, with_world},
};

const CLAIMS: [&str; 3] = ["data-chat-db-a-0", "data-chat-db-b-0", "data-chat-db-b-1"];

/// One rack of one node and one of two, on volumes of a class that expands them or does not.
fn sized(size: &str, class: &str) -> Value {
    let mut cluster = with_members(1, 2);
    cluster["spec"]["database"]["storage"] = json!({ "size": size, "storageClassName": class });
    cluster
}

/// A cluster on volumes of 10Gi, of a class of that name.
async fn up_on(world: &World, class: &str, expands: bool) {
    let classes: Api<StorageClass> = Api::all(world.client.clone());
    let wish = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": { "name": class }, "provisioner": "readstates.dev/none", "allowVolumeExpansion": expands,
    });
    let params = PatchParams::apply("test").force();
    classes
        .patch(class, &params, &Patch::Apply(&wish))
        .await
        .unwrap();
    up(world, &sized("10Gi", class)).await;
    for name in CLAIMS {
        has(world, name, "10Gi").await;
    }
}

/// The driver has made the volume of a claim this large.
async fn has(world: &World, claim: &str, size: &str) {
    let status = json!({ "status": { "phase": "Bound", "capacity": { "storage": size } } });
    world
        .api::<PersistentVolumeClaim>()
        .patch_status(claim, &PatchParams::default(), &Patch::Merge(&status))
        .await
        .unwrap();
}

async fn requested(world: &World) -> BTreeMap<String, String> {
    let claims = world.api::<PersistentVolumeClaim>();
    let claims = claims.list(&ListParams::default()).await.unwrap();
    let sizes = claims.iter().map(|claim| {
        let resources = claim.spec.as_ref().unwrap().resources.as_ref().unwrap();
        let size = resources.requests.as_ref().unwrap()["storage"].0.clone();
        (claim.name_any(), size)
    });
    sizes.collect()
}

async fn pods(world: &World) -> BTreeMap<String, Option<String>> {
    let pods = world
        .api::<Pod>()
        .list(&ListParams::default())
        .await
        .unwrap();
    pods.iter().map(|pod| (pod.name_any(), pod.uid())).collect()
}

/// What the status says until nothing is left to do, or for some rounds.
async fn some_rounds(world: &World) -> ReadStateCluster {
    for _ in 0..6 {
        world.reconcile("chat").await;
        goes_on(world).await;
    }
    world.reconcile("chat").await
}

#[test]
fn a_larger_size_grows_every_volume_and_restarts_no_pod() {
    with_world(async |world| {
        let world = with_the_charts_rights(world).await;
        Box::pin(up_on(&world, "grows", true)).await;
        let before = pods(&world).await;

        world.replace(sized("20Gi", "grows")).await.unwrap();
        let chat = some_rounds(&world).await;
        assert_eq!(waiting(&chat).unwrap(), "VolumeGrowing");
        let words = condition(&chat, "Progressing");
        assert!(
            words.contains(
                "the volume of data-chat-db-a-0 grows to 20Gi; 2 more grow or have yet to"
            ),
            "{words}"
        );
        let asked = requested(&world).await;
        assert_eq!(
            asked,
            CLAIMS
                .map(|name| (name.to_owned(), "20Gi".to_owned()))
                .into()
        );

        has(&world, CLAIMS[0], "20Gi").await;
        has(&world, CLAIMS[1], "20Gi").await;
        let chat = some_rounds(&world).await;
        let words = condition(&chat, "Progressing");
        assert!(
            words.contains("the volume of data-chat-db-b-1 grows to 20Gi"),
            "{words}"
        );
        has(&world, CLAIMS[2], "20Gi").await;
        at_rest(&world).await;

        assert_eq!(pods(&world).await, before);
        let set = world.get::<StatefulSet>("chat-db-a").await.spec.unwrap();
        let template = serde_json::to_value(&set.volume_claim_templates.unwrap()[0]).unwrap();
        assert_eq!(template["spec"]["resources"]["requests"]["storage"], "10Gi");
        let refused = world.replace(sized("10Gi", "grows")).await.unwrap_err();
        assert!(refused.to_string().contains("cannot shrink"), "{refused}");
    });
}

#[test]
fn a_volume_that_cannot_grow_is_told_and_stops_nothing() {
    with_world(async |world| {
        Box::pin(up_on(&world, "stays", false)).await;
        let mut larger = sized("20Gi", "stays");
        world.replace(larger.clone()).await.unwrap();
        let chat = some_rounds(&world).await;
        let words = condition(&chat, "Degraded");
        assert!(words.starts_with("True VolumeNotGrown"), "{words}");
        assert!(
            words.contains("data-chat-db-a-0 cannot grow to 20Gi"),
            "{words}"
        );
        assert!(words.contains("allowVolumeExpansion: true"), "{words}");
        // The rest goes on.
        larger["spec"]["replicas"] = json!(2);
        world.replace(larger).await.unwrap();
        let chat = some_rounds(&world).await;
        assert_eq!(chat.status.as_ref().unwrap().cache, "2/2");
        assert!(requested(&world).await.values().all(|size| size == "10Gi"));
    });
}
