//! Applies the ClusterRoleBinding for TokenReviews. A failure is reported and blocks nothing else: callers with tokens and
//! certificates work without it.

use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
};
use readstates_operator_api::labels;

use super::{unchanged, wish};
use crate::{error::Error, objects, spec::Identity, telemetry, templates};

/// Binds the cache pods of the cluster to the role. `Some`: why that cannot be, and what to do.
///
/// # Errors
/// When the API server cannot be talked to.
pub async fn bind_reviewers(
    client: &Client,
    id: &Identity,
    role: &str,
) -> Result<Option<String>, Error> {
    let roles: Api<ClusterRole> = Api::all(client.clone());
    let role = match read(&roles, role).await? {
        Ok(Some(found)) => found,
        Ok(None) => {
            let why = format!(
                "ClusterRole {role} does not exist; install the chart with rbac.tokenReviews=true"
            );
            return Ok(Some(why));
        }
        Err(refused) => return Ok(Some(refused)),
    };
    let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
    let desired = objects::token_review_binding(id, &role);
    let name = desired.name_any();
    let live = match read(&bindings, &name).await? {
        Ok(live) => live,
        Err(refused) => return Ok(Some(refused)),
    };
    if let Some(live) = &live {
        if live.labels().get(labels::CLUSTER) != Some(&id.name) {
            let why = format!(
                "ClusterRoleBinding {name} exists and was not made by the operator; delete it"
            );
            return Ok(Some(why));
        }
        if live.metadata.deletion_timestamp.is_some() {
            return Ok(Some(format!(
                "ClusterRoleBinding {name} is still being deleted"
            )));
        }
    }
    let what = format!("ClusterRoleBinding {name}");
    let encoded = |source| Error::Encode {
        what: what.clone(),
        source,
    };
    let wish =
        wish(&desired, live.as_ref(), &templates::applied_hash(&desired)).map_err(encoded)?;
    if let Some(live) = &live
        && unchanged::holds(&wish, &serde_json::to_value(live).map_err(encoded)?)
    {
        return Ok(None);
    }
    let params = PatchParams::apply(labels::MANAGER).force();
    match bindings.patch(&name, &params, &Patch::Apply(&wish)).await {
        Ok(_) => {
            tracing::info!(object = what, "applied");
            telemetry::wrote("ClusterRoleBinding");
            Ok(None)
        }
        Err(kube::Error::Api(status)) if matches!(status.code, 400 | 403 | 422) => {
            let why = format!("the API server refused {what}: {}", status.message);
            Ok(Some(why))
        }
        Err(source) => Err(Error::Write { what, source }),
    }
}

/// The object of this name, or that the operator may not read it.
async fn read<K>(api: &Api<K>, name: &str) -> Result<Result<Option<K>, String>, Error>
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let what = format!("{} {name}", K::kind(&()));
    match api.get_opt(name).await {
        Ok(found) => Ok(Ok(found)),
        Err(kube::Error::Api(status)) if status.code == 403 => {
            let words = status.message;
            let why = format!(
                "the operator may not read {what} ({words}); install its chart with rbac.tokenReviews=true"
            );
            Ok(Err(why))
        }
        Err(source) => Err(Error::Read { what, source }),
    }
}
