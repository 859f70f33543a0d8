//! Orderly end of a deleted cluster with a database of its own: a finalizer holds it until its cache pods have written
//! what they hold. Everything else, the database too, is garbage-collected after that. In: a deleted cluster. Out: one
//! step nearer to its end, reported in status and events.
//!
//! Only clusters with a database of their own have the finalizer: an external database stays when they go.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::StatefulSet;
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
    runtime::{controller::Action, events::EventType},
};
use readstates_operator_api::{ReadStateCluster, conditions::Reason, labels};
use serde_json::json;

use crate::{
    apply::CarriedOut,
    context::Context,
    error::Error,
    observe,
    plan::{Elapsed, NodesStep, Plan, STOP_LIMIT, StopStep, WaitingOn, stop},
    spec::{Identity, Store, ValidatedCluster},
    status::{self, Decided, Report},
    validate::validate,
    words::chain,
    world::World,
};

/// How soon a cluster is looked at again while members move slots: their steps are seen only by looking.
pub(crate) const LOOK_SOON: Duration = Duration::from_secs(2);

/// Kubernetes' finalizer of an object whose dependents are to stay.
const ORPHANS: &str = "orphan";

/// Has the cluster held when it is deleted, if it has a database that would go with it. The cluster as it is then; none:
/// it is as it was.
///
/// # Errors
/// When the API server does not take it.
pub async fn hold(
    ctx: &Context,
    cluster: &ReadStateCluster,
    valid: &ValidatedCluster,
) -> Result<Option<ReadStateCluster>, Error> {
    let managed = match valid.store {
        Store::Managed(_) => true,
        Store::External(_) | Store::Embedded(_) => false,
    };
    if !managed || is_held(cluster) {
        return Ok(None);
    }
    let mut finalizers = cluster.finalizers().to_vec();
    finalizers.push(labels::STOP_IN_ORDER.to_owned());
    set_finalizers(ctx, cluster, &finalizers).await.map(Some)
}

/// Brings a deleted cluster one step nearer to its end.
///
/// # Errors
/// When the API server cannot be talked to.
pub async fn go_on(ctx: &Context, cluster: &ReadStateCluster) -> Result<Action, Error> {
    let asked = cluster.metadata.deletion_timestamp.as_ref();
    let Some(asked) = asked.filter(|_| is_held(cluster)) else {
        // Owner references take the children; the volumes stay.
        return Ok(Action::await_change());
    };
    if cluster.finalizers().iter().any(|one| one == ORPHANS) {
        let words = "deleted without its objects (--cascade=orphan): nothing is stopped, and everything stays";
        let reason = Reason::LeftRunning;
        let_go(ctx, cluster, EventType::Normal, reason, words).await?;
        return Ok(Action::await_change());
    }
    let id = Identity::of(cluster)?;
    let before = cluster.status.as_ref().and_then(|s| s.waiting_on.as_ref());
    let elapsed = Elapsed {
        asked: asked.0,
        before,
        now: Timestamp::now(),
    };
    let world = match look(ctx, &id, cluster).await {
        Ok(world) => world,
        Err(error) if is_hopeless(&error, elapsed) => {
            let words = unseen(&error);
            let (type_, reason) = (EventType::Warning, Reason::StopTimedOut);
            let_go(ctx, cluster, type_, reason, &words).await?;
            return Ok(Action::requeue(LOOK_SOON));
        }
        Err(error) => return Err(error),
    };
    match stop(&world, elapsed) {
        StopStep::StopCache { version, waiting } => {
            tell(ctx, &id, cluster, &world, waiting).await?;
            stop_cache(ctx, &id, version).await?;
        }
        StopStep::Wait(waiting) => tell(ctx, &id, cluster, &world, waiting).await?,
        StopStep::Stopped => {
            let words = "every cache pod has stopped; the database goes";
            let_go(
                ctx,
                cluster,
                EventType::Normal,
                Reason::StoppedInOrder,
                words,
            )
            .await?;
        }
        StopStep::GivenUp { words } => {
            let_go(
                ctx,
                cluster,
                EventType::Warning,
                Reason::StopTimedOut,
                &words,
            )
            .await?;
        }
    }
    Ok(Action::requeue(LOOK_SOON))
}

async fn look(ctx: &Context, id: &Identity, cluster: &ReadStateCluster) -> Result<World, Error> {
    let identity = observe::identity(&ctx.client, id, cluster).await?;
    let clients = ctx.connections.of(&id.uid, identity.own.as_ref());
    Box::pin(observe::observe(ctx, id, cluster, identity, &clients)).await
}

/// Whether a cluster that cannot be looked at is not held any longer: what is refused, as without the rights that an
/// operator of some namespaces only loses with such a namespace, is refused for ever.
fn is_hopeless(error: &Error, elapsed: Elapsed<'_>) -> bool {
    !error.retryable() && elapsed.in_all() >= STOP_LIMIT
}

fn unseen(error: &Error) -> String {
    let minutes = STOP_LIMIT.as_secs() / 60;
    let why = chain(error);
    format!(
        "after {minutes} minutes the database goes all the same, and what its cache holds is unknown: {why}"
    )
}

fn is_held(cluster: &ReadStateCluster) -> bool {
    let mut finalizers = cluster.finalizers().iter();
    finalizers.any(|one| one == labels::STOP_IN_ORDER)
}

/// No pods, of the very version that was looked at: each is told to stop, and writes what it holds.
async fn stop_cache(ctx: &Context, id: &Identity, version: Option<String>) -> Result<(), Error> {
    let name = id.cache();
    let api: Api<StatefulSet> = Api::namespaced(ctx.client.clone(), &id.namespace);
    let none = json!({ "metadata": { "resourceVersion": version }, "spec": { "replicas": 0 } });
    let params = PatchParams {
        field_manager: Some(labels::MANAGER.to_owned()),
        ..PatchParams::default()
    };
    match api.patch(&name, &params, &Patch::Merge(none)).await {
        Ok(_) => Ok(()),
        // Gone or changed: the next round looks again.
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        Err(source) => Err(Error::Write {
            what: format!("StatefulSet {name}"),
            source,
        }),
    }
}

async fn tell(
    ctx: &Context,
    id: &Identity,
    cluster: &ReadStateCluster,
    world: &World,
    waiting: WaitingOn,
) -> Result<(), Error> {
    let valid = validate(id.clone(), &cluster.spec, &ctx.images);
    let plan = Plan {
        database: NodesStep {
            records: world.records.clone(),
            upgrade: world.upgrade.clone(),
            replication: world.replication.clone(),
            ..NodesStep::default()
        },
        ..Plan::default()
    };
    let done = CarriedOut::default();
    let spec = valid.as_ref().map(|valid| Decided {
        cluster: valid,
        plan: &plan,
        done: &done,
    });
    let report = Report {
        id,
        before: cluster.status.as_ref(),
        world,
        spec,
        ending: Some(&waiting),
        now: Timestamp::now(),
    };
    status::publish(ctx, cluster, &status::status(&report)).await
}

/// Lets the cluster go, and says why.
async fn let_go(
    ctx: &Context,
    cluster: &ReadStateCluster,
    type_: EventType,
    reason: Reason,
    words: &str,
) -> Result<(), Error> {
    status::tell(ctx, cluster, type_, reason, words).await;
    let others = cluster.finalizers().iter();
    let others: Vec<_> = others
        .filter(|one| *one != labels::STOP_IN_ORDER)
        .cloned()
        .collect();
    match set_finalizers(ctx, cluster, &others).await {
        // Gone already.
        Err(Error::Write {
            source: kube::Error::Api(status),
            ..
        }) if status.code == 404 => Ok(()),
        outcome => outcome.map(drop),
    }
}

async fn set_finalizers(
    ctx: &Context,
    cluster: &ReadStateCluster,
    finalizers: &[String],
) -> Result<ReadStateCluster, Error> {
    let name = cluster.name_any();
    let namespace = cluster.namespace().unwrap_or_default();
    let api: Api<ReadStateCluster> = Api::namespaced(ctx.client.clone(), &namespace);
    let patch = json!({ "metadata": {
        "finalizers": finalizers,
        // The write fails if another finalizer was added meanwhile.
        "resourceVersion": cluster.metadata.resource_version,
    } });
    api.patch(&name, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .map_err(|source| Error::Write {
            what: format!("the finalizers of ReadStateCluster {name}"),
            source,
        })
}

#[cfg(test)]
mod tests {
    use http::StatusCode;
    use jiff::SignedDuration;

    use super::*;

    fn failed(status: StatusCode) -> Error {
        let answer = kube::core::Status::failure("no", "No").with_code(status.as_u16());
        Error::Read {
            what: "the pods of chat".to_owned(),
            source: kube::Error::Api(Box::new(answer)),
        }
    }

    #[test]
    fn a_cluster_that_may_not_be_looked_at_is_held_no_longer_than_any_other() {
        let now = Timestamp::now();
        let hopeless = |status, minutes| {
            let elapsed = Elapsed {
                asked: now - SignedDuration::from_mins(minutes),
                before: None,
                now,
            };
            is_hopeless(&failed(status), elapsed)
        };
        assert!(!hopeless(StatusCode::FORBIDDEN, 14));
        assert!(hopeless(StatusCode::FORBIDDEN, 15));
        assert!(!hopeless(StatusCode::FORBIDDEN, -60));
        assert!(!hopeless(StatusCode::SERVICE_UNAVAILABLE, 60));
        let words = unseen(&failed(StatusCode::FORBIDDEN));
        assert!(words.contains("failed to read the pods of chat"), "{words}");
    }
}
