//! What the chart gives and refuses, as it is rendered (`hack/chart-test` holds the file to the
//! templates): the operator's rights suffice, and nobody else scales a StatefulSet of the cache or the database.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use k8s_openapi::{
    api::{
        admissionregistration::v1::{
            MatchResources, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
        },
        apps::v1::StatefulSet,
        rbac::v1::{ClusterRole, ClusterRoleBinding},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use readstates_operator_api::ReadStateCluster;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{
    chat::{resize, running, until_done},
    world::{World, with_world},
};

pub(crate) const OPERATOR: &str = "system:serviceaccount:readstates-system:readstates-operator";

/// The chart's objects of one kind, with the default values.
fn rendered<K: DeserializeOwned>(kind: &str) -> Vec<K> {
    let path = "../charts/readstates-operator/ci/golden/default.yaml";
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path);
    let text = std::fs::read_to_string(path).unwrap();
    let of_kind = |document: serde_yaml_ng::Deserializer<'_>| {
        let value: Value = serde::Deserialize::deserialize(document).unwrap();
        (value["kind"] == kind).then(|| serde_json::from_value(value).unwrap())
    };
    let documents = serde_yaml_ng::Deserializer::from_str(&text);
    documents.filter_map(of_kind).collect()
}

async fn scale(client: Client, world: &World, set: &str, replicas: i32) -> Result<(), String> {
    let sets: Api<StatefulSet> = Api::namespaced(client, &world.namespace);
    let patch = Patch::Merge(json!({ "spec": { "replicas": replicas } }));
    let scaled = sets.patch_scale(set, &PatchParams::default(), &patch).await;
    scaled.map(|_| ()).map_err(|error| error.to_string())
}

/// The chart's policy, in the namespace of one test.
struct Policy {
    name: String,
    policies: Api<ValidatingAdmissionPolicy>,
    bindings: Api<ValidatingAdmissionPolicyBinding>,
}

impl Policy {
    /// Puts it in force, which is when it refuses to scale the StatefulSet `set` of so many: with these words.
    async fn enforce(world: &World, set: &str, replicas: i32) -> (Self, String) {
        // In this namespace only: other tests have theirs.
        let name = format!("{}-replicas", world.namespace);
        let policies: Api<ValidatingAdmissionPolicy> = Api::all(world.client.clone());
        let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(world.client.clone());
        let mut policy =
            rendered::<ValidatingAdmissionPolicy>("ValidatingAdmissionPolicy").remove(0);
        policy.metadata.name = Some(name.clone());
        let mut binding =
            rendered::<ValidatingAdmissionPolicyBinding>("ValidatingAdmissionPolicyBinding")
                .remove(0);
        binding.metadata.name = Some(name.clone());
        let spec = &mut binding.spec;
        spec.policy_name.clone_from(&name);
        let here = json!({ "namespaceSelector": {
            "matchLabels": { "kubernetes.io/metadata.name": world.namespace },
        } });
        spec.match_resources = Some(serde_json::from_value::<MatchResources>(here).unwrap());
        let params = PostParams::default();
        policies.create(&params, &policy).await.unwrap();
        bindings.create(&params, &binding).await.unwrap();
        let policy = Self {
            name,
            policies,
            bindings,
        };
        // The API server takes a moment to know it. What it lets through meanwhile is taken back by whom it always
        // lets: refused to somebody else it would stay, and to scale to what is there already is refused to nobody.
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(90) {
            if let Err(words) = scale(world.client.clone(), world, set, 5).await {
                return (policy, words);
            }
            scale(world.operator(), world, set, replicas).await.unwrap();
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("{set} can be scaled by everybody");
    }

    async fn lift(self) {
        let params = DeleteParams::default();
        self.policies.delete(&self.name, &params).await.unwrap();
        self.bindings.delete(&self.name, &params).await.unwrap();
    }
}

#[test]
fn nobody_but_the_operator_scales_a_cache_stateful_set() {
    with_world(async |world| {
        running(&world, 2).await;
        let (policy, refused) = Policy::enforce(&world, "chat", 2).await;
        assert!(
            refused.contains("use kubectl scale readstatecluster chat"),
            "{refused}"
        );
        let by_spec = async |patch: Value| {
            let sets = world.api::<StatefulSet>();
            let patch = Patch::Merge(patch);
            sets.patch("chat", &PatchParams::default(), &patch).await
        };
        let patched = by_spec(json!({ "spec": { "replicas": 0 } }))
            .await
            .unwrap_err();
        assert!(
            patched
                .to_string()
                .contains("kubectl scale readstatecluster chat"),
            "{patched}"
        );
        // Taking labels off does not help, and is put back.
        let bare = json!({ "metadata": { "labels": null } });
        by_spec(bare).await.unwrap();
        let scaled = scale(world.client.clone(), &world, "chat", 5).await;
        assert!(scaled.is_err());
        // What is no number of pods is nobody's business here.
        by_spec(json!({ "metadata": { "annotations": { "a": "b" } } }))
            .await
            .unwrap();
        // The status is written all the time.
        world.settle().await;

        let operator = world.operator();
        scale(operator.clone(), &world, "chat", 5).await.unwrap();
        scale(operator, &world, "chat", 2).await.unwrap();
        policy.lift().await;
    });
}

#[test]
fn nobody_but_the_operator_scales_a_rack() {
    with_world(async |world| {
        running(&world, 1).await;
        let (policy, refused) = Policy::enforce(&world, "chat-db-a", 1).await;
        assert!(
            refused.contains("change the members of the rack in the ReadStateCluster"),
            "{refused}"
        );
        let none = Patch::Merge(json!({ "spec": { "replicas": 0 } }));
        let sets = world.api::<StatefulSet>();
        let patched = sets
            .patch("chat-db-a", &PatchParams::default(), &none)
            .await;
        let words = patched.unwrap_err().to_string();
        assert!(words.contains("has given its data away"), "{words}");
        // Others' StatefulSets are nobody's business here.
        world.settle().await;
        let mut theirs = world.get::<StatefulSet>("chat-db-a").await;
        theirs.metadata = ObjectMeta {
            name: Some("theirs".to_owned()),
            ..ObjectMeta::default()
        };
        sets.create(&PostParams::default(), &foreign(theirs))
            .await
            .unwrap();
        scale(world.client.clone(), &world, "theirs", 3)
            .await
            .unwrap();

        let operator = world.operator();
        scale(operator.clone(), &world, "chat-db-a", 5)
            .await
            .unwrap();
        scale(operator, &world, "chat-db-a", 1).await.unwrap();
        policy.lift().await;
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

/// From here on the operator has the rights that the chart gives it by default.
pub(crate) async fn with_the_charts_rights(world: World) -> World {
    let force = PatchParams::apply("tests").force();
    let roles: Api<ClusterRole> = Api::all(world.client.clone());
    let bindings: Api<ClusterRoleBinding> = Api::all(world.client.clone());
    for role in rendered::<ClusterRole>("ClusterRole") {
        let name = role.metadata.name.clone().unwrap();
        roles
            .patch(&name, &force, &Patch::Apply(role))
            .await
            .unwrap();
    }
    for binding in rendered::<ClusterRoleBinding>("ClusterRoleBinding") {
        let name = binding.metadata.name.clone().unwrap();
        bindings
            .patch(&name, &force, &Patch::Apply(binding))
            .await
            .unwrap();
    }
    world.reconciled_by(OPERATOR)
}

#[test]
fn the_operator_needs_no_more_rights_than_the_chart_gives_it() {
    with_world(async |world| {
        let world = with_the_charts_rights(world).await;
        running(&world, 3).await;
        resize(&world, 2).await;
        until_done(&world).await;
        let mut next = crate::chat::cluster(3);
        next["spec"]["image"] = json!("readstates:2");
        world.replace(next).await.unwrap();
        let chat: ReadStateCluster = until_done(&world).await;
        assert_eq!(chat.status.unwrap().cache, "3/3");
    });
}
