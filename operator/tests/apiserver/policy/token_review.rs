//! ClusterRoleBindings: of all there are, the operator writes those of token reviews.

use k8s_openapi::api::{
    admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding},
    rbac::v1::ClusterRoleBinding,
};
use kube::{
    Api, Client,
    api::{DeleteParams, PostParams},
};
use serde_json::{Value, json};

use super::{TOKEN_REVIEW, assert_refused, rendered_with, said, until_refused};
use crate::world::with_world;

const WORDS: &str = "may bind only the cache pods of a ReadStateCluster";

/// A binding of this service account to a role.
fn binding(name: &str, role: &str, namespace: &str, account: &str) -> ClusterRoleBinding {
    let binding = json!({
        "metadata": { "name": name },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role },
        "subjects": [{ "kind": "ServiceAccount", "name": account, "namespace": namespace }],
    });
    serde_json::from_value(binding).unwrap()
}

/// Whether this user may make it; it is not made.
async fn may_make(client: Client, binding: &ClusterRoleBinding) -> Result<(), String> {
    let rehearsed = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    said(Api::all(client).create(&rehearsed, binding).await)
}

#[test]
fn the_operator_binds_cache_pods_to_token_reviews_and_nobody_to_anything_else() {
    with_world(async |world| {
        let named = |value: &mut Option<String>| {
            let name = format!("{}-token-review", world.namespace);
            *value = Some(name.clone());
            name
        };
        let about = |name: &Option<String>| name.as_ref().unwrap().contains(TOKEN_REVIEW);
        let policies: Api<ValidatingAdmissionPolicy> = Api::all(world.client.clone());
        let kind = "ValidatingAdmissionPolicy";
        let mut all = rendered_with::<ValidatingAdmissionPolicy>("everything", kind);
        all.retain(|policy| about(&policy.metadata.name));
        let [mut policy] = <[_; 1]>::try_from(all).unwrap();
        let name = named(&mut policy.metadata.name);
        let params = PostParams::default();
        policies.create(&params, &policy).await.unwrap();
        let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(world.client.clone());
        let in_force: ValidatingAdmissionPolicyBinding = serde_json::from_value(json!({
            "metadata": { "name": name },
            "spec": { "policyName": name, "validationActions": ["Deny"] },
        }))
        .unwrap();
        bindings.create(&params, &in_force).await.unwrap();

        let ns = &*world.namespace;
        let right = format!("readstates.dev:token-review:{ns}:chat");
        // With all rights, so that it is the policy that refuses.
        let operator = || world.operator();
        let to_admin = binding(&right, "cluster-admin", ns, "chat");
        until_refused(async || may_make(operator(), &to_admin).await).await;
        assert_refused(may_make(operator(), &to_admin).await, WORDS);
        let other_name = binding("chat", TOKEN_REVIEW, ns, "chat");
        assert_refused(may_make(operator(), &other_name).await, WORDS);
        let other_account = binding(&right, TOKEN_REVIEW, ns, "default");
        assert_refused(may_make(operator(), &other_account).await, WORDS);
        let mut two = binding(&right, TOKEN_REVIEW, ns, "chat");
        let subjects = two.subjects.as_mut().unwrap();
        subjects.push(subjects[0].clone());
        assert_refused(may_make(operator(), &two).await, WORDS);
        let everybody: Value = json!({
            "metadata": { "name": right }, "roleRef": to_admin.role_ref,
            "subjects": [{ "kind": "Group", "name": "system:authenticated" }],
        });
        let everybody = serde_json::from_value(everybody).unwrap();
        assert_refused(may_make(operator(), &everybody).await, WORDS);
        let good = binding(&right, TOKEN_REVIEW, ns, "chat");
        may_make(operator(), &good).await.unwrap();

        // What others have bound stays bound.
        let own = binding(&format!("{ns}-own"), "view", ns, "default");
        let all: Api<ClusterRoleBinding> = Api::all(world.client.clone());
        all.create(&params, &own).await.unwrap();
        let gone = DeleteParams::default();
        let theirs: Api<ClusterRoleBinding> = Api::all(operator());
        let own = own.metadata.name.unwrap();
        assert_refused(said(theirs.delete(&own, &gone).await), WORDS);
        all.delete(&own, &gone).await.unwrap();

        policies.delete(&name, &gone).await.unwrap();
        bindings.delete(&name, &gone).await.unwrap();
    });
}
