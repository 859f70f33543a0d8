//! Leases: cache pods write those of their own ring and no others, and no other client writes them.

use k8s_openapi::{
    api::{
        authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec},
        coordination::v1::Lease,
        core::v1::{Pod, ServiceAccount},
    },
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::{Api, Client, api::PostParams};
use serde_json::{Value, json};

use super::{GARBAGE_COLLECTOR, allowed, assert_refused, delete, patch, said, with_policies};
use crate::world::World;

const OWN: &str = "chat-0-00000000000000aa";
const NOT_THEIRS: &str = "they write no other";

fn lease(name: &str, ring: Option<&str>) -> Lease {
    let mut lease = Lease::default();
    lease.metadata.name = Some(name.to_owned());
    lease.metadata.labels =
        ring.map(|ring| [("readstates.dev/ring".to_owned(), ring.to_owned())].into());
    lease
}

fn owned_by(mut lease: Lease, kind: &str, name: &str) -> Lease {
    lease.metadata.owner_references = Some(vec![OwnerReference {
        api_version: "readstates.dev/v1alpha1".to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
        uid: "7c0f".to_owned(),
        ..OwnerReference::default()
    }]);
    lease
}

async fn create(client: Client, world: &World, lease: Lease) -> Result<(), String> {
    let api: Api<Lease> = Api::namespaced(client, &world.namespace);
    said(api.create(&PostParams::default(), &lease).await)
}

/// As processes do it, which may not patch.
async fn rewrite(client: Client, world: &World, name: &str, change: Value) -> Result<(), String> {
    let mut lease = serde_json::to_value(world.get::<Lease>(name).await).unwrap();
    merge(&mut lease, change);
    let lease: Lease = serde_json::from_value(lease).unwrap();
    let api: Api<Lease> = Api::namespaced(client, &world.namespace);
    said(api.replace(name, &PostParams::default(), &lease).await)
}

fn merge(into: &mut Value, change: Value) {
    let Value::Object(change) = change else {
        *into = change;
        return;
    };
    for (key, value) in change {
        merge(&mut into[&key], value);
    }
}

#[test]
fn cache_pods_write_leases_of_their_own_ring_and_no_others() {
    with_policies(1, async |world| {
        let pods = || world.account("chat");
        let own = owned_by(lease(OWN, Some("chat")), "ReadStateRing", "chat");
        create(pods(), world, own).await.unwrap();
        let renewed = json!({ "spec": { "holderIdentity": "00000000000000aa" } });
        rewrite(pods(), world, OWN, renewed).await.unwrap();

        // Nor as what they could make of their own.
        let other = "chat-0-00000000000000ab";
        for (what, words) in [
            (lease(other, None), NOT_THEIRS),
            (lease(other, Some("chat-2")), NOT_THEIRS),
            (
                lease("chat-2-0-00000000000000ab", Some("chat")),
                "named chat-ORDINAL",
            ),
            (
                lease("readstates-operator", Some("chat")),
                "named chat-ORDINAL",
            ),
            (lease("chat-0-leader", Some("chat")), "named chat-ORDINAL"),
            (
                owned_by(lease(other, Some("chat")), "ReadStateRing", "chat-2"),
                "owned by their ring",
            ),
            (
                owned_by(lease(other, Some("chat")), "Pod", "chat"),
                "owned by their ring",
            ),
        ] {
            assert_refused(create(pods(), world, what).await, words);
        }
        for labels in [json!(null), json!({ "readstates.dev/ring": "chat-2" })] {
            let change = json!({ "metadata": { "labels": labels } });
            let refused = rewrite(pods(), world, OWN, change).await;
            assert_refused(refused, NOT_THEIRS);
        }
        delete::<Lease>(pods(), world, OWN).await.unwrap();
    });
}

#[test]
fn cache_pods_leave_the_leases_of_others_alone() {
    with_policies(1, async |world| {
        let pods = || world.account("chat");
        let person = || world.client.clone();
        let leader = "readstates-operator";
        create(person(), world, lease(leader, None)).await.unwrap();
        patch::<Lease>(person(), world, leader, allowed())
            .await
            .unwrap();
        let neighbour = "chat-2-0-00000000000000ab";
        let neighbours =
            world.almighty(&format!("system:serviceaccount:{}:chat-2", world.namespace));
        create(neighbours.clone(), world, lease(neighbour, Some("chat-2")))
            .await
            .unwrap();
        for theirs in [leader, neighbour] {
            for change in [
                json!({ "spec": { "holderIdentity": "thief" } }),
                json!({ "metadata": { "annotations": { "a": "b" } } }),
                json!({ "metadata": { "labels": { "readstates.dev/ring": "chat" } } }),
            ] {
                let refused = rewrite(pods(), world, theirs, change).await;
                assert_refused(refused, NOT_THEIRS);
            }
            let refused = delete::<Lease>(pods(), world, theirs).await;
            assert_refused(refused, NOT_THEIRS);
        }
        // Another account's own: it writes what it may.
        let change = json!({ "spec": { "holderIdentity": "chat-2-0" } });
        patch::<Lease>(neighbours, world, neighbour, change)
            .await
            .unwrap();
    });
}

#[test]
fn nobody_else_says_that_a_member_lives_or_is_gone() {
    with_policies(1, async |world| {
        let person = || world.client.clone();
        let forged = create(person(), world, lease(OWN, Some("chat"))).await;
        assert_refused(forged, "written by the cache pods of that ring");
        let own = owned_by(lease(OWN, Some("chat")), "ReadStateRing", "chat");
        create(world.account("chat"), world, own).await.unwrap();
        for change in [
            json!({ "spec": { "holderIdentity": "00000000000000bb" } }),
            json!({ "metadata": { "annotations": { "readstates.dev/presence": "{}" } } }),
            json!({ "metadata": { "labels": { "readstates.dev/ring": "chat-2" } } }),
            json!({ "metadata": { "ownerReferences": null } }),
        ] {
            let refused = patch::<Lease>(person(), world, OWN, change).await;
            assert_refused(refused, "and by nobody else");
        }
        let refused = delete::<Lease>(person(), world, OWN).await;
        assert_refused(refused, "and by nobody else");

        // A note, and consent.
        patch::<Lease>(person(), world, OWN, allowed())
            .await
            .unwrap();
        delete::<Lease>(person(), world, OWN).await.unwrap();
        let own = lease(OWN, Some("chat"));
        create(world.account("chat"), world, own).await.unwrap();
        let collector = world.almighty(GARBAGE_COLLECTOR);
        delete::<Lease>(collector, world, OWN).await.unwrap();
    });
}

#[test]
fn who_may_do_everything_keeps_leases_of_its_own() {
    with_policies(1, async |world| {
        let controller = format!("system:serviceaccount:{}:controller", world.namespace);
        let controller = world.almighty(&controller);
        create(controller.clone(), world, lease("controller-leader", None))
            .await
            .unwrap();
        let renewed = json!({ "spec": { "holderIdentity": "controller" } });
        patch::<Lease>(controller.clone(), world, "controller-leader", renewed)
            .await
            .unwrap();
        delete::<Lease>(controller, world, "controller-leader")
            .await
            .unwrap();
    });
}

/// A token as the kubelet asks it for this pod.
async fn token_of(world: &World, pod: &str) -> String {
    let pod = world.get::<Pod>(pod).await;
    let request = TokenRequest {
        spec: Some(TokenRequestSpec {
            audiences: None,
            bound_object_ref: Some(BoundObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Pod".to_owned()),
                name: pod.metadata.name.clone(),
                uid: pod.metadata.uid.clone(),
            }),
            expiration_seconds: Some(600),
        }),
        ..TokenRequest::default()
    };
    let accounts = world.api::<ServiceAccount>();
    let params = PostParams::default();
    let made = accounts.create_token_request("chat", &params, &request);
    made.await.unwrap().status.unwrap().token.unwrap()
}

#[test]
fn a_pod_keeps_its_own_lease_and_not_that_of_another() {
    with_policies(2, async |world| {
        let pod = world.bearer(token_of(world, "chat-0").await);
        create(pod.clone(), world, lease(OWN, Some("chat")))
            .await
            .unwrap();
        let other = lease("chat-1-00000000000000aa", Some("chat"));
        let refused = create(pod.clone(), world, other.clone()).await;
        assert_refused(refused, "not that of another pod");
        create(world.account("chat"), world, other).await.unwrap();
        let renewed = json!({ "spec": { "holderIdentity": "thief" } });
        let refused = rewrite(pod.clone(), world, "chat-1-00000000000000aa", renewed).await;
        assert_refused(refused, "not that of another pod");
        // The Leases of dead pods are deleted by living ones.
        delete::<Lease>(pod, world, "chat-1-00000000000000aa")
            .await
            .unwrap();
        let leases = world.api::<Lease>();
        leases.get(OWN).await.unwrap();
    });
}
