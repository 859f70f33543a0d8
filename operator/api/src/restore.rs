//! `spec.restoreFrom` of a `ReadStateCluster`: a new cluster that begins with a backup, or with the table of another
//! cluster, and what became of that.

use k8s_openapi::{api::core::v1::LocalObjectReference, apimachinery::pkg::apis::meta::v1::Time};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::storage::BackupStorage;

/// What a new cluster begins with: the backup of a `ReadStateBackup` (`backup`), one in a bucket or on a volume
/// (`repository`), copies of the volumes of a database (`volumeSnapshots`), or the table of another cluster that moves
/// here (`migration`).
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new(
        "[has(self.backup), has(self.repository), has(self.volumeSnapshots), has(self.migration)].filter(x, x).size() == 1"
    )
    .message("exactly one of backup, repository, volumeSnapshots and migration must be set"),
    validation = Rule::new("!has(self.snapshot) || has(self.repository)")
        .message("snapshot goes with repository: a ReadStateBackup is one backup")
        .field_path(".snapshot")
)]
pub struct RestoreFrom {
    /// A `ReadStateBackup` of this namespace: waited for until it is complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("self.name != ''").message("backup.name must not be empty"))]
    pub backup: Option<LocalObjectReference>,

    /// Where the backup is. Secrets and the volume claim must be in this namespace, wherever the backup was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<BackupStorage>,

    /// The VolumeSnapshots of a backup: each database node begins with a copy of the volume of the node in its place. The
    /// racks and their members must be those of the database that the backup is of, and so must the engine and the
    /// Secrets with its logins. Where that one had another name or namespace, `spec.database.volumesOf` says which.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_snapshots: Option<VolumeSnapshotsOf>,

    /// A `ReadStateMigration` of this namespace whose `target.cluster` is this cluster: its cache pods wait until
    /// everything is copied and compared, and those of the source have stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("self.name != ''").message("migration.name must not be empty"))]
    pub migration: Option<LocalObjectReference>,

    /// Id of the backup in `repository`, as `readstates backup list` prints it, or `latest`. Default: `latest`, as of
    /// when the restore begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = 32),
        regex(pattern = r"^(latest|[0-9]{8}T[0-9]{6}\.[0-9]{3}Z-[0-9a-f]{8})$")
    )]
    pub snapshot: Option<String>,
}

/// VolumeSnapshots in this namespace.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct VolumeSnapshotsOf {
    /// The value of their label `readstates.dev/backup`: the name of the `ReadStateBackup`, which need not exist any more.
    #[schemars(
        length(min = 1, max = 50),
        regex(pattern = r"^[a-z]([-a-z0-9]*[a-z0-9])?$")
    )]
    pub backup: String,
}

/// How far a restore is.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RestorePhase {
    /// The database or something else that it needs is missing.
    #[default]
    Waiting,
    /// Its Job is at work, or the table is being moved here.
    Running,
    /// Its Job gave up.
    Failed,
    /// Everything is restored. Final.
    Restored,
}

/// A restore that the operator last observed.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct RestoreStatus {
    /// `Waiting`, `Running`, `Failed` or `Restored`. Cache pods start after `Restored`, which is final.
    #[serde(default)]
    pub phase: RestorePhase,

    /// The Job that restores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,

    /// The `ReadStateMigration` by which a table was moved here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub migration: Option<String>,

    /// Id of the backup, or the name of that of the VolumeSnapshots, once it is restored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup: Option<String>,

    /// The hosts and the keyspace, or the folder, that it is a backup of, or that the table was in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,

    /// When the backup was complete: what was changed later is not in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backed_up: Option<Time>,

    /// Users that were restored or moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub users: Option<i64>,

    /// When everything was restored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restored: Option<Time>,
}
