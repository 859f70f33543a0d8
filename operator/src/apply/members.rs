//! Asks members for what was decided, and deletes pods that hold nothing. In: one action. Out: nothing:
//! what came of it is seen at the next look. Never decides anything.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    api::{DeleteParams, Preconditions},
};

use crate::{
    admin::{AdminClient, AdminError},
    connections::{Peer, PodClients},
    context::Context,
    error::Error,
    names,
    plan::{MemberAction, PodRef},
    resize::{self, ResizeOutcome, Trial},
    spec::Identity,
    telemetry::{self, Action},
};

/// Does what was decided.
///
/// # Errors
/// When a member does not do as it is asked, or the API server cannot be talked to.
pub async fn act(
    ctx: &Context,
    clients: &PodClients,
    id: &Identity,
    action: &MemberAction,
) -> Result<(), Error> {
    let namespace = &id.namespace;
    let admin = AdminClient::new(clients);
    match action {
        MemberAction::Drain { pod, incarnation } => {
            let asked = admin.drain(peer(pod, "drain")?, incarnation).await;
            asked.map_err(|source| refused(pod, "drain", source))?;
            tracing::info!(pod = pod.name, namespace, incarnation, "asked to drain");
            telemetry::acted(Action::Drain);
        }
        MemberAction::Move { pod, request } => {
            let asked = admin.moves(peer(pod, "move slots")?, request).await;
            let answer = asked.map_err(|source| refused(pod, "move slots", source))?;
            tracing::info!(
                from = pod.name,
                to = request.destination.name,
                namespace,
                accepted = answer.accepted,
                ignored = answer.ignored,
                "asked to move slots"
            );
            telemetry::acted(Action::Move);
        }
        MemberAction::Capacity { pod, states } => {
            let asked = admin
                .capacity(peer(pod, "keep more or fewer states")?, *states)
                .await;
            asked.map_err(|source| refused(pod, "keep more or fewer states", source))?;
            tracing::info!(pod = pod.name, namespace, states, "told of its capacity");
            telemetry::acted(Action::Capacity);
        }
        MemberAction::Grow { pod, memory } => grow(ctx, id, pod, *memory).await,
        MemberAction::Delete { pod } => delete(ctx, id, pod).await?,
        MemberAction::FlushAndDelete { pod } => {
            let flushed = admin.flush(peer(pod, "flush")?).await;
            let flushed = flushed.map_err(|source| refused(pod, "flush", source))?;
            telemetry::acted(Action::Flush);
            if flushed.failed_users == 0 {
                delete(ctx, id, pod).await?;
            } else {
                // It stays; by the next look it says why it could not write.
                let failed_users = flushed.failed_users;
                tracing::warn!(pod = pod.name, namespace, failed_users, "could not flush");
            }
        }
    }
    Ok(())
}

/// What comes of it, and whether it may, is seen at the next look.
async fn grow(ctx: &Context, id: &Identity, pod: &PodRef, memory: u64) {
    let api: Api<Pod> = Api::namespaced(ctx.client.clone(), &id.namespace);
    let (pod, namespace) = (&pod.name, &id.namespace);
    match resize::memory(&api, pod, names::CACHE, memory, Trial::InEarnest).await {
        ResizeOutcome::Taken => {
            tracing::info!(pod, namespace, memory, "asked for more memory");
            telemetry::acted(Action::Grow);
        }
        ResizeOutcome::Refused(why) | ResizeOutcome::NotNow(why) => {
            tracing::warn!(pod, namespace, memory, why, "could not ask for more memory");
        }
    }
}

async fn delete(ctx: &Context, id: &Identity, pod: &PodRef) -> Result<(), Error> {
    let api: Api<Pod> = Api::namespaced(ctx.client.clone(), &id.namespace);
    let params = DeleteParams::default().preconditions(Preconditions {
        uid: Some(pod.uid.clone()),
        resource_version: None,
    });
    match api.delete(&pod.name, &params).await {
        Ok(_) => {
            tracing::info!(pod = pod.name, namespace = id.namespace, "deleted");
            telemetry::acted(Action::Delete);
            Ok(())
        }
        // Gone or replaced: either way the pod that was meant is gone.
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        Err(source) => Err(Error::Write {
            what: format!("Pod {}", pod.name),
            source,
        }),
    }
}

fn peer(pod: &PodRef, wish: &'static str) -> Result<Peer, Error> {
    let ip = pod.ip.as_deref().and_then(|ip| ip.parse::<IpAddr>().ok());
    let ip = ip.ok_or_else(|| Error::Unreachable {
        member: pod.name.clone(),
        wish,
    })?;
    let mutual_tls = pod.mutual_tls;
    Ok(Peer { ip, mutual_tls })
}

fn refused(pod: &PodRef, wish: &'static str, source: AdminError) -> Error {
    Error::Member {
        member: pod.name.clone(),
        wish,
        source,
    }
}
