//! Moves as a user makes them: what is told to be done next, what counts, how they end. What Job controller and
//! `readstates migrate` do is done by these tests.

mod adversary;
mod into;

use axum::{Json, Router, routing::get};
use k8s_openapi::api::{
    batch::v1::Job, core::v1::PersistentVolumeClaim, events::v1::Event,
    networking::v1::NetworkPolicy,
};
use kube::{
    ResourceExt,
    api::{DeleteParams, ListParams},
    core::{ObjectMeta, PartialObjectMetaExt},
};
use readstates_api::admin::MigrationProgress;
use readstates_operator::{
    context::Context,
    error::Error,
    migrations::{Moves, reconcile_migration},
    names::ports,
};
use readstates_operator_api::{
    MigrationPhase::{self, Complete, Copying, Ending, Preparing, Suspended, Switching, Verified},
    ReadStateCluster, ReadStateMigration, ReadStateMigrationStatus,
};
use serde_json::{Value, json};

use crate::{
    backups::said,
    chat::{change_spec, names, time_passes, until_done},
    jobs::sample,
    policy::with_the_charts_rights,
    world::{World, with_world},
};

const REPORT: &str = r#"{"source":"cql://old:9042/readstates","target":"cql://new:9042/readstates","dry_run":false,
    "passes":[{"verifying":true,"begun":"2026-01-01T00:00:00Z","ended":"2026-01-01T00:10:00Z",
    "tally":{"users":4000,"missing":0}}]}"#;

fn database(host: &str) -> Value {
    json!({ "contactPoints": [host], "localDatacenter": "east", "replicationFactor": 3 })
}

fn migration(name: &str, members: &str) -> Value {
    json!({
        "apiVersion": "readstates.dev/v1alpha1", "kind": "ReadStateMigration",
        "metadata": { "name": name },
        "spec": {
            "cluster": "chat", "members": members, "target": { "external": database("new") },
            "checkpoints": { "claimName": "moves" },
        },
    })
}

/// The volume claim of the checkpoints.
fn claim() -> Value {
    json!({
        "metadata": { "name": "moves" },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "16Mi" } },
        },
    })
}

impl World {
    /// A cluster on the database `old` that has come up.
    async fn on_old(&self) -> ReadStateCluster {
        let mut chat = crate::chat::cluster(2);
        chat["spec"]["database"] = json!({ "external": database("old") });
        self.create(&chat).await.unwrap();
        self.make::<PersistentVolumeClaim>(claim()).await.unwrap();
        Box::pin(until_done(self)).await
    }

    /// One reconcile of the move; its status after it.
    async fn moves(&self, name: &str) -> ReadStateMigrationStatus {
        self.look_at(name).await;
        let migration: ReadStateMigration = self.get(name).await;
        migration.status.unwrap()
    }

    async fn look_at(&self, name: &str) {
        self.look_by(self.context(), name).await.unwrap();
    }

    /// One look by this operator, at a move that may be gone.
    async fn look_by(&self, operator: &Context, name: &str) -> Result<(), Error> {
        let metadata = ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(self.namespace.clone()),
            ..ObjectMeta::default()
        };
        let known = metadata.into_response_partial();
        let moves = Moves::default();
        let reconciled = Box::pin(reconcile_migration(operator, &moves, &known));
        reconciled.await.map(|_| ())
    }

    /// Members write both databases, all of them.
    async fn write_both(&self) {
        let env = json!([{ "name": "READSTATES_MOVING_TO", "value": "cql://new:9042/readstates" }]);
        change_spec(self, json!({ "cache": { "podTemplate": { "env": env } } })).await;
        Box::pin(until_done(self)).await;
    }

    /// The pod of the Job is at work, and tells how far it is; its name.
    async fn at_work(&self, job: &str, told: MigrationProgress) -> String {
        let job: Job = self.get(job).await;
        let (ip, _) = self.fleet.address();
        let pod = self.pod_works(&job, ip).await;
        let app = Router::new().route("/progress", get(move || async move { Json(Some(told)) }));
        let listener = tokio::net::TcpListener::bind((ip, ports::WATCH))
            .await
            .unwrap();
        // Not joined: it ends with the test.
        tokio::spawn(async { axum::serve(listener, app).await.unwrap() });
        pod
    }

    /// The Job has copied and compared everything.
    async fn verify(&self, job: &str) {
        let job: Job = self.get(job).await;
        let first = [("schema", 0, ""), ("copy", 0, "{}")];
        self.pod_ends(&job, &first, &[("verify", 0, REPORT)]).await;
        self.finish_jobs().await;
    }

    async fn has_job(&self, name: &str) -> bool {
        names::<Job>(self).await.contains(&name.to_owned())
    }
}

fn is(status: &ReadStateMigrationStatus, phase: MigrationPhase) {
    assert_eq!(status.phase, phase, "{status:#?}");
}

#[test]
fn a_table_moves_while_members_serve_and_each_next_step_is_told() {
    with_world(async |world| {
        let world = with_the_charts_rights(world).await;
        world.on_old().await;
        let away = migration("away", "Serve");
        world.make::<ReadStateMigration>(away).await.unwrap();
        let status = world.moves("away").await;
        is(&status, Preparing);
        let step = "READSTATES_MOVING_TO=cql://new:9042/readstates";
        assert!(status.next_step.contains(step), "{}", status.next_step);
        assert!(!world.has_job("away-move").await);

        world.write_both().await;
        // On record first, then the Job.
        is(&world.moves("away").await, Preparing);
        let status = world.moves("away").await;
        is(&status, Copying);
        assert_eq!(status.source.as_deref(), Some("cql://old:9042/readstates"));
        let policy: NetworkPolicy = world.get("away-move").await;
        assert_eq!(policy.spec.unwrap().ingress.unwrap().len(), 1);
        let told = MigrationProgress {
            what: "pass 1".to_owned(),
            verifies: false,
            share: Some(0.431),
            users: 1724,
            lacking: 1700,
            users_per_second: 800,
        };
        world.at_work("away-move", told).await;
        let progress = world.moves("away").await.progress.unwrap();
        assert_eq!(
            (progress.percent, progress.users, progress.users_per_second),
            (Some(43), 1724, 800)
        );
        // More cache pods are no reason to begin again.
        change_spec(&world, json!({ "replicas": 3 })).await;
        is(&world.moves("away").await, Copying);
        Box::pin(until_done_but_jobs(&world)).await;
        is(&world.moves("away").await, Copying);

        world.verify("away-move").await;
        let status = world.moves("away").await;
        is(&status, Verified);
        assert_eq!(status.verified.as_ref().unwrap().users, Some(4000));
        let told = said(&status.conditions, "Verified");
        assert!(told.starts_with("True MigrationVerified: "), "{told}");
        assert!(said(&status.conditions, "Complete").starts_with("False "));

        let target = json!({
            "database": { "external": database("new") }, "cache": { "podTemplate": null },
        });
        change_spec(&world, target).await;
        is(&world.moves("away").await, Switching);
        Box::pin(until_done(&world)).await;
        let status = world.moves("away").await;
        is(&status, Complete);
        assert!(said(&status.conditions, "Complete").starts_with("True Moved: "));
        assert!(
            status.next_step.contains("--take-over-claim"),
            "{}",
            status.next_step
        );
    });
}

/// Reconciles the cluster and its pods, and leaves Jobs alone.
async fn until_done_but_jobs(world: &World) {
    for _ in 0..10 {
        world.reconcile("chat").await;
        world.fleet.act().await;
        world.let_go().await;
        world.settle().await;
        world.fleet.act().await;
    }
}

#[test]
fn what_was_compared_while_members_left_the_target_out_does_not_count() {
    with_world(async |world| {
        let world = with_the_charts_rights(world).await;
        world.on_old().await;
        world.write_both().await;
        let away = migration("away", "Serve");
        world.make::<ReadStateMigration>(away).await.unwrap();
        world.moves("away").await;
        is(&world.moves("away").await, Copying);
        let first: Job = world.get("away-move").await;

        change_spec(&world, json!({ "cache": { "podTemplate": null } })).await;
        let status = world.moves("away").await;
        let told = said(&status.conditions, "Degraded");
        assert!(told.starts_with("True MembersChanged: "), "{told}");
        world.jobs_end().await;
        assert!(!world.has_job("away-move").await);
        is(&world.moves("away").await, Preparing);

        world.write_both().await;
        world.moves("away").await;
        is(&world.moves("away").await, Copying);
        let second: Job = world.get("away-move").await;
        assert_ne!(first.uid(), second.uid());
        world.verify("away-move").await;
        is(&world.moves("away").await, Verified);
        // Away and back, unseen: it is not known what the cache pods did.
        change_spec(&world, json!({ "replicas": 3 })).await;
        change_spec(&world, json!({ "replicas": 2 })).await;
        let status = world.moves("away").await;
        is(&status, Preparing);
        assert_eq!(status.verified, None);
    });
}

#[test]
fn with_a_pause_it_is_copied_ahead_and_verified_after_the_last_member_has_stopped() {
    with_world(async |world| {
        let world = with_the_charts_rights(world).await;
        world.on_old().await;
        let away = migration("away", "Stop");
        world.make::<ReadStateMigration>(away).await.unwrap();
        is(&world.moves("away").await, Copying);
        assert!(world.has_job("away-copy").await);
        world.finish_jobs().await;
        let status = world.moves("away").await;
        is(&status, Preparing);
        let step = "you: set spec.stopped of ReadStateCluster chat to true";
        assert_eq!(status.next_step, step);

        change_spec(&world, json!({ "stopped": true })).await;
        is(&world.moves("away").await, Preparing);
        for _ in 0..3 {
            Box::pin(time_passes(&world)).await;
            world.reconcile("chat").await;
        }
        world.moves("away").await;
        is(&world.moves("away").await, Copying);
        world.verify("away-move").await;
        is(&world.moves("away").await, Verified);

        change_spec(
            &world,
            json!({ "database": { "external": database("new") } }),
        )
        .await;
        let status = world.moves("away").await;
        is(&status, Switching);
        assert!(
            status.next_step.ends_with("to false"),
            "{}",
            status.next_step
        );
        change_spec(&world, json!({ "stopped": false })).await;
        Box::pin(until_done(&world)).await;
        is(&world.moves("away").await, Complete);
    });
}

#[test]
fn a_move_is_suspended_and_goes_on_and_deletion_ends_its_job_and_says_what_stands() {
    with_world(async |world| {
        let world = with_the_charts_rights(world).await;
        world.on_old().await;
        world.write_both().await;
        let away = migration("away", "Serve");
        world.make::<ReadStateMigration>(away).await.unwrap();
        world.moves("away").await;
        world.moves("away").await;
        let suspended = async |suspend: bool| {
            let wish = json!({ "spec": { "suspend": suspend } });
            world
                .change::<ReadStateMigration>("away", wish)
                .await
                .unwrap();
            let status = world.moves("away").await;
            let job: Job = world.get("away-move").await;
            (status.phase, job.spec.unwrap().suspend)
        };
        assert_eq!(suspended(true).await, (Suspended, Some(true)));
        assert_eq!(suspended(false).await, (Copying, Some(false)));

        let api = world.api::<ReadStateMigration>();
        api.delete("away", &DeleteParams::default()).await.unwrap();
        let status = world.moves("away").await;
        is(&status, Ending);
        let stands = "away.json in the volume of claim moves";
        assert!(status.next_step.contains(stands), "{}", status.next_step);
        world.jobs_end().await;
        world.look_at("away").await;
        assert!(api.get_opt("away").await.unwrap().is_none());
        let events = world
            .api::<Event>()
            .list(&ListParams::default())
            .await
            .unwrap();
        let ended = |event: &&Event| event.reason.as_deref() == Some("MigrationEnded");
        let told = events
            .items
            .iter()
            .filter(ended)
            .find_map(|event| event.note.clone());
        assert!(told.unwrap().contains(stands));
    });
}

#[test]
fn a_move_that_fails_says_the_programs_last_words() {
    with_world(async |world| {
        let world = with_the_charts_rights(world).await;
        world.on_old().await;
        world.write_both().await;
        let away = migration("away", "Serve");
        world.make::<ReadStateMigration>(away).await.unwrap();
        world.moves("away").await;
        world.moves("away").await;
        let job: Job = world.get("away-move").await;
        let words = "readstates: --to: the target has rows that are not as the source has them";
        let first = [("schema", 0, ""), ("copy", 3, words)];
        world.pod_ends(&job, &first, &[]).await;
        world
            .fail_jobs("Container copy failed with exit code 3")
            .await;
        let status = world.moves("away").await;
        is(&status, MigrationPhase::Failed);
        assert_eq!(status.last_error.as_deref(), Some(words));
        let told = said(&status.conditions, "Degraded");
        assert!(
            told.starts_with("True MigrationFailed: Job away-move failed: "),
            "{told}"
        );
    });
}

#[test]
fn what_cannot_be_moved_is_refused_and_changes_nothing() {
    with_world(async |world| {
        let world = with_the_charts_rights(world).await;
        world.on_old().await;
        let refused = async |name: &str, change: Value, words: &str| {
            let mut wish = migration(name, "Serve");
            for (key, value) in change.as_object().unwrap() {
                wish["spec"][key] = value.clone();
            }
            world.make::<ReadStateMigration>(wish).await.unwrap();
            let status = world.moves(name).await;
            is(&status, MigrationPhase::Refused);
            let told = said(&status.conditions, "Degraded");
            assert!(told.starts_with(&format!("True {words}")), "{told}");
        };
        let same = json!({ "target": { "external": database("old") } });
        refused("same", same, "SameDatabase: ").await;
        let mut other = database("new");
        other["keyspace"] = json!("other");
        let other = json!({ "target": { "external": other } });
        let keyspace = "InvalidSpec: spec.target.external.keyspace: must be readstates";
        let api = world.api::<ReadStateMigration>();
        api.delete("same", &DeleteParams::default()).await.unwrap();
        refused("keyspace", other, keyspace).await;
        api.delete("keyspace", &DeleteParams::default())
            .await
            .unwrap();
        world
            .make::<ReadStateMigration>(migration("first", "Serve"))
            .await
            .unwrap();
        refused(
            "second",
            json!({}),
            "TargetInUse: ReadStateMigration first ",
        )
        .await;
        assert!(
            !names::<Job>(&world)
                .await
                .iter()
                .any(|job| job.ends_with("-move"))
        );
    });
}

#[test]
fn a_move_cannot_become_another_one() {
    with_world(async |world| {
        let away = migration("away", "Serve");
        world.make::<ReadStateMigration>(away).await.unwrap();
        for change in [
            json!({ "cluster": "other" }),
            json!({ "members": "Stop" }),
            json!({ "merge": true }),
            json!({ "checkpoints": { "claimName": "other" } }),
            json!({ "target": { "external": { "contactPoints": ["elsewhere"] } } }),
            json!({ "target": { "tlsSecretName": "ca" } }),
        ] {
            let change = json!({ "spec": change });
            let refused = world.change::<ReadStateMigration>("away", change).await;
            let words = refused.unwrap_err();
            assert!(
                words.contains("a ReadStateMigration is one move"),
                "{words}"
            );
        }
        let pace = json!({ "spec": { "rate": 20_000, "parallel": 8 } });
        world
            .change::<ReadStateMigration>("away", pace)
            .await
            .unwrap();
        for (change, field) in [
            (json!({ "members": "Sleep" }), "spec.members"),
            (json!({ "rate": 0 }), "spec.rate"),
            (
                json!({ "checkpoints": { "claimName": "A B" } }),
                "spec.checkpoints.claimName",
            ),
            (
                json!({ "target": {} }),
                "exactly one of external and cluster",
            ),
            (
                json!({ "target": { "cluster": "mail", "external": database("new") } }),
                "exactly one of external and cluster",
            ),
            (
                json!({ "target": { "cluster": "mail", "tlsSecretName": "ca" } }),
                "tlsSecretName goes with external",
            ),
        ] {
            let mut wish = migration("other", "Serve");
            for (key, value) in change.as_object().unwrap() {
                wish["spec"][key] = value.clone();
            }
            let body = serde_json::to_vec(&wish).unwrap();
            let url = format!(
                "/apis/readstates.dev/v1alpha1/namespaces/{}/readstatemigrations",
                world.namespace
            );
            let request = http::Request::post(url)
                .header("content-type", "application/json")
                .body(body)
                .unwrap();
            let refused = world.client.request::<ReadStateMigration>(request).await;
            let words = refused.unwrap_err().to_string();
            assert!(words.contains(field), "{words}");
        }
    });
}

#[test]
fn the_sample_of_a_move_into_another_cluster_is_what_the_api_server_takes() {
    with_world(async |world| {
        let documents = sample("migration-into.yaml");
        let [_, cluster, migration] = &documents[..] else {
            panic!("{documents:?}");
        };
        let made = world.create(cluster).await.unwrap();
        let waits = made.spec.restore_from.unwrap().migration.unwrap();
        assert_eq!(waits.name, migration["metadata"]["name"]);
        let made = world.make::<ReadStateMigration>(migration.clone()).await;
        let target = made.unwrap().spec.target;
        assert_eq!(
            target.cluster,
            Some(cluster["metadata"]["name"].as_str().unwrap().to_owned())
        );
    });
}

#[test]
fn the_sample_of_a_move_is_what_the_api_server_takes() {
    with_world(async |world| {
        let documents = sample("migration.yaml");
        let [claim, migration] = &documents[..] else {
            panic!("{documents:?}");
        };
        let claim = world.make::<PersistentVolumeClaim>(claim.clone()).await;
        assert_eq!(claim.unwrap().name_any(), "moves");
        let made = world.make::<ReadStateMigration>(migration.clone()).await;
        // What the types do not know would have been dropped.
        let spec = serde_json::to_value(made.unwrap().spec).unwrap();
        assert_eq!(spec, migration["spec"]);
    });
}
