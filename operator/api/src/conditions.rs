//! Conditions and their reasons as types, and the one place where they become `metav1.Condition`.

use std::fmt;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition as Metav1Condition, Time};

/// The conditions of a `ReadStateCluster`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConditionType {
    /// Every user has a cache pod that serves.
    Available,
    /// The operator is on its way from what is to what was asked for.
    Progressing,
    /// Something is wrong that time alone will not cure.
    Degraded,
    /// Every cache pod is ready.
    CacheReady,
    /// The database is ready and has keyspace and table.
    DatabaseReady,
    /// Every slot has an owner that serves, each owner its share, and nothing moves.
    RingStable,
    /// Database or cache pods were built by another operator version; they are updated when the annotation is set.
    RequiresUpdate,
    /// Both legs of every super-disk are in sync. Only where there are super-disks.
    SuperDisksHealthy,
    /// Slots were taken over from a process that ended without handing them on, so that what it acknowledged in its
    /// last flush interval may be lost. Until a user acknowledges it, or the process that took them is restarted.
    TakenOver,
    /// Any client that reaches the API may call it: no callers are configured.
    ApiOpen,
    /// A certificate expires within two weeks and has not been renewed.
    CertificatesExpiring,
    /// Nothing runs, as the spec says. Only while `spec.stopped` is set.
    Stopped,
}

/// Three-valued: what was not seen is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionStatus {
    /// It is so.
    True,
    /// It is not so.
    False,
    /// It could not be seen.
    Unknown,
}

/// Why a condition is as it is. Stable: scripts and alerts may rely on these words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// Nothing is wrong.
    AsExpected,
    /// Everything is as the spec says.
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
    /// Nothing moves, and nothing has to.
    Stable,
    /// There is no ring yet.
    Changing,
    /// Slots move from one cache pod to another.
    SlotsMoving,
    /// Slots have no owner that serves.
    SlotsUnowned,
    /// Waiting for cache pods to take over the slots of one that is gone.
    TakeoverPending,
    /// Slots were taken over from a process that ended without handing them on.
    SlotsTakenOver,
    /// Waiting for a cache pod to hand on what it owns.
    CacheDraining,
    /// Waiting for proof that a cache pod holds nothing.
    DrainUnproven,
    /// The ring was deleted while cache pods run.
    RingLost,
    /// The ring contradicts itself.
    RingUnreadable,
    /// Not looked at yet, or not reachable.
    NotObserved,
    /// The spec cannot be carried out; the message names the field.
    InvalidSpec,
    /// An object that is needed exists and is not this cluster's.
    NameConflict,
    /// The API server refused an object.
    ApplyRejected,
    /// The schema Job failed; the message has its last words.
    SchemaFailed,
    /// Cache pods report that they cannot reach the store.
    StoreUnhealthy,
    /// Waiting for database members of a rack to become ready.
    DatabaseNotReady,
    /// Waiting for the Job that makes keyspace and table.
    SchemaPending,
    /// Waiting for a Secret, or a key in it.
    SecretMissing,
    /// Waiting for cert-manager to make a certificate.
    CertificatePending,
    /// The certificates for CQL or of the API cannot be used; the message says what is wrong and what to do.
    CertificateInvalid,
    /// A certificate is to be made by cert-manager, and there is no way to it.
    CertManagerMissing,
    /// Waiting for the Secrets by which the processes of the cluster prove what they are.
    IdentityPending,
    /// A certificate authority takes the place of another: waiting for pods to trust or use the new one.
    IdentityRotating,
    /// Waiting for this machine's clock and the API server's to agree before certificates are issued.
    ClockWrong,
    /// The clock of a cache pod's machine differs from the others' and from the API server's; the message names the pod
    /// and by how much. It takes no slots.
    ClockSkew,
    /// A certificate expires soon.
    ExpiresSoon,
    /// A cache pod of an earlier release, which pods of this one take nothing from, writes what it holds and
    /// stops.
    DrainingCold,
    /// Waiting for cache pods to write what they hold and stop.
    CacheStopping,
    /// Cache pods have written what they held and stopped, before the database does.
    StoppedInOrder,
    /// The database goes or stops, although cache pods have not said that they have written what they hold.
    StopTimedOut,
    /// `spec.stopped` is set, and nothing runs.
    Stopped,
    /// Waiting for database pods of a cluster that is stopped to be gone.
    DatabaseStopping,
    /// Waiting for cache pods to become ready.
    CacheNotReady,
    /// Cache pods are told how many read states to keep.
    CapacityChanging,
    /// A change that stops cache pods waits, since one could not write what it holds now.
    UnsafeToStop,
    /// A deleted cluster leaves its objects running, as it was asked to.
    LeftRunning,
    /// Waiting for an object of an earlier cluster of the same name to be deleted.
    LeftoverObject,
    /// The next step on the database waits until all its nodes see each other up.
    DatabaseUnhealthy,
    /// Database pods are being changed, one after another.
    DatabaseRolling,
    /// A restart waits for its maintenance window, or for its turn by the pace of maintenance.
    MaintenancePending,
    /// A database node joins.
    NodeJoining,
    /// A database node is a member now.
    NodeJoined,
    /// Other nodes have confirmed that a database node is gone.
    NodeLeft,
    /// A database node whose disk came back empty takes its old place.
    NodeReplacing,
    /// A database node gives its data away.
    NodeLeaving,
    /// A database node drops what nodes that have joined took over.
    NodeCleaningUp,
    /// A database node could not drop what nodes that have joined took over; the message has the database's own words.
    CleanupFailed,
    /// A database node should join and cannot safely; the message has the numbers.
    JoinRefused,
    /// A database node should leave and cannot safely; the message has the numbers.
    ScaleDownRefused,
    /// A database node could not leave; the message has the database's own words.
    DecommissionFailed,
    /// A database node could not join, or not take its old place, again and again.
    JoinFailed,
    /// A database node that was to leave has lost its disk or its machine.
    LeaverLost,
    /// A database node's disk came back empty or with other data, and no other node has a copy that could be trusted.
    DiskLost,
    /// The image that is wanted for the database is of a release that cannot follow the one that runs.
    EngineVersionRefused,
    /// The operator has no right to delete the claim of a database node that has left.
    ReclaimForbidden,
    /// A new node waits until the claim of the node that was in its place is gone.
    ClaimOfFormerNode,
    /// This operator would make database or cache pods differently.
    UpdateAvailable,
    /// Database and cache pods are as this operator makes them.
    UpToDate,
    /// The pod of a super-disk has not come so far.
    SuperDiskWaiting,
    /// A super-disk is not put together, and nothing was changed; the message has the code and what to do.
    SuperDiskRefused,
    /// A super-disk could not be put together.
    SuperDiskFailed,
    /// A super-disk is being put together.
    SuperDiskAssembling,
    /// Both legs are in sync.
    SuperDiskHealthy,
    /// The local disks of a super-disk are being filled.
    FastLegRebuilding,
    /// The local disks of a super-disk are lost; its network disk serves alone.
    FastLegLost,
    /// The network disk of a super-disk is lost; writes are stopped.
    DurableLegLost,
    /// `spec.cache.access` is not set: any client that reaches the API may call it.
    NoAccessConfigured,
    /// The API is open to the callers of `spec.cache.access` alone.
    CallersOnly,
    /// What a caller proves itself by is missing or cannot be used, and that caller is refused; the message says
    /// which.
    CallerRefused,
}

/// A condition before it meets Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Which one.
    pub type_: ConditionType,
    /// How it is.
    pub status: ConditionStatus,
    /// Why, for machines.
    pub reason: Reason,
    /// Why, for people.
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

    /// As Kubernetes wants it. `previous` are the conditions before: the transition time moves only
    /// when the status does.
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

impl ConditionType {
    /// The condition's `type`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Available => "Available",
            Self::Progressing => "Progressing",
            Self::Degraded => "Degraded",
            Self::CacheReady => "CacheReady",
            Self::DatabaseReady => "DatabaseReady",
            Self::RingStable => "RingStable",
            Self::RequiresUpdate => "RequiresUpdate",
            Self::SuperDisksHealthy => "SuperDisksHealthy",
            Self::TakenOver => "TakenOver",
            Self::ApiOpen => "ApiOpen",
            Self::CertificatesExpiring => "CertificatesExpiring",
            Self::Stopped => "Stopped",
        }
    }
}

impl ConditionStatus {
    /// The condition's `status`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl From<bool> for ConditionStatus {
    fn from(value: bool) -> Self {
        if value { Self::True } else { Self::False }
    }
}

impl Reason {
    /// The condition's `reason`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AsExpected => "AsExpected",
            Self::Reconciled => "Reconciled",
            Self::Paused => "Paused",
            Self::Serving => "Serving",
            Self::NotServing => "NotServing",
            Self::AllReady => "AllReady",
            Self::External => "External",
            Self::Embedded => "Embedded",
            Self::Stable => "Stable",
            Self::Changing => "Changing",
            Self::SlotsMoving => "SlotsMoving",
            Self::SlotsUnowned => "SlotsUnowned",
            Self::TakeoverPending => "TakeoverPending",
            Self::SlotsTakenOver => "SlotsTakenOver",
            Self::CacheDraining => "CacheDraining",
            Self::DrainUnproven => "DrainUnproven",
            Self::RingLost => "RingLost",
            Self::RingUnreadable => "RingUnreadable",
            Self::NotObserved => "NotObserved",
            Self::InvalidSpec => "InvalidSpec",
            Self::NameConflict => "NameConflict",
            Self::ApplyRejected => "ApplyRejected",
            Self::SchemaFailed => "SchemaFailed",
            Self::StoreUnhealthy => "StoreUnhealthy",
            Self::DatabaseNotReady => "DatabaseNotReady",
            Self::SchemaPending => "SchemaPending",
            Self::SecretMissing => "SecretMissing",
            Self::CertificatePending => "CertificatePending",
            Self::CertificateInvalid => "CertificateInvalid",
            Self::CertManagerMissing => "CertManagerMissing",
            Self::IdentityPending => "IdentityPending",
            Self::IdentityRotating => "IdentityRotating",
            Self::ClockWrong => "ClockWrong",
            Self::ClockSkew => "ClockSkew",
            Self::ExpiresSoon => "ExpiresSoon",
            Self::DrainingCold => "DrainingCold",
            Self::CacheStopping => "CacheStopping",
            Self::StoppedInOrder => "StoppedInOrder",
            Self::StopTimedOut => "StopTimedOut",
            Self::Stopped => "Stopped",
            Self::DatabaseStopping => "DatabaseStopping",
            Self::CacheNotReady => "CacheNotReady",
            Self::CapacityChanging => "CapacityChanging",
            Self::UnsafeToStop => "UnsafeToStop",
            Self::LeftRunning => "LeftRunning",
            Self::LeftoverObject => "LeftoverObject",
            Self::DatabaseUnhealthy => "DatabaseUnhealthy",
            Self::DatabaseRolling => "DatabaseRolling",
            Self::MaintenancePending => "MaintenancePending",
            Self::NodeJoining => "NodeJoining",
            Self::NodeJoined => "NodeJoined",
            Self::NodeLeft => "NodeLeft",
            Self::NodeReplacing => "NodeReplacing",
            Self::NodeLeaving => "NodeLeaving",
            Self::NodeCleaningUp => "NodeCleaningUp",
            Self::CleanupFailed => "CleanupFailed",
            Self::JoinRefused => "JoinRefused",
            Self::ScaleDownRefused => "ScaleDownRefused",
            Self::DecommissionFailed => "DecommissionFailed",
            Self::JoinFailed => "JoinFailed",
            Self::LeaverLost => "LeaverLost",
            Self::DiskLost => "DiskLost",
            Self::EngineVersionRefused => "EngineVersionRefused",
            Self::ReclaimForbidden => "ReclaimForbidden",
            Self::ClaimOfFormerNode => "ClaimOfFormerNode",
            Self::UpdateAvailable => "UpdateAvailable",
            Self::UpToDate => "UpToDate",
            Self::SuperDiskWaiting => "SuperDiskWaiting",
            Self::SuperDiskRefused => "SuperDiskRefused",
            Self::SuperDiskFailed => "SuperDiskFailed",
            Self::SuperDiskAssembling => "SuperDiskAssembling",
            Self::SuperDiskHealthy => "SuperDiskHealthy",
            Self::FastLegRebuilding => "FastLegRebuilding",
            Self::FastLegLost => "FastLegLost",
            Self::DurableLegLost => "DurableLegLost",
            Self::NoAccessConfigured => "NoAccessConfigured",
            Self::CallersOnly => "CallersOnly",
            Self::CallerRefused => "CallerRefused",
        }
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
