//! Callers with service accounts and certificates, and TLS on the API: waited for, followed, given no more rights than
//! needed, and no pod restarted for it.

use k8s_openapi::api::{
    apps::v1::StatefulSet,
    authorization::v1::SubjectAccessReview,
    core::v1::{ConfigMap, Pod, Secret},
    rbac::v1::ClusterRoleBinding,
};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use readstates_operator::reviews::take_back;
use readstates_operator_api::ReadStateCluster;
use serde_json::{Value, json};

use crate::{
    certificates::{made, put},
    chat::{cluster, names, time_passes, until_done},
    policy::{OPERATOR, TOKEN_REVIEW, with_token_reviews},
    world::{World, condition, waiting, with_world},
};

const TOKEN: &str = "5f1d2c3b4a59687715243342516070a9b8c7d6e5f4031221";

fn with_cache(cache: Value) -> Value {
    let mut chat = cluster(2);
    chat["spec"]["cache"] = cache;
    chat
}

fn callers(callers: Value) -> Value {
    with_cache(json!({ "access": { "callers": callers } }))
}

fn gateway() -> Value {
    json!({ "name": "gateway", "verbs": ["read"], "tokenSecretRef": { "name": "gateway" } })
}

fn by_certificate() -> Value {
    json!({ "name": "edge", "verbs": ["read"], "certificates": ["edge.talk.example"] })
}

fn by_service_account() -> Value {
    json!({ "name": "cron", "verbs": ["delete"], "serviceAccounts": [{ "name": "cron" }] })
}

/// A certificate of the API that can be used.
fn good(world: &World) -> Value {
    let ns = &world.namespace;
    made(&[
        &format!("chat.{ns}.svc"),
        &format!("*.chat-members.{ns}.svc"),
    ])
}

/// The Secret for cache pods.
async fn given(world: &World) -> (Value, Option<String>) {
    let data = world.get::<Secret>("chat-access").await.data.unwrap();
    let client_ca = data.get("client-ca.crt");
    let client_ca = client_ca.map(|pem| String::from_utf8(pem.0.clone()).unwrap());
    let file: Value = serde_json::from_slice(&data["access.yaml"].0).unwrap();
    (file["callers"].clone(), client_ca)
}

async fn uids(world: &World) -> Vec<Option<String>> {
    let mut uids = Vec::new();
    for name in ["chat-0", "chat-1"] {
        uids.push(world.get::<Pod>(name).await.metadata.uid);
    }
    uids
}

async fn generation(world: &World) -> Option<i64> {
    world.get::<StatefulSet>("chat").await.metadata.generation
}

/// The environment of cache pods.
async fn told(world: &World) -> Vec<String> {
    let set = world.get::<StatefulSet>("chat").await;
    let pod = set.spec.unwrap().template.spec.unwrap();
    let env = pod.containers[0].env.clone().unwrap();
    let text = |v: k8s_openapi::api::core::v1::EnvVar| {
        format!("{}={}", v.name, v.value.unwrap_or_default())
    };
    env.into_iter().map(text).collect()
}

#[test]
fn callers_and_certificates_that_make_no_sense_are_refused() {
    let with = |caller: Value, field: &str, value: Value| {
        let mut caller = caller;
        caller[field] = value;
        caller
    };
    let ca = json!({ "configMapName": "clients" });
    let refusals = [
        (
            callers(json!([{ "name": "nobody", "verbs": ["read"] }])),
            "set tokenSecretRef, serviceAccounts or certificates",
        ),
        (callers(json!([by_certificate()])), "need clientCa"),
        (
            with_cache(json!({ "access": { "clientCa": ca, "callers": [by_certificate()] } })),
            "access.clientCa needs tls",
        ),
        (
            with_cache(json!({ "tls": { "secretName": "api" }, "access": {
                "clientCa": { "configMapName": "a", "secretName": "b" },
            } })),
            "exactly one of secretName and configMapName",
        ),
        (
            with_cache(json!({ "tls": {} })),
            "exactly one of secretName and issuerRef",
        ),
        (
            callers(json!([with(
                by_certificate(),
                "certificates",
                json!(["CN=edge"])
            )])),
            "certificates",
        ),
        (
            callers(json!([with(
                by_certificate(),
                "certificates",
                json!(["a.b", "a.b"])
            )])),
            "certificates",
        ),
        (
            callers(json!([with(by_certificate(), "certificates", json!([]))])),
            "certificates",
        ),
        (
            callers(json!([with(
                by_service_account(),
                "serviceAccounts",
                json!([{ "name": "Cron" }])
            )])),
            "serviceAccounts",
        ),
        (
            callers(json!([with(
                by_service_account(),
                "serviceAccounts",
                json!(["talk/cron"])
            )])),
            "serviceAccounts",
        ),
    ];
    with_world(async |world| {
        for (chat, word) in refusals {
            let refused = world.create(&chat).await.unwrap_err();
            assert!(refused.contains(word), "{word}: {refused}");
        }
    });
}

#[test]
fn an_api_with_tls_waits_for_a_certificate_that_can_be_used() {
    with_world(async |world| {
        let chat = with_cache(json!({ "tls": { "secretName": "api" } }));
        world.create(&chat).await.unwrap();
        // All but the cache comes up.
        let mut chat = world.reconcile("chat").await;
        assert_eq!(waiting(&chat).unwrap(), "SecretMissing");
        for _ in 0..4 {
            time_passes(&world).await;
            chat = world.reconcile("chat").await;
        }
        assert_eq!(waiting(&chat).unwrap(), "SecretMissing");
        assert!(condition(&chat, "Progressing").contains("Secret api does not exist"));
        assert!(
            !names::<StatefulSet>(&world)
                .await
                .contains(&"chat".to_owned())
        );

        let service = format!("chat.{}.svc", world.namespace);
        put(&world, "api", &made(&[&service])).await;
        let chat = world.reconcile("chat").await;
        let words = condition(&chat, "Degraded");
        assert!(words.starts_with("True CertificateInvalid: Secret api: tls.crt is for ["));
        let wanted = format!("have *.chat-members.{}.svc put into it", world.namespace);
        assert!(words.contains(&wanted), "{words}");

        put(&world, "api", &good(&world)).await;
        let chat = until_done(&world).await;
        assert!(condition(&chat, "Available").starts_with("True"));
        assert!(condition(&chat, "Degraded").starts_with("False"));
        let told = told(&world).await;
        let file = "READSTATES_TLS_CERT_FILE=/etc/readstates/api-tls/tls.crt";
        assert!(told.iter().any(|e| e == file), "{told:#?}");
        let advertised = told.iter().find(|e| e.starts_with("READSTATES_ADVERTISE="));
        assert!(advertised.unwrap().contains("=https://"), "{advertised:?}");
        let roles = chat.status.unwrap().certificates;
        assert!(roles.iter().any(|entry| entry.role == "api"));
    });
}

#[test]
fn another_certificate_of_the_api_and_its_loss_restart_no_pod() {
    with_world(async |world| {
        put(&world, "api", &good(&world)).await;
        let chat = with_cache(json!({ "tls": { "secretName": "api" } }));
        world.create(&chat).await.unwrap();
        until_done(&world).await;
        let (pods, written) = (uids(&world).await, generation(&world).await);

        put(&world, "api", &good(&world)).await;
        until_done(&world).await;
        let mut mixed = good(&world);
        mixed["tls.key"] = good(&world)["tls.key"].clone();
        put(&world, "api", &mixed).await;
        let chat = world.reconcile("chat").await;
        assert!(condition(&chat, "Degraded").contains("tls.key is not the key of tls.crt"));
        time_passes(&world).await;
        let gone = DeleteParams::default();
        world.api::<Secret>().delete("api", &gone).await.unwrap();
        let chat = world.reconcile("chat").await;
        assert_eq!(waiting(&chat).unwrap(), "SecretMissing");
        assert!(condition(&chat, "Available").starts_with("True"));
        time_passes(&world).await;
        put(&world, "api", &good(&world)).await;
        until_done(&world).await;
        assert_eq!(
            (uids(&world).await, generation(&world).await),
            (pods, written)
        );
    });
}

async fn put_cas(world: &World, pem: &Value) {
    let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "clients" }, "data": { "ca.crt": pem } });
    let params = PatchParams::apply("tests").force();
    let maps = world.api::<ConfigMap>();
    maps.patch("clients", &params, &Patch::Apply(map))
        .await
        .unwrap();
}

#[test]
fn certificates_count_while_their_cas_are_there_and_keep_nobody_else_out() {
    with_world(async |world| {
        put(&world, "api", &good(&world)).await;
        put(&world, "gateway", &json!({ "token": TOKEN })).await;
        let chat = with_cache(json!({
            "tls": { "secretName": "api" },
            "access": {
                "clientCa": { "configMapName": "clients" },
                "callers": [gateway(), by_certificate()],
            },
        }));
        world.create(&chat).await.unwrap();
        let chat = until_done(&world).await;
        assert_eq!(
            condition(&chat, "ApiOpen"),
            "False CallerRefused: edge is refused: ConfigMap clients does not exist"
        );
        let (callers, client_ca) = given(&world).await;
        assert_eq!((callers.as_array().unwrap().len(), client_ca), (1, None));
        let first = uids(&world).await;

        // Pods that do not ask for certificates are replaced by such that do.
        put_cas(&world, &json!("x")).await;
        let chat = world.reconcile("chat").await;
        let words = condition(&chat, "ApiOpen");
        assert!(words.contains("ConfigMap clients: ca.crt holds no certificate"));
        let ca = made(&[])["ca.crt"].clone();
        put_cas(&world, &ca).await;
        let chat = until_done(&world).await;
        assert_eq!(
            condition(&chat, "ApiOpen"),
            "False CallersOnly: callers: gateway, edge"
        );
        let (callers, client_ca) = given(&world).await;
        assert_eq!(callers[1]["certificates"], json!(["edge.talk.example"]));
        assert_eq!(client_ca.as_deref(), ca.as_str());
        let second = uids(&world).await;
        assert!(first.iter().all(|uid| !second.contains(uid)));
        let written = generation(&world).await;

        // Others count, and those that are gone do not; pods stay.
        let other = made(&[])["ca.crt"].clone();
        put_cas(&world, &other).await;
        until_done(&world).await;
        assert_eq!(given(&world).await.1.as_deref(), other.as_str());
        let gone = DeleteParams::default();
        let maps = world.api::<ConfigMap>();
        maps.delete("clients", &gone).await.unwrap();
        let chat = until_done(&world).await;
        assert!(condition(&chat, "ApiOpen").contains("edge is refused"));
        let (callers, client_ca) = given(&world).await;
        assert_eq!(callers.as_array().unwrap().len(), 1);
        assert_eq!(callers[0]["name"], "gateway");
        assert_eq!(client_ca.as_deref(), other.as_str());
        assert_eq!(
            (uids(&world).await, generation(&world).await),
            (second, written)
        );
    });
}

/// Whether the cache pods of `chat` may have tokens reviewed.
async fn may_review(world: &World) -> bool {
    let asked = json!({ "spec": {
        "user": format!("system:serviceaccount:{}:chat", world.namespace),
        "resourceAttributes": { "group": "authentication.k8s.io", "resource": "tokenreviews", "verb": "create" },
    } });
    let asked: SubjectAccessReview = serde_json::from_value(asked).unwrap();
    let reviews: Api<SubjectAccessReview> = Api::all(world.client.clone());
    let answer = reviews.create(&PostParams::default(), &asked).await;
    answer.unwrap().status.unwrap().allowed
}

/// The API server takes a moment to know a binding.
async fn until_it_may(world: &World, wanted: bool) {
    for _ in 0..300 {
        if may_review(world).await == wanted {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    panic!("cache pods may review tokens: never {wanted}");
}

async fn binding(world: &World) -> Option<ClusterRoleBinding> {
    let name = format!("readstates.dev:token-review:{}:chat", world.namespace);
    let bindings: Api<ClusterRoleBinding> = Api::all(world.client.clone());
    bindings.get_opt(&name).await.unwrap()
}

#[test]
fn cache_pods_may_review_tokens_while_a_caller_is_a_service_account_and_no_longer() {
    with_world(async |world| {
        let world = with_token_reviews(world).await;
        put(&world, "gateway", &json!({ "token": TOKEN })).await;
        world.create(&callers(json!([gateway()]))).await.unwrap();
        world.reconcile("chat").await;
        assert!(binding(&world).await.is_none());
        assert!(!may_review(&world).await);

        let both = callers(json!([gateway(), by_service_account()]));
        world.replace(both.clone()).await.unwrap();
        let chat = world.reconcile("chat").await;
        assert_eq!(
            condition(&chat, "ApiOpen"),
            "False CallersOnly: callers: gateway, cron"
        );
        let account = format!("{}/cron", world.namespace);
        assert_eq!(
            given(&world).await.0[1]["serviceAccounts"],
            json!([account])
        );
        let made = binding(&world).await.unwrap();
        assert_eq!(made.role_ref.name, TOKEN_REVIEW);
        let owners = made.metadata.owner_references.unwrap();
        assert_eq!((owners.len(), &*owners[0].kind), (1, "ClusterRole"));
        until_it_may(&world, true).await;

        // What is as wanted is not written, and what is needed is not taken.
        let operator = || world.user(OPERATOR);
        take_back(&operator(), TOKEN_REVIEW).await.unwrap();
        world.reconcile("chat").await;
        let again = binding(&world).await.unwrap();
        assert_eq!(
            again.metadata.resource_version,
            made.metadata.resource_version
        );

        world.replace(callers(json!([gateway()]))).await.unwrap();
        world.reconcile("chat").await;
        take_back(&operator(), TOKEN_REVIEW).await.unwrap();
        assert!(binding(&world).await.is_none());
        until_it_may(&world, false).await;

        // A cluster that is deleted, also in the operator's absence, leaves nothing.
        world.replace(both).await.unwrap();
        world.reconcile("chat").await;
        assert!(binding(&world).await.is_some());
        let clusters = world.api::<ReadStateCluster>();
        let gone = DeleteParams::default();
        clusters.delete("chat", &gone).await.unwrap();
        while clusters.get_opt("chat").await.unwrap().is_some() {
            world.reconcile_the_last("chat").await;
            crate::chat::time_passes(&world).await;
        }
        take_back(&operator(), TOKEN_REVIEW).await.unwrap();
        assert!(binding(&world).await.is_none());
    });
}

#[test]
fn a_right_that_the_operator_lacks_is_told_and_keeps_nobody_else_out() {
    with_world(async |world| {
        // As a chart without rbac.tokenReviews leaves it.
        put(&world, "gateway", &json!({ "token": TOKEN })).await;
        let both = callers(json!([gateway(), by_service_account()]));
        world.create(&both).await.unwrap();
        let chat = world.reconcile("chat").await;
        let words = condition(&chat, "ApiOpen");
        assert!(
            words.starts_with("False CallerRefused: cron is refused: "),
            "{words}"
        );
        assert!(words.contains("install its chart with rbac.tokenReviews=true"));
        assert_eq!(given(&world).await.0.as_array().unwrap().len(), 1);

        // As where an administrator creates the roles and has forgotten this one.
        let world = world.binding_to("readstates-forgotten");
        let chat = until_done(&world).await;
        let words = condition(&chat, "ApiOpen");
        assert!(
            words.contains(
                "no service account can be checked: ClusterRole readstates-forgotten does not exist"
            ),
            "{words}"
        );
        assert!(condition(&chat, "Available").starts_with("True"));
        assert_eq!(given(&world).await.0.as_array().unwrap().len(), 2);
        assert!(binding(&world).await.is_none());
    });
}

#[test]
fn a_binding_of_somebody_else_is_not_touched() {
    with_world(async |world| {
        let world = with_token_reviews(world).await;
        let name = format!("readstates.dev:token-review:{}:chat", world.namespace);
        let theirs: ClusterRoleBinding = serde_json::from_value(json!({
            "metadata": { "name": name },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": TOKEN_REVIEW },
            "subjects": [{ "kind": "ServiceAccount", "name": "other", "namespace": world.namespace }],
        }))
        .unwrap();
        let bindings: Api<ClusterRoleBinding> = Api::all(world.client.clone());
        let params = PostParams::default();
        let theirs = bindings.create(&params, &theirs).await.unwrap();
        let chat = callers(json!([by_service_account()]));
        world.create(&chat).await.unwrap();
        let chat = world.reconcile("chat").await;
        let words = condition(&chat, "ApiOpen");
        assert!(
            words.contains("was not made by the operator; delete it"),
            "{words}"
        );
        take_back(&world.user(OPERATOR), TOKEN_REVIEW)
            .await
            .unwrap();
        assert_eq!(binding(&world).await.unwrap(), theirs);
        bindings
            .delete(&name, &DeleteParams::default())
            .await
            .unwrap();
    });
}
