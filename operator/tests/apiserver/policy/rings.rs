//! The ring: deleted with its cluster alone, written by its cache pods alone.

use kube::{
    Api,
    api::{DeleteParams, ListParams, PostParams},
};
use readstates_operator_api::ReadStateRing;
use serde_json::json;

use super::{GARBAGE_COLLECTOR, allowed, assert_refused, delete, patch, said, with_policies};

#[test]
fn the_ring_of_a_cluster_is_deleted_by_consent_alone() {
    with_policies(1, async |world| {
        let person = || world.client.clone();
        let words = "every cache pod of its ReadStateCluster stops";
        let refused = delete::<ReadStateRing>(person(), world, "chat").await;
        assert_refused(refused, words);
        let rings = world.api::<ReadStateRing>();
        let (deleted, listed) = (DeleteParams::default(), ListParams::default());
        let all = rings.delete_collection(&deleted, &listed);
        assert_refused(said(all.await), words);
        // Not even the operator: it has no use for it.
        let refused = delete::<ReadStateRing>(world.operator(), world, "chat").await;
        assert_refused(refused, words);

        patch::<ReadStateRing>(person(), world, "chat", allowed())
            .await
            .unwrap();
        delete::<ReadStateRing>(person(), world, "chat")
            .await
            .unwrap();
    });
}

#[test]
fn a_ring_goes_with_its_cluster() {
    with_policies(1, async |world| {
        let collector = world.almighty(GARBAGE_COLLECTOR);
        delete::<ReadStateRing>(collector, world, "chat")
            .await
            .unwrap();
    });
}

#[test]
fn a_ring_without_a_cluster_is_anybodys_to_delete() {
    with_policies(1, async |world| {
        let collector = world.almighty(GARBAGE_COLLECTOR);
        let orphaned = json!({ "metadata": { "ownerReferences": null } });
        patch::<ReadStateRing>(collector, world, "chat", orphaned)
            .await
            .unwrap();
        delete::<ReadStateRing>(world.client.clone(), world, "chat")
            .await
            .unwrap();
    });
}

#[test]
fn a_ring_is_written_by_its_own_cache_pods_alone() {
    with_policies(2, async |world| {
        let number = world.get::<ReadStateRing>("chat").await.spec.number;
        let next = json!({ "spec": { "number": number + 1 } });
        let forged = patch::<ReadStateRing>(world.client.clone(), world, "chat", next).await;
        assert_refused(forged, "written by the cache pods of its cluster");
        let stranger = format!("system:serviceaccount:{}:stranger", world.namespace);
        let next = json!({ "spec": { "number": number + 1 } });
        let forged = patch::<ReadStateRing>(world.almighty(&stranger), world, "chat", next).await;
        assert_refused(forged, "written by the cache pods of its cluster");

        let mut ring = world.get::<ReadStateRing>("chat").await;
        ring.spec.number += 1;
        let rings: Api<ReadStateRing> = Api::namespaced(world.account("chat"), &world.namespace);
        let written = rings.replace("chat", &PostParams::default(), &ring).await;
        assert_eq!(written.unwrap().spec.number, number + 1);
    });
}
