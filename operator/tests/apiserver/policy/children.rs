//! Objects that protect a cluster: PodDisruptionBudgets, NetworkPolicies and the Secrets that it owns.

use k8s_openapi::api::{
    core::v1::Secret, networking::v1::NetworkPolicy, policy::v1::PodDisruptionBudget,
};
use serde_json::json;

use super::{GARBAGE_COLLECTOR, allowed, assert_refused, delete, patch, with_policies};

#[test]
fn what_protects_a_cluster_is_written_by_the_operator_alone() {
    with_policies(1, async |world| {
        let person = || world.client.clone();
        let words = "written by the Readstates operator alone";
        let loose = json!({ "spec": { "maxUnavailable": 9 } });
        let refused = patch::<PodDisruptionBudget>(person(), world, "chat", loose.clone()).await;
        assert_refused(refused, words);
        let open = json!({ "spec": { "ingress": [{}] } });
        let refused = patch::<NetworkPolicy>(person(), world, "chat", open).await;
        assert_refused(refused, words);
        let forged = json!({ "data": { "tls.key": "Zm9yZ2Vk" } });
        let refused = patch::<Secret>(person(), world, "chat-agent-tls", forged).await;
        assert_refused(refused, words);
        // Annotations are not guarded.
        let note = json!({ "metadata": { "annotations": { "a": "b" } } });
        patch::<PodDisruptionBudget>(person(), world, "chat", note)
            .await
            .unwrap();

        patch::<PodDisruptionBudget>(world.operator(), world, "chat", loose)
            .await
            .unwrap();
    });
}

#[test]
fn what_protects_a_cluster_is_deleted_by_consent_alone() {
    with_policies(1, async |world| {
        let person = || world.client.clone();
        let words = "this object protects a ReadStateCluster";
        let refused = delete::<PodDisruptionBudget>(person(), world, "chat").await;
        assert_refused(refused, words);
        assert_refused(
            delete::<NetworkPolicy>(person(), world, "chat").await,
            words,
        );
        let refused = delete::<Secret>(person(), world, "chat-agent-tls").await;
        assert_refused(refused, words);

        patch::<NetworkPolicy>(person(), world, "chat", allowed())
            .await
            .unwrap();
        delete::<NetworkPolicy>(person(), world, "chat")
            .await
            .unwrap();
        let collector = world.almighty(GARBAGE_COLLECTOR);
        delete::<Secret>(collector, world, "chat-agent-tls")
            .await
            .unwrap();
    });
}

#[test]
fn the_login_of_the_database_is_yours_to_change() {
    with_policies(1, async |world| {
        let other = json!({ "stringData": { "password": "another" } });
        patch::<Secret>(world.client.clone(), world, "chat-db-login", other)
            .await
            .unwrap();
        delete::<Secret>(world.client.clone(), world, "chat-db-login")
            .await
            .unwrap();
    });
}
