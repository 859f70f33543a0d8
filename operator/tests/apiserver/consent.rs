//! `helm upgrade` of the operator: what it would change of cache pods waits for consent, and nothing else waits.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, Patch, PatchParams};
use readstates_operator_api::{ReadStateCluster, labels};
use serde_json::json;

use crate::{
    chat::{resize, running, until_done},
    world::{World, condition, with_world},
};

async fn images(world: &World) -> BTreeSet<String> {
    let ours = ListParams::default().labels(&format!("{}=cache", labels::COMPONENT));
    let pods = world.api::<Pod>().list(&ours).await.unwrap();
    let specs = pods.items.into_iter().filter_map(|pod| pod.spec);
    let containers = specs.flat_map(|spec| spec.containers);
    containers.filter_map(|container| container.image).collect()
}

#[test]
fn another_operator_replaces_no_cache_pod_until_the_annotation_says_so() {
    with_world(async |mut world| {
        running(&world, 2).await;
        world.upgrade_of_images();
        let chat = until_done(&world).await;
        let words = condition(&chat, "RequiresUpdate");
        assert!(words.starts_with("True UpdateAvailable"), "{words}");
        assert_eq!(images(&world).await, ["readstates:1".to_owned()].into());

        // Everything else goes on, with pods as they are.
        resize(&world, 3).await;
        until_done(&world).await;
        assert_eq!(world.cache_pods("chat").await.len(), 3);
        assert_eq!(images(&world).await, ["readstates:1".to_owned()].into());

        let (_, rest) = words.split_once("readstates.dev/update-cache=").unwrap();
        let name = rest.split_whitespace().next().unwrap();
        let consent = json!({ "metadata": { "annotations": { labels::UPDATE_CACHE: name } } });
        let clusters = world.api::<ReadStateCluster>();
        clusters
            .patch("chat", &PatchParams::default(), &Patch::Merge(consent))
            .await
            .unwrap();
        let chat = until_done(&world).await;
        assert_eq!(images(&world).await, ["readstates:2".to_owned()].into());
        assert!(condition(&chat, "RequiresUpdate").starts_with("False UpToDate"));
    });
}

#[test]
fn the_keyspace_is_on_record_and_a_schema_job_that_fails_later_stops_no_cache() {
    with_world(async |mut world| {
        let chat = running(&world, 2).await;
        let record = chat.status.unwrap().schema.unwrap();
        assert!(
            record.store.starts_with("cql://chat-db."),
            "{}",
            record.store
        );

        world.upgrade_of_images();
        world.reconcile("chat").await;
        world.reconcile("chat").await;
        world.fail_jobs("no host answers").await;
        resize(&world, 3).await;
        for _ in 0..3 {
            world.reconcile("chat").await;
            world.settle().await;
            world.fleet.act().await;
        }
        assert_eq!(world.cache_pods("chat").await.len(), 3);
        let chat = world.reconcile("chat").await;
        assert!(condition(&chat, "Degraded").starts_with("True SchemaFailed"));
    });
}
