//! Backups as a user has them: made, told, failed, in the way of nothing. What Job and CronJob controllers do is done by
//! these tests.

mod operators;
mod schedules;

use std::time::Duration;

use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        batch::v1::{CronJob, Job},
        core::v1::{Pod, Secret},
        networking::v1::NetworkPolicy,
    },
};
use kube::{
    Resource,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
    core::PartialObjectMetaExt,
};
use readstates_operator::{
    backups::{Schedules, controllers, reconcile_backup, reconcile_schedule},
    context::Context,
    error::Error,
};
use readstates_operator_api::{
    BackupPhase, ReadStateBackup, ReadStateBackupSchedule, ReadStateBackupScheduleStatus,
    ReadStateBackupStatus, ReadStateCluster,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::{
    chat::{names, running},
    gate::Gate,
    jobs::sample,
    policy::with_the_charts_rights,
    world::{World, with_world},
};

const REPORT: &str = r#"{"id":"20260101T000000.000Z-00000001","begun":"2026-01-01T00:00:00Z",
    "finished":"2026-01-01T00:00:05Z","source":"cql://chat-db/readstates","users":7,"chunks":1,"bytes":100,
    "stored_bytes":90,"new_chunks":1,"new_stored_bytes":90}"#;

fn volume() -> Value {
    json!({ "volumeClaim": { "claimName": "backups" } })
}

fn backup(storage: Value) -> Value {
    json!({
        "apiVersion": "readstates.dev/v1alpha1", "kind": "ReadStateBackup",
        "metadata": { "name": "before-upgrade" }, "spec": { "cluster": "chat", "storage": storage },
    })
}

fn schedule(spec: Value) -> Value {
    let mut schedule = json!({
        "apiVersion": "readstates.dev/v1alpha1", "kind": "ReadStateBackupSchedule",
        "metadata": { "name": "nightly" },
        "spec": { "cluster": "chat", "schedule": "0 3 * * *", "storage": volume() },
    });
    for (key, value) in spec.as_object().unwrap() {
        schedule["spec"][key] = value.clone();
    }
    schedule
}

impl World {
    /// Creates an object from its JSON.
    pub(crate) async fn make<K>(&self, object: Value) -> Result<K, String>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + serde::Serialize
            + DeserializeOwned,
    {
        let object: K = serde_json::from_value(object).unwrap();
        let made = self
            .api::<K>()
            .create(&PostParams::default(), &object)
            .await;
        made.map_err(|error| error.to_string())
    }

    pub(crate) async fn change<K>(&self, name: &str, patch: Value) -> Result<K, String>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + DeserializeOwned,
    {
        let params = PatchParams::default();
        let patched = self
            .api::<K>()
            .patch(name, &params, &Patch::Merge(patch))
            .await;
        patched.map_err(|error| error.to_string())
    }

    /// One reconcile of the backup; its status after it.
    async fn backup(&self) -> ReadStateBackupStatus {
        self.backup_by(self.context()).await.unwrap();
        let backup: ReadStateBackup = self.get("before-upgrade").await;
        backup.status.unwrap()
    }

    async fn backup_by(&self, ctx: &Context) -> Result<(), Error> {
        let known = self.get::<ReadStateBackup>("before-upgrade").await.metadata;
        let known = known.into_response_partial();
        reconcile_backup(ctx, &known).await.map(|_| ())
    }

    /// One reconcile of the schedule; its status after it.
    async fn schedule(&self) -> ReadStateBackupScheduleStatus {
        self.schedule_by(self.context()).await.unwrap();
        let schedule: ReadStateBackupSchedule = self.get("nightly").await;
        schedule.status.unwrap()
    }

    async fn schedule_by(&self, ctx: &Context) -> Result<(), Error> {
        let known = self
            .get::<ReadStateBackupSchedule>("nightly")
            .await
            .metadata;
        let known = known.into_response_partial();
        let reconciled = reconcile_schedule(ctx, &Schedules::default(), &known).await;
        reconciled.map(|_| ())
    }

    /// What the CronJob controller does when it is time.
    async fn it_is_time(&self, cron_job: &str, job: &str) -> Job {
        let cron_job: CronJob = self.get(cron_job).await;
        let owner = cron_job.controller_owner_ref(&()).unwrap();
        let template = cron_job.spec.job_template;
        let mut metadata = template.metadata.unwrap();
        metadata.name = Some(job.to_owned());
        metadata.owner_references = Some(vec![owner]);
        let job = Job {
            metadata,
            spec: template.spec,
            status: None,
        };
        let jobs = self.api::<Job>();
        jobs.create(&PostParams::default(), &job).await.unwrap()
    }
}

pub(crate) fn said(
    conditions: &[k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition],
    type_: &str,
) -> String {
    let found = conditions.iter().find(|c| c.type_ == type_).unwrap();
    format!("{} {}: {}", found.status, found.reason, found.message)
}

async fn secret(world: &World, name: &str, data: Value) {
    let secret = json!({ "metadata": { "name": name }, "stringData": data });
    world.make::<Secret>(secret).await.unwrap();
}

#[test]
fn a_backup_is_made_by_a_job_and_told_as_the_program_reports_it() {
    with_world(async |world| {
        let world = with_the_charts_rights(world).await;
        running(&world, 1).await;
        world
            .make::<ReadStateBackup>(backup(volume()))
            .await
            .unwrap();
        let status = world.backup().await;
        assert_eq!(status.phase, BackupPhase::Running);
        let job: Job = world.get("before-upgrade-backup").await;
        let policy: NetworkPolicy = world.get("before-upgrade-backup").await;
        assert_eq!(policy.spec.unwrap().ingress, None);
        // Another look makes no other Job, and the cluster takes the pod for none of its own.
        world.pod_ends(&job, &[], &[("create", 0, REPORT)]).await;
        assert_eq!(world.backup().await.phase, BackupPhase::Running);
        assert_eq!(
            world.reconcile("chat").await.status.unwrap().database,
            "2/2"
        );

        world.finish_jobs().await;
        let status = world.backup().await;
        assert_eq!(status.phase, BackupPhase::Complete);
        assert_eq!(
            said(&status.conditions, "Complete"),
            "True BackupComplete: backup 20260101T000000.000Z-00000001 has 7 users"
        );
        let made = status.backup.unwrap();
        assert_eq!((made.users, made.stored_bytes), (Some(7), Some(90)));
        assert_eq!(made.finished.0.to_string(), "2026-01-01T00:00:05Z");
        // It is one backup: its Job is not made again.
        let jobs = world.api::<Job>();
        let now = DeleteParams::background();
        jobs.delete("before-upgrade-backup", &now).await.unwrap();
        assert_eq!(world.backup().await.phase, BackupPhase::Complete);
        assert!(
            !names::<Job>(&world)
                .await
                .contains(&"before-upgrade-backup".to_owned())
        );
    });
}

#[test]
fn a_backup_that_fails_is_told_with_the_programs_last_words() {
    with_world(async |world| {
        running(&world, 1).await;
        world
            .make::<ReadStateBackup>(backup(volume()))
            .await
            .unwrap();
        world.backup().await;
        let job: Job = world.get("before-upgrade-backup").await;
        let words =
            "200 users, 1 MiB\nreadstates: failed to write chunks/AB: no space left on device\n";
        world.pod_ends(&job, &[], &[("create", 1, words)]).await;
        world
            .fail_jobs("Job has reached the specified backoff limit")
            .await;
        let status = world.backup().await;
        assert_eq!(status.phase, BackupPhase::Failed);
        let told = said(&status.conditions, "Degraded");
        assert!(
            told.starts_with("True BackupFailed: Job before-upgrade-backup failed: readstates: "),
            "{told}"
        );
        assert!(told.contains("no space left on device"), "{told}");
    });
}

#[test]
fn a_secret_that_is_missing_is_named_and_waited_for() {
    with_world(async |world| {
        running(&world, 1).await;
        let storage = json!({
            "s3": { "url": "s3://backups/chat", "credentialsSecretRef": { "name": "bucket" } },
            "encryptionKeySecretRef": { "name": "keys" },
        });
        world
            .make::<ReadStateBackup>(backup(storage))
            .await
            .unwrap();
        let status = world.backup().await;
        assert_eq!(status.phase, BackupPhase::Waiting);
        assert_eq!(
            said(&status.conditions, "Complete"),
            "False SecretMissing: Secret bucket does not exist; Secret keys does not exist"
        );
        secret(
            &world,
            "bucket",
            json!({ "accessKeyId": "id", "secretAccessKey": "key" }),
        )
        .await;
        secret(&world, "keys", json!({ "backup.key": "short" })).await;
        let told = said(&world.backup().await.conditions, "Complete");
        assert!(
            told.contains("backup.key of Secret keys has 5 bytes and not 32"),
            "{told}"
        );
        assert!(
            world
                .api::<Job>()
                .get_opt("before-upgrade-backup")
                .await
                .unwrap()
                .is_none()
        );

        let key = json!({ "stringData": { "backup.key": "0123456789abcdef0123456789abcdef" } });
        world.change::<Secret>("keys", key).await.unwrap();
        assert_eq!(world.backup().await.phase, BackupPhase::Running);
    });
}

#[test]
fn a_backup_waits_for_its_cluster_and_an_embedded_store_is_refused_with_the_command() {
    with_world(async |world| {
        world
            .make::<ReadStateBackup>(backup(volume()))
            .await
            .unwrap();
        let told = said(&world.backup().await.conditions, "Complete");
        assert!(told.starts_with("False ClusterNotFound: "), "{told}");
        let mut embedded = crate::chat::cluster(1);
        embedded["spec"]["database"] = json!({ "embedded": {} });
        world.create(&embedded).await.unwrap();
        let status = world.backup().await;
        assert_eq!(status.phase, BackupPhase::Refused);
        let told = said(&status.conditions, "Degraded");
        assert!(told.starts_with("True BackupUnsupported: "), "{told}");
        assert!(
            told.contains("readstates backup create --store embedded:"),
            "{told}"
        );
    });
}

#[test]
fn what_cannot_be_meant_is_refused_at_the_door_by_its_field() {
    with_world(async |world| {
        for (storage, words) in [
            (json!({}), "exactly one of s3 and volumeClaim must be set"),
            (json!({ "s3": { "url": "backups" } }), "spec.storage.s3.url"),
            (
                json!({ "volumeClaim": { "claimName": "b", "path": "../x" } }),
                "spec.storage.volumeClaim.path",
            ),
        ] {
            let refused = world
                .make::<ReadStateBackup>(backup(storage))
                .await
                .unwrap_err();
            assert!(refused.contains(words), "{refused}");
        }
        for (spec, words) in [
            (json!({ "schedule": "at three" }), "spec.schedule"),
            (
                json!({ "retention": {} }),
                "at least one of keepLast and keepDays",
            ),
            (json!({ "maxAge": "soon" }), "spec.maxAge"),
        ] {
            let refused = world.make::<ReadStateBackupSchedule>(schedule(spec)).await;
            let refused = refused.unwrap_err();
            assert!(refused.contains(words), "{refused}");
        }
        world
            .make::<ReadStateBackup>(backup(volume()))
            .await
            .unwrap();
        let other = json!({ "spec": { "cluster": "other" } });
        let refused = world
            .change::<ReadStateBackup>("before-upgrade", other.clone())
            .await;
        assert!(refused.unwrap_err().contains("cannot change"));
        let nightly = schedule(json!({}));
        world
            .make::<ReadStateBackupSchedule>(nightly)
            .await
            .unwrap();
        let refused = world
            .change::<ReadStateBackupSchedule>("nightly", other)
            .await;
        assert!(refused.unwrap_err().contains("cluster cannot change"));
    });
}

#[test]
fn a_backup_holds_no_right_that_it_does_not_need() {
    with_world(async |world| {
        running(&world, 1).await;
        world
            .make::<ReadStateBackup>(backup(volume()))
            .await
            .unwrap();
        world.backup().await;
        let job: Job = world.get("before-upgrade-backup").await;
        let pod = job.spec.unwrap().template.spec.unwrap();
        assert_eq!(pod.automount_service_account_token, Some(false));
        assert_eq!(pod.service_account_name.as_deref(), Some("default"));
        let volumes = pod.volumes.unwrap();
        let secrets = volumes
            .iter()
            .filter_map(|v| v.secret.as_ref()?.secret_name.clone());
        assert_eq!(
            secrets.collect::<Vec<_>>(),
            ["chat-db-login"],
            "no superuser, no identity"
        );
        // The whole of it passes the restricted pod security standard.
        let namespace = json!({ "metadata": { "labels": { "pod-security.kubernetes.io/enforce": "restricted" } } });
        let namespaces: kube::Api<k8s_openapi::api::core::v1::Namespace> =
            kube::Api::all(world.client.clone());
        let params = PatchParams::default();
        let patch = Patch::Merge(namespace);
        namespaces
            .patch(&world.namespace, &params, &patch)
            .await
            .unwrap();
        let job: Job = world.get("before-upgrade-backup").await;
        world.pod_ends(&job, &[], &[("create", 0, REPORT)]).await;
        let pods = world.api::<Pod>();
        let ours = ListParams::default().labels("app.kubernetes.io/component=backup");
        assert_eq!(pods.list(&ours).await.unwrap().items.len(), 1);
    });
}

#[test]
fn a_job_of_that_name_that_is_somebody_elses_is_left_alone() {
    with_world(async |world| {
        running(&world, 1).await;
        let theirs = json!({
            "metadata": { "name": "before-upgrade-backup" },
            "spec": { "template": { "spec": {
                "restartPolicy": "Never", "containers": [{ "name": "theirs", "image": "theirs" }],
            } } },
        });
        world.make::<Job>(theirs).await.unwrap();
        world
            .make::<ReadStateBackup>(backup(volume()))
            .await
            .unwrap();
        let status = world.backup().await;
        assert_eq!(status.phase, BackupPhase::Refused);
        let told = said(&status.conditions, "Degraded");
        assert!(
            told.starts_with("True NameConflict: Job before-upgrade-backup exists already"),
            "{told}"
        );
        let job: Job = world.get("before-upgrade-backup").await;
        assert_eq!(
            job.spec.unwrap().template.spec.unwrap().containers[0].name,
            "theirs"
        );
    });
}

#[test]
fn the_sample_is_what_the_api_server_takes() {
    with_world(async |world| {
        let documents = sample("backups.yaml");
        let [backup, schedule] = &documents[..] else {
            panic!("{documents:?}");
        };
        let backup = world.make::<ReadStateBackup>(backup.clone()).await;
        // What the types do not know would have been dropped.
        assert_eq!(
            serde_json::to_value(backup.unwrap().spec).unwrap(),
            documents[0]["spec"]
        );
        let schedule = world
            .make::<ReadStateBackupSchedule>(schedule.clone())
            .await;
        assert_eq!(
            serde_json::to_value(schedule.unwrap().spec).unwrap(),
            documents[1]["spec"]
        );
    });
}
