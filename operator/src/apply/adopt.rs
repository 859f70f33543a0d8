//! Takes over what a cluster of the same name has left, as `kubectl delete --cascade=orphan` does, once a user has
//! consented: this cluster becomes the owner. Only for objects that are not applied; the others change with the next
//! apply.

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, api::PostParams};
use readstates_identity::Role;
use readstates_operator_api::ReadStateRing;
use serde::Serialize;

use crate::{error::Error, known::kind, namespaced::Namespaced, spec::Identity, telemetry};

/// Takes the ring and the Secrets over, if this cluster may.
///
/// # Errors
/// When the API server cannot be talked to, or does not take it.
pub async fn adopt(client: &Client, id: &Identity) -> Result<(), Error> {
    if !id.adopts {
        return Ok(());
    }
    one::<ReadStateRing>(client, id, &id.cache()).await?;
    let roles = [Role::Member, Role::Operator, Role::Agent].map(|role| id.identity_secret(role));
    let others = [id.identity_authority(), id.agent_secret(), id.access()];
    for name in roles.iter().chain(&others) {
        one::<Secret>(client, id, name).await?;
    }
    Ok(())
}

async fn one<K: Namespaced + Serialize>(
    client: &Client,
    id: &Identity,
    name: &str,
) -> Result<(), Error> {
    let what = || format!("{} {name}", kind::<K>());
    let api: Api<K> = Api::namespaced(client.clone(), &id.namespace);
    let live = api.get_opt(name).await.map_err(|source| Error::Read {
        what: what(),
        source,
    })?;
    let Some(live) = live.filter(|live| id.owns(live.meta())) else {
        return Ok(());
    };
    let mut next = live;
    let owners = next.meta_mut().owner_references.get_or_insert_default();
    if owners.iter().any(|owner| owner.uid == id.uid) {
        return Ok(());
    }
    owners.push(id.owner_reference());
    // Exactly the one that was looked at, by its version.
    match api.replace(name, &PostParams::default(), &next).await {
        Ok(_) => {
            tracing::info!(object = what(), namespace = id.namespace, "taken over");
            telemetry::wrote(kind::<K>());
            Ok(())
        }
        // The objects that are applied are refused in the same words, which the status then has.
        Err(kube::Error::Api(status)) if status.code == 403 => {
            let (object, message) = (what(), status.message);
            tracing::warn!(
                object,
                namespace = id.namespace,
                "not taken over: {message}"
            );
            Ok(())
        }
        Err(source) => Err(Error::Write {
            what: what(),
            source,
        }),
    }
}
