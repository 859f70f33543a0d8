//! Deletes ClusterRoleBindings for TokenReviews that are no longer needed: the ReadStateCluster is gone, or has no
//! callers with service accounts.
//!
//! A namespaced object cannot own a ClusterRoleBinding, and our objects carry no finalizers, so that ReadStateClusters can
//! be deleted while the operator is away. So all bindings are listed periodically, and those that are known to be
//! unneeded are deleted.

use std::{convert::Infallible, time::Duration};

use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, Preconditions},
};
use readstates_operator_api::{ReadStateCluster, labels};
use tokio::time::{MissedTickBehavior, interval};

use crate::{context::Context, error::Error, spec::Identity, telemetry, words::chain};

/// How often the bindings are looked at: one request where there are none.
const EVERY: Duration = Duration::from_secs(30);

/// Runs for ever; does nothing where the operator may make no bindings. Cancel-safe: each deletion is one request.
pub async fn keep_taking_back(ctx: &Context) -> Infallible {
    let Some(role) = &ctx.token_review_role else {
        return std::future::pending().await;
    };
    let mut looks = interval(EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        if let Err(error) = take_back(&ctx.client, role).await {
            telemetry::failed(&error);
            tracing::warn!(
                error = chain(&error),
                "failed to look for bindings that are not needed"
            );
        }
    }
}

/// Deletes the bindings to this role that are not needed. One of which that cannot be told stays, and keeps no other.
///
/// # Errors
/// When the bindings cannot be read.
pub async fn take_back(client: &Client, role: &str) -> Result<(), Error> {
    let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
    let ours = ListParams::default().labels(labels::CLUSTER);
    let found = bindings.list(&ours).await.map_err(|source| Error::Read {
        what: "the ClusterRoleBindings".to_owned(),
        source,
    })?;
    for binding in &found.items {
        let Some((namespace, name)) = cluster_of(binding, role) else {
            continue;
        };
        if let Err(error) = look_at(client, &bindings, binding, (namespace, name)).await {
            telemetry::failed(&error);
            tracing::warn!(
                binding = binding.name_any(),
                error = chain(&error),
                "failed to find out whether a binding is needed, or to delete it: it is looked at again"
            );
        }
    }
    Ok(())
}

/// Deletes a binding if its cluster does not need it.
async fn look_at(
    client: &Client,
    bindings: &Api<ClusterRoleBinding>,
    binding: &ClusterRoleBinding,
    (namespace, name): (&str, &str),
) -> Result<(), Error> {
    let clusters: Api<ReadStateCluster> = Api::namespaced(client.clone(), namespace);
    let cluster = match clusters.get_opt(name).await {
        Ok(cluster) => cluster,
        // The namespace is no longer watched, so it is unknown whether the binding is needed.
        Err(kube::Error::Api(status)) if status.code == 403 => return Ok(()),
        Err(source) => {
            let what = format!("ReadStateCluster {name}");
            return Err(Error::Read { what, source });
        }
    };
    if cluster.is_some_and(|cluster| needs(&cluster)) {
        return Ok(());
    }
    delete(bindings, binding).await
}

/// Namespace and name of the cluster that a binding to this role was made for; `None`: it is none of ours.
fn cluster_of<'a>(binding: &'a ClusterRoleBinding, role: &str) -> Option<(&'a str, &'a str)> {
    let [subject] = binding.subjects.as_deref()? else {
        return None;
    };
    let id = Identity {
        namespace: subject.namespace.clone()?,
        name: subject.name.clone(),
        uid: String::new(),
        generation: 0,
        adopts: false,
    };
    let ours = binding.role_ref.name == role
        && binding.metadata.name.as_ref() == Some(&id.token_review_binding());
    let namespace = subject.namespace.as_deref()?;
    ours.then_some((namespace, &*subject.name))
}

/// Whether the cache pods need TokenReviews. A paused ReadStateCluster keeps its binding.
fn needs(cluster: &ReadStateCluster) -> bool {
    let access = cluster.spec.cache.access.iter();
    let mut callers = access.flat_map(|access| &access.callers);
    cluster.spec.paused || callers.any(|caller| caller.service_accounts.is_some())
}

async fn delete(
    bindings: &Api<ClusterRoleBinding>,
    binding: &ClusterRoleBinding,
) -> Result<(), Error> {
    let name = binding.name_any();
    let params = DeleteParams::default().preconditions(Preconditions {
        uid: binding.uid(),
        resource_version: binding.resource_version(),
    });
    match bindings.delete(&name, &params).await {
        Ok(_) => {
            tracing::info!(object = name, "deleted: no cache pod needs it any more");
            telemetry::wrote("ClusterRoleBinding");
            Ok(())
        }
        // Gone or replaced.
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        Err(source) => {
            let what = format!("ClusterRoleBinding {name}");
            Err(Error::Write { what, source })
        }
    }
}

#[cfg(test)]
mod tests {
    use http::StatusCode;
    use k8s_openapi::api::rbac::v1::ClusterRole;
    use kube::core::ObjectMeta;
    use serde_json::json;

    use super::*;
    use crate::{
        fake_api::{FakeApi, OURS},
        fixtures::{TOKEN_REVIEW, id},
        objects,
    };

    fn role() -> ClusterRole {
        ClusterRole {
            metadata: ObjectMeta {
                name: Some(TOKEN_REVIEW.to_owned()),
                uid: Some("uid-of-role".to_owned()),
                ..ObjectMeta::default()
            },
            ..ClusterRole::default()
        }
    }

    fn binding() -> ClusterRoleBinding {
        objects::token_review_binding(&id(), &role())
    }

    #[tokio::test]
    async fn a_cluster_that_cannot_be_read_keeps_only_its_own_binding() {
        let api = FakeApi::default();
        let path = |cluster: &str| {
            let all = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
            format!("{all}/readstates.dev:token-review:talk:{cluster}")
        };
        for name in ["a-later-one", "b-failing", "c-gone"] {
            let own = Identity {
                name: name.to_owned(),
                ..id()
            };
            let binding = objects::token_review_binding(&own, &role());
            api.put(&path(name), serde_json::to_value(binding).unwrap());
        }
        let spec = json!({ "database": { "engine": "NotYetInvented" } });
        let later = json!({ "metadata": { "name": "a-later-one" }, "spec": spec });
        api.put(&format!("{OURS}/readstateclusters/a-later-one"), later);
        let failing = format!("{OURS}/readstateclusters/b-failing");
        api.fail(&failing, StatusCode::INTERNAL_SERVER_ERROR);
        take_back(&api.client(), TOKEN_REVIEW).await.unwrap();
        assert_eq!(api.written(), [format!("DELETE {}", path("c-gone"))]);

        // One that cannot be deleted keeps no other either.
        api.take(&format!("{OURS}/readstateclusters/a-later-one"));
        let first = format!("DELETE {}", path("a-later-one"));
        api.heal();
        api.fail(&first, StatusCode::INTERNAL_SERVER_ERROR);
        take_back(&api.client(), TOKEN_REVIEW).await.unwrap();
        assert!(api.get(&path("a-later-one")).is_some());
        assert!(api.get(&path("b-failing")).is_none());
    }

    #[test]
    fn a_binding_tells_whose_it_is_and_goes_with_the_role() {
        let binding = binding();
        assert_eq!(binding.name_any(), "readstates.dev:token-review:talk:chat");
        assert_eq!(cluster_of(&binding, TOKEN_REVIEW), Some(("talk", "chat")));
        let owner = &binding.owner_references()[0];
        assert_eq!((&*owner.kind, &*owner.uid), ("ClusterRole", "uid-of-role"));
    }

    #[test]
    fn bindings_of_others_are_left_alone() {
        assert_eq!(cluster_of(&binding(), "cluster-admin"), None);
        let mut renamed = binding();
        renamed.metadata.name = Some("admins".to_owned());
        assert_eq!(cluster_of(&renamed, TOKEN_REVIEW), None);
        let mut wider = binding();
        let subjects = wider.subjects.as_mut().unwrap();
        subjects.push(subjects[0].clone());
        assert_eq!(cluster_of(&wider, TOKEN_REVIEW), None);
    }

    #[test]
    fn a_cluster_needs_it_while_a_caller_has_a_service_account_or_nothing_may_be_changed() {
        let needs = |cache: serde_json::Value, paused: bool| {
            let spec = json!({ "paused": paused, "cache": cache, "database": { "embedded": {} } });
            needs(&ReadStateCluster::new(
                "chat",
                serde_json::from_value(spec).unwrap(),
            ))
        };
        let caller =
            json!({ "name": "a", "verbs": ["read"], "serviceAccounts": [{ "name": "a" }] });
        let token = json!({ "name": "b", "verbs": ["read"], "tokenSecretRef": { "name": "b" } });
        assert!(needs(
            json!({ "access": { "callers": [token, caller] } }),
            false
        ));
        assert!(!needs(json!({ "access": { "callers": [token] } }), false));
        assert!(!needs(json!({}), false));
        assert!(needs(json!({}), true));
    }
}
