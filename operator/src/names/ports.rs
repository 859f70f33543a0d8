//! Port numbers and names.

/// Every address of a pod, of both families.
pub(crate) const ANY: &str = "[::]";

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
pub(crate) const INTERNODE: u16 = 7000;
/// The same over TLS (`ScyllaDB`; Cassandra has one port for both).
pub(crate) const INTERNODE_TLS: u16 = 7001;

/// CQL port on which the driver reaches the shard that owns a row (`ScyllaDB` only).
pub(crate) const SHARD_AWARE: u16 = 19042;

/// The API's port in a pod.
pub(crate) const API_NAME: &str = "api";
/// The API's port in a Service.
pub(crate) const HTTP_NAME: &str = "http";
pub(crate) const MEMBERS_NAME: &str = "members";
pub(crate) const WATCH_NAME: &str = "watch";
/// The watch port in a Service.
pub(crate) const METRICS_NAME: &str = "metrics";
pub(crate) const ADMIN_NAME: &str = "admin";
pub(crate) const CQL_NAME: &str = "cql";
pub(crate) const INTERNODE_NAME: &str = "internode";
pub(crate) const DISK_NAME: &str = "disk";
