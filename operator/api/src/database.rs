//! `spec.database`: a database the operator runs, one that is there already, or none but a volume.

use std::collections::BTreeMap;

use k8s_openapi::api::{
    core::v1::{LocalObjectReference, ResourceRequirements, Toleration},
    networking::v1::NetworkPolicyPeer,
};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{PodTemplate, SuperDiskSpec, TlsSpec};

/// Where read states are kept: in a database the operator runs (`engine`, with `replicationFactor`,
/// `racks` and `storage`), in one that is there already (`external`), or, for a single cache pod, on that
/// pod's own volume (`embedded`).
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new(
        "[has(self.engine), has(self.external), has(self.embedded)].exists_one(x, x)"
    ).message("exactly one of engine, external and embedded must be set"),
    validation = Rule::new("!has(self.engine) || has(self.replicationFactor)")
        .message("replicationFactor is required with engine")
        .field_path(".replicationFactor")
        .reason(Reason::FieldValueRequired),
    validation = Rule::new("!has(self.engine) || has(self.racks)")
        .message("racks is required with engine")
        .field_path(".racks")
        .reason(Reason::FieldValueRequired),
    validation = Rule::new("!has(self.engine) || has(self.storage)")
        .message("storage is required with engine")
        .field_path(".storage")
        .reason(Reason::FieldValueRequired),
    validation = Rule::new(
        "has(self.engine) || !(has(self.replicationFactor) || has(self.racks) || has(self.storage) \
         || has(self.superDisk) || has(self.reclaim) || has(self.image) || has(self.resources) \
         || has(self.keyspace) || has(self.secretRef) || has(self.clients) || has(self.settings) \
         || has(self.nodeSelector) || has(self.tolerations) || has(self.priorityClassName) || has(self.podTemplate))"
    ).message(
        "replicationFactor, racks, storage, superDisk, reclaim, image, resources, keyspace, secretRef, clients, \
         settings, nodeSelector, tolerations, priorityClassName and podTemplate go with engine only; external and embedded have \
         fields of their own"
    ),
    validation = Rule::new(
        "!has(self.racks) || !has(self.replicationFactor) || self.replicationFactor <= \
         self.racks.map(r, r.members).sum()"
    ).message("replicationFactor must not exceed the members of all racks together")
        .field_path(".replicationFactor"),
    validation = Rule::new(
        "has(self.engine) == has(oldSelf.engine) && has(self.external) == has(oldSelf.external) && \
         (!has(self.engine) || self.engine == oldSelf.engine)"
    ).message(
        "the kind of database (engine, external or embedded) cannot change: the data would stay \
         behind. Make a new ReadStateCluster"
    ).reason(Reason::FieldValueForbidden),
    validation = Rule::new(
        "!has(self.engine) || (has(self.keyspace) ? self.keyspace : 'readstates') == \
         (has(oldSelf.keyspace) ? oldSelf.keyspace : 'readstates')"
    ).message("keyspace cannot change: the data would stay behind")
        .field_path(".keyspace")
        .reason(Reason::FieldValueForbidden),
    validation = Rule::new(
        "!has(self.replicationFactor) || !has(oldSelf.replicationFactor) || \
         self.replicationFactor == oldSelf.replicationFactor"
    ).message(
        "replicationFactor cannot change: without a repair of every member, which the operator does \
         not run, reads would miss data"
    ).field_path(".replicationFactor").reason(Reason::FieldValueForbidden),
    validation = Rule::new("has(self.superDisk) == has(oldSelf.superDisk)")
        .message(
            "superDisk cannot be added or removed: the volumes are made with it or without it. Make a new \
             ReadStateCluster"
        ).reason(Reason::FieldValueForbidden),
    validation = Rule::new("!has(self.developerMode) || (has(self.engine) && self.engine == 'Scylla')")
        .message("developerMode goes with engine Scylla only")
        .field_path(".developerMode"),
    validation = Rule::new("!has(self.tls) || !has(self.embedded)")
        .message("tls goes with engine and external only: an embedded store is spoken to by nobody")
        .field_path(".tls"),
    validation = Rule::new("!has(self.tls) || !has(self.external) || has(self.tls.secretName)")
        .message(
            "an external database has its certificates: name the Secret with the CA that signed them in tls.secretName"
        ).field_path(".tls"),
    validation = Rule::new(
        "!has(self.engine) || (has(self.tls) == has(oldSelf.tls) && (!has(self.tls) || self.tls == oldSelf.tls))"
    ).message(
        "tls cannot change with engine: while members change one after another, cache pods would reach only some of \
         them. Put other certificates into the same Secret; to begin or end TLS make a new ReadStateCluster"
    ).reason(Reason::FieldValueForbidden)
)]
pub struct DatabaseSpec {
    /// The database the operator runs: `Cassandra` or `Scylla`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<Engine>,

    /// On how many members each read state is kept. With 3, one may be lost without anybody
    /// noticing. Cannot be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 9))]
    pub replication_factor: Option<i32>,

    /// Groups of members that fail together, one StatefulSet each; usually one rack a zone. Started
    /// one after another, in this order; racks can be added at the end, never removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 9))]
    #[x_kube(
        merge_strategy = ListMerge::Map(vec!["name".to_owned()]),
        validation = Rule::new("oldSelf.all(o, self.exists(r, r.name == o.name))")
            .message("a rack cannot be removed: its members hold data that nobody else may have"),
        validation = Rule::new("self[0].name == oldSelf[0].name")
            .message("the first rack must stay first: its first member is where new members ask their way")
    )]
    pub racks: Option<Vec<RackSpec>>,

    /// The volume of each member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<Storage>,

    /// Local disks in front of that volume, which then is the durable half of a mirror. Cannot be added or
    /// removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub super_disk: Option<SuperDiskSpec>,

    /// What becomes of the volume of a member that has left. With `Keep`, the default, it stays until somebody
    /// deletes its claim, and until then no new member takes that place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reclaim: Option<Reclaim>,

    /// Image of the members. Default: the image the operator was installed with for this engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub image: Option<String>,

    /// Requests and limits of a member. Half of the memory limit becomes Cassandra's heap; whole
    /// CPUs of the limit become ScyllaDB's shards, pinned to CPUs of their own where the node hands them out
    /// and requests equal limits. Default: 1 CPU and 4Gi requested, 4Gi as limit; with ScyllaDB 1 CPU, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,

    /// Settings of the engine, by their names in its settings file (`cassandra.yaml`, `scylla.yaml`): for example
    /// `concurrent_writes: "64"`, and with Cassandra `audit_logging_options.enabled: "true"`. Other settings restart
    /// members one by one. What the operator sets itself (names, addresses, ports, folders, tokens, logins, TLS)
    /// is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxProperties" = 64))]
    pub settings: Option<BTreeMap<String, SettingValue>>,

    /// Labels that nodes must have to run members: with a super-disk those with local disks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<BTreeMap<String, String>>,

    /// Taints of nodes that members accept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub tolerations: Option<Vec<Toleration>>,

    /// PriorityClass of members. Default: the cluster's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub priority_class_name: Option<String>,

    /// What is laid over the pods of members: labels, annotations, environment, placement, security.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_template: Option<Box<PodTemplate>>,

    /// Keyspace that holds the read states. Default: `readstates`. Cannot be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 48), regex(pattern = r"^[a-z][a-z0-9_]*$"))]
    pub keyspace: Option<String>,

    /// Secret in this namespace with the keys `username` and `password`: the role that cache pods log in
    /// with. The role is made, with rights on the one table, and given the password; another password in
    /// the Secret is set in the database and then handed to cache pods one by one. Default: a Secret
    /// `<name>-db-login` that the operator makes once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(
        validation = Rule::new("self.name != ''").message("secretRef.name must not be empty")
    )]
    pub secret_ref: Option<LocalObjectReference>,

    /// ScyllaDB only: skip its checks of disk and machine and measure no disk, for laptops and tests. Default: false.
    /// Never for data that anybody misses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub developer_mode: Option<bool>,

    /// Speak CQL over TLS, and over nothing else. Default: in the clear. With `engine` it cannot be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsSpec>,

    /// Who may speak CQL with the members beside the cache pods, as peers of a NetworkPolicy. Default:
    /// nobody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 16))]
    pub clients: Option<Vec<NetworkPolicyPeer>>,

    /// A CQL database that is there already. The keyspace is made when it is missing, and verified and never altered
    /// when it is there; the tables in it are made, and the keyspace is claimed for this cluster alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<ExternalSpec>,

    /// No database: the one cache pod keeps the read states on its own volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub embedded: Option<EmbeddedSpec>,
}

/// A setting's value: no spaces and nothing that a shell would read.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(transparent)]
pub struct SettingValue(
    #[schemars(length(min = 1, max = 256), regex(pattern = r"^[A-Za-z0-9_.,:/%+-]+$"))] pub String,
);

/// What becomes of a volume that is not needed any more.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reclaim {
    /// Its claim stays.
    #[default]
    Keep,
    /// Its claim is deleted, once other members have confirmed that the member has left. The operator
    /// needs the chart's value `rbac.deleteVolumeClaims` for it.
    Delete,
}

/// A CQL database engine.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// Apache Cassandra 5.
    Cassandra,
    /// ScyllaDB.
    Scylla,
}

/// One rack of the database.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new(
        "has(self.zone) == has(oldSelf.zone) && (!has(self.zone) || self.zone == oldSelf.zone)"
    ).message("zone cannot change: the members' volumes stay in the zone they were made in")
        .reason(Reason::FieldValueForbidden)
)]
pub struct RackSpec {
    /// Name of the rack, as the database knows it; part of the names of its pods.
    #[schemars(
        length(min = 1, max = 24),
        regex(pattern = r"^[a-z]([-a-z0-9]*[a-z0-9])?$")
    )]
    pub name: String,

    /// Members (pods) in this rack. When it is lowered, the last member gives its data to the others and
    /// leaves the database before its pod goes; where that is not safe, the status says why and nothing is
    /// done. One member at a time joins or leaves.
    #[serde(default = "default_members")]
    #[schemars(range(min = 1, max = 32))]
    pub members: i32,

    /// Zone (node label `topology.kubernetes.io/zone`) that this rack's pods must run in. Default:
    /// any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub zone: Option<String>,
}

/// A volume. Volumes are kept when the `ReadStateCluster` is deleted.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.size == oldSelf.size")
        .message("size cannot change: Kubernetes keeps the volume templates of a StatefulSet as they were")
        .field_path(".size")
        .reason(Reason::FieldValueForbidden),
    validation = Rule::new(
        "has(self.storageClassName) == has(oldSelf.storageClassName) && \
         (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)"
    ).message("storageClassName cannot change: the data would stay on the old volumes")
        .reason(Reason::FieldValueForbidden)
)]
pub struct Storage {
    /// Size of the volume, for example `100Gi`. Cannot be changed.
    #[schemars(length(min = 1, max = 32))]
    #[x_kube(
        validation = Rule::new("isQuantity(self) && quantity(self).isGreaterThan(quantity('0'))")
            .message("size must be a quantity above zero, such as 100Gi")
    )]
    pub size: String,

    /// StorageClass of the volume. Default: the cluster's default class. Cannot be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub storage_class_name: Option<String>,
}

/// A database that somebody else runs.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ExternalSpec {
    /// Host names or addresses of some members, without port; the others are found from them.
    #[schemars(
        length(min = 1, max = 16),
        inner(
            length(min = 1, max = 253),
            regex(pattern = r"^[a-zA-Z0-9]([-a-zA-Z0-9.]*[a-zA-Z0-9])?$")
        )
    )]
    pub contact_points: Vec<String>,

    /// CQL port of every member.
    #[serde(default = "default_port")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,

    /// Keyspace that holds the read states; made when it is missing. Cannot be changed.
    #[serde(default = "default_keyspace")]
    #[schemars(length(max = 48), regex(pattern = r"^[a-z][a-z0-9_]*$"))]
    #[x_kube(
        validation = Rule::new("self == oldSelf")
            .message("keyspace cannot change: the data would stay behind")
            .reason(Reason::FieldValueForbidden)
    )]
    pub keyspace: String,

    /// Data center that serves this cluster's reads and writes, as the database names it.
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[a-zA-Z0-9_.-]+$"))]
    pub local_datacenter: String,

    /// On how many members of that data center each read state is kept, at least. A keyspace that is missing is made
    /// with so many; one that keeps fewer is refused and never altered.
    #[schemars(range(min = 1, max = 9))]
    pub replication_factor: i32,

    /// Secret in this namespace with the keys `username` and `password`. Default: no login.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(
        validation = Rule::new("self.name != ''").message("secretRef.name must not be empty")
    )]
    pub secret_ref: Option<LocalObjectReference>,
}

/// The cache pod's own volume as the only store.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct EmbeddedSpec {
    /// The volume. Default: 10Gi of the cluster's default class.
    #[serde(default = "default_embedded_storage")]
    pub storage: Storage,
}

fn default_members() -> i32 {
    1
}

fn default_port() -> i32 {
    9042
}

fn default_keyspace() -> String {
    crate::DEFAULT_KEYSPACE.to_owned()
}

fn default_embedded_storage() -> Storage {
    Storage {
        size: "10Gi".to_owned(),
        storage_class_name: None,
    }
}
