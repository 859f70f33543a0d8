//! `spec.database`: a database that the operator runs, an existing one, or only a volume.

use std::collections::BTreeMap;

use k8s_openapi::api::{
    core::v1::{LocalObjectReference, ResourceRequirements, Toleration},
    networking::v1::NetworkPolicyPeer,
};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::VariantArray;

use crate::{PodTemplate, RepairSpec, SuperDiskSpec, TlsSpec};

/// Where read states are stored: in a database that the operator runs (`engine`, with `replicationFactor`, `racks` and
/// `storage`), in an existing one (`external`), or, for a single cache pod, on that pod's own volume (`embedded`).
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
         || has(self.nodeSelector) || has(self.tolerations) || has(self.priorityClassName) || has(self.podTemplate) \
         || has(self.repair) || has(self.volumesOf) || has(self.agentResources))"
    ).message(
        "replicationFactor, racks, storage, superDisk, reclaim, repair, image, resources, keyspace, secretRef, \
         clients, settings, nodeSelector, tolerations, priorityClassName, podTemplate, volumesOf and agentResources are \
         valid only with engine; external and embedded have their own fields"
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
         behind. Create a new ReadStateCluster"
    ).reason(Reason::FieldValueForbidden),
    validation = Rule::new(
        "!has(self.engine) || (has(self.keyspace) ? self.keyspace : 'readstates') == \
         (has(oldSelf.keyspace) ? oldSelf.keyspace : 'readstates')"
    ).message("keyspace cannot change: the data would stay behind")
        .field_path(".keyspace")
        .reason(Reason::FieldValueForbidden),
    validation = Rule::new("has(self.superDisk) == has(oldSelf.superDisk)")
        .message(
            "superDisk cannot be added or removed: existing volumes cannot be converted. Create a new \
             ReadStateCluster"
        ).reason(Reason::FieldValueForbidden),
    validation = Rule::new(
        "has(self.volumesOf) == has(oldSelf.volumesOf) && (!has(self.volumesOf) || self.volumesOf == oldSelf.volumesOf)"
    ).message(
        "volumesOf cannot change: the database keeps the name that is on its volumes. Create a new ReadStateCluster"
    ).reason(Reason::FieldValueForbidden),
    validation = Rule::new("!has(self.volumesOf) || !has(self.superDisk)")
        .message("volumesOf is not possible with superDisk: a mirror knows the volume that it was made with")
        .field_path(".volumesOf"),
    validation = Rule::new("!has(self.developerMode) || (has(self.engine) && self.engine == 'Scylla')")
        .message("developerMode is valid only with engine Scylla")
        .field_path(".developerMode"),
    validation = Rule::new("!has(self.tls) || !has(self.embedded)")
        .message("tls is valid only with engine or external: an embedded store has no database connections")
        .field_path(".tls"),
    validation = Rule::new("!has(self.tls) || !has(self.external) || has(self.tls.secretName)")
        .message(
            "an external database has its own certificates: set tls.secretName to the Secret with the CA that signed \
             them"
        ).field_path(".tls"),
    validation = Rule::new("!has(self.tls) || !has(self.tls.internode) || has(self.engine)")
        .message("internode is valid only with engine: the nodes of an external database are configured elsewhere")
        .field_path(".tls.internode"),
    validation = Rule::new(
        "!has(self.engine) || (has(self.tls) == has(oldSelf.tls) && (!has(self.tls) || (\
         (has(self.tls.secretName) ? self.tls.secretName : '') == \
         (has(oldSelf.tls.secretName) ? oldSelf.tls.secretName : '') && \
         has(self.tls.issuerRef) == has(oldSelf.tls.issuerRef) && \
         (!has(self.tls.issuerRef) || self.tls.issuerRef == oldSelf.tls.issuerRef))))"
    ).message(
        "tls cannot change with engine, but for internode: while members restart one after another, cache pods could reach \
         only some of them. To replace certificates, update the same Secret; to enable or disable TLS, create a new \
         ReadStateCluster"
    ).reason(Reason::FieldValueForbidden),
    validation = Rule::new(
        "!has(self.engine) || self.engine != 'Scylla' || !has(self.tls) || !has(oldSelf.tls) || \
         (has(self.tls.internode) && self.tls.internode) == (has(oldSelf.tls.internode) && oldSelf.tls.internode)"
    ).message(
        "internode cannot change with engine Scylla: members without it do not listen where members with it connect. Create \
         a new ReadStateCluster"
    ).field_path(".tls.internode").reason(Reason::FieldValueForbidden)
)]
pub struct DatabaseSpec {
    /// The database the operator runs: `Cassandra` or `Scylla`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<Engine>,

    /// Number of members that store each read state. With 3, one member may be lost without any effect on clients. The
    /// operator changes it by one copy at a time, and repairs every member after each step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 9))]
    pub replication_factor: Option<i32>,

    /// Groups of members that fail together, one StatefulSet each; usually one rack per zone. They are started one
    /// after another, in this order. Racks can be added at the end. One is removed in two steps: with `members: 0` its members
    /// leave; then it can be taken off the list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 9))]
    #[x_kube(
        merge_strategy = ListMerge::Map(vec!["name".to_owned()]),
        validation = Rule::new("oldSelf.all(o, o.members == 0 || self.exists(r, r.name == o.name))")
            .message(
                "a rack cannot be removed while it has members, which may hold the only copy of some data: set its members \
                 to 0, wait until they have left, then remove it"
            ),
        validation = Rule::new("self[0].members >= 1")
            .message("the first rack must have a member: new members contact its first member to join"),
        validation = Rule::new("self[0].name == oldSelf[0].name")
            .message("the first rack must stay first: new members contact its first member to join")
    )]
    pub racks: Option<Vec<RackSpec>>,

    /// The volume of each member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<Storage>,

    /// The `ReadStateCluster` whose volumes this one starts with, under another name or in another namespace: copies of
    /// them, or the volumes themselves, bound to claims `data-<name>-db-<rack>-<number>` that you create first. That
    /// `ReadStateCluster` must no longer exist: nodes keep its name and their identities. Default: empty volumes, or
    /// those of an earlier cluster of the same name. Cannot be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volumes_of: Option<VolumesOf>,

    /// Local disks mirrored to that volume, which is then the durable half of the mirror. Cannot be added or removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub super_disk: Option<SuperDiskSpec>,

    /// What happens to the volume of a member that has left. With `Keep`, the default, the volume is kept until its
    /// claim is deleted by hand; until then, no new member can take that place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reclaim: Option<Reclaim>,

    /// Repair of the members' data. Default: every member once in 7 days.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repair: Option<RepairSpec>,

    /// Image of the members. Default: the image the operator was installed with for this engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub image: Option<String>,

    /// Requests and limits of a member. Cassandra's heap is half of the memory limit. ScyllaDB runs one shard per whole
    /// CPU of the limit, each pinned to a CPU of its own if the node assigns exclusive CPUs and requests equal limits.
    /// Default: 1 CPU and 4Gi requested, with a limit of 4Gi; with ScyllaDB, also a limit of 1 CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,

    /// Requests and limits of each of the operator's containers beside a member, over its own: for example
    /// `limits: {cpu: 500m}` where a quota wants a limit of every container. A change restarts members one by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_resources: Option<ResourceRequirements>,

    /// Settings of the engine, by their names in its settings file (`cassandra.yaml`, `scylla.yaml`): for example
    /// `concurrent_writes: "64"`, and with Cassandra `audit_logging_options.enabled: "true"`. A change restarts members
    /// one by one. Settings that the operator manages (names, addresses, ports, folders, tokens, logins, TLS) are
    /// refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxProperties" = 64))]
    pub settings: Option<BTreeMap<String, SettingValue>>,

    /// Labels that a node must have to run members; with a super-disk, select the nodes with local disks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<BTreeMap<String, String>>,

    /// Tolerations of members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub tolerations: Option<Vec<Toleration>>,

    /// PriorityClass of members. Default: the cluster's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub priority_class_name: Option<String>,

    /// Additions to the pods of members: labels, annotations, environment, placement, security.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_template: Option<Box<PodTemplate>>,

    /// Keyspace that holds the read states. Default: `readstates`. Cannot be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 48), regex(pattern = r"^[a-z][a-z0-9_]*$"))]
    pub keyspace: Option<String>,

    /// Secret in this namespace with the keys `username` and `password`: the role that cache pods log in with. The
    /// operator creates the role with this password and with rights on the one table only. When the password in the
    /// Secret changes, it is changed in the database and then rolled out to cache pods one by one. Default: a Secret
    /// `<name>-db-login` that the operator creates once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(
        validation = Rule::new("self.name != ''").message("secretRef.name must not be empty")
    )]
    pub secret_ref: Option<LocalObjectReference>,

    /// ScyllaDB only: skip its disk benchmark and its checks of disk and machine, for laptops and tests. Default:
    /// false. Never use it for data that matters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub developer_mode: Option<bool>,

    /// Use TLS for all CQL connections. Default: no TLS. Cannot be changed with `engine`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsSpec>,

    /// Other clients, besides the cache pods, that may connect to the members over CQL, as peers of a NetworkPolicy.
    /// Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 16))]
    pub clients: Option<Vec<NetworkPolicyPeer>>,

    /// An existing CQL database. The keyspace is created if it is missing; an existing one is verified and never
    /// altered. The operator creates the tables in it and claims the keyspace for this cluster only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<ExternalSpec>,

    /// No database: the one cache pod keeps the read states on its own volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub embedded: Option<EmbeddedSpec>,
}

/// A `ReadStateCluster` that no longer exists.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct VolumesOf {
    /// Namespace of that `ReadStateCluster`.
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    )]
    pub namespace: String,

    /// Name of that `ReadStateCluster`.
    #[schemars(
        length(min = 1, max = 40),
        regex(pattern = r"^[a-z]([-a-z0-9]*[a-z0-9])?$")
    )]
    pub name: String,
}

/// A setting's value: no spaces and no characters that a shell interprets.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(transparent)]
pub struct SettingValue(
    #[schemars(length(min = 1, max = 256), regex(pattern = r"^[A-Za-z0-9_.,:/%+-]+$"))] pub String,
);

/// What happens to a volume that is no longer needed.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reclaim {
    /// The claim is kept.
    #[default]
    Keep,
    /// The claim is deleted once other members have confirmed that the member has left. Requires the chart value
    /// `rbac.deleteVolumeClaims`.
    Delete,
}

/// A CQL database engine.
#[derive(Serialize, Deserialize, JsonSchema, VariantArray, Clone, Copy, Debug, PartialEq, Eq)]
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
    ).message("zone cannot change: the members' volumes stay in the zone where they were created")
        .reason(Reason::FieldValueForbidden)
)]
pub struct RackSpec {
    /// Name of the rack in the database; also part of its pod names.
    #[schemars(
        length(min = 1, max = 24),
        regex(pattern = r"^[a-z]([-a-z0-9]*[a-z0-9])?$")
    )]
    pub name: String,

    /// Number of members (pods) in this rack. When it is lowered, the last member streams its data to the others and
    /// leaves the database before its pod is removed; if that is not safe, nothing is done and the status says why.
    /// Members join and leave one at a time. With 0 all of them leave; then the rack can be removed from the list.
    #[serde(default = "default_members")]
    #[schemars(range(min = 0, max = 32))]
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
    validation = Rule::new("quantity(self.size).compareTo(quantity(oldSelf.size)) >= 0")
        .message("size cannot shrink: no volume can. Add members with smaller volumes, or create a new ReadStateCluster")
        .field_path(".size")
        .reason(Reason::FieldValueForbidden),
    validation = Rule::new(
        "has(self.storageClassName) == has(oldSelf.storageClassName) && \
         (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)"
    ).message("storageClassName cannot change: the data would stay on the old volumes")
        .reason(Reason::FieldValueForbidden)
)]
pub struct Storage {
    /// Size of the volume, for example `100Gi`. For a database that the operator runs it can be raised, if the StorageClass
    /// allows volumes to expand; volumes never shrink. With `superDisk` they grow one after another.
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

/// A database that the operator does not run.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ExternalSpec {
    /// Host names or addresses of some members, without port and without brackets; the driver discovers the others from
    /// them.
    #[schemars(
        length(min = 1, max = 16),
        inner(
            length(min = 1, max = 253),
            regex(
                pattern = r"^([a-zA-Z0-9]([-a-zA-Z0-9.]*[a-zA-Z0-9])?|[0-9a-fA-F]*:[0-9a-fA-F]*:[0-9a-fA-F:.]*)$"
            )
        )
    )]
    pub contact_points: Vec<String>,

    /// CQL port of every member.
    #[serde(default = "default_port")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,

    /// Keyspace that holds the read states; created if it is missing. Cannot be changed.
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

    /// Minimum number of members of that data center that store each read state. A missing keyspace is created with
    /// this number; an existing one with fewer replicas is refused and never altered.
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
#[x_kube(
    validation = Rule::new("self.storage.size == oldSelf.storage.size")
        .message("the size of the volume of an embedded store cannot change: back it up, and restore it into a larger one")
        .field_path(".storage.size")
        .reason(Reason::FieldValueForbidden)
)]
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
