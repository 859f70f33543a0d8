//! One reconcile: the table of contents of this crate.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use kube::{ResourceExt, runtime::controller::Action};
use readstates_operator_api::{
    DatabaseReplicationStage, DatabaseUpgrade, ReadStateCluster, ReadStateClusterStatus,
    labels::{self, Component},
};

use crate::{
    apply::{self, CarriedOut},
    connections::PodClients,
    context::Context,
    error::Error,
    known::Known,
    objects, observe,
    plan::{Plan, RolloutStep, WaitingOn, internode_stage, plan},
    spec::{Asked, Identity, Observed, ValidatedCluster},
    status::{self, Decided, Report},
    stop::{self, LOOK_SOON},
    telemetry::{self, Outcome, Step},
    validate::{InvalidSpec, validate},
    words::chain,
    world::{ClaimSeen, IdentitySeen, World},
};

/// How often a cluster is looked at when nothing happens: the columns show what cache pods say, and
/// nothing else tells when that changes.
const LOOK_AGAIN: Duration = Duration::from_secs(15);
/// The same while the database changes: agents have to be asked.
const LOOK_AGAIN_SOON: Duration = Duration::from_secs(3);

/// Brings a cluster one step nearer to its spec, and says how it is. While nothing happens, the API server is not asked.
///
/// # Errors
/// When the API server cannot be talked to.
pub async fn reconcile(known: Arc<ReadStateCluster>, ctx: Arc<Context>) -> Result<Action, Error> {
    if let Some(look) = ctx.remembered.quiet(&ctx.client, &known) {
        let ctx = ctx.with_client(look.client());
        let looked = Box::pin(look_at(&known, &ctx, Writes::Never)).await;
        // What it lacked, and what it would have done, is for a whole look.
        if let Ok(Looked {
            action,
            at_rest: true,
        }) = looked
        {
            return Ok(action);
        }
    }
    let look = ctx.remembered.whole(&ctx.client, &known);
    let whole = ctx.with_client(look.client());
    let looked = Box::pin(look_at(&known, &whole, Writes::Allowed)).await;
    let at_rest = looked.as_ref().is_ok_and(|looked| looked.at_rest);
    ctx.remembered.looked(&known, &look, at_rest);
    Ok(looked?.action)
}

/// Whether a look may lead to writes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Writes {
    Allowed,
    Never,
}

/// What came of a look.
struct Looked {
    action: Action,
    /// Nothing is to be done, nothing is waited for, and nothing moves.
    at_rest: bool,
}

impl Looked {
    fn then(action: Action) -> Self {
        let at_rest = false;
        Self { action, at_rest }
    }
}

/// Observes a cluster, plans, does what is planned, and writes the status.
async fn look_at(known: &ReadStateCluster, ctx: &Context, writes: Writes) -> Result<Looked, Error> {
    let started = Instant::now();
    // What the watch handed out may be old by now, and old news must not be acted on.
    let Some(cluster) = observe::cluster(ctx, known).await? else {
        ctx.failures.none(known);
        return Ok(Looked::then(Action::await_change()));
    };
    if cluster.metadata.deletion_timestamp.is_some() {
        let action = Box::pin(stop::go_on(ctx, &cluster)).await?;
        ctx.failures.none(&cluster);
        return Ok(Looked::then(action));
    }
    let now = Timestamp::now();
    // The largest steps are in boxes, so that the whole stays small.
    let seen = Box::pin(see(ctx, cluster, now)).await?;
    let observed = telemetry::stepped(Step::Observe, started);
    let (plan, done) = match &seen.valid {
        Ok(valid) => {
            let plan = plan(valid, &seen.world, now);
            if writes == Writes::Never && !rests(&plan, &seen.world) {
                return Ok(Looked::then(Action::await_change()));
            }
            let rollout = rollout(ctx, &seen.cluster, plan.rollout);
            let plan = Plan { rollout, ..plan };
            let planned = telemetry::stepped(Step::Plan, observed);
            let done = if valid.paused {
                Done::nothing(&seen.cluster)
            } else {
                Box::pin(carry_out(ctx, &seen, valid, &plan, now)).await?
            };
            telemetry::stepped(Step::Apply, planned);
            (plan, done)
        }
        Err(_) => (Plan::default(), Done::nothing(&seen.cluster)),
    };
    let outcome = tell(ctx, &seen, &plan, &done, now).await?;
    telemetry::reconciled(outcome, started.elapsed());
    let at_rest =
        seen.valid.is_ok() && rests(&plan, &seen.world) && done.carried_out.trouble.is_none();
    done.asked?;
    ctx.failures.none(&seen.cluster);
    Ok(Looked {
        at_rest,
        action: Action::requeue(look_again(&plan)),
    })
}

/// What a plan is made of.
struct Seen {
    id: Identity,
    cluster: ReadStateCluster,
    valid: Result<ValidatedCluster, InvalidSpec>,
    world: World,
    clients: PodClients,
}

/// Looks at everything of a cluster. Adopts what an earlier cluster of this name has left, and provides for its identity.
async fn see(ctx: &Context, cluster: ReadStateCluster, now: Timestamp) -> Result<Seen, Error> {
    let id = Identity::of(&cluster)?;
    let valid = validated(ctx, &id, &cluster);
    let cluster = Box::pin(stop::hold(ctx, cluster, valid.as_ref().ok())).await?;
    if valid.as_ref().is_ok_and(|valid| !valid.paused) {
        apply::adopt(&ctx.client, &id).await?;
    }
    let (identity, clients) = identity(ctx, &id, &cluster, valid.as_ref().ok(), now).await?;
    let world = Box::pin(observe::observe(ctx, &id, &cluster, identity, &clients)).await?;
    let valid = valid.map(|valid| {
        let observed = Observed {
            login: world.login(),
            certificates: world.certificates(),
            client_ca: world.has_client_ca(),
            internode: internode_stage(&valid, &world, now),
        };
        valid.seen(observed)
    });
    Ok(Seen {
        id,
        cluster,
        valid,
        world,
        clients,
    })
}

/// Writes the status, and gives the outcome that it tells.
async fn tell(
    ctx: &Context,
    seen: &Seen,
    plan: &Plan,
    done: &Done,
    now: Timestamp,
) -> Result<Outcome, Error> {
    let began = Instant::now();
    let spec = seen.valid.as_ref().map(|cluster| Decided {
        cluster,
        plan,
        done: &done.carried_out,
    });
    let report = Report {
        id: &seen.id,
        before: seen.cluster.status.as_ref(),
        world: &seen.world,
        spec,
        ending: None,
        now,
    };
    let status = ReadStateClusterStatus {
        monitoring: done.monitoring.clone(),
        ..status::status(&report)
    };
    status::publish(ctx, &seen.cluster, &status).await?;
    ctx.rollouts.written(&seen.cluster, &status);
    telemetry::stepped(Step::Status, began);
    Ok(status::outcome(&report))
}

/// The cluster as its spec and its annotations ask for it.
fn validated(
    ctx: &Context,
    id: &Identity,
    cluster: &ReadStateCluster,
) -> Result<ValidatedCluster, InvalidSpec> {
    let said = |annotation: &str| cluster.annotations().get(annotation);
    let valid = validate(id.clone(), &cluster.spec, &ctx.images)?;
    let status = cluster.status.as_ref();
    Ok(valid.asked(Asked {
        operator_namespace: &ctx.namespace,
        rotation: said(labels::ROTATE_IDENTITY),
        token_review_role: ctx.token_review_role.as_ref(),
        take_over_claim: said(labels::TAKE_OVER_CLAIM),
        window_until: said(labels::OPEN_WINDOW_UNTIL),
        replication: status.and_then(|status| status.database_replication.as_ref()),
    }))
}

/// What was decided of a rollout, unless another cluster has taken the place meanwhile.
fn rollout(ctx: &Context, cluster: &ReadStateCluster, planned: RolloutStep) -> RolloutStep {
    if planned == RolloutStep::Takes && !ctx.rollouts.take(cluster) {
        RolloutStep::refused()
    } else {
        planned
    }
}

/// What came of a plan.
struct Done {
    carried_out: CarriedOut,
    /// A failed request to a cache pod is returned only after the status is written, which shows how far things are.
    asked: Result<(), Error>,
    /// See `status.monitoring`.
    monitoring: Option<String>,
}

impl Done {
    /// What a cluster shows that nothing is done for.
    fn nothing(cluster: &ReadStateCluster) -> Self {
        let status = cluster.status.as_ref();
        Self {
            carried_out: CarriedOut::default(),
            asked: Ok(()),
            monitoring: status.and_then(|status| status.monitoring.clone()),
        }
    }
}

/// Carries out a plan, in the order in which one thing needs another.
async fn carry_out(
    ctx: &Context,
    seen: &Seen,
    valid: &ValidatedCluster,
    plan: &Plan,
    now: Timestamp,
) -> Result<Done, Error> {
    let Seen {
        id,
        cluster,
        world,
        clients,
        ..
    } = seen;
    let mut done = Done::nothing(cluster);
    apply::make_secrets(&ctx.client, id, plan.secrets).await?;
    apply::delete_jobs(&ctx.client, id, &plan.jobs_to_delete).await?;
    apply::make_claims(&ctx.client, id, &plan.claims_to_make).await?;
    let token = world.nodes.token.as_ref();
    let agents = (ctx.agents.as_ref(), clients);
    let carried_out = &mut done.carried_out;
    carried_out.trouble = apply::carry_out(&ctx.client, agents, id, token, &plan.database).await?;
    // What is done after it must not rest on what a watch told.
    let nothing = Known::default();
    let known = if plan.acts() { &nothing } else { &ctx.known };
    if let Some(role) = &plan.callers.review_by {
        carried_out.unbound = apply::bind_reviewers(&ctx.client, id, role).await?;
    }
    let objects = objects::objects(valid, plan);
    carried_out.applied = apply::apply(&ctx.client, known, id, &objects).await?;
    let action = plan.cache.as_ref().and_then(|cache| cache.action.as_ref());
    if let Some(action) = action.filter(|_| carried_out.applied.has_all_of(Component::Cache)) {
        done.asked = apply::act(ctx, clients, id, action).await;
    }
    if let Some(step) = &plan.identity {
        apply::write_identity(&ctx.client, valid, &world.identity, step, now).await?;
    }
    let monitors = objects::pod_monitors(valid);
    let before = done.monitoring.as_deref();
    let kept = apply::keep_pod_monitors(&ctx.client, id, &monitors, before);
    done.monitoring = Box::pin(kept).await?;
    Ok(done)
}

/// What pods and operator prove themselves by: made before pods are looked at, since members and agents tell only
/// an operator that does.
async fn identity(
    ctx: &Context,
    id: &Identity,
    cluster: &ReadStateCluster,
    valid: Option<&ValidatedCluster>,
    now: Timestamp,
) -> Result<(IdentitySeen, PodClients), Error> {
    let mut seen = observe::identity(&ctx.client, id, cluster).await?;
    if let Some(valid) = valid.filter(|valid| !valid.paused) {
        seen = apply::provide_identity(&ctx.client, valid, cluster, seen, now).await?;
    }
    let clients = ctx.connections.of(&id.uid, seen.own.as_ref());
    Ok((seen, clients))
}

/// Whether nothing is to be done, waited for or growing: what happens next is told by a pod, or by an event.
fn rests(plan: &Plan, world: &World) -> bool {
    let grows = |claim: &ClaimSeen| {
        let size = &claim.size;
        size.words.is_some() || (size.capacity.is_some() && size.capacity != size.requested)
    };
    !plan.acts()
        && plan.waiting.is_none()
        && plan.problem.is_none()
        && plan.identity.is_none()
        && plan.database.trouble.is_none()
        && !plan
            .database
            .upgrade
            .as_ref()
            .is_some_and(DatabaseUpgrade::goes_on)
        && !plan
            .database
            .replication
            .as_ref()
            .is_some_and(|copies| copies.stage != DatabaseReplicationStage::Stable)
        && plan.rollout == RolloutStep::default()
        && !world.nodes.claims.values().any(grows)
}

fn look_again(plan: &Plan) -> Duration {
    match &plan.waiting {
        Some(WaitingOn::Database(_) | WaitingOn::Rack { .. } | WaitingOn::Restore { .. }) => {
            LOOK_AGAIN_SOON
        }
        Some(waiting) if waiting.for_members() => LOOK_SOON,
        _ if plan.rollout == RolloutStep::Takes => LOOK_SOON,
        _ => LOOK_AGAIN,
    }
}

/// What to do after an error: it is in the log and the metrics, and the attempt is repeated, at growing distances.
#[must_use]
pub fn on_error(cluster: Arc<ReadStateCluster>, error: &Error, ctx: Arc<Context>) -> Action {
    let name = cluster.metadata.name.as_deref().unwrap_or_default();
    let namespace = cluster.metadata.namespace.as_deref().unwrap_or_default();
    tracing::warn!(name, namespace, error = chain(error), "failed to reconcile");
    telemetry::failed(error);
    let soon = error.retry_after();
    Action::requeue(if error.backs_off() {
        ctx.failures.another(&cluster, soon)
    } else {
        soon
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use readstates_operator_api::DatabaseUpgradeStage;

    use super::*;
    use crate::fixtures;

    #[test]
    fn a_cluster_is_judged_from_memory_at_rest_and_not_while_its_database_changes_its_release() {
        let at = |stage| {
            let mut plan = Plan::default();
            plan.database.upgrade = Some(DatabaseUpgrade {
                from: "cassandra:5.0.8".to_owned(),
                to: "cassandra:5.0.9".to_owned(),
                snapshot: "before".to_owned(),
                stage,
                since: Time(fixtures::now()),
            });
            rests(&plan, &World::default())
        };
        assert!(rests(&Plan::default(), &World::default()));
        for stage in [
            DatabaseUpgradeStage::Snapshotting,
            DatabaseUpgradeStage::Restarting,
            DatabaseUpgradeStage::Rewriting,
            DatabaseUpgradeStage::Releasing,
        ] {
            assert!(!at(stage), "{stage:?}");
        }
        assert!(at(DatabaseUpgradeStage::WentBack));
    }
}
