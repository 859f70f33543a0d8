//! `ReadStateCluster.status`: what the operator saw last.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the operator saw last. Whoever scripts against it reads the conditions.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ReadStateClusterStatus {
    /// Generation of the spec that this status tells about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// `Available`, `Progressing`, `Degraded`, `CacheReady`, `DatabaseReady`, `RingStable`,
    /// `RequiresUpdate`, `TakenOver`, `ApiOpen` and `CertificatesExpiring`; `SuperDisksHealthy` where there are
    /// super-disks; and `Stopped` while `spec.stopped` is set.
    #[serde(default)]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".to_owned()]))]
    pub conditions: Vec<Condition>,

    /// Cache pods that exist, for the scale subresource.
    #[serde(default)]
    pub replicas: i32,

    /// Label selector of the cache pods, for the scale subresource.
    #[serde(default)]
    pub selector: String,

    /// Cache pods that are ready, of those wanted: `3/3`; or `stopped`.
    #[serde(default)]
    pub cache: String,

    /// Database pods that are ready, of those wanted, or `external`, or `embedded`, or `stopped`.
    #[serde(default)]
    pub database: String,

    /// Read states in memory, over all cache pods, to within an eighth: it is written again when it has changed by more.
    /// Absent when not every ready pod could be asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub states: Option<i64>,

    /// Users whose changes are not in the database yet, over all cache pods, to within an eighth. Absent when not every
    /// ready pod could be asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dirty: Option<i64>,

    /// Number of the ring; the last one while there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ring_number: Option<i64>,

    /// The nodes of the database that the operator runs: which pod is which node of the ring, and on which
    /// volume. Whoever edits this decides about data.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".to_owned()]))]
    pub database_nodes: Vec<DatabaseNode>,

    /// The keyspace that was made or verified: while it is the one of the spec, cache pods need not wait for the schema
    /// Job to do so again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<SchemaStatus>,

    /// Whole GiB free on the fullest disk of the database nodes that could be asked. Absent: none could.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database_free_gib: Option<i64>,

    /// The super-disks of the database pods.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".to_owned()]))]
    pub super_disks: Vec<SuperDiskStatus>,

    /// Slots whose owner serves, of those there are: `1024/1024`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub slots: String,

    /// Slots on their way from one cache pod to another.
    #[serde(default)]
    pub slots_moving: i64,

    /// Slots taken over from processes that ended without handing them on, since those who took them
    /// started: the sum of `takeovers`. Absent: not every ready pod could ever be asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slots_taken_over: Option<i64>,

    /// The processes that took slots over, with how many: what is compared to tell of new ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["process".to_owned()]))]
    pub takeovers: Vec<Takeovers>,

    /// When the certificates of this cluster expire.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["role".to_owned()]))]
    pub certificates: Vec<CertificateStatus>,

    /// What there is of what `spec.monitoring` asks for: PodMonitors, or why there are none. Absent: it is not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub monitoring: Option<String>,

    /// What the next step waits for. Absent: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_on: Option<Waiting>,
}

/// A keyspace that was made or verified.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct SchemaStatus {
    /// The database and the keyspace, as cache pods are given them.
    pub store: String,

    /// When that was first seen.
    pub since: Time,
}

/// When a certificate expires.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct CertificateStatus {
    /// What it is for: `member`, `operator`, `agent`, `ca` (the authority of these three), `cql`, `api`, or
    /// `clients-ca` (the last of those that have signed clients' certificates).
    pub role: String,

    /// The last moment at which it is valid.
    pub expires: Time,
}

/// Why nothing happens just now.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Waiting {
    /// One word for it; the reason of the condition Progressing.
    pub reason: String,

    /// What is waited for, with names and numbers.
    pub message: String,

    /// The database pod that it is about, where it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,

    /// Since when.
    pub since: Time,
}

/// What one process of a cache pod took over from others that had ended without handing it on.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Takeovers {
    /// The process that took them: 16 hexadecimal digits.
    pub process: String,

    /// How many slots, since it started.
    pub slots: i64,

    /// How many of them somebody has acknowledged.
    #[serde(default, skip_serializing_if = "is_none_of_them")]
    pub acknowledged: i64,
}

/// One node of the database.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct DatabaseNode {
    /// Name of its pod.
    pub name: String,

    /// Its rack.
    pub rack: String,

    /// Its identity in the ring. Absent: it has not joined yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_id: Option<String>,

    /// UID of the claim of its volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim_uid: Option<String>,

    /// Where it is between joining and leaving.
    pub state: DatabaseNodeState,

    /// Since when it is there, or when it was last told to go on.
    pub since: Time,

    /// How often it was told to leave, or tried to join in vain.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub attempts: i32,

    /// What the database said when that failed, in its own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,

    /// That it is to drop what nodes which have joined since took over. Absent: it holds nothing of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cleanup: Option<PendingCleanup>,
}

/// What a database node is to drop (`nodetool cleanup`).
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct PendingCleanup {
    /// When the last node joined that took something over.
    pub since: Time,

    /// How often it was told to.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub attempts: i32,

    /// When it was last told to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told: Option<Time>,

    /// What the database said when that failed, in its own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The super-disk of one database pod.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct SuperDiskStatus {
    /// Name of the pod.
    pub name: String,

    /// How it is.
    pub state: SuperDiskState,

    /// The stable code of the refusal, such as `E_SSD_AHEAD`, while it is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,

    /// What is so, and what there is to do about it.
    pub message: String,

    /// Since when it is in this state.
    pub since: Time,
}

/// How a super-disk is.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum SuperDiskState {
    /// Its pod has not come so far.
    Waiting,
    /// It was not put together; nothing was changed on any disk.
    Refused,
    /// Something that was tried to put it together failed.
    Failed,
    /// It is being put together.
    Assembling,
    /// Both legs are in sync.
    Healthy,
    /// The local disks are filled from the network disk, which serves meanwhile.
    Rebuilding,
    /// The local disks are lost; the network disk serves alone.
    FastLost,
    /// The network disk is lost: writes are stopped.
    DurableLost,
    /// It could not be asked.
    Unknown,
}

/// Where a node is between joining and leaving.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatabaseNodeState {
    /// It was told to start and is not a member yet.
    Joining,
    /// It is a member.
    Member,
    /// Its disk came back empty: it takes the place of the node that it was.
    Replacing,
    /// It gives its data away.
    Leaving,
    /// Other nodes have confirmed that it is gone; its pod or its claim may still be there.
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
