//! Kinds that another project defines, as far as these tests go: the API server knows them or not.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, PostParams},
    runtime::{
        conditions::{is_crd_established, is_deleted},
        wait::await_condition,
    },
};
use serde_json::json;

use crate::world::World;

/// On a busy machine.
const SERVED: Duration = Duration::from_mins(1);
const PAUSE: Duration = Duration::from_millis(100);

/// A kind of namespaced objects with any content.
pub(crate) struct ForeignKind {
    crds: Api<CustomResourceDefinition>,
    name: String,
    definition: CustomResourceDefinition,
}

impl ForeignKind {
    /// A kind of version v1. `parts`: its subresources, such as `{ "status": {} }`.
    pub(crate) fn new(world: &World, group: &str, kind: &str, parts: &serde_json::Value) -> Self {
        let singular = kind.to_lowercase();
        let plural = format!("{singular}s");
        let name = format!("{plural}.{group}");
        let anything = json!({ "openAPIV3Schema": {
            "type": "object", "x-kubernetes-preserve-unknown-fields": true,
        } });
        let version = json!({
            "name": "v1", "served": true, "storage": true, "schema": anything, "subresources": parts,
        });
        let definition = json!({
            "metadata": {
                "name": name,
                // Asked for in groups of Kubernetes itself.
                "annotations": { "api-approved.kubernetes.io": "unapproved, for tests" },
            },
            "spec": {
                "group": group, "scope": "Namespaced", "versions": [version],
                "names": { "kind": kind, "plural": plural, "singular": singular },
            },
        });
        Self {
            crds: Api::all(world.client.clone()),
            name,
            definition: serde_json::from_value(definition).unwrap(),
        }
    }

    /// The API server does not know it any more.
    pub(crate) async fn forget(&self) {
        let Self { crds, name, .. } = self;
        if let Some(old) = crds.get_opt(name).await.unwrap() {
            crds.delete(name, &DeleteParams::default()).await.unwrap();
            let uid = old.uid().unwrap();
            await_condition(crds.clone(), name, is_deleted(&uid))
                .await
                .unwrap();
        }
    }

    /// The API server knows it from now on, and serves it soon.
    pub(crate) async fn define(&self) {
        let Self {
            crds,
            name,
            definition,
        } = self;
        let params = PostParams::default();
        crds.create(&params, definition).await.unwrap();
        await_condition(crds.clone(), name, is_crd_established())
            .await
            .unwrap();
    }
}

/// Looks until the operator has noticed a kind. It is established a moment before it is served everywhere, and nothing
/// tells when it is.
pub(crate) async fn once_served<T>(
    look: impl AsyncFn() -> T,
    has_noticed: impl Fn(&T) -> bool,
) -> T {
    let until = tokio::time::Instant::now() + SERVED;
    loop {
        let seen = look().await;
        if has_noticed(&seen) || tokio::time::Instant::now() > until {
            return seen;
        }
        tokio::time::sleep(PAUSE).await;
    }
}
