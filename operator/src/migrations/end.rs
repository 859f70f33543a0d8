//! The end of a move that is deleted: its Job and the pods of that end first. What was copied stays.

use std::time::Duration;

use jiff::Timestamp;
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
    runtime::{
        controller::Action,
        events::{Event, EventType, Recorder},
    },
};
use readstates_operator_api::{
    HandOver, MembersMeanwhile, MigrationPhase, ReadStateMigration, ReadStateMigrationStatus,
    conditions::Reason, labels::END_MIGRATION,
};
use serde_json::json;

use super::{Moves, delete, status};
use crate::{
    backups::publish,
    context::Context,
    error::Error,
    names::MOVING_TO,
    observe,
    spec::BackupOwner,
    world::{JobOutcome, MoveJob, MoveJobs},
};

const LOOK_SOON: Duration = Duration::from_secs(2);

/// Has it held when it is deleted. The move as it is then.
pub(super) async fn hold(
    ctx: &Context,
    migration: ReadStateMigration,
) -> Result<ReadStateMigration, Error> {
    if is_held(&migration) {
        return Ok(migration);
    }
    let mut finalizers = migration.finalizers().to_vec();
    finalizers.push(END_MIGRATION.to_owned());
    set_finalizers(ctx, &migration, &finalizers).await
}

fn is_held(migration: &ReadStateMigration) -> bool {
    migration
        .finalizers()
        .iter()
        .any(|one| one == END_MIGRATION)
}

async fn set_finalizers(
    ctx: &Context,
    migration: &ReadStateMigration,
    finalizers: &[String],
) -> Result<ReadStateMigration, Error> {
    let namespace = migration.namespace().unwrap_or_default();
    let api: Api<ReadStateMigration> = Api::namespaced(ctx.client.clone(), &namespace);
    let name = migration.name_any();
    let patch = Patch::Merge(json!({ "metadata": {
        "finalizers": finalizers, "resourceVersion": migration.resource_version(),
    } }));
    let patched = api.patch(&name, &PatchParams::default(), &patch).await;
    patched.map_err(|source| Error::Write {
        what: format!("the finalizers of ReadStateMigration {name}"),
        source,
    })
}

/// Brings a deleted move one step nearer to its end.
pub(super) async fn go_on(
    ctx: &Context,
    moves: &Moves,
    owner: &BackupOwner,
    migration: &ReadStateMigration,
) -> Result<Action, Error> {
    if !is_held(migration) {
        return Ok(Action::await_change());
    }
    let MoveJobs {
        ahead,
        moving,
        stray,
    } = observe::move_jobs(&ctx.client, owner).await?;
    let jobs: Vec<&MoveJob> = [&ahead, &moving].into_iter().flatten().collect();
    let before = migration.status.as_ref();
    let words = what_stands(migration);
    let named = jobs.iter().map(|job| format!("Job {}", job.run.job));
    let pods = stray.iter().map(|pod| format!("pod {pod}"));
    let Some(ends) = named.chain(pods).next() else {
        let event = Event {
            type_: EventType::Normal,
            reason: Reason::MigrationEnded.as_str().to_owned(),
            note: Some(words),
            action: "Ending".to_owned(),
            secondary: None,
        };
        let recorder = Recorder::new(ctx.client.clone(), ctx.reporter.clone());
        let reference = kube::Resource::object_ref(migration, &());
        if let Err(error) = recorder.publish(&event, &reference).await {
            tracing::warn!(%error, "failed to publish the event of an ended migration");
        }
        let all = migration.finalizers().iter();
        let others: Vec<_> = all.filter(|one| *one != END_MIGRATION).cloned().collect();
        set_finalizers(ctx, migration, &others).await?;
        return Ok(Action::await_change());
    };
    let words = format!("{ends} ends; {words}");
    let status = status::ending(owner, before, words, Timestamp::now());
    publish(ctx, migration, before, &status).await?;
    moves.tell(&owner.id, &migration.spec.cluster, &status);
    for job in jobs {
        if job.run.outcome != JobOutcome::Going {
            delete(ctx, owner, &job.run.job, &job.uid).await?;
        }
    }
    Ok(Action::requeue(LOOK_SOON))
}

/// What a person finds after it.
fn what_stands(migration: &ReadStateMigration) -> String {
    let none = ReadStateMigrationStatus::default();
    let status = migration.status.as_ref().unwrap_or(&none);
    let (cluster, name) = (&migration.spec.cluster, migration.name_any());
    let target = status.target.as_deref().unwrap_or("the target");
    let source = status.source.as_deref().unwrap_or("the source");
    let claim = &migration.spec.checkpoints.claim_name;
    let into = migration.spec.target.cluster.as_ref();
    if let Some(to) = into.filter(|_| status.hand_over == Some(HandOver::Released)) {
        return format!(
            "everything is in {target} of ReadStateCluster {to}, and nothing keeps ReadStateCluster {cluster} from starting \
             any more: delete it, or keep it stopped, since neither sees what the other changes. If {to} has not begun to \
             serve, take spec.restoreFrom away from it"
        );
    }
    let phase = match into {
        // It was closed at most, and opens with the end of this.
        Some(_) => MigrationPhase::Verified,
        None => status.phase,
    };
    match (phase, migration.spec.members) {
        (MigrationPhase::Complete, _) => {
            format!(
                "ReadStateCluster {cluster} uses {target}, and {source} is as it was at the switch"
            )
        }
        (MigrationPhase::Switching, _) => format!(
            "everything is in {target}, and the switch of ReadStateCluster {cluster} goes on without this resource"
        ),
        (_, members) => {
            let undo = match members {
                MembersMeanwhile::Serve => {
                    format!(
                        "remove {MOVING_TO} from ReadStateCluster {cluster}, or keep it until the move goes on"
                    )
                }
                MembersMeanwhile::Stop => {
                    format!(
                        "set spec.stopped of ReadStateCluster {cluster} to false if it is stopped"
                    )
                }
            };
            format!(
                "what was copied stays in {target}, and {name}.json in the volume of claim {claim} says how far that \
                 is; {source} has everything and is what to use: {undo}"
            )
        }
    }
}
