//! Backups that the operator has made: of a real Cassandra, by Jobs on nodes, to a volume.

mod history;
mod restore;
mod snapshots;

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::{CHANNEL, Child, Cluster, MESSAGE, Users, World};
use k8s_openapi::{
    ByteString,
    api::{
        batch::v1::Job,
        core::v1::{PersistentVolumeClaim, Secret},
    },
};
use kube::{
    ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use readstates_operator_api::{
    BackupMade, BackupPhase, ReadStateBackup, ReadStateBackupSchedule,
    ReadStateBackupScheduleStatus,
};
use serde_json::{Value, json};

/// A pod is started, and reads all of a small database.
const TAKES: Duration = Duration::from_mins(5);
const VOLUME: &str = "backups-of-chat";

pub(crate) async fn apply<K>(cluster: &Cluster, object: Value) -> Result<()>
where
    K: Child,
    K::DynamicType: Default,
{
    let name = object["metadata"]["name"].as_str().context("no name")?;
    let parameters = PatchParams::apply("readstates-e2e").force();
    let api = cluster.api::<K>();
    api.patch(name, &parameters, &Patch::Apply(&object)).await?;
    Ok(())
}

fn volume_claim() -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": VOLUME },
        "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
    })
}

fn encryption_key() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": VOLUME },
        "data": { "backup.key": ByteString((0..32).collect()) },
    })
}

fn storage() -> Value {
    json!({
        "volumeClaim": { "claimName": VOLUME, "path": "chat" },
        "encryptionKeySecretRef": { "name": VOLUME },
    })
}

fn of_kind(kind: &str, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "readstates.dev/v1alpha1", "kind": kind, "metadata": { "name": name }, "spec": spec,
    })
}

/// A backup at once, and what the operator says of it when it is done.
async fn backed_up(cluster: &Cluster, name: &str) -> Result<BackupMade> {
    let spec = json!({ "cluster": "chat", "storage": storage() });
    apply::<ReadStateBackup>(cluster, of_kind("ReadStateBackup", name, spec)).await?;
    let over = |backup: &ReadStateBackup| {
        let phase = backup.status.as_ref().map(|status| status.phase);
        matches!(phase, Some(BackupPhase::Complete | BackupPhase::Failed))
    };
    let backup = cluster.sees_within(name, "is over", TAKES, over).await?;
    let status = backup.status.context("no status")?;
    ensure!(status.phase == BackupPhase::Complete, "{status:?}");
    status.backup.context("complete, and no backup is told")
}

/// What the schedule says once `is_told` holds of it.
async fn told(
    cluster: &Cluster,
    what: &str,
    is_told: impl Fn(&ReadStateBackupScheduleStatus) -> bool + Send + Sync,
) -> Result<ReadStateBackupScheduleStatus> {
    let told = |schedule: &ReadStateBackupSchedule| schedule.status.as_ref().is_some_and(&is_told);
    let schedule = cluster.sees_within("rarely", what, TAKES, told).await?;
    schedule.status.context("no status")
}

#[tokio::test]
async fn backups_are_made_verified_and_pruned_by_jobs_and_outlive_their_resources() -> Result<()> {
    let cluster = World::chat().await?;
    let service = cluster.service()?;
    let crowd = Users::fresh().take(60);
    for user in &crowd {
        service.ack(*user, CHANNEL, MESSAGE).await?;
    }
    for ordinal in 0..3 {
        cluster.flush(ordinal).await?;
    }
    cluster.has_rows_of(&crowd).await?;
    apply::<PersistentVolumeClaim>(&cluster, volume_claim()).await?;

    // The key comes later: until then the backup waits, and says for what.
    let spec = json!({ "cluster": "chat", "storage": storage() });
    apply::<ReadStateBackup>(&cluster, of_kind("ReadStateBackup", "first", spec)).await?;
    let waits = |backup: &ReadStateBackup| {
        let conditions = backup.status.iter().flat_map(|status| &status.conditions);
        conditions.into_iter().any(|c| c.message.contains(VOLUME))
    };
    cluster
        .sees_within("first", "names the Secret", TAKES, waits)
        .await?;
    apply::<Secret>(&cluster, encryption_key()).await?;
    let first = backed_up(&cluster, "first").await?;
    let users = first.users.context("no users are told")?;
    ensure!(users >= 60, "{first:?}");
    let second = backed_up(&cluster, "second").await?;
    ensure!(
        second.id != first.id && second.users >= first.users,
        "{second:?}"
    );

    // At times that do not come: begun by hand.
    let spec = json!({
        "cluster": "chat", "storage": storage(), "schedule": "0 3 1 1 *", "verifySchedule": "0 6 1 1 *",
        "retention": { "keepLast": 1 },
    });
    apply::<ReadStateBackupSchedule>(&cluster, of_kind("ReadStateBackupSchedule", "rarely", spec))
        .await?;
    told(&cluster, "is scheduled", |status| {
        let mut conditions = status.conditions.iter();
        conditions.any(|c| c.type_ == "Scheduled" && c.status == "True")
    })
    .await?;
    cluster
        .kubectl(&[
            "create",
            "job",
            "--from=cronjob/rarely-create",
            "rarely-by-hand",
        ])
        .await?;
    let status = told(&cluster, "has made a backup and pruned", |status| {
        status.last_backup.is_some() && status.last_pruned.is_some()
    })
    .await?;
    let third = status.last_backup.context("no backup")?;
    ensure!(
        third.id != second.id && third.users >= first.users,
        "{third:?}"
    );
    cluster
        .kubectl(&[
            "create",
            "job",
            "--from=cronjob/rarely-verify",
            "rarely-verified",
        ])
        .await?;
    let status = told(&cluster, "has verified", |status| {
        status.last_verified.is_some()
    })
    .await?;
    let verified = serde_json::to_value(status.last_verified)?;
    ensure!(verified["id"] == json!(third.id), "{verified}");

    // Backups outlive their resources: the next one stores almost nothing new.
    for kind in ["readstatebackup", "readstatebackupschedule"] {
        cluster
            .kubectl(&["delete", "--wait", "--all", kind])
            .await?;
    }
    let fourth = backed_up(&cluster, "fourth").await?;
    ensure!(
        fourth.new_stored_bytes < first.new_stored_bytes,
        "{first:?} {fourth:?}"
    );
    cluster
        .kubectl(&["delete", "--wait", "readstatebackup", "fourth"])
        .await?;
    cluster
        .kubectl(&["delete", "--wait", "pvc", VOLUME])
        .await?;
    cluster.kubectl(&["delete", "secret", VOLUME]).await?;
    let jobs = cluster.api::<Job>();
    let ours = ListParams::default().labels("app.kubernetes.io/component=backup");
    let left: Vec<String> = jobs
        .list(&ours)
        .await?
        .iter()
        .map(ResourceExt::name_any)
        .collect();
    ensure!(left.is_empty(), "{left:?}");
    Ok(())
}
