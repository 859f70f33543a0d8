//! One reconcile: the table of contents of this crate.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use kube::{ResourceExt, runtime::controller::Action};
use readstates_operator_api::{
    ReadStateCluster, ReadStateClusterStatus,
    labels::{self, Component},
};

use crate::{
    apply::{self, Applied},
    build,
    connections::PodClients,
    context::Context,
    error::Error,
    known::Known,
    observe::{self, IdentitySeen},
    plan::{Plan, RolloutStep, WaitingOn, plan},
    status::{self, Decided, Report},
    stop,
    telemetry::{self, Step},
    validate::{Identity, ValidatedCluster, validate},
};

/// How often a cluster is looked at when nothing happens: the columns show what cache pods say, and
/// nothing else tells when that changes.
const LOOK_AGAIN: Duration = Duration::from_secs(15);
/// The same while members move slots: their steps are seen only by looking.
pub(crate) const LOOK_SOON: Duration = Duration::from_secs(2);

/// The same while the database changes: agents have to be asked.
const LOOK_AGAIN_SOON: Duration = Duration::from_secs(3);

/// Brings a cluster one step nearer to its spec, and says how it is.
///
/// # Errors
/// When the API server cannot be talked to.
pub async fn reconcile(known: Arc<ReadStateCluster>, ctx: Arc<Context>) -> Result<Action, Error> {
    let started = Instant::now();
    // What the watch handed out may be old by now, and old news must not be acted on.
    let Some(cluster) = observe::cluster(&ctx, &known).await? else {
        ctx.failures.none(&known);
        return Ok(Action::await_change());
    };
    if cluster.metadata.deletion_timestamp.is_some() {
        let action = Box::pin(stop::go_on(&ctx, &cluster)).await?;
        ctx.failures.none(&cluster);
        return Ok(action);
    }
    let id = Identity::of(&cluster)?;
    let now = Timestamp::now();
    let rotation = cluster.annotations().get(labels::ROTATE_IDENTITY);
    let claim = cluster.annotations().get(labels::TAKE_OVER_CLAIM);
    let window = cluster.annotations().get(labels::OPEN_WINDOW_UNTIL);
    let valid = validate(id.clone(), &cluster.spec, &ctx.images).map(|valid| {
        valid
            .asked_of(&ctx.namespace, rotation, ctx.token_review_role.as_ref())
            .taking_over(claim)
            .open_until(window)
    });
    let cluster = Box::pin(stop::hold(&ctx, cluster, valid.as_ref().ok())).await?;
    if valid.as_ref().is_ok_and(|valid| !valid.paused) {
        apply::adopt(&ctx.client, &id).await?;
    }
    let (identity, clients) = identity(&ctx, &id, &cluster, valid.as_ref().ok(), now).await?;
    // The largest steps are in boxes, so that the whole stays small.
    let world = observe::observe(&ctx, &id, &cluster, identity, &clients);
    let world = Box::pin(world).await?;
    let observed = telemetry::stepped(Step::Observe, started);
    let valid = valid.map(|valid| {
        let (login, certificates) = (world.login(), world.certificates());
        valid.seen(login, certificates, world.has_client_ca())
    });

    // A failed request to a member is returned only after the status is written, which shows how far things are.
    let mut asked = Ok(());
    let mut monitoring = cluster.status.as_ref().and_then(|s| s.monitoring.clone());
    let (plan, applied) = match &valid {
        Ok(valid) => {
            let mut plan = plan(valid, &world, now);
            if plan.rollout == RolloutStep::Takes && !ctx.rollouts.take(&cluster) {
                plan.rollout = RolloutStep::refused();
            }
            let planned = telemetry::stepped(Step::Plan, observed);
            let applied = if valid.paused {
                Applied::All
            } else {
                apply::make_secrets(&ctx.client, &id, plan.secrets).await?;
                apply::delete_jobs(&ctx.client, &id, &plan.jobs_to_delete).await?;
                let token = world.nodes.token.as_ref();
                let agents = (ctx.agents.as_ref(), &clients);
                let nodes = &plan.database;
                let kept = apply::carry_out(&ctx.client, agents, &id, token, nodes).await?;
                plan.database.trouble = plan.database.trouble.take().or(kept);
                // What is done after it must not rest on what a watch told.
                let nothing = Known::default();
                let known = if plan.acts() { &nothing } else { &ctx.known };
                if let Some(role) = &plan.callers.review_by {
                    plan.callers.unbound = apply::bind_reviewers(&ctx.client, &id, role).await?;
                }
                let objects = build::objects(valid, &plan);
                let applied = apply::apply(&ctx.client, known, &id, &objects).await?;
                let action = plan.cache.as_ref().and_then(|c| c.action.as_ref());
                if let Some(action) = action.filter(|_| applied.has_all_of(Component::Cache)) {
                    asked = apply::act(&ctx, &clients, &id, action).await;
                }
                if let Some(step) = &plan.identity {
                    let seen = &world.identity;
                    apply::write_identity(&ctx.client, valid, seen, step, now).await?;
                }
                let monitors = build::pod_monitors(valid);
                let before = monitoring.as_deref();
                let kept = apply::keep_pod_monitors(&ctx.client, &id, &monitors, before);
                let kept = Box::pin(kept).await?;
                monitoring = kept;
                applied
            };
            telemetry::stepped(Step::Apply, planned);
            (plan, applied)
        }
        Err(_) => Default::default(),
    };

    let spec = valid.as_ref().map(|cluster| Decided {
        cluster,
        plan: &plan,
        applied: &applied,
    });
    let report = Report {
        id: &id,
        before: cluster.status.as_ref(),
        world: &world,
        spec,
        ending: None,
        now,
    };
    let told = Instant::now();
    let status = ReadStateClusterStatus {
        monitoring,
        ..status::status(&report)
    };
    status::publish(&ctx, &cluster, &status).await?;
    ctx.rollouts.written(&cluster, &status);
    telemetry::stepped(Step::Status, told);
    telemetry::reconciled(status::outcome(&report), started.elapsed());
    asked?;
    ctx.failures.none(&cluster);
    Ok(Action::requeue(look_again(&plan)))
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

/// An error with its causes, in one line.
pub(crate) fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut next = std::error::Error::source(error);
    while let Some(cause) = next {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    text
}
