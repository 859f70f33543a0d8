//! What processes prove their identity with: created before pods, renewed, replaced in stages, and never taken from
//! another owner.

use std::collections::BTreeMap;

use k8s_openapi::{
    ByteString,
    api::{apps::v1::StatefulSet, core::v1::Secret},
};
use kube::{
    ResourceExt,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use readstates_identity::details;
use readstates_operator_api::ReadStateCluster;
use serde_json::json;

use crate::{
    chat::{cluster, running, until_done},
    world::{World, condition, waiting, with_world},
};

async fn data(world: &World, name: &str) -> BTreeMap<String, ByteString> {
    world.get::<Secret>(name).await.data.unwrap()
}

/// The keys of the authority's Secret.
async fn stage(world: &World) -> String {
    let keys: Vec<_> = data(world, "chat-identity-ca").await.into_keys().collect();
    keys.join(" ")
}

/// Marks of the certificates under a key.
async fn marks(world: &World, secret: &str, key: &str) -> Vec<String> {
    let pem = String::from_utf8(data(world, secret).await[key].0.clone()).unwrap();
    let all = details(&pem).unwrap();
    all.iter()
        .map(|certificate| certificate.mark.to_string())
        .collect()
}

#[test]
fn every_secret_is_there_before_any_pod_and_is_left_alone_while_it_is_good() {
    with_world(async |world| {
        world.create(&cluster(2)).await.unwrap();
        world.reconcile("chat").await;
        let names = [
            "chat-identity-ca",
            "chat-member-tls",
            "chat-operator-tls",
            "chat-agent-tls",
        ];
        let mut versions = Vec::new();
        for name in names {
            let secret: Secret = world.get(name).await;
            assert_eq!(
                secret.owner_references()[0].kind,
                "ReadStateCluster",
                "{name}"
            );
            versions.push(secret.resource_version());
        }
        let chat = world.reconcile("chat").await;
        let mut again = Vec::new();
        for name in names {
            again.push(world.get::<Secret>(name).await.resource_version());
        }
        assert_eq!(versions, again);
        let host = marks(&world, "chat-member-tls", "ca.crt").await;
        assert_eq!(host, marks(&world, "chat-identity-ca", "ca.crt").await);
        let roles: Vec<_> = chat
            .status
            .unwrap()
            .certificates
            .into_iter()
            .map(|c| c.role)
            .collect();
        assert_eq!(roles, ["member", "operator", "agent", "ca"]);
    });
}

#[test]
fn a_secret_of_somebody_else_is_told_of_and_not_overwritten() {
    with_world(async |world| {
        let mut theirs = Secret::default();
        theirs.metadata.name = Some("chat-member-tls".to_owned());
        theirs.string_data = Some([("tls.crt".to_owned(), "theirs".to_owned())].into());
        let secrets = world.api::<Secret>();
        let theirs = secrets
            .create(&PostParams::default(), &theirs)
            .await
            .unwrap();
        world.create(&cluster(2)).await.unwrap();
        world.reconcile("chat").await;
        let chat = world.reconcile("chat").await;
        assert_eq!(waiting(&chat).unwrap(), "NameConflict");
        let words = condition(&chat, "Degraded");
        assert!(
            words.starts_with("True NameConflict: Secret chat-member-tls exists"),
            "{words}"
        );
        let sets = world
            .api::<StatefulSet>()
            .list(&ListParams::default())
            .await
            .unwrap();
        assert_eq!(sets.items.len(), 0);
        let now: Secret = world.get("chat-member-tls").await;
        assert_eq!(now.resource_version(), theirs.resource_version());
    });
}

#[test]
fn an_authority_takes_the_place_of_another_when_every_member_is_ready_for_it() {
    with_world(async |world| {
        let mut chat = cluster(2);
        // Fakes of agents have no certificates to tell of.
        chat["spec"]["database"] = json!({ "external": {
            "contactPoints": ["db"], "localDatacenter": "east", "replicationFactor": 1,
        } });
        world.create(&chat).await.unwrap();
        until_done(&world).await;
        let first = marks(&world, "chat-identity-ca", "ca.crt").await;
        let leaf = marks(&world, "chat-member-tls", "tls.crt").await;
        assert_eq!(stage(&world).await, "ca.crt ca.key");

        let note =
            json!({ "metadata": { "annotations": { "readstates.dev/rotate-identity": "1" } } });
        let clusters = world.api::<ReadStateCluster>();
        let params = PatchParams::default();
        clusters
            .patch("chat", &params, &Patch::Merge(note))
            .await
            .unwrap();
        world.reconcile("chat").await;
        assert_eq!(stage(&world).await, "ca.crt ca.key next.crt next.key");
        let next = marks(&world, "chat-identity-ca", "next.crt").await;
        let chat = world.reconcile("chat").await;
        assert_eq!(waiting(&chat).unwrap(), "IdentityRotating");
        let both = [first.clone(), next.clone()].concat();
        assert_eq!(marks(&world, "chat-member-tls", "ca.crt").await, both);
        assert_eq!(marks(&world, "chat-member-tls", "tls.crt").await, leaf);

        // One of two is not every one.
        world.sync_secrets(&["chat-0"]).await;
        let chat = world.reconcile("chat").await;
        assert_eq!(waiting(&chat).unwrap(), "IdentityRotating");
        world.sync_secrets(&["chat-1"]).await;
        world.reconcile("chat").await;
        assert_eq!(stage(&world).await, "ca.crt ca.key old.crt");
        assert_eq!(marks(&world, "chat-identity-ca", "ca.crt").await, next);

        // The operator shows a certificate of the new one by now, and members one of the old.
        let chat = world.reconcile("chat").await;
        assert_eq!(waiting(&chat).unwrap(), "IdentityRotating");
        assert_ne!(marks(&world, "chat-member-tls", "tls.crt").await, leaf);
        world.sync_secrets(&["chat-0", "chat-1"]).await;
        world.reconcile("chat").await;
        assert_eq!(stage(&world).await, "ca.crt ca.key");
        let chat = until_done(&world).await;
        assert_eq!(marks(&world, "chat-member-tls", "ca.crt").await, next);
        assert!(condition(&chat, "RingStable").starts_with("True"));
        // Once for each wish.
        world.reconcile("chat").await;
        assert_eq!(marks(&world, "chat-identity-ca", "ca.crt").await, next);
    });
}

#[test]
fn secrets_that_are_lost_are_made_again() {
    with_world(async |world| {
        running(&world, 2).await;
        let secrets = world.api::<Secret>();
        secrets
            .delete("chat-operator-tls", &kube::api::DeleteParams::default())
            .await
            .unwrap();
        world.reconcile("chat").await;
        let chat = world.reconcile("chat").await;
        assert!(condition(&chat, "RingStable").starts_with("True"));
        let ca = marks(&world, "chat-identity-ca", "ca.crt").await;
        assert_eq!(marks(&world, "chat-operator-tls", "ca.crt").await, ca);
    });
}
