//! `ReadStateMigration`: moves the table of a cluster to another external database, or into another cluster.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{database::ExternalSpec, verification::Verification};

/// One move of the table of a `ReadStateCluster`: to another external database, or into the database of another
/// `ReadStateCluster`, whichever of the two the operator runs. A Job copies and compares it. Members are changed by you,
/// when `status.nextStep` says so.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "readstates.dev",
    version = "v1alpha1",
    kind = "ReadStateMigration",
    plural = "readstatemigrations",
    shortname = "rsm",
    category = "readstates",
    namespaced,
    status = "ReadStateMigrationStatus",
    derive = "PartialEq",
    doc = "One move of the table of a ReadStateCluster to another external database, or into the database of \
           another ReadStateCluster. Deleting it ends its Job, and changes nothing in either database.",
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
        description = "How far it is; Verified and Complete are said only after a verification."
    ),
    printcolumn(
        name = "Percent",
        type_ = "integer",
        json_path = ".status.progress.percent",
        description = "Share of the pass that is under way."
    ),
    printcolumn(
        name = "Users",
        type_ = "integer",
        json_path = ".status.progress.users",
        description = "Users that this pass has compared so far."
    ),
    printcolumn(
        name = "Rate",
        type_ = "integer",
        json_path = ".status.progress.usersPerSecond",
        description = "Users per second."
    ),
    printcolumn(
        name = "Verified",
        type_ = "date",
        json_path = ".status.verified.finished",
        description = "When everything was compared, and nothing was missing."
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Next",
        type_ = "string",
        json_path = ".status.nextStep",
        priority = "1",
        description = "What is done next, and by whom."
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
         the names of Jobs are derived from it"
    )
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new(
        "self.cluster == oldSelf.cluster && self.target == oldSelf.target && \
         self.members == oldSelf.members && self.checkpoints == oldSelf.checkpoints && self.merge == oldSelf.merge"
    ).message(
        "a ReadStateMigration is one move: only suspend, rate and parallel can change. Delete it and create another one"
    ).reason(Reason::FieldValueForbidden)
)]
pub struct ReadStateMigrationSpec {
    /// Name of the `ReadStateCluster` in this namespace whose table moves. Its database is the source: with
    /// `target.external` its `spec.database.external`, with `target.cluster` also one that the operator runs.
    #[schemars(length(min = 1, max = 40))]
    pub cluster: String,

    /// The database to move to.
    pub target: MigrationTarget,

    /// What members do while the last changes are copied. Serve: each writes both databases, without a pause. Stop:
    /// they are stopped, by `spec.stopped` of the ReadStateCluster; not possible if the operator runs the source, which
    /// would stop with them.
    pub members: MembersMeanwhile,

    /// Where the Job records how far it is, so that another pod goes on there.
    pub checkpoints: CheckpointStorage,

    /// The target may have rows that the source lacks, or newer ones; of each user, the newer write stays. Needed to go
    /// back to a former source, and after a checkpoint was lost. Default: false: such a target is refused.
    #[serde(default)]
    pub merge: bool,

    /// Maximum number of users per second; a change applies to the next Job. Default: as many as do not slow the
    /// source's reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000_000))]
    pub rate: Option<i32>,

    /// Token ranges that are worked on at once; a change applies to the next Job. Default: 4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 64))]
    pub parallel: Option<i32>,

    /// While true, no pod copies or compares; what is done stays done. Setting it and taking it back begins a failed move
    /// again, where it was. Default: false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub suspend: bool,
}

/// Where the table moves: `external`, a database as it will stand in `spec.database` of the `ReadStateCluster`, or
/// `cluster`, the database of another `ReadStateCluster`.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.external) != has(self.cluster)")
        .message("exactly one of external and cluster must be set"),
    validation = Rule::new("!has(self.tlsSecretName) || has(self.external)")
        .message("tlsSecretName goes with external: a ReadStateCluster says itself how its database is reached")
        .field_path(".tlsSecretName")
)]
pub struct MigrationTarget {
    /// What `spec.database.external` will be. The keyspace must have the name of the source's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<ExternalSpec>,

    /// Name of another `ReadStateCluster` in this namespace, whose database the operator runs or an external one. It has
    /// never had cache pods, and its `spec.restoreFrom.migration` names this move: its cache pods start when those of
    /// the source have stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 40))]
    pub cluster: Option<String>,

    /// What `spec.database.tls.secretName` will be: a Secret with the key `ca.crt`, and with `tls.crt` and `tls.key` if
    /// the database asks for a certificate. Default: no TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
    )]
    pub tls_secret_name: Option<String>,
}

/// The root of a volume. The file has the name of the `ReadStateMigration`, so that several may share the volume.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct CheckpointStorage {
    /// Name of the PersistentVolumeClaim in this namespace; 16Mi are enough.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
    )]
    pub claim_name: String,
}

/// What members do while the last changes are copied.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum MembersMeanwhile {
    /// They serve, and write both databases.
    Serve,
    /// They are stopped, and nothing is served.
    Stop,
}

/// How far a move is.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MigrationPhase {
    /// Something is missing that it needs.
    #[default]
    Waiting,
    /// It cannot be made as the spec wants it; nothing was changed.
    Refused,
    /// Members are not as copying needs them: `nextStep` says what to change.
    Preparing,
    /// The Job copies the table to the target.
    Copying,
    /// The Job compares all rows.
    Verifying,
    /// `spec.suspend` is set.
    Suspended,
    /// The Job gave up; what was copied stays.
    Failed,
    /// Everything was compared, and the members may be switched: `nextStep` says how.
    Verified,
    /// The `ReadStateCluster` names the target, and not all members use it yet; or those of the source have stopped, and
    /// those of the target start.
    Switching,
    /// All members use the target alone. Final.
    Complete,
    /// It is being deleted: its Job ends.
    Ending,
}

impl MigrationPhase {
    /// The word, as it stands in a status.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "Waiting",
            Self::Refused => "Refused",
            Self::Preparing => "Preparing",
            Self::Copying => "Copying",
            Self::Verifying => "Verifying",
            Self::Suspended => "Suspended",
            Self::Failed => "Failed",
            Self::Verified => "Verified",
            Self::Switching => "Switching",
            Self::Complete => "Complete",
            Self::Ending => "Ending",
        }
    }
}

/// The state of a move that the operator last observed.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ReadStateMigrationStatus {
    /// Generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// `Verified`, `Complete`, and `Degraded`, which says what a person has to do.
    #[serde(default)]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".to_owned()]))]
    pub conditions: Vec<Condition>,

    /// How far it is. `Complete` is final.
    #[serde(default)]
    pub phase: MigrationPhase,

    /// What is done next, and by whom.
    #[serde(default)]
    pub next_step: String,

    /// The source, as the members and the Job are given it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,

    /// The target, as `READSTATES_MOVING_TO` takes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,

    /// UID of the `ReadStateCluster` of `spec.target.cluster` that is copied to. Another one of its name does not have
    /// what was copied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_uid: Option<String>,

    /// How far the cache is handed over to `spec.target.cluster`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hand_over: Option<HandOver>,

    /// The Job that copies and compares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,

    /// Generation of the `ReadStateCluster` at which its members were last seen as copying needs them, without a
    /// break since copying began. Absent: what is compared does not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub members_generation: Option<i64>,

    /// The pass that is under way, or the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<MigrationProgress>,

    /// When it last got further: to another phase, or to more users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progressed: Option<Time>,

    /// The verification that counts; members have been as copying needs them ever since copying began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified: Option<Verification>,

    /// The last words of an attempt that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

/// How far the cache is handed over from one cluster to another. Cache pods of both never serve at once.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandOver {
    /// Cache pods of the source have stopped, and start no more while this resource is there.
    Closed,
    /// The same, and those of the target may start. Final.
    Released,
}

/// A pass over the source.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct MigrationProgress {
    /// Which pass: `pass 2`, or `verification`.
    pub what: String,

    /// How much of it is done; absent where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent: Option<i64>,

    /// Users that were compared.
    pub users: i64,

    /// Users of whom the target had nothing, or an older write.
    pub lacking: i64,

    /// Users per second of the pod at work.
    pub users_per_second: i64,
}
