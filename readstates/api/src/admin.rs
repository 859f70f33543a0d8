//! Bodies of the admin port: what the operator reads and asks of one member.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Body of `GET /admin/v1/status`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MemberStatus {
    /// The member's name.
    pub member: String,
    /// The process behind the name: 16 hexadecimal digits, drawn at start.
    pub incarnation: String,
    /// The ring it works by.
    pub ring_number: u64,
    /// Users in the cache.
    pub users: u64,
    /// Read states in the cache; a user without states counts as one.
    pub states: u64,
    /// Users whose last change is not in the database yet.
    pub dirty_users: u64,
    /// Age of the oldest change that is not in the database; `null` when there is none.
    #[schema(required)]
    pub oldest_dirty_seconds: Option<f64>,
    /// How many states the cache keeps at most.
    pub capacity_states: u64,
    /// The store under the cache.
    pub store: StoreStatus,
}

/// The store under a member's cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StoreStatus {
    /// Which kind of store.
    pub kind: StoreKind,
    /// Whether it answered when last asked.
    pub healthy: bool,
    /// What it answered instead, when not healthy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The kinds of stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum StoreKind {
    /// The memory of the process; gone with it.
    Memory,
    /// A database in a folder of the member's own.
    Embedded,
    /// A CQL database: Cassandra or ScyllaDB.
    Cql,
}

impl StoreKind {
    /// The kind as it is written in JSON and in metric labels.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Embedded => "embedded",
            Self::Cql => "cql",
        }
    }
}

/// Answer to `POST /admin/v1/flush`, sent once everything that was dirty at the call has been written
/// or has failed to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FlushAnswer {
    /// Users written.
    pub flushed_users: u64,
    /// Users whose write failed; they stay dirty and are tried again.
    pub failed_users: u64,
}

/// Body of `PUT /admin/v1/capacity`, and its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Capacity {
    /// How many states the cache keeps at most, from 1.
    #[schema(minimum = 1)]
    pub states: u64,
}
