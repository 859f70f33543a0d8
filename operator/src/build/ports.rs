//! Port numbers and names.

use k8s_openapi::api::core::v1::ContainerPort;

/// The API of cache pods.
pub const HTTP: u16 = 7400;
/// The admin port of cache pods.
pub const ADMIN: u16 = 7401;
/// The agent in database pods.
pub const AGENT: u16 = 7402;
/// The agent of the super-disk in database pods: how it is, and its metrics.
pub const DISK: u16 = 9108;
/// CQL.
pub const CQL: u16 = 9042;
/// Traffic between database members.
pub(super) const INTERNODE: u16 = 7000;

/// CQL port on which the driver reaches the shard that owns a row (`ScyllaDB` only).
pub(super) const SHARD_AWARE: u16 = 19042;

pub(super) const HTTP_NAME: &str = "http";
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
