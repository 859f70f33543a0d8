//! A cluster that was deleted without its objects, and one that takes them over.

use std::collections::BTreeMap;

use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        apps::v1::StatefulSet,
        core::v1::{ConfigMap, Pod, Secret, Service, ServiceAccount},
        networking::v1::NetworkPolicy,
        policy::v1::PodDisruptionBudget,
        rbac::v1::{Role, RoleBinding},
    },
};
use kube::{
    Resource, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, PropagationPolicy},
};
use readstates_operator_api::{ReadStateCluster, ReadStateRing, labels};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{
    database::{at_rest, goes_on, records, up, with_members},
    policy::{OPERATOR, with_the_charts_rights},
    world::{World, condition, with_world},
};

/// The UIDs of all controllers of objects of this kind, by name; an empty one where there is none.
async fn owners<K>(world: &World) -> BTreeMap<String, String>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned,
{
    let ours = ListParams::default().labels(&labels::of_cluster("chat"));
    let found = world.api::<K>().list(&ours).await.unwrap();
    let owner = |object: &K| {
        let mut owners = object.owner_references().iter();
        let owner = owners.find(|owner| owner.controller == Some(true));
        owner.map(|owner| owner.uid.clone()).unwrap_or_default()
    };
    let named = found.items.iter().map(|one| (one.name_any(), owner(one)));
    named.collect()
}

/// What Kubernetes' garbage collector does: the objects of a cluster that is deleted as an orphan lose their owner.
async fn orphan<K>(world: &World)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned,
{
    let none = Patch::Merge(json!({ "metadata": { "ownerReferences": null } }));
    for name in owners::<K>(world).await.keys() {
        let params = PatchParams::default();
        world.api::<K>().patch(name, &params, &none).await.unwrap();
    }
}

/// The UIDs of pods by name.
async fn pods(world: &World) -> BTreeMap<String, String> {
    let found = world
        .api::<Pod>()
        .list(&ListParams::default())
        .await
        .unwrap();
    let pods = found.items.iter();
    pods.map(|pod| (pod.name_any(), pod.uid().unwrap()))
        .collect()
}

macro_rules! for_each_kind {
    ($call:ident, $world:expr) => {
        [
            $call::<ConfigMap>($world).await,
            $call::<NetworkPolicy>($world).await,
            $call::<PodDisruptionBudget>($world).await,
            $call::<ReadStateRing>($world).await,
            $call::<Role>($world).await,
            $call::<RoleBinding>($world).await,
            $call::<Secret>($world).await,
            $call::<Service>($world).await,
            $call::<ServiceAccount>($world).await,
            $call::<StatefulSet>($world).await,
        ]
    };
}

/// Deletes the cluster and leaves everything else, as `kubectl delete --cascade=orphan` does.
async fn delete_without_its_objects(world: &World) {
    let clusters = world.api::<ReadStateCluster>();
    let orphans = DeleteParams {
        propagation_policy: Some(PropagationPolicy::Orphan),
        ..DeleteParams::default()
    };
    clusters.delete("chat", &orphans).await.unwrap();
    world.reconcile("chat").await;
    for_each_kind!(orphan, world);
    let gone = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    let params = PatchParams::default();
    clusters.patch("chat", &params, &gone).await.unwrap();
    assert!(clusters.get_opt("chat").await.unwrap().is_none());
}

async fn replicas(world: &World, set: &str) -> Option<i32> {
    let set = world.get::<StatefulSet>(set).await;
    set.spec.unwrap().replicas
}

fn adopting(cluster: &ReadStateCluster) -> Value {
    json!({ "metadata": { "annotations": { labels::ADOPT: cluster.uid() } } })
}

/// The Role that the book gives the operator for the time of a takeover.
async fn may_delete(world: &World) {
    let role = json!({
        "metadata": { "name": "takes-over" },
        "rules": [{
            "apiGroups": ["", "apps", "networking.k8s.io", "policy", "rbac.authorization.k8s.io", "readstates.dev"],
            "resources": [
                "configmaps", "networkpolicies", "poddisruptionbudgets", "readstaterings", "rolebindings", "roles",
                "secrets", "serviceaccounts", "services", "statefulsets",
            ],
            "verbs": ["delete"],
        }],
    });
    let binding = json!({
        "metadata": { "name": "takes-over" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "takes-over" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": OPERATOR }],
    });
    let params = PostParams::default();
    let role: Role = serde_json::from_value(role).unwrap();
    world.api().create(&params, &role).await.unwrap();
    let binding: RoleBinding = serde_json::from_value(binding).unwrap();
    world.api().create(&params, &binding).await.unwrap();
}

#[test]
fn what_a_cluster_has_left_is_taken_over_when_somebody_says_so_and_no_pod_restarts() {
    with_world(async |world| {
        let world = with_the_charts_rights(world).await;
        let wanted = with_members(1, 2);
        up(&world, &wanted).await;
        let before = pods(&world).await;
        delete_without_its_objects(&world).await;
        assert_eq!(replicas(&world, "chat").await, Some(1));
        assert_eq!(replicas(&world, "chat-db-b").await, Some(2));

        // A new one of that name touches nothing by itself, and says what can be done.
        let made = world.create(&wanted).await.unwrap();
        let uid = made.uid().unwrap();
        for _ in 0..3 {
            world.reconcile("chat").await;
            goes_on(&world).await;
        }
        let chat = world.reconcile("chat").await;
        let words = condition(&chat, "Degraded");
        let told = format!("{}={uid}", labels::ADOPT);
        assert!(
            words.contains("NameConflict") && words.contains(&told),
            "{words}"
        );
        for owners in for_each_kind!(owners, &world) {
            assert!(owners.values().all(String::is_empty), "{owners:?}");
        }

        // The UID of another cluster is no consent for this one.
        let clusters = world.api::<ReadStateCluster>();
        let params = PatchParams::default();
        let other = json!({ "metadata": { "annotations": { labels::ADOPT: "uid-of-another" } } });
        clusters
            .patch("chat", &params, &Patch::Merge(other))
            .await
            .unwrap();
        let chat = world.reconcile("chat").await;
        assert!(condition(&chat, "Degraded").contains("NameConflict"));

        world.agents.ring().orders.clear();
        let consent = Patch::Merge(adopting(&made));
        clusters.patch("chat", &params, &consent).await.unwrap();
        // This API server asks what OpenShift asks: only a client that may delete an object sets its owner.
        let words = condition(&world.reconcile("chat").await, "Degraded");
        let asked = "cannot set an ownerRef on a resource you can't delete";
        assert!(words.contains(asked), "{words}");
        may_delete(&world).await;
        let chat = at_rest(&world).await;
        assert_eq!(
            records(&chat),
            [
                "chat-db-a-0 Member",
                "chat-db-b-0 Member",
                "chat-db-b-1 Member"
            ]
        );
        assert!(condition(&chat, "Degraded").starts_with("False"));
        assert_eq!(pods(&world).await, before);
        assert!(
            world.agents.ring().orders.is_empty(),
            "{:?}",
            world.agents.ring().orders
        );
        // Secrets with passwords have no owner, so that they outlive every cluster.
        let passwords = ["chat-db-login", "chat-db-superuser"];
        for owners in for_each_kind!(owners, &world) {
            let owned = owners
                .iter()
                .filter(|(name, _)| !passwords.contains(&name.as_str()));
            let others: Vec<_> = owned.filter(|(_, owner)| **owner != uid).collect();
            assert!(others.is_empty(), "{others:?}");
        }
    });
}
