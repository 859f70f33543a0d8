//! `ReadStateCluster.status`: the state that the operator last observed.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    replication::DatabaseReplication,
    restore::RestoreStatus,
    tls::InternodeTls,
    upgrade::{DatabaseUpgrade, NodeUpgrade},
};

/// The state that the operator last observed. Scripts should read the conditions.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ReadStateClusterStatus {
    /// Generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// `Available`, `Progressing`, `Degraded`, `CacheReady`, `DatabaseReady`, `RingStable`, `RequiresUpdate`,
    /// `RollingOut`, `TakenOver`, `ApiOpen` and `CertificatesExpiring`; `Replicated` if `spec.cache.durability` asks for
    /// backups; `SuperDisksHealthy` if the cluster has super-disks; `Repaired` if the operator runs a database with two or
    /// more copies; `Restored` if the cluster was to begin with a backup; and `Stopped` while `spec.stopped` is set.
    #[serde(default)]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".to_owned()]))]
    pub conditions: Vec<Condition>,

    /// Cache pods that exist, for the scale subresource.
    #[serde(default)]
    pub replicas: i32,

    /// Label selector of the cache pods, for the scale subresource.
    #[serde(default)]
    pub selector: String,

    /// Ready cache pods out of those wanted, such as `3/3`; or `stopped`.
    #[serde(default)]
    pub cache: String,

    /// Ready database pods out of those wanted, such as `3/3`; or `external`, `embedded` or `stopped`.
    #[serde(default)]
    pub database: String,

    /// Read states in memory, summed over all cache pods, accurate to within an eighth: it is updated only when it has
    /// changed by more. Absent when a ready pod could not be queried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub states: Option<i64>,

    /// Users whose changes are not yet in the database, summed over all cache pods, accurate to within an eighth.
    /// Absent when a ready pod could not be queried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dirty: Option<i64>,

    /// Number of the ring; the last known one while there is no ring.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ring_number: Option<i64>,

    /// The nodes of the database that the operator runs: which pod is which node of the database's ring, and on which
    /// volume. Editing this can lose data.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".to_owned()]))]
    pub database_nodes: Vec<DatabaseNode>,

    /// The change of the database to another release of its engine. Absent while there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database_upgrade: Option<DatabaseUpgrade>,

    /// Copies of each read state, and how far a change of `spec.database.replicationFactor` is. Absent until the keyspace
    /// was created. Editing this can lose data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database_replication: Option<DatabaseReplication>,

    /// How far the traffic between the members of the database is encrypted: what they all have, or are being restarted for,
    /// one after another. Absent without `spec.database.tls`, and with an external database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database_internode_tls: Option<InternodeTls>,

    /// The keyspace that was created or verified. While it matches the spec, cache pods do not wait for the schema Job
    /// to run again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<SchemaStatus>,

    /// What became of `spec.restoreFrom`. Absent if the cluster was not to begin with a backup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restore: Option<Box<RestoreStatus>>,

    /// When the oldest of the nodes' last repairs began: what was written before is on every node that should have it.
    /// Absent until every node has been repaired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_repaired: Option<Time>,

    /// Free space, in whole GiB, on the fullest disk of the database nodes that could be queried. Absent when none
    /// could.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database_free_gib: Option<i64>,

    /// The super-disks of the database pods.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".to_owned()]))]
    pub super_disks: Vec<SuperDiskStatus>,

    /// Slots whose owner is serving, out of all slots: `1024/1024`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub slots: String,

    /// Slots that are moving from one cache pod to another.
    #[serde(default)]
    pub slots_moving: i64,

    /// Slots taken over from processes that ended without handing them on, counted since the processes that took them
    /// started: the sum of `takeovers`. Absent until every ready pod has been queried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slots_taken_over: Option<i64>,

    /// The processes that took slots over, and how many each; compared with the next observation to detect new
    /// takeovers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["process".to_owned()]))]
    pub takeovers: Vec<Takeovers>,

    /// When the certificates of this cluster expire.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["role".to_owned()]))]
    pub certificates: Vec<CertificateStatus>,

    /// Result of `spec.monitoring`: the PodMonitors, or why there are none. Absent when `spec.monitoring` is not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub monitoring: Option<String>,

    /// What the next step is waiting for. Absent when it is not waiting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_on: Option<Waiting>,
}

/// A keyspace that was created or verified.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct SchemaStatus {
    /// The database and the keyspace, as passed to cache pods.
    pub store: String,

    /// When this was first observed.
    pub since: Time,
}

/// When a certificate expires.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct CertificateStatus {
    /// Role of the certificate: `member`, `operator`, `agent`, `ca` (the authority of these three), `cql`, `api`, or
    /// `clients-ca` (of the CAs of clients' certificates, the last to expire).
    pub role: String,

    /// The last moment at which the certificate is valid.
    pub expires: Time,
}

/// Why nothing is happening at the moment.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Waiting {
    /// The reason of the condition Progressing, as one word.
    pub reason: String,

    /// What the operator is waiting for, with names and numbers.
    pub message: String,

    /// The database pod concerned, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,

    /// When the wait began.
    pub since: Time,
}

/// The slots that one process of a cache pod took over from processes that ended without handing them on.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Takeovers {
    /// The process that took the slots: 16 hexadecimal digits.
    pub process: String,

    /// Number of slots taken since the process started.
    pub slots: i64,

    /// Number of these slots that a user has acknowledged.
    #[serde(default, skip_serializing_if = "is_none_of_them")]
    pub acknowledged: i64,
}

/// One node of the database.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct DatabaseNode {
    /// Name of the node's pod.
    pub name: String,

    /// Rack of the node.
    pub rack: String,

    /// Host ID of the node in the database's ring. Absent until it has joined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_id: Option<String>,

    /// UID of the node's volume claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim_uid: Option<String>,

    /// Stage of the node between joining and leaving.
    pub state: DatabaseNodeState,

    /// When it entered this state, or was last told to continue.
    pub since: Time,

    /// Number of times it was told to leave, or tried to join and failed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub attempts: i32,

    /// What the database said when that failed, in its own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,

    /// Pending cleanup (`nodetool cleanup`) of data that nodes which joined later have taken over. Absent when there is
    /// none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cleanup: Option<PendingJob>,

    /// Pending or running repair (`nodetool repair`). Absent when none is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repair: Option<PendingJob>,

    /// When the last completed repair of the node's data began. Absent until the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_repaired: Option<Time>,

    /// What the node does for a change to another release of its engine. Absent when there is nothing to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upgrade: Option<NodeUpgrade>,
}

impl DatabaseNode {
    /// Whether it stores data and answers queries: a member, repaired or not.
    #[must_use]
    pub fn is_member(&self) -> bool {
        match self.state {
            DatabaseNodeState::Member | DatabaseNodeState::Repairing => true,
            DatabaseNodeState::Joining
            | DatabaseNodeState::Replacing
            | DatabaseNodeState::Leaving
            | DatabaseNodeState::Left => false,
        }
    }

    /// When its last completed repair began; before the first one, when that became due. None while neither is known.
    #[must_use]
    pub fn repaired_up_to(&self) -> Option<&Time> {
        let due = || self.repair.as_ref().map(|repair| &repair.since);
        self.last_repaired.as_ref().or_else(due)
    }
}

/// A pending job of a database node that may take hours: a cleanup, a repair, or a step of an upgrade.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct PendingJob {
    /// When it became due.
    pub since: Time,

    /// Number of times the node was told to do it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub attempts: i32,

    /// When the node was last told to do it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told: Option<Time>,

    /// What the database said when the last attempt failed, in its own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl PendingJob {
    /// A job that is due from this moment on.
    #[must_use]
    pub fn since(now: Time) -> Self {
        Self {
            since: now,
            attempts: 0,
            told: None,
            error: None,
        }
    }

    /// Number of attempts that failed.
    #[must_use]
    pub fn failures(&self) -> i32 {
        self.attempts - i32::from(self.runs())
    }

    /// Whether the node was told to do it, and the attempt has not failed.
    #[must_use]
    pub fn runs(&self) -> bool {
        self.told.is_some() && self.error.is_none()
    }
}

/// The super-disk of one database pod.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct SuperDiskStatus {
    /// Name of the pod.
    pub name: String,

    /// State of the super-disk.
    pub state: SuperDiskState,

    /// Stable code of the refusal, such as `E_SSD_AHEAD`, while it is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,

    /// What is wrong, if anything, and what to do about it.
    pub message: String,

    /// When it entered this state.
    pub since: Time,
}

/// State of a super-disk.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum SuperDiskState {
    /// Its pod has not reached this step yet.
    Waiting,
    /// Assembly was refused; nothing was changed on any disk.
    Refused,
    /// Assembly failed; it is tried again.
    Failed,
    /// Assembly is in progress.
    Assembling,
    /// Both legs are in sync.
    Healthy,
    /// The local disks are being rebuilt from the network disk, which serves in the meantime.
    Rebuilding,
    /// The local disks are lost; the network disk serves alone.
    FastLost,
    /// The network disk is lost: writes are stopped.
    DurableLost,
    /// Its agent could not be queried, or is of a later release and answered something that this operator does not know.
    Unknown,
}

/// Stage of a node between joining and leaving.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatabaseNodeState {
    /// It was told to start and has not joined yet.
    Joining,
    /// It has joined and serves.
    Member,
    /// Its disk came back empty, and it is replacing the node that it was before.
    Replacing,
    /// It was rebuilt on an empty disk and serves; its data is being compared with that of the other nodes.
    Repairing,
    /// It is streaming its data to other nodes.
    Leaving,
    /// Other nodes have confirmed that it is gone; its pod or its claim may still exist.
    Left,
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_none_of_them(number: &i64) -> bool {
    *number == 0
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(number: &i32) -> bool {
    *number == 0
}
