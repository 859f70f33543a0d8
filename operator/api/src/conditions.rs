//! Conditions and reasons as types, and their conversion to `metav1.Condition`.

use std::fmt;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition as Metav1Condition, Time};

/// Enums whose variants are the words that users meet: a variant's name is its word, and stays what it is.
macro_rules! words {
    ($($(#[$about:meta])* pub enum $name:ident { $($(#[$doc:meta])* $word:ident,)* })*) => {$(
        $(#[$about])*
        pub enum $name { $($(#[$doc])* $word,)* }

        impl $name {
            /// The word, as it stands in a status.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$word => stringify!($word),)* }
            }
        }
    )*};
}

words! {
/// The conditions of a `ReadStateCluster`; the last three, and `Degraded`, those of backups and migrations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConditionType {
    /// Every slot is served by a cache pod.
    Available,
    /// The operator is changing the cluster towards its spec.
    Progressing,
    /// Something is wrong and will not recover by itself.
    Degraded,
    /// Every cache pod is ready.
    CacheReady,
    /// The database is ready, with keyspace and table created.
    DatabaseReady,
    /// Every slot has a serving owner, slots are balanced, and none is moving.
    RingStable,
    /// Database or cache pods were built by another operator version; they are updated when the annotation is set.
    RequiresUpdate,
    /// Serving pods are being restarted, one after another: the cluster counts among those of
    /// `--max-clusters-in-rollout`.
    RollingOut,
    /// Both legs of every super-disk are in sync. Present only if the cluster has super-disks.
    SuperDisksHealthy,
    /// The copies of all data were compared and made equal in time. Present only if the operator runs a database with
    /// two or more copies.
    Repaired,
    /// Slots were taken over from a process that ended without handing them on, so that changes it acknowledged in its
    /// last flush interval may be lost. True until a user acknowledges it, or the process that took them is restarted.
    TakenOver,
    /// Every slot has a backup: what is acknowledged is in the memory of two cache pods until the database has it.
    /// Present only if `spec.cache.durability` asks for backups.
    Replicated,
    /// Any client that reaches the API may call it: no callers are configured.
    ApiOpen,
    /// A certificate expires within two weeks and has not been renewed.
    CertificatesExpiring,
    /// The backup of `spec.restoreFrom` was restored before the first cache pod started. Present only if the cluster was
    /// to begin with a backup.
    Restored,
    /// Nothing is running, as the spec requires. Present only while `spec.stopped` is set.
    Stopped,
    /// The backup was made, or the table was moved and all members use the target alone.
    Complete,
    /// Backups are made at the times of the schedule.
    Scheduled,
    /// Everything was copied and compared, and members have been as that needs them ever since it began.
    Verified,
}

/// Three-valued: what was not observed is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionStatus {
    /// The condition holds.
    True,
    /// The condition does not hold.
    False,
    /// It could not be observed.
    Unknown,
}

/// The reason of a condition. Stable: scripts and alerts may rely on these words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// Nothing is wrong.
    AsExpected,
    /// Everything matches the spec.
    Reconciled,
    /// `spec.paused` is set.
    Paused,
    /// Every slot is served.
    Serving,
    /// At least one slot is not served.
    NotServing,
    /// All members are ready.
    AllReady,
    /// The operator does not run the database.
    External,
    /// The store is the cache pod's own volume.
    Embedded,
    /// Slots are balanced, and none is moving.
    Stable,
    /// There is no ring yet.
    Changing,
    /// Slots move from one cache pod to another.
    SlotsMoving,
    /// Slots have no serving owner.
    SlotsUnowned,
    /// Waiting for cache pods to take over the slots of one that is gone.
    TakeoverPending,
    /// Slots were taken over from a process that ended without handing them on.
    SlotsTakenOver,
    /// Every slot has a backup.
    AllBacked,
    /// Slots have no backup: a crash of their cache pod loses what it acknowledged and has not written.
    Unprotected,
    /// The API server does not keep the backups that cache pods name: its definition of ReadStateRing is of an earlier
    /// release.
    BackupsNotKept,
    /// Waiting for a cache pod to hand on its slots.
    CacheDraining,
    /// Waiting for proof that a cache pod holds nothing.
    DrainUnproven,
    /// The ring was deleted while cache pods were running.
    RingLost,
    /// The ring contradicts itself.
    RingUnreadable,
    /// Not observed yet, or not reachable.
    NotObserved,
    /// The spec is invalid; the message names the field.
    InvalidSpec,
    /// A required object exists but belongs to something else.
    NameConflict,
    /// The API server refused an object.
    ApplyRejected,
    /// A request to the API server failed and is made again; the message names the object and quotes the answer.
    RequestFailed,
    /// The schema Job failed; the message has the end of its log.
    SchemaFailed,
    /// Cache pods report that they cannot reach the store.
    StoreUnhealthy,
    /// Waiting for database members of a rack to become ready.
    DatabaseNotReady,
    /// Waiting for the Job that creates keyspace and table.
    SchemaPending,
    /// Waiting for a Secret, or a key in it.
    SecretMissing,
    /// Waiting for the PersistentVolumeClaim of `spec.checkpoints`.
    VolumeClaimMissing,
    /// Waiting for cert-manager to issue a certificate.
    CertificatePending,
    /// The certificates for CQL or of the API cannot be used; the message says what is wrong and what to do.
    CertificateInvalid,
    /// cert-manager should issue a certificate, but it is not installed or the operator may not use it.
    CertManagerMissing,
    /// Waiting for the Secrets with which the processes of the cluster authenticate.
    IdentityPending,
    /// The certificate authority is being replaced: waiting for pods to trust or use the new one.
    IdentityRotating,
    /// Waiting for the clocks of this machine and of the API server to agree before certificates are issued.
    ClockWrong,
    /// The clock of a cache pod's machine differs from the other pods' and from the API server's; the message names the
    /// pod and the difference. The pod takes no slots.
    ClockSkew,
    /// A certificate expires soon.
    ExpiresSoon,
    /// A cache pod of an earlier release writes what it holds and stops, since pods of this release cannot take over
    /// its slots.
    DrainingCold,
    /// Waiting for cache pods to write what they hold and stop.
    CacheStopping,
    /// Cache pods have written what they held and stopped; the database stops next.
    StoppedInOrder,
    /// The database is being deleted or stopped, although cache pods have not confirmed that they wrote what they hold.
    StopTimedOut,
    /// `spec.stopped` is set, and nothing is running.
    Stopped,
    /// Waiting for the database pods of a stopped cluster to terminate.
    DatabaseStopping,
    /// Waiting for cache pods to become ready.
    CacheNotReady,
    /// Cache pods are being told their new capacity, or given memory for it.
    CapacityChanging,
    /// A change that stops cache pods is waiting, because a pod cannot write what it holds at the moment.
    UnsafeToStop,
    /// A deleted cluster leaves its objects running, as requested.
    LeftRunning,
    /// Waiting for an object of an earlier cluster of the same name to be deleted, or for a pod of a Job that is gone.
    LeftoverObject,
    /// The next database step waits until all nodes see each other as up.
    DatabaseUnhealthy,
    /// Database pods are being changed, one after another.
    DatabaseRolling,
    /// The database is being changed to another release of its engine; the message has the step and the node.
    DatabaseUpgrading,
    /// A database node repeatedly failed at a step of the change to another release; the message quotes the database.
    DatabaseUpgradeFailed,
    /// The database runs its former release again; its snapshots from before the upgrade are kept.
    DatabaseWentBack,
    /// The change of the database to another release has ended, and its snapshots were removed.
    DatabaseUpgradeEnded,
    /// A restart waits for a maintenance window or for the maintenance pace.
    MaintenancePending,
    /// A restart of a serving pod waits because as many clusters as allowed restart pods already; the message names
    /// them.
    WaitsForOtherClusters,
    /// Serving pods are being restarted, one after another.
    RestartingPods,
    /// The number of copies of each read state is being changed: the keyspace is altered, or every node is repaired.
    ReplicationChanging,
    /// Every read state has as many copies as wanted.
    ReplicationChanged,
    /// The database nodes are being restarted for another stage of TLS between them.
    InternodeTlsChanging,
    /// A rack was removed from the spec while it still has nodes of the database; the message names one.
    RackMissing,
    /// A database node is joining.
    NodeJoining,
    /// A database node has joined.
    NodeJoined,
    /// Other nodes have confirmed that a database node is gone.
    NodeLeft,
    /// A database node whose disk came back empty is taking its old place.
    NodeReplacing,
    /// A database node is streaming its data to the others.
    NodeLeaving,
    /// A database node is dropping data that newly joined nodes took over.
    NodeCleaningUp,
    /// A database node failed to drop data that newly joined nodes took over; the message quotes the database.
    CleanupFailed,
    /// A database node is being repaired: its data is compared with that of the other nodes.
    NodeRepairing,
    /// Every database node was repaired in time, or no repair is due yet.
    Repaired,
    /// The last repair of a database node is so old that deleted data may come back.
    RepairOverdue,
    /// Repairs of a database node failed; the message quotes the database.
    RepairFailed,
    /// Agents in database pods are of an earlier release that cannot repair.
    RepairUnsupported,
    /// `spec.database.repair.enabled` is false: the operator repairs nothing.
    RepairDisabled,
    /// A database node cannot join safely; the message has the numbers.
    JoinRefused,
    /// A database node cannot leave safely; the message has the numbers.
    ScaleDownRefused,
    /// A database node failed to leave; the message quotes the database.
    DecommissionFailed,
    /// A database node repeatedly failed to join or to take its old place.
    JoinFailed,
    /// A database node lost its disk or its machine while it was leaving.
    LeaverLost,
    /// A database node's disk came back empty or with other data, and no other node has a copy that can be trusted.
    DiskLost,
    /// The release of the requested database image cannot follow the running one.
    EngineVersionRefused,
    /// The operator is not allowed to delete the claim of a database node that has left.
    ReclaimForbidden,
    /// A new node waits until the claim of the former node in its place is gone.
    ClaimOfFormerNode,
    /// Volumes of database nodes are growing to the size in the spec.
    VolumeGrowing,
    /// A volume of a database node cannot grow; the message quotes the API server or the driver.
    VolumeNotGrown,
    /// This operator version would build database or cache pods differently.
    UpdateAvailable,
    /// Database and cache pods are as this operator version builds them.
    UpToDate,
    /// The pod of a super-disk has not reached this step yet.
    SuperDiskWaiting,
    /// Assembly of a super-disk was refused, and nothing was changed; the message has the code and what to do.
    SuperDiskRefused,
    /// Assembly of a super-disk failed.
    SuperDiskFailed,
    /// A super-disk is being assembled.
    SuperDiskAssembling,
    /// Both legs are in sync.
    SuperDiskHealthy,
    /// The local disks of a super-disk are being rebuilt.
    FastLegRebuilding,
    /// The local disks of a super-disk are lost; its network disk serves alone.
    FastLegLost,
    /// The network disk of a super-disk is lost; writes are stopped.
    DurableLegLost,
    /// `spec.cache.access` is not set: any client that reaches the API may call it.
    NoAccessConfigured,
    /// The API is open only to the callers of `spec.cache.access`.
    CallersOnly,
    /// A caller's credentials are missing or cannot be used, and that caller is refused; the message says which.
    CallerRefused,
    /// There is no `ReadStateCluster` of this name in the namespace.
    ClusterNotFound,
    /// The `ReadStateCluster` has no database that could be backed up at the moment; the message says why.
    ClusterNotReady,
    /// The database cannot be backed up by a Job: it is embedded in a cache pod.
    BackupUnsupported,
    /// The backup is being made.
    BackupRunning,
    /// The backup was made.
    BackupComplete,
    /// The last backup failed; the message has the program's last words.
    BackupFailed,
    /// The last verification of a backup failed; the message has the program's last words.
    VerifyFailed,
    /// The last backup was made, but old ones could not be deleted; the message has the program's last words.
    PruneFailed,
    /// The last good backup is older than `spec.maxAge`.
    BackupOverdue,
    /// Backups are made at the times of the schedule.
    Scheduled,
    /// `spec.suspend` is set.
    Suspended,
    /// The restore waits: for the database, or for the backup; the message says for what.
    RestoreWaiting,
    /// The backup of `spec.restoreFrom` is being restored, or the table is being moved here.
    RestoreRunning,
    /// The restore failed; the message has the program's last words.
    RestoreFailed,
    /// The backup was restored, or the table moved here.
    Restored,
    /// Nothing was restored: the cluster had cache pods before, and nothing is restored over live data.
    RestoreSkipped,
    /// The move cannot be made by a Job between databases of these kinds; the message says what can.
    MigrationUnsupported,
    /// The target is the database that the `ReadStateCluster` uses.
    SameDatabase,
    /// Another `ReadStateMigration` moves this cluster, or moves to this target, or the target has had cache pods; the
    /// message says which.
    TargetInUse,
    /// The `ReadStateCluster` of the target is not the one that was copied to, or is being deleted.
    TargetChanged,
    /// The table was handed over to another `ReadStateCluster`: no cache pod of this one starts while the
    /// `ReadStateMigration` is there.
    HandedOver,
    /// Cache pods of another `ReadStateCluster` write this database, too: it stops after that.
    StillWritten,
    /// The `ReadStateCluster` uses a third database now: neither the source nor the target.
    SourceChanged,
    /// Waiting for all cache pods to write both databases, or to be stopped.
    AwaitingMembers,
    /// A Job copies the table to the target.
    MigrationCopying,
    /// A Job compares all rows.
    MigrationVerifying,
    /// The Job gave up; the message has the program's last words.
    MigrationFailed,
    /// Cache pods were not as copying needs them all the time, so what was compared does not count.
    MembersChanged,
    /// Everything was compared, and nothing was missing.
    MigrationVerified,
    /// Waiting for all cache pods to use the target alone.
    MembersSwitching,
    /// The `ReadStateCluster` names the target although no verification counts.
    SwitchedTooEarly,
    /// All cache pods use the target alone.
    Moved,
    /// The `ReadStateMigration` is deleted; the message says what stays.
    MigrationEnded,
}
}

/// A condition before its conversion to the Kubernetes type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Type of the condition.
    pub type_: ConditionType,
    /// Status of the condition.
    pub status: ConditionStatus,
    /// Reason, for machines.
    pub reason: Reason,
    /// Message, for people.
    pub message: String,
}

impl Condition {
    /// A condition from its parts.
    pub fn new(
        type_: ConditionType,
        status: ConditionStatus,
        reason: Reason,
        message: impl Into<String>,
    ) -> Self {
        Self {
            type_,
            status,
            reason,
            message: message.into(),
        }
    }

    /// Converts to the Kubernetes type. `previous` are the earlier conditions: the transition time changes only with
    /// the status.
    #[must_use]
    pub fn to_metav1(
        &self,
        previous: &[Metav1Condition],
        generation: Option<i64>,
        now: Timestamp,
    ) -> Metav1Condition {
        let Self {
            type_,
            status,
            reason,
            message,
        } = self;
        let since = previous
            .iter()
            .find(|c| c.type_ == type_.as_str() && c.status == status.as_str())
            .map_or(Time(now), |c| c.last_transition_time.clone());
        Metav1Condition {
            type_: type_.as_str().to_owned(),
            status: status.as_str().to_owned(),
            reason: reason.as_str().to_owned(),
            message: message.clone(),
            observed_generation: generation,
            last_transition_time: since,
        }
    }
}

impl From<bool> for ConditionStatus {
    fn from(value: bool) -> Self {
        if value { Self::True } else { Self::False }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn available(status: ConditionStatus) -> Condition {
        Condition::new(
            ConditionType::Available,
            status,
            Reason::Serving,
            "one of one",
        )
    }

    #[test]
    fn a_first_condition_begins_now() {
        let seen = available(ConditionStatus::True).to_metav1(&[], Some(4), at(100));
        assert_eq!(
            seen,
            Metav1Condition {
                type_: "Available".to_owned(),
                status: "True".to_owned(),
                reason: "Serving".to_owned(),
                message: "one of one".to_owned(),
                observed_generation: Some(4),
                last_transition_time: Time(at(100)),
            }
        );
    }

    #[test]
    fn the_transition_time_moves_only_with_the_status() {
        let first = available(ConditionStatus::True).to_metav1(&[], Some(1), at(100));
        let mut same = available(ConditionStatus::True);
        same.message = "other words".to_owned();
        let same = same.to_metav1(std::slice::from_ref(&first), Some(2), at(200));
        assert_eq!(same.last_transition_time, Time(at(100)));
        assert_eq!(same.observed_generation, Some(2));

        let flipped = available(ConditionStatus::False).to_metav1(&[same], Some(2), at(300));
        assert_eq!(flipped.last_transition_time, Time(at(300)));
    }
}
