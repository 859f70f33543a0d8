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
    apply::{self, CarriedOut, Refusal},
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
    world::{ClaimSeen, World},
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
    let (seen, prepared) = Box::pin(see(ctx, cluster, now)).await?;
    let observed = telemetry::stepped(Step::Observe, started);
    let nothing = || Done::nothing(&seen.cluster);
    let (plan, (done, ended)) = match &seen.valid {
        Ok(valid) => {
            let plan = plan(valid, &seen.world, now);
            if writes == Writes::Never && !rests(&plan, &seen.world) {
                return Ok(Looked::then(Action::await_change()));
            }
            let rollout = rollout(ctx, &seen.cluster, plan.rollout);
            let plan = Plan { rollout, ..plan };
            let planned = telemetry::stepped(Step::Plan, observed);
            let done = match prepared {
                Ok(()) if !valid.paused => Box::pin(carry_out(ctx, &seen, valid, &plan, now)).await,
                prepared => (nothing(), prepared),
            };
            telemetry::stepped(Step::Apply, planned);
            (plan, done)
        }
        Err(_) => (Plan::default(), (nothing(), prepared)),
    };
    let ended = match ended {
        // Another look follows at once, which tells more: a whole one, or one at what has changed meanwhile.
        Err(error) if writes == Writes::Never || error.is_outdated() => return Err(error),
        ended => ended,
    };
    let done = done.after(seen.refused.clone(), ended.as_ref().err());
    let told = tell(ctx, &seen, &plan, &done, now).await;
    // What failed first is why.
    ended?;
    telemetry::reconciled(told?, started.elapsed());
    let at_rest =
        seen.valid.is_ok() && rests(&plan, &seen.world) && done.carried_out.trouble.is_none();
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
    /// Of what processes prove themselves by, what could not be written.
    refused: Option<Refusal>,
}

/// Looks at everything of a cluster. Before that, adopts what an earlier cluster of this name has left, and provides for
/// its identity; how that ended.
async fn see(
    ctx: &Context,
    cluster: ReadStateCluster,
    now: Timestamp,
) -> Result<(Seen, Result<(), Error>), Error> {
    let id = Identity::of(&cluster)?;
    let valid = validated(ctx, &id, &cluster);
    let (cluster, prepared) = match &valid {
        Ok(valid) if !valid.paused => Box::pin(take_up(ctx, &id, cluster, valid)).await,
        Ok(_) | Err(_) => (cluster, Ok(())),
    };
    let mut identity = observe::identity(&ctx.client, &id, &cluster).await?;
    let provided = match (&valid, prepared) {
        // Before pods are looked at, since members and agents tell only an operator that has a certificate.
        (Ok(valid), Ok(())) => {
            apply::provide_identity(&ctx.client, valid, &cluster, &mut identity, now).await
        }
        (_, prepared) => prepared.map(|()| None),
    };
    let (refused, prepared) = match provided {
        Ok(refused) => (refused, Ok(())),
        Err(error) => (None, Err(error)),
    };
    let clients = ctx.connections.of(&id.uid, identity.own.as_ref());
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
    let seen = Seen {
        id,
        cluster,
        valid,
        world,
        clients,
        refused,
    };
    Ok((seen, prepared))
}

/// Has a cluster held when it is deleted, and adopts what an earlier one has left: the cluster as it is then, and how that
/// ended.
async fn take_up(
    ctx: &Context,
    id: &Identity,
    cluster: ReadStateCluster,
    valid: &ValidatedCluster,
) -> (ReadStateCluster, Result<(), Error>) {
    let held = stop::hold(ctx, &cluster, valid).await;
    let cluster = match held {
        Ok(held) => held.unwrap_or(cluster),
        Err(error) => return (cluster, Err(error)),
    };
    let adopted = apply::adopt(&ctx.client, id).await;
    (cluster, adopted)
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
    /// See `status.monitoring`.
    monitoring: Option<String>,
}

impl Done {
    /// What a cluster shows that nothing is done for.
    fn nothing(cluster: &ReadStateCluster) -> Self {
        let status = cluster.status.as_ref();
        Self {
            carried_out: CarriedOut {
                nodes_wait: true,
                ..CarriedOut::default()
            },
            monitoring: status.and_then(|status| status.monitoring.clone()),
        }
    }

    /// With what was refused before, and what ended it.
    fn after(mut self, refused: Option<Refusal>, error: Option<&Error>) -> Self {
        self.carried_out.applied.refuse(refused);
        self.carried_out.failed = error.and_then(Error::told);
        self
    }
}

/// Carries out a plan. The first error ends that, and is returned only after the status is written, which shows how far
/// things are.
async fn carry_out(
    ctx: &Context,
    seen: &Seen,
    valid: &ValidatedCluster,
    plan: &Plan,
    now: Timestamp,
) -> (Done, Result<(), Error>) {
    let mut done = Done::nothing(&seen.cluster);
    let ended = Box::pin(go_through(ctx, seen, valid, plan, now, &mut done)).await;
    (done, ended)
}

/// Everything that is planned, in the order in which one thing needs another.
async fn go_through(
    ctx: &Context,
    seen: &Seen,
    valid: &ValidatedCluster,
    plan: &Plan,
    now: Timestamp,
    done: &mut Done,
) -> Result<(), Error> {
    let Seen {
        id, world, clients, ..
    } = seen;
    let carried_out = &mut done.carried_out;
    let refused = apply::make_secrets(&ctx.client, id, plan.secrets).await?;
    carried_out.applied.refuse(refused);
    apply::delete_jobs(&ctx.client, id, &plan.jobs_to_delete).await?;
    let refused = apply::make_claims(&ctx.client, id, &plan.claims_to_make).await?;
    carried_out.applied.refuse(refused);
    let token = world.nodes.token.as_ref();
    let agents = (ctx.agents.as_ref(), clients);
    carried_out.trouble = apply::carry_out(&ctx.client, agents, id, token, &plan.database).await?;
    carried_out.nodes_wait = false;
    // What is done after it must not rest on what a watch told.
    let nothing = Known::default();
    let known = if plan.acts() { &nothing } else { &ctx.known };
    if let Some(role) = &plan.callers.review_by {
        carried_out.unbound = apply::bind_reviewers(&ctx.client, id, role).await?;
    }
    let objects = objects::objects(valid, plan);
    apply::apply_after(&mut carried_out.applied, &ctx.client, known, id, &objects).await?;
    let action = plan.cache.as_ref().and_then(|cache| cache.action.as_ref());
    let asked = match action.filter(|_| carried_out.applied.has_all_of(Component::Cache)) {
        Some(action) => apply::act(ctx, clients, id, action).await,
        None => Ok(()),
    };
    // It waits for no cache pod.
    let rest = Box::pin(rotate_and_monitor(ctx, seen, valid, plan, now, done)).await;
    asked.and(rest)
}

async fn rotate_and_monitor(
    ctx: &Context,
    seen: &Seen,
    valid: &ValidatedCluster,
    plan: &Plan,
    now: Timestamp,
    done: &mut Done,
) -> Result<(), Error> {
    if let Some(step) = &plan.identity {
        let identity = &seen.world.identity;
        let refused = apply::write_identity(&ctx.client, valid, identity, step, now).await?;
        done.carried_out.applied.refuse(refused);
    }
    let monitors = objects::pod_monitors(valid);
    let before = done.monitoring.as_deref();
    let kept = apply::keep_pod_monitors(&ctx.client, &seen.id, &monitors, before);
    done.monitoring = Box::pin(kept).await?;
    Ok(())
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
mod tests;
