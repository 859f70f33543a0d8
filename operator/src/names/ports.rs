//! Port numbers and names.

use k8s_openapi::api::core::v1::ContainerPort;

/// Every address of a pod, of both families.
pub(super) const ANY: &str = "[::]";

/// The API of cache pods.
pub const HTTP: u16 = 7400;
/// The admin port of cache pods.
pub const ADMIN: u16 = 7401;
/// The agent in database pods.
pub const AGENT: u16 = 7402;
/// Hand-offs and forwarded requests between cache pods.
pub const MEMBERS: u16 = 7403;
/// Probes and metrics of cache pods.
pub const WATCH: u16 = 7404;
/// Probes of database pods, answered by the agent.
pub const AGENT_WATCH: u16 = 7405;
/// The agent of the super-disk in database pods: how it is, and its metrics.
pub const DISK: u16 = 9108;
pub const CQL: u16 = 9042;
/// Traffic between database members.
pub(super) const INTERNODE: u16 = 7000;

/// Metrics of `ScyllaDB`.
pub(super) const SCYLLA_METRICS: u16 = 9180;

/// CQL port on which the driver reaches the shard that owns a row (`ScyllaDB` only).
pub(super) const SHARD_AWARE: u16 = 19042;

/// The API's port in a pod.
pub(super) const API_NAME: &str = "api";
/// The API's port in a Service.
pub(super) const HTTP_NAME: &str = "http";
pub(super) const MEMBERS_NAME: &str = "members";
pub(super) const WATCH_NAME: &str = "watch";
/// The watch port in a Service.
pub(super) const METRICS_NAME: &str = "metrics";
pub(super) const ADMIN_NAME: &str = "admin";
pub(super) const CQL_NAME: &str = "cql";
pub(super) const INTERNODE_NAME: &str = "internode";
pub(super) const DISK_NAME: &str = "disk";

pub(super) fn container(name: &str, port: u16) -> ContainerPort {
    ContainerPort {
        name: Some(name.to_owned()),
        container_port: i32::from(port),
        ..ContainerPort::default()
    }
}
