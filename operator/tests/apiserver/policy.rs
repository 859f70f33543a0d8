//! What the rendered chart allows and refuses (`hack/chart-test` compares the file with the templates): the operator's
//! rights suffice, and only the operator and cache pods can write what they write.

mod children;
mod leases;
mod rings;
mod stateful_sets;
mod token_review;

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        admissionregistration::v1::{
            MatchResources, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
        },
        apps::v1::StatefulSet,
        coordination::v1::Lease,
        policy::v1::PodDisruptionBudget,
        rbac::v1::{ClusterRole, ClusterRoleBinding},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Api, Client, Resource,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use readstates_operator_api::{ReadStateCluster, ReadStateRing};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{
    chat::{replicas, resize, running, until_done},
    world::{World, with_world},
};

pub(crate) const OPERATOR: &str = "system:serviceaccount:readstates-system:readstates-operator";
/// The ClusterRole that the chart makes for cache pods.
pub(crate) const TOKEN_REVIEW: &str = "readstates-operator-token-review";
const GARBAGE_COLLECTOR: &str = "system:serviceaccount:kube-system:generic-garbage-collector";
const NAMESPACE_CONTROLLER: &str = "system:serviceaccount:kube-system:namespace-controller";

/// The chart's objects of one kind, with the default values.
fn rendered<K: DeserializeOwned>(kind: &str) -> Vec<K> {
    rendered_with("default", kind)
}

/// The chart's objects of one kind, with this set of values.
pub(crate) fn rendered_with<K: DeserializeOwned>(values: &str, kind: &str) -> Vec<K> {
    let path = format!("../charts/readstates-operator/ci/golden/{values}.yaml");
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path);
    let text = std::fs::read_to_string(path).unwrap();
    let of_kind = |document: serde_yaml_ng::Deserializer<'_>| {
        let value: Value = serde::Deserialize::deserialize(document).unwrap();
        (value["kind"] == kind).then(|| serde_json::from_value(value).unwrap())
    };
    let documents = serde_yaml_ng::Deserializer::from_str(&text);
    documents.filter_map(of_kind).collect()
}

/// Runs a test with a cluster of `replicas` cache pods, and with the chart's policies in force in its namespace.
fn with_policies(replicas: i32, test: impl AsyncFnOnce(&World)) {
    with_world(async |world| {
        running(&world, replicas).await;
        let policies = Policies::enforce(&world).await;
        test(&world).await;
        policies.lift().await;
    });
}

/// The chart's policies, in the namespace of one test.
struct Policies {
    names: Vec<String>,
    policies: Api<ValidatingAdmissionPolicy>,
    bindings: Api<ValidatingAdmissionPolicyBinding>,
}

impl Policies {
    /// Puts them in force, which is when each of them refuses something.
    async fn enforce(world: &World) -> Self {
        let policies: Api<ValidatingAdmissionPolicy> = Api::all(world.client.clone());
        let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(world.client.clone());
        // In this namespace only: other tests have theirs.
        let named = |name: &str| format!("{}-{name}", world.namespace);
        let params = PostParams::default();
        let mut names = Vec::new();
        for mut policy in rendered::<ValidatingAdmissionPolicy>("ValidatingAdmissionPolicy") {
            let name = named(&policy.metadata.name.unwrap());
            policy.metadata.name = Some(name.clone());
            policies.create(&params, &policy).await.unwrap();
            names.push(name);
        }
        let kind = "ValidatingAdmissionPolicyBinding";
        for mut binding in rendered::<ValidatingAdmissionPolicyBinding>(kind) {
            binding.metadata.name = Some(named(&binding.metadata.name.unwrap()));
            binding.spec.policy_name = named(&binding.spec.policy_name);
            let here = json!({ "namespaceSelector": {
                "matchLabels": { "kubernetes.io/metadata.name": world.namespace },
            } });
            binding.spec.match_resources =
                Some(serde_json::from_value::<MatchResources>(here).unwrap());
            bindings.create(&params, &binding).await.unwrap();
        }
        until_refused(async || rehearse_delete::<StatefulSet>(world, "chat").await).await;
        until_refused(async || rehearse_delete::<ReadStateRing>(world, "chat").await).await;
        until_refused(async || rehearse_delete::<PodDisruptionBudget>(world, "chat").await).await;
        until_refused(async || {
            let mut lease = Lease::default();
            lease.metadata.name = Some("probe".to_owned());
            lease.metadata.labels =
                Some([("readstates.dev/ring".to_owned(), "chat".to_owned())].into());
            let rehearsed = PostParams {
                dry_run: true,
                ..PostParams::default()
            };
            said(world.api::<Lease>().create(&rehearsed, &lease).await)
        })
        .await;
        Self {
            names,
            policies,
            bindings,
        }
    }

    async fn lift(self) {
        let params = DeleteParams::default();
        for name in self.names {
            self.policies.delete(&name, &params).await.unwrap();
            self.bindings.delete(&name, &params).await.unwrap();
        }
    }
}

/// The API server takes a moment to know a policy.
pub(crate) async fn until_refused(attempt: impl AsyncFn() -> Result<(), String>) {
    let began = Instant::now();
    while attempt().await.is_ok() {
        assert!(began.elapsed() < Duration::from_secs(90), "never in force");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Asks to delete, without it being done.
async fn rehearse_delete<K>(world: &World, name: &str) -> Result<(), String>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned,
{
    let rehearsed = DeleteParams {
        dry_run: true,
        ..DeleteParams::default()
    };
    said(world.api::<K>().delete(name, &rehearsed).await)
}

/// What the API server answered to a write.
fn said<T>(answer: kube::Result<T>) -> Result<(), String> {
    answer.map(|_| ()).map_err(|error| error.to_string())
}

async fn patch<K>(client: Client, world: &World, name: &str, patch: Value) -> Result<(), String>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(client, &world.namespace);
    let patch = Patch::Merge(patch);
    said(api.patch(name, &PatchParams::default(), &patch).await)
}

async fn delete<K>(client: Client, world: &World, name: &str) -> Result<(), String>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(client, &world.namespace);
    said(api.delete(name, &DeleteParams::default()).await)
}

/// The annotation by which a person consents.
fn allowed() -> Value {
    json!({ "metadata": { "annotations": { "readstates.dev/allow-deletion": "true" } } })
}

/// Whether it was refused with these words.
#[track_caller]
fn assert_refused(answer: Result<(), String>, words: &str) {
    let error = answer.unwrap_err();
    assert!(error.contains(words), "{words}: {error}");
}

/// From here on the operator has the rights that the chart gives it by default.
pub(crate) async fn with_the_charts_rights(world: World) -> World {
    let roles = rendered::<ClusterRole>("ClusterRole");
    let bindings = rendered::<ClusterRoleBinding>("ClusterRoleBinding");
    give(&world, roles, bindings).await;
    world.reconciled_by(OPERATOR)
}

/// And those of `rbac.tokenReviews`.
pub(crate) async fn with_token_reviews(world: World) -> World {
    let world = with_the_charts_rights(world).await;
    let mut roles = rendered_with::<ClusterRole>("everything", "ClusterRole");
    let mut bindings = rendered_with::<ClusterRoleBinding>("everything", "ClusterRoleBinding");
    let about = |meta: &ObjectMeta| meta.name.as_ref().unwrap().contains(TOKEN_REVIEW);
    roles.retain(|role| about(&role.metadata));
    bindings.retain(|binding| about(&binding.metadata));
    assert_eq!((roles.len(), bindings.len()), (2, 1));
    give(&world, roles, bindings).await;
    world.binding_to(TOKEN_REVIEW)
}

async fn give(world: &World, roles: Vec<ClusterRole>, bindings: Vec<ClusterRoleBinding>) {
    let force = PatchParams::apply("tests").force();
    let api: Api<ClusterRole> = Api::all(world.client.clone());
    for role in roles {
        let name = role.metadata.name.clone().unwrap();
        api.patch(&name, &force, &Patch::Apply(role)).await.unwrap();
    }
    let api: Api<ClusterRoleBinding> = Api::all(world.client.clone());
    for binding in bindings {
        let name = binding.metadata.name.clone().unwrap();
        let patch = Patch::Apply(binding);
        api.patch(&name, &force, &patch).await.unwrap();
    }
}

#[test]
fn the_operator_needs_no_more_rights_than_the_chart_gives_it() {
    with_world(async |world| {
        let world = with_the_charts_rights(world).await;
        running(&world, 3).await;
        let policies = Policies::enforce(&world).await;
        resize(&world, 2).await;
        until_done(&world).await;
        let mut next = crate::chat::cluster(3);
        next["spec"]["image"] = json!("readstates:2");
        world.replace(next).await.unwrap();
        let chat: ReadStateCluster = until_done(&world).await;
        assert_eq!(chat.status.unwrap().cache, "3/3");

        let clusters = world.api::<ReadStateCluster>();
        let now = DeleteParams::default();
        clusters.delete("chat", &now).await.unwrap();
        world.reconcile("chat").await;
        assert_eq!(replicas(&world).await, 0);
        world.settle().await;
        world.let_go().await;
        world.reconcile_the_last("chat").await;
        assert!(clusters.get_opt("chat").await.unwrap().is_none());
        policies.lift().await;
    });
}

#[test]
fn no_administrator_of_a_namespace_deletes_rings() {
    let roles = rendered::<ClusterRole>("ClusterRole");
    let mut aggregated = 0;
    for role in roles {
        let labels = role.metadata.labels.unwrap_or_default();
        if !labels.keys().any(|l| l.contains("aggregate-to")) {
            continue;
        }
        aggregated += 1;
        for rule in role.rules.unwrap_or_default() {
            let rings = rule.resources.unwrap_or_default();
            if rings.iter().any(|r| r.starts_with("readstaterings")) {
                assert_eq!(rule.verbs, ["get", "list", "watch"]);
            }
        }
    }
    assert_eq!(aggregated, 2);
}
