//! `ReadStateBackup` and `ReadStateBackupSchedule`: each reconcile is the same pipeline as a cluster's.
//!
//! ```text
//! ReadStateBackup ─────────▶ Job, or VolumeSnapshots ──────────▶ status
//! ReadStateBackupSchedule ─▶ CronJobs ─(Kubernetes)─▶ Jobs ────▶ status
//!                         └▶ ReadStateBackups by VolumeSnapshots ▶ status
//! ```
//! Nothing here touches a cluster, but that a backup by VolumeSnapshots has its pods flush; and nothing but `readstates
//! backup` in a Job touches the bucket or the volume: with its resource a Job goes by owner reference, and backups stay.

mod gauges;
mod status;
mod times;
mod volumes;
pub(crate) mod work;

use std::{sync::Arc, time::Duration};

use futures::{Stream, StreamExt, future::join};
use jiff::Timestamp;
use k8s_openapi::{
    NamespaceResourceScope,
    api::batch::v1::{CronJob, Job},
};
use kube::{
    Api, Resource, ResourceExt,
    api::DeleteParams,
    core::PartialObjectMeta,
    runtime::{
        WatchStreamExt,
        controller::{self, Action, Controller},
        predicates, reflector, watcher,
    },
};
use readstates_operator_api::{
    BackupPhase, ReadStateBackup, ReadStateBackupSchedule,
    labels::{self, Component},
};
use tokio_util::sync::CancellationToken;

pub use self::gauges::Schedules;
pub(crate) use self::status::{degraded, ended, is_degraded, publish, refused, since};
use crate::{
    apply,
    context::Context,
    error::Error,
    known::Known,
    namespaced::Namespaced,
    objects::{self, Object},
    observe,
    plan::{self, BackupStep, Obstacle, ScheduleSeen},
    spec::{BackupMethod, BackupOwner, BackupPlace, ValidatedSchedule},
    telemetry, templates,
    validate::{InvalidSpec, validate_backup, validate_schedule},
    words::chain,
    world::CronJobSeen,
};

/// How often a backup that is not done is looked at: what it waits for tells no watch of it.
const LOOK_AGAIN: Duration = Duration::from_secs(15);
/// How often a schedule is looked at when nothing happens: backups grow old.
const LOOK_AT_SCHEDULE: Duration = Duration::from_mins(1);

/// Reconciles the backups and schedules of one namespace, or of all, until it is told to stop and the reconciles that it
/// is in have ended.
pub async fn controllers(
    ctx: &Arc<Context>,
    schedules: &Schedules,
    namespace: Option<&str>,
    stop: CancellationToken,
) {
    let backups = trigger::<ReadStateBackup>(ctx, namespace);
    let backups = backups
        .owns_stream(children::<Job>(ctx, namespace))
        .graceful_shutdown_on(stop.clone().cancelled_owned())
        .run(
            |backup, ctx: Arc<Context>| async move { reconcile_backup(&ctx, &backup).await },
            |backup, error, _| on_error(backup.as_ref(), error),
            ctx.clone(),
        )
        .for_each(async |_| {});
    let all = trigger::<ReadStateBackupSchedule>(ctx, namespace);
    schedules.add(all.store());
    let all = all
        .owns_stream(children::<CronJob>(ctx, namespace))
        .watches_stream(children::<Job>(ctx, namespace), schedule_of_job)
        .graceful_shutdown_on(stop.cancelled_owned())
        .run(
            move |schedule, ctx: Arc<Context>| {
                let schedules = schedules.clone();
                async move { reconcile_schedule(&ctx, &schedules, &schedule).await }
            },
            |schedule, error, _| on_error(schedule.as_ref(), error),
            ctx.clone(),
        )
        .for_each(async |_| {});
    join(backups, all).await;
}

/// Only their metadata is watched: one that this operator cannot read, written for a later release, keeps no other from
/// being looked after.
pub(crate) fn trigger<K: Namespaced + Send + Sync + 'static>(
    ctx: &Context,
    namespace: Option<&str>,
) -> Controller<PartialObjectMeta<K>> {
    let (reader, writer) = reflector::store();
    let events = watcher(
        api::<PartialObjectMeta<K>>(ctx, namespace),
        watcher::Config::default(),
    );
    let events = events
        .default_backoff()
        .reflect(writer)
        .applied_objects()
        .predicate_filter(predicates::generation, Default::default());
    Controller::for_stream(events, reader)
        .with_config(controller::Config::default().concurrency(ctx.concurrency))
}

/// What happens to what makes backups.
pub(crate) fn children<K: Namespaced + Send + Sync + 'static>(
    ctx: &Context,
    namespace: Option<&str>,
) -> impl Stream<Item = watcher::Result<PartialObjectMeta<K>>> + Send + 'static {
    let ours = format!("{}={}", labels::COMPONENT, Component::Backup);
    let ours = watcher::Config::default().labels(&ours);
    watcher(api::<PartialObjectMeta<K>>(ctx, namespace), ours)
        .default_backoff()
        .touched_objects()
}

pub(crate) fn api<K>(ctx: &Context, namespace: Option<&str>) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    match namespace {
        Some(namespace) => Api::namespaced(ctx.client.clone(), namespace),
        None => Api::all(ctx.client.clone()),
    }
}

/// The schedule that a Job's label names: it belongs to a CronJob.
fn schedule_of_job(
    job: PartialObjectMeta<Job>,
) -> Option<reflector::ObjectRef<PartialObjectMeta<ReadStateBackupSchedule>>> {
    let name = job.labels().get(labels::BACKUP_SCHEDULE)?;
    Some(reflector::ObjectRef::new(name).within(&job.namespace()?))
}

/// Brings a backup one step nearer to its end, and says how it is.
///
/// # Errors
/// When the API server cannot be talked to.
pub async fn reconcile_backup(
    ctx: &Context,
    known: &PartialObjectMeta<ReadStateBackup>,
) -> Result<Action, Error> {
    let Some(backup) = read::<ReadStateBackup>(ctx, known).await? else {
        return Ok(Action::await_change());
    };
    let before = backup.status.as_ref();
    if before.is_some_and(|status| is_final(status.phase)) {
        return Ok(Action::await_change());
    }
    let owner = BackupOwner::of(&backup, labels::BACKUP)?;
    let step = Box::pin(go_on(ctx, &owner, &backup)).await;
    ended(ctx, &owner, &backup, before, step).await
}

async fn go_on(
    ctx: &Context,
    owner: &BackupOwner,
    backup: &ReadStateBackup,
) -> Result<Action, Error> {
    let before = backup.status.as_ref();
    let place = match validate_backup(&backup.spec) {
        Ok(BackupMethod::Volumes(class)) => {
            let reconciled = volumes::reconcile(ctx, backup, owner, class.as_ref());
            return Box::pin(reconciled).await;
        }
        Ok(BackupMethod::Job(place)) => Ok(place),
        Err(invalid) => Err(invalid),
    };
    let step = match &place {
        Err(invalid) => BackupStep::Blocked(Obstacle::invalid(invalid)),
        Ok(place) => {
            let seen = observe::backup_runs(&ctx.client, owner).await?;
            let ours = seen.iter().find(|(uid, _)| *uid == owner.id.uid);
            let cluster = &backup.spec.cluster;
            let source = observe::backup_source(&ctx.client, owner, cluster, place).await?;
            let source = plan::backup_source(cluster, &source, &ctx.images);
            plan::backup_step(ours.map(|(_, run)| run), source)
        }
    };
    let policy = || {
        let (name, cluster) = (owner.job(), &backup.spec.cluster);
        Object::NetworkPolicy(Box::new(objects::backup_network_policy(
            owner, name, cluster,
        )))
    };
    let objects = match (&step, &place) {
        (BackupStep::Make(cluster), Ok(place)) => {
            let job = templates::backup_job(cluster, owner, place);
            vec![policy(), Object::Job(Box::new(job))]
        }
        (BackupStep::Running { .. }, _) => vec![policy()],
        (
            BackupStep::Make(_)
            | BackupStep::Complete(_)
            | BackupStep::Failed(_)
            | BackupStep::Blocked(_),
            _,
        ) => Vec::new(),
    };
    let applied = apply::apply(&ctx.client, &Known::default(), &owner.id, &objects).await?;
    let status = status::of_backup(owner, before, &step, &applied, Timestamp::now());
    let after = status.phase;
    publish(ctx, backup, before, &status).await?;
    Ok(if is_final(after) {
        Action::await_change()
    } else {
        Action::requeue(LOOK_AGAIN)
    })
}

fn is_final(phase: BackupPhase) -> bool {
    match phase {
        BackupPhase::Complete | BackupPhase::Failed => true,
        BackupPhase::Waiting | BackupPhase::Running | BackupPhase::Refused => false,
    }
}

/// Gives Kubernetes the CronJobs of a schedule, and says what became of their Jobs.
///
/// # Errors
/// When the API server cannot be talked to.
pub async fn reconcile_schedule(
    ctx: &Context,
    schedules: &Schedules,
    known: &PartialObjectMeta<ReadStateBackupSchedule>,
) -> Result<Action, Error> {
    let Some(schedule) = read::<ReadStateBackupSchedule>(ctx, known).await? else {
        return Ok(Action::await_change());
    };
    let owner = BackupOwner::of(&schedule, labels::BACKUP_SCHEDULE)?;
    let step = Box::pin(keep_to(ctx, schedules, &owner, &schedule)).await;
    ended(ctx, &owner, &schedule, schedule.status.as_ref(), step).await
}

async fn keep_to(
    ctx: &Context,
    schedules: &Schedules,
    owner: &BackupOwner,
    schedule: &ReadStateBackupSchedule,
) -> Result<Action, Error> {
    let now = Timestamp::now();
    let before = schedule.status.as_ref();
    let seen = ScheduleSeen {
        create: observe::cron_job(&ctx.client, owner, &owner.create()).await?,
        verify: observe::cron_job(&ctx.client, owner, &owner.verify()).await?,
        runs: observe::backup_runs(&ctx.client, owner).await?,
    };
    let valid = validate_schedule(&schedule.spec);
    let created = schedule.creation_timestamp().map_or(now, |t| t.0);
    let mut results = None;
    let (obstacle, applied) = match &valid {
        Err(invalid) => (Some(Obstacle::invalid(invalid)), apply::Applied::All),
        Ok(valid) => match &valid.method {
            BackupMethod::Job(place) => carry_out(ctx, owner, (valid, place), &seen).await?,
            BackupMethod::Volumes(class) => {
                without_cron_jobs(ctx, owner, &seen).await?;
                let step = times::go_on(ctx, owner, (valid, class.as_ref()), before, created);
                let (made, obstacle) = Box::pin(step).await?;
                results = Some(made);
                (obstacle, apply::Applied::All)
            }
        },
    };
    let report = status::ScheduleReport {
        owner,
        valid: valid.as_ref().ok(),
        before,
        obstacle: obstacle.as_ref(),
        applied: &applied,
        results: results.unwrap_or_else(|| plan::backup_results(&seen, before)),
        created,
        now,
    };
    let status = status::of_schedule(&report);
    schedules.tell(&owner.id, &schedule.spec.cluster, created, &status);
    publish(ctx, schedule, before, &status).await?;
    Ok(Action::requeue(LOOK_AT_SCHEDULE))
}

/// What is in the way, if anything, and how applying went.
async fn carry_out(
    ctx: &Context,
    owner: &BackupOwner,
    (schedule, place): (&ValidatedSchedule, &BackupPlace),
    seen: &ScheduleSeen,
) -> Result<(Option<Obstacle>, apply::Applied), Error> {
    let client = &ctx.client;
    let source = observe::backup_source(client, owner, &schedule.cluster, place).await?;
    let cluster = match plan::backup_source(&schedule.cluster, &source, &ctx.images) {
        Ok(cluster) => cluster,
        Err(obstacle) => {
            // CronJobs stay as they are, except for a database that is not there to be asked.
            if obstacle.away && seen.to_hold() {
                for name in [owner.create(), owner.verify()] {
                    work::suspend::<CronJob>(ctx, owner, &name, true).await?;
                }
            }
            return Ok((Some(obstacle), apply::Applied::All));
        }
    };
    let (name, of) = (owner.policy(), &schedule.cluster);
    let policy = objects::backup_network_policy(owner, name, of);
    let cron_jobs = templates::backup_cron_jobs(&cluster, owner, schedule, place).into_iter();
    let objects: Vec<_> = [Object::NetworkPolicy(Box::new(policy))]
        .into_iter()
        .chain(cron_jobs.map(|cron_job| Object::CronJob(Box::new(cron_job))))
        .collect();
    let applied = apply::apply(client, &Known::default(), &owner.id, &objects).await?;
    if let Some(verify) = seen.verify.as_ref().filter(|_| schedule.verify.is_none()) {
        let (name, params) = (owner.verify(), DeleteParams::background());
        work::delete::<CronJob>(ctx, owner, (&name, &verify.uid), params).await?;
    }
    Ok((None, applied))
}

/// Deletes those of a schedule that made its backups by Jobs before.
async fn without_cron_jobs(
    ctx: &Context,
    owner: &BackupOwner,
    seen: &ScheduleSeen,
) -> Result<(), Error> {
    let ScheduleSeen {
        create,
        verify,
        runs: _,
    } = seen;
    for (name, cron_job) in [(owner.create(), create), (owner.verify(), verify)] {
        if let Some(CronJobSeen { uid, .. }) = cron_job {
            let params = DeleteParams::background();
            work::delete::<CronJob>(ctx, owner, (&name, uid), params).await?;
        }
    }
    Ok(())
}

/// The object itself, as it is now; `None` when it is gone or on its way out: owners take their objects along.
async fn read<K: Namespaced>(
    ctx: &Context,
    known: &PartialObjectMeta<K>,
) -> Result<Option<K>, Error> {
    let namespace = known
        .namespace()
        .ok_or(Error::Nameless { field: "namespace" })?;
    let found = observe::backup_owner::<K>(&ctx.client, &namespace, &known.name_any()).await?;
    Ok(found.filter(|object| object.meta().deletion_timestamp.is_none()))
}

pub(crate) fn on_error<K: Resource<DynamicType = ()>>(object: &K, error: &Error) -> Action {
    let meta = object.meta();
    let name = meta.name.as_deref().unwrap_or_default();
    let namespace = meta.namespace.as_deref().unwrap_or_default();
    let (kind, error_chain) = (K::kind(&()), chain(error));
    tracing::warn!(
        %kind,
        name,
        namespace,
        error = error_chain,
        "failed to reconcile"
    );
    telemetry::failed(error);
    Action::requeue(error.retry_after())
}

impl Obstacle {
    fn invalid(invalid: &InvalidSpec) -> Self {
        Self::refuse(
            readstates_operator_api::conditions::Reason::InvalidSpec,
            invalid.to_string(),
        )
    }
}

#[cfg(test)]
mod tests;
