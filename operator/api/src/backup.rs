//! `ReadStateBackup` and `ReadStateBackupSchedule`: copies of a cluster's database in a bucket, on a volume, or as
//! snapshots of its own volumes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{storage::BackupStorage, verification::Verification};

/// One backup of the database of a `ReadStateCluster`, made as soon as the cluster has a database: by a Job, or as
/// snapshots of the volumes. Deleting it deletes the Job, also one that is running, and what is in the bucket or on the
/// volume stays; or it deletes the VolumeSnapshots, and their class decides whether the storage system keeps the copies.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "readstates.dev",
    version = "v1alpha1",
    kind = "ReadStateBackup",
    plural = "readstatebackups",
    shortname = "rsb",
    category = "readstates",
    namespaced,
    status = "ReadStateBackupStatus",
    derive = "PartialEq",
    doc = "One backup of the database of a ReadStateCluster. Deleting it deletes the Job that makes it, and \
           nothing in the bucket or on the volume; or its VolumeSnapshots.",
    printcolumn(
        name = "Cluster",
        type_ = "string",
        json_path = ".spec.cluster",
        description = "The ReadStateCluster."
    ),
    printcolumn(
        name = "Phase",
        type_ = "string",
        json_path = ".status.phase",
        description = "Waiting, Running, Complete, Failed, or Refused."
    ),
    printcolumn(
        name = "Backup",
        type_ = "string",
        json_path = ".status.backup.id",
        description = "Id of the backup, as `readstates backup list` prints it."
    ),
    printcolumn(
        name = "Users",
        type_ = "integer",
        json_path = ".status.backup.users",
        description = "Users in the backup."
    ),
    printcolumn(
        name = "Finished",
        type_ = "date",
        json_path = ".status.backup.finished",
        description = "When it was complete."
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Stored",
        type_ = "integer",
        json_path = ".status.backup.storedBytes",
        priority = "1",
        description = "Bytes of all its objects. Backups in one place share most of them."
    ),
    printcolumn(
        name = "New",
        type_ = "integer",
        json_path = ".status.backup.newStoredBytes",
        priority = "1",
        description = "Bytes of the objects that no earlier backup had."
    ),
    printcolumn(
        name = "Detail",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Complete\")].message",
        priority = "1",
        description = "What is waited for, or what went wrong."
    ),
    validation = Rule::new(
        "size(self.metadata.name) <= 50 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')"
    ).message(
        "metadata.name must be at most 50 characters of a-z, 0-9 and '-', begin with a letter and not end with '-': \
         the name of the Job is derived from it"
    )
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self == oldSelf")
        .message("a ReadStateBackup cannot change: it is one backup. Create another one")
        .reason(Reason::FieldValueForbidden),
    validation = Rule::new("has(self.storage) != has(self.volumeSnapshots)")
        .message("exactly one of storage and volumeSnapshots must be set")
)]
pub struct ReadStateBackupSpec {
    /// Name of the `ReadStateCluster` in this namespace whose database is backed up.
    #[schemars(length(min = 1, max = 40))]
    pub cluster: String,

    /// Where the backup goes: it can be restored into a database of another size or engine, as a whole or for one user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<BackupStorage>,

    /// In place of `storage`: a VolumeSnapshot of the volume of each database node, after everything that was acknowledged
    /// has been written to the disks. They are made and restored in the time that the storage system takes, however
    /// much is stored, and only into a database of the same racks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_snapshots: Option<VolumeSnapshots>,
}

/// Snapshots of the volumes of a database.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct VolumeSnapshots {
    /// The VolumeSnapshotClass. One whose deletionPolicy is Retain keeps the copies when the VolumeSnapshots or their
    /// namespace are deleted. Default: the default class of the driver of the volumes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
    )]
    pub volume_snapshot_class_name: Option<String>,
}

/// Backups of the database of a `ReadStateCluster` at given times, never two at once; one that was missed by at most six
/// hours is made late. With `storage`, a CronJob makes them, also while the operator is away; deleting the schedule
/// deletes the CronJobs and their Jobs, and what is in the bucket or on the volume stays. With `volumeSnapshots`, the
/// operator creates a `ReadStateBackup` each time, and those stay.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "readstates.dev",
    version = "v1alpha1",
    kind = "ReadStateBackupSchedule",
    plural = "readstatebackupschedules",
    shortname = "rsbs",
    category = "readstates",
    namespaced,
    status = "ReadStateBackupScheduleStatus",
    derive = "PartialEq",
    doc = "Backups of the database of a ReadStateCluster at given times. Deleting it deletes the CronJobs that make \
           them, and no backup.",
    printcolumn(
        name = "Cluster",
        type_ = "string",
        json_path = ".spec.cluster",
        description = "The ReadStateCluster."
    ),
    printcolumn(
        name = "Schedule",
        type_ = "string",
        json_path = ".spec.schedule",
        description = "When backups are made."
    ),
    printcolumn(
        name = "Scheduled",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Scheduled\")].status",
        description = "Whether backups are made at these times."
    ),
    printcolumn(
        name = "Last-Backup",
        type_ = "date",
        json_path = ".status.lastBackup.finished",
        description = "When the last good backup was complete."
    ),
    printcolumn(
        name = "Users",
        type_ = "integer",
        json_path = ".status.lastBackup.users",
        description = "Users in the last good backup."
    ),
    printcolumn(
        name = "Verified",
        type_ = "date",
        json_path = ".status.lastVerified.finished",
        description = "When a backup was last read and found sound."
    ),
    printcolumn(
        name = "Degraded",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Degraded\")].reason",
        description = "AsExpected, or what is wrong."
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Detail",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Degraded\")].message",
        priority = "1",
        description = "What is wrong, in words."
    ),
    validation = Rule::new(
        "size(self.metadata.name) <= 40 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')"
    ).message(
        "metadata.name must be at most 40 characters of a-z, 0-9 and '-', begin with a letter and not end with '-': \
         the names of CronJobs are derived from it"
    )
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.cluster == oldSelf.cluster")
        .message("cluster cannot change: backups of two clusters must not be in one place. Create another schedule")
        .field_path(".cluster")
        .reason(Reason::FieldValueForbidden),
    validation = Rule::new("has(self.storage) != has(self.volumeSnapshots)")
        .message("exactly one of storage and volumeSnapshots must be set"),
    validation = Rule::new("!has(self.verifySchedule) || has(self.storage)")
        .message("verifySchedule goes with storage: a snapshot of volumes is checked by restoring it")
        .field_path(".verifySchedule")
)]
pub struct ReadStateBackupScheduleSpec {
    /// Name of the `ReadStateCluster` in this namespace whose database is backed up. Cannot be changed.
    #[schemars(length(min = 1, max = 40))]
    pub cluster: String,

    /// When backups are made: minute, hour, day of the month, month and day of the week, as in a CronJob: `0 3 * * *`;
    /// or `@daily`, `@hourly`, `@weekly`, `@monthly`.
    #[schemars(
        length(min = 1, max = 100),
        regex(
            pattern = r"^(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|[^@= ]+( +[^= ]+){4})$"
        )
    )]
    pub schedule: String,

    /// Time zone of `schedule` and `verifySchedule`, such as `Europe/Berlin`. Default: `Etc/UTC`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 64),
        regex(pattern = r"^[A-Za-z][A-Za-z0-9_+/-]*$")
    )]
    pub time_zone: Option<String>,

    /// While true, no backup is begun, verified or pruned; one that is running is completed. Default: false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub suspend: bool,

    /// Where the backups go. Use one place for each cluster: `retention` counts everything that is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<BackupStorage>,

    /// In place of `storage`: each time, a `ReadStateBackup` by VolumeSnapshots is created, named after the schedule and
    /// the time. `retention` deletes those of the cluster that have its label `readstates.dev/backup-schedule`, and with
    /// them their VolumeSnapshots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_snapshots: Option<VolumeSnapshots>,

    /// Which backups are kept; others are deleted after each backup that succeeds. Default: all are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention: Option<BackupRetention>,

    /// When the latest backup is read from the first byte to the last, and every checksum, block and count is checked;
    /// in the form of `schedule`. Choose a time at which no backup is being made. Default: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 100),
        regex(
            pattern = r"^(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|[^@= ]+( +[^= ]+){4})$"
        )
    )]
    pub verify_schedule: Option<String>,

    /// Age of the last good backup, from 5m to 400d, from which the condition Degraded says BackupOverdue: `26h` for
    /// daily backups. Default: its age is only measured (readstates_backup_age_seconds).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = 16),
        regex(pattern = r"^([0-9]{1,3}d|([0-9]{1,4}(h|m))+)$")
    )]
    pub max_age: Option<String>,
}

/// Which backups are kept: those that either rule keeps.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.keepLast) || has(self.keepDays)")
        .message("at least one of keepLast and keepDays must be set")
)]
pub struct BackupRetention {
    /// So many backups, the newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000))]
    pub keep_last: Option<i32>,

    /// All backups of the last so many days.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 36_500))]
    pub keep_days: Option<i32>,
}

/// How far a backup is.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackupPhase {
    /// Something is missing that it needs.
    #[default]
    Waiting,
    /// Its Job is at work.
    Running,
    /// The Job has made it.
    Complete,
    /// Its Job gave up.
    Failed,
    /// It cannot be made as the spec wants it.
    Refused,
}

/// The state of a backup that the operator last observed.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ReadStateBackupStatus {
    /// Generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// `Complete`, and `Degraded`, which says what a person has to do.
    #[serde(default)]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".to_owned()]))]
    pub conditions: Vec<Condition>,

    /// `Waiting`, `Running`, `Complete`, `Failed` or `Refused`. `Complete` and `Failed` are final.
    #[serde(default)]
    pub phase: BackupPhase,

    /// The Job that makes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,

    /// The backup, once it is complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup: Option<BackupMade>,

    /// With `volumeSnapshots`: everything that was acknowledged before is in the backup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flushed: Option<Time>,

    /// The VolumeSnapshots, one for each database node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["node".to_owned()]))]
    pub volume_snapshots: Vec<NodeSnapshot>,
}

/// The snapshot of the volume of one database node.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct NodeSnapshot {
    /// Name of the node's pod.
    pub node: String,

    /// Name of the VolumeSnapshot.
    pub name: String,

    /// Name of the VolumeSnapshotContent, once the storage system knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,

    /// When the storage system took it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken: Option<Time>,
}

/// A backup that was made. Only `finished` is known when its pod was deleted before the operator could read what it
/// reported: `readstates backup list` shows the rest.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct BackupMade {
    /// When it was complete.
    pub finished: Time,

    /// Id of the backup, as `readstates backup list` prints it and `readstates backup restore` takes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,

    /// Users in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub users: Option<i64>,

    /// Bytes of all rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<i64>,

    /// Bytes of all its objects. Backups in one place share most of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stored_bytes: Option<i64>,

    /// Bytes of the objects that no earlier backup had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_stored_bytes: Option<i64>,
}

/// The state of a schedule that the operator last observed.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ReadStateBackupScheduleStatus {
    /// Generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// `Scheduled`, and `Degraded`, which says what a person has to do.
    #[serde(default)]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".to_owned()]))]
    pub conditions: Vec<Condition>,

    /// The last backup that succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_backup: Option<BackupMade>,

    /// The last verification that found a backup sound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_verified: Option<BackupVerified>,

    /// The last time that backups were pruned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_pruned: Option<BackupsPruned>,
}

/// A backup that was found sound.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct BackupVerified {
    /// When, and how many users it has.
    #[serde(flatten)]
    pub verification: Verification,

    /// Id of the backup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

/// Old backups that were deleted.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct BackupsPruned {
    /// When.
    pub finished: Time,

    /// How many backups were deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted: Option<i64>,

    /// How many are left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<i64>,
}
