//! Moves while things go wrong: an operator that is killed or whose requests fail, Jobs and volumes that go, a spec that is
//! changed in the middle.

use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{PersistentVolumeClaim, Pod},
};
use kube::{
    ResourceExt,
    api::{DeleteParams, ListParams},
};
use readstates_api::admin::MigrationProgress;
use readstates_operator_api::{
    MigrationPhase::{self, Complete, Copying, Failed, Verified, Waiting},
    ReadStateMigration, ReadStateMigrationStatus,
};
use serde_json::json;

use super::{REPORT, claim, database, is, migration, said};
use crate::{
    chat::{change_spec, until_done},
    faults::Fault,
    killed::{FAULTS, Mortal},
    world::{World, with_world},
};

impl World {
    /// A move that copies, with members that write both databases.
    async fn copying(&self) -> Job {
        self.on_old().await;
        self.write_both().await;
        let away = migration("away", "Serve");
        self.make::<ReadStateMigration>(away).await.unwrap();
        self.moves("away").await;
        is(&self.moves("away").await, Copying);
        self.get("away-move").await
    }

    /// Somebody deletes the Job, as `kubectl delete job` does: its pods are told to end afterwards.
    async fn somebody_deletes(&self, job: &str) {
        let jobs = self.api::<Job>();
        let now = DeleteParams::background();
        jobs.delete(job, &now).await.unwrap();
    }
}

/// Looks until the move is in this phase.
async fn until(
    world: &World,
    phase: MigrationPhase,
    look: &mut impl AsyncFnMut(),
) -> ReadStateMigrationStatus {
    for _ in 0..10 {
        look().await;
        let jobs = world.api::<Job>();
        let jobs = jobs.list(&ListParams::default()).await.unwrap();
        let of_move = jobs.iter().filter(|job| job.name_any().starts_with("away"));
        assert!(of_move.count() <= 1, "one checkpoint, one Job");
        let away: ReadStateMigration = world.get("away").await;
        let status = away.status.unwrap_or_default();
        if status.phase == phase {
            return status;
        }
        world.jobs_end().await;
    }
    let away: ReadStateMigration = world.get("away").await;
    panic!("not {phase:?}: {:#?}", away.status);
}

/// A whole move, whose Job is deleted once, and its end, by looks like this one.
async fn moves_and_goes(world: &World, mut look: impl AsyncFnMut()) {
    world.on_old().await;
    world.write_both().await;
    let away = migration("away", "Serve");
    world.make::<ReadStateMigration>(away).await.unwrap();
    until(world, Copying, &mut look).await;
    let first: Job = world.get("away-move").await;
    world.somebody_deletes("away-move").await;
    until(world, Copying, &mut look).await;
    let second: Job = world.get("away-move").await;
    assert_ne!(first.uid(), second.uid());
    world.verify("away-move").await;
    let status = until(world, Verified, &mut look).await;
    assert_eq!(status.verified.unwrap().users, Some(4000));
    let target = json!({
        "database": { "external": database("new") }, "cache": { "podTemplate": null },
    });
    change_spec(world, target).await;
    look().await;
    Box::pin(until_done(world)).await;
    until(world, Complete, &mut look).await;

    let api = world.api::<ReadStateMigration>();
    api.delete("away", &DeleteParams::default()).await.unwrap();
    for _ in 0..10 {
        look().await;
        world.jobs_end().await;
        if api.get_opt("away").await.unwrap().is_none() {
            assert!(!world.has_job("away-move").await);
            return;
        }
    }
    panic!("it does not end");
}

/// The same by an operator that is killed, or whose writes go wrong.
async fn moves_by(world: &World, operator: &Mortal) {
    let look = async || {
        operator
            .try_to(async |ctx| world.look_by(ctx, "away").await)
            .await;
    };
    Box::pin(moves_and_goes(world, look)).await;
}

#[test]
fn an_operator_that_is_killed_between_any_two_writes_moves_a_table() {
    with_world(async |world| {
        Box::pin(moves_by(&world, &Mortal::new(&world))).await;
    });
}

#[test]
fn an_operator_whose_writes_conflict_fail_or_go_unanswered_moves_a_table() {
    with_world(async |world| {
        for fault in FAULTS {
            let world = world.another().await;
            let operator = Mortal::who_suffers(&world, fault);
            Box::pin(moves_by(&world, &operator)).await;
        }
    });
}

#[test]
fn an_operator_whose_reads_fail_once_each_moves_a_table_and_decides_nothing_by_them() {
    with_world(async |world| {
        for fault in [Fault::Failure, Fault::Lost] {
            let world = world.another().await;
            let operator = Mortal::new(&world);
            let look = async || {
                operator
                    .misread(fault, async |ctx| world.look_by(ctx, "away").await)
                    .await;
            };
            Box::pin(moves_and_goes(&world, look)).await;
        }
    });
}

#[test]
fn a_job_that_somebody_deletes_is_made_again_once_its_pod_has_ended() {
    with_world(async |world| {
        let first = world.copying().await;
        let told = MigrationProgress {
            what: "pass 1".to_owned(),
            verifies: false,
            share: None,
            users: 7,
            lacking: 7,
            users_per_second: 1,
        };
        let pod = world.at_work("away-move", told).await;
        world.moves("away").await;
        world.somebody_deletes("away-move").await;
        let status = world.moves("away").await;
        is(&status, Waiting);
        let told = said(&status.conditions, "Complete");
        assert!(
            told.starts_with(&format!("False LeftoverObject: pod {pod} ")),
            "{told}"
        );
        assert!(!world.has_job("away-move").await);
        let now = DeleteParams::default().grace_period(0);
        world.api::<Pod>().delete(&pod, &now).await.unwrap();
        is(&world.moves("away").await, Copying);
        let second: Job = world.get("away-move").await;
        assert_ne!(first.uid(), second.uid());
    });
}

#[test]
fn a_move_whose_pod_outlives_its_deleted_job_is_held_until_that_has_ended() {
    with_world(async |world| {
        let job = world.copying().await;
        let (ip, _) = world.fleet.address();
        let pod = world.pod_works(&job, ip).await;
        world.somebody_deletes("away-move").await;
        let api = world.api::<ReadStateMigration>();
        api.delete("away", &DeleteParams::default()).await.unwrap();
        let status = world.moves("away").await;
        is(&status, MigrationPhase::Ending);
        let words = format!("pod {pod} ends; ");
        assert!(status.next_step.starts_with(&words), "{}", status.next_step);
        let now = DeleteParams::default().grace_period(0);
        world.api::<Pod>().delete(&pod, &now).await.unwrap();
        world.look_at("away").await;
        assert!(api.get_opt("away").await.unwrap().is_none());
    });
}

#[test]
fn a_volume_claim_that_is_gone_is_named_and_waited_for() {
    with_world(async |world| {
        world.copying().await;
        let claims = world.api::<PersistentVolumeClaim>();
        claims
            .delete("moves", &DeleteParams::default())
            .await
            .unwrap();
        // Nothing uses it here: it goes at once, or with the next look of its controller.
        world.let_go().await;
        world.somebody_deletes("away-move").await;
        let status = world.moves("away").await;
        is(&status, Waiting);
        let told = said(&status.conditions, "Complete");
        assert!(
            told.starts_with("False VolumeClaimMissing: PersistentVolumeClaim moves "),
            "{told}"
        );
        assert!(!world.has_job("away-move").await);
        world.make::<PersistentVolumeClaim>(claim()).await.unwrap();
        is(&world.moves("away").await, Copying);
    });
}

#[test]
fn suspend_that_is_set_and_taken_back_at_once_begins_a_failed_move_again() {
    with_world(async |world| {
        let first = world.copying().await;
        let full = "readstates: --checkpoint: failed to write \"/var/lib/readstates-migrate/away.json\": no space left";
        world
            .pod_ends(&first, &[("schema", 0, ""), ("copy", 1, full)], &[])
            .await;
        world
            .fail_jobs("Job has reached the specified backoff limit")
            .await;
        let status = world.moves("away").await;
        is(&status, Failed);
        assert_eq!(status.last_error.as_deref(), Some(full));
        for suspend in [true, false] {
            let wish = json!({ "spec": { "suspend": suspend } });
            world
                .change::<ReadStateMigration>("away", wish)
                .await
                .unwrap();
        }
        is(&world.moves("away").await, Copying);
        world.jobs_end().await;
        is(&world.moves("away").await, Copying);
        let second: Job = world.get("away-move").await;
        assert_ne!(first.uid(), second.uid());
    });
}

#[test]
fn a_switch_between_two_looks_of_which_nobody_knows_what_was_before_is_told_at_once() {
    with_world(async |world| {
        let job = world.copying().await;
        let first = [("schema", 0, ""), ("copy", 0, "{}")];
        world.pod_ends(&job, &first, &[("verify", 0, REPORT)]).await;
        world.finish_jobs().await;
        is(&world.moves("away").await, Verified);
        // Not in one change: for a time the members may have written the source alone.
        change_spec(&world, json!({ "cache": { "podTemplate": null } })).await;
        change_spec(
            &world,
            json!({ "database": { "external": database("new") } }),
        )
        .await;
        let status = world.moves("away").await;
        let told = said(&status.conditions, "Degraded");
        assert!(told.starts_with("True SwitchedTooEarly: "), "{told}");
        assert_eq!(status.verified, None);
    });
}
