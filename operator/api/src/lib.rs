//! The custom resources of Readstates, and the names that go with them.
//!
//! What is here: the types of `ReadStateCluster`, `ReadStateRing`, `ReadStateBackup`, `ReadStateBackupSchedule` and
//! `ReadStateMigration` (their schemas, defaults and CEL rules become `crds/*.yaml`), the conditions and reasons that a status
//! may carry, the labels on everything the operator makes, and the hash of an object that some of them have. What is not: any
//! decision about them, any IO, any clock.

#![deny(missing_docs)]
#![allow(
    unreachable_pub,
    reason = "kube's schema derive copies each struct, `pub` and all, into the body of a function"
)]

pub mod conditions;
pub mod fingerprint;
pub mod labels;

mod access;
mod backup;
mod cluster;
mod crds;
mod database;
mod maintenance;
mod migration;
mod monitoring;
mod pod_template;
mod repair;
mod replication;
mod restore;
mod ring;
mod status;
mod storage;
mod super_disk;
mod tls;
mod upgrade;
mod verification;

pub use access::{AccessSpec, CallerSpec, ClientCaSource, ServiceAccountRef, TokenSecretRef, Verb};
pub use backup::{
    BackupMade, BackupPhase, BackupRetention, BackupVerified, BackupsPruned, NodeSnapshot,
    ReadStateBackup, ReadStateBackupSchedule, ReadStateBackupScheduleSpec,
    ReadStateBackupScheduleStatus, ReadStateBackupSpec, ReadStateBackupStatus, VolumeSnapshots,
};
pub use cluster::{
    CacheSpec, Durability, FLUSH_INTERVAL, FlushMode, PullPolicy, ReadStateCluster,
    ReadStateClusterSpec,
};
pub use crds::{CrdFile, crd_files};
pub use database::{
    DatabaseSpec, EmbeddedSpec, Engine, ExternalSpec, RackSpec, Reclaim, SettingValue, Storage,
    VolumesOf,
};
pub use maintenance::{Day, MaintenanceSpec, WindowSpec};
pub use migration::{
    CheckpointStorage, HandOver, MembersMeanwhile, MigrationPhase, MigrationProgress,
    MigrationTarget, ReadStateMigration, ReadStateMigrationSpec, ReadStateMigrationStatus,
};
pub use monitoring::MonitoringSpec;
pub use pod_template::{
    IpFamilyPolicy, PodTemplate, ServiceSpec, ServiceType, TrafficDistribution, TrafficPolicy,
};
pub use repair::RepairSpec;
pub use replication::{DatabaseReplication, DatabaseReplicationStage};
pub use restore::{RestoreFrom, RestorePhase, RestoreStatus, VolumeSnapshotsOf};
pub use ring::{ReadStateRing, ReadStateRingSpec, RingMember};
pub use status::{
    CertificateStatus, DatabaseNode, DatabaseNodeState, PendingJob, ReadStateClusterStatus,
    SchemaStatus, SuperDiskState, SuperDiskStatus, Takeovers, Waiting,
};
pub use storage::{
    BackupStorage, CaSecretRef, DEFAULT_CA_KEY, DEFAULT_ENCRYPTION_KEY, EncryptionKeyRef,
    S3Storage, VolumeClaimStorage,
};
pub use super_disk::{FastLeg, Filesystem, SuperDiskSpec};
pub use tls::{ApiTlsSpec, IdentitySpec, InternodeTls, IssuerRef, TlsSpec};
pub use upgrade::{DatabaseUpgrade, DatabaseUpgradeStage, NodeUpgrade};
pub use verification::Verification;

/// The API group of every kind here.
pub const GROUP: &str = "readstates.dev";

/// The keyspace when none is given.
pub const DEFAULT_KEYSPACE: &str = "readstates";
