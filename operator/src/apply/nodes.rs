//! Carries out what was decided about the nodes of a database: deletions, larger volumes, and orders. Every
//! deletion and every growth names what it means by UID.

use std::{fmt::Write as _, fs::File, io::Read};

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
};
use readstates_operator_api::labels::{self, Component};
use serde_json::json;

use super::{Refusal, rejected};
use crate::{
    agents::Agents,
    connections::PodClients,
    error::Error,
    known::kind,
    namespaced::Namespaced,
    plan::{DatabaseTrouble, Growth, Named, NodesStep, Order},
    spec::Identity,
    world::Token,
};

/// Bytes of randomness in a password.
const RANDOM_BYTES: usize = 32;

/// Carries the step out. What an agent refuses is logged, and decided again in the next round. Returns what the
/// operator has no right to do; the rest does not wait for it.
///
/// # Errors
/// When the API server cannot be talked to.
pub async fn carry_out(
    client: &Client,
    asked: (&dyn Agents, &PodClients),
    id: &Identity,
    token: Option<&Token>,
    step: &NodesStep,
) -> Result<Option<DatabaseTrouble>, Error> {
    delete::<Pod>(client, id, &step.pods_to_delete).await?;
    let kept = reclaim(client, id, &step.claims_to_delete).await?;
    let refused = grow(client, id, &step.claims_to_grow).await?;
    for order in &step.orders {
        give(asked, token.map(|Token(token)| token.as_str()), order).await;
    }
    Ok(kept.or(refused))
}

/// Has claims ask for more. One that is refused keeps the others from asking: it is for the same reason, most likely, and
/// they ask in the next round.
async fn grow(
    client: &Client,
    id: &Identity,
    claims: &[Growth],
) -> Result<Option<DatabaseTrouble>, Error> {
    let api: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), &id.namespace);
    let params = PatchParams {
        field_manager: Some(labels::MANAGER.to_owned()),
        ..PatchParams::default()
    };
    for Growth { claim, size } in claims {
        let Named { name, uid } = claim;
        let wish = json!({
            // Another claim that has taken its place is refused.
            "metadata": { "uid": uid },
            "spec": { "resources": { "requests": { "storage": size } } },
        });
        match api.patch(name, &params, &Patch::Merge(&wish)).await {
            Ok(_) => {
                tracing::info!(
                    claim = name,
                    size,
                    namespace = id.namespace,
                    "asks for more"
                );
            }
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
            Err(kube::Error::Api(status)) if matches!(status.code, 403 | 422) => {
                return Ok(Some(DatabaseTrouble::NotGrown {
                    claim: name.clone(),
                    size: size.clone(),
                    error: status.message,
                }));
            }
            Err(source) => {
                return Err(Error::Write {
                    what: format!("PersistentVolumeClaim {name}"),
                    source,
                });
            }
        }
    }
    Ok(None)
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

async fn give((agents, clients): (&dyn Agents, &PodClients), token: Option<&str>, order: &Order) {
    let (pod, what, taken) = match order {
        Order::Start { pod, order } => {
            let taken = agents.start(clients, pod, token, order).await;
            (pod, "start", taken)
        }
        Order::Decommission { pod, target } => {
            let taken = agents.decommission(clients, pod, token, target).await;
            (pod, "leave", taken)
        }
        Order::Cleanup { pod, order } => {
            let taken = agents.cleanup(clients, pod, order).await;
            (pod, "clean up", taken)
        }
        Order::Repair { pod, order } => {
            let taken = agents.repair(clients, pod, order).await;
            (pod, "repair", taken)
        }
        Order::Upgrade { pod, order } => {
            let taken = agents.upgrade(clients, pod, order).await;
            (pod, "take a step of an upgrade", taken)
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

/// Makes claims. One whose name is taken is looked at in the next round; one that is refused keeps the others from being
/// made: it is for the same reason, most likely.
///
/// # Errors
/// When the API server cannot be talked to.
pub async fn make_claims(
    client: &Client,
    id: &Identity,
    claims: &[PersistentVolumeClaim],
) -> Result<Option<Refusal>, Error> {
    let api: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), &id.namespace);
    let params = PostParams {
        field_manager: Some(labels::MANAGER.to_owned()),
        ..PostParams::default()
    };
    for claim in claims {
        let name = claim.name_any();
        match api.create(&params, claim).await {
            Ok(_) => tracing::info!(
                claim = name,
                namespace = id.namespace,
                "made from a snapshot"
            ),
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(source) => {
                let component = Component::Database;
                let refused = rejected(format!("PersistentVolumeClaim {name}"), source);
                return refused.map(|why| Some(Refusal { component, why }));
            }
        }
    }
    Ok(None)
}

/// So many random bytes, as hexadecimal digits.
pub(super) fn random() -> std::io::Result<String> {
    let mut bytes = [0_u8; RANDOM_BYTES];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    }))
}

async fn delete<K: Namespaced>(
    client: &Client,
    id: &Identity,
    meant: &[Named],
) -> Result<(), Error> {
    let api: Api<K> = Api::namespaced(client.clone(), &id.namespace);
    for Named { name, uid } in meant {
        let params = DeleteParams::default().preconditions(Preconditions {
            uid: Some(uid.clone()),
            resource_version: None,
        });
        let kind = kind::<K>();
        match api.delete(name, &params).await {
            Ok(_) => tracing::info!(kind, name, uid, namespace = id.namespace, "deleted"),
            // Gone or replaced: either way the object that was meant is gone.
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
