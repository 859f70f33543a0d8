//! Writes the Secret with the API's callers: made where there is none, replaced where it says something else. Another
//! process that wrote it meanwhile is not overwritten: it is looked at again.

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, ResourceExt, api::PostParams};
use readstates_operator_api::labels;

use super::{Blocked, foreign, rejected};
use crate::{error::Error, spec::Identity, telemetry};

pub(super) async fn put(
    client: &Client,
    id: &Identity,
    desired: &Secret,
) -> Result<Option<Blocked>, Error> {
    let name = desired.name_any();
    let what = format!("Secret {name}");
    let api: Api<Secret> = Api::namespaced(client.clone(), &id.namespace);
    let live = api.get_opt(&name).await.map_err(|source| Error::Read {
        what: what.clone(),
        source,
    })?;
    let params = PostParams {
        field_manager: Some(labels::MANAGER.to_owned()),
        ..PostParams::default()
    };
    let written = match live {
        None => api.create(&params, desired).await,
        Some(live) => {
            if let Some(blocked) = foreign(&live, id, &what) {
                return Ok(Some(blocked));
            }
            if live.data == desired.data {
                return Ok(None);
            }
            let mut next = live;
            next.data.clone_from(&desired.data);
            next.metadata.managed_fields = None;
            api.replace(&name, &params, &next).await
        }
    };
    if let Err(source) = written {
        return rejected(what, source).map(Some);
    }
    tracing::info!(object = what, namespace = id.namespace, "applied");
    telemetry::wrote("Secret");
    Ok(None)
}
