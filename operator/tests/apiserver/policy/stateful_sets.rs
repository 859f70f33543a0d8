//! StatefulSets of cache and database: only the operator scales, changes and deletes them.

use k8s_openapi::{api::apps::v1::StatefulSet, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::{
    GARBAGE_COLLECTOR, NAMESPACE_CONTROLLER, allowed, assert_refused, delete, patch, said,
    with_policies,
};
use crate::world::World;

async fn scale(client: Client, world: &World, set: &str, replicas: i32) -> Result<(), String> {
    let sets: Api<StatefulSet> = Api::namespaced(client, &world.namespace);
    let patch = Patch::Merge(json!({ "spec": { "replicas": replicas } }));
    said(sets.patch_scale(set, &PatchParams::default(), &patch).await)
}

async fn by_a_person(world: &World, set: &str, change: Value) -> Result<(), String> {
    patch::<StatefulSet>(world.client.clone(), world, set, change).await
}

/// As `kubectl rollout restart` writes it.
fn restart() -> Value {
    let at = json!({ "kubectl.kubernetes.io/restartedAt": "2026-11-23T03:00:00Z" });
    json!({ "spec": { "template": { "metadata": { "annotations": at } } } })
}

#[test]
fn nobody_but_the_operator_scales_a_cache_stateful_set() {
    with_policies(2, async |world| {
        let words = "use kubectl scale readstatecluster chat";
        assert_refused(scale(world.client.clone(), world, "chat", 5).await, words);
        let none = json!({ "spec": { "replicas": 0 } });
        assert_refused(by_a_person(world, "chat", none).await, words);
        // Taking labels off does not help, and is put back.
        by_a_person(world, "chat", json!({ "metadata": { "labels": null } }))
            .await
            .unwrap();
        assert_refused(scale(world.client.clone(), world, "chat", 5).await, words);
        // Only the spec is guarded; the status is written all the time.
        let note = json!({ "metadata": { "annotations": { "a": "b" } } });
        by_a_person(world, "chat", note).await.unwrap();
        world.settle().await;

        scale(world.operator(), world, "chat", 5).await.unwrap();
        scale(world.operator(), world, "chat", 2).await.unwrap();
    });
}

#[test]
fn nobody_but_the_operator_scales_a_rack() {
    with_policies(1, async |world| {
        let refused = scale(world.client.clone(), world, "chat-db-a", 5).await;
        let words = "change the members of the rack in the ReadStateCluster";
        assert_refused(refused, words);
        let none = json!({ "spec": { "replicas": 0 } });
        let refused = by_a_person(world, "chat-db-a", none).await;
        assert_refused(refused, "has given its data away");
        world.settle().await;

        scale(world.operator(), world, "chat-db-a", 5)
            .await
            .unwrap();
        scale(world.operator(), world, "chat-db-a", 1)
            .await
            .unwrap();
    });
}

#[test]
fn nobody_but_the_operator_restarts_or_changes_pods() {
    with_policies(1, async |world| {
        for (set, why, instead) in [
            (
                "chat",
                "each when it has handed on what it owns",
                "readstates.dev/restart-cache of the ReadStateCluster",
            ),
            (
                "chat-db-a",
                "only while all others are well",
                "readstates.dev/restart-database of the ReadStateCluster",
            ),
        ] {
            let refused = by_a_person(world, set, restart()).await;
            assert_refused(refused.clone(), why);
            assert_refused(refused, instead);
        }
        // Those pods, all at once; the volumes with them.
        let rolling = json!({ "rollingUpdate": { "partition": 0 }, "type": "RollingUpdate" });
        for change in [
            json!({ "updateStrategy": rolling }),
            json!({ "persistentVolumeClaimRetentionPolicy": { "whenScaled": "Delete" } }),
            json!({ "minReadySeconds": 7 }),
        ] {
            let change = json!({ "spec": change });
            let refused = by_a_person(world, "chat", change).await;
            assert_refused(refused, "changed by the Readstates operator alone");
        }
        let partition = json!({ "rollingUpdate": { "partition": 7 } });
        let partition = json!({ "spec": { "updateStrategy": partition } });
        let refused = by_a_person(world, "chat-db-a", partition.clone()).await;
        assert_refused(refused, "changed by the Readstates operator alone");

        let operator = world.operator();
        patch::<StatefulSet>(operator.clone(), world, "chat-db-a", partition)
            .await
            .unwrap();
        patch::<StatefulSet>(operator, world, "chat", restart())
            .await
            .unwrap();
    });
}

#[test]
fn a_stateful_set_of_a_cluster_is_deleted_by_consent_alone() {
    with_policies(1, async |world| {
        let person = || world.client.clone();
        let words = "delete the ReadStateCluster, or allow it";
        for set in ["chat", "chat-db-a"] {
            assert_refused(delete::<StatefulSet>(person(), world, set).await, words);
        }
        let sets = world.api::<StatefulSet>();
        let (deleted, listed) = (DeleteParams::default(), ListParams::default());
        let all = sets.delete_collection(&deleted, &listed);
        assert_refused(said(all.await), words);

        by_a_person(world, "chat", allowed()).await.unwrap();
        delete::<StatefulSet>(person(), world, "chat")
            .await
            .unwrap();
        // As when the cluster or the namespace was deleted.
        let collector = world.almighty(GARBAGE_COLLECTOR);
        delete::<StatefulSet>(collector, world, "chat-db-a")
            .await
            .unwrap();
        let emptied = world.almighty(NAMESPACE_CONTROLLER);
        delete::<StatefulSet>(emptied, world, "chat-db-b")
            .await
            .unwrap();
    });
}

#[test]
fn a_stateful_set_that_outlived_its_cluster_is_anybodys_to_delete() {
    with_policies(1, async |world| {
        let orphaned = json!({ "metadata": { "ownerReferences": null } });
        let collector = world.almighty(GARBAGE_COLLECTOR);
        patch::<StatefulSet>(collector, world, "chat", orphaned)
            .await
            .unwrap();
        delete::<StatefulSet>(world.client.clone(), world, "chat")
            .await
            .unwrap();
    });
}

#[test]
fn stateful_sets_of_others_are_nobodys_business() {
    with_policies(1, async |world| {
        let mut theirs = world.get::<StatefulSet>("chat-db-a").await;
        theirs.metadata = ObjectMeta {
            name: Some("theirs".to_owned()),
            ..ObjectMeta::default()
        };
        let sets = world.api::<StatefulSet>();
        sets.create(&PostParams::default(), &foreign(theirs))
            .await
            .unwrap();
        scale(world.client.clone(), world, "theirs", 3)
            .await
            .unwrap();
        by_a_person(world, "theirs", restart()).await.unwrap();
        delete::<StatefulSet>(world.client.clone(), world, "theirs")
            .await
            .unwrap();
    });
}

/// A StatefulSet like this one of pods that are not of ours.
fn foreign(mut set: StatefulSet) -> StatefulSet {
    let spec = set.spec.as_mut().unwrap();
    let labels = Some([("app".to_owned(), "theirs".to_owned())].into());
    spec.selector.match_labels.clone_from(&labels);
    spec.template.metadata = Some(ObjectMeta {
        labels,
        ..ObjectMeta::default()
    });
    set
}
