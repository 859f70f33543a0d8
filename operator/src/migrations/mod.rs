//! `ReadStateMigration`: each reconcile is the same pipeline as a cluster's.
//!
//! ```text
//! ReadStateMigration ─▶ members seen ─▶ Job ─▶ progress ─▶ status, with the next step
//! ```
//! Nothing here changes a cluster or its members: one whose table moves into another keeps to what the status says of the
//! hand-over. And nothing but `readstates migrate` and `readstates schema` in a Job
//! touches a database. A finalizer holds a deleted one until its Job and the pods of that have ended.

mod end;
mod gauges;
mod progress;
mod status;

use std::{sync::Arc, time::Duration};

use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use kube::{
    ResourceExt,
    api::DeleteParams,
    core::PartialObjectMeta,
    runtime::{
        WatchStreamExt,
        controller::Action,
        predicates,
        reflector::{ObjectRef, Store},
        watcher,
    },
};
use readstates_api::admin::MigrationProgress;
use readstates_operator_api::{
    MigrationPhase, ReadStateCluster, ReadStateMigration, ReadStateMigrationStatus,
    conditions::Reason, labels,
};
use tokio_util::sync::CancellationToken;

pub use self::gauges::Moves;
use crate::{
    apply,
    backups::{api, children, ended, on_error, publish, trigger, work},
    context::Context,
    error::Error,
    known::Known,
    objects::{self, Object},
    observe,
    plan::{self, MigrationAction, MigrationPlan, MoveInput, MoveRecord},
    spec::{Asked, BackupOwner, ValidatedMigration},
    templates,
    validate::{InvalidSpec, validate_migration},
};

/// How often a move that is not over is looked at.
const LOOK_AGAIN: Duration = Duration::from_secs(15);
/// How often one is whose next step the operator takes at once.
const LOOK_SOON: Duration = Duration::from_secs(1);

/// Reconciles the moves of one namespace, or of all, until it is told to stop and the reconciles that it is in have
/// ended.
pub async fn controller(
    ctx: &Arc<Context>,
    moves: &Moves,
    namespace: Option<&str>,
    stop: CancellationToken,
) {
    let all = trigger::<ReadStateMigration>(ctx, namespace);
    let known = all.store();
    moves.add(known.clone());
    // Each change of a cluster's spec is looked at: a move counts them.
    let clusters = watcher(
        api::<PartialObjectMeta<ReadStateCluster>>(ctx, namespace),
        watcher::Config::default(),
    );
    let clusters = clusters
        .default_backoff()
        .touched_objects()
        .predicate_filter(predicates::generation, Default::default());
    all.owns_stream(children::<Job>(ctx, namespace))
        .watches_stream(clusters, move |cluster| beside(&known, &cluster))
        .graceful_shutdown_on(stop.cancelled_owned())
        .run(
            move |migration, ctx: Arc<Context>| {
                let moves = moves.clone();
                async move { Box::pin(reconcile_migration(&ctx, &moves, &migration)).await }
            },
            |migration, error, _| on_error(migration.as_ref(), error),
            ctx.clone(),
        )
        .for_each(async |_| {})
        .await;
}

/// The moves in the namespace of a cluster: their metadata does not tell whose they are, and there are few.
fn beside(
    known: &Store<PartialObjectMeta<ReadStateMigration>>,
    cluster: &PartialObjectMeta<ReadStateCluster>,
) -> Vec<ObjectRef<PartialObjectMeta<ReadStateMigration>>> {
    let all = known.state();
    let here = all.iter().filter(|m| m.namespace() == cluster.namespace());
    here.map(|migration| ObjectRef::from_obj(migration.as_ref()))
        .collect()
}

/// Brings a move one step nearer to its end, and says how it is.
///
/// # Errors
/// When the API server cannot be talked to.
pub async fn reconcile_migration(
    ctx: &Context,
    moves: &Moves,
    known: &PartialObjectMeta<ReadStateMigration>,
) -> Result<Action, Error> {
    let namespace = known
        .namespace()
        .ok_or(Error::Nameless { field: "namespace" })?;
    let name = known.name_any();
    let found = observe::backup_owner::<ReadStateMigration>(&ctx.client, &namespace, &name).await?;
    let Some(migration) = found else {
        return Ok(Action::await_change());
    };
    let owner = BackupOwner::of(&migration, labels::MIGRATION)?;
    let before = migration.status.as_ref();
    if let Some(before) = before {
        moves.tell(&owner.id, &migration.spec.cluster, before);
    }
    let step = Box::pin(go_on(ctx, moves, &owner, migration.clone())).await;
    ended(ctx, &owner, &migration, before, step).await
}

async fn go_on(
    ctx: &Context,
    moves: &Moves,
    owner: &BackupOwner,
    migration: ReadStateMigration,
) -> Result<Action, Error> {
    let before = migration.status.as_ref();
    if migration.metadata.deletion_timestamp.is_some() {
        return end::go_on(ctx, moves, owner, &migration).await;
    }
    if before.is_some_and(|status| status.phase == MigrationPhase::Complete) {
        return Ok(Action::await_change());
    }
    let valid = match validate_migration(&migration.spec) {
        Ok(valid) => valid,
        Err(invalid) => {
            let (plan, all) = (refused(&invalid, before), apply::Applied::All);
            tell(ctx, moves, owner, &migration, &plan, None, &all).await?;
            return Ok(Action::requeue(LOOK_AGAIN));
        }
    };
    let seen = observe::migration(&ctx.client, owner, &migration.spec, &valid.target).await?;
    let told = progress::ask(ctx, &seen).await;
    let plan = plan::migration(MoveInput {
        owner,
        created: migration.creation_timestamp().map(|t| t.0),
        spec: &migration.spec,
        valid: &valid,
        seen: &seen,
        before,
        images: &ctx.images,
        verifies: told.as_ref().map(|told| told.verifies),
    });
    let migration = match &plan.action {
        // Before there is something that has to end before it goes.
        MigrationAction::Make { .. } => end::hold(ctx, migration).await?,
        MigrationAction::Wait
        | MigrationAction::Record
        | MigrationAction::Suspend { .. }
        | MigrationAction::Delete { .. } => migration,
    };
    let applied = act(ctx, owner, &valid, &plan).await?;
    tell(
        ctx,
        moves,
        owner,
        &migration,
        &plan,
        told.as_ref(),
        &applied,
    )
    .await?;
    Ok(next_look(&plan))
}

fn next_look(plan: &MigrationPlan) -> Action {
    match plan.action {
        MigrationAction::Record | MigrationAction::Delete { .. } => Action::requeue(LOOK_SOON),
        _ if plan.phase == MigrationPhase::Complete => Action::await_change(),
        // Nothing is served meanwhile.
        _ if plan.phase == MigrationPhase::Switching && plan.record.target_uid.is_some() => {
            Action::requeue(LOOK_SOON)
        }
        MigrationAction::Wait | MigrationAction::Make { .. } | MigrationAction::Suspend { .. } => {
            Action::requeue(LOOK_AGAIN)
        }
    }
}

async fn tell(
    ctx: &Context,
    moves: &Moves,
    owner: &BackupOwner,
    migration: &ReadStateMigration,
    plan: &MigrationPlan,
    told: Option<&MigrationProgress>,
    applied: &apply::Applied,
) -> Result<(), Error> {
    let before = migration.status.as_ref();
    let report = status::MoveReport {
        owner,
        before,
        plan,
        told,
        applied,
        now: Timestamp::now(),
    };
    let status = status::of_migration(&report);
    publish(ctx, migration, before, &status).await?;
    moves.tell(&owner.id, &migration.spec.cluster, &status);
    Ok(())
}

fn refused(invalid: &InvalidSpec, before: Option<&ReadStateMigrationStatus>) -> MigrationPlan {
    MigrationPlan {
        phase: MigrationPhase::Refused,
        reason: Reason::InvalidSpec,
        words: invalid.to_string(),
        next: "you: delete it and create another one".to_owned(),
        is_bad: true,
        action: MigrationAction::Wait,
        record: before.map(MoveRecord::of).unwrap_or_default(),
        failure: None,
        job: None,
    }
}

async fn act(
    ctx: &Context,
    owner: &BackupOwner,
    valid: &ValidatedMigration,
    plan: &MigrationPlan,
) -> Result<apply::Applied, Error> {
    match &plan.action {
        MigrationAction::Wait | MigrationAction::Record => {}
        MigrationAction::Make { ends, ahead } => {
            let source = ends.source.clone().asked(Asked {
                operator_namespace: &ctx.namespace,
                ..Asked::default()
            });
            let policy = objects::move_network_policy(&source, owner);
            let job = templates::move_job(ends, owner, valid, *ahead);
            let objects = [
                Object::NetworkPolicy(Box::new(policy)),
                Object::Job(Box::new(job)),
            ];
            return apply::apply(&ctx.client, &Known::default(), &owner.id, &objects).await;
        }
        MigrationAction::Suspend { job, suspend } => {
            work::suspend::<Job>(ctx, owner, job, *suspend).await?;
        }
        MigrationAction::Delete { job, uid } => delete(ctx, owner, job, uid).await?,
    }
    Ok(apply::Applied::All)
}

/// The Job stays until its pods have ended: the next one has the same checkpoint.
async fn delete(ctx: &Context, owner: &BackupOwner, name: &str, uid: &str) -> Result<(), Error> {
    work::delete::<Job>(ctx, owner, (name, uid), DeleteParams::foreground()).await
}

#[cfg(test)]
mod tests;
