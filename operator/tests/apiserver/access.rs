//! The API's callers: what the CRD refuses, what cache pods are told, and what a condition says.

use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::{
    chat,
    world::{World, condition, with_world},
};

const TOKEN: &str = "5f1d2c3b4a59687715243342516070a9b8c7d6e5f4031221";

fn with_callers(callers: Value) -> Value {
    let mut cluster = chat::cluster(1);
    cluster["spec"]["cache"] = json!({ "access": { "callers": callers } });
    cluster
}

fn gateway() -> Value {
    json!({ "name": "gateway", "verbs": ["read", "write"], "tokenSecretRef": { "name": "gateway" } })
}

async fn put_secret(world: &World, data: Value) {
    let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "gateway" }, "stringData": data });
    let params = PatchParams::apply("tests").force();
    let secrets = world.api::<Secret>();
    let patch = Patch::Apply(secret);
    secrets.patch("gateway", &params, &patch).await.unwrap();
}

/// The callers that cache pods are told, and the text of the file.
async fn told(world: &World) -> (Vec<Value>, String) {
    let secret: Secret = world.get("chat-access").await;
    let file = &secret.data.as_ref().unwrap()["access.yaml"];
    let text = String::from_utf8(file.0.clone()).unwrap();
    let value: Value = serde_json::from_str(&text).unwrap();
    (value["callers"].as_array().unwrap().clone(), text)
}

#[test]
fn callers_that_make_no_sense_are_refused() {
    let without = |field: &str| {
        let mut caller = gateway();
        caller.as_object_mut().unwrap().remove(field);
        caller
    };
    let with = |field: &str, value: Value| {
        let mut caller = gateway();
        caller[field] = value;
        caller
    };
    let refusals = [
        (json!([without("verbs")]), "verbs"),
        (json!([without("tokenSecretRef")]), "tokenSecretRef"),
        (json!([with("verbs", json!([]))]), "verbs"),
        (json!([with("verbs", json!(["admin"]))]), "verbs"),
        (json!([with("verbs", json!(["read", "read"]))]), "verbs"),
        (json!([with("name", json!("Gate way"))]), "name"),
        (json!([with("maxConcurrent", json!(0))]), "maxConcurrent"),
        (json!([with("token", json!("secret"))]), "token"),
        (json!([gateway(), gateway()]), "Duplicate value"),
    ];
    with_world(async |world| {
        for (callers, word) in refusals {
            let refused = world.create(&with_callers(callers)).await.unwrap_err();
            assert!(refused.contains(word), "{word}: {refused}");
        }
    });
}

#[test]
fn a_token_becomes_a_hash_for_cache_pods_and_goes_nowhere_else() {
    with_world(async |world| {
        world
            .create(&with_callers(json!([gateway()])))
            .await
            .unwrap();
        let chat = world.reconcile("chat").await;
        let open = condition(&chat, "ApiOpen");
        let refused = "False CallerRefused: gateway is refused: Secret gateway does not exist";
        assert_eq!(open, refused);
        assert_eq!(told(&world).await.0, [] as [Value; 0]);

        put_secret(&world, json!({ "token": TOKEN })).await;
        let chat = world.reconcile("chat").await;
        assert_eq!(
            condition(&chat, "ApiOpen"),
            "False CallersOnly: callers: gateway"
        );
        let (callers, text) = told(&world).await;
        assert_eq!(callers[0]["tokens"].as_array().unwrap().len(), 1);
        assert!(!text.contains(TOKEN));
        let status = serde_json::to_string(&chat.status).unwrap();
        assert!(!status.contains(TOKEN) && !status.contains("sha256"));

        let next = TOKEN.replace('5', "6");
        put_secret(&world, json!({ "token": next, "previous-token": TOKEN })).await;
        world.reconcile("chat").await;
        let both = told(&world).await.0[0]["tokens"].clone();
        assert_eq!(both.as_array().unwrap().len(), 2);
        assert_eq!(both[1], callers[0]["tokens"][0]);
    });
}

#[test]
fn an_api_without_callers_says_that_it_is_open() {
    with_world(async |world| {
        world.create(&chat::cluster(1)).await.unwrap();
        let chat = world.reconcile("chat").await;
        let open = condition(&chat, "ApiOpen");
        assert!(
            open.starts_with("True NoAccessConfigured: every pod of this namespace"),
            "{open}"
        );
        assert!(
            world
                .api::<Secret>()
                .get_opt("chat-access")
                .await
                .unwrap()
                .is_none()
        );
    });
}
