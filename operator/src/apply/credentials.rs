//! Creates the login Secrets of a managed database. Created once, never changed: a Secret that exists is left alone,
//! whatever created it. They have no owner: like the volumes, they stay when the cluster is deleted, since the database
//! on those volumes accepts no other login.

use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
};
use readstates_operator_api::labels::Component;

use super::{Refusal, nodes::random, rejected};
use crate::{
    error::Error,
    names::{PASSWORD_KEY, USERNAME_KEY},
    plan::SecretsToMake,
    spec::Identity,
    telemetry,
};

/// The role of cache pods.
const ROLE: &str = "readstates";

/// Makes them. What is refused keeps the other from being made: it is for the same reason, most likely.
///
/// # Errors
/// When the API server cannot be talked to.
pub async fn make_secrets(
    client: &Client,
    id: &Identity,
    make: SecretsToMake,
) -> Result<Option<Refusal>, Error> {
    let SecretsToMake { login, superuser } = make;
    for (user, name) in [
        (login.then_some(ROLE), id.login_secret()),
        (superuser, id.superuser_secret()),
    ] {
        let Some(user) = user else { continue };
        let refused = make_secret(client, id, name, user).await?;
        if refused.is_some() {
            return Ok(refused);
        }
    }
    Ok(None)
}

async fn make_secret(
    client: &Client,
    id: &Identity,
    name: String,
    user: &str,
) -> Result<Option<Refusal>, Error> {
    let component = Component::Database;
    let what = format!("Secret {name}");
    let password = random().map_err(|source| Error::Random { source })?;
    let content = [(USERNAME_KEY, user.to_owned()), (PASSWORD_KEY, password)];
    let secret = Secret {
        metadata: ObjectMeta {
            owner_references: None,
            ..id.child(name, component)
        },
        type_: Some("kubernetes.io/basic-auth".to_owned()),
        string_data: Some(content.map(|(key, value)| (key.to_owned(), value)).into()),
        ..Secret::default()
    };
    let api: Api<Secret> = Api::namespaced(client.clone(), &id.namespace);
    match api.create(&PostParams::default(), &secret).await {
        Ok(_) => {
            tracing::info!(object = what, namespace = id.namespace, "made");
            telemetry::wrote("Secret");
            Ok(None)
        }
        // A Secret was created meanwhile: it is used.
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(None),
        Err(source) => rejected(what, source).map(|why| Some(Refusal { component, why })),
    }
}
