//! What cache pods get to know about the API's callers.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{environment, pod};
use crate::{
    fixtures::{CASSANDRA, EXTERNAL, TOKEN_REVIEW, cluster, now, try_cluster},
    objects::{Object, objects},
    plan::{CallersStep, plan},
    spec::ValidatedCluster,
    world::{ClientCaSeen, TokenProblem, Tokens, World},
};

const ACCESS: &str = "
cache:
  access:
    callers:
    - { name: gateway, verbs: [read, write], tokenSecretRef: { name: gateway }, maxConcurrent: 64 }
    - { name: gdpr, verbs: [delete, admin-read], tokenSecretRef: { name: gdpr, key: api } }
";

/// Callers with proofs of all kinds.
const ALL_PROOFS: &str = "
cache:
  tls: { secretName: api }
  access:
    clientCa: { configMapName: clients }
    callers:
    - { name: gateway, verbs: [read], tokenSecretRef: { name: gateway }, certificates: [gateway.talk.example, b.example] }
    - { name: janitor, verbs: [delete], serviceAccounts: [{ name: janitor }, { name: cron, namespace: jobs }] }
";

fn with_all_proofs() -> ValidatedCluster {
    cluster(&format!("{ALL_PROOFS}{}", CASSANDRA.trim_start()))
}

fn with_access() -> ValidatedCluster {
    cluster(&format!("{ACCESS}{}", CASSANDRA.trim_start()))
}

fn world(tokens: &[(&str, Tokens)]) -> World {
    let tokens = tokens.iter();
    World {
        tokens: tokens
            .map(|(name, seen)| ((*name).to_owned(), seen.clone()))
            .collect::<BTreeMap<_, _>>(),
        ..World::default()
    }
}

/// A world with a token of the gateway and these CAs.
fn with_cas(source: Result<(), &str>, pem: Option<&str>) -> World {
    World {
        client_ca: Some(ClientCaSeen {
            pem: pem.map(str::to_owned),
            source: source.map(|()| None).map_err(str::to_owned),
        }),
        ..world(&[("gateway", Ok(vec![hash("a")]))])
    }
}

fn callers(cluster: &ValidatedCluster, world: &World) -> CallersStep {
    plan(cluster, world, now()).callers
}

fn refusals(step: &CallersStep) -> Vec<String> {
    step.refused.iter().map(ToString::to_string).collect()
}

/// The Secret for cache pods.
fn secret(cluster: &ValidatedCluster, world: &World) -> Option<BTreeMap<String, String>> {
    let objects = objects(cluster, &plan(cluster, world, now()));
    let secret = objects.into_iter().find_map(|object| match object {
        Object::Secret(secret) if secret.metadata.name.as_deref() == Some("chat-access") => {
            Some(secret)
        }
        _ => None,
    })?;
    let data = secret.data.unwrap().into_iter();
    Some(
        data.map(|(key, value)| (key, String::from_utf8(value.0).unwrap()))
            .collect(),
    )
}

fn hash(digit: &str) -> String {
    format!("sha256:{}", digit.repeat(64))
}

/// The file that cache pods get.
fn file(cluster: &ValidatedCluster, world: &World) -> Option<Value> {
    let text = secret(cluster, world)?.remove("access.yaml").unwrap();
    Some(serde_json::from_str(&text).unwrap())
}

#[test]
fn callers_are_told_with_hashes_of_their_tokens() {
    let both = vec![hash("a"), hash("b")];
    let world = world(&[("gateway", Ok(both.clone())), ("gdpr", Ok(vec![hash("c")]))]);
    assert_eq!(
        file(&with_access(), &world),
        Some(json!({ "callers": [
            { "name": "gateway", "verbs": ["read", "write"], "tokens": both, "maxConcurrent": 64 },
            { "name": "gdpr", "verbs": ["delete", "admin-read"], "tokens": [hash("c")] },
        ] }))
    );
}

#[test]
fn a_caller_without_a_token_is_left_out_and_the_others_are_let_in() {
    let cluster = with_access();
    let seen = world(&[
        ("gateway", Err(TokenProblem::NoKey)),
        ("gdpr", Ok(vec![hash("c")])),
    ]);
    let told = file(&cluster, &seen).unwrap();
    assert_eq!(told["callers"].as_array().unwrap().len(), 1);
    assert_eq!(
        refusals(&callers(&cluster, &seen)),
        ["gateway is refused: Secret gateway has no key token"]
    );
}

#[test]
fn with_no_token_at_all_nobody_is_let_in() {
    let told = file(
        &with_access(),
        &world(&[("gateway", Err(TokenProblem::TooShort))]),
    );
    assert_eq!(told, Some(json!({ "callers": [] })));
    let none = cluster(&format!(
        "cache: {{ access: {{}} }}\n{}",
        CASSANDRA.trim_start()
    ));
    assert_eq!(
        file(&none, &World::default()),
        Some(json!({ "callers": [] }))
    );
}

#[test]
fn one_token_for_two_callers_is_that_of_the_first() {
    let cluster = with_access();
    let same = || Ok(vec![hash("a")]);
    let seen = world(&[("gateway", same()), ("gdpr", same())]);
    let told = file(&cluster, &seen).unwrap();
    assert_eq!(told["callers"].as_array().unwrap().len(), 1);
    let refused = refusals(&callers(&cluster, &seen));
    assert!(refused[0].contains("also that of gateway"));
}

#[test]
fn cache_pods_read_the_file_where_access_is_configured() {
    let told = |cluster: &ValidatedCluster| {
        let pod = pod(cluster, "StatefulSet chat");
        let told = environment(&pod.containers[0]);
        told.into_iter()
            .find(|e| e.starts_with("READSTATES_ACCESS="))
    };
    let path = "READSTATES_ACCESS=/etc/readstates/access/access.yaml";
    let with_access = format!("{ACCESS}{}", EXTERNAL.trim_start());
    assert_eq!(told(&cluster(&with_access)).as_deref(), Some(path));
    assert_eq!(told(&cluster(EXTERNAL)), None);
    assert_eq!(file(&cluster(CASSANDRA), &World::default()), None);
}

#[test]
fn callers_have_names_of_their_own() {
    let twice = ACCESS.replace("name: gdpr, verbs", "name: gateway, verbs");
    let wrong = try_cluster(&format!("{twice}{}", CASSANDRA.trim_start())).unwrap_err();
    assert_eq!(
        wrong.to_string(),
        "spec.cache.access.callers[1].name: is the name of two callers"
    );
}

#[test]
fn callers_are_told_with_their_service_accounts_and_certificates() {
    let (cluster, world) = (with_all_proofs(), with_cas(Ok(()), Some("PEM")));
    let told = secret(&cluster, &world).unwrap();
    let file: Value = serde_json::from_str(&told["access.yaml"]).unwrap();
    assert_eq!(
        file,
        json!({ "callers": [
            { "name": "gateway", "verbs": ["read"], "tokens": [hash("a")],
              "certificates": ["gateway.talk.example", "b.example"] },
            { "name": "janitor", "verbs": ["delete"], "serviceAccounts": ["talk/janitor", "jobs/cron"] },
        ] })
    );
    assert_eq!(told["client-ca.crt"], "PEM");
    assert_eq!(refusals(&callers(&cluster, &world)), [""; 0]);
}

#[test]
fn without_cas_nobody_gets_in_by_certificate_and_everybody_else_does() {
    let cluster = with_all_proofs();
    let why = "ConfigMap clients does not exist";
    for before in [None, Some("PEM")] {
        let world = with_cas(Err(why), before);
        let file = file(&cluster, &world).unwrap();
        assert_eq!(file["callers"][0].get("certificates"), None);
        assert_eq!(file["callers"][0]["tokens"], json!([hash("a")]));
        assert_eq!(file["callers"].as_array().unwrap().len(), 2);
        let words = format!("gateway is refused with its certificate: {why}");
        assert_eq!(refusals(&callers(&cluster, &world)), [words]);
        // What pods were given once stays: their TLS could not start without it.
        let pem = secret(&cluster, &world).unwrap().remove("client-ca.crt");
        assert_eq!(pem.as_deref(), before);
    }
}

#[test]
fn an_operator_that_may_bind_nobody_refuses_service_accounts_and_says_what_to_do() {
    let world = with_cas(Ok(()), Some("PEM"));
    let mut cluster = with_all_proofs();
    let role = Some(TOKEN_REVIEW.to_owned());
    assert_eq!(callers(&cluster, &world).review_by, role);
    cluster.token_review_role = None;
    let step = callers(&cluster, &world);
    assert_eq!(step.review_by, None);
    let words = refusals(&step);
    assert!(
        words[0].starts_with("janitor is refused: the operator may not let cache pods check"),
        "{words:?}"
    );
    assert!(words[0].contains("rbac.tokenReviews=true"), "{words:?}");
    // A caller without a usable proof would make cache pods refuse the whole file.
    let file = file(&cluster, &world).unwrap();
    assert_eq!(file["callers"].as_array().unwrap().len(), 1);
    assert_eq!(callers(&with_access(), &world).review_by, None);
}

#[test]
fn pods_are_told_of_cas_once_there_are_some_and_are_made_anew_that_once() {
    let mut cluster = cluster(&format!("{ALL_PROOFS}{}", EXTERNAL.trim_start()));
    let told = |cluster: &ValidatedCluster| {
        let pod = pod(cluster, "StatefulSet chat");
        let told = environment(&pod.containers[0]);
        let told = told
            .into_iter()
            .find(|e| e.starts_with("READSTATES_TLS_CLIENT_CA_FILE="));
        let volumes = pod.volumes.unwrap();
        let volume = volumes.into_iter().find(|v| v.name == "access").unwrap();
        let source = volume.secret.unwrap();
        let keys: Vec<_> = source.items.unwrap().into_iter().map(|i| i.key).collect();
        (told, keys, source.optional)
    };
    let without = (None, vec!["access.yaml".to_owned()], None);
    assert_eq!(told(&cluster), without);
    cluster.client_ca = true;
    let (variable, keys, optional) = told(&cluster);
    assert_eq!(
        variable.as_deref(),
        Some("READSTATES_TLS_CLIENT_CA_FILE=/etc/readstates/access/client-ca.crt")
    );
    assert_eq!(keys, ["access.yaml", "client-ca.crt"]);
    // Pods that have it still hear of other callers when it goes.
    assert_eq!(optional, Some(true));
}

#[test]
fn callers_that_make_no_sense_are_refused_by_field() {
    let refused = |from: &str, to: &str| {
        let changed = ALL_PROOFS.replace(from, to);
        assert_ne!(changed, ALL_PROOFS, "{from}");
        let spec = format!("{changed}{}", CASSANDRA.trim_start());
        try_cluster(&spec).unwrap_err().to_string()
    };
    for (from, to, words) in [
        (
            "  tls: { secretName: api }\n",
            "",
            "spec.cache.access.clientCa: needs spec.cache.tls",
        ),
        (
            "    clientCa: { configMapName: clients }\n",
            "",
            "spec.cache.access.callers[0].certificates: needs spec.cache.access.clientCa",
        ),
        (
            "configMapName: clients",
            "configMapName: clients, secretName: clients",
            "spec.cache.access.clientCa: exactly one of secretName and configMapName must be set",
        ),
        (
            "secretName: api",
            "secretName: api, issuerRef: { name: ours }",
            "spec.cache.tls: exactly one of secretName and issuerRef must be set",
        ),
        (
            "b.example",
            "gateway.talk.example",
            "spec.cache.access.callers[0].certificates[1]: gateway.talk.example is also that of gateway",
        ),
        (
            "name: cron, namespace: jobs",
            "name: janitor, namespace: talk",
            "spec.cache.access.callers[1].serviceAccounts[1]: talk/janitor is also that of janitor",
        ),
        (
            ", serviceAccounts: [{ name: janitor }, { name: cron, namespace: jobs }]",
            "",
            "spec.cache.access.callers[1].tokenSecretRef: needs a token, a service account or a certificate",
        ),
    ] {
        let said = refused(from, to);
        assert!(said.contains(words), "{words}: {said}");
    }
}
