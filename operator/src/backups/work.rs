//! What is done to a Job, a CronJob or a VolumeSnapshot that is there. One that is gone needs nothing done.

use kube::{
    Api, Resource,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
};
use readstates_operator_api::labels;
use serde_json::json;

use super::api;
use crate::{context::Context, error::Error, namespaced::Namespaced, spec::BackupOwner};

/// Has it begin nothing, or go on. Kubernetes ends the pods of a suspended Job, and makes others when it goes on; a
/// CronJob begins no Jobs, and the next one that is applied takes that back.
///
/// # Errors
/// When the API server does not take it.
pub(crate) async fn suspend<K: Namespaced>(
    ctx: &Context,
    owner: &BackupOwner,
    name: &str,
    suspend: bool,
) -> Result<(), Error> {
    let api: Api<K> = api(ctx, Some(&owner.id.namespace));
    let params = PatchParams {
        field_manager: Some(labels::MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let patch = Patch::Merge(json!({ "spec": { "suspend": suspend } }));
    let patched = api.patch(name, &params, &patch).await;
    unless_gone::<K, _>(name, patched, &[404])
}

/// Deletes the one with this UID.
///
/// # Errors
/// When the API server does not take it.
pub(crate) async fn delete<K: Namespaced>(
    ctx: &Context,
    owner: &BackupOwner,
    (name, uid): (&str, &str),
    params: DeleteParams,
) -> Result<(), Error> {
    let api: Api<K> = api(ctx, Some(&owner.id.namespace));
    let params = params.preconditions(Preconditions {
        uid: Some(uid.to_owned()),
        resource_version: None,
    });
    let deleted = api.delete(name, &params).await;
    // Replaced is gone, too.
    unless_gone::<K, _>(name, deleted, &[404, 409])
}

fn unless_gone<K, T>(name: &str, done: kube::Result<T>, gone: &[u16]) -> Result<(), Error>
where
    K: Resource<DynamicType = ()>,
{
    match done {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if gone.contains(&status.code) => Ok(()),
        Err(source) => Err(Error::Write {
            what: format!("{} {name}", K::kind(&())),
            source,
        }),
    }
}
