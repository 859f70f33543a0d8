//! What cache pods are told of the API's callers.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{environment, pod};
use crate::{
    build::{Object, objects},
    fixtures::{CASSANDRA, EXTERNAL, cluster, now, try_cluster},
    observe::{TokenProblem, Tokens, World},
    plan::plan,
    validate::ValidatedCluster,
};

const ACCESS: &str = "
cache:
  access:
    callers:
    - { name: gateway, verbs: [read, write], tokenSecretRef: { name: gateway }, maxConcurrent: 64 }
    - { name: gdpr, verbs: [delete, admin-read], tokenSecretRef: { name: gdpr, key: api } }
";

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

fn hash(digit: &str) -> String {
    format!("sha256:{}", digit.repeat(64))
}

/// The file that cache pods get.
fn file(cluster: &ValidatedCluster, world: &World) -> Option<Value> {
    let objects = objects(cluster, &plan(cluster, world, now()));
    let secret = objects.into_iter().find_map(|object| match object {
        Object::Secret(secret) if secret.metadata.name.as_deref() == Some("chat-access") => {
            Some(secret)
        }
        _ => None,
    });
    let text = secret?.data.unwrap().remove("access.yaml").unwrap();
    Some(serde_json::from_slice(&text.0).unwrap())
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
    let refused = plan(&cluster, &seen, now()).tokens.refused;
    let words: Vec<_> = refused.iter().map(ToString::to_string).collect();
    assert_eq!(
        words,
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
    let refused = plan(&cluster, &seen, now()).tokens.refused;
    assert!(refused[0].to_string().contains("also that of gateway"));
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
