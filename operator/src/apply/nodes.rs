//! Carries out what was decided about the nodes of a database: the agents' token, deletions, orders. Every
//! deletion names what it means by UID.

use std::{fmt::Write as _, fs::File, io::Read};

use k8s_openapi::{
    ByteString, NamespaceResourceScope,
    api::core::v1::{PersistentVolumeClaim, Pod, Secret},
};
use kube::{
    Api, Client, Resource,
    api::{DeleteParams, PostParams, Preconditions},
};
use readstates_operator_api::labels::Component;
use serde::de::DeserializeOwned;

use crate::{
    agents::Agents,
    error::Error,
    known::kind,
    observe::{TOKEN_KEY, Token},
    plan::{DatabaseTrouble, Named, NodesStep, Order},
    telemetry,
    validate::Identity,
};

/// Bytes of randomness in a token.
const TOKEN_BYTES: usize = 32;

/// Carries it out. What an agent does not take is logged, and decided anew in the next round. What comes back is
/// what there was no right to do: the rest does not wait for it.
///
/// # Errors
/// When the API server cannot be talked to.
pub async fn carry_out(
    client: &Client,
    agents: &dyn Agents,
    id: &Identity,
    token: Option<&Token>,
    step: &NodesStep,
) -> Result<Option<DatabaseTrouble>, Error> {
    if step.make_token {
        make_token(client, id).await?;
    }
    delete::<Pod>(client, id, &step.pods_to_delete).await?;
    let kept = reclaim(client, id, &step.claims_to_delete).await?;
    if let Some(Token(token)) = token {
        for order in &step.orders {
            give(agents, token, order).await;
        }
    }
    Ok(kept)
}

/// The chart gives the right to delete claims only where it is asked to.
async fn reclaim(
    client: &Client,
    id: &Identity,
    claims: &[Named],
) -> Result<Option<DatabaseTrouble>, Error> {
    match delete::<PersistentVolumeClaim>(client, id, claims).await {
        Err(Error::Write {
            source: kube::Error::Api(status),
            ..
        }) if status.code == 403 => Ok(claims.first().map(|claim| {
            let claim = claim.name.clone();
            DatabaseTrouble::ReclaimForbidden { claim }
        })),
        other => other.map(|()| None),
    }
}

async fn give(agents: &dyn Agents, token: &str, order: &Order) {
    let (pod, what, taken) = match order {
        Order::Start { pod, order } => (pod, "start", agents.start(pod, token, order).await),
        Order::Decommission { pod, target } => {
            (pod, "leave", agents.decommission(pod, token, target).await)
        }
    };
    match taken {
        Ok(()) => tracing::info!(pod = pod.name, what, "told"),
        Err(error) => tracing::warn!(
            pod = pod.name,
            what,
            error,
            "the agent did not take the order"
        ),
    }
}

/// Made once, never changed: a token that is there is left alone.
async fn make_token(client: &Client, id: &Identity) -> Result<(), Error> {
    let name = id.agent_secret();
    let what = format!("Secret {name}");
    let token = random().map_err(|source| Error::Random { source })?;
    let secret = Secret {
        metadata: id.child(name, Component::Database),
        data: Some([(TOKEN_KEY.to_owned(), ByteString(token.into_bytes()))].into()),
        ..Secret::default()
    };
    let api: Api<Secret> = Api::namespaced(client.clone(), &id.namespace);
    match api.create(&PostParams::default(), &secret).await {
        Ok(_) => {
            telemetry::wrote("Secret");
            Ok(())
        }
        // Made by somebody else at the same time, or theirs: pods that cannot mount it will say so.
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        Err(source) => Err(Error::Write { what, source }),
    }
}

/// So many random bytes, as hexadecimal digits.
pub(super) fn random() -> std::io::Result<String> {
    let mut bytes = [0_u8; TOKEN_BYTES];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    }))
}

async fn delete<K>(client: &Client, id: &Identity, meant: &[Named]) -> Result<(), Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(client.clone(), &id.namespace);
    for Named { name, uid } in meant {
        let params = DeleteParams::default().preconditions(Preconditions {
            uid: Some(uid.clone()),
            resource_version: None,
        });
        let kind = kind::<K>();
        match api.delete(name, &params).await {
            Ok(_) => tracing::info!(kind, name, uid, namespace = id.namespace, "deleted"),
            // Gone, or another one by now: either way not the one that was meant.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
            Err(source) => {
                return Err(Error::Write {
                    what: format!("{kind} {name}"),
                    source,
                });
            }
        }
    }
    Ok(())
}
