//! `ReadStateCluster`: the cluster that the user wants.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::{
    core::v1::{LocalObjectReference, ResourceRequirements, Toleration},
    networking::v1::NetworkPolicyPeer,
};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    access::AccessSpec,
    database::DatabaseSpec,
    maintenance::MaintenanceSpec,
    monitoring::MonitoringSpec,
    pod_template::{PodTemplate, ServiceSpec},
    restore::RestoreFrom,
    status::ReadStateClusterStatus,
    tls::{ApiTlsSpec, IdentitySpec},
};

/// A read-state service: a tier of cache pods over a CQL database (or, for one pod, over a volume of its own). `kubectl
/// get readstateclusters` shows its state and what it is waiting for.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "readstates.dev",
    version = "v1alpha1",
    kind = "ReadStateCluster",
    plural = "readstateclusters",
    shortname = "rsc",
    category = "readstates",
    namespaced,
    status = "ReadStateClusterStatus",
    derive = "PartialEq",
    doc = "A read-state service: a tier of cache pods over a CQL database, or, for one pod, over a \
           volume of its own.",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn(
        name = "Cache",
        type_ = "string",
        json_path = ".status.cache",
        description = "Cache pods that are ready, of those wanted."
    ),
    printcolumn(
        name = "Database",
        type_ = "string",
        json_path = ".status.database",
        description = "Database pods that are ready, of those wanted; or external, or embedded."
    ),
    printcolumn(
        name = "States",
        type_ = "integer",
        json_path = ".status.states",
        description = "Read states in memory. Empty: not every cache pod could be asked."
    ),
    printcolumn(
        name = "Dirty",
        type_ = "integer",
        json_path = ".status.dirty",
        description = "Users whose changes are not in the database yet. Empty: not every cache \
                       pod could be asked."
    ),
    printcolumn(
        name = "Waiting-On",
        type_ = "string",
        json_path = ".status.waitingOn.reason",
        description = "What the next step waits for. Empty: nothing."
    ),
    printcolumn(
        name = "Available",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Available\")].status",
        description = "Whether every user has a cache pod that serves."
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Engine",
        type_ = "string",
        json_path = ".spec.database.engine",
        priority = "1",
        description = "The database engine the operator runs. Empty: external or embedded."
    ),
    printcolumn(
        name = "Ring",
        type_ = "integer",
        json_path = ".status.ringNumber",
        priority = "1",
        description = "Number of the ring; grows whenever a slot changes its owner."
    ),
    printcolumn(
        name = "Slots",
        type_ = "string",
        json_path = ".status.slots",
        priority = "1",
        description = "Slots of users whose owner serves, of those there are."
    ),
    printcolumn(
        name = "Moving",
        type_ = "integer",
        json_path = ".status.slotsMoving",
        priority = "1",
        description = "Slots on their way from one cache pod to another."
    ),
    printcolumn(
        name = "Taken-Over",
        type_ = "integer",
        json_path = ".status.slotsTakenOver",
        priority = "1",
        description = "Slots taken over from cache pods that ended without handing them on."
    ),
    printcolumn(
        name = "Restore",
        type_ = "string",
        json_path = ".status.restore.phase",
        priority = "1",
        description = "How far spec.restoreFrom is: Waiting, Running, Failed or Restored."
    ),
    printcolumn(
        name = "Detail",
        type_ = "string",
        json_path = ".status.waitingOn.message",
        priority = "1",
        description = "What is waited for, in words."
    ),
    validation = Rule::new(
        "size(self.metadata.name) <= 40 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')"
    ).message(
        "metadata.name must be at most 40 characters of a-z, 0-9 and '-', begin with a letter and \
         not end with '-': the names of Services and pods are derived from it"
    ),
    validation = Rule::new(
        "!has(self.spec.database.racks) || self.spec.database.racks.all(r, size(self.metadata.name) + \
         size(r.name) <= 48)"
    ).message(
        "metadata.name and the longest name in spec.database.racks must not exceed 48 characters together: \
         StatefulSet names consist of both"
    ),
    validation = Rule::new(
        "!has(self.spec.database.replicationFactor) || !has(oldSelf.spec.database.replicationFactor) || \
         self.spec.database.replicationFactor == oldSelf.spec.database.replicationFactor || !has(oldSelf.status) || \
         !has(oldSelf.status.schema) || has(oldSelf.status.databaseReplication)"
    ).message(
        "spec.database.replicationFactor can change once the operator of this release has recorded how many copies there \
         are (status.databaseReplication): an earlier one would alter the keyspace and repair nothing"
    ),
    validation = Rule::new(
        "!has(self.spec.restoreFrom) || (has(oldSelf.spec.restoreFrom) && self.spec.restoreFrom == \
         oldSelf.spec.restoreFrom) || !has(oldSelf.status) || (!has(oldSelf.status.ringNumber) && \
         (!has(oldSelf.status.restore) || oldSelf.status.restore.phase in ['Waiting', 'Failed']))"
    ).message(
        "spec.restoreFrom cannot be set or changed once its restore has begun or cache pods have started: nothing is \
         restored over live data. Create a new ReadStateCluster from the backup"
    ),
    validation = Rule::new(
        "has(self.spec.restoreFrom) || !has(oldSelf.spec.restoreFrom) || !has(oldSelf.status) || \
         !has(oldSelf.status.restore) || oldSelf.status.restore.phase != 'Running'"
    ).message(
        "spec.restoreFrom cannot be removed while its restore is running: wait until it is done, or delete the \
         ReadStateCluster"
    )
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new(
        "!has(self.cache.durability) || self.cache.durability != 'Journal' || has(self.database.embedded)"
    ).message("durability Journal is valid only with database.embedded, on whose volume the journal is")
        .field_path(".cache.durability"),
    validation = Rule::new(
        "!has(self.cache.durability) || !(self.cache.durability in ['Available', 'Replicated']) || \
         !has(self.database.embedded)"
    ).message(
        "durability Available and Replicated need several cache pods; with database.embedded there is one: set Journal"
    ).field_path(".cache.durability"),
    validation = Rule::new("!has(self.restoreFrom) || !has(self.database.embedded)")
        .message(
            "restoreFrom is not possible with database.embedded, whose volume belongs to its one process: create the \
             cluster without it, set stopped, and run `readstates backup restore --store embedded:FOLDER` in a pod with \
             the cluster's volume claim (see Back up and restore in the book)"
        ).field_path(".restoreFrom"),
    validation = Rule::new("!has(self.database.embedded) || self.replicas == 1")
        .message("replicas must be 1 with database.embedded: the data is on one pod's volume")
        .field_path(".replicas"),
    validation = Rule::new(
        "has(self.identity) == has(oldSelf.identity) && (!has(self.identity) || self.identity == oldSelf.identity)"
    ).message(
        "identity cannot change: running pods would not trust pods with certificates of another issuer. Create a new \
         ReadStateCluster"
    ).reason(Reason::FieldValueForbidden)
)]
pub struct ReadStateClusterSpec {
    /// Number of cache pods. Changing it (also with `kubectl scale`) moves users, with their cached data, to the added
    /// pods or away from the removed ones. A pod is removed only once it holds nothing.
    #[serde(default = "default_replicas")]
    #[schemars(range(min = 1, max = 64))]
    pub replicas: i32,

    /// While true, the operator neither changes nor restores anything in this cluster, and reports this in the
    /// condition Progressing. It still renews the certificates of running processes, and keeps the status up to date.
    #[serde(default)]
    pub paused: bool,

    /// While true, nothing runs: cache pods write what they hold and stop, then the database stops; volumes are kept. A
    /// cache pod that cannot write is not stopped until it can. When set back to false, the database starts first. The
    /// condition Stopped shows the progress.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stopped: bool,

    /// When serving pods may be restarted, for a change or on request. Default: at any time, one after another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maintenance: Option<MaintenanceSpec>,

    /// Image of the cache pods and of the schema Job. Default: the image the operator was
    /// installed with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub image: Option<String>,

    /// When the kubelet pulls the images of this cluster's pods. Default: the Kubernetes default, which depends on the
    /// image tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_pull_policy: Option<PullPolicy>,

    /// Secrets with the credentials of the registries that hold the images. Default: those that the operator was installed
    /// with, by their names in this namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub image_pull_secrets: Option<Vec<LocalObjectReference>>,

    /// The cache pods.
    #[serde(default)]
    pub cache: CacheSpec,

    /// Where read states are stored. Exactly one of `engine`, `external` and `embedded` must be set.
    pub database: DatabaseSpec,

    /// What this cluster begins with: a backup, or the table of another cluster that moves here. Only for a new cluster:
    /// the empty database gets it before the first cache pod starts. It cannot be changed while that is under way. Once
    /// it is done, or cache pods have started, it can only be removed, which changes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restore_from: Option<Box<RestoreFrom>>,

    /// Issuer of the certificates that members, operator and database agents use to authenticate each other. Default:
    /// the operator, with a certificate authority for this cluster only. Cannot be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<IdentitySpec>,

    /// How Prometheus finds the pods. Default: no PodMonitor is created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub monitoring: Option<MonitoringSpec>,
}

/// When an image is pulled.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum PullPolicy {
    /// Every time a container starts.
    Always,
    /// When the image is not on the node.
    IfNotPresent,
    /// Never; the image must already be on the node.
    Never,
}

impl PullPolicy {
    /// The word Kubernetes uses.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Always => "Always",
            Self::IfNotPresent => "IfNotPresent",
            Self::Never => "Never",
        }
    }
}

/// How the cache pods work and where they run.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.tls) || !has(self.access) || !has(self.access.clientCa)")
        .message("access.clientCa needs tls: client certificates are presented over TLS only")
)]
pub struct CacheSpec {
    /// Maximum number of read states that one cache pod keeps in memory before it evicts the least recently used users.
    /// With 20 states per user, a state takes about 30 bytes. Applied to running pods; a pod that needs more memory
    /// gets it while it runs, and is replaced only where Kubernetes or its node cannot give it.
    #[serde(default = "default_capacity_states")]
    #[schemars(range(min = 1000, max = 10_000_000_000_i64))]
    pub capacity_states: i64,

    /// Longest time between a change and its write to the database, from 1s to 10m: `30s`,
    /// `1m30s`, `1500ms`.
    #[serde(default = "default_flush_interval")]
    #[schemars(length(max = 16), regex(pattern = r"^([0-9]+(ms|s|m))+$"))]
    #[x_kube(
        validation = Rule::new(flush_interval_rule())
            .message("flushInterval must be between 1s and 10m")
    )]
    pub flush_interval: String,

    /// When a change is written. Adaptive: one second after the change if the database has capacity, at the latest
    /// after flushInterval, so that a crash loses less. Interval: only after flushInterval, which writes fewer rows.
    /// Default: Adaptive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flush_mode: Option<FlushMode>,

    /// What a crash of a cache pod or of its machine may lose. Journal: nothing that was acknowledged; valid only with
    /// database.embedded, on whose volume every change is synced first. Interval: the changes that are not in the
    /// database yet, see flushInterval. Available: nothing with any one cache pod, because each change is in the memory
    /// of a second one before it is acknowledged, if there is one that can have it. Replicated: the same, and changes
    /// that no second cache pod can have are refused. Default: Journal with database.embedded, else Interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub durability: Option<Durability>,

    /// Requests and limits of a cache pod. Default: requests of 100m CPU and the memory needed for `capacityStates`, no
    /// limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,

    /// Labels a node must have to run a cache pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<BTreeMap<String, String>>,

    /// Tolerations of cache pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tolerations: Option<Vec<Toleration>>,

    /// PriorityClass of cache pods. Default: the cluster's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub priority_class_name: Option<String>,

    /// Who may reach the API, as peers of a NetworkPolicy. Default: the pods of this namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 16))]
    pub clients: Option<Vec<NetworkPolicyPeer>>,

    /// Who may call the API. Each caller authenticates with a token, a service account or a client certificate.
    /// Default: any client that can reach it, which the condition ApiOpen reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<AccessSpec>,

    /// Additions to the cache pods: labels, annotations, environment, placement, security.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_template: Option<Box<PodTemplate>>,

    /// The Service through which clients reach the API. Default: ClusterIP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<Box<ServiceSpec>>,

    /// If set, the API (port 7400) accepts only TLS. Default: plain HTTP. Setting or removing it replaces the cache
    /// pods one by one; until the last one is replaced, some pods speak TLS and others do not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<ApiTlsSpec>,
}

impl Default for CacheSpec {
    fn default() -> Self {
        Self {
            capacity_states: default_capacity_states(),
            flush_interval: default_flush_interval(),
            flush_mode: None,
            durability: None,
            resources: None,
            node_selector: None,
            tolerations: None,
            priority_class_name: None,
            clients: None,
            access: None,
            pod_template: None,
            service: None,
            tls: None,
        }
    }
}

/// When a change is written to the database.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushMode {
    /// One second after the change if the database has capacity, at the latest after the interval.
    Adaptive,
    /// Only after the interval.
    Interval,
}

impl FlushMode {
    /// The value of the service's flag.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Adaptive => "adaptive",
            Self::Interval => "interval",
        }
    }
}

/// What survives a crash.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Everything that was acknowledged.
    Journal,
    /// What was written to the database.
    Interval,
    /// Everything that was acknowledged, unless two pods crash together or there was one only.
    Available,
    /// Everything that was acknowledged, unless two pods crash together.
    Replicated,
}

impl Durability {
    /// The value of the service's flag.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Journal => "journal",
            Self::Interval => "interval",
            Self::Available => "available",
            Self::Replicated => "replicated",
        }
    }

    /// Whether slots are to have backups.
    #[must_use]
    pub fn replicates(self) -> bool {
        match self {
            Self::Journal | Self::Interval => false,
            Self::Available | Self::Replicated => true,
        }
    }
}

fn default_replicas() -> i32 {
    3
}

fn default_capacity_states() -> i64 {
    8_000_000
}

/// Shortest and longest [`CacheSpec::flush_interval`], in whole seconds and whole minutes.
pub const FLUSH_INTERVAL: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(10));

fn flush_interval_rule() -> String {
    let (shortest, longest) = FLUSH_INTERVAL;
    format!(
        "!self.matches('^([0-9]{{1,9}}(ms|s|m))+$') || (duration(self) >= duration('{}s') && \
         duration(self) <= duration('{}m'))",
        shortest.as_secs(),
        longest.as_secs() / 60
    )
}

fn default_flush_interval() -> String {
    "30s".to_owned()
}
