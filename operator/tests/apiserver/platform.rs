//! A platform that assigns the user of each pod, as OpenShift does by its constraint `restricted-v2`: pods that name a user
//! outside the range of their namespace, or ask for more rights, are refused.

use k8s_openapi::api::{
    admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding},
    apps::v1::{Deployment, StatefulSet},
    batch::v1::Job,
    core::v1::{Pod, PodTemplateSpec},
};
use kube::{
    Api,
    api::{DeleteParams, ListParams, PostParams},
};
use readstates_operator_api::ReadStateCluster;
use serde_json::{Value, json};

use crate::{
    chat::{cluster, time_passes, until_done},
    fake::without_claims,
    policy::{rendered_with, until_refused, with_the_charts_rights},
    world::{World, with_world},
};

/// The first user of the namespace's range, which is also its group, and the first one beyond it.
const FIRST: u32 = 1_000_650_000;
const BEYOND: u32 = FIRST + 10_000;

/// The constraint, in force in the namespace of one test.
struct Constraint {
    name: String,
    policies: Api<ValidatingAdmissionPolicy>,
    bindings: Api<ValidatingAdmissionPolicyBinding>,
}

impl Constraint {
    async fn enforce(world: &World) -> Self {
        let made = Self {
            name: format!("{}-restricted-v2", world.namespace),
            policies: Api::all(world.client.clone()),
            bindings: Api::all(world.client.clone()),
        };
        let params = PostParams::default();
        let policy = serde_json::from_value(policy(&made.name)).unwrap();
        made.policies.create(&params, &policy).await.unwrap();
        let binding = serde_json::from_value(json!({
            "metadata": { "name": made.name },
            "spec": {
                "policyName": made.name, "validationActions": ["Deny"],
                "matchResources": { "namespaceSelector": {
                    "matchLabels": { "kubernetes.io/metadata.name": world.namespace },
                } },
            },
        }));
        let binding = binding.unwrap();
        made.bindings.create(&params, &binding).await.unwrap();
        until_refused(async || admits(world, &fixed_user()).await).await;
        made
    }

    async fn lift(self) {
        let params = DeleteParams::default();
        self.bindings.delete(&self.name, &params).await.unwrap();
        self.policies.delete(&self.name, &params).await.unwrap();
    }
}

fn policy(name: &str) -> Value {
    let all = "object.spec.containers + object.spec.?initContainers.orValue([])";
    let of_range = |user: &str| {
        format!("{user}.orValue({FIRST}) >= {FIRST} && {user}.orValue({FIRST}) < {BEYOND}")
    };
    let user = of_range("object.spec.?securityContext.?runAsUser");
    let group = format!("object.spec.?securityContext.?fsGroup.orValue({FIRST}) == {FIRST}");
    let each = of_range("c.?securityContext.?runAsUser");
    let rights = "!c.?securityContext.?privileged.orValue(false) && \
                  !c.?securityContext.?allowPrivilegeEscalation.orValue(false) && \
                  c.?securityContext.?capabilities.?add.orValue([]).all(one, one == 'NET_BIND_SERVICE')";
    json!({
        "metadata": { "name": name },
        "spec": {
            "matchConstraints": { "resourceRules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"],
            }] },
            "variables": [{ "name": "all", "expression": all }],
            "validations": [
                { "expression": user, "message": "runAsUser: must be in the range of the namespace" },
                { "expression": group, "message": "fsGroup: is not the group of the namespace" },
                { "expression": format!("variables.all.all(c, {each})"), "message": "runAsUser of a container" },
                { "expression": format!("variables.all.all(c, {rights})"), "message": "more rights" },
            ],
        },
    })
}

fn fixed_user() -> PodTemplateSpec {
    let pod = json!({ "spec": {
        "securityContext": { "runAsUser": 65532 }, "containers": [{ "name": "one", "image": "one" }],
    } });
    serde_json::from_value(pod).unwrap()
}

/// Whether such a pod may be made.
async fn admits(world: &World, template: &PodTemplateSpec) -> Result<(), String> {
    let mut pod = Pod {
        spec: template.spec.clone(),
        ..Pod::default()
    };
    pod.metadata.name = Some("rehearsed".to_owned());
    without_claims(&mut pod);
    let rehearsed = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let made = world.api::<Pod>().create(&rehearsed, &pod).await;
    made.map(drop).map_err(|error| error.to_string())
}

#[test]
fn a_cluster_and_its_operator_run_as_the_user_that_the_platform_assigns() {
    with_world(async |world| {
        let world = with_the_charts_rights(world).await;
        let constraint = Constraint::enforce(&world).await;

        // The chart: a user who leaves the choice to the platform sets these values to null.
        let operator = |values| rendered_with::<Deployment>(values, "Deployment").remove(0);
        let template = |set: Deployment| set.spec.unwrap().template;
        let refused = admits(&world, &template(operator("default"))).await;
        assert!(refused.unwrap_err().contains("runAsUser"));
        admits(&world, &template(operator("bring-your-own")))
            .await
            .unwrap();

        // As the operator makes them by itself, pods are refused: the platform knows no such user.
        let elsewhere = with_the_charts_rights(world.another().await).await;
        elsewhere.create(&cluster(2)).await.unwrap();
        elsewhere.reconcile("chat").await;
        let rack = elsewhere.get::<StatefulSet>("chat-db-a").await;
        let refused = admits(&world, &rack.spec.unwrap().template).await;
        let refused = refused.unwrap_err();
        assert!(refused.contains("runAsUser"), "{refused}");

        let mut chat = cluster(2);
        let assigned = json!({ "securityContext": { "runAsNonRoot": true } });
        chat["spec"]["database"]["podTemplate"] = assigned.clone();
        chat["spec"]["cache"] = json!({ "podTemplate": assigned });
        world.create(&chat).await.unwrap();
        comes_up(&world).await;
        constraint.lift().await;
    });
}

/// Every pod of it is made while the constraint is in force, that of the schema Job, too.
async fn comes_up(world: &World) {
    let jobs = world.api::<Job>();
    let mut made = Vec::new();
    for _ in 0..8 {
        world.reconcile("chat").await;
        world.settle().await;
        made = jobs.list(&ListParams::default()).await.unwrap().items;
        if !made.is_empty() {
            break;
        }
    }
    assert_eq!(made.len(), 1, "the schema Job");
    world.pod_ends(&made[0], &[], &[("schema", 0, "")]).await;
    time_passes(world).await;
    let chat: ReadStateCluster = until_done(world).await;
    assert_eq!(chat.status.unwrap().cache, "2/2");
}
